# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.fetchbpf.fleet.plugins.module_utils import apt_sources, lab_disk, qemu
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_image as images
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.modules import lab_image

MIRROR = apt_sources.AptSource("http://m.example/debian", "bookworm", ("main",))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the host's configuration and the build; return the names of what was built."""
    noted: list[str] = []

    def build(recipe: images.Recipe, image_dir: Path, report: Callable[[str], None]) -> Path:
        report("making it")
        noted.append(recipe.family)
        if recipe.suite == "sarge":
            raise FleetError("mmdebstrap could not make a sarge system")
        path = images.image_path(recipe, image_dir)
        path.write_text("image")
        return path

    monkeypatch.setattr(images, "build", build)
    monkeypatch.setattr(apt_sources, "host_codename", lambda: "bookworm")
    monkeypatch.setattr(apt_sources, "read_sources", lambda: [MIRROR])
    monkeypatch.setattr(apt_sources, "carried_options", lambda: [])
    monkeypatch.setattr(qemu, "missing_packages", lambda *_args, **_kwargs: [])
    return noted


@pytest.fixture
def args(tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "key").write_text("private")
    (folder / "key.pub").write_text("ssh-ed25519 AAAA\n")
    return {"image_dir": str(folder), "private_key": str(folder / "key"), "images": ["bookworm-bios", "trixie-uefi"]}


def run(capsys: pytest.CaptureFixture[str], **args: Any) -> dict[str, Any]:
    with patch_module_args(args), pytest.raises(SystemExit):
        lab_image.main()
    return json.loads(capsys.readouterr().out)


def test_images_are_made_once(capsys: pytest.CaptureFixture[str], built: list[str], args: dict[str, Any]) -> None:
    first = run(capsys, **args)
    assert first["changed"]
    assert first["made"] == sorted(built) == ["bookworm-bios", "trixie-uefi"]
    second = run(capsys, **args)
    assert (second["changed"], second["made"], len(built)) == (False, [], 2)
    assert second["paths"] == first["paths"]
    assert all(Path(path).exists() for path in second["paths"].values())


def test_check_mode_makes_nothing(capsys: pytest.CaptureFixture[str], built: list[str], args: dict[str, Any]) -> None:
    Path(args["private_key"]).unlink()
    result = run(capsys, **args, _ansible_check_mode=True)
    assert result["changed"]
    assert result["made"] == ["bookworm-bios", "trixie-uefi"]
    assert built == []
    assert [entry.name for entry in Path(args["image_dir"]).iterdir()] == ["key.pub"]


def test_one_failure_does_not_stop_the_other_and_is_reported(
    capsys: pytest.CaptureFixture[str], built: list[str], args: dict[str, Any]
) -> None:
    result = run(capsys, **dict(args, images=["sarge-bios", "trixie-bios"]))
    assert result["failed"]
    assert result["msg"] == "image sarge-bios: mmdebstrap could not make a sarge system"
    assert sorted(built) == ["sarge-bios", "trixie-bios"]


def test_missing_tools_are_named_when_they_may_not_be_installed(
    capsys: pytest.CaptureFixture[str], built: list[str], args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "missing_packages", lambda *_args, **_kwargs: ["mmdebstrap", "ovmf"])
    result = run(capsys, **args, install_packages=False)
    assert "apt-get install mmdebstrap ovmf" in result["msg"]
    assert result["missing_packages"] == ["mmdebstrap", "ovmf"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "apt-get install mmdebstrap ovmf" in run(capsys, **args)["msg"]
    assert built == []


def test_missing_tools_are_installed_by_root_after_an_update_if_need_be(
    capsys: pytest.CaptureFixture[str], built: list[str], args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []

    def apt(command: list[str], _doing: str, **_options: Any) -> str:
        commands.append(" ".join(command[:2]))
        if len(commands) == 1:
            raise FleetError("no such package in old lists")
        return ""

    monkeypatch.setattr(qemu, "missing_packages", lambda *_args, **_kwargs: ["ovmf"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(lab_disk, "run", apt)
    assert run(capsys, **args)["installed"] == ["ovmf"]
    assert commands == ["apt-get install", "apt-get update", "apt-get install"]


def test_a_full_disk_is_told_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], built: list[str], args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_image, "_SPACE_MIB", 1 << 40)
    assert "not enough disk space for making the lab's images" in run(capsys, **args)["msg"]
    assert built == []


def test_a_wrong_name_is_told(capsys: pytest.CaptureFixture[str], built: list[str], args: dict[str, Any]) -> None:
    assert "'bookworm'" in run(capsys, **dict(args, images=["bookworm"]))["msg"]


def test_an_old_image_is_removed(capsys: pytest.CaptureFixture[str], built: list[str], args: dict[str, Any]) -> None:
    old = Path(args["image_dir"], "bookworm-bios-000000000000.qcow2")
    old.write_text("")
    assert run(capsys, **args)["removed"] == [old.name]
    assert not old.exists()
