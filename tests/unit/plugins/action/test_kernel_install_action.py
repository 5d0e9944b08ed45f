# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible_collections.fetchbpf.fleet.plugins.action import kernel_install
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils import package_payload
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.controller_run import current_run
from fake_host import NEW, FakeHost

NAME = f"linux-image-{NEW}_1_amd64.deb"


class Harness:
    """The action with a host that gives the answers of a script; ``calls`` are the modules' arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any]]) -> None:
        self.calls: list[dict[str, Any]] = []
        self.copied: list[str] = []
        self.answers = answers
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(
            package_payload, "inspect", lambda paths: {"boot_bytes": 1, "installed_bytes": 2, "signed": False}
        )

    def execute(self, module_name: Any = None, module_args: Any = None, task_vars: Any = None) -> dict[str, Any]:
        self.calls.append(module_args)
        return self.answers.pop(0)

    def run(self, check_mode: bool = False, **args: Any) -> dict[str, Any]:
        task = MagicMock(args=args, check_mode=check_mode, async_val=0, action="fetchbpf.fleet.kernel_install")
        action = kernel_install.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
        action._connection._shell.join_path = lambda *parts: "/".join(parts)
        for name, value in {
            "_execute_module": self.execute,
            "_make_tmp_path": lambda: "/tmp/x",
            "_transfer_file": lambda local, remote: self.copied.append(remote),
            "_fixup_perms2": lambda paths: None,
            "_remove_tmp_path": lambda path, force=False: self.copied.append(f"removed {path}"),
            "_low_level_execute_command": lambda command: {"stdout": ""},
        }.items():
            self.monkeypatch.setattr(action, name, value)
        return action.run(task_vars={"inventory_hostname": "a"})


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    FakeHost(tmp_path / "host", tmp_path / "artifact").make_artifact()
    return tmp_path / "artifact"


def test_a_host_that_needs_nothing_is_asked_once(monkeypatch: pytest.MonkeyPatch, artifact: Path) -> None:
    harness = Harness(monkeypatch, [{"changed": False, "status": "promoted", "needed_files": []}])
    assert harness.run(artifact=str(artifact))["changed"] is False
    assert len(harness.calls) == 1
    assert harness.calls[0]["manifest"]["release"] == NEW
    assert harness.calls[0]["owner"] == current_run()
    assert harness.copied == []


def test_packages_are_copied_after_the_host_agreed_and_removed_again(
    monkeypatch: pytest.MonkeyPatch, artifact: Path
) -> None:
    needs = {"changed": False, "needed_files": [NAME]}
    harness = Harness(monkeypatch, [needs, needs, {"changed": True, "needed_files": []}])
    assert harness.run(artifact=str(artifact))["changed"]
    assert "payload" not in harness.calls[0]
    assert harness.calls[1]["payload"]["boot_bytes"] == 1
    assert harness.calls[2]["packages_dir"] == "/tmp/x"
    assert harness.copied == [f"/tmp/x/{NAME}", "removed /tmp/x"]


def test_a_host_without_room_gets_no_copy(monkeypatch: pytest.MonkeyPatch, artifact: Path) -> None:
    harness = Harness(monkeypatch, [{"needed_files": [NAME]}, {"failed": True, "msg": "/boot has 1 MiB free"}])
    assert harness.run(artifact=str(artifact))["msg"] == "/boot has 1 MiB free"
    assert harness.copied == []


def test_check_mode_copies_nothing(monkeypatch: pytest.MonkeyPatch, artifact: Path) -> None:
    needs = {"changed": True, "needed_files": [NAME]}
    harness = Harness(monkeypatch, [needs, needs])
    assert harness.run(check_mode=True, artifact=str(artifact))["changed"]
    assert harness.copied == []


def test_a_changed_package_is_refused_on_the_controller(monkeypatch: pytest.MonkeyPatch, artifact: Path) -> None:
    harness = Harness(monkeypatch, [{"needed_files": [NAME]}])
    (artifact / NAME).write_text("other")
    result = harness.run(artifact=str(artifact))
    assert result["failed"]
    assert f"{artifact / NAME}: sha256 is" in result["msg"]
    assert len(harness.calls) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "No such file"), ("{", "not JSON"), ('{"schema": 1}', "key, release, arch, files, packages missing")],
)
def test_a_bad_manifest_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    result = Harness(monkeypatch, []).run(artifact=str(tmp_path))
    assert f"{tmp_path}/manifest.json: " in result["msg"]
    assert message in result["msg"]


def test_the_lease_of_an_ended_run_is_taken_over_and_that_of_a_living_one_is_not(
    monkeypatch: pytest.MonkeyPatch, artifact: Path
) -> None:
    here = current_run()
    ended = dict(here, run=f"{here['controller']}/999999999/5", pid=999999999)
    harness = Harness(monkeypatch, [{"failed": True, "busy": ended}, {"changed": False, "needed_files": []}])
    assert not harness.run(artifact=str(artifact)).get("failed")
    assert harness.calls[1]["take_over"] == ended["run"]
    for lease in (here, dict(ended, controller="elsewhere")):
        harness = Harness(monkeypatch, [{"failed": True, "busy": lease, "msg": "busy"}])
        assert harness.run(artifact=str(artifact))["failed"]


def test_a_rollback_takes_over_from_an_ended_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = dict(current_run(), run="x/999999999/5", pid=999999999)
    harness = Harness(monkeypatch, [{"failed": True, "busy": ended}, {"changed": True, "actions": []}])
    assert not harness.run(state="absent").get("failed")
    assert harness.calls[1]["take_over"] == ended["run"]


def test_check_mode_says_what_it_can_of_a_kernel_that_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, [])
    result = harness.run(check_mode=True, artifact="", manifest={})
    assert (result["status"], result["changed"], result["reboot_required"]) == ("unbuilt", True, False)
    assert "manifest.json: " in harness.run(artifact="", manifest={})["msg"]


def test_other_states_need_no_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, [{"changed": True, "actions": ["remove x"]}])
    assert harness.run(state="absent")["changed"]
    assert len(harness.calls) == 1
