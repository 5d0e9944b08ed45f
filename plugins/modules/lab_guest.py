#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_guest
short_description: Start, wait for, reset, stop and remove the lab's QEMU guests
version_added: "0.1.0"
description:
  - Runs virtual machines on the host the module runs on, without libvirt and without root. A guest's disk is an
    overlay on a base image of M(fetchbpf.fleet.lab_image); its ssh server is reached on a port of 127.0.0.1.
  - All of a guest lies in C(lab_dir/NAME). C(console.log) there is its serial console, C(console.log.1) that of the
    start before. C(qmp.py) there is its remote control, for example C(python3 lab_dir/NAME/qmp.py system_reset).
  - The first boot of an emulated guest is kept beside its base image, memory and disk, if the guest is waited for and
    O(private_key) is given. Other new guests of the same image and hardware go on from there, within seconds.
  - A guest whose image is another than before is made anew, with the loss of its disk. Other hardware only restarts it.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  name:
    description:
      - Name of the guest, also its host name.
      - May be left out with O(state=absent), which then means all guests of O(lab_dir).
    type: str
  lab_dir:
    description: Folder of the lab's guests.
    type: path
    required: true
  state:
    description:
      - V(started) has the guest running, with the given image and hardware. A guest that does not answer is started
        once more, then it is an error that shows the end of its console.
      - V(stopped) powers it down and keeps its disk.
      - V(reset) presses the reset button, as a rescue of a guest that hangs; one that does not run is started.
      - V(absent) ends it and removes its files.
    type: str
    choices: [started, stopped, reset, absent]
    default: started
  image:
    description: Base image; required with O(state=started) for a guest that does not exist.
    type: path
  private_key:
    description: Private ssh key of the image, used once to give a new guest its host name and the time.
    type: path
  boot:
    description: Firmware; must be that of the image.
    type: str
    choices: [bios, uefi]
    default: bios
  port:
    description: Port on 127.0.0.1 that leads to the guest's ssh server; required with O(state=started).
    type: int
  memory:
    description: Memory in MiB.
    type: int
    default: 512
  cpus:
    description: Number of virtual CPUs.
    type: int
    default: 2
  accel:
    description: V(auto) takes KVM where /dev/kvm opens and the CPU shows C(vmx) or C(svm), else TCG.
    type: str
    choices: [auto, kvm, tcg]
    default: auto
  icount:
    description: Let the guest's clock count executed instructions (TCG, one CPU), for measurements that repeat exactly.
    type: bool
    default: false
  wait:
    description: Wait until the guest's ssh server answers.
    type: bool
    default: true
  timeout:
    description: Seconds to wait for an answer, each of at most two times.
    type: int
    default: 300
  progress_file:
    description: Where the module says how far it is; set by the action plugin of the same name.
    type: path
seealso:
  - module: fetchbpf.fleet.lab_guest_info
  - module: fetchbpf.fleet.lab_image
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Run a guest
  fetchbpf.fleet.lab_guest:
    name: fetchbpf-bookworm
    lab_dir: ~/.cache/fetchbpf/lab/default
    image: "{{ images.paths['bookworm-bios'] }}"
    private_key: ~/.cache/fetchbpf/images/id_ed25519
    port: 22221

- name: Reset a guest that hangs
  fetchbpf.fleet.lab_guest:
    name: fetchbpf-bookworm
    lab_dir: ~/.cache/fetchbpf/lab/default
    state: reset

- name: End all guests of the lab
  fetchbpf.fleet.lab_guest:
    lab_dir: ~/.cache/fetchbpf/lab/default
    state: absent
"""

RETURN = r"""
guests:
  description:
    - The guest, or all guests of O(lab_dir) without O(name), as M(fetchbpf.fleet.lab_guest_info) tells of them.
  returned: success
  type: list
  elements: dict
  sample:
    - name: fetchbpf-bookworm
      state: running
      pid: 4711
      port: 22221
done:
  description: What was done to have the guest in its state; empty if nothing.
  returned: success
  type: str
  sample: create
starts:
  description: How many starts it took until the guest answered, if it was waited for.
  returned: when waited
  type: int
  sample: 1
console:
  description: The end of the console of a guest that did not come up.
  returned: failure
  type: list
  elements: str
  sample: ["Kernel panic - not syncing: VFS: Unable to mount root fs"]
