# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run: declare, look, check, plan, apply, remember. The module and the restore unit both do this."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import probe_state
from .errors import FleetError
from .probe_apply import Editor, apply_plan
from .probe_checks import Host, check_process, check_tracefs
from .probe_plan import Plan, Registered, is_unchanged, make_plan
from .probes import SHARED_GROUPS, Event, event_name, limits_of, parse_event
from .tracefs import DEFAULT_ROOT, Tracefs, find_tracefs

LOCK = "/run/lock/fetchbpf-probe-events.lock"
SETTINGS = {"buffer_size_kb": "buffer_size_kb", "clock": "trace_clock", "disable_bpf": "disable_bpf"}


@dataclass
class Request:
    """What a run is asked for. ``remove_all`` takes away everything that was ever declared."""

    events: list[dict[str, Any]]
    group: str = "fetchbpf"
    exclusive: bool = False
    skip: bool = False
    buffers: list[dict[str, Any]] = field(default_factory=list)
    tracefs: str | None = None
    state_file: str = probe_state.DEFAULT_PATH
    check: bool = False
    diff: bool = False
    remove_all: bool = False
    restoring: bool = False
    persist: bool | None = None


@contextlib.contextmanager
def only_one(timeout: float, path: str = LOCK) -> Iterator[None]:
    """Hold the lock against a second run; FleetError names the one that has it for too long."""
    with open(path, "a+", encoding="utf-8") as lock:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    lock.seek(0)
                    holder = lock.read().strip() or "unknown"
                    raise FleetError(
                        f"another run changes the probe events of this host (pid {holder}) and did not end within "
                        f"{timeout:.0f} s; nothing was changed"
                    ) from None
                time.sleep(0.1)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def mounted(request: Request) -> str | None:
    """Return where tracefs is, mounting it where it is not; None in check mode if it would be mounted."""
    root = request.tracefs or find_tracefs()
    if root is None and not request.check:
        # Hosts have it mounted, and what starts processes takes long to load.
        from . import process

        done = process.run(["mount", "-t", "tracefs", "nodev", DEFAULT_ROOT])
        if done.returncode:
            raise FleetError(f"tracefs is not mounted and cannot be: {done.stderr.strip()}")
        root = DEFAULT_ROOT
    return root


def observe(tracefs: Tracefs) -> dict[str, Registered]:
    """Return everything that is registered, and where it records."""
    events = tracefs.definitions()
    on: dict[str, set[str]] = {}
    for place in ["", *tracefs.instances()]:
        for name in tracefs.recording(place):
            # A trigger makes an event listed there although it records nothing: 0*.
            if name in events and tracefs.event_file(name, "enable", place).startswith("1"):
                on.setdefault(name, set()).add(place)
    return {name: Registered(tuple(lines), frozenset(on.get(name, ()))) for name, lines in events.items()}


@dataclass
class Declared:
    """What a request declares: events that are to exist, names that are not, and why others cannot be read."""

    events: list[Event] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    unreadable: dict[str, str] = field(default_factory=dict)


def declared_events(request: Request) -> Declared:
    """Return what the request declares; FleetError for the first that is wrong, unless the rest is to go on."""
    limits = limits_of(os.uname().release)
    declared = Declared()
    names: set[str] = set()
    for item in request.events:
        event = None
        try:
            if item.get("state") != "absent":
                event = parse_event(item, request.group, limits)
        except FleetError as exc:
            # Another kernel may have other limits than the one it was declared on.
            if not request.restoring:
                raise
            declared.unreadable[event_name(item, request.group)] = str(exc)
            continue
        name = event.name if event else event_name(item, request.group)
        if name in names:
            raise FleetError(f"event {name} is declared twice; a second probe on it goes into its append")
        names.add(name)
        if event:
            declared.events.append(event)
        else:
            declared.absent.add(name)
    return declared


def run(request: Request) -> dict[str, Any]:
    """Make the declared events the registered ones; return what was done, for the user."""
    declared = declared_events(request)
    check_process()
    root = mounted(request)
    if root is None:
        return {"changed": True, "msg": "tracefs is not mounted; it would be, and the events registered"}
    check_tracefs(root)
    tracefs = Tracefs(root)
    try:
        return _run(request, tracefs, declared)
    finally:
        tracefs.close()


