# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out a plan of probe events, and can take back what it did."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .errors import FleetError
from .probe_lines import foretold
from .probe_plan import OFF, ON, Plan, Registered, Setting, Swap, fresh_settings
from .probes import Event, Probe, parse_line
from .tracefs import Tracefs, removal_of

# Events that need nothing of others to be registered.
_INDEPENDENT = ("kprobe", "kretprobe", "fprobe", "fexit", "uprobe", "uretprobe")
# Event probes hold what they are attached to; of trace point probes some kernels take one a trace point.
_IN_THE_WAY = "et"
# Functions of every kernel that can be probed, to hold an event alive while its only probe is exchanged.
STAND_INS = ("vfs_read", "vfs_write", "do_sys_openat2", "kernel_wait4")


@dataclass
class Snapshot:
    """Where an event recorded and what was set there."""

    on: frozenset[str]
    filters: dict[str, str] = field(default_factory=dict)
    triggers: dict[str, list[str]] = field(default_factory=dict)


class Editor:
    """Changes events one step at a time; every step knows how to take itself back."""

    def __init__(self, tracefs: Tracefs, records: dict[str, dict[str, Any]]) -> None:
        self.tracefs = tracefs
        self.places = ["", *tracefs.instances()]
        self.records = records
        self.warnings: list[str] = []
        self._undo: list[tuple[str, Callable[[], None]]] = []

    # Steps

    def make_instance(self, place: str) -> None:
        """Make a tracing instance."""
        try:
            self.tracefs.make_instance(place)
        except OSError as exc:
            raise FleetError(f"instance {place}: {exc.strerror}") from exc
        self.places.append(place)
        self._undo.append(("", lambda: self.tracefs.remove_instance(place)))

    def buffer(self, place: str, name: str, before: str, after: str) -> None:
        """Change one setting of a trace buffer."""
        self.tracefs.set_setting(place, name, after)
        self._undo.append(("", lambda: self.tracefs.set_setting(place, name, before)))

    def switch(self, name: str, place: str, text: str) -> None:
        """Let an event record in a place, or not."""
        self.tracefs.set_event_file(name, "enable", text, place)
        back = OFF if text == ON else ON
        self._undo.append((name, lambda: self.tracefs.set_event_file(name, "enable", back, place)))

    def filter(self, name: str, place: str, before: str, after: str) -> None:
        """Replace a filter; "" and "none" are no filter."""
        self._undo.append((name, lambda: self._set_filter(name, place, before)))
        self._set_filter(name, place, after)

    def _set_filter(self, name: str, place: str, text: str) -> None:
        self.tracefs.set_event_file(name, "filter", "0" if text in ("", "none") else text, place)

    def add_trigger(self, name: str, place: str, text: str) -> None:
        """Add one trigger."""
        self.tracefs.set_event_file(name, "trigger", text, place)
        self._undo.append((name, lambda: self.tracefs.set_event_file(name, "trigger", removal_of(text), place)))

    def remove_trigger(self, name: str, place: str, text: str) -> None:
        """Remove one trigger, given as the kernel shows it."""
        self.tracefs.set_event_file(name, "trigger", removal_of(text), place)
        self._undo.append((name, lambda: self.tracefs.set_event_file(name, "trigger", text, place)))

    def delete(self, name: str, was: Registered) -> Snapshot:
        """Delete an event wherever it records and whatever hangs on it; return what that was."""
        snapshot = Snapshot(was.on)
        for place in self.places:
            if place in was.on:
                self.switch(name, place, OFF)
            shown = self.tracefs.event_file(name, "filter", place)
            if shown != "none":
                snapshot.filters[place] = shown
            triggers = self.tracefs.triggers(name, place)
            for text in triggers:
                self.remove_trigger(name, place, text)
            if triggers:
                snapshot.triggers[place] = triggers
        try:
            self.tracefs.command(name, f"-:{name}")
        except FleetError as exc:
            if exc.details.get("errno") == "EBUSY":
                raise FleetError(f"event {name} cannot go, it is busy: {self._holder(name)}", event=name) from exc
            raise
        commands = self._commands_of(name, was)

        def make_again() -> None:
            for command in commands:
                self.tracefs.command(name, command)
            for place, text in snapshot.filters.items():
                self._set_filter(name, place, text)

        self._undo.append((name, make_again))
        return snapshot

    def _commands_of(self, name: str, was: Registered) -> list[str]:
        """Return what registers an event again as it was: its declaration where that is known."""
        record = self.records.get(name, {})
        if record.get("lines") == list(was.lines):
            return record["commands"]
        return list(was.lines)

    def _holder(self, name: str) -> str:
        """Say who keeps an event from being deleted."""
        wanted = f":{name.replace('/', ':')}"
        for group, event in self.tracefs.event_names():
            # An event may be without triggers, or go while this looks.
            with contextlib.suppress(OSError):
                for trigger in self.tracefs.triggers(f"{group}/{event}"):
                    if trigger.partition(" if ")[0].endswith(wanted):
                        return f"the trigger {trigger!r} of {group}/{event} switches it"
        return "perf, a BPF program or an open trace file uses it"

    def create(self, event: Event) -> None:
        """Register an event and set it up."""
        self._register(event)
        for setting in fresh_settings(event):
            self.set(setting)

    def _register(self, event: Event) -> None:
        for number, command in enumerate(event.commands):
            try:
                self.tracefs.command(event.name, command)
            except FleetError as exc:
                raise self._explained(event, exc) from exc
            if not number:
                self._undo.append((event.name, lambda: self.tracefs.command(event.name, f"-:{event.name}")))

    def _explained(self, event: Event, error: FleetError) -> FleetError:
        """Return the error with what the kernel does not say: some take one tprobe a trace point."""
        if event.kind != "tprobe" or error.details.get("errno") != "EEXIST":
            return error
        target = event.probes[0].target
        for name, lines in self.tracefs.definitions().items():
            if name != event.name and lines[0].startswith("t") and lines[0].split()[1] == target:
                text = f"{error}\nThis kernel takes one tprobe a trace point, and {name} is on {target} already."
                return FleetError(text, **error.details)
        return error

    def remake(self, event: Event, snapshot: Snapshot) -> None:
        """Register a deleted event in its new form; where others use it, it is as it was."""
        self._register(event)
        mine = set(event.places)
        once = set(self.records.get(event.name, {}).get("places", {})) - mine
        for place in self.places:
            if place in once:
                # We set it up there, and nobody declares it any more.
                continue
            # Filters and triggers of others may name a field that is gone: warn, their loss is no failure.
            text = snapshot.filters.get(place)
            if place not in mine and text:
                self._keep(event.name, place, f"filter {text!r}", self._set_filter, text)
            if place not in mine or event.triggers is None:
                for trigger in snapshot.triggers.get(place, []):
                    self._keep(event.name, place, f"trigger {trigger!r}", self.add_trigger, trigger)
            if place and place not in mine and place in snapshot.on:
                self.switch(event.name, place, ON)
        for setting in fresh_settings(event):
            self.set(setting)

    def _keep(self, name: str, place: str, what: str, step: Callable[[str, str, str], None], text: str) -> None:
        try:
            step(name, place, text)
        except (FleetError, OSError) as exc:
            where = f"instance {place}" if place else "the top level"
            self.warnings.append(f"event {name}: {what} in {where} could not be kept: {exc}")

    def swap(self, swap: Swap, was: Registered) -> None:
        """Exchange an event's probes while the event itself stays: no buffer is emptied by that."""
        name = swap.event.name
        # A probe that joins an event which is on is not armed by every kind and kernel.
        for place in sorted(was.on):
            self.switch(name, place, OFF)
        stand_in = self._stand_in(swap) if swap.stand_in else None
        if stand_in:
            self._append(name, stand_in.command(name))
            for line in swap.drop:
                self._drop(name, line)
            for command in swap.add:
                self._append(name, command)
            self._drop(name, stand_in.command(name))
        else:
            for command in swap.add:
                self._append(name, command)
            for line in swap.drop:
                self._drop(name, line)
        for place in sorted(was.on):
            self.switch(name, place, ON)

    def _stand_in(self, swap: Swap) -> Probe:
        old = parse_line(swap.drop[0])[1]
        symbol = next(symbol for symbol in STAND_INS if symbol != old.target)
        return Probe(old.kind, symbol, old.args, 1)

    def _append(self, name: str, command: str) -> None:
        self.tracefs.command(name, command)
        self._undo.append((name, lambda: self.tracefs.command(name, _dropping(name, command))))

    def _drop(self, name: str, line: str) -> None:
        self.tracefs.command(name, _dropping(name, line))
        self._undo.append((name, lambda: self.tracefs.command(name, line)))

    def set(self, setting: Setting) -> None:
        """Change one file of an event."""
        if setting.file == "enable":
            self.switch(setting.name, setting.place, setting.after[0])
        elif setting.file == "filter":
            self.filter(setting.name, setting.place, *(setting.before or ("none",)), *setting.after)
        else:
            for text in setting.before:
                self.remove_trigger(setting.name, setting.place, text)
            for text in setting.after:
                self.add_trigger(setting.name, setting.place, text)

    # Taking back

    def roll_back(self, name: str | None = None) -> list[str]:
        """Take back all steps, or those of one event, newest first; return what could not be taken back."""
        lost, rest = [], []
        steps, self._undo = self._undo, []
        for owner, step in reversed(steps):
            if name is not None and owner != name:
                rest.append((owner, step))
                continue
            try:
                step()
            except (FleetError, OSError) as exc:
                lost.append(str(exc))
        self._undo = rest[::-1]
        return lost


