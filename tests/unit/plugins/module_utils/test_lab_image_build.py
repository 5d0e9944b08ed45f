# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import io
import os
import tarfile
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_disk, lab_image
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

RECIPE = lab_image.Recipe(
    suite="bookworm",
    boot="bios",
    sources=("deb http://m.example/debian bookworm main",),
    authorized_key="ssh-ed25519 AAAA lab",
    root_size=16 * lab_disk.MIB,
)

# Stands for mmdebstrap: notes that it ran, then writes what the real one would into the work folder, or fails.
FAKE_MMDEBSTRAP = """#!/bin/sh
echo ran >> "$FAKE_LOG"
echo "I: running apt-get update..."
if [ -n "$FAKE_FAILS" ]; then
    echo "I: downloading packages with apt..."
    echo "E: Failed to fetch http://m.example/debian/x.deb  404  Not Found"
    exit 25
fi
for word; do case $word in */root.tar) work=${word%/root.tar} ;; esac; done
tar -cf "$work/root.tar" -C "$work" overlay.tar
echo core > "$work/core.img"
echo boot > "$work/boot.img"
echo core > "$work/core.efi"
"""
FAKE_QEMU_IMG = """#!/bin/sh
shift 3
exec cp "$1" "$2"
"""


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put fakes of mmdebstrap and qemu-img into PATH; return the log of mmdebstrap's runs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("mmdebstrap", FAKE_MMDEBSTRAP), ("qemu-img", FAKE_QEMU_IMG)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(lab_disk, "make_root_fs", lambda *_args: None)
    return tmp_path / "log"


@pytest.fixture
def image_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    return folder


def report(_line: str) -> None:
    pass


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "trixie"},
        {"boot": "uefi"},
        {"sources": ("deb http://other.example/debian bookworm main",)},
        {"authorized_key": "ssh-ed25519 BBBB lab"},
        {"extra_packages": ("gdb",)},
        {"root_size": 17 * lab_disk.MIB},
        {"script": "exit 0"},
        {"files": ()},
        {"masked_units": ()},
    ],
)
def test_every_part_of_the_recipe_is_in_the_name(change: dict) -> None:
    assert dataclasses.replace(RECIPE, **change).file_name != RECIPE.file_name
    assert dataclasses.replace(RECIPE).file_name == RECIPE.file_name


def test_family_names() -> None:
    assert lab_image.parse_family("bookworm-bios") == ("bookworm", "bios")
    assert lab_image.parse_family("bookworm-backports-uefi") == ("bookworm-backports", "uefi")
    for wrong in ("bookworm", "bookworm-coreboot", "-bios", "Book worm-bios"):
        with pytest.raises(FleetError, match="bookworm-bios"):
            lab_image.parse_family(wrong)


@pytest.mark.parametrize("boot", ["bios", "uefi"])
def test_the_script_has_no_placeholder_left(boot: str) -> None:
    recipe = dataclasses.replace(RECIPE, boot=boot)
    script = recipe.customise_script()
    assert recipe.root_uuid in script
    for name in ("UUID", "TARGET", "CORE", "MODULES", "TERMINAL", "UNITS", "GENERATORS"):
        assert f"@{name}@" not in script


def test_the_key_is_where_sshd_believes_it() -> None:
    with tarfile.open(fileobj=io.BytesIO(RECIPE.overlay_tar())) as tar:
        assert tar.getmember("root/.ssh").mode == 0o700
        entry = tar.getmember("root/.ssh/authorized_keys")
        assert entry.mode == 0o600
        handle = tar.extractfile(entry)
        assert handle
        assert handle.read() == b"ssh-ed25519 AAAA lab\n"


def test_boot_img_is_taken_only_where_grub_has_one() -> None:
    bios = " ".join(lab_image.mmdebstrap_command(RECIPE, Path("/w")))
    uefi = " ".join(lab_image.mmdebstrap_command(dataclasses.replace(RECIPE, boot="uefi"), Path("/w")))
    assert "boot.img" in bios
    assert "grub-pc" in bios
    assert "boot.img" not in uefi
    assert "core.efi" in uefi


def test_an_image_is_made_once(fakes: Path, image_dir: Path) -> None:
    lines: list[str] = []
    path = lab_image.build(RECIPE, image_dir, lines.append)
    assert path == image_dir / RECIPE.file_name
    assert path.stat().st_size == lab_disk.ROOT_START + RECIPE.root_size
    assert path.read_bytes()[510:517] == b"\x55\xaacore\n"
    assert lines == ["running apt-get update", "making the disk"]
    assert lab_image.build(RECIPE, image_dir, lines.append) == path
    assert fakes.read_text() == "ran\n"
    left = sorted(entry.name for entry in image_dir.iterdir())
    assert left == sorted([f".{RECIPE.family}.lock", path.name, path.with_suffix(".json").name])


def test_a_failed_build_says_why_and_leaves_nothing(
    fakes: Path, image_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAILS", "1")
    with pytest.raises(FleetError, match="404  Not Found") as caught:
        lab_image.build(RECIPE, image_dir, report)
    assert "running apt-get update" not in str(caught.value)
    assert [entry.name for entry in image_dir.iterdir()] == [f".{RECIPE.family}.lock"]
    assert not list(Path("/var/tmp").glob(f"fetchbpf-lab-{RECIPE.family}-*"))


def test_what_a_killed_build_left_does_not_disturb(fakes: Path, image_dir: Path) -> None:
    (image_dir / f".{RECIPE.family}.work" / "tree").mkdir(parents=True)
    assert lab_image.build(RECIPE, image_dir, report).exists()
    assert not (image_dir / f".{RECIPE.family}.work").exists()


def test_an_old_image_goes_when_its_last_disk_has_gone(tmp_path: Path, image_dir: Path) -> None:
    names = ("bookworm-bios-0.qcow2", RECIPE.file_name, "trixie-bios-0.qcow2")
    old, current, other = (image_dir / name for name in names)
    for image in (old, current, other):
        image.write_text("")
    old.with_suffix(".json").write_text("{}")
    disk = tmp_path / "disk.qcow2"
    disk.write_text("")
    lab_image.register_user(old, disk)
    lab_image.register_user(old, disk)
    assert lab_image.prune(image_dir, RECIPE) == []
    disk.unlink()
    assert lab_image.prune(image_dir, RECIPE) == [old.name]
    assert sorted(image_dir.iterdir()) == sorted([current, other])
