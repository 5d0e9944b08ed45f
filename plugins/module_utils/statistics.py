# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few statistics a target computes itself, with the standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Return median, lower and upper bound of its confidence interval, in the samples' unit.

    The bounds are order statistics (binomial, no assumption about the
    distribution). Fewer than six samples cannot give 95 %: the bounds are then
    the extremes.

    >>> median_interval([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    (5.5, 2, 9)
    """
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    count = len(ordered)
    tail, rank = 0.0, 0
    while rank < (count - 1) // 2:
        tail += comb(count, rank) / 2**count
        if tail > (1 - confidence) / 2:
            break
        rank += 1
    rank = max(rank - 1, 0)
    return median(ordered), ordered[rank], ordered[count - 1 - rank]