def _dropping(name: str, line: str) -> str:
    """Return the command that removes one of an event's probes, given in any form."""
    # The kernel compares with the one form in which it shows a probe.
    shown = foretold(name, parse_line(line)[1]) or line
    return " ".join([f"-:{name}", *shown.split()[1:]])


def apply_plan(
    editor: Editor, plan: Plan, registered: dict[str, Registered], buffers: list[tuple[str, str, str, str]], skip: bool
) -> dict[str, str]:
    """Carry out ``plan`` and the ``buffers`` settings.

    All of it or nothing; with ``skip``, all but the events that the kernel
    refuses: these are as before and returned with the reason.
    """
    failed: dict[str, str] = {}
    snapshots: dict[str, Snapshot] = {}

    def attempt(name: str, step: Callable[..., None], *arguments: Any) -> bool:
        try:
            step(*arguments)
        except (FleetError, OSError) as exc:
            if not skip:
                raise
            lost = editor.roll_back(name)
            failed[name] = str(exc) + ("\nNot restored: " + "; ".join(lost) if lost else "")
            return False
        return True

    def delete(name: str) -> None:
        snapshots[name] = editor.delete(name, registered[name])

    def remake(event: Event) -> None:
        editor.remake(event, snapshots[event.name])

    def swap_or_remake(swap: Swap) -> None:
        name = swap.event.name
        try:
            editor.swap(swap, registered[name])
        except FleetError:
            # What the kernel cannot exchange in place it is asked to make anew.
            if editor.roll_back(name):
                raise
            delete(name)
            remake(swap.event)
            set_up.add(name)

    set_up: set[str] = set()
    try:
        for place in plan.make:
            editor.make_instance(place)
        for place, name, before, after in buffers:
            editor.buffer(place, name, before, after)
        # What only adds comes first: what the kernel refuses is known before anything is lost.
        for event in plan.create:
            if event.kind in _INDEPENDENT:
                attempt(event.name, editor.create, event)
        for name in plan.delete:
            if registered[name].lines[0][0] in _IN_THE_WAY:
                attempt(name, delete, name)
        # Backwards: eprobes are at the end of the list and go before what they are attached to.
        ready = [event for event in reversed(plan.remake) if attempt(event.name, delete, event.name)]
        for swap in plan.swap:
            attempt(swap.event.name, swap_or_remake, swap)
        for event in reversed(ready):
            attempt(event.name, remake, event)
        for event in plan.create:
            if event.kind not in _INDEPENDENT:
                attempt(event.name, editor.create, event)
        for setting in plan.settings:
            if setting.name not in failed and setting.name not in set_up:
                attempt(setting.name, editor.set, setting)
        for name in plan.delete:
            if registered[name].lines[0][0] not in _IN_THE_WAY:
                attempt(name, delete, name)
    except (FleetError, OSError) as exc:
        lost = editor.roll_back()
        after = "The events are as they were before." if not lost else "Not restored: " + "; ".join(lost)
        raise FleetError(f"{exc}\n{after}", **getattr(exc, "details", {})) from exc
    return failed
