# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_compare import (
    Change,
    compare,
    pair_hosts,
    regressions,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import HostResult
from report_data import make_fact


def host(name: str = "a", **changes: Any) -> HostResult:
    return HostResult(name, "measured", "", make_fact(**changes))


def cells(changes: list[Change], **wanted: Any) -> list[Change]:
    return [change for change in changes if wanted.items() <= {**change.__dict__, **change.labels}.items()]


def test_the_same_host_twice_has_no_change() -> None:
    changes = compare([("a", host(), host())])
    assert {change.verdict for change in changes} == {"the same", "exact", "not supported"}
    assert all(change.reason for change in changes if change.verdict == "not supported")
    assert regressions(changes, 0.0) == []


def test_two_quiet_runs_have_no_false_alarm() -> None:
    changes = compare([("a", host(seed=1), host(seed=2))])
    assert not cells(changes, verdict="worse")
    assert not cells(changes, verdict="better")


def test_slower_programs_are_found_and_only_they() -> None:
    changes = compare([("a", host(seed=1), host(seed=2, worse=1.3))])
    worse = regressions(changes, 5.0)
    found = {(c.benchmark, c.metric, c.labels["mode"]) for c in worse if c.verdict == "worse"}
    assert ("fetcharg", "overhead", "bpf") in found
    assert {mode for _benchmark, _metric, mode in found} == {"bpf"}
    three = cells(worse, metric="overhead", kind="kprobe", nargs=3)[0]
    assert three.percent == pytest.approx(30, abs=3)
    assert three.p is not None and three.p < 0.01
    assert three.effect == 1.0
    assert not [change for change in regressions(changes, 40.0) if change.verdict == "worse"]


def test_a_higher_rate_is_better_and_a_longer_time_worse() -> None:
    changes = compare([("a", host(seed=1), host(seed=2, speed=2.0))])
    assert {change.verdict for change in cells(changes, benchmark="parallel", metric="rate")} == {"better"}
    assert {change.verdict for change in cells(changes, benchmark="latency")} == {"better"}


def test_units_are_never_compared() -> None:
    (change,) = compare([("a", host(), host(clock="instructions"))])
    assert change.verdict == "other clock"
    assert "A is in ns, B in instructions: these are never compared" in change.reason
    assert regressions([change], 5.0) == [change]


def test_what_one_side_lacks_is_said() -> None:
    failed = host()
    assert failed.fact is not None
    failed.benchmarks["latency"].update(status="failed", reason="killed", rows=[])
    changes = compare([("a", host(), failed)])
    assert [c.reason for c in cells(changes, benchmark="latency", metric="")] == ["failed: killed"]
    # A gate must not be passed by not measuring.
    lost = cells(regressions(changes, 5.0), benchmark="latency", verdict="nothing in B")
    assert len(lost) == 37


def test_a_host_without_a_fact_is_one_line() -> None:
    (change,) = compare([("a", host(), HostResult("a", "unreachable", "no route"))])
    assert (change.verdict, change.reason) == ("nothing in B", "no route")


def test_three_rounds_decide_nothing() -> None:
    short = host()
    for row in short.benchmarks["latency"]["rows"]:
        row["samples"] = row["samples"][:3]
    other = copy.deepcopy(short)
    for row in other.benchmarks["latency"]["rows"]:
        row.update(samples=[sample * 9 for sample in row["samples"]], median=row["median"] * 9)
    found = cells(compare([("a", short, other)]), benchmark="latency")
    assert {change.verdict for change in found} == {"too few rounds"}
    assert found[0].reason == "3 and 3 rounds cannot show a difference"


def test_p_values_are_adjusted_for_their_number() -> None:
    changes = compare([("a", host(seed=3), host(seed=4, worse=1.3))])
    tested = [change.p for change in changes if change.p is not None]
    # One cell alone would have 1.08e-5; among hundreds it counts for less.
    assert min(tested) > 2e-5


def test_hosts_pair_by_name_and_a_single_one_with_a_single_one() -> None:
    a, b, c = (HostResult(name, "no fact", "x") for name in "abc")
    assert [name for name, _a, _b in pair_hosts([a, b], [b, c])] == ["a", "b", "c"]
    assert [name for name, _a, _b in pair_hosts([a], [b])] == ["a → b"]
    assert [name for name, _a, _b in pair_hosts([a], [a])] == ["a"]
    with pytest.raises(FleetError, match="X and Y have no host in common: a, b and c"):
        pair_hosts([a, b], [c], "X", "Y")


def test_a_change_from_nothing_has_no_percentage_but_counts() -> None:
    a, b = host(), host()
    for side, value in ((a, 0.0), (b, 10.0)):
        row = side.rows("latency", "run_time", hook="base", load="full", percentile="p50")[0]
        row.update(samples=[value] * 10, median=value, low=value, high=value)
    worse = [change for change in regressions(compare([("a", a, b)]), 5.0) if change.verdict == "worse"]
    assert [(change.percent, change.labels["hook"]) for change in worse] == [(None, "base")]
