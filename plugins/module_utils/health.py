# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the kernel that runs the one that was asked for, and does the host do its work on it?

Each check returns what is wrong as text for the user; an empty list is good health.
"""

from __future__ import annotations

import glob
import gzip
import os
import shlex
from collections.abc import Sequence

from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target

# Bits of /proc/sys/kernel/tainted that a kernel sets when it is hurt, not when it is merely customised.
TAINTED = {7: "an Oops or BUG", 14: "a soft lockup"}
PSTORE = ("/var/lib/systemd/pstore", "/sys/fs/pstore")
EXCERPT_LINES = 15


def running_config(target: Target) -> str:
    """Return the configuration of the running kernel, empty if the host does not have it."""
    try:
        with gzip.open(target.path("/proc/config.gz"), "rt", encoding="utf-8") as handle:
            return handle.read()
    except OSError:
        return target.read(f"/boot/config-{target.release}")


def check_config(text: str, requested: dict[str, str]) -> list[str]:
    """Compare ``requested`` {"CONFIG_X": "y", …} with a kernel's .config text; "n" means not set."""
    if not requested:
        return []
    if not text:
        return ["the running kernel's configuration is not readable (/proc/config.gz, /boot/config-*)"]
    values = dict(line.split("=", 1) for line in text.splitlines() if line.startswith("CONFIG_") and "=" in line)
    problems = []
    for symbol, wanted in sorted(requested.items()):
        got = values.get(symbol, "n")
        if got.strip('"') != str(wanted).strip('"'):
            problems.append(f"{symbol} is {got} in the running kernel, asked was {wanted}")
    return problems


def check_taint(target: Target) -> list[str]:
    """Report that the kernel has been hurt since it booted."""
    text = target.read("/proc/sys/kernel/tainted").strip()
    flags = int(text) if text.isdigit() else 0
    found = [what for bit, what in TAINTED.items() if flags >> bit & 1]
    return [f"the kernel had {what} since it booted (tainted {flags})" for what in found]


def check_system(target: Target, timeout: int, degraded_ok: bool, failed_before: Sequence[str]) -> list[str]:
    """Wait until the host has finished booting; report units that fail and did not fail before."""
    argv = ["timeout", str(timeout), "systemctl", "is-system-running", "--wait"]
    status, out, err = target.run(argv)
    state = out.strip()
    if status == 124:
        jobs = target.run(["systemctl", "list-jobs", "--no-legend", "--plain"])[1].split("\n")
        waiting = ", ".join(line.split()[1] for line in jobs if len(line.split()) > 1) or "no job is left"
        return [f"the host did not finish booting within {timeout} s (waiting for {waiting})"]
    if state == "running":
        return []
    if state != "degraded":
        return [f"systemctl is-system-running says {state or err.strip()!r}"]
    listing = target.run(["systemctl", "list-units", "--state=failed", "--plain", "--no-legend"])[1]
    failed = sorted({line.split()[0] for line in listing.splitlines() if line.strip()} - set(failed_before))
    if degraded_ok or not failed:
        return []
    return [f"failed units that did not fail on the kernel before: {', '.join(failed)}"]


def check_commands(target: Target, commands: Sequence[str | Sequence[str]], timeout: int) -> list[str]:
    """Run the user's commands, text by a shell; report those that do not exit with 0."""
    problems = []
    for command in commands:
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        status, out, err = target.run(["timeout", "-k", "5", str(timeout), *argv])
        if status:
            shown = command if isinstance(command, str) else " ".join(shlex.quote(word) for word in argv)
            said = " / ".join((err.strip() or out.strip()).splitlines()[-3:])
            end = f"took more than {timeout} s" if status == 124 else f"exit status {status}"
            problems.append(f"health command {shown!r}: {end}" + (f": {said}" if said else ""))
    return problems


def evidence(target: Target) -> str | None:
    """Return the end of what the previous boot left in pstore or the journal, None without either."""
    for directory in PSTORE:
        found = sorted(glob.glob(target.path(f"{directory}/**/*dmesg*"), recursive=True), key=os.path.getmtime)
        files = [name for name in found if os.path.isfile(name)]
        if files:
            with open(files[-1], encoding="utf-8", errors="replace") as handle:
                lines = handle.read().splitlines()[-EXCERPT_LINES:]
            return f"pstore {os.path.basename(files[-1])}: " + "\n".join(lines)
    if target.exists("/var/log/journal"):
        argv = ["journalctl", "-b", "-1", "-n", str(EXCERPT_LINES), "--no-pager", "-o", "cat", "-p", "err"]
        status, out, _err = target.run(argv)
        if status == 0 and out.strip():
            return "journal of the boot before: " + out.strip()
    return None
