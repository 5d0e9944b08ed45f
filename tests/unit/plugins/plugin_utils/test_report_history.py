# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_history import History, hosts_of
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import HostResult
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_sides import hosts_of_side
from report_data import make_fact

FIRST, SECOND, THIRD = (f"2026-11-{day}T18-00-00Z" for day in (28, 29, 30))


def report(**facts: dict[str, Any] | None) -> str:
    hosts = [
        {"name": name, "state": "measured" if fact else "no fact", "reason": "" if fact else "none", "fact": fact}
        for name, fact in facts.items()
    ]
    return json.dumps({"schema": 1, "hosts": hosts})


@pytest.fixture
def history(tmp_path: Path) -> History:
    found = History(str(tmp_path / "runs"))
    found.write(FIRST, {"report.json": report(a=make_fact(kernel="old"), b=make_fact(kernel="old"))})
    found.write(SECOND, {"report.json": report(a=make_fact(kernel="new"), b=None)})
    return found


def test_runs_are_listed_by_age_and_nothing_else_is(history: History) -> None:
    Path(history.path, "notes").mkdir()
    Path(history.path, "2026-01-01T00-00-00Z").mkdir()
    assert history.names() == [FIRST, SECOND]
    for number in (2, 10):
        history.write(f"{SECOND}-{number}", {"report.json": report()})
    assert history.names() == [FIRST, SECOND, f"{SECOND}-2", f"{SECOND}-10"]


def test_no_folder_yet_is_no_runs(tmp_path: Path) -> None:
    empty = History(str(tmp_path / "none"))
    assert empty.names() == []
    with pytest.raises(FleetError, match="holds no run yet, so there is no latest"):
        empty.load("latest")


def test_latest_points_to_the_newest(history: History) -> None:
    assert Path(history.path, "latest").readlink() == Path(SECOND)
    assert history.resolve("latest").endswith(f"{SECOND}/report.json")


def test_a_second_run_in_one_second_has_another_name(history: History) -> None:
    assert history.free_name("2026-11-29T18:00:00Z") == f"{SECOND}-2"
    assert history.free_name("2026-11-30T18:00:00Z") == THIRD


def test_a_run_can_be_named_by_path(history: History, tmp_path: Path) -> None:
    assert history.resolve(f"{history.path}/{FIRST}") == history.file(FIRST)
    assert history.resolve(history.file(FIRST)) == history.file(FIRST)
    with pytest.raises(FleetError, match=f"holds no run {THIRD}; it holds {FIRST}, {SECOND}"):
        history.resolve(THIRD)
    with pytest.raises(FleetError, match="nonsense is neither a run of"):
        history.resolve("nonsense")


def test_a_failed_write_leaves_nothing(history: History) -> None:
    with pytest.raises(TypeError):
        history.write(THIRD, {"report.json": report(), "report.html": None})  # type: ignore[dict-item]
    assert history.names() == [FIRST, SECOND]
    assert sorted(path.name for path in Path(history.path).iterdir()) == [FIRST, SECOND, "latest"]


def test_keep_counts_from_the_newest_and_spares_the_needed(history: History) -> None:
    history.write(THIRD, {"report.json": report()})
    assert history.surplus(1) == [FIRST, SECOND]
    assert history.surplus(2, [FIRST]) == []
    history.remove(FIRST)
    assert history.names() == [SECOND, THIRD]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "not a report of schema 1"),
        ('{"schema": 7, "hosts": []}', "not a report of schema 1"),
        ('{"schema": 1, "hosts": [{"name": "a"}]}', "a host without name, state, reason or fact"),
        (
            '{"schema": 1, "hosts": [{"name": "a", "state": "", "reason": "", "fact": {"schema": 1}}]}',
            "host a: fact.schema",
        ),
    ],
)
def test_a_damaged_run_is_named(history: History, text: str, problem: str) -> None:
    path = history.file(FIRST)
    Path(path).write_text(text)
    with pytest.raises(FleetError, match=problem) as caught:
        hosts_of(history.load(FIRST), path)
    assert path in str(caught.value)


def names(hosts: list[HostResult]) -> list[str]:
    return [host.name for host in hosts]


def test_sides_of_a_comparison(history: History) -> None:
    here = [HostResult("a", "measured", "", make_fact(kernel="newest")), HostResult("c", "no fact", "x")]
    assert hosts_of_side("this", history, here) == here
    assert names(hosts_of_side("this@c", history, here)) == ["c"]
    assert names(hosts_of_side(FIRST, history, here)) == ["a", "b"]
    assert names(hosts_of_side(f"{history.path}/{FIRST}@b", history, here)) == ["b"]
    with pytest.raises(FleetError, match="run latest has no host x; it has a, b"):
        hosts_of_side("latest@x", history, here)


def test_a_kernel_is_each_hosts_newest_result_on_it(history: History) -> None:
    here = [HostResult("a", "measured", "", make_fact(kernel="new", seed=7))]
    (found,) = hosts_of_side("kernel:new", history, here)
    assert found is here[0]
    assert names(hosts_of_side("kernel:old", history, here)) == ["a", "b"]
    with pytest.raises(FleetError, match="kernel:x: no run has results of that kernel; known kernels: new, old"):
        hosts_of_side("kernel:x", history, here)
