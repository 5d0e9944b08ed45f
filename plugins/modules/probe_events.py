#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: probe_events
short_description: Make the dynamic probe events of a host those that are declared
version_added: "0.1.0"
description:
  - Registers, changes, removes, enables and filters kprobe, kretprobe, fprobe, fexit, tprobe, eprobe, uprobe and
    uretprobe events of tracefs, a whole list in one run.
  - An event that is as declared keeps running and loses no trace data. Events of other groups are never touched.
  - Either the whole list is applied or, when the kernel refuses an event, the events are as they were before and the
    error shows the kernel's own message with its caret line.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: full
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  events:
    description: The declared events.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the event, at most 63 characters.
        type: str
        required: true
      group:
        description: Group (system) of the event; O(group) when left out.
        type: str
      type:
        description: Kind of probe.
        type: str
        required: true
        choices: [kprobe, kretprobe, fprobe, fexit, tprobe, eprobe, uprobe, uretprobe]
      target:
        description:
          - Where the probe sits, in the kernel's notation. A symbol, C(module:symbol), C(symbol+offset), a tracepoint
            (tprobe), C(system.event) (eprobe) or C(path:offset) (uprobe).
        type: str
        required: true
      args:
        description: Fetchargs in the kernel's notation, each C(name=fetcharg:type); at most 128.
        type: list
        elements: str
        default: []
      maxactive:
        description: How many instances of a kretprobe may be under way at once, 1 to 4096.
        type: int
      filter:
        description: Filter of the event; empty for none.
        type: str
        default: ''
      enabled:
        description: Whether the event records into the top-level trace buffer.
        type: bool
        default: true
      state:
        description: Whether the event exists.
        type: str
        choices: [present, absent]
        default: present
  group:
    description: Group of the events that name none.
    type: str
    default: fetchbpf
  exclusive:
    description: Remove events of the groups named by O(group) and O(events) that are not declared.
    type: bool
    default: false
  tracefs:
    description: Where tracefs is mounted; found in C(/proc/self/mounts) when left out.
    type: path
  state_file:
    description: Where declarations and the kernel's reading of them are remembered.
    type: path
    default: /var/lib/fetchbpf/probe_events.json
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Trace what is opened, and what the open returned
  fetchbpf.fleet.probe_events:
    events:
      - name: open
        type: kprobe
        target: do_sys_openat2
        args: ['dfd=$arg1:s32', 'file=+0($arg2):ustring']
      - name: open_ret
        type: kretprobe
        target: do_sys_openat2
        args: ['fd=$retval:s64']
        maxactive: 64

- name: Remove all events of our group
  fetchbpf.fleet.probe_events:
    events: []
    exclusive: true
"""

RETURN = r"""
events:
  description: The declared events as the kernel shows them, by C(GROUP/EVENT). In check mode only those that exist.
  returned: success
  type: dict
  sample:
    fetchbpf/open:
      enabled: true
      filter: none
      lines: ['p:fetchbpf/open do_sys_openat2 dfd=$arg1:s32 file=+0($arg2):ustring']
created:
  description: Names of the events that were registered, changed ones among them.
  returned: success
  type: list
  elements: str
  sample: [fetchbpf/open]
deleted:
  description: Names of the events that were deleted, changed ones among them.
  returned: success
  type: list
  elements: str
  sample: []
"""

import fcntl
import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import (
    KINDS,
    Plan,
    Probe,
    Registered,
    make_plan,
    parse_probe,
)
from ansible_collections.fetchbpf.fleet.plugins.module_utils.tracefs import Tracefs, find_tracefs


def read_registered(tracefs: Tracefs, groups: set[str]) -> dict[str, Registered]:
    """Return what the kernel has of ``groups``."""
    found = {}
    for name, lines in tracefs.definitions().items():
        if name.split("/")[0] in groups:
            enabled = tracefs.event_file(name, "enable")[0] != "0"
            found[name] = Registered(tuple(lines), enabled, tracefs.event_file(name, "filter"))
    return found


def load_state(path: str) -> dict[str, dict[str, Any]]:
    """Return what earlier runs remembered; a damaged file counts as nothing remembered."""
    try:
        with open(path, encoding="utf-8") as handle:
            return json.load(handle)["events"]
    except (OSError, ValueError, KeyError):
        return {}


def save_state(path: str, events: dict[str, dict[str, Any]]) -> None:
    """Remember ``events``, whole or not at all."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as handle:
        json.dump({"schema": 1, "events": events}, handle, indent=1, sort_keys=True)
    os.replace(path + ".new", path)


