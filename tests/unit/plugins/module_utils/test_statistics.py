# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.statistics import median_interval


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Ranks of the 95 % interval of a median, from the binomial tables in any textbook.
    [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (11, 2, 10), (15, 4, 12), (20, 6, 15), (30, 10, 21), (50, 18, 33)],
)
def test_ranks_are_those_of_the_binomial_tables(count: int, low: int, high: int) -> None:
    samples = list(range(count, 0, -1))
    assert median_interval(samples) == ((count + 1) / 2, low, high)


def test_too_few_samples_give_their_extremes() -> None:
    assert median_interval([4.0]) == (4.0, 4.0, 4.0)
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)


def test_one_outlier_moves_nothing() -> None:
    samples = [10.0] * 19 + [1000.0]
    assert median_interval(samples) == (10.0, 10.0, 10.0)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])
