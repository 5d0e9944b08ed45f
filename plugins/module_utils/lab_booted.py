# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Booted guests that are kept, so that the next new guest of the same hardware goes on from there.

The first boot of an emulated guest takes a minute of CPU time and is the same
each time. What is kept of one lies beside its base image in
``IMAGE.booted/HARDWARE/``: memory (QEMU's migration stream), disk.qcow2 (the
overlay), console.log, vars.fd (UEFI variables) and booted.json, which says what
image, QEMU and options it was made with: only the same can go on from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from . import lab_disk, lab_qmp, qemu, workspace
from .errors import FleetError

MEMORY = "memory"
_RECORD = "booted.json"
_FILES = ("disk.qcow2", "console.log", "vars.fd")
# A copy of 512 MiB takes some seconds; a disk that is busy with others takes longer.
_TIMEOUT = 120
_BYTES_PER_SECOND = 1 << 32


def folder(image: Path) -> Path:
    """Return where the booted guests of an image are kept."""
    return image.with_suffix(".booted")


def find(machine: qemu.Machine, image: Path) -> Path | None:
    """Return the folder of the booted guest that a new one like ``machine`` can go on from, None without one."""
    kept = _path(machine, image)
    record = workspace.read_json(kept / _RECORD)
    return kept if record and record == _made_by(machine, image) else None


def can_keep(machine: qemu.Machine) -> bool:
    """Tell whether keeping pays: a guest under KVM boots in no time, one that counts instructions is for measuring."""
    return machine.accel == "tcg" and not machine.icount


def copy(kept: Path, guest_dir: Path) -> list[str]:
    """Give a new guest what is kept, and return the options with which its QEMU goes on from there.

    Raises OSError if that was removed meanwhile.
    """
    for name in _FILES:
        if (kept / name).exists():
            shutil.copyfile(kept / name, guest_dir / name)
    return ["-incoming", f"exec:cat {shlex.quote(str(kept / MEMORY))}"]


def keep(machine: qemu.Machine, image: Path, guest_dir: Path) -> None:
    """Keep the running guest of ``guest_dir`` as it is now; it stands still meanwhile.

    Raises FleetError or OSError when that fails. The guest runs on in any case.
    """
    workspace.require_space(image, 2 * machine.memory, "a booted guest")
    folder(image).mkdir(exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder(image)))
    try:
        try:
            # Without a stop before it, as a guest that was stopped when it was saved would not go on by itself.
            _save_memory(guest_dir, work / MEMORY)
            for name in _FILES:
                if (guest_dir / name).exists():
                    shutil.copyfile(guest_dir / name, work / name)
        finally:
            lab_qmp.execute(str(guest_dir), "cont")
        workspace.write_json(work / _RECORD, _made_by(machine, image))
        shutil.rmtree(_path(machine, image), ignore_errors=True)
        # Two guests that boot at once may both get here; one of them is enough.
        with contextlib.suppress(OSError):
            os.rename(work, _path(machine, image))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def forget(machine: qemu.Machine, image: Path) -> None:
    """Remove what is kept for such a guest, as it does not come up from it."""
    shutil.rmtree(_path(machine, image), ignore_errors=True)


def _path(machine: qemu.Machine, image: Path) -> Path:
    return folder(image) / f"{machine.memory}MiB-{machine.cpus}cpus"


def _made_by(machine: qemu.Machine, image: Path) -> dict[str, Any]:
    """Return what has to be equal: the image, QEMU and all of its options that are not the single guest's own."""
    anybody = dataclasses.replace(machine, name="guest", port=0)
    program, *options = qemu.command(anybody, Path("/guest"))
    version = lab_disk.run([program, "--version"], "asking QEMU for its version").partition("\n")[0]
    return {"image": image.stat().st_mtime_ns, "qemu": version, "options": options}


def _save_memory(guest_dir: Path, target: Path) -> None:
    uri = f"exec:cat > {shlex.quote(str(target))}"
    lab_qmp.execute(
        str(guest_dir),
        {"execute": "migrate-set-parameters", "arguments": {"max-bandwidth": _BYTES_PER_SECOND}},
        {"execute": "migrate", "arguments": {"uri": uri}},
    )
    deadline = time.monotonic() + _TIMEOUT
    while True:
        (answer,) = lab_qmp.execute(str(guest_dir), "query-migrate")
        if answer.get("status") == "completed":
            return
        if answer.get("status") == "failed" or time.monotonic() > deadline:
            # One that is not done would go on writing.
            with contextlib.suppress(OSError):
                lab_qmp.execute(str(guest_dir), "migrate_cancel")
            raise FleetError(f"QEMU did not save the guest's memory: {answer.get('error-desc', 'it took too long')}")
        time.sleep(0.1)
