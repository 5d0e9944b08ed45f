#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: probe_events_info
short_description: Tell everything about the dynamic probe events of a host
version_added: "0.1.0"
description:
  - Returns all probe events that are registered, ours and those of others, and those that are declared but not there.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  groups:
    description: Only events of these groups; all when left out.
    type: list
    elements: str
    default: []
  tracefs:
    description: Where tracefs is mounted; found in C(/proc/self/mounts) when left out.
    type: path
  state_file:
    description: Where M(fetchbpf.fleet.probe_events) remembers what was declared.
    type: path
    default: /var/lib/fetchbpf/probe_events.json
seealso:
  - module: fetchbpf.fleet.probe_events
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: See which return probes miss hits because maxactive is too low
  fetchbpf.fleet.probe_events_info:
  register: probes

- name: Name them
  ansible.builtin.debug:
    msg: "{{ probes.events | selectattr('misses', 'gt', 0) | map(attribute='name') }}"
"""

RETURN = r"""
events:
  description: The events, in the order in which they were registered, then those that are declared but not there.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: C(GROUP/EVENT).
      type: str
      sample: fetchbpf/open_ret
    registered:
      description: Whether the kernel has it.
      type: bool
      sample: true
    probes:
      description: Its probes, each with C(type), C(target), C(args), C(maxactive) and the kernel's C(line).
      type: list
      elements: dict
      sample:
        - type: kretprobe
          target: do_sys_openat2
          args: [{name: fd, fetch: $retval, type: s64}]
          maxactive: 64
          line: 'r64:fetchbpf/open_ret do_sys_openat2 fd=$retval:s64'
    recording_in:
      description: Where it records, an empty string being the top-level buffer.
      type: list
      elements: str
      sample: ['']
    filters:
      description: Its filters by the place they are set in.
      type: dict
      sample: {'': fd < 0}
    triggers:
      description: Its triggers by the place they are set in, as the kernel shows them.
      type: dict
      sample: {}
    hits:
      description:
        - How often it was hit since it was registered; 0 where the kernel does not count (fprobes, eprobes).
        - The kernel counts by the event's name without its group, so events of one name share their count.
      type: int
      sample: 4711
    misses:
      description: How often it was missed; a kretprobe misses a call while all its C(maxactive) are under way.
      type: int
      sample: 0
    counted:
      description: Whether the kernel counts hits and misses of it.
      type: bool
      sample: true
    bpf:
      description:
        - How the kernel with the fetcharg-BPF series runs its args, C(jited), C(insns), C(bytes), C(args) and
          C(interpreted); empty where it has no program.
      type: dict
      sample: {jited: '1', insns: '14', bytes: '60', args: '1', interpreted: '-'}
    declared:
      description: What was declared of it; empty for an event of somebody else.
      type: dict
      sample: {name: open_ret, group: fetchbpf, type: kretprobe, target: do_sys_openat2, maxactive: 64}
    pending:
      description: Why it could not be applied; empty if it was.
      type: str
      sample: ''
  sample: []
kinds:
  description: The kinds of probe that the kernel offers.
  returned: success
  type: list
  elements: str
  sample: [eprobe, kprobe, kretprobe, uprobe, uretprobe]
tracefs:
  description: Where tracefs is mounted.
  returned: success
  type: str
  sample: /sys/kernel/tracing
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_info import all_events
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_state import load_state
from ansible_collections.fetchbpf.fleet.plugins.module_utils.tracefs import Tracefs, find_tracefs


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "groups": {"type": "list", "elements": "str", "default": []},
            "tracefs": {"type": "path"},
            "state_file": {"type": "path", "default": "/var/lib/fetchbpf/probe_events.json"},
        },
        supports_check_mode=True,
    )
    try:
        root = module.params["tracefs"] or find_tracefs()
        if root is None:
            raise FleetError("tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing")
        tracefs = Tracefs(root)
        events = all_events(tracefs, load_state(module.params["state_file"]))
        wanted = module.params["groups"]
        events = [event for event in events if not wanted or event["name"].partition("/")[0] in wanted]
        module.exit_json(changed=False, events=events, kinds=sorted(tracefs.kinds()), tracefs=root)
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}; reading probe events needs root")


if __name__ == "__main__":
    main()
