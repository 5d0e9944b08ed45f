# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_booted, lab_guest, lab_qmp, qemu
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

FAKE_QEMU = Path(__file__).resolve().parents[2] / "fake_qemu.py"
# The process must look like QEMU to those who look for it, so its first word is QEMU's name.
LAUNCHER = f"""#!/bin/bash
exec -a qemu-system-x86_64 {sys.executable} {FAKE_QEMU} "$@"
"""
# What the guest was told to do.
FAKE_SSH = """#!/bin/sh
for last; do :; done
echo "$last" >> "$FAKE_QEMU_LOG.ssh"
"""
FAKE_QEMU_IMG = """#!/bin/sh
for last; do :; done
echo made >> "$last"
"""


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[lab_guest.Guest]:
    """A guest that does not exist yet, on a host whose QEMU is the fake."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (("qemu-system-x86_64", LAUNCHER), ("qemu-img", FAKE_QEMU_IMG), ("ssh", FAKE_SSH)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_QEMU_LOG", str(tmp_path / "starts"))
    image = tmp_path / "images" / "bookworm-bios-0.qcow2"
    image.parent.mkdir()
    image.write_text("image")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Longer than a socket's path may be.
    lab_dir = tmp_path / ("deep" * 20) / "lab"
    made = lab_guest.Guest(qemu.Machine("web", port), lab_dir, image)
    yield made
    lab_guest.kill(made.dir)


def starts(tmp_path: Path) -> int:
    log = tmp_path / "starts"
    return len(log.read_text().splitlines()) if log.exists() else 0


def silent(_line: str) -> None:
    pass


def test_a_guest_from_nothing_to_nothing(guest: lab_guest.Guest, tmp_path: Path) -> None:
    assert lab_guest.difference(guest) == "create"
    assert lab_guest.start(guest) == "create"
    assert lab_guest.wait(guest, 20, silent) == 1
    assert lab_guest.start(guest) == ""
    info = lab_guest.info(guest.dir, console_lines=5)
    assert info["state"] == "running"
    assert info["port"] == guest.machine.port
    assert info["pid"] == int((guest.dir / "qemu.pid").read_text())
    assert info["console"] == ["GNU GRUB", "Kernel panic - not syncing: fake"]
    assert starts(tmp_path) == 1

    assert lab_guest.destroy(guest.dir)
    assert not qemu.find(guest.dir)
    assert not guest.lab_dir.exists()
    assert not lab_guest.destroy(guest.dir)


def test_the_remote_control_in_the_folder_works_by_itself(guest: lab_guest.Guest) -> None:
    lab_guest.start(guest)
    subprocess.run([sys.executable, str(guest.dir / "qmp.py"), "system_reset"], check=True, capture_output=True)
    assert (guest.dir / "commands").read_text().split() == ["qmp_capabilities", "system_reset"]


def test_qemu_refuses_a_command(guest: lab_guest.Guest) -> None:
    lab_guest.start(guest)
    with pytest.raises(OSError, match="unknown"):
        lab_qmp.execute(str(guest.dir), "nonsense")


def test_a_stopped_guest_keeps_its_disk_and_is_not_called_crashed(guest: lab_guest.Guest) -> None:
    lab_guest.start(guest)
    disk = qemu.disk_path(guest.dir)
    disk.write_text("mine")
    assert lab_guest.stop(guest.dir)
    assert lab_guest.info(guest.dir)["state"] == "stopped"
    assert lab_guest.start(guest) == "start"
    assert disk.read_text() == "mine"


def test_a_killed_guest_is_called_crashed_and_its_pid_file_not_believed(guest: lab_guest.Guest) -> None:
    lab_guest.start(guest)
    pid = qemu.find(guest.dir)
    assert pid
    os.kill(pid, signal.SIGKILL)
    assert lab_guest._gone(pid, 5)
    # The number belongs to somebody else by now.
    (guest.dir / "qemu.pid").write_text(str(os.getpid()))
    assert lab_guest.info(guest.dir)["state"] == "crashed"
    assert not lab_guest.kill(guest.dir)
    assert lab_guest.start(guest) == "start"
    assert (guest.dir / "console.log.1").exists()


def test_a_guest_that_dies_is_reported_with_its_console_and_not_tried_again(
    guest: lab_guest.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_QEMU", "dies")
    lab_guest.start(guest)
    with pytest.raises(FleetError, match="is gone.*\n.*\nKernel panic - not syncing: fake") as caught:
        lab_guest.wait(guest, 20, silent)
    assert caught.value.details["console"][-1] == "Kernel panic - not syncing: fake"
    assert starts(tmp_path) == 1


def test_a_guest_that_never_answers_gets_one_more_start_from_a_fresh_disk(
    guest: lab_guest.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_QEMU", "silent")
    lab_guest.start(guest)
    qemu.disk_path(guest.dir).write_text("half a boot")
    with pytest.raises(lab_guest.NeverCameUp, match="did not answer on port.*\n.*\nKernel panic"):
        lab_guest.wait(guest, 1, silent)
    assert starts(tmp_path) == 2
    assert qemu.disk_path(guest.dir).read_text() == "made\n"


def test_a_guest_that_panics_is_not_waited_for(
    guest: lab_guest.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_QEMU", "panics")
    lab_guest.start(guest)
    with pytest.raises(lab_guest.NeverCameUp, match="panicked before it answered"):
        lab_guest.wait(guest, 3600, silent)
    assert starts(tmp_path) == 2


def test_the_second_start_may_help_and_a_used_disk_is_kept(
    guest: lab_guest.Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_guest.start(guest)
    lab_guest.wait(guest, 20, silent)
    qemu.disk_path(guest.dir).write_text("mine")
    lab_guest.kill(guest.dir)
    monkeypatch.setenv("FAKE_QEMU", "silent")
    lab_guest.start(guest)

    def recover(_line: str) -> None:
        monkeypatch.setenv("FAKE_QEMU", "answers")

    assert lab_guest.wait(guest, 1, recover) == 2
    assert qemu.disk_path(guest.dir).read_text() == "mine"


def test_a_taken_port_is_named_with_its_holder_before_anything_is_made(guest: lab_guest.Guest) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", guest.machine.port))
        holder.listen()
        with pytest.raises(FleetError, match=rf"port {guest.machine.port} .* taken by .*pid {os.getpid()}"):
            lab_guest.start(guest)
    assert not guest.dir.exists()


def test_qemu_that_does_not_start_says_why(guest: lab_guest.Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_QEMU", "fails")
    with pytest.raises(FleetError, match="starting guest web.*\n.*host forwarding"):
        lab_guest.start(guest)


def test_other_hardware_restarts_another_image_makes_anew(guest: lab_guest.Guest, tmp_path: Path) -> None:
    lab_guest.start(guest)
    qemu.disk_path(guest.dir).write_text("mine")
    bigger = dataclasses.replace(guest, machine=dataclasses.replace(guest.machine, memory=1024))
    assert lab_guest.start(bigger) == "restart with other hardware"
    assert qemu.disk_path(guest.dir).read_text() == "mine"
    other = tmp_path / "images" / "bookworm-bios-1.qcow2"
    other.write_text("other image")
    assert lab_guest.start(dataclasses.replace(bigger, image=other)) == "create again from another image"
    assert qemu.disk_path(guest.dir).read_text() == "made\n"
    assert starts(tmp_path) == 3


def test_a_folder_that_is_no_guests_is_never_touched(guest: lab_guest.Guest) -> None:
    guest.dir.mkdir(parents=True)
    (guest.dir / "letters.txt").write_text("dear")
    (guest.dir / "disk.qcow2").write_text("somebody's")
    assert lab_guest.names(guest.lab_dir) == []
    with pytest.raises(FleetError, match="is no guest's folder"):
        lab_guest.start(guest)
    with pytest.raises(FleetError, match="is no guest's folder"):
        lab_guest.destroy(guest.dir)
    assert (guest.dir / "letters.txt").read_text() == "dear"
    assert qemu.disk_path(guest.dir).read_text() == "somebody's"


def test_what_an_interrupted_run_left_is_replaced(guest: lab_guest.Guest) -> None:
    guest.dir.mkdir(parents=True)
    (guest.dir / "disk.qcow2").write_text("half")
    (guest.dir / "guest.json").write_text('{"image": ')
    assert lab_guest.info(guest.dir)["state"] == "absent"
    assert lab_guest.names(guest.lab_dir) == ["web"]
    assert lab_guest.start(guest) == "create"
    assert qemu.disk_path(guest.dir).read_text() == "made\n"


@pytest.fixture
def keeping(guest: lab_guest.Guest) -> lab_guest.Guest:
    """The guest, with the key to log in that a guest has which others may go on from."""
    guest.private_key = "key"
    return guest


def boot(guest: lab_guest.Guest) -> int:
    """Make the guest anew and wait for it; return how many starts it took."""
    lab_guest.destroy(guest.dir)
    lab_guest.start(guest)
    return lab_guest.wait(guest, 20, silent)


def resumed(tmp_path: Path) -> list[bool]:
    """Tell of each start whether it went on from a saved memory."""
    return ["-incoming exec:cat" in line for line in (tmp_path / "starts").read_text().splitlines()]


def test_a_new_guest_goes_on_from_one_that_was_booted(keeping: lab_guest.Guest, tmp_path: Path) -> None:
    assert boot(keeping) == 1
    assert (keeping.dir / "commands").read_text().split().index("cont") > 0
    kept = lab_booted.find(keeping.machine, keeping.image)
    assert kept
    assert (kept / "memory").read_text() == "memory"
    (kept / "disk.qcow2").write_text("booted\n")
    assert boot(keeping) == 1
    assert resumed(tmp_path) == [False, True]
    assert qemu.disk_path(keeping.dir).read_text() == "booted\n"
    assert lab_guest.info(keeping.dir, console_lines=9)["console"].count("GNU GRUB") == 2
    told = (tmp_path / "starts.ssh").read_text()
    assert told.count("hostname web") == 2
    assert told.count("is-system-running") == 1
    lab_guest.kill(keeping.dir)
    assert lab_guest.start(keeping) == "start"
    assert resumed(tmp_path) == [False, True, False]


@pytest.mark.parametrize("other", ["image", "QEMU", "memory", "icount", "kvm"])
def test_only_the_same_goes_on_from_it(
    keeping: lab_guest.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    boot(keeping)
    changed = {"memory": {"memory": 768}, "icount": {"icount": True}, "kvm": {"accel": "kvm"}}.get(other, {})
    guest = dataclasses.replace(keeping, machine=dataclasses.replace(keeping.machine, **changed))
    if other == "image":
        os.utime(keeping.image, ns=(1, 1))
    elif other == "QEMU":
        monkeypatch.setenv("FAKE_QEMU_VERSION", "QEMU emulator version 10.0")
    boot(guest)
    assert resumed(tmp_path) == [False, False]
    assert bool(lab_booted.find(guest.machine, guest.image)) == (other not in ("icount", "kvm"))


def test_a_booted_guest_that_is_no_good_is_forgotten(
    keeping: lab_guest.Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot(keeping)
    monkeypatch.setenv("FAKE_QEMU", "lost")
    assert boot(keeping) == 2
    assert resumed(tmp_path) == [False, True, False]
    assert boot(keeping) == 2


def test_a_guest_that_cannot_be_kept_is_as_good(keeping: lab_guest.Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_QEMU", "full")
    said: list[str] = []
    lab_guest.start(keeping)
    assert lab_guest.wait(keeping, 20, said.append) == 1
    assert said[-1] == "not kept: QEMU did not save the guest's memory: full"
    assert (keeping.dir / "commands").read_text().split()[-1] == "cont"
    assert not list(lab_booted.folder(keeping.image).iterdir())
