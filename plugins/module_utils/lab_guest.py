# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a lab guest: made, started, waited for, reset, stopped, removed.

Everything of a guest lies in one folder, ``lab_dir/NAME``: disk.qcow2 (an
overlay on the base image), console.log (and .1, the boot before), guest.json,
qemu.pid, qmp.sock, qmp.py (its remote control), vars.fd (UEFI variables).
A folder without guest.json but with nothing else either is what an interrupted
run left. Any other folder is not a guest's and is never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import console, lab_booted, lab_disk, lab_image, lab_qmp, qemu, workspace
from .errors import FleetError

STATE_FILE = "guest.json"
CONSOLE = "console.log"
_FILES = {STATE_FILE, CONSOLE, f"{CONSOLE}.1", "disk.qcow2", "qemu.pid", lab_qmp.SOCKET_NAME, "qmp.py", "vars.fd"}
# The last line of a kernel that does not reboot after its panic.
_STAYS_DOWN = "---[ end Kernel panic"
# One that goes on from a booted guest answers in seconds, or never will.
_RESUME_TIMEOUT = 120
# A unit that failed does not matter here.
_SETTLED = "timeout 100 systemctl is-system-running --wait; sync"
SSH_OPTIONS = (
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
    *("-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=60"),
)


class NeverCameUp(FleetError):
    """The guest runs but did not answer in time."""


@dataclass
class Guest:
    """A guest that ought to be: its hardware, where it lives, what it is made from."""

    machine: qemu.Machine
    lab_dir: Path
    image: Path
    private_key: str = ""

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def dir(self) -> Path:
        return self.lab_dir / self.name


def load(guest_dir: Path) -> dict[str, Any] | None:
    """Return the guest's own record, or None if there is no complete guest."""
    return workspace.read_json(guest_dir / STATE_FILE)


def _save(guest_dir: Path, record: dict[str, Any]) -> None:
    workspace.write_json(guest_dir / STATE_FILE, record)


def difference(guest: Guest) -> str:
    """Return in a few words what is to be done to have the guest running, "" if nothing."""
    record = load(guest.dir)
    if record is None:
        return "create"
    if record["image"] != str(guest.image):
        return "create again from another image"
    if not qemu.find(guest.dir):
        return "start"
    return "" if record["machine"] == asdict(guest.machine) else "restart with other hardware"


def start(guest: Guest) -> str:
    """Make the guest's process run; return what was done (see ``difference``).

    Does not wait for the guest. Raises FleetError if QEMU does not start or
    the port is taken, before an existing disk is touched.
    """
    guest.lab_dir.mkdir(parents=True, exist_ok=True)
    with _locked(guest.lab_dir):
        todo = difference(guest)
        if not todo:
            return todo
        kill(guest.dir)
        _check_port(guest)
        _launch(guest, _create(guest) if todo.startswith("create") else [])
        return todo


def _create(guest: Guest, cold: bool = False) -> list[str]:
    """Make the guest's folder; return the options that let it go on from a booted guest, unless ``cold``."""
    _check_folder(guest.dir)
    shutil.rmtree(guest.dir, ignore_errors=True)
    guest.dir.mkdir(parents=True)
    disk = qemu.disk_path(guest.dir)
    lab_image.register_user(guest.image, disk)
    (guest.dir / "qmp.py").write_text(inspect.getsource(lab_qmp), encoding="utf-8")
    kept = None if cold else lab_booted.find(guest.machine, guest.image)
    options: list[str] = []
    if kept:
        options = lab_booted.copy(kept, guest.dir)
    else:
        overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(guest.image), "-F", "qcow2", str(disk)]
        lab_disk.run(overlay, f"making the disk of guest {guest.name}")
        if guest.machine.boot == "uefi":
            shutil.copyfile(qemu.ovmf()[1], guest.dir / "vars.fd")
    _save(guest.dir, {"image": str(guest.image), "ready": False, "resumed": bool(kept)})
    return options


def _is_guest(folder: Path) -> bool:
    return (folder / STATE_FILE).is_file() or {entry.name for entry in folder.iterdir()} <= _FILES


def _check_folder(guest_dir: Path) -> None:
    """Raise FleetError if something lies there that is not a guest."""
    if guest_dir.exists() and not (guest_dir.is_dir() and _is_guest(guest_dir)):
        raise FleetError(f"{guest_dir} exists and is no guest's folder; it is not touched. Choose another lab_dir")


