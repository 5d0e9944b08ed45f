# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.action import fleet_report
from ansible_collections.fetchbpf.fleet.plugins.action.fleet_report import write_report
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from report_data import answer, make_fact

TEMPLATES = str(Path(__file__).resolve().parents[4] / "roles" / "fleet_report" / "templates")
ALL = ["fetcharg", "hook_overhead", "latency", "parallel", "hit_count"]


class Fleet:
    """Runs the action's work in a folder of its own, at a time that goes on."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.hour = 0
        monkeypatch.setattr("time.strftime", lambda *_arguments: f"2026-11-30T{self.hour:02}:00:00Z")

    def report(self, facts: dict[str, Any], check: bool = False, **changes: Any) -> dict[str, Any]:
        self.hour += 1
        args = {
            "path": str(self.path),
            "hosts": list(facts),
            "keep": 20,
            "baseline": None,
            "max_regression": 5.0,
            "compare": [],
            "terminal": ALL,
            **changes,
        }
        gathered = {
            name: given if isinstance(given, dict) and "schema" not in given else answer(given)
            for name, given in facts.items()
        }
        return write_report(args, gathered, TEMPLATES, check)

    def json(self, run: str) -> dict[str, Any]:
        return json.loads((self.path / run / "report.json").read_text(encoding="utf-8"))


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet whose page is not drawn: that takes the longest, and most tests do not look at it."""
    monkeypatch.setattr(fleet_report, "to_html", lambda *_arguments: "")
    return Fleet(tmp_path / "runs", monkeypatch)


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet with a real page."""
    return Fleet(tmp_path / "runs", monkeypatch)


def test_a_run_is_a_folder_with_three_files_and_a_second_run_is_none(fleet: Fleet) -> None:
    facts = {"a": make_fact(), "b": None}
    first = fleet.report(facts)
    assert first["changed"]
    assert first["hosts"] == {"a": "measured", "b": "no fact"}
    folder = Path(first["folder"])
    assert sorted(path.name for path in folder.iterdir()) == ["report.csv", "report.html", "report.json"]
    second = fleet.report(facts)
    assert (second["changed"], second["run"]) == (False, first["run"])
    assert second["diff"]["before"] == second["diff"]["after"]
    third = fleet.report({"a": make_fact(seed=2), "b": None})
    assert third["changed"] and third["run"] != first["run"]
    assert third["diff"]["before"] != third["diff"]["after"]
    assert [comparison["id"] for comparison in fleet.json(third["run"])["comparisons"]] == ["since"]


def test_check_mode_writes_nothing(fleet: Fleet) -> None:
    result = fleet.report({"a": make_fact()}, check=True)
    assert result["changed"]
    assert "kprobe" in result["diff"]["after"]
    assert not fleet.path.exists()


def test_old_runs_are_removed_but_not_what_is_compared_with(fleet: Fleet) -> None:
    runs = [fleet.report({"a": make_fact(seed=seed)}, keep=2)["run"] for seed in (1, 2, 3)]
    assert sorted(path.name for path in fleet.path.iterdir()) == [*runs[1:], "latest"]
    last = fleet.report({"a": make_fact(seed=4)}, keep=1, baseline=runs[1])
    assert last["removed"] == [runs[2]]


def test_the_gate_names_each_regressed_cell(fleet: Fleet) -> None:
    base = fleet.report({"a": make_fact(clock="instructions", noise=0.0)})["run"]
    good = fleet.report({"a": make_fact(seed=2, clock="instructions", noise=0.0)}, baseline=base)
    assert good["regressions"] == []
    bad = fleet.report({"a": make_fact(clock="instructions", noise=0.0, worse=1.2)}, baseline=base)
    assert any(
        sentence.startswith(
            "a: fetcharg overhead (kind kprobe, mode bpf, nargs 3): 37.0 to 44.4 instructions (+20.0 %, p = "
        )
        for sentence in bad["regressions"]
    )
    assert len(bad["regressions"]) == 9
    # The same again is still a regression, though nothing is written.
    again = fleet.report({"a": make_fact(clock="instructions", noise=0.0, worse=1.2)}, baseline=base)
    assert not again["changed"]
    assert again["regressions"] == bad["regressions"]
    assert (
        fleet.report({"a": make_fact(clock="instructions", noise=0.0, worse=1.2)}, baseline=base, max_regression=25.0)[
            "regressions"
        ]
        == []
    )


def test_latest_is_the_newest_run_with_other_facts(fleet: Fleet) -> None:
    fleet.report({"a": make_fact(noise=0.0)})
    for _again in range(2):
        assert fleet.report({"a": make_fact(noise=0.0, worse=1.5)}, baseline="latest")["regressions"]


def test_a_host_that_is_gone_does_not_pass_the_gate(fleet: Fleet) -> None:
    base = fleet.report({"a": make_fact(), "b": make_fact(seed=2)})["run"]
    gone = fleet.report({"a": make_fact(), "b": {"unreachable": True, "msg": "no route"}}, baseline=base)
    assert [sentence for sentence in gone["regressions"] if sentence.startswith("b: ")] == ["b: nothing in B: no route"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"baseline": "latest"}, "holds no run yet"),
        ({"baseline": "nonsense"}, "nonsense is neither a run of"),
        ({"keep": -1}, "keep is -1; it must be 0 or more"),
        ({"max_regression": -0.5}, "max_regression is -0.5"),
        ({"compare": ["this"]}, "compare has 1 entries; it must have two, A and B"),
        ({"compare": ["this", "kernel:x"]}, "no run has results of that kernel"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_written(
    fleet: Fleet, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(FleetError, match=message):
        fleet.report({"a": make_fact()}, **changes)
    assert not fleet.path.exists()


def test_two_kernels_of_one_host_are_compared(fleet: Fleet) -> None:
    fleet.report({"a": make_fact(kernel="6.12-stock", modes=("default",))})
    run = fleet.report({"a": make_fact(kernel="6.12-bpf")}, compare=["kernel:6.12-stock", "kernel:6.12-bpf"])["run"]
    (comparison,) = fleet.json(run)["comparisons"]
    assert (comparison["a"], comparison["b"]) == ("kernel:6.12-stock", "kernel:6.12-bpf")
    assert {"the same", "nothing in A", "nothing in B"} <= {change["verdict"] for change in comparison["changes"]}


def test_two_hosts_of_one_run_are_compared(fleet: Fleet) -> None:
    facts = {"a": make_fact(), "b": make_fact(seed=2, speed=2.0)}
    (comparison,) = fleet.json(fleet.report(facts, compare=["this@a", "this@b"])["run"])["comparisons"]
    assert {change["host"] for change in comparison["changes"]} == {"a → b"}


def test_csv_has_every_measurement_and_every_host_without(fleet: Fleet) -> None:
    fact = make_fact()
    fact["benchmarks"]["latency"].update(status="failed", reason="=cmd()", rows=[])
    result = fleet.report({"a": fact, "-b": None})
    lines = list(csv.DictReader(io.StringIO((Path(result["folder"]) / "report.csv").read_text(encoding="utf-8"))))
    measured = [line for line in lines if line["metric"]]
    assert len(measured) == sum(len(benchmark["rows"]) for benchmark in fact["benchmarks"].values())
    some = next(
        line for line in measured if line["metric"] == "overhead" and line["kind"] == "kprobe" and line["nargs"] == "3"
    )
    rows = fact["benchmarks"]["fetcharg"]["rows"]
    labels = {"kind": "kprobe", "mode": some["mode"], "nargs": 3}
    (row,) = [row for row in rows if (row["metric"], row["labels"]) == ("overhead", labels)]
    assert float(some["median"]) == row["median"]
    assert len(some["samples"].split()) == 10
    # No spreadsheet runs what a host wrote.
    assert [line["status_reason"] for line in lines if line["benchmark"] == "latency"] == ["'=cmd()"]
    assert [(line["host"], line["state"]) for line in lines if not line["benchmark"]] == [("'-b", "no fact")]


def test_the_terminal_shows_all_five_and_who_is_missing(fleet: Fleet) -> None:
    text = fleet.report({"a": make_fact(), "b": make_fact(clock="instructions"), "c": None})["table"]
    for title in (
        "What fetchargs cost",
        "events/s by hook",
        "Run time of one call",
        "pinned processes",
        "hits counted exactly",
    ):
        assert text.count(title) == 2, title
    assert text.endswith("c: no fact: facts.d/fetchbpf.fact is missing: not measured yet")
    only = fleet.report({"a": make_fact()}, terminal=["hit_count"])["table"]
    assert "fetchargs cost" not in only


def test_what_comes_from_hosts_is_escaped(drawn: Fleet) -> None:
    evil = "<script>alert(1)</script>\"'>"
    fact = make_fact(kernel=evil)
    fact["environment"]["mitigations"] = {evil: evil}
    for benchmark in fact["benchmarks"].values():
        benchmark["notes"] = [evil]
        for row in benchmark["rows"]:
            row["target"] = evil
            row["reason"] = row["reason"] and evil
            if "hook" in row["labels"] and row["labels"]["hook"] == "kprobe":
                row["labels"]["hook"] = evil
    result = drawn.report({evil: fact, "b": {"unreachable": True, "msg": evil}})
    page = (Path(result["folder"]) / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert page.count("<script") == 1
    assert "&lt;script&gt;alert(1)" in page


def test_the_page_asks_for_nothing_from_outside(drawn: Fleet) -> None:
    page = (Path(drawn.report({"a": make_fact()})["folder"]) / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    for word in ('src="', 'href="http', "@import"):
        assert word not in page, word
    # Vega's clipping paths are inside the page, each by a name of its own.
    paths = re.findall(r'<clipPath id="(\w+)"', page)
    assert len(paths) == len(set(paths))
    assert set(re.findall(r"url\((.*?)\)", page)) == {f"#{path}" for path in paths}
