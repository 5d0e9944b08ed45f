# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import struct
import tarfile
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_disk, qemu
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

PARTS = [
    lab_disk.Partition(0x83, lab_disk.ROOT_START, 64 * lab_disk.MIB, active=True),
    lab_disk.Partition(0xEF, lab_disk.ROOT_START + 64 * lab_disk.MIB, lab_disk.ESP_SIZE),
]


def test_mbr_has_boot_code_two_partitions_and_the_signature() -> None:
    record = lab_disk.mbr(b"\x90" * 512, PARTS, 0x12345678)
    assert len(record) == 512
    assert record[:440] == b"\x90" * 440
    assert struct.unpack_from("<I", record, 440)[0] == 0x12345678
    first = struct.unpack_from("<B3sB3sII", record, 446)
    assert (first[0], first[2], first[4], first[5]) == (0x80, 0x83, 2048, 64 * 2048)
    second = struct.unpack_from("<B3sB3sII", record, 462)
    assert (second[0], second[2], second[4], second[5]) == (0, 0xEF, 2048 + 64 * 2048, 16 * 2048)
    assert record[478:510] == bytes(32)
    assert record[510:] == b"\x55\xaa"


def test_five_partitions_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="four"):
        lab_disk.mbr(b"", PARTS * 3, 1)


def test_grub_lies_in_the_sectors_after_the_mbr(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(lab_disk.ROOT_START) + b"root")
    lab_disk.embed_bios_grub(disk, b"B" * 512, b"C" * 1000, PARTS, 1)
    content = disk.read_bytes()
    assert content[:440] == b"B" * 440
    assert content[512:1512] == b"C" * 1000
    assert content[1512:] == bytes(lab_disk.ROOT_START - 1512) + b"root"


def test_a_core_image_that_would_reach_the_partition_is_refused(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"untouched")
    with pytest.raises(FleetError, match="does not fit"):
        lab_disk.embed_bios_grub(disk, b"", bytes(lab_disk.ROOT_START), PARTS, 1)
    assert disk.read_bytes() == b"untouched"


@pytest.mark.skipif(not qemu.which("mke2fs") or not qemu.which("debugfs"), reason="needs e2fsprogs")
@pytest.mark.skipif(os.geteuid() != 0 and not shutil.which("fakeroot"), reason="needs root or fakeroot")
def test_root_fs_keeps_owners_modes_and_its_uuid(tmp_path: Path) -> None:
    tar = tmp_path / "root.tar"
    with tarfile.open(tar, "w") as archive:
        entry = tarfile.TarInfo("secret")
        entry.uid, entry.gid, entry.mode = 42, 43, 0o640
        archive.addfile(entry)
    disk = tmp_path / "disk"
    size = 16 * lab_disk.MIB
    with disk.open("wb") as handle:
        handle.truncate(lab_disk.ROOT_START + size)
    uuid = "01234567-89ab-4def-8123-456789abcdef"
    lab_disk.make_root_fs(disk, tar, tmp_path, size, uuid)
    assert not (tmp_path / "tree").exists()
    file_system = tmp_path / "fs"
    file_system.write_bytes(disk.read_bytes()[lab_disk.ROOT_START :])

    def debugfs(request: str) -> str:
        return lab_disk.run([str(qemu.which("debugfs")), "-R", request, str(file_system)], "looking")

    stat = debugfs("stat /secret")
    assert "User:    42   Group:    43" in stat
    assert "Mode:  0640" in stat
    assert uuid in debugfs("stats -h")


@pytest.mark.skipif(not qemu.which("mformat"), reason="needs mtools")
def test_esp_holds_the_files_under_their_paths(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"x" * 512)
    lab_disk.make_esp(disk, 512, {"/EFI/BOOT/BOOTX64.EFI": b"core", "/EFI/debian/grub.cfg": b"cfg"}, tmp_path)
    listing = lab_disk.run(["mdir", "-/", "-b", "-i", f"{disk}@@512", "::"], "looking")
    files = [line for line in listing.split() if not line.endswith("/")]
    assert sorted(files) == ["::/EFI/BOOT/BOOTX64.EFI", "::/EFI/debian/grub.cfg"]
    assert disk.read_bytes()[:512] == b"x" * 512


def test_a_failing_tool_is_named_with_its_words() -> None:
    with pytest.raises(FleetError, match="making tea: sh failed \\(exit code 3\\):\nno water"):
        lab_disk.run(["sh", "-c", "echo no water >&2; exit 3"], "making tea")
