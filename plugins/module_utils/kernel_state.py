# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this collection did to a host's kernels, kept on the host, and who is at it right now."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.grub import Entry
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target

STATE_FILE = "/var/lib/fetchbpf/kernels.json"
LOCK_FILE = "/run/lock/fetchbpf-kernel.lock"
SCHEMA = 1


class KernelState:
    """The content of kernels.json.

    ``kernels``: release → {"key", "packages": {name: version}}, what we installed.
    ``default``: {"release", "cmdline", "key", "trial"} of the promoted kernel, or None; ``trial`` is the id of the
    trial it was promoted from.
    ``trial``: {"release", "cmdline", "key", "id", "staged_from", "phase": "installing" | "staged", "boot_id",
    "known_good", "failed_units"} of the kernel on trial, or None; ``boot_id`` is the boot it was staged in,
    ``staged_from`` the id of the trial that this boot was.
    ``known_good`` and ``baseline``: {"release", "entry"}, the menu entry to fall back to; the baseline
    is the last one that is not ours.
    ``failure``: {"release", "reason", "time"} of the last failed trial, or None.
    ``lease``: {"run", "controller", "pid", "until"} of the run that is between two of its steps, or None.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        text = target.read(STATE_FILE)
        try:
            data: dict[str, Any] = json.loads(text) if text else {}
        except ValueError as exc:
            raise FleetError(f"{STATE_FILE}: not JSON ({exc}); move it away to start anew") from exc
        if data.get("schema", SCHEMA) != SCHEMA:
            raise FleetError(f"{STATE_FILE}: schema {data['schema']} is not known to this version of the collection")
        self.kernels: dict[str, dict[str, Any]] = data.get("kernels", {})
        self.default: dict[str, Any] | None = data.get("default")
        self.trial: dict[str, Any] | None = data.get("trial")
        self.known_good: dict[str, Any] | None = data.get("known_good")
        self.baseline: dict[str, Any] | None = data.get("baseline")
        self.failure: dict[str, Any] | None = data.get("failure")
        self.lease: dict[str, Any] | None = data.get("lease")

    def save(self) -> bool:
        """Write the file, or delete it when there is nothing to remember; return whether it changed."""
        fields = ("kernels", "default", "trial", "known_good", "baseline", "failure", "lease")
        data = {name: getattr(self, name) for name in fields}
        if not any(data.values()):
            return self._target.remove(STATE_FILE)
        text = json.dumps({"schema": SCHEMA, **data}, indent=2, sort_keys=True) + "\n"
        return self._target.write(STATE_FILE, text, 0o600)

    @property
    def effective_known_good(self) -> dict[str, Any] | None:
        """The entry to fall back to now: a trial has its own, that of the kernel it was staged from."""
        return self.trial["known_good"] if self.trial else self.known_good

    def check_lease(self, owner: dict[str, Any] | None, take_over: str = "") -> None:
        """Raise FleetError if another run holds the host; ``take_over`` names a run known to be dead."""
        lease = self.lease
        if not lease or lease["until"] < time.time() or lease["run"] == take_over:
            return
        if owner and owner["run"] == lease["run"]:
            return
        raise FleetError(
            f"another run holds this host's kernels: process {lease['pid']} on {lease['controller']}, "
            f"for at most {int(lease['until'] - time.time())} s more",
            busy=lease,
        )

    def take_lease(self, owner: dict[str, Any] | None, seconds: int) -> None:
        """Keep other runs away from the host between this step and the next one of the same run."""
        self.lease = dict(owner, until=int(time.time()) + seconds) if owner else None


def remembered(release: str, entry: Entry) -> dict[str, Any]:
    """Return what the state keeps of a known-good kernel."""
    return {"release": release, "entry": entry.as_dict()}


@contextlib.contextmanager
def exclusive(target: Target) -> Iterator[None]:
    """Hold the host's lock; FleetError at once if another module holds it."""
    name = target.path(LOCK_FILE)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise FleetError(f"another run is changing this host's kernels right now ({LOCK_FILE} is held)") from exc
        yield
