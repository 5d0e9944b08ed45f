# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU processes: how they are called, found and what they need of the host."""

from __future__ import annotations

import os
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from .errors import FleetError

QEMU = "qemu-system-x86_64"
# (code, variables) of the firmware, newest layout first.
_OVMF = (
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
)
# Tool -> Debian package, for what the lab runs on the controller.
PACKAGE_OF = {
    QEMU: "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "fakeroot": "fakeroot",
    "newuidmap": "uidmap",
    "mformat": "mtools",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
# What stands in for root where the lab is not run by root.
_WITHOUT_ROOT = ("fakeroot", "newuidmap")


@dataclass(frozen=True)
class Machine:
    """The hardware of a guest. ``memory`` is in MiB."""

    name: str
    port: int
    boot: str = "bios"
    memory: int = 512
    cpus: int = 2
    accel: str = "tcg"
    icount: bool = False


def which(tool: str) -> str | None:
    """Return the path of a tool, also where an ordinary user's PATH does not look."""
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def ovmf() -> tuple[str, str]:
    """Return the paths of the UEFI firmware's code and variables; FleetError without it."""
    for code, variables in _OVMF:
        if os.path.exists(code) and os.path.exists(variables):
            return code, variables
    raise FleetError("no UEFI firmware for QEMU on this host: install the Debian package ovmf")


def missing_packages(tools: list[str], uefi: bool = False, root: bool | None = None) -> list[str]:
    """Return the Debian packages that are wanting for ``tools`` and, with ``uefi``, the firmware."""
    root = os.geteuid() == 0 if root is None else root
    missing = {PACKAGE_OF[tool] for tool in tools if not which(tool) and not (root and tool in _WITHOUT_ROOT)}
    if uefi:
        try:
            ovmf()
        except FleetError:
            missing.add("ovmf")
    return sorted(missing)


def pick_accel(wanted: str, kvm: str = "/dev/kvm", cpuinfo: str = "/proc/cpuinfo") -> str:
    """Return `kvm` or `tcg` for `auto`, `kvm` or `tcg`.

    A /dev/kvm that opens is not enough: without the CPU's own flag it is an
    emulation that hangs ordinary guests.
    """
    if wanted == "tcg":
        return "tcg"
    try:
        os.close(os.open(kvm, os.O_RDWR))
        opens = True
    except OSError:
        opens = False
    flags = re.search(r"^flags\s*:(.*)$", Path(cpuinfo).read_text(encoding="utf-8"), re.MULTILINE)
    usable = opens and bool(flags and {"vmx", "svm"} & set(flags[1].split()))
    if wanted == "kvm" and not usable:
        why = "the CPU shows neither vmx nor svm" if opens else f"{kvm} cannot be opened"
        raise FleetError(f"lab_accel is kvm but {why}; use auto or tcg")
    return "kvm" if usable else "tcg"


def command(machine: Machine, guest_dir: Path) -> list[str]:
    """Return QEMU's command line. It is to be run in ``guest_dir``, which holds the guest's files.

    The disk's absolute path in it is what tells our processes from others.
    """
    # Under TCG a simple CPU and a bounded translation cache are the fastest; where it shows svm, Debian loads KVM.
    # One thread emulates all CPUs: with more, QEMU misses at times that one CPU patched code which another executes,
    # and that one traps at the old byte forever.
    cpus = 1 if machine.icount else machine.cpus
    if machine.accel == "kvm" and not machine.icount:
        accel, cpu = "kvm", "host"
    else:
        accel, cpu = "tcg,thread=single,tb-size=256", "qemu64,-svm"
    line = [
        which(QEMU) or QEMU,
        *("-name", f"fetchbpf-lab-{machine.name}"),
        *("-machine", "q35", "-accel", accel, "-cpu", cpu),
        *("-smp", str(cpus), "-m", str(machine.memory)),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-drive", f"file={_escaped(disk_path(guest_dir))},if=none,id=disk0,format=qcow2,cache=unsafe,discard=unmap"),
        *("-device", "virtio-blk-pci,drive=disk0,bootindex=0"),
        *("-netdev", f"user,id=net0,hostfwd=tcp:127.0.0.1:{machine.port}-:22"),
        # No option ROM: nothing here boots from the network.
        *("-device", "virtio-net-pci,netdev=net0,romfile="),
        *("-object", "rng-random,id=rng0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng0"),
        *("-chardev", "file,id=serial0,path=console.log,append=on", "-serial", "chardev:serial0"),
        *("-qmp", "unix:qmp.sock,server=on,wait=off"),
        *("-pidfile", "qemu.pid", "-daemonize"),
    ]
    if machine.boot == "uefi":
        code, _variables = ovmf()
        line += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={_escaped(code)}"]
        line += ["-drive", f"if=pflash,unit=1,format=raw,file={_escaped(guest_dir / 'vars.fd')}"]
    if machine.icount:
        line += ["-icount", "shift=0,sleep=on"]
    return line


def disk_path(guest_dir: Path) -> Path:
    return guest_dir / "disk.qcow2"


def _escaped(path: Path | str) -> str:
    """Return a path for use in a QEMU option, where a comma is doubled."""
    return str(path).replace(",", ",,")


def find(guest_dir: Path, proc: str = "/proc") -> int | None:
    """Return the id of the process that runs on the guest's disk.

    Looking at the processes themselves is right also when a pid file is stale or gone.
    """
    wanted = f"file={_escaped(disk_path(guest_dir))},".encode()
    for entry in os.scandir(proc):
        if not entry.name.isdigit():
            continue
        try:
            words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"qemu" in words[0] and any(word.startswith(wanted) for word in words):
            return int(entry.name)
    return None


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def port_holder(port: int, proc: str = "/proc") -> str:
    """Return "name (pid N)" of the process that listens on a TCP port, or "" if it cannot be told."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(proc, "net", table).read_text(encoding="utf-8").splitlines()[1:]
        except OSError:
            continue
        for row in (line.split() for line in rows):
            if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{row[9]}]")
    for entry in os.scandir(proc):
        if not entry.name.isdigit():
            continue
        try:
            links = {os.readlink(link.path) for link in os.scandir(f"{entry.path}/fd")}
            if inodes & links:
                return f"{Path(entry.path, 'comm').read_text(encoding='utf-8').strip()} (pid {entry.name})"
        except OSError:
            continue
    return ""