def _run(request: Request, tracefs: Tracefs, declared: Declared) -> dict[str, Any]:
    wanted, absent = declared.events, declared.absent
    state = probe_state.load_state(request.state_file)
    registered = observe(tracefs)
    groups = {request.group} | {name.partition("/")[0] for name in absent} | {event.group for event in wanted}
    if request.remove_all:
        absent |= set(state.events)
        groups |= {name.partition("/")[0] for name in state.events}
    _check_groups(request, groups, wanted, registered, state)
    host = Host(tracefs, tracefs.kinds())
    ready, skipped, failed = _check_events(request, host, wanted, registered, state)
    skipped.update(declared.unreadable)
    undeclared = {name for name in absent if name in registered}
    if request.exclusive:
        names = {event.name for event in wanted}
        undeclared |= {name for name in registered if name.partition("/")[0] in groups and name not in names}
    plan = make_plan(
        ready, sorted(undeclared, key=list(registered).index), registered, state.events, tracefs, tracefs.instances()
    )
    buffers, buffer_records = _plan_buffers(request, tracefs, plan, state)

    before = _describe(tracefs, registered, groups) if request.diff else ""
    warnings: list[str] = []
    changed = bool(plan) or bool(buffers)
    after = registered
    if changed and not request.check:
        tracefs.begin()
        editor = Editor(tracefs, state.events)
        refused = apply_plan(editor, plan, registered, buffers, request.skip or request.restoring)
        failed.update(refused)
        warnings += editor.warnings
        after = observe(tracefs)
    new = _new_state(
        request, tracefs, state, ready, wanted, absent | undeclared, after, skipped, failed, buffer_records
    )
    if not request.check:
        warnings += _remove_instances(tracefs, state, new, plan)
        if new != state or not os.path.exists(request.state_file):
            probe_state.save_state(request.state_file, new)
    else:
        changed = changed or bool(set(state.made) - _used_instances(new))
    result: dict[str, Any] = {
        "changed": changed,
        "created": [event.name for event in plan.create if event.name not in failed],
        "changed_events": sorted(
            {event.name for event in plan.remake}
            | {swap.event.name for swap in plan.swap}
            | {setting.name for setting in plan.settings} - set(failed)
        ),
        "deleted": plan.delete,
        "left_out": [{"event": name, "reason": skipped[name]} for name in sorted(skipped)],
        "failed_events": [{"event": name, "reason": failed[name]} for name in sorted(failed)],
        "events": {
            event.name: {
                "lines": list(after[event.name].lines),
                "recording_in": sorted(after[event.name].on),
                "enabled": "" in after[event.name].on,
            }
            for event in ready
            if event.name in after
        },
    }
    if warnings:
        result["warnings"] = warnings
    if request.diff:
        told = _foretell(before, plan, buffers) if request.check else _describe(tracefs, after, groups)
        told += "".join(
            f"{tracefs.root}: {place or 'top level'} {name} {value}\n" for place, name, _old, value in buffers
        )
        old = "".join(f"{tracefs.root}: {place or 'top level'} {name} {old}\n" for place, name, old, _new in buffers)
        result["diff"] = {
            "before": before + old,
            "after": told,
            "before_header": tracefs.root,
            "after_header": tracefs.root,
        }
    return result


def _check_groups(
    request: Request,
    groups: set[str],
    wanted: list[Event],
    registered: dict[str, Registered],
    state: probe_state.State,
) -> None:
    """Keep away from what belongs to others."""
    shared = sorted(groups & set(SHARED_GROUPS))
    if request.exclusive and shared:
        raise FleetError(f"group {shared[0]} cannot be exclusive: other tools register their events there")
    for event in wanted:
        if event.group in SHARED_GROUPS and event.name in registered and event.name not in state.events:
            raise FleetError(
                f"event {event.name} is there and was not made by this collection; choose another name or group"
            )


def _check_events(
    request: Request, host: Host, wanted: list[Event], registered: dict[str, Registered], state: probe_state.State
) -> tuple[list[Event], dict[str, str], dict[str, str]]:
    """Return the events that can be applied, and why the others cannot: optional ones, all others.

    Without skipping, the first that cannot is the error.
    """
    ready: list[Event] = []
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    declared = {event.name: event for event in wanted}
    checked_groups: set[str] = set()
    for event in wanted:
        try:
            if event.group not in checked_groups:
                host.check_group(event.group, registered, f"event {event.name}")
                checked_groups.add(event.group)
            host.check_kind(event)
            record = state.events.get(event.name)
            if request.restoring and record and any(probe.target[0].isdigit() for probe in event.probes):
                _check_address(event, record)
            resolved = host.resolve(event)
            if not is_unchanged(resolved, registered.get(event.name), record):
                host.check(resolved, registered, declared)
            ready.append(resolved)
        except FleetError as exc:
            if event.optional or request.restoring:
                skipped[event.name] = str(exc)
            elif request.skip:
                failed[event.name] = str(exc)
            else:
                raise
    return ready, skipped, failed