def _check_port(guest: Guest) -> None:
    port = guest.machine.port
    if qemu.port_is_free(port):
        return
    holder = qemu.port_holder(port)
    by = f" by {holder}" if holder else ""
    raise FleetError(f"guest {guest.name}: port {port} on 127.0.0.1 is taken{by}; give the guest another port")


def _launch(guest: Guest, resume: Sequence[str] = ()) -> None:
    """Start QEMU; ``resume`` are the options of a guest that goes on where another was kept, its console too."""
    _save(guest.dir, dict(load(guest.dir) or {}, machine=asdict(guest.machine), wanted="started"))
    log = guest.dir / CONSOLE
    if log.exists() and not resume:
        os.replace(log, guest.dir / f"{CONSOLE}.1")
    log.touch()
    for stale in ("qemu.pid", lab_qmp.SOCKET_NAME):
        (guest.dir / stale).unlink(missing_ok=True)
    command = [*qemu.command(guest.machine, guest.dir), *resume]
    lab_disk.run(command, f"starting guest {guest.name}", cwd=guest.dir, stdin=subprocess.DEVNULL)


def wait(guest: Guest, timeout: float, report: Callable[[str], None], retry: bool = True) -> int:
    """Wait until ssh answers; return the number of starts it took (1 or 2).

    ``report`` gets the last line of the console now and then. A guest that
    panics or does not answer within ``timeout`` seconds is started once more,
    from a fresh disk if it never was ready in its life. A new one is kept for
    others to go on from (see lab_booted). Raises FleetError with the
    end of the console when that fails too, or when QEMU is gone.
    """
    patience = min(timeout, _RESUME_TIMEOUT) if _goes_on(load(guest.dir)) else timeout
    try:
        _wait_once(guest, patience, report)
        return 1
    except NeverCameUp:
        if not retry:
            raise
    report("did not answer, starting it once more")
    record = load(guest.dir) or {}
    with _locked(guest.lab_dir):
        kill(guest.dir)
        if _goes_on(record):
            lab_booted.forget(guest.machine, guest.image)
        if not record.get("ready"):
            _create(guest, cold=True)
        _launch(guest)
    _wait_once(guest, timeout, report)
    return 2


def _wait_once(guest: Guest, timeout: float, report: Callable[[str], None]) -> None:
    deadline = time.monotonic() + timeout
    while not answers(guest.machine.port):
        tail = console_tail(guest.dir)
        if not qemu.find(guest.dir):
            # What was kept may be no good, a boot from the disk is.
            kind = NeverCameUp if _goes_on(load(guest.dir)) else FleetError
            raise kind(_with_console(f"guest {guest.name} is gone: its QEMU process ended", tail), console=tail)
        if any(_STAYS_DOWN in line for line in tail):
            raise NeverCameUp(_with_console(f"guest {guest.name} panicked before it answered", tail), console=tail)
        if time.monotonic() > deadline:
            text = f"guest {guest.name} did not answer on port {guest.machine.port} within {timeout:.0f} s"
            raise NeverCameUp(_with_console(text, tail), console=tail)
        report(tail[-1] if tail else "no output yet")
        time.sleep(0.5)
    record = load(guest.dir)
    if record and not record.get("ready"):
        if guest.private_key:
            if not _goes_on(record) and lab_booted.can_keep(guest.machine):
                _keep(guest, report)
            _personalise(guest)
        _save(guest.dir, dict(record, ready=True))


def _goes_on(record: dict[str, Any] | None) -> bool:
    """Tell whether the guest of this record is in its first boot, and that is a kept one."""
    return bool(record and record.get("resumed") and not record.get("ready"))


def _keep(guest: Guest, report: Callable[[str], None]) -> None:
    """Keep the booted guest for others; it is as good without."""
    report("keeping the booted guest for the next new one")
    settled = [*ssh_command(guest.machine.port, guest.private_key), _SETTLED]
    try:
        lab_disk.run(settled, f"waiting for the services of guest {guest.name}", stdin=subprocess.DEVNULL)
        lab_booted.keep(guest.machine, guest.image, guest.dir)
    except (FleetError, OSError) as exc:
        report(f"not kept: {exc}")


def _with_console(text: str, tail: list[str]) -> str:
    return "\n".join([f"{text}. The end of its console:", *(tail or ["(nothing)"])])


