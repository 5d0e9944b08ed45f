# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import progress as module
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress, render


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_eta_follows_the_rate_of_this_step(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "progress"
    progress = Progress(str(path))
    # 1000 objects were there before this step started: they say nothing about the rate.
    progress.update("compile", done=1000, total=2000)
    clock[0] += 10
    progress.update("compile", done=1100, total=2000)
    state = json.loads(path.read_text())
    assert state["eta"] == 90.0
    assert state["elapsed"] == 10.0


def test_writes_are_limited_but_a_new_step_is_not(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "progress"
    progress = Progress(str(path))
    progress.update("unpack", done=1, total=10)
    clock[0] += 0.5
    progress.update("unpack", done=2, total=10)
    assert json.loads(path.read_text())["done"] == 1
    progress.update("compile", done=0, total=5)
    assert json.loads(path.read_text())["step"] == "compile"


def test_without_a_file_nothing_happens() -> None:
    Progress(None).update("compile", done=1, total=2)


def test_a_file_that_cannot_be_written_does_not_stop_the_work(tmp_path: Path) -> None:
    progress = Progress(str(tmp_path / "no" / "such" / "folder"))
    progress.update("compile")
    progress.update("link")


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"step": "link"}, "link"),
        ({"step": "download", "done": 7, "unit": "MiB"}, "download 7 MiB"),
        ({"step": "boot", "detail": "waiting for ssh"}, "boot: waiting for ssh"),
        (
            {"step": "compile", "done": 5, "total": 10, "unit": "objects", "eta": 65.0},
            "compile 5/10 objects (50 %), 1:05 left",
        ),
    ],
)
def test_render(state: dict, line: str) -> None:
    assert render(state) == line
