#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_install
short_description: Put a kernel artifact on a host for a trial boot, promote it, take it back or remove it
version_added: "0.1.0"
description:
  - Installs the Debian packages of a kernel artifact and lets GRUB boot the new kernel exactly once, while the
    default boot entry stays pinned to the kernel that runs now.
  - The trial's entry has C(panic=5), the known-good kernel is the numeric fallback, and a timer in the host reboots
    a trial that nobody confirmed. So a panic, a missing kernel file or a hanging user space end on the old kernel.
  - Never edits C(/etc/default/grub). All it adds is C(/etc/grub.d/06_fetchbpf), C(/boot/grub/fetchbpf.cfg),
    C(/var/lib/fetchbpf) and, during a trial, the units C(fetchbpf-confirm.timer) and C(fetchbpf-confirm.service).
  - Copies the artifact from the controller only if the host needs it.
options:
  state:
    description:
      - V(staged) installs the kernel and arms the one-shot boot, unless it is promoted and running already.
      - V(promoted) makes the trial kernel that runs the default one.
      - V(reverted) closes a failed trial, the default stays what it was.
      - V(absent) removes what this module installed; kernels that it did not install are refused.
      - V(ready) changes nothing and fails where no kernel can be put on trial, whichever it is. Another distribution, a
        kernel that GRUB did not start, a C(grubenv) that GRUB cannot write.
    type: str
    choices: [staged, promoted, reverted, absent, ready]
    default: staged
  manifest:
    description: Content of the artifact's C(manifest.json); read from there without it. For O(state=staged).
    type: dict
  artifact:
    description:
      - Directory on the controller that holds the files named by the manifest. Required with O(state=staged).
      - May be empty in check mode, for a kernel that is not built yet.
    type: path
  release:
    description:
      - Kernel release that O(state=promoted), O(state=reverted) and O(state=absent) are about.
      - Without it O(state=absent) removes every kernel that this module installed.
    type: str
  cmdline:
    description: Words to add to the kernel's command line. A change is tried like a new kernel.
    type: str
    default: ""
  confirm_timeout:
    description: Seconds after which the host leaves a trial kernel that was not promoted.
    type: int
    default: 300
  reboot_follows:
    description: Whether the same run goes on to reboot the host; until then other runs are refused.
    type: bool
    default: false
  lease_timeout:
    description: Seconds after which other runs may use the host although this one never came back.
    type: int
    default: 3600
  reason:
    description: Why a trial failed; kept on the host. For O(state=reverted).
    type: str
    default: ""
  packages_dir:
    description: Directory on the host that holds the packages. Set by the action plugin.
    type: path
  payload:
    description: Sizes of the packages' content in bytes and whether the kernel is signed. Set by the action plugin.
    type: dict
  owner:
    description: Which run of Ansible this is. Set by the action plugin.
    type: dict
  take_over:
    description: Run whose lease is void, because its process has ended. Set by the action plugin.
    type: str
    default: ""
  progress_file:
    description: File that the action plugin reads the progress from.
    type: path
requirements:
  - Debian, Ubuntu or a derivative, booted by GRUB 2 and systemd
attributes:
  check_mode:
    description: Says what it would do and changes nothing on the host.
    support: full
  diff_mode:
    description: Shows the change of C(/boot/grub/fetchbpf.cfg).
    support: full
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Stage the kernel that kernel_build made
  fetchbpf.fleet.kernel_install:
    artifact: "{{ kernel_build_result.artifact_dir }}"
    manifest: "{{ kernel_build_result.manifest }}"

- name: Remove all kernels of this collection
  fetchbpf.fleet.kernel_install:
    state: absent
"""

RETURN = r"""
status:
  description:
    - Where the kernel is now. V(staged) waits for a reboot, V(trial) runs and waits for its checks.
    - V(needs_files) before the action plugin has copied the packages, V(unbuilt) in check mode without an artifact.
  type: str
  returned: success
  sample: staged
release:
  description: Kernel release this was about, V(all) when all were removed.
  type: str
  returned: success
  sample: 6.12.117-fetchbpf-1f2e3d4c
running:
  description: Release of the running kernel.
  type: str
  returned: success
  sample: 6.1.0-56-amd64
