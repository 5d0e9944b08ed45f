# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_guest as guests
from ansible_collections.fetchbpf.fleet.plugins.module_utils import qemu
from ansible_collections.fetchbpf.fleet.plugins.modules import lab_guest


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace what touches processes by notes of its calls."""
    noted: list[str] = []

    def start(guest: guests.Guest) -> str:
        noted.append(f"start {guest.name} {guest.machine.port} {guest.image.name}")
        return guests.difference(guest)

    def wait(guest: guests.Guest, timeout: float, _report: Any) -> int:
        noted.append(f"wait {guest.name} {timeout}")
        return 1

    monkeypatch.setattr(guests, "start", start)
    monkeypatch.setattr(guests, "wait", wait)
    monkeypatch.setattr(guests, "reset", lambda path: noted.append(f"reset {path.name}"))
    monkeypatch.setattr(qemu, "find", lambda _dir: None)
    monkeypatch.setattr(qemu, "missing_packages", lambda *_args, **_kwargs: [])
    return noted


def run(capsys: pytest.CaptureFixture[str], **args: Any) -> dict[str, Any]:
    with patch_module_args(args), pytest.raises(SystemExit):
        lab_guest.main()
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def lab(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "image.qcow2").write_text("")
    return {"name": "web", "lab_dir": str(tmp_path / "lab"), "image": str(tmp_path / "image.qcow2"), "port": 2222}


def record(lab: dict[str, Any], **more: Any) -> Path:
    folder = Path(lab["lab_dir"], lab["name"])
    folder.mkdir(parents=True)
    machine = {"name": "web", "port": 2222, "boot": "bios", "memory": 512, "cpus": 2, "accel": "tcg", "icount": False}
    text = json.dumps({"image": lab["image"], "ready": True, "machine": machine, **more})
    (folder / guests.STATE_FILE).write_text(text)
    return folder


def test_started_makes_and_waits(capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any]) -> None:
    result = run(capsys, **lab, accel="tcg", timeout=7)
    assert calls == ["start web 2222 image.qcow2", "wait web 7"]
    assert result["changed"]
    assert result["done"] == "create"


def test_check_mode_starts_nothing(capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any]) -> None:
    result = run(capsys, **lab, _ansible_check_mode=True)
    assert (result["changed"], result["done"], calls) == (True, "create", [])
    assert not Path(lab["lab_dir"]).exists()


@pytest.mark.parametrize("state", ["stopped", "reset"])
def test_a_guest_that_does_not_exist(
    capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any], state: str
) -> None:
    result = run(capsys, name="web", lab_dir=lab["lab_dir"], state=state)
    assert result["failed"]
    assert "guest web does not exist" in result["msg"]


def test_to_make_a_guest_image_and_port_are_needed(
    capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any]
) -> None:
    del lab["port"]
    assert "give port" in run(capsys, **lab)["msg"]
    assert "base image /none.qcow2 does not exist" in run(capsys, **dict(lab, port=2222, image="/none.qcow2"))["msg"]


def test_missing_qemu_is_named_by_its_package(
    capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "missing_packages", lambda *_args, **_kwargs: ["qemu-system-x86"])
    assert "qemu-system-x86" in run(capsys, **lab)["msg"]
    assert calls == []


@pytest.mark.parametrize("name", ["Web", "-web", "../web", "web.example", "a" * 64])
def test_a_name_that_is_no_host_name(capsys: pytest.CaptureFixture[str], lab: dict[str, Any], name: str) -> None:
    assert "is no host name" in run(capsys, **dict(lab, name=name))["msg"]


def test_only_absent_goes_without_a_name(capsys: pytest.CaptureFixture[str], lab: dict[str, Any]) -> None:
    assert "needs a name" in run(capsys, lab_dir=lab["lab_dir"], state="stopped")["msg"]


def test_a_crashed_guest_is_started_with_a_warning_that_shows_its_console(
    capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record(lab, wanted="started")
    (folder / guests.CONSOLE).write_text("Kernel panic - not syncing\n")
    # In a process that has loaded the controller's code too, ansible-core shows warnings instead of returning them.
    warnings: list[str] = []
    monkeypatch.setattr(lab_guest.AnsibleModule, "warn", lambda _module, text, **_more: warnings.append(text))
    result = run(capsys, **lab)
    assert result["done"] == "start"
    assert "Kernel panic" in warnings[0]


def test_reset_presses_the_button_of_a_running_guest(
    capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(lab, wanted="started")
    monkeypatch.setattr(qemu, "find", lambda _dir: 4711)
    result = run(capsys, name="web", lab_dir=lab["lab_dir"], state="reset", wait=False)
    assert (result["changed"], result["done"], calls) == (True, "reset", ["reset web"])


def test_reset_starts_a_guest_that_does_not_run(
    capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any]
) -> None:
    record(lab, wanted="stopped")
    run(capsys, name="web", lab_dir=lab["lab_dir"], state="reset", wait=False)
    assert calls == ["start web 2222 image.qcow2"]


def test_absent_without_a_name_means_all_and_is_idempotent(
    capsys: pytest.CaptureFixture[str], calls: list[str], lab: dict[str, Any]
) -> None:
    record(lab)
    checked = run(capsys, lab_dir=lab["lab_dir"], state="absent", _ansible_check_mode=True)
    assert checked["done"] == "remove web"
    assert Path(lab["lab_dir"], "web").exists()
    assert run(capsys, lab_dir=lab["lab_dir"], state="absent")["changed"]
    assert not Path(lab["lab_dir"]).exists()
    assert not run(capsys, lab_dir=lab["lab_dir"], state="absent")["changed"]
