# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that registers the declared events again: at boot, and when a module was loaded.

It is run by systemd as ``python3 probe_events.pyz [STATE_FILE]``, without
Ansible, and prints for the journal: ``<4>`` before a line makes it a warning.
"""

from __future__ import annotations

import contextlib
import os
import sys

from . import probe_state
from .errors import FleetError
from .probe_run import Request, only_one, run

# There while declared events wait for something, for example a module.
PENDING = "/run/fetchbpf-probe-events.pending"


def mark_pending(waiting: bool) -> None:
    """Say to the udev rule whether a module that is loaded may be one that is waited for."""
    if waiting:
        with open(PENDING, "w", encoding="utf-8"):
            pass
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(PENDING)


def say(level: int, text: str) -> None:
    """Tell the journal each line of a text at a level of syslog's, 6 being plain information."""
    for line in text.splitlines():
        sys.stdout.write(f"<{level}>{line}\n")


def restore(state_file: str) -> int:
    """Register what the state file declares; return the exit code."""
    # A module that is loaded while this looks must not be missed.
    mark_pending(True)
    with only_one(120):
        state = probe_state.load_state(state_file)
        request = Request(
            events=[record["item"] for record in state.events.values()],
            buffers=[dict(record["item"], optional=True) for record in state.buffers.values() if "item" in record],
            state_file=state_file,
            restoring=True,
        )
        result = run(request)
    waiting = [*result.get("left_out", ()), *result.get("failed_events", ())]
    mark_pending(bool(waiting))
    for entry in waiting:
        say(4, f"{entry['event']} is not registered: {entry['reason']}")
    for warning in result.get("warnings", ()):
        say(4, warning)
    done = len(result.get("created", ()))
    say(6, f"{len(result.get('events', ()))} declared events are registered, {done} of them now")
    return 0


def main() -> None:
    """Entry point."""
    try:
        code = restore(sys.argv[1] if len(sys.argv) > 1 else probe_state.DEFAULT_PATH)
    except FleetError as exc:
        say(3, str(exc))
        code = 1
    raise SystemExit(code)
