# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import bench_file
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

ENVIRONMENT: dict[str, Any] = {
    "kernel": "6.12.1",
    "kernel_build": "#1 SMP",
    "series_hash": "",
    "clock": "time",
    "virtualisation": "none",
    "cpus": 2,
}
ENTRY: dict[str, Any] = {
    "key": {},
    "time": "2026-11-30T18:00:12Z",
    "status": "failed",
    "reason": "it broke",
    "params": {},
    "duration_s": 1.0,
    "notes": [],
    "rows": [],
}


def fact(**benchmarks: Any) -> dict[str, Any]:
    return bench_file.merged(None, ENVIRONMENT, benchmarks or {"latency": ENTRY}, "2026-11-30T18:00:12Z")


def test_a_fact_is_written_whole_and_for_all_to_read(tmp_path: Path) -> None:
    path = tmp_path / "facts.d" / "fetchbpf.fact"
    assert bench_file.read_fact(str(path)) == (None, "")
    bench_file.write_fact(str(path), fact())
    assert bench_file.read_fact(str(path)) == (fact(), "")
    assert [entry.name for entry in path.parent.iterdir()] == ["fetchbpf.fact"]
    # Ansible would run an executable fact.
    assert os.stat(path).st_mode & 0o777 == 0o644


def test_a_damaged_or_old_file_is_named_and_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "fetchbpf.fact"
    for text, word in (
        ('{"schema": 2, "ti', "fetchbpf.fact"),
        (json.dumps({"schema": 1}), "old fact"),
        ("[]", "object"),
    ):
        path.write_text(text)
        found, problem = bench_file.read_fact(str(path))
        assert found is None
        assert word in problem


def test_a_fact_that_is_not_as_documented_does_not_replace_one_that_is(tmp_path: Path) -> None:
    path = tmp_path / "fetchbpf.fact"
    bench_file.write_fact(str(path), fact())
    with pytest.raises(FleetError, match="latency"):
        bench_file.write_fact(str(path), fact(latency=dict(ENTRY, status="splendid")))
    assert bench_file.read_fact(str(path))[0] == fact()


def test_results_of_other_benchmarks_stay_unless_the_kernel_or_the_clock_is_another() -> None:
    known = fact(latency=ENTRY, parallel=ENTRY)
    newer = dict(ENTRY, reason="again")
    both = bench_file.merged(known, ENVIRONMENT, {"latency": newer}, known["time"])
    assert both["benchmarks"] == {"latency": newer, "parallel": ENTRY}
    for key, value in (
        ("kernel", "7.3"),
        ("kernel_build", "#2 SMP"),
        ("series_hash", "abc"),
        ("clock", "instructions"),
    ):
        other = bench_file.merged(known, dict(ENVIRONMENT, **{key: value}), {"latency": newer}, known["time"])
        assert list(other["benchmarks"]) == ["latency"]
