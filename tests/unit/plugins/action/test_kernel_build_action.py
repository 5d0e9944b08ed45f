# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible_collections.fetchbpf.fleet.plugins.action import kernel_build
from ansible_collections.fetchbpf.fleet.plugins.module_utils.manifest import read_manifest, store

KEY = "0123456789abcdef"


@pytest.fixture
def there(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """An artifact on the build host, and its manifest."""
    beside = tmp_path / "there/new"
    beside.mkdir(parents=True)
    (beside / "linux-image-6.12_1_amd64.deb").write_text("kernel")
    return tmp_path / "there" / KEY, store(beside, tmp_path / "there" / KEY, {"key": KEY})


def run(home: Path, source: Path, manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the action where Ansible's fetch copies a file."""
    task = MagicMock(args={"controller_dir": str(home)}, check_mode=False, async_val=0)
    task.copy.side_effect = MagicMock
    shared = MagicMock()

    def fetch(_name: str, task: Any, **_more: Any) -> MagicMock:
        def copy(task_vars: dict[str, Any]) -> dict[str, Any]:
            target = Path(task.args["dest"])
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(task.args["src"], target)
            return {"changed": True}

        return MagicMock(run=copy)

    shared.action_loader.get.side_effect = fetch
    action = kernel_build.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
    answer = {"changed": False, "artifact_dir": str(source), "manifest": manifest}
    monkeypatch.setattr(action, "_shared_loader_obj", shared)
    monkeypatch.setattr(action, "run_module", lambda args, task_vars: answer)
    return {**action.run(task_vars={"inventory_hostname": "a"}), "fetched": shared.action_loader.get.call_count}


def test_the_artifact_comes_home_once(
    tmp_path: Path, there: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, manifest = there
    home = tmp_path / "home"
    first = run(home, source, manifest, monkeypatch)
    assert (first["changed"], first["fetched"]) == (True, 2)
    assert read_manifest(home / KEY, KEY) == manifest
    again = run(home, source, manifest, monkeypatch)
    assert (again["changed"], again["fetched"]) == (False, 0)


def test_a_damaged_copy_is_brought_again_and_a_damaged_original_is_refused(
    tmp_path: Path, there: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, manifest = there
    home = tmp_path / "home"
    run(home, source, manifest, monkeypatch)
    (home / KEY / "linux-image-6.12_1_amd64.deb").write_text("ker")
    assert run(home, source, manifest, monkeypatch)["changed"]
    whole = read_manifest(home / KEY, KEY)
    assert whole == manifest
    (source / "linux-image-6.12_1_amd64.deb").write_text("ker")
    shutil.rmtree(home)
    refused = run(home, source, manifest, monkeypatch)
    assert refused["failed"] and "is not what its manifest says" in refused["msg"]
    assert not (home / KEY).exists()
