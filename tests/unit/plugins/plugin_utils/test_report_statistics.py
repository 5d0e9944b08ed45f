# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import sys

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_statistics import (
    adjust,
    can_decide,
    mann_whitney,
    spread,
)


def test_the_exact_test_is_the_textbooks() -> None:
    # All ten of one side below all ten of the other: one of C(20, 10) orders, counted on both sides.
    found = mann_whitney(range(10), range(10, 20))
    assert found.p == pytest.approx(2 / math.comb(20, 10))
    assert found.effect == 1.0
    assert mann_whitney(range(10, 20), range(10)).effect == -1.0


def test_a_worked_example() -> None:
    # Tortoises and hares, U = 11 of 36 (25 for the other side): two-sided exact p = 0.3095.
    tortoises, hares = (1, 7, 8, 9, 10, 11), (2, 3, 4, 5, 6, 12)
    found = mann_whitney(tortoises, hares)
    assert found.p == pytest.approx(0.3095, abs=0.0001)
    assert found.effect == pytest.approx(2 * 11 / 36 - 1)


def test_what_is_equal_does_not_differ() -> None:
    found = mann_whitney([5.0] * 10, [5.0] * 10)
    assert (found.p, found.effect) == (1.0, 0.0)


def test_constants_that_differ_are_told_apart() -> None:
    # Under an instruction count every round is the same number.
    found = mann_whitney([454.0] * 10, [455.0] * 10)
    assert found.p < 0.001
    assert found.effect == 1.0


def test_an_outlier_alone_decides_nothing() -> None:
    assert mann_whitney([1.0] * 10, [1.0] * 9 + [1000.0]).p > 0.05


def test_no_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        mann_whitney([], [1.0])


@pytest.mark.parametrize(
    ("a", "b", "able"), [(3, 3, False), (4, 4, True), (1, 30, False), (2, 10, True), (0, 5, False)]
)
def test_too_few_rounds_can_show_nothing(a: int, b: int, able: bool) -> None:
    # 4 and 4: 2 / C(8, 4) = 0.029; 3 and 3: 0.1.
    assert can_decide(a, b) is able


def test_adjusted_p_values_are_benjamini_and_hochbergs() -> None:
    assert adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert adjust([]) == []


def test_spread_and_its_outlier() -> None:
    found = spread({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 100.0})
    assert (found.median, found.mad, found.lowest, found.highest) == (3.0, 1.0, ("a", 1.0), ("e", 100.0))
    assert found.outliers == ["e"]


def test_where_most_agree_exactly_one_per_cent_is_far() -> None:
    assert spread({"a": 454.0, "b": 454.0, "c": 454.0, "d": 455.0}).outliers == []
    assert spread({"a": 454.0, "b": 454.0, "c": 454.0, "d": 470.0}).outliers == ["d"]


def test_few_hosts_have_no_outlier() -> None:
    assert spread({"a": 1.0, "b": 1.0, "c": 900.0}).outliers == []
    with pytest.raises(ValueError, match="no hosts"):
        spread({})


def test_without_scipy_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(FleetError, match="needs SciPy on the controller .*pip install -r requirements.txt"):
        mann_whitney([1.0], [2.0])
