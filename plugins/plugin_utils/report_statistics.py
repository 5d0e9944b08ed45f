# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics of many hosts and of two runs; the tests themselves are SciPy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

ALPHA = 0.05
# A host is an outlier when it is this many robust standard deviations from the fleet's median.
OUTLIER = 3.5
# The median absolute deviation of a normal distribution, as a share of its standard deviation.
_MAD_SIGMA = 1.4826
# Where half of the fleet agrees to the last digit the deviation is 0; then this share of the median is far.
_FAR_SHARE = 0.01
_MANY_SAMPLES = 60
# Fewer hosts have no "most of them" to differ from.
_FEW_HOSTS = 4


def _scipy_stats():  # type: ignore[no-untyped-def]
    try:
        from scipy import stats
    except ImportError as exc:
        raise FleetError(f"the report needs SciPy on the controller ({exc}): pip install -r requirements.txt") from exc
    return stats


@dataclass(frozen=True)
class Difference:
    """Result of a two-sided Mann-Whitney U test.

    ``effect`` is Cliff's delta: +1 when every sample of b is above every sample
    of a, -1 when below, 0 when neither is larger more often.
    """

    p: float
    effect: float


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Return how sure it is that ``a`` and ``b`` differ, and how far they are apart."""
    if not a or not b:
        raise ValueError("no samples")
    if len({*a, *b}) == 1:
        return Difference(1.0, 0.0)
    # Ties have no exact distribution; with many samples the normal one is as good.
    exact = len({*a, *b}) == len(a) + len(b) and len(a) + len(b) <= _MANY_SAMPLES
    method = "exact" if exact else "asymptotic"
    result = _scipy_stats().mannwhitneyu(b, a, alternative="two-sided", method=method)
    return Difference(float(result.pvalue), 2 * float(result.statistic) / (len(a) * len(b)) - 1)


def can_decide(a: int, b: int) -> bool:
    """Whether ``a`` and ``b`` samples can be significantly different at all, however far apart they are."""
    smallest = _scipy_stats().mannwhitneyu(range(a), range(a, a + b), method="exact").pvalue if a and b else 1.0
    return bool(smallest < ALPHA)


def adjust(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number (Benjamini-Hochberg): of those below ALPHA, ALPHA are false alarms."""
    if not p_values:
        return []
    return [float(value) for value in _scipy_stats().false_discovery_control(list(p_values))]


@dataclass(frozen=True)
class Spread:
    """How far the hosts of a fleet are apart; ``outliers`` are host names."""

    hosts: int
    median: float
    mad: float
    lowest: tuple[str, float]
    highest: tuple[str, float]
    outliers: list[str]


def spread(values: Mapping[str, float]) -> Spread:
    """Return median, median absolute deviation, extremes and outliers of a value of each host."""
    if not values:
        raise ValueError("no hosts")
    middle = median(values.values())
    mad = median(abs(value - middle) for value in values.values())
    limit = OUTLIER * _MAD_SIGMA * mad if mad else _FAR_SHARE * abs(middle)
    far = [name for name, value in values.items() if abs(value - middle) > limit]
    return Spread(
        hosts=len(values),
        median=middle,
        mad=mad,
        lowest=min(values.items(), key=lambda item: item[1]),
        highest=max(values.items(), key=lambda item: item[1]),
        outliers=far if len(values) >= _FEW_HOSTS else [],
    )
