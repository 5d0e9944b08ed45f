# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module with a program that only pretends to measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import validate
from ansible_collections.fetchbpf.fleet.plugins.modules import probe_bench

from tests.unit.fakes import run_module

TOOL = """#!/bin/sh
[ "$1" != --clock ] || { echo "the clock counts CLOCK"; exit; }
for name; do :; done
echo "$name" >> "$0.ran"
[ ! -e "$0.break" ] || { echo "fetchbpf-bench: broken" >&2; exit 1; }
cat "$(dirname "$0")/$name.json"
"""


def raw(benchmark: str, labels: dict[str, Any], reason: str = "") -> str:
    series = {"ns": [1000] * 6, "calls": [10] * 6, "hits": [10] * 6, "misses": [0] * 6}
    row = {"labels": labels, "target": "f", "reason": reason, "series": {} if reason else series}
    return json.dumps({"benchmark": benchmark, "loops": 10, "notes": [], "rows": [row]})


class Host:
    """A host with the program, and what the module does on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fact_file = folder / "facts.d" / "fetchbpf.fact"
        self.tool = folder / "tool"
        self.clock("time")
        (folder / "parallel.json").write_text(raw("parallel", {"workload": "comm", "hook": "base", "cpus": 1}))
        (folder / "hit_count.json").write_text(raw("hit_count", {"hook": "kprobe", "cpus": 1}))

    def clock(self, name: str) -> None:
        self.tool.write_text(TOOL.replace("CLOCK", name))
        self.tool.chmod(0o755)

    def run(self, *benchmarks: str, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {
            "tool": self.tool,
            "fact_file": self.fact_file,
            "benchmarks": benchmarks or ["parallel"],
            "rounds": 6,
        }
        return run_module(probe_bench, arguments | options, check)

    def ran(self) -> list[str]:
        path = Path(f"{self.tool}.ran")
        return path.read_text().split() if path.exists() else []

    def fact(self) -> dict[str, Any]:
        fact = json.loads(self.fact_file.read_text())
        validate(fact)
        return fact


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_result_is_measured_once_and_kept_beside_those_of_others(host: Host) -> None:
    first = host.run("parallel")
    assert (first["changed"], first["measured"], first["failed_benchmarks"]) == (True, ["parallel"], {})
    assert first["fact"] == host.fact()
    assert not host.run("parallel")["changed"]
    both = host.run("parallel", "hit_count")
    assert both["measured"] == ["hit_count"]
    assert set(host.fact()["benchmarks"]) == {"parallel", "hit_count"}
    assert host.run("parallel", force=True)["measured"] == ["parallel"]
    assert set(host.fact()["benchmarks"]) == {"parallel", "hit_count"}
    assert host.ran() == ["parallel", "hit_count", "parallel"]


@pytest.mark.parametrize("change", [{"rounds": 7}, {"loops": 20}])
def test_other_parameters_make_it_measure_again(host: Host, change: dict[str, Any]) -> None:
    host.run()
    assert host.run(**change)["measured"] == ["parallel"]


def test_slow_calls_matter_to_the_latency_only(host: Host) -> None:
    host.run()
    assert not host.run(slow_calls=7)["changed"]


def test_another_clock_drops_what_was_measured_with_the_first(host: Host) -> None:
    host.run("parallel", "hit_count")
    host.clock("instructions")
    host.run("parallel")
    fact = host.fact()
    assert set(fact["benchmarks"]) == {"parallel"}
    assert fact["environment"]["clock"] == "instructions"
    assert fact["benchmarks"]["parallel"]["rows"][0]["unit"] == "calls/Ginstr"


def test_a_failure_is_an_entry_with_the_reason_and_is_tried_again(host: Host) -> None:
    broken = Path(f"{host.tool}.break")
    broken.touch()
    result = host.run("parallel")
    assert not result.get("failed")
    assert "broken" in result["failed_benchmarks"]["parallel"]
    entry = host.fact()["benchmarks"]["parallel"]
    assert (entry["status"], entry["rows"]) == ("failed", [])
    assert "exit code 1: fetchbpf-bench: broken" in entry["reason"]
    broken.unlink()
    assert host.run("parallel")["measured"] == ["parallel"]
    assert host.fact()["benchmarks"]["parallel"]["status"] == "ok"


def test_a_benchmark_of_which_nothing_is_supported_says_so(host: Host) -> None:
    (host.folder / "hit_count.json").write_text(raw("hit_count", {"hook": "kprobe", "cpus": 1}, "no kprobes"))
    host.run("hit_count")
    entry = host.fact()["benchmarks"]["hit_count"]
    assert entry["status"] == "unsupported"
    assert {row["reason"] for row in entry["rows"]} == {"no kprobes"}
    assert not host.run("hit_count")["changed"]


def test_check_mode_measures_and_writes_nothing(host: Host) -> None:
    assert host.run(check=True)["measured"] == ["parallel"]
    assert not host.fact_file.exists()
    assert host.ran() == []
    host.run()
    assert host.run(check=True)["changed"] is False


def test_a_damaged_fact_is_replaced(host: Host) -> None:
    host.run()
    host.fact_file.write_text('{"schema": 2, ')
    assert host.run()["measured"] == ["parallel"]
    assert host.fact()["benchmarks"]["parallel"]["status"] == "ok"


def test_metrics_are_written_where_asked_even_if_nothing_is_measured(host: Host) -> None:
    metrics = host.folder / "collector" / "fetchbpf.prom"
    host.run()
    result = host.run(openmetrics_file=metrics)
    assert (result["changed"], result["measured"]) == (True, [])
    assert "fetchbpf_bench_calls_per_second{" in metrics.read_text()
    assert [entry.name for entry in metrics.parent.iterdir()] == ["fetchbpf.prom"]
    assert not host.run(openmetrics_file=metrics)["changed"]


def test_a_host_without_the_program_is_told_how_to_get_it(host: Host) -> None:
    result = host.run(tool="/nowhere/fetchbpf-bench")
    assert result["failed"]
    assert "/nowhere/fetchbpf-bench is missing" in result["msg"]
    assert "probe_bench_tool" in result["msg"]


@pytest.mark.parametrize("name", ["rounds", "loops", "slow_calls"])
def test_numbers_that_make_no_sense_are_refused_by_name(host: Host, name: str) -> None:
    assert f"{name} is 0" in host.run(**{name: 0})["msg"]
    assert host.ran() == []
