# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be true of a host before a kernel is put on it. Each check reads only, and raises FleetError."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils import grub
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target

GRUB_CFG = "/boot/grub/grub.cfg"
GRUB_ENV = "/boot/grub/grubenv"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SUPPORTED = "Debian, Ubuntu and their derivatives, booted by GRUB 2 and systemd"
MIB = 1 << 20
# Left over on each file system, so that a full /boot never stops the next update-grub.
RESERVE = 4 * MIB
DPKG_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# File systems and device layers that GRUB only reads: there a one-shot entry would never be cleared.
READ_ONLY_FILE_SYSTEMS = ("btrfs", "cpiofs", "newc", "odc", "romfs", "squash4", "tarfs", "zfs")
READ_ONLY_ABSTRACTIONS = ("diskfilter", "lvm", "mdraid09", "mdraid1x", "cryptodisk", "luks", "luks2")


def check_platform(target: Target) -> None:
    """Refuse a host that is not of the supported family or was not started by its own GRUB."""
    values = dict(
        line.split("=", 1) for line in target.read("/etc/os-release").splitlines() if "=" in line and line[0] != "#"
    )
    family = f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".replace('"', "").split()
    if not {"debian", "ubuntu"} & set(family):
        name = values.get("PRETTY_NAME", values.get("ID", "unknown")).strip('"')
        raise FleetError(f"distribution {name} is not supported; supported are {SUPPORTED}")
    if not target.exists("/run/systemd/system"):
        raise FleetError(f"systemd does not run here; supported are {SUPPORTED}")
    if not target.exists(GRUB_CFG) or not target.exists("/usr/sbin/grub-mkconfig"):
        missing = GRUB_CFG if not target.exists(GRUB_CFG) else "/usr/sbin/grub-mkconfig"
        raise FleetError(f"GRUB is not installed ({missing} is missing); supported are {SUPPORTED}")
    if target.argument("BOOT_IMAGE") is None:
        raise FleetError(
            "the running kernel was not started by GRUB (no BOOT_IMAGE= in /proc/cmdline), "
            "so a boot entry would have no effect: is the kernel given by the hypervisor?"
        )
    grub.check_timeout(target.read(GRUB_CFG), GRUB_CFG)


def check_architecture(target: Target, machine: str, arch: str) -> None:
    """Refuse an artifact for another machine than ``machine`` (as uname -m says)."""
    if arch != machine:
        raise FleetError(f"the artifact is for {arch}, this host is {machine}")
    packages = target.check(["dpkg", "--print-architecture"], "asking dpkg").strip()
    wanted = DPKG_ARCHITECTURES.get(arch, arch)
    if packages != wanted:
        raise FleetError(f"the artifact's packages are for {wanted}, this host's dpkg installs {packages}")


def check_environment_block(target: Target) -> None:
    """Refuse a grubenv that GRUB cannot write: it could not clear a one-shot entry."""
    directory = os.path.dirname(GRUB_ENV)
    for kind, bad in (("fs", READ_ONLY_FILE_SYSTEMS), ("abstraction", READ_ONLY_ABSTRACTIONS)):
        found = target.check(["grub-probe", f"--target={kind}", directory], "asking GRUB about its directory").split()
        for name in found:
            if name in bad:
                raise FleetError(
                    f"GRUB cannot write {GRUB_ENV} ({kind} {name}), so a one-shot boot would repeat for ever; "
                    f"put /boot on a plain ext4, xfs or FAT partition"
                )
    text = target.read(GRUB_ENV)
    if text and not text.startswith("# GRUB Environment Block\n"):
        raise FleetError(f"{GRUB_ENV} is not a GRUB environment block; make it anew: grub-editenv {GRUB_ENV} create")


def check_secure_boot(target: Target, release: str, signed: bool | None) -> None:
    """Refuse an unsigned kernel where the firmware would not start it."""
    try:
        with open(target.path(SECURE_BOOT), "rb") as handle:
            enabled = handle.read()[4:5] == b"\x01"
    except OSError:
        return
    if enabled and not signed:
        raise FleetError(
            f"Secure Boot is on and kernel {release} is not signed, GRUB would refuse to start it; "
            "sign its image with a key enrolled on this host, or turn Secure Boot off"
        )


def check_space(target: Target, running: str, payload: dict[str, Any], replaced: Iterable[str]) -> None:
    """Refuse a host without room for the kernel, with what is needed and what is free in MiB.

    ``payload``: {"boot_bytes", "installed_bytes"} of the packages. The initramfs is taken to be as large
    as the running kernel's. ``replaced`` are files that the new ones take the place of.
    """
    initramfs = target.size(f"/boot/initrd.img-{running}")
    freed = sum(target.size(name) for name in replaced)
    needs = {"/boot": payload["boot_bytes"] + initramfs - freed}
    modules = payload["installed_bytes"] - payload["boot_bytes"]
    root = "/usr/lib"
    if os.stat(target.path(root)).st_dev == os.stat(target.path("/boot")).st_dev:
        needs["/boot"] += modules
    else:
        needs[root] = modules
    for directory, need in needs.items():
        status = os.statvfs(target.path(directory))
        free = status.f_bavail * status.f_frsize
        if free < need + RESERVE:
            raise FleetError(
                f"{directory} has {free / MIB:.0f} MiB free, the kernel needs {(need + RESERVE) / MIB:.0f} MiB "
                f"(of these {initramfs / MIB:.0f} MiB for an initramfs like that of {running})",
                free_bytes=free,
                needed_bytes=need + RESERVE,
            )
