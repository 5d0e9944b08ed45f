# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest as the role brings it up, one that crashed, a port that is taken, and what is left after the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_guest
from plays import ROOT, Play, run_playbook
from testinfra.host import Host

LAB = ROOT / "molecule/lab/lab.yml"
MARK = "/root/mark"


def lab(path: Path = LAB, **variables: Any) -> Play:
    """Run a playbook on the host of the lab."""
    return run_playbook("lab-controller", path, **variables)


@pytest.fixture(scope="module")
def folder(variables: dict[str, Any]) -> Path:
    """Folder of the guest's files."""
    return Path(variables["lab_dir"]) / variables["lab_guest"]["name"]


@contextlib.contextmanager
def listener(port: int) -> Iterator[None]:
    """Take a port of 127.0.0.1."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
        yield


def runs(pid: int) -> bool:
    """Tell whether the process is there and not only waits for its parent to notice that it ended."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


@pytest.fixture(scope="module")
def connection() -> dict[str, str]:
    """None that outlives a command, as guests crash here."""
    return {}


def test_the_guest_started_from_its_own_grub(host: Host, variables: dict[str, Any]) -> None:
    assert host.file("/etc/os-release").contains(f"VERSION_CODENAME={variables['lab_guest']['suite']}")
    assert "BOOT_IMAGE=/boot/vmlinuz-" in host.file("/proc/cmdline").content_string
    assert host.check_output("hostname") == variables["lab_guest"]["name"]
    assert host.file("/boot/grub/grub.cfg").exists
    assert host.check_output("systemctl is-system-running --wait") == "running"


def test_a_second_guest_goes_on_where_the_first_one_had_booted(
    host: Host, folder: Path, variables: dict[str, Any]
) -> None:
    if json.loads((folder / "guest.json").read_text())["machine"]["accel"] != "tcg":
        pytest.skip("under KVM every guest boots by itself")
    port = int(variables["ansible_port"]) + 6
    second = dict(variables["lab_guest"], name="fetchbpf-second", port=port)
    assert not lab(lab_guests=[variables["lab_guest"], second]).failed
    command = ["ssh", *lab_guest.SSH_OPTIONS, "-i", variables["ansible_ssh_private_key_file"], "-p", str(port)]
    script = "hostname; cat /proc/sys/kernel/random/boot_id; date +%s; systemctl is-system-running"
    done = subprocess.run([*command, "root@127.0.0.1", script], capture_output=True, text=True, check=True)
    name, boot_id, seconds, state = done.stdout.split()
    assert (name, state) == ("fetchbpf-second", "running")
    assert boot_id == host.file("/proc/sys/kernel/random/boot_id").content_string.strip()
    assert abs(int(seconds) - time.time()) < 60


def test_a_guest_that_crashed_is_told_with_the_end_of_its_console_and_comes_back(host: Host, folder: Path) -> None:
    host.check_output(f"touch {MARK} && sync")
    os.kill(int((folder / "qemu.pid").read_text()), signal.SIGKILL)
    told = lab(ROOT / "molecule/lab/list.yml", lab_console_lines=20)
    assert f"{folder.name}: crashed" in told.flat
    assert "login:" in told.output
    assert not lab().failed
    assert host.file(MARK).exists


def test_a_port_that_is_taken_is_named_and_the_guest_stays(folder: Path, variables: dict[str, Any]) -> None:
    other = dict(variables["lab_guest"], name="fetchbpf-other", port=int(variables["ansible_port"]) + 5)
    with listener(other["port"]):
        play = lab(lab_guests=[variables["lab_guest"], other])
    assert play.failed
    assert f"port {other['port']} on 127.0.0.1 is taken" in play.flat
    assert not (folder.parent / "fetchbpf-other").exists()
    assert (folder / "qemu.pid").exists()


def test_nothing_is_left_after_the_end(folder: Path) -> None:
    pid = int((folder / "qemu.pid").read_text())
    assert lab(lab_state="down").recap["changed"] == 1
    assert not folder.parent.exists() or not list(folder.parent.iterdir())
    assert not runs(pid)
    assert lab(lab_state="down").recap["changed"] == 0