class Editor:
    """Applies a plan and can take back what it did."""

    def __init__(self, tracefs: Tracefs) -> None:
        self.tracefs = tracefs
        self.undo: list[tuple[str, Any]] = []

    def delete(self, name: str, was: Registered) -> None:
        """Delete one event, disabling it first."""
        if was.enabled:
            self.tracefs.set_event_file(name, "enable", "0")
            self.undo.append(("switch", (name, True)))
        self.tracefs.command(name, f"-:{name}")
        self.undo.append(("create", (name, was)))

    def create(self, probe: Probe) -> None:
        """Register one event with its filter and switch it on where declared."""
        self.tracefs.command(probe.name, probe.definition)
        self.undo.append(("delete", probe.name))
        if probe.filter:
            self.tracefs.set_event_file(probe.name, "filter", probe.filter)
        if probe.enabled:
            self.tracefs.set_event_file(probe.name, "enable", "1")

    def refilter(self, probe: Probe, was: Registered) -> None:
        """Replace the filter of one event."""
        self.undo.append(("filter", (probe.name, was.filter)))
        self.tracefs.set_event_file(probe.name, "filter", probe.filter or "0")

    def switch(self, probe: Probe) -> None:
        """Turn one event on or off."""
        self.undo.append(("switch", (probe.name, not probe.enabled)))
        self.tracefs.set_event_file(probe.name, "enable", "1" if probe.enabled else "0")

    def roll_back(self) -> list[str]:
        """Take back everything, newest first; return what could not be taken back."""
        lost = []
        for what, data in reversed(self.undo):
            try:
                if what == "delete":
                    self.tracefs.set_event_file(data, "enable", "0")
                    self.tracefs.command(data, f"-:{data}")
                elif what == "create":
                    name, was = data
                    for line in was.lines:
                        self.tracefs.command(name, line)
                    if was.filter != "none":
                        self.tracefs.set_event_file(name, "filter", was.filter)
                elif what == "filter":
                    name, text = data
                    self.tracefs.set_event_file(name, "filter", "0" if text == "none" else text)
                else:
                    name, enabled = data
                    self.tracefs.set_event_file(name, "enable", "1" if enabled else "0")
            except (FleetError, OSError) as exc:
                lost.append(str(exc))
        return lost


def apply_plan(tracefs: Tracefs, plan: Plan, registered: dict[str, Registered]) -> None:
    """Carry out ``plan``, all of it or nothing."""
    editor = Editor(tracefs)
    try:
        for name in plan.delete:
            editor.delete(name, registered[name])
        for probe in plan.create:
            editor.create(probe)
        for probe in plan.refilter:
            editor.refilter(probe, registered[probe.name])
        for probe in plan.switch:
            editor.switch(probe)
    except (FleetError, OSError) as exc:
        lost = editor.roll_back()
        text = f"{exc}\nThe events are as they were before." if not lost else f"{exc}\nNot restored: " + "; ".join(lost)
        raise FleetError(text) from exc


def describe(lines: dict[str, Registered]) -> str:
    """Return the text that a diff is made of."""
    return "".join(
        f"{line} [{'on' if event.enabled else 'off'}, filter {event.filter}]\n"
        for _name, event in sorted(lines.items())
        for line in event.lines
    )


