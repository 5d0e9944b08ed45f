# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_tool import BenchTool, find_tool, series_of
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress


def script(path: Path, text: str) -> BenchTool:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return BenchTool(str(path))


def test_the_running_kernels_program_comes_first_then_the_one_brought_then_any(tmp_path: Path) -> None:
    library = str(tmp_path)
    assert find_tool(None, "6.12.1", library) is None
    assert find_tool("/nowhere/tool", "6.12.1", library) is None
    for number, place in enumerate(("6.1.0/fetchbpf-bench", "6.11.0/fetchbpf-bench", "fetchbpf-bench")):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (number, number))
        assert find_tool(None, "6.12.1", library) == str(path)
    own = tmp_path / "6.12.1" / "fetchbpf-bench"
    own.parent.mkdir()
    own.touch()
    assert find_tool(None, "6.12.1", library) == str(own)
    assert find_tool(str(tmp_path / "fetchbpf-bench"), "6.12.1", library) == str(tmp_path / "fetchbpf-bench")


def test_a_kernels_package_says_which_series_it_has(tmp_path: Path) -> None:
    assert series_of("6.12.1", str(tmp_path)) == ""
    (tmp_path / "6.12.1").mkdir()
    (tmp_path / "6.12.1" / "series").write_text("abc\n")
    assert series_of("6.12.1", str(tmp_path)) == "abc"


def test_options_and_rounds_are_passed_on(tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    text = 'echo "round 2/3" >&2\nprintf \'{"arguments": "%s"}\' "$*"'
    tool = script(tmp_path / "tool", text)
    options = {"rounds": 3, "loops": 7, "slow_calls": 5}
    raw = tool.run("latency", options, Progress(str(progress)))
    assert raw == {"arguments": "--rounds=3 --loops=7 --slow-calls=5 latency"}
    state = json.loads(progress.read_text())
    assert (state["step"], state["done"], state["total"]) == ("latency", 1, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo round 1/3 >&2; echo fetchbpf-bench: no kprobes >&2; exit 1", "exit code 1: fetchbpf-bench: no kprobes$"),
        ("kill -9 $$", "signal 9: it said nothing"),
        ("echo no json", "printed no JSON"),
    ],
)
def test_its_failure_is_shown(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FleetError, match=message):
        script(tmp_path / "tool", text).run("latency", {}, Progress(None))


def test_the_clock_is_what_it_says(tmp_path: Path) -> None:
    told = "a loop takes 1.000 ns an instruction: the clock counts instructions"
    assert script(tmp_path / "tool", f"echo {told}").clock() == ("instructions", told)
    with pytest.raises(FleetError, match="--clock failed: what"):
        script(tmp_path / "tool", "echo what").clock()
