# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The smallest change that makes the declared events the registered ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .errors import FleetError
from .probe_lines import as_declared, foretold, same_line, same_lines
from .probes import USER_KINDS, Event, parse_line, signature
from .tracefs import normal_trigger

OFF = "0"
ON = "1"


@dataclass(frozen=True)
class Registered:
    """What the kernel has of one event: its lines, and the places ("" is the top level) it records in."""

    lines: tuple[str, ...]
    on: frozenset[str] = frozenset()


class Reader(Protocol):
    """The part of Tracefs that tells of an event's files."""

    def event_file(self, name: str, file: str, place: str = "") -> str: ...

    def triggers(self, name: str, place: str = "") -> list[str]: ...


@dataclass(frozen=True)
class Setting:
    """One file of one event to change: ``file`` is filter, triggers or enable."""

    name: str
    place: str
    file: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Swap:
    """Probes to exchange on an event that lives on: its id, its buffers and what hangs on it stay."""

    event: Event
    add: tuple[str, ...]
    drop: tuple[str, ...]
    # The new probe differs from the old one in maxactive only, which the kernel takes for the same.
    stand_in: bool


@dataclass
class Plan:
    """What has to be done, in this order."""

    make: list[str] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)
    swap: list[Swap] = field(default_factory=list)
    remake: list[Event] = field(default_factory=list)
    create: list[Event] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.make or self.delete or self.swap or self.remake or self.create or self.settings)


def is_unchanged(event: Event, now: Registered | None, record: dict[str, Any] | None) -> bool:
    """Return whether the registered probes are those that are declared."""
    if now is None:
        return False
    if not record or not record.get("lines"):
        return as_declared(event, now.lines)
    as_before = tuple(record["commands"]) == event.commands and [list(pin) for pin in event.pins] == record["pins"]
    if as_before and tuple(record["lines"]) == now.lines and len(now.lines) == len(event.probes):
        return True
    if not same_lines(event, now.lines, tuple(record["lines"])):
        return as_declared(event, now.lines)
    if tuple(record["commands"]) == event.commands:
        return as_before
    # Declared in other words, or another argument that looks the same.
    return as_declared(event, now.lines)


def attached_to(registered: dict[str, Registered]) -> dict[str, list[str]]:
    """Return the eprobes on each event, by the event's name."""
    found: dict[str, list[str]] = {}
    for name, event in registered.items():
        if event.lines[0].startswith("e"):
            target = event.lines[0].split()[1].replace(".", "/", 1)
            found.setdefault(target, []).append(name)
    return found


def make_plan(
    wanted: list[Event],
    undeclared: Iterable[str],
    registered: dict[str, Registered],
    records: dict[str, dict[str, Any]],
    reader: Reader,
    instances: Iterable[str],
) -> Plan:
    """Return the smallest change that makes ``wanted`` true and removes ``undeclared``.

    ``registered`` is everything that the kernel has, by ``GROUP/EVENT``;
    ``records`` is what earlier runs remembered; ``instances`` are there.
    FleetError says who holds an event that has to go.
    """
    there = set(instances)
    plan = Plan(delete=[name for name in undeclared if name in registered])
    plan.make = sorted({place for event in wanted for place in event.instances} - there)
    kept: list[Event] = []
    for event in wanted:
        now, record = registered.get(event.name), records.get(event.name)
        if now is None:
            plan.create.append(event)
        elif is_unchanged(event, now, record):
            kept.append(event)
        else:
            swap = _swap(event, now, record)
            if swap:
                plan.swap.append(swap)
                kept.append(event)
            else:
                plan.remake.append(event)
    _remake_attached(plan, kept, registered)
    for event in kept:
        plan.settings += _settings(event, registered[event.name], records.get(event.name), reader, there)
    _order(plan, registered)
    return plan