def run(module: AnsibleModule) -> dict[str, Any]:
    """Do the module's work and return its result."""
    params = module.params
    probes: list[Probe] = []
    absent: set[str] = set()
    for item in params["events"]:
        probe = parse_probe(item, params["group"])
        if probe.name in absent or any(probe.name == other.name for other in probes):
            raise FleetError(f"event {probe.name} is declared twice")
        if item["state"] == "absent":
            absent.add(probe.name)
        else:
            probes.append(probe)

    root = params["tracefs"] or find_tracefs()
    if root is None:
        raise FleetError("tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing")
    tracefs = Tracefs(root)
    if not os.path.exists(tracefs.path("dynamic_events")):
        raise FleetError(
            f"{root} has no dynamic_events: the kernel lacks CONFIG_DYNAMIC_EVENTS, or this is not tracefs"
        )
    kinds = tracefs.kinds()
    for probe in probes:
        if probe.kind not in kinds:
            raise FleetError(
                f"event {probe.name}: kernel {os.uname().release} has no {probe.kind} events "
                f"(it has: {', '.join(sorted(kinds))})"
            )

    groups = (
        {params["group"]} | {name.split("/")[0] for name in absent} | {probe.name.split("/")[0] for probe in probes}
    )
    remembered = load_state(params["state_file"])
    registered = read_registered(tracefs, groups)
    plan = make_plan(probes, absent, registered, remembered, groups if params["exclusive"] else set())
    result: dict[str, Any] = {
        "changed": bool(plan),
        "created": [probe.name for probe in plan.create],
        "deleted": plan.delete,
    }
    declared = {probe.name: probe for probe in probes}
    after = registered
    if plan and module.check_mode:
        # What the kernel will make of a definition is known only after it was registered.
        after = {name: event for name, event in registered.items() if name not in plan.delete}
        for probe in plan.create:
            after[probe.name] = Registered((probe.definition,), probe.enabled, probe.filter or "none")
        for probe in plan.refilter + plan.switch:
            after[probe.name] = Registered(after[probe.name].lines, probe.enabled, probe.filter or "none")
    elif plan:
        apply_plan(tracefs, plan, registered)
        after = read_registered(tracefs, groups)
    if not module.check_mode:
        wanted_state = {name: event for name, event in remembered.items() if name.split("/")[0] not in groups}
        wanted_state.update(
            (
                name,
                {
                    "definition": probe.definition,
                    "lines": list(after[name].lines),
                    "filter": probe.filter,
                    "filter_shown": after[name].filter,
                },
            )
            for name, probe in declared.items()
        )
        for name in registered:
            # Undeclared events of our groups stay remembered while they exist.
            if name in after and name not in declared and name in remembered:
                wanted_state[name] = remembered[name]
        if wanted_state != remembered:
            save_state(params["state_file"], wanted_state)
    result["events"] = {
        name: {"lines": list(event.lines), "enabled": event.enabled, "filter": event.filter}
        for name, event in (registered if module.check_mode else after).items()
        if name in declared
    }
    if module._diff:
        result["diff"] = {
            "before": describe(registered),
            "after": describe(after),
            "before_header": root,
            "after_header": root,
        }
    return result


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "events": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "group": {"type": "str"},
                    "type": {"type": "str", "required": True, "choices": list(KINDS)},
                    "target": {"type": "str", "required": True},
                    "args": {"type": "list", "elements": "str", "default": []},
                    "maxactive": {"type": "int"},
                    "filter": {"type": "str", "default": ""},
                    "enabled": {"type": "bool", "default": True},
                    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
                },
            },
            "group": {"type": "str", "default": "fetchbpf"},
            "exclusive": {"type": "bool", "default": False},
            "tracefs": {"type": "path"},
            "state_file": {"type": "path", "default": "/var/lib/fetchbpf/probe_events.json"},
        },
        supports_check_mode=True,
    )
    try:
        # Two runs at once would each see the other's half-done work.
        with open("/run/lock/fetchbpf-probe-events.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = run(module)
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except PermissionError as exc:
        module.fail_json(
            msg=f"{exc.filename}: {exc.strerror}; probe events need root (CAP_SYS_ADMIN) and a writable tracefs"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