"""

import re
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils import lab_guest, qemu
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress


def wanted_guest(params: dict, lab_dir: Path) -> lab_guest.Guest:
    """Return the guest that the parameters and, for what they leave out, its own record describe."""
    record = lab_guest.load(lab_dir / params["name"]) or {}
    machine = record.get("machine", {})
    image = params["image"] or record.get("image", "")
    port = params["port"] or machine.get("port")
    for option, value in (("image", image), ("port", port)):
        if not value:
            raise FleetError(f"guest {params['name']} does not exist; to make it, give {option}")
    return lab_guest.Guest(
        machine=qemu.Machine(
            name=params["name"],
            port=port,
            boot=params["boot"],
            memory=params["memory"],
            cpus=params["cpus"],
            accel=qemu.pick_accel(params["accel"]),
            icount=params["icount"],
        ),
        lab_dir=lab_dir,
        image=Path(image).absolute(),
        private_key=params["private_key"] or "",
    )


def started(module: AnsibleModule, lab_dir: Path) -> dict:
    params = module.params
    guest = wanted_guest(params, lab_dir)
    if module.check_mode:
        return {"done": lab_guest.difference(guest)}
    # Only now, because in check mode neither would have been provided.
    missing = qemu.missing_packages([qemu.QEMU, "qemu-img"], uefi=params["boot"] == "uefi")
    if missing:
        raise FleetError(f"this host lacks Debian packages that a guest needs: {', '.join(missing)}")
    if not guest.image.exists():
        raise FleetError(f"guest {params['name']}: base image {guest.image} does not exist")
    before = lab_guest.info(guest.dir, console_lines=15)
    result: dict = {"done": lab_guest.start(guest)}
    if before["state"] == "crashed":
        end = "\n".join(before["console"])
        module.warn(f"guest {guest.name} had ended without being stopped and was started again; its last words:\n{end}")
    if params["wait"]:
        result["starts"] = wait(module, guest)
    return result


def wait(module: AnsibleModule, guest: lab_guest.Guest) -> int:
    progress = Progress(module.params["progress_file"])

    def report(line: str) -> None:
        progress.update(f"waiting for {guest.name}", detail=line)

    return lab_guest.wait(guest, module.params["timeout"], report)


def reset(module: AnsibleModule, lab_dir: Path) -> dict:
    """Reset the guest as it is: its record, not the parameters, says what it consists of."""
    params = module.params
    guest_dir = lab_dir / params["name"]
    record = lab_guest.load(guest_dir)
    if record is None or "machine" not in record:
        raise FleetError(f"guest {params['name']} does not exist in {lab_dir}")
    guest = lab_guest.Guest(
        qemu.Machine(**record["machine"]), lab_dir, Path(record["image"]), params["private_key"] or ""
    )
    if module.check_mode:
        return {"done": "reset"}
    if qemu.find(guest_dir):
        lab_guest.reset(guest_dir)
        done = "reset"
    else:
        done = lab_guest.start(guest)
    result: dict = {"done": done}
    if params["wait"]:
        result["starts"] = wait(module, guest)
    return result


def stopped(module: AnsibleModule, lab_dir: Path) -> dict:
    guest_dir = lab_dir / module.params["name"]
    if lab_guest.load(guest_dir) is None:
        raise FleetError(f"guest {module.params['name']} does not exist in {lab_dir}")
    if module.check_mode:
        return {"done": "stop" if qemu.find(guest_dir) else ""}
    return {"done": "stop" if lab_guest.stop(guest_dir) else ""}


def absent(module: AnsibleModule, lab_dir: Path) -> dict:
    names = [module.params["name"]] if module.params["name"] else lab_guest.names(lab_dir)
    if module.check_mode:
        gone = [name for name in names if (lab_dir / name).exists() or qemu.find(lab_dir / name)]
    else:
        gone = [name for name in names if lab_guest.destroy(lab_dir / name)]
    return {"done": f"remove {', '.join(gone)}" if gone else ""}


def run(module: AnsibleModule) -> dict:
    params = module.params
    lab_dir = Path(params["lab_dir"]).absolute()
    name = params["name"]
    if name and not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        raise FleetError(f"guest name {name!r} is no host name: use small letters, digits and hyphens")
    if not name and params["state"] != "absent":
        raise FleetError(f"state {params['state']} needs a name")
    states = {"started": started, "reset": reset, "stopped": stopped, "absent": absent}
    result: dict[str, Any] = states[params["state"]](module, lab_dir)
    names = [name] if name else lab_guest.names(lab_dir)
    result["guests"] = [lab_guest.info(lab_dir / each) for each in names]
    result["changed"] = bool(result["done"]) or result.get("starts", 1) > 1
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str"},
            "lab_dir": {"type": "path", "required": True},
            "state": {
                "type": "str",
                "choices": ["started", "stopped", "reset", "absent"],
                "default": "started",
            },
            "image": {"type": "path"},
            "private_key": {"type": "path", "no_log": False},
            "boot": {"type": "str", "choices": ["bios", "uefi"], "default": "bios"},
            "port": {"type": "int"},
            "memory": {"type": "int", "default": 512},
            "cpus": {"type": "int", "default": 2},
            "accel": {"type": "str", "choices": ["auto", "kvm", "tcg"], "default": "auto"},
            "icount": {"type": "bool", "default": False},
            "wait": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 300},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**run(module))
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except (OSError, subprocess.SubprocessError) as exc:
        module.fail_json(msg=f"guest {module.params['name']}: {exc}")


if __name__ == "__main__":
    main()
