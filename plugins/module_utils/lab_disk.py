# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bootable disk from a root file system's tar, without root, loop devices or grub-install.

The disk has an MBR with the root file system and, for UEFI, an EFI system
partition after it. GRUB's core image for BIOS lies between MBR and partition.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple

from . import process
from .errors import FleetError

SECTOR = 512
MIB = 1024 * 1024
# Where the first partition starts; what lies before is GRUB's.
ROOT_START = MIB
ESP_SIZE = 16 * MIB
_BOOT_CODE_SIZE = 440


class Partition(NamedTuple):
    """A primary partition: MBR type, start and size in bytes, active flag."""

    kind: int
    start: int
    size: int
    active: bool = False


def mbr(boot_code: bytes, partitions: list[Partition], disk_id: int) -> bytes:
    """Return the 512 bytes of a master boot record with up to four partitions."""
    if len(partitions) > 4:
        raise ValueError("an MBR has room for four partitions")
    record = bytearray(SECTOR)
    code = boot_code[:_BOOT_CODE_SIZE]
    record[: len(code)] = code
    struct.pack_into("<I", record, _BOOT_CODE_SIZE, disk_id)
    for number, part in enumerate(partitions):
        # CHS addresses are filled with the mark for "use LBA".
        chs = b"\xfe\xff\xff"
        entry = struct.pack(
            "<B3sB3sII", 0x80 if part.active else 0, chs, part.kind, chs, part.start // SECTOR, part.size // SECTOR
        )
        record[446 + 16 * number : 462 + 16 * number] = entry
    record[510:] = b"\x55\xaa"
    return bytes(record)


def embed_bios_grub(disk: Path, boot_img: bytes, core_img: bytes, partitions: list[Partition], disk_id: int) -> None:
    """Write MBR and GRUB's core image into ``disk``.

    GRUB's images expect the core in the sectors right after the MBR, so
    nothing in them has to be patched.
    """
    if SECTOR + len(core_img) > ROOT_START:
        raise FleetError(f"GRUB's core image of {len(core_img)} bytes does not fit before the first partition")
    with disk.open("r+b") as handle:
        handle.write(mbr(boot_img, partitions, disk_id))
        handle.write(core_img)


def make_root_fs(disk: Path, tar: Path, work: Path, size: int, uuid: str) -> None:
    """Make an ext4 file system of ``size`` bytes with the content of ``tar`` at ROOT_START of ``disk``.

    Without root the owners of files live in fakeroot's head only, so unpacking
    and mke2fs run in one fakeroot session.
    """
    tree = work / "tree"
    script = (
        'PATH=$PATH:/usr/sbin:/sbin; mkdir "$1" && tar -C "$1" -xf "$2" --numeric-owner && '
        'mke2fs -q -t ext4 -F -L fetchbpf-root -U "$5" -m 1 -E "offset=$6,lazy_itable_init=1,lazy_journal_init=1"'
        ' -d "$1" "$3" "$4"'
    )
    command = ["sh", "-c", script, "sh", str(tree), str(tar), str(disk), f"{size // 1024}k", uuid, str(ROOT_START)]
    try:
        run(command if os.geteuid() == 0 else ["fakeroot", *command], "making the root file system")
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def make_esp(disk: Path, start: int, files: dict[str, bytes], work: Path) -> None:
    """Write a FAT file system of ESP_SIZE with ``files`` (path -> content) at ``start`` of ``disk``."""
    image = work / "esp.img"
    run(["mformat", "-i", str(image), "-C", "-T", str(ESP_SIZE // SECTOR), "-v", "ESP", "::"], "making the ESP")
    folders: list[str] = []
    for number, (path, content) in enumerate(sorted(files.items())):
        parents = [str(parent) for parent in reversed(Path(path).parents) if str(parent) not in ("/", ".")]
        folders.extend(parent for parent in parents if parent not in folders)
        (work / f"esp{number}").write_bytes(content)
    for folder in folders:
        run(["mmd", "-i", str(image), f"::{folder}"], "making the ESP")
    for number, path in enumerate(sorted(files)):
        run(["mcopy", "-i", str(image), str(work / f"esp{number}"), f"::{path}"], "making the ESP")
    with disk.open("r+b") as handle:
        handle.seek(start)
        handle.write(image.read_bytes())


def run(command: list[str], doing: str, **options: Any) -> str:
    """Run a tool and return its output; FleetError with the end of its errors if it fails."""
    done = process.run(command, **options)
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise FleetError(f"{doing}: {command[0]} failed (exit code {done.returncode}):\n{tail}")
    return done.stdout
