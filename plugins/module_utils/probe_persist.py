# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host keeps so that its events are there again after a reboot: one program, three units, one udev rule."""

from __future__ import annotations

import inspect
import io
import os
import shutil
import sys
import zipfile
from types import ModuleType

from . import (
    elf,
    errors,
    probe_apply,
    probe_checks,
    probe_lines,
    probe_plan,
    probe_restore,
    probe_run,
    probe_state,
    probes,
    process,
    tracefs,
)
from .errors import FleetError

PROGRAM = "usr/local/lib/fetchbpf/probe_events.pyz"
UNIT = "fetchbpf-probe-events.service"
UNIT_FILE = f"etc/systemd/system/{UNIT}"
MODULE_UNIT = "fetchbpf-probe-events-module.service"
MODULE_UNIT_FILE = f"etc/systemd/system/{MODULE_UNIT}"
MODULE_PATH = "fetchbpf-probe-events-module.path"
MODULE_PATH_FILE = f"etc/systemd/system/{MODULE_PATH}"
ENABLED_LINKS = tuple(f"etc/systemd/system/sysinit.target.wants/{unit}" for unit in (UNIT, MODULE_PATH))
RULE_FILE = "etc/udev/rules.d/90-fetchbpf-probe-events.rules"
# There from the moment a module is loaded until the next look at what it makes possible.
LOADED = "/run/fetchbpf-probe-events.loaded"
PACKAGE = "fetchbpf_probe_events"
# The program is the module's own code.
PARTS: tuple[ModuleType, ...] = (
    *(elf, errors, probe_apply, probe_checks, probe_lines, probe_plan),
    *(probe_restore, probe_run, probe_state, probes, process, tracefs),
)

_UNIT_TEXT = """\
[Unit]
Description=Register the declared probe events
Documentation=https://github.com/fetchbpf/fleet
DefaultDependencies=no
RequiresMountsFor={state_file} /usr/local/lib
Wants=sys-kernel-tracing.mount sys-kernel-debug.mount
After=sys-kernel-tracing.mount sys-kernel-debug.mount systemd-modules-load.service local-fs.target
Before=sysinit.target systemd-user-sessions.service shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={python} /{program} {state_file}
TimeoutStartSec=180

[Install]
WantedBy=sysinit.target
"""

# One look for however many modules were loaded; one that is loaded meanwhile makes the path unit start the next.
_MODULE_UNIT_TEXT = """\
[Unit]
Description=Register the declared probe events that waited for a module
DefaultDependencies=no
After={unit}
Before=shutdown.target
Conflicts=shutdown.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStartPre=/bin/rm -f {loaded}
ExecStart={python} /{program} {state_file}
TimeoutStartSec=180
"""

_MODULE_PATH_TEXT = """\
[Unit]
Description=Watch for modules that declared probe events wait for
DefaultDependencies=no
After={unit}
Before=shutdown.target
Conflicts=shutdown.target

[Path]
PathExists={loaded}

[Install]
WantedBy=sysinit.target
"""

# Without events that wait for a module there is no such file, and a module costs nothing.
_RULE_TEXT = """\
ACTION=="add", SUBSYSTEM=="module", TEST=="{pending}", RUN+="/bin/touch {loaded}"
"""


_PATHS = (PROGRAM, UNIT_FILE, MODULE_UNIT_FILE, MODULE_PATH_FILE, *ENABLED_LINKS, RULE_FILE)


def program() -> bytes:
    """Return the restore program, the same bytes for the same sources."""
    files = {f"{PACKAGE}/__init__.py": "", "__main__.py": f"from {PACKAGE}.probe_restore import main\n\nmain()\n"}
    for part in PARTS:
        files[f"{PACKAGE}/{part.__name__.rpartition('.')[2]}.py"] = inspect.getsource(part)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), files[name])
    return buffer.getvalue()


def files(state_file: str) -> dict[str, bytes]:
    """Return the content of every file of a persistent host, by its path below ``/``."""
    values = {
        "python": sys.executable,
        "program": PROGRAM,
        "state_file": state_file,
        "unit": UNIT,
        "pending": probe_restore.PENDING,
        "loaded": LOADED,
    }
    return {
        PROGRAM: program(),
        UNIT_FILE: _UNIT_TEXT.format(**values).encode(),
        MODULE_UNIT_FILE: _MODULE_UNIT_TEXT.format(**values).encode(),
        MODULE_PATH_FILE: _MODULE_PATH_TEXT.format(**values).encode(),
        RULE_FILE: _RULE_TEXT.format(**values).encode(),
    }


def differs(wanted: bool, state_file: str, root: str = "/") -> list[str]:
    """Return the paths that are not as a host which restores its events (or does not) has them."""
    if not wanted:
        return [f"/{path}" for path in _PATHS if os.path.lexists(os.path.join(root, path))]
    if not os.path.isdir(os.path.join(root, "run/systemd/system")):
        raise FleetError("persist: this host does not run systemd, which is to restore the events")
    found = []
    for path, content in files(state_file).items():
        try:
            with open(os.path.join(root, path), "rb") as handle:
                same = handle.read() == content
        except OSError:
            same = False
        if not same:
            found.append(f"/{path}")
    found.extend(f"/{link}" for link in ENABLED_LINKS if not os.path.lexists(os.path.join(root, link)))
    return found


def install(state_file: str, root: str = "/") -> None:
    """Make the host restore its events at boot."""
    for path, content in files(state_file).items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full + ".new", "wb") as handle:
            handle.write(content)
        os.replace(full + ".new", full)
    _run("systemctl", "daemon-reload")
    _run("systemctl", "enable", "--quiet", UNIT, MODULE_PATH)
    _run("systemctl", "start", MODULE_PATH)
    _reload_rules()


def remove(root: str = "/") -> None:
    """Leave nothing of ``install`` on the host."""
    enabled = [link.rpartition("/")[2] for link in ENABLED_LINKS if os.path.lexists(os.path.join(root, link))]
    if enabled:
        _run("systemctl", "disable", "--quiet", "--now", *enabled)
    for path in _PATHS:
        full = os.path.join(root, path)
        if os.path.lexists(full):
            os.unlink(full)
    folder = os.path.join(root, os.path.dirname(PROGRAM))
    if os.path.isdir(folder) and not os.listdir(folder):
        os.rmdir(folder)
    for mark in (probe_restore.PENDING, LOADED):
        if os.path.exists(mark):
            os.unlink(mark)
    _run("systemctl", "daemon-reload")
    _reload_rules()


def _run(*command: str) -> None:
    done = process.run(command)
    if done.returncode:
        raise FleetError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _reload_rules() -> None:
    # Small systems have no udev; they load no modules either.
    if shutil.which("udevadm"):
        process.run(["udevadm", "control", "--reload"])
