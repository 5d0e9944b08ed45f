# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier runs declared and what the kernel made of it, kept between runs and reboots."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 2
DEFAULT_PATH = "/var/lib/fetchbpf/probe_events.json"


@dataclass
class State:
    """Records by name.

    ``events``: ``GROUP/EVENT`` → item, commands, lines, pins, places, boot, and
    ``pending``, the reason, of one that could not be applied yet.
    ``buffers``: instance → what was declared of it and what it was before.
    ``made``: instances that were made for us.
    """

    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    buffers: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    persist: bool = False

    @property
    def empty(self) -> bool:
        return not (self.events or self.buffers or self.made)


def load_state(path: str) -> State:
    """Return what earlier runs remembered; a damaged file counts as nothing remembered."""
    try:
        with open(path, encoding="utf-8") as handle:
            data = json.load(handle)
        if data["schema"] != SCHEMA:
            return State()
        return State(data["events"], data["buffers"], data["made"], data["persist"])
    except (OSError, ValueError, KeyError, TypeError):
        return State()


def save_state(path: str, state: State) -> None:
    """Remember ``state``, whole or not at all; a state that is empty leaves no file."""
    if state.empty:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        # Other parts of the collection may keep files there.
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    data = {
        "schema": SCHEMA,
        "events": state.events,
        "buffers": state.buffers,
        "made": state.made,
        "persist": state.persist,
    }
    with open(path + ".new", "w", encoding="utf-8") as handle:
        json.dump(data, handle, indent=1, sort_keys=True)
        handle.flush()
        # It is what a reboot restores from.
        os.fsync(handle.fileno())
    os.replace(path + ".new", path)


def boot_id() -> str:
    """Return what tells this boot from others."""
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as handle:
        return handle.read().strip()
