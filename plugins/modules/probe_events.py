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
  - An event that is as declared keeps running and loses no trace data. A changed one is exchanged in place where the
    kernel can do that (the names and types of its args stay), which empties no trace buffer. Else it is deleted and
    made anew, and the kernel then empties the trace buffers that it ever recorded into.
  - Everything that can be known to be wrong is refused before anything is written. When the kernel still refuses an
    event, what was done is undone and the error shows the kernel's own message with its caret line.
  - Events of other groups are never touched.
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
    default: []
    suboptions:
      name:
        description:
          - Name of the event, at most 63 characters.
          - May be left out where O(events[].definition) has it.
        type: str
      group:
        description: Group (system) of the event; O(group) when left out.
        type: str
      type:
        description: Kind of probe.
        type: str
        choices: [kprobe, kretprobe, fprobe, fexit, tprobe, eprobe, uprobe, uretprobe]
      target:
        description:
          - Where the probe sits. C(SYMBOL), C(SYMBOL+OFFSET) or C(MODULE:SYMBOL) for kprobe and kretprobe (the latter
            without an offset), a function or a glob of functions for fprobe and fexit, a tracepoint for tprobe,
            C(SYSTEM.EVENT) for eprobe, C(PATH:OFFSET) or C(PATH:SYMBOL) for uprobe and uretprobe.
          - The symbol of a file is looked up in its ELF symbol tables. When another file takes the path, the probe
            moves to the new file in the next run.
        type: str
      args:
        description:
          - Fetchargs, at most 128. Each is a string in the kernel's notation, C(NAME=FETCHARG:TYPE), or a mapping with
            C(fetch) and optionally C(name) and C(type).
        type: list
        elements: raw
        default: []
      maxactive:
        description: How many instances of a kretprobe may be under way at once, 1 to 4096.
        type: int
      definition:
        description:
          - A whole definition line in the kernel's notation, instead of O(events[].type), O(events[].target),
            O(events[].args) and O(events[].maxactive). An eprobe's C(if FILTER) can be given in this way only.
        type: str
      append:
        description:
          - More probes on the same event, each with O(events[].target) and O(events[].args), or with
            O(events[].definition). Their args have the names and types of the first probe's.
        type: list
        elements: dict
        default: []
        suboptions:
          target:
            description: As of the event.
            type: str
          args:
            description: As of the event.
            type: list
            elements: raw
          definition:
            description: As of the event.
            type: str
      filter:
        description: Filter of the event, in all places it records in; empty for none.
        type: str
        default: ''
      triggers:
        description:
          - Triggers of the event, for example C(stacktrace if count > 4096) or C(traceoff:1), in all places it records
            in.
          - When left out, the triggers that it has are nobody's business; an empty list removes them.
        type: list
        elements: str
      instances:
        description: Tracing instances that the event records in; those that do not exist are made.
        type: list
        elements: str
        default: []
      enabled:
        description: Whether the event records into the top-level trace buffer.
        type: bool
        default: true
      optional:
        description:
          - Leave the event out, and say so, on a kernel that cannot have it (no such kind of probe, no such function,
            its module is not loaded) instead of failing.
          - With O(persist=true) it is registered when a module is loaded that makes it possible.
        type: bool
        default: false
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
  on_error:
    description:
      - V(abort) applies the whole list or nothing of it.
      - V(skip) applies what can be applied and returns the rest in RV(failed_events). An event that could not be
        changed is as it was.
    type: str
    choices: [abort, skip]
    default: abort
  buffers:
    description: Settings of trace buffers.
    type: list
    elements: dict
    default: []
    suboptions:
      instance:
        description: The tracing instance, made if it does not exist; the top level when left out.
        type: str
        default: ''
      buffer_size_kb:
        description: Size of the buffer of each CPU in KiB.
        type: int
      clock:
        description: Clock of the time stamps, for example V(mono). Changing it empties the buffer.
        type: str
      disable_bpf:
        description: Let events fetch their args without their BPF programs, on kernels with the fetcharg-BPF series.
        type: bool
      optional:
        description: Leave out a setting that the kernel has not, instead of failing.
        type: bool
        default: false
  persist:
    description:
      - Have systemd register the events again after a reboot, before anybody can log in.
      - V(false) removes what does that. When left out, it is as it was.
    type: bool
  state:
    description:
      - V(absent) removes every event, instance and setting that this module made, and what restores them, and leaves
        nothing behind. O(events) must then be empty.
    type: str
    choices: [present, absent]
    default: present
  tracefs:
    description: Where tracefs is mounted. Found in C(/proc/self/mounts) when left out, and mounted where it is not.
    type: path
  state_file:
    description: Where declarations and the kernel's reading of them are remembered.
    type: path
    default: /var/lib/fetchbpf/probe_events.json
  lock_timeout:
    description: Seconds to wait for another run on the same host to end.
    type: int
    default: 60
seealso:
  - module: fetchbpf.fleet.probe_events_info
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
        args: ['dfd=$arg1:s32', {name: file, fetch: +0($arg2), type: ustring}]
      - name: open_ret
        type: kretprobe
        target: do_sys_openat2
        args: ['fd=$retval:s64']
        maxactive: 64
        filter: fd < 0

- name: Record into an instance of its own, also after a reboot
  fetchbpf.fleet.probe_events:
    persist: true
    buffers:
      - instance: reads
        buffer_size_kb: 4096
        clock: mono
    events:
      - definition: 'p:fetchbpf/read vfs_read count=$arg3:u64'
        enabled: false
        instances: [reads]

