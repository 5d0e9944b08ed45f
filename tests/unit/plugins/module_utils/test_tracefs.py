# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.tracefs import Tracefs, find_tracefs


def test_a_mount_of_its_own_is_preferred_to_the_one_below_debugfs(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("t /sys/kernel/debug/tracing tracefs rw 0 0\nt /sys/kernel/tracing tracefs rw 0 0\n")
    assert find_tracefs(str(mounts)) == "/sys/kernel/tracing"
    mounts.write_text("proc /proc proc rw 0 0\n")
    assert find_tracefs(str(mounts)) is None


def test_definitions_are_grouped_by_event(tmp_path: Path) -> None:
    (tmp_path / "dynamic_events").write_text("p:g/a f x=%ax\nr10:g/b f\np:g/a h\n")
    assert Tracefs(str(tmp_path)).definitions() == {"g/a": ["p:g/a f x=%ax", "p:g/a h"], "g/b": ["r10:g/b f"]}


def test_kinds_are_read_from_the_kernels_own_help(tmp_path: Path) -> None:
    (tmp_path / "README").write_text(
        "  kprobe_events - Create/append/remove/show the kernel dynamic events\n"
        "\t   r[maxactive][:[<group>/][<event>]] <place> [<args>]\n"
        "\t   e[:[<group>/][<event>]] <attached-group>.<attached-event>\n"
    )
    assert Tracefs(str(tmp_path)).kinds() == {"kprobe", "kretprobe", "eprobe"}


def test_a_write_never_truncates(tmp_path: Path) -> None:
    (tmp_path / "dynamic_events").write_text("p:other/e f\n")
    Tracefs(str(tmp_path)).command("g/e", "p:g/e f")
    assert (tmp_path / "dynamic_events").read_text() == "p:other/e f\np:g/e f\n"


def test_a_refusal_carries_the_errno(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="g/e: the kernel refused the definition: ENOENT") as caught:
        Tracefs(str(tmp_path)).command("g/e", "p:g/e f")
    assert "Command: p:g/e f" in str(caught.value)


def test_the_latest_block_of_error_log_is_shown_with_its_caret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "error_log"
    old = "[   1.0] trace_kprobe: error: Old\n  Command: p:g/x f\n                ^\n"
    new = "[   2.0] trace_kprobe: error: Failed to register probe event\n  Command: p:g/e nope\n           ^\n"
    log.write_text(old)

    def refuse(_descriptor: int, _text: bytes) -> None:
        log.write_text(old + new)
        raise OSError(2, "No such file or directory")

    (tmp_path / "dynamic_events").write_text("")
    tracefs = Tracefs(str(tmp_path))
    tracefs.begin()
    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(FleetError) as caught:
        tracefs.command("g/e", "p:g/e nope")
    assert str(caught.value).splitlines()[1:] == [
        "trace_kprobe: error: Failed to register probe event",
        "  Command: p:g/e nope",
        "           ^",
    ]