def _personalise(guest: Guest) -> None:
    """Give the guest its own name, which clones of one image have not, and the time, as it may have stood still."""
    script = (
        f"date -u -s @{time.time():.3f} > /dev/null && echo {guest.name} > /etc/hostname && hostname {guest.name} && "
        f"echo 127.0.1.1 {guest.name} >> /etc/hosts && sync"
    )
    command = [*ssh_command(guest.machine.port, guest.private_key), script]
    lab_disk.run(command, f"naming guest {guest.name}", stdin=subprocess.DEVNULL)


def ssh_command(port: int, private_key: str) -> list[str]:
    return ["ssh", *SSH_OPTIONS, "-i", private_key, "-p", str(port), "root@127.0.0.1"]


def answers(port: int, timeout: float = 5.0) -> bool:
    """Tell whether an ssh server greets on the port. QEMU itself accepts connections, so that is not enough."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
            connection.settimeout(timeout)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def reset(guest_dir: Path) -> None:
    """Press the reset button of a running guest."""
    try:
        lab_qmp.execute(str(guest_dir), "system_reset")
    except OSError as exc:
        raise FleetError(f"guest {guest_dir.name} cannot be reset: {exc}") from exc


def stop(guest_dir: Path, timeout: float = 60.0) -> bool:
    """Power the guest down, by force after ``timeout`` seconds; return whether it ran."""
    record = load(guest_dir)
    if record:
        _save(guest_dir, dict(record, wanted="stopped"))
    pid = qemu.find(guest_dir)
    if not pid:
        return False
    with contextlib.suppress(OSError):
        lab_qmp.execute(str(guest_dir), "system_powerdown")
        _gone(pid, timeout)
    kill(guest_dir)
    return True


def kill(guest_dir: Path) -> bool:
    """End the guest's process at once; return whether there was one."""
    pid = qemu.find(guest_dir)
    if not pid:
        return False
    with contextlib.suppress(OSError):
        lab_qmp.execute(str(guest_dir), "quit", timeout=5)
    if not _gone(pid, 5) and qemu.find(guest_dir) == pid:
        os.kill(pid, signal.SIGKILL)
        if not _gone(pid, 10):
            raise FleetError(f"guest {guest_dir.name}: QEMU (pid {pid}) does not end")
    return True


def _gone(pid: int, timeout: float) -> bool:
    """Wait until the process has ended and given its port back."""
    deadline = time.monotonic() + timeout
    while _holds_something(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _holds_something(pid: int) -> bool:
    """Tell whether a process still has memory or files: a zombie has none, unless one of its threads lives on."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        return state not in "ZX" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def destroy(guest_dir: Path) -> bool:
    """End the guest and remove its files; return whether there was anything."""
    ran = kill(guest_dir)
    there = guest_dir.exists()
    _check_folder(guest_dir)
    shutil.rmtree(guest_dir, ignore_errors=True)
    with contextlib.suppress(OSError):
        guest_dir.parent.rmdir()
    return ran or there


def names(lab_dir: Path) -> list[str]:
    """Return the guests of a lab folder, half-made ones too."""
    if not lab_dir.is_dir():
        return []
    return sorted(entry.name for entry in lab_dir.iterdir() if entry.is_dir() and _is_guest(entry))


def info(guest_dir: Path, console_lines: int = 0) -> dict[str, Any]:
    """Return what is known about a guest; ``state`` is running, stopped, crashed or absent."""
    record = load(guest_dir)
    pid = qemu.find(guest_dir)
    if pid:
        state = "running"
    elif record is None:
        state = "absent"
    else:
        state = "crashed" if record.get("wanted") == "started" else "stopped"
    known = record or {}
    machine = known.get("machine", {})
    where = f", ssh on port {machine['port']}, console {guest_dir / CONSOLE}" if machine else ""
    return {
        **machine,
        "name": guest_dir.name,
        "summary": f"{guest_dir.name}: {state}{where}",
        "state": state,
        "pid": pid,
        "image": known.get("image"),
        "dir": str(guest_dir),
        "console_log": str(guest_dir / CONSOLE),
        "console": console_tail(guest_dir, console_lines) if console_lines else [],
    }


def console_tail(guest_dir: Path, lines: int = 25) -> list[str]:
    """Return the last lines of the console that hold text, without terminal codes."""
    try:
        with (guest_dir / CONSOLE).open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - 200 * lines - 4096))
            text = handle.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return console.clean(text)[-lines:]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time start or replace guests of a lab."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