def _check_address(event: Event, record: dict[str, Any]) -> None:
    """Refuse to restore a raw address in another boot: the kernel has moved."""
    if record.get("boot") != probe_state.boot_id():
        raise FleetError(f"event {event.name}: a raw address means nothing after a reboot; declare a symbol")


def _plan_buffers(
    request: Request, tracefs: Tracefs, plan: Plan, state: probe_state.State
) -> tuple[list[tuple[str, str, str, str]], dict[str, dict[str, Any]]]:
    """Return the buffer settings to change and what to remember of them."""
    todo: list[tuple[str, str, str, str]] = []
    records = {place: dict(record) for place, record in state.buffers.items()}
    there = {"", *tracefs.instances()}
    # Several items may be about one place; together they are what is restored.
    for place in {item.get("instance") or "" for item in request.buffers}:
        records.setdefault(place, {})["item"] = {}
    for item in request.buffers:
        place = item.get("instance") or ""
        record = records.setdefault(place, {})
        for option, name in SETTINGS.items():
            if item.get(option) is None:
                continue
            value = str(int(item[option])) if isinstance(item[option], (bool, int)) else str(item[option])
            source = place if place in there else ""
            now = tracefs.setting(source, name)
            where = f"instance {place}" if place else "the top level"
            if now is None:
                if item.get("optional"):
                    continue
                raise FleetError(f"{option} of {where}: kernel {os.uname().release} has no such setting")
            _check_setting(tracefs, option, value, where)
            known = record.get(name, {})
            unchanged = place in there and (now == value or (known.get("value"), known.get("shown")) == (value, now))
            if not unchanged:
                todo.append((place, name, now, value))
            record[name] = {"value": value, "shown": known.get("shown", now), "was": known.get("was", now)}
            record["item"].update({"instance": place, option: item[option]})
        if place not in there and place not in plan.make:
            plan.make.append(place)
    if request.remove_all:
        for place, record in state.buffers.items():
            for name in SETTINGS.values():
                if name in record and place in there and place not in state.made:
                    now = tracefs.setting(place, name)
                    if now is not None and now != record[name]["was"]:
                        todo.append((place, name, now, record[name]["was"]))
        records = {}
    return todo, records


def _check_setting(tracefs: Tracefs, option: str, value: str, where: str) -> None:
    if option == "clock":
        clocks = tracefs.read("trace_clock").replace("[", "").replace("]", "").split()
        if value not in clocks:
            raise FleetError(f"clock of {where}: the kernel has no clock {value!r}, only {', '.join(clocks)}")
    elif option == "buffer_size_kb" and int(value) < 1:
        raise FleetError(f"buffer_size_kb of {where} is {value}; it must be 1 or more")


def _used_instances(state: probe_state.State) -> set[str]:
    used = {place for place in state.buffers if place}
    for record in state.events.values():
        used |= set(record["item"].get("instances") or [])
    return used


def _remove_instances(tracefs: Tracefs, old: probe_state.State, new: probe_state.State, plan: Plan) -> list[str]:
    """Remove the instances that were made for us and that nothing declares any more; return warnings."""
    warnings = []
    made = set(old.made) | set(plan.make)
    used = _used_instances(new)
    for place in sorted(made - used):
        try:
            tracefs.remove_instance(place)
            made.discard(place)
        except FileNotFoundError:
            made.discard(place)
        except OSError as exc:
            warnings.append(f"instance {place} is no longer needed but cannot be removed: {exc.strerror}")
    new.made = sorted(made & set(tracefs.instances()))
    return warnings


