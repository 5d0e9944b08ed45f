# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_guest, qemu
from ansible_collections.fetchbpf.fleet.plugins.modules import lab_guest_info


def run(capsys: pytest.CaptureFixture[str], **args: Any) -> list[dict[str, Any]]:
    with patch_module_args(args), pytest.raises(SystemExit):
        lab_guest_info.main()
    result = json.loads(capsys.readouterr().out)
    assert not result["changed"]
    return result["guests"]


def test_every_state_a_guest_can_be_in(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, wanted in (("gone", "started"), ("here", "started"), ("off", "stopped")):
        (tmp_path / name).mkdir()
        record = {"image": "/i.qcow2", "wanted": wanted, "machine": {"name": name, "port": 2222}}
        (tmp_path / name / lab_guest.STATE_FILE).write_text(json.dumps(record))
    (tmp_path / "half").mkdir()
    monkeypatch.setattr(qemu, "find", lambda path: 4711 if path.name == "here" else None)
    states = {guest["name"]: guest["state"] for guest in run(capsys, lab_dir=str(tmp_path))}
    assert states == {"gone": "crashed", "half": "absent", "here": "running", "off": "stopped"}


def test_the_end_of_a_console(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / lab_guest.CONSOLE).write_text("one\r\n\x1b[1mtwo\x1b[0m\r\nthree\r\n")
    assert run(capsys, lab_dir=str(tmp_path), name="web", console_lines=2)[0]["console"] == ["two", "three"]
    assert run(capsys, lab_dir=str(tmp_path), name="web")[0]["console"] == []


def test_no_lab_at_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, lab_dir=str(tmp_path / "none")) == []
