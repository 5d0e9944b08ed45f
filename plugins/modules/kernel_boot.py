#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_boot
short_description: Reboot a host into a staged kernel, check it, promote it or go back
version_added: "0.1.0"
description:
  - Reboots the host and believes nothing until the host reports another boot and exactly the asked kernel release.
  - Runs the health checks on the new kernel. A healthy trial becomes the default kernel at once; otherwise the host is
    rebooted into its known-good kernel and the task fails with the reason.
  - A host that does not come back is reset once by O(rescue_command), if there is one.
  - The action plugin of the same name reboots and waits, the module itself only checks and promotes.
options:
  release:
    description: Kernel release that has to run after the reboot.
    type: str
    required: true
  trial:
    description:
      - Id of the trial that M(fetchbpf.fleet.kernel_install) staged; it is promoted if it is healthy.
      - Empty to boot the default kernel and only check it, as before a removal.
    type: str
    default: ""
  boot_timeout:
    description:
      - Seconds to wait for the host to come back, on whichever kernel.
      - Should be more than O(fetchbpf.fleet.kernel_install#module:confirm_timeout) and two boots together.
    type: int
    default: 600
  rescue_command:
    description: Command to run on the controller, once, to reset a host that does not come back. A list is an argv.
    type: raw
    default: []
  console_command:
    description: Command to run on the controller that prints the host's console log. A list is an argv.
    type: raw
    default: []
  requested:
    description: Kconfig symbols and the values that the running kernel must have, V(n) for not set.
    type: dict
    default: {}
  health_commands:
    description: Commands to run on the host that must exit with 0. Text is run by a shell, a list is an argv.
    type: list
    elements: raw
    default: []
  health_timeout:
    description: Seconds for the host to finish booting, and for each of O(health_commands).
    type: int
    default: 120
  degraded_ok:
    description: Accept units that fail on the new kernel and did not fail before.
    type: bool
    default: false
  boot_id:
    description: Boot that the checks are about. Set by the action plugin.
    type: str
    default: ""
  owner:
    description: Which run of Ansible this is. Set by the action plugin.
    type: dict
attributes:
  check_mode:
    description: Does not reboot, says what it would boot.
    support: full
  diff_mode:
    description: Changes no text of its own.
    support: none
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Try the staged kernel
  fetchbpf.fleet.kernel_boot:
    release: "{{ staged.release }}"
    trial: "{{ staged.trial }}"
    requested: "{{ kernel_build_result.manifest.config.requested }}"
    health_commands:
      - systemctl is-active ssh
      - [test, -d, /sys/kernel/tracing/events]
"""

RETURN = r"""
release:
  description: Release of the kernel that runs now.
  type: str
  returned: success
  sample: 6.12.117-fetchbpf-1f2e3d4c
boot_seconds:
  description: Seconds from the reboot to the end of the checks.
  type: float
  returned: success
  sample: 41.5
problems:
  description: What is wrong with the kernel, one text each.
  type: list
  elements: str
  returned: when the kernel booted
  sample: ["CONFIG_BPF_JIT is n in the running kernel, asked was y"]
running:
  description: Release of the kernel that the host is back on.
  type: str
  returned: failure
  sample: 6.1.0-56-amd64
reason:
  description: Why the trial boot failed, from the console, the host's timer, pstore or the journal.
  type: str
  returned: failure of the boot
  sample: "console: Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils import health
from ansible_collections.fetchbpf.fleet.plugins.module_utils.boot_options import BOOT_OPTIONS
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_rollout import Rollout
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_state import exclusive
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target


def problems_of(params: dict, target: Target, failed_before: list) -> list:
    """Return what is wrong with the running kernel; cheap checks first, all of them are made."""
    timeout = params["health_timeout"]
    return [
        *health.check_config(health.running_config(target), params["requested"]),
        *health.check_system(target, timeout, params["degraded_ok"], failed_before),
        *health.check_commands(target, params["health_commands"], timeout),
        *health.check_taint(target),
    ]


def run(params: dict, target: Target) -> dict:
    """Check the running kernel and promote it if it is a healthy trial."""
    if target.release != params["release"] or params["boot_id"] not in ("", target.boot_id):
        return {"changed": False, "problems": [f"the host was rebooted under its checks and runs {target.release} now"]}
    rollout = Rollout(target)
    rollout.state.check_lease(params["owner"])
    trial = rollout.state.trial if params["trial"] else None
    problems = problems_of(params, target, trial["failed_units"] if trial else [])
    if problems or not params["trial"]:
        return {"changed": False, "problems": problems}
    return {"changed": rollout.promote(params["release"]).changed, "problems": []}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **BOOT_OPTIONS,
            "boot_id": {"type": "str", "default": ""},
            "owner": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}
    release = module.params["release"]
    if module.check_mode:
        module.exit_json(changed=True, msg=f"would reboot the host into {release} and check it there")
    target = Target(module.run_command)
    try:
        with exclusive(target):
            module.exit_json(release=target.release, **run(module.params, target))
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)


if __name__ == "__main__":
    main()
