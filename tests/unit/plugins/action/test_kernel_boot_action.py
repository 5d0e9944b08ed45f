# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.fetchbpf.fleet.plugins.action import kernel_boot
from fake_host import NEW, OLD

ID = f"{NEW}/1a2b"
TRIAL = f"ro panic=5 fetchbpf.trial={ID}"
DOWN = None
Script = list[Any]


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        return self.now


class Host:
    """A host whose looks follow a script; each reboot command takes the next part of it."""

    def __init__(self, *parts: Script) -> None:
        self.parts = list(parts)
        self.looks: Script = self.parts.pop(0)
        self.reboots = 0
        self.modules: list[tuple[str, dict[str, Any]]] = []
        self.problems: list[str] = []
        self.reverted: dict[str, Any] = {}
        self.reboot_result = {"rc": 0, "stdout": "", "stderr": ""}

    def command(self, command: str) -> dict[str, Any]:
        if command == "systemctl reboot":
            self.reboots += 1
            self.looks = self.parts.pop(0) if self.parts else self.looks
            return self.reboot_result
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if look is DOWN:
            raise AnsibleConnectionFailure("down")
        return {"rc": 0, "stdout": "\n".join(look) + "\n", "stderr": ""}

    def module(self, module_name: str = "", module_args: Any = None, task_vars: Any = None) -> dict[str, Any]:
        self.modules.append((module_name, module_args))
        if module_name == kernel_boot.INSTALL:
            return {"changed": True, **self.reverted}
        return {"changed": not self.problems, "problems": self.problems}


def boot(host: Host, monkeypatch: pytest.MonkeyPatch, check_mode: bool = False, **args: Any) -> dict[str, Any]:
    clock = Clock()
    monkeypatch.setattr(kernel_boot.time, "sleep", clock.sleep)
    monkeypatch.setattr(kernel_boot.time, "monotonic", clock.monotonic)
    task = MagicMock(args={"release": NEW, "trial": ID, **args}, check_mode=check_mode, async_val=0)
    action = kernel_boot.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
    monkeypatch.setattr(action, "_low_level_execute_command", host.command)
    monkeypatch.setattr(action, "_execute_module", host.module)
    return action.run(task_vars={"inventory_hostname": "a"})


def test_a_healthy_trial_succeeds_with_one_reboot_and_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", OLD, "ro")], [DOWN, DOWN, ("2", NEW, TRIAL)])
    result = boot(host, monkeypatch)
    assert (result["changed"], result["release"]) == (True, NEW)
    assert host.reboots == 1
    assert len(host.modules) == 1
    assert host.modules[0][1]["boot_id"] == "2"


def test_a_host_that_answers_in_its_old_boot_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    # reboot came back at once, and the host goes on answering for a while.
    host = Host([("1", OLD, "ro")], [("1", OLD, "ro"), ("1", OLD, "ro"), DOWN, ("2", NEW, TRIAL)])
    assert not boot(host, monkeypatch).get("failed")


