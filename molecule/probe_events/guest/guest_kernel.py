# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cases need of the guest's kernel. Runs in the guest, as root, on the module's own code."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_apply import Editor
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_checks import Host
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_run import Request, observe, run
from ansible_collections.fetchbpf.fleet.plugins.module_utils.tracefs import Tracefs

# Programs are run from there, which many a /run forbids.
WORK = "/var/tmp/probe-test"
GROUP = "fbtest"
LIBC = "/lib/x86_64-linux-gnu/libc.so.6"


class Kernel:
    """The guest's tracefs, a state of its own and what is quickly said in tests."""

    def __init__(self) -> None:
        self.tracefs = Tracefs("/sys/kernel/tracing")
        self.kinds = self.tracefs.kinds()
        self.host = Host(self.tracefs, self.kinds)
        self.state = f"{WORK}/state.json"
        os.makedirs(WORK, exist_ok=True)

    @contextlib.contextmanager
    def clean(self) -> Iterator[None]:
        """Leave nothing of a case behind, whatever became of it."""
        try:
            yield
        finally:
            with contextlib.suppress(FleetError):
                run(Request(events=[], group=GROUP, remove_all=True, state_file=self.state, exclusive=True))
            for place in self.tracefs.instances():
                if place.startswith("t_"):
                    self.tracefs.write("", "instances", place, "set_event")
                    for name, event in observe(self.tracefs).items():
                        if place in event.on:
                            self.tracefs.set_event_file(name, "enable", "0", place)
            for name, event in reversed(list(observe(self.tracefs).items())):
                if name.startswith(("kprobes/t_", f"{GROUP}/", "theirs/")):
                    Editor(self.tracefs, {}).delete(name, event)
            for place in self.tracefs.instances():
                if place.startswith("t_"):
                    self.tracefs.remove_instance(place)
            shutil.rmtree(WORK, ignore_errors=True)
            os.makedirs(WORK)

    def apply(self, *events: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Do what the module does."""
        given: dict[str, Any] = {"group": GROUP, "exclusive": True, "state_file": self.state, **more}
        return run(Request(events=list(events), **given))

    def refused(self, *events: dict[str, Any], **more: Any) -> str:
        """Return the error that these events give; nothing may have changed by it."""
        before = self.everything()
        try:
            self.apply(*events, **more)
        except FleetError as exc:
            assert self.everything() == before, "the error left something changed"
            return str(exc)
        raise AssertionError("was not refused")

    def everything(self) -> Any:
        """Return all that is registered, set and on."""
        found = []
        # The kernel's order of events is no one's declaration.
        for name, event in sorted(observe(self.tracefs).items()):
            for place in ["", *self.tracefs.instances()]:
                found.append((name, event.lines, place, place in event.on))
                found.append((self.tracefs.event_file(name, "filter", place), self.tracefs.triggers(name, place)))
        return found

    def lines(self, name: str) -> list[str]:
        """Return the registered lines of one of our events."""
        return self.tracefs.definitions().get(f"{GROUP}/{name}", [])

    def ours(self) -> set[str]:
        """Return the names of our events."""
        return {name.partition("/")[2] for name in self.tracefs.definitions() if name.startswith(f"{GROUP}/")}

    def register(self, line: str) -> None:
        """Register an event as somebody else does: without us."""
        self.tracefs.write(f"{line}\n", "dynamic_events")

    def accepts(self, line: str) -> bool:
        """Return whether the kernel takes a definition; it is gone again afterwards."""
        name = line.split()[0].partition(":")[2]
        try:
            self.register(line)
        except OSError:
            return False
        self.register(f"-:{name}")
        return True

    def trace(self, place: str, name: str) -> int:
        """Return how many records of an event are in the buffer of a place."""
        # Reading is traced as well: a trace that is read while it records would never end.
        self.tracefs.write("0", *self.tracefs.place(place, "tracing_on"))
        try:
            return self.tracefs.read(*self.tracefs.place(place, "trace")).count(f" {name}: ")
        finally:
            self.tracefs.write("1", *self.tracefs.place(place, "tracing_on"))

    def text_symbols(self) -> dict[str, list[str]]:
        """Return the kernel's functions with the modules they are in."""
        return self.host.symbols()


def read_something() -> None:
    """Hit vfs_read, do_sys_openat2 and what they call."""
    with open("/etc/hostname", "rb", buffering=0) as handle:
        handle.read()


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it did."""
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
