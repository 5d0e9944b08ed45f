#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The work is done by the action plugin of this name, on the controller; this file documents it.

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
short_description: Write one report of all hosts' benchmark facts
version_added: "0.1.0"
description:
  - Takes what M(ansible.builtin.setup) gathered of each host and writes a dated folder with C(report.html),
    C(report.json) and C(report.csv) on the controller.
  - A host that was unreachable, has no fact, or one that is damaged or of an old schema is named with the reason.
  - Hosts whose times are of different units never share a table.
  - Runs on the controller only, inside role C(fetchbpf.fleet.fleet_report), which has the page's templates.
  - A run whose content is that of the newest run writes nothing.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: full
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  path:
    description: The folder that holds the runs.
    type: path
    required: true
  hosts:
    description: The hosts that the report is about, in this order.
    type: list
    elements: str
    required: true
  gathered:
    description: Name of the variable that holds, for each host, the registered result of M(ansible.builtin.setup).
    type: str
    required: true
  keep:
    description: How many runs are kept; 0 keeps all. A run that is compared with is never removed.
    type: int
    default: 20
  baseline:
    description:
      - The run that the gate compares with; the name of a run, a path to its folder or C(report.json), or V(latest),
        the newest run with other facts.
      - No gate when left out.
    type: str
  max_regression:
    description: By how many per cent a cell may be worse than the baseline's, if the difference is significant.
    type: float
    default: 5.0
  compare:
    description:
      - A and B of one more comparison. Each is V(this), a run as in O(baseline), either with C(@HOST) appended for one
        host of it, or V(kernel:RELEASE), each host's newest result on that kernel.
    type: list
    elements: str
    default: []
  terminal:
    description: The benchmarks that RV(table) shows.
    type: list
    elements: str
    default: [fetcharg, hook_overhead, latency, parallel, hit_count]
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Ask the hosts
  ansible.builtin.setup:
    gather_subset: ['!all', '!min', local]
    filter: [ansible_local]
  register: gathered
  ignore_unreachable: true

- name: Write the report
  fetchbpf.fleet.fleet_report:
    path: /srv/reports
    hosts: "{{ groups['fleet'] }}"
    gathered: gathered
    baseline: 2026-11-30T18-00-00Z
    max_regression: 3
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
run:
  description: Name of the run.
  returned: success
  type: str
  sample: 2026-11-30T18-00-00Z
folder:
  description: The run's folder.
  returned: success
  type: str
  sample: /srv/reports/2026-11-30T18-00-00Z
table:
  description: The tables for a terminal.
  returned: success
  type: str
  sample: "What fetchargs cost, by probe (ns per call)"
hosts:
  description: The state of each host.
  returned: success
  type: dict
  sample: {web1: measured, web2: unreachable}
regressions:
  description: The cells that are worse than the baseline allows, in words.
  returned: success
  type: list
  elements: str
  sample: ["web1: fetcharg overhead (kind kprobe, mode bpf, nargs 3): 37.0 to 41.2 instructions (+11.4 %, p = 1.1e-05)"]
removed:
  description: Old runs that were removed.
  returned: success
  type: list
  elements: str
  sample: [2026-10-01T18-00-00Z]
"""