@pytest.mark.parametrize("release", [f"{NEW}2", NEW[:-1], OLD])
def test_another_release_is_a_failure_however_similar(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    host = Host([("1", OLD, "ro")], [DOWN, ("2", release, "ro")])
    result = boot(host, monkeypatch)
    assert result["failed"]
    assert f"the host is back on {release} after 4 s" in result["msg"]
    assert [name for name, _args in host.modules] == [kernel_boot.INSTALL]


def test_the_same_release_without_the_words_of_the_trial_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", NEW, "ro")], [DOWN, ("2", NEW, "ro")])
    assert f"the host is back on {NEW}" in boot(host, monkeypatch)["msg"]


def test_the_reason_comes_from_what_the_console_printed_since(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    console.write_text("Kernel panic - not syncing: an old one\n")
    host = Host([("1", OLD, "ro")], [DOWN, ("2", OLD, "ro")])
    original = host.command

    def command(text: str) -> dict[str, Any]:
        if text == "systemctl reboot":
            with console.open("a") as handle:
                handle.write("\x1b[0mKernel panic - not syncing: VFS: no root\r\nRebooting in 5 seconds..\r\n")
        return original(text)

    monkeypatch.setattr(host, "command", command)
    result = boot(host, monkeypatch, console_command=["cat", str(console)])
    assert "Kernel panic - not syncing: VFS: no root\nRebooting in 5 seconds.." in result["msg"]
    assert "an old one" not in result["msg"]
    assert "VFS: no root" in host.modules[0][1]["reason"]


def test_what_the_host_kept_is_the_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", OLD, "ro")], [DOWN, ("2", OLD, "ro")])
    host.reverted = {"timer": "6.12", "evidence": "pstore dmesg-1: Oops"}
    result = boot(host, monkeypatch)
    assert "its timer rebooted the host" in result["reason"]
    assert "pstore dmesg-1: Oops" in result["reason"]


def test_without_any_trace_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", OLD, "ro")], [DOWN, ("2", OLD, "ro")])
    assert "unknown: no console_command" in boot(host, monkeypatch)["msg"]


def test_a_failed_check_reboots_back_and_names_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", OLD, "ro")], [DOWN, ("2", NEW, TRIAL)], [("2", NEW, TRIAL), DOWN, ("3", OLD, "ro")])
    host.problems = ["CONFIG_BPF is n in the running kernel, asked was y"]
    result = boot(host, monkeypatch)
    assert result["failed"]
    assert host.reboots == 2
    assert "failed its checks: CONFIG_BPF is n" in result["msg"]
    assert f"back on {OLD}" in result["msg"]
    assert host.modules[-1][0] == kernel_boot.INSTALL
    assert host.modules[-1][1]["state"] == "reverted"


def test_a_host_that_leaves_the_trial_during_its_checks_is_not_rebooted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", OLD, "ro")], [DOWN, ("2", NEW, TRIAL), ("3", OLD, "ro")])
    host.problems = ["the host was rebooted under its checks"]
    assert boot(host, monkeypatch)["failed"]
    assert host.reboots == 1


def test_a_trial_that_runs_already_is_checked_without_a_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", NEW, TRIAL)])
    assert not boot(host, monkeypatch).get("failed")
    assert host.reboots == 0


def test_another_trial_of_the_same_release_is_not_taken_for_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    promoted = ("1", NEW, f"ro panic=5 fetchbpf.trial={NEW}/0000")
    host = Host([promoted], [promoted, DOWN, ("2", NEW, TRIAL)])
    assert not boot(host, monkeypatch).get("failed")
    assert host.reboots == 1


def test_a_host_that_stays_away_is_rescued_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marker = tmp_path / "rescued"
    rescue = [sys.executable, "-c", f"open({str(marker)!r}, 'a').write('x')"]
    looks: Script = [DOWN]
    host = Host([("1", OLD, "ro")], looks)
    original = host.command

    def command(text: str) -> dict[str, Any]:
        if marker.exists():
            host.looks = [("2", OLD, "ro")]
        return original(text)

    monkeypatch.setattr(host, "command", command)
    result = boot(host, monkeypatch, boot_timeout=30, rescue_command=rescue)
    assert f"the host is back on {OLD}" in result["msg"]
    assert marker.read_text() == "x"


def test_a_host_that_never_comes_back_is_reported_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    result = boot(Host([("1", OLD, "ro")], [DOWN]), monkeypatch, boot_timeout=30)
    assert "did not come back within 30 s and has no rescue_command" in result["msg"]
    assert "a reset starts the known-good kernel" in result["msg"]


def test_a_rescue_command_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", OLD, "ro")], [DOWN])
    result = boot(host, monkeypatch, boot_timeout=30, rescue_command="false now")
    assert "rescue_command false now: exit status 1" in result["msg"]


def test_a_refused_reboot_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", OLD, "ro")])
    host.reboot_result = {"rc": 1, "stdout": "", "stderr": "Interactive authentication required."}
    assert "systemctl reboot failed: Interactive authentication" in boot(host, monkeypatch)["msg"]


def test_an_unreachable_host_is_not_rebooted(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([DOWN])
    assert "does not answer" in boot(host, monkeypatch)["msg"]
    assert host.reboots == 0


def test_check_mode_says_what_it_would_do_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([DOWN])
    result = boot(host, monkeypatch, check_mode=True)
    assert (result["changed"], result.get("failed")) == (True, None)
    assert NEW in result["msg"]


def test_going_back_wants_a_boot_that_is_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([("1", NEW, "ro")], [DOWN, ("2", OLD, "ro")])
    result = boot(host, monkeypatch, release=OLD, trial="")
    assert (result.get("failed"), result["release"]) == (None, OLD)
    result = boot(Host([("1", NEW, "ro")], [DOWN, ("2", NEW, "ro")]), monkeypatch, release=OLD, trial="")
    assert f"the host came up on {NEW} instead of {OLD}" in result["msg"]
