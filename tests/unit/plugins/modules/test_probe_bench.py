# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress
from ansible_collections.fetchbpf.fleet.plugins.modules import probe_bench


def raw() -> dict[str, Any]:
    def row(kind: str, nargs: int, ns: list[int], supported: bool = True, mode: str = "bpf") -> dict[str, Any]:
        return {
            "kind": kind,
            "mode": mode,
            "nargs": nargs,
            "args": "",
            "ns": ns,
            "supported": supported,
            "reason": "",
        }

    return {
        "loops": 10,
        "rounds": 6,
        "clock": "ns",
        "results": [
            row("kprobe", 0, [1000, 1100, 1200, 1300, 1400, 1500]),
            # Always 50 more than its own round without arguments, however the host drifts.
            row("kprobe", 1, [1050, 1150, 1250, 1350, 1450, 1550]),
            row("fprobe", 0, [], supported=False),
            row("fprobe", 1, [], supported=False),
            # Another mode has an event without arguments of its own.
            row("kprobe", 0, [100, 100, 100, 100, 100, 100], mode="legacy"),
            row("kprobe", 1, [180, 180, 180, 180, 180, 180], mode="legacy"),
        ],
    }


def test_overhead_pairs_the_rounds_so_that_drift_cancels_out() -> None:
    rows = probe_bench.summarise(raw())
    assert rows[1]["overhead"] == {"median": 5.0, "low": 5.0, "high": 5.0}
    assert rows[1]["per_call"]["median"] == 130.0
    assert rows[5]["overhead"] == {"median": 8.0, "low": 8.0, "high": 8.0}
    assert rows[1]["noisy"]
    assert not rows[5]["noisy"]
    assert rows[1]["samples"] == [1050, 1150, 1250, 1350, 1450, 1550]


def test_an_unsupported_row_stays_a_row_without_numbers() -> None:
    rows = probe_bench.summarise(raw())
    assert len(rows) == 6
    assert not rows[3]["supported"]
    assert "per_call" not in rows[3]


def test_a_damaged_or_old_fact_file_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "facts.d" / "fetchbpf.fact"
    assert probe_bench.read_fact(str(path)) is None
    probe_bench.write_fact(str(path), {"schema": probe_bench.SCHEMA, "unit": "ns"})
    assert probe_bench.read_fact(str(path)) == {"schema": probe_bench.SCHEMA, "unit": "ns"}
    path.write_text(json.dumps({"schema": 0}))
    assert probe_bench.read_fact(str(path)) is None
    path.write_text('{"schema": 1, "un')
    assert probe_bench.read_fact(str(path)) is None
    assert [entry.name for entry in path.parent.iterdir()] == ["fetchbpf.fact"]


def test_the_tool_reports_rounds_and_its_failure_is_shown(tmp_path: Path) -> None:
    tool = tmp_path / "tool.sh"
    progress = tmp_path / "progress"
    tool.write_text('echo "round 2/3" >&2\necho \'{"loops": 1}\'\n')
    assert probe_bench.run_tool(str(tool), 1, 3, ["default"], Progress(str(progress))) == {"loops": 1}
    assert json.loads(progress.read_text())["done"] == 2
    tool.write_text("echo cannot create event >&2\nexit 3\n")
    with pytest.raises(FleetError, match="exit code 3: cannot create event"):
        probe_bench.run_tool(str(tool), 1, 3, ["default"], Progress(None))
    tool.write_text("echo no json\n")
    with pytest.raises(FleetError, match="printed no JSON"):
        probe_bench.run_tool(str(tool), 1, 3, ["default"], Progress(None))


def test_modes_are_compared_where_the_kernel_can(tmp_path: Path) -> None:
    assert probe_bench.available_modes(str(tmp_path)) == ["default"]
    (tmp_path / "options").mkdir()
    (tmp_path / "options" / "disable_bpf").touch()
    assert probe_bench.available_modes(str(tmp_path)) == ["bpf", "legacy"]