- name: Remove all events of our group
  fetchbpf.fleet.probe_events:
    events: []
    exclusive: true

- name: Remove everything that this module ever made on the host
  fetchbpf.fleet.probe_events:
    state: absent
"""

RETURN = r"""
events:
  description: The declared events as the kernel shows them, by C(GROUP/EVENT). In check mode only those that exist.
  returned: success
  type: dict
  sample:
    fetchbpf/open:
      enabled: true
      recording_in: ['']
      lines: ['p:fetchbpf/open do_sys_openat2 dfd=$arg1:s32 file=+0($arg2):ustring']
created:
  description: Names of the events that were registered.
  returned: success
  type: list
  elements: str
  sample: [fetchbpf/open]
changed_events:
  description: Names of the events that were there and were changed in any way.
  returned: success
  type: list
  elements: str
  sample: []
deleted:
  description: Names of the events that were deleted for good.
  returned: success
  type: list
  elements: str
  sample: []
left_out:
  description: Optional events that this kernel cannot have, with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - event: fetchbpf/read
      reason: 'event fetchbpf/read: kernel 6.1.0-42-amd64 has no fprobe events'
failed_events:
  description: Events that could not be applied, with the reason.
  returned: with O(on_error=skip)
  type: list
  elements: dict
  sample: []
kernel_message:
  description: What the kernel logged of the definition that it refused, with its caret line.
  returned: when the kernel refused an event
  type: str
  sample: |-
    trace_kprobe: error: Invalid fetch type
      Command: p:fetchbpf/open do_sys_openat2 a=$arg1:u33
                                                     ^
persist:
  description: Paths that make the events persistent and were written or removed.
  returned: success
  type: list
  elements: str
  sample: [/etc/systemd/system/fetchbpf-probe-events.service]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils import probe_persist, probe_restore
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_run import Request, only_one, run
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import KINDS

APPENDED = {
    "target": {"type": "str"},
    "args": {"type": "list", "elements": "raw"},
    "definition": {"type": "str"},
}
EVENT = {
    "name": {"type": "str"},
    "group": {"type": "str"},
    "type": {"type": "str", "choices": list(KINDS)},
    "target": {"type": "str"},
    "args": {"type": "list", "elements": "raw", "default": []},
    "maxactive": {"type": "int"},
    "definition": {"type": "str"},
    "append": {"type": "list", "elements": "dict", "default": [], "options": APPENDED},
    "filter": {"type": "str", "default": ""},
    "triggers": {"type": "list", "elements": "str"},
    "instances": {"type": "list", "elements": "str", "default": []},
    "enabled": {"type": "bool", "default": True},
    "optional": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}
BUFFER = {
    "instance": {"type": "str", "default": ""},
    "buffer_size_kb": {"type": "int"},
    "clock": {"type": "str"},
    "disable_bpf": {"type": "bool"},
    "optional": {"type": "bool", "default": False},
}


def work(params: dict[str, Any], check: bool, diff: bool) -> dict[str, Any]:
    """Do the module's work and return its result."""
    absent = params["state"] == "absent"
    if absent and params["events"]:
        raise FleetError("state is absent, which removes everything: events must be empty")
    events = [{key: value for key, value in item.items() if value is not None} for item in params["events"]]
    for item in events:
        item["append"] = [
            {key: value for key, value in more.items() if value is not None} for more in item.get("append", [])
        ]
    persist = False if absent else params["persist"]
    request = Request(
        events=events,
        group=params["group"],
        exclusive=params["exclusive"] or absent,
        skip=params["on_error"] == "skip",
        buffers=params["buffers"],
        tracefs=params["tracefs"],
        state_file=params["state_file"],
        check=check,
        diff=diff,
        remove_all=absent,
        persist=persist,
    )
    paths = [] if persist is None else probe_persist.differs(persist, params["state_file"])
    result = run(request)
    if persist is not None and not check:
        if paths and persist:
            probe_persist.install(params["state_file"])
        elif paths:
            probe_persist.remove()
        if persist:
            probe_restore.mark_pending(bool(result.get("left_out")))
    result["persist"] = paths
    result["changed"] = result["changed"] or bool(paths)
    if diff and paths and "diff" in result:
        there, not_there = "is there or differs", "as declared"
        result["diff"]["before"] += "".join(f"{path}: {there}\n" for path in paths)
        result["diff"]["after"] += "".join(f"{path}: {not_there}\n" for path in paths)
    return result


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "events": {"type": "list", "elements": "dict", "default": [], "options": EVENT},
            "group": {"type": "str", "default": "fetchbpf"},
            "exclusive": {"type": "bool", "default": False},
            "on_error": {"type": "str", "choices": ["abort", "skip"], "default": "abort"},
            "buffers": {"type": "list", "elements": "dict", "default": [], "options": BUFFER},
            "persist": {"type": "bool"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "tracefs": {"type": "path"},
            "state_file": {"type": "path", "default": "/var/lib/fetchbpf/probe_events.json"},
            "lock_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        with only_one(module.params["lock_timeout"]):
            result = work(module.params, module.check_mode, module._diff)
    except FleetError as exc:
        module.fail_json(msg=str(exc), **{key: value for key, value in exc.details.items() if key != "errno"})
    except PermissionError as exc:
        module.fail_json(
            msg=f"{exc.filename}: {exc.strerror}; probe events need root and a tracefs that can be written"
        )
    for warning in result.pop("warnings", ()):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