def _new_state(
    request: Request,
    tracefs: Tracefs,
    old: probe_state.State,
    ready: list[Event],
    wanted: list[Event],
    gone: set[str],
    after: dict[str, Registered],
    skipped: dict[str, str],
    failed: dict[str, str],
    buffers: dict[str, dict[str, Any]],
) -> probe_state.State:
    """Return what is to be remembered after this run."""
    events = {name: record for name, record in old.events.items() if name not in gone or name in failed}
    if request.exclusive:
        names = {event.name for event in wanted}
        groups = {request.group} | {event.group for event in wanted}
        events = {name: rec for name, rec in events.items() if name in names or name.partition("/")[0] not in groups}
    boot = probe_state.boot_id()
    for event in ready:
        if event.name in after and event.name not in failed:
            known = events.get(event.name, {}).get("places", {})
            events[event.name] = {
                "item": event.item,
                "commands": list(event.commands),
                "lines": list(after[event.name].lines),
                "pins": [list(pin) for pin in event.pins],
                "boot": boot,
                "places": {
                    place: _place_record(request, tracefs, event, place, known.get(place, {}))
                    for place in sorted({*event.places, *event.instances})
                },
            }
    items = {event.name: event.item for event in wanted}
    for name, reason in {**skipped, **failed}.items():
        record = events.get(name, {}) if name in after else {}
        events[name] = dict(record, item=items.get(name) or old.events[name]["item"], pending=reason)
    for place, record in buffers.items():
        for name in SETTINGS.values():
            if name in record and (place == "" or place in tracefs.instances()):
                record[name] = dict(record[name], shown=tracefs.setting(place, name))
    persist = old.persist if request.persist is None else request.persist
    return probe_state.State(events, buffers, list(old.made), persist)


def _place_record(
    request: Request, tracefs: Tracefs, event: Event, place: str, known: dict[str, Any]
) -> dict[str, Any]:
    """Return what is declared for an event in a place, and how the kernel shows it."""
    if known.get("filter") == event.filter and known.get("triggers") == (
        None if event.triggers is None else list(event.triggers)
    ):
        return known
    readable = not request.check
    record: dict[str, Any] = {"filter": event.filter, "filter_shown": "none", "triggers": None}
    if event.filter and readable:
        record["filter_shown"] = tracefs.event_file(event.name, "filter", place)
    if event.triggers is not None:
        record["triggers"] = list(event.triggers)
        record["triggers_shown"] = tracefs.triggers(event.name, place) if event.triggers and readable else []
    return record


def _describe(tracefs: Tracefs, registered: dict[str, Registered], groups: set[str]) -> str:
    """Return the text of our groups' events that a diff is made of."""
    text = ""
    for name, event in sorted(registered.items()):
        if name.partition("/")[0] in groups:
            for line in event.lines:
                text += f"{line}\n"
            for place in sorted({"", *event.on}):
                on = "on" if place in event.on else "off"
                shown = tracefs.event_file(name, "filter", place)
                triggers = tracefs.triggers(name, place)
                text += _describe_place(name, place, on, shown, triggers)
    return text


def _describe_place(name: str, place: str, on: str, shown: str, triggers: list[str]) -> str:
    parts = [on] + ([f"filter {shown}"] if shown != "none" else []) + [f"trigger {text}" for text in triggers]
    return f"  {name} in {place or 'the top level'}: {'; '.join(parts)}\n"


def _foretell(before: str, plan: Plan, buffers: list[tuple[str, str, str, str]]) -> str:
    """Return the description that ``before`` will be after ``plan``."""
    blocks: dict[str, list[str]] = {}
    for line in before.splitlines():
        name = line.split()[0] if line.startswith("  ") else line.split()[0].partition(":")[2]
        blocks.setdefault(name, []).append(line)
    for name in plan.delete:
        blocks.pop(name, None)
    for event in [*plan.create, *plan.remake]:
        # What the kernel will make of a definition is known only after it was registered.
        lines = list(event.commands)
        for place in sorted({"", *event.places}):
            on, mine = "on" if event.on_in(place) else "off", place in event.places
            shown, triggers = (event.filter or "none", list(event.triggers or ())) if mine else ("none", [])
            lines.append(_describe_place(event.name, place, on, shown, triggers).rstrip())
        blocks[event.name] = lines
    for swap in plan.swap:
        rest = [line for line in blocks[swap.event.name] if line not in swap.drop]
        places = [line for line in rest if line.startswith("  ")]
        blocks[swap.event.name] = [line for line in rest if line not in places] + list(swap.add) + places
    for setting in plan.settings:
        text = f"  {setting.name} in {setting.place or 'the top level'}: set {setting.file} "
        blocks[setting.name].append(text + ("; ".join(setting.after) or "none"))
    return "".join(f"{line}\n" for _name, lines in sorted(blocks.items()) for line in lines)