def _swap(event: Event, now: Registered, record: dict[str, Any] | None) -> Swap | None:
    """Return how to exchange the event's probes in place, None where the kernel cannot."""
    if event.kind in ("eprobe", "tprobe"):
        return None
    if event.kind in USER_KINDS and (not record or record.get("pins") != [list(pin) for pin in event.pins]):
        # The same text for another file: nothing would tell the two probes apart.
        return None
    new = [foretold(event.name, probe) for probe in event.probes]
    if any(line is None for line in new):
        return None
    lines = [line or "" for line in new]
    old_probes = [parse_line(line)[1] for line in now.lines]
    new_probes = [parse_line(line)[1] for line in lines]
    if any(probe.kind != event.kind for probe in old_probes):
        return None
    if any(signature(old.args) != signature(new_probes[0].args) for old in old_probes):
        return None
    pairs = [
        (line, probe)
        for line, probe in zip(lines, event.probes)
        if not any(same_line(line, old, probe.maxactive is not None) for old in now.lines)
    ]
    kept = [line for line, probe in zip(lines, event.probes) if (line, probe) not in pairs]
    drop = tuple(old for old in now.lines if not any(same_line(old, line, False) for line in kept))
    if not pairs:
        # Only fewer probes, or another order.
        return Swap(event, (), drop, False) if drop else None
    stand_in = any(same_line(line, old, False) for line, _probe in pairs for old in drop)
    if stand_in and (len(event.probes) > 1 or len(now.lines) > 1):
        return None
    return Swap(event, tuple(probe.command(event.name) for _line, probe in pairs), drop, stand_in)


def _remake_attached(plan: Plan, kept: list[Event], registered: dict[str, Registered]) -> None:
    """Make anew the declared eprobes on events that go for a moment; refuse where they are not ours."""
    attached = attached_to(registered)
    going = set(plan.delete)
    for name in [*plan.delete, *(event.name for event in plan.remake)]:
        for holder in attached.get(name, []):
            mine = [event for event in kept if event.name == holder]
            if mine:
                kept.remove(mine[0])
                plan.swap = [swap for swap in plan.swap if swap.event.name != holder]
                plan.remake.append(mine[0])
            elif holder not in going and not any(event.name == holder for event in plan.remake):
                raise FleetError(
                    f"event {name}: the event probe {holder}, which is not declared here, is attached to it; "
                    "remove that first, or declare it",
                    event=name,
                )


def _settings(
    event: Event, now: Registered, record: dict[str, Any] | None, reader: Reader, there: set[str]
) -> list[Setting]:
    """Return what to change of a kept event's filters, triggers and switches."""
    found: list[Setting] = []
    before = (record or {}).get("places", {})
    for place in event.places:
        if place not in there and place != "":
            found += [Setting(event.name, place, file, (), after) for file, after in _fresh(event, place)]
            continue
        known = before.get(place, {})
        shown = reader.event_file(event.name, "filter", place)
        same = known.get("filter") == event.filter and known.get("filter_shown") == shown
        if not same and shown != (event.filter or "none"):
            found.append(Setting(event.name, place, "filter", (shown,), (event.filter,)))
        if event.triggers is not None:
            triggers = reader.triggers(event.name, place)
            if known.get("triggers") is None:
                same = sorted(triggers) == sorted(normal_trigger(text) for text in event.triggers)
            else:
                same = known["triggers"] == list(event.triggers) and known["triggers_shown"] == triggers
            if not same:
                found.append(Setting(event.name, place, "triggers", tuple(triggers), event.triggers))
    for place in set(before) - set(event.places):
        # We set it up there once; where it no longer belongs nothing of it stays.
        if place == "" or place in there:
            if reader.event_file(event.name, "filter", place) != "none":
                shown = reader.event_file(event.name, "filter", place)
                found.append(Setting(event.name, place, "filter", (shown,), ("",)))
            triggers = reader.triggers(event.name, place)
            if triggers and event.triggers is not None:
                found.append(Setting(event.name, place, "triggers", tuple(triggers), ()))
    for place in sorted({"", *event.places, *(set(before) & there)}):
        on, wanted = place in now.on, event.on_in(place)
        if on != wanted and (place in there or place == ""):
            found.append(Setting(event.name, place, "enable", (ON if on else OFF,), (ON if wanted else OFF,)))
    return found


def _fresh(event: Event, place: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return what to set of an event in a place where nothing is set yet."""
    todo: list[tuple[str, tuple[str, ...]]] = []
    if event.filter:
        todo.append(("filter", (event.filter,)))
    if event.triggers:
        todo.append(("triggers", event.triggers))
    if event.on_in(place):
        todo.append(("enable", (ON,)))
    return todo


def fresh_settings(event: Event) -> list[Setting]:
    """Return all settings of an event that was just registered."""
    return [
        Setting(event.name, place, file, (), after) for place in event.places for file, after in _fresh(event, place)
    ]


def _order(plan: Plan, registered: dict[str, Registered]) -> None:
    """An eprobe goes before, and comes after, the event it is attached to; else the latest goes first."""
    age = {name: number for number, name in enumerate(registered)}
    plan.delete.sort(key=lambda name: (not registered[name].lines[0].startswith("e"), -age[name]))
    plan.remake.sort(key=lambda event: event.kind == "eprobe")
    plan.create.sort(key=lambda event: event.kind == "eprobe")
