# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import preflight
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target
from fake_host import NEW, OLD, FakeHost


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path / "host", tmp_path / "artifact")


@pytest.fixture
def target(host: FakeHost) -> Target:
    return Target(host.run, str(host.root))


def test_a_debian_host_started_by_grub_is_accepted(target: Target) -> None:
    preflight.check_platform(target)
    preflight.check_architecture(target, os.uname().machine, os.uname().machine)
    preflight.check_environment_block(target)
    preflight.check_secure_boot(target, NEW, None)


def test_a_derivative_is_accepted(host: FakeHost, target: Target) -> None:
    host.put("/etc/os-release", 'ID=pop\nID_LIKE="ubuntu debian"\n')
    preflight.check_platform(target)


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        (
            "/etc/os-release",
            'ID=fedora\nPRETTY_NAME="Fedora Linux 42"\n',
            "Fedora Linux 42 is not supported; supported",
        ),
        ("/proc/cmdline", "root=/dev/vda1 ro\n", "was not started by GRUB"),
        ("/boot/grub/grub.cfg", "set timeout=-1\n", "line 1: timeout=-1"),
    ],
)
def test_a_host_of_another_kind_is_refused(host: FakeHost, target: Target, path: str, text: str, message: str) -> None:
    host.put(path, text)
    with pytest.raises(FleetError, match=message):
        preflight.check_platform(target)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/boot/grub/grub.cfg", r"GRUB is not installed \(/boot/grub/grub.cfg is missing\)"),
        ("/usr/sbin/grub-mkconfig", r"GRUB is not installed \(/usr/sbin/grub-mkconfig is missing\)"),
    ],
)
def test_a_host_without_grub_is_refused(host: FakeHost, target: Target, path: str, message: str) -> None:
    host.at(path).unlink()
    with pytest.raises(FleetError, match=message):
        preflight.check_platform(target)


def test_a_host_without_systemd_is_refused(host: FakeHost, target: Target) -> None:
    host.at("/run/systemd/system").rmdir()
    with pytest.raises(FleetError, match="systemd does not run here"):
        preflight.check_platform(target)


def test_another_machine_is_refused(host: FakeHost, target: Target) -> None:
    with pytest.raises(FleetError, match="the artifact is for aarch64, this host is x86_64"):
        preflight.check_architecture(target, "x86_64", "aarch64")
    host.answers["--print-architecture"] = (0, "i386\n", "")
    with pytest.raises(FleetError, match="packages are for amd64, this host's dpkg installs i386"):
        preflight.check_architecture(target, "x86_64", "x86_64")


@pytest.mark.parametrize(
    ("kind", "name"), [("file_system", "btrfs"), ("abstraction", "lvm"), ("abstraction", "diskfilter mdraid1x")]
)
def test_an_environment_block_that_grub_cannot_write_is_refused(
    host: FakeHost, target: Target, kind: str, name: str
) -> None:
    setattr(host, kind, name)
    with pytest.raises(FleetError, match=f"GRUB cannot write /boot/grub/grubenv .*{name.split()[0]}"):
        preflight.check_environment_block(target)


def test_a_damaged_environment_block_is_refused_and_a_missing_one_is_not(host: FakeHost, target: Target) -> None:
    host.put("/boot/grub/grubenv", "\0\0\0")
    with pytest.raises(FleetError, match="is not a GRUB environment block"):
        preflight.check_environment_block(target)
    host.at("/boot/grub/grubenv").unlink()
    preflight.check_environment_block(target)


@pytest.mark.parametrize(
    ("enabled", "signed", "refused"), [(1, False, True), (1, None, True), (1, True, False), (0, False, False)]
)
def test_secure_boot_wants_a_signed_kernel(
    host: FakeHost, target: Target, enabled: int, signed: bool | None, refused: bool
) -> None:
    variable = host.at(preflight.SECURE_BOOT)
    variable.parent.mkdir(parents=True)
    variable.write_bytes(b"\x06\0\0\0" + bytes([enabled]))
    if refused:
        with pytest.raises(FleetError, match=f"Secure Boot is on and kernel {NEW} is not signed"):
            preflight.check_secure_boot(target, NEW, signed)
    else:
        preflight.check_secure_boot(target, NEW, signed)


def test_a_boot_without_room_is_refused_with_both_numbers(host: FakeHost, target: Target) -> None:
    host.put(f"/boot/initrd.img-{OLD}", "x" * (3 << 20))
    status = os.statvfs(host.at("/boot"))
    free = status.f_bavail * status.f_frsize
    payload = {"boot_bytes": free, "installed_bytes": free}
    with pytest.raises(
        FleetError, match=r"/boot has \d+ MiB free, the kernel needs \d+ MiB \(of these 3 MiB"
    ) as caught:
        preflight.check_space(target, OLD, payload, [])
    details = caught.value.details
    assert details["needed_bytes"] == free + (3 << 20) + preflight.RESERVE
    preflight.check_space(target, OLD, {"boot_bytes": 1000, "installed_bytes": 2000}, [])
