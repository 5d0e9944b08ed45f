#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_guest_info
short_description: Tell about the lab's QEMU guests
version_added: "0.1.0"
description:
  - Tells which guests of a lab there are, whether they run, how they are reached and what their consoles show.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  name:
    description: Name of a guest; all guests of O(lab_dir) when left out.
    type: str
  lab_dir:
    description: Folder of the lab's guests.
    type: path
    required: true
  console_lines:
    description: How many of the consoles' last lines to return.
    type: int
    default: 0
seealso:
  - module: fetchbpf.fleet.lab_guest
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: See what the guests' consoles show
  fetchbpf.fleet.lab_guest_info:
    lab_dir: ~/.cache/fetchbpf/lab/default
    console_lines: 40
"""

RETURN = r"""
guests:
  description: The guest, or all guests of O(lab_dir) when no O(name) is given.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the guest.
      type: str
      sample: fetchbpf-bookworm
    state:
      description: One of V(running), V(stopped), V(crashed) (it ended without having been stopped), V(absent).
      type: str
      sample: running
    pid:
      description: Process id of its QEMU, if it runs.
      type: int
      sample: 4711
    port:
      description: Port of its ssh server on 127.0.0.1.
      type: int
      sample: 22221
    accel:
      description: How it is run.
      type: str
      sample: tcg
    image:
      description: Its base image.
      type: str
      sample: /home/me/.cache/fetchbpf/images/bookworm-bios-3f0c1b9e6a42.qcow2
    dir:
      description: Folder with its files.
      type: str
      sample: /home/me/.cache/fetchbpf/lab/default/fetchbpf-bookworm
    console_log:
      description: Path of the console log.
      type: str
      sample: /home/me/.cache/fetchbpf/lab/default/fetchbpf-bookworm/console.log
    summary:
      description: All that in one line.
      type: str
      sample: "fetchbpf-bookworm: running, ssh on port 22221, console /srv/lab/fetchbpf-bookworm/console.log"
    console:
      description: The last O(console_lines) lines of the console.
      type: list
      elements: str
      sample: ["Debian GNU/Linux 12 fetchbpf-bookworm ttyS0"]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_guest


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str"},
            "lab_dir": {"type": "path", "required": True},
            "console_lines": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    lab_dir = Path(module.params["lab_dir"]).absolute()
    names = [module.params["name"]] if module.params["name"] else lab_guest.names(lab_dir)
    guests = [lab_guest.info(lab_dir / name, module.params["console_lines"]) for name in names]
    module.exit_json(changed=False, guests=guests)


if __name__ == "__main__":
    main()