known_good:
  description: Release of the kernel that the host falls back to, null without one.
  type: str
  returned: success
  sample: 6.1.0-56-amd64
trial:
  description: Id of the trial that was staged, for M(fetchbpf.fleet.kernel_boot), empty without one.
  type: str
  returned: success
  sample: 6.12.117-fetchbpf-1f2e3d4c/9a0b1c2d
reboot_required:
  description: Whether the host has to be rebooted to go on.
  type: bool
  returned: success
  sample: true
actions:
  description: What was done, in check mode what would be done.
  type: list
  elements: str
  returned: success
  sample: ["pin the default boot entry to 6.1.0-56-amd64"]
needed_files:
  description: Files of the artifact that the host needs first; the action plugin copies them.
  type: list
  elements: str
  returned: success
  sample: []
requested:
  description: Kconfig symbols that the manifest asks for, and their values.
  type: dict
  returned: success
  sample: {"CONFIG_BPF_JIT": "y"}
timer:
  description: What the host's timer wrote when it left an unconfirmed trial, empty if it did not.
  type: str
  returned: O(state=reverted)
  sample: ""
evidence:
  description: What the failed boot left on the host, null without anything.
  type: str
  returned: O(state=reverted)
  sample: "pstore dmesg-efi-1: Kernel panic - not syncing"
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils import confirm, health
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_rollout import Rollout, Wanted
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_state import exclusive
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target

_STATES = ("staged", "promoted", "reverted", "absent", "ready")


def run(module: AnsibleModule, target: Target) -> dict:
    """Do what ``state`` asks and return the module's result."""
    params = module.params
    rollout = Rollout(target, module.check_mode, Progress(params["progress_file"]))
    rollout.state.check_lease(params["owner"], params["take_over"])
    extra = {"requested": ((params["manifest"] or {}).get("config") or {}).get("requested") or {}}
    if params["state"] == "staged":
        wanted = Wanted(params["manifest"], params["cmdline"])
        result = rollout.stage(wanted, params["packages_dir"], params["payload"], params["confirm_timeout"])
        if result.reboot_required and not module.check_mode and not result.needed_files:
            rollout.state.take_lease(params["owner"] if params["reboot_follows"] else None, params["lease_timeout"])
            rollout.state.save()
    elif params["state"] == "promoted":
        result = rollout.promote(params["release"])
    elif params["state"] == "reverted":
        # Read before the trial is closed: closing it removes what the timer left.
        extra.update(evidence=health.evidence(target), timer=confirm.expired(target))
        result = rollout.revert(params["release"], params["reason"])
    elif params["state"] == "ready":
        result = rollout.ready()
    else:
        result = rollout.remove(params["release"])
    return dict(
        extra,
        changed=result.changed,
        status=result.status,
        release=result.release,
        running=target.release,
        known_good=result.known_good,
        trial=result.trial,
        reboot_required=result.reboot_required,
        actions=result.actions,
        needed_files=result.needed_files,
        diff=[result.diff] if result.diff else [],
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": [*_STATES], "default": "staged"},
            "manifest": {"type": "dict"},
            "artifact": {"type": "path"},
            "release": {"type": "str"},
            "cmdline": {"type": "str", "default": ""},
            "confirm_timeout": {"type": "int", "default": 300},
            "reboot_follows": {"type": "bool", "default": False},
            "lease_timeout": {"type": "int", "default": 3600},
            "reason": {"type": "str", "default": ""},
            "packages_dir": {"type": "path"},
            "payload": {"type": "dict"},
            "owner": {"type": "dict"},
            "take_over": {"type": "str", "default": ""},
            "progress_file": {"type": "path"},
        },
        required_if=[
            ("state", "staged", ("artifact",)),
            ("state", "promoted", ("release",)),
            ("state", "reverted", ("release",)),
        ],
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}
    target = Target(module.run_command)
    try:
        if os.geteuid() != 0:
            raise FleetError("needs root, for /boot and the packages: set become: true")
        if module.check_mode or module.params["state"] == "ready":
            module.exit_json(**run(module, target))
        with exclusive(target):
            module.exit_json(**run(module, target))
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)


if __name__ == "__main__":
    main()
