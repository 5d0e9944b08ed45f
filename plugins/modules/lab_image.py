#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_image
short_description: Make the base images of the lab's guests
version_added: "0.1.0"
description:
  - Makes Debian disk images that boot with their own GRUB, by C(mmdebstrap) from the mirror that this host itself uses
    and without loop devices, grub-install or a virtual machine.
  - Root is not needed where C(mmdebstrap) does not need it.
  - An image is named by a hash of its recipe. One that is there is not made again; older images of the same suite and
    firmware are removed as soon as no guest's disk lies on them.
  - An image is not made anew when the mirror has newer packages. Remove its file for that.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  images:
    description:
      - The images that should be there, each as C(SUITE-bios) or C(SUITE-uefi), for example V(bookworm-bios).
      - Several are made at the same time.
    type: list
    elements: str
    required: true
  image_dir:
    description: Folder of the images.
    type: path
    required: true
  private_key:
    description:
      - Private ssh key that opens the guests' root account; the public half is beside it, with C(.pub).
      - A new ed25519 pair is made if there is none.
    type: path
    required: true
  mirror:
    description: Debian mirror to use instead of the one in this host's apt configuration.
    type: str
    default: ''
  packages:
    description: Packages to install besides those that the lab needs.
    type: list
    elements: str
    default: []
  root_size:
    description: Size of the root file system in MiB. The file only takes what is used.
    type: int
    default: 4096
  install_packages:
    description: Install missing tools of this host with C(apt-get) when run as root. Otherwise an error names them.
    type: bool
    default: true
  jobs:
    description: How many images are made at the same time.
    type: int
    default: 2
  progress_file:
    description: Where the module says how far it is; set by the action plugin of the same name.
    type: path
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Make the images of a lab with a BIOS and a UEFI guest
  fetchbpf.fleet.lab_image:
    image_dir: ~/.cache/fetchbpf/images
    private_key: ~/.cache/fetchbpf/images/id_ed25519
    images:
      - bookworm-bios
      - trixie-uefi
"""

RETURN = r"""
paths:
  description: The image files (qcow2), by the names asked for.
  returned: success
  type: dict
  sample:
    bookworm-bios: /home/me/.cache/fetchbpf/images/bookworm-bios-3f0c1b9e6a42.qcow2
made:
  description: The names of the images that were made now.
  returned: success
  type: list
  elements: str
  sample: [bookworm-bios]
installed:
  description: Debian packages that were missing on this host and are installed now.
  returned: success
  type: list
  elements: str
  sample: [mmdebstrap]
removed:
  description: Older images that were removed.
  returned: success
  type: list
  elements: str
  sample: [bookworm-bios-77d1c0aa93be.qcow2]
"""

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils import (
    apt_sources,
    lab_disk,
    lab_image,
    qemu,
    workspace,
)
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress

# What one image takes while it is made: tree, tar, disk and image.
_SPACE_MIB = 2500


class Board:
    """Collects one line from each thread into the one progress file."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lines: dict[str, str] = {}
        self._lock = threading.Lock()
        self._start = time.monotonic()

    def report(self, name: str, line: str) -> None:
        with self._lock:
            self._lines[name] = line
            detail = "; ".join(f"{key}: {value}" for key, value in sorted(self._lines.items()))
            self._progress.update("images", detail=f"{detail} ({time.monotonic() - self._start:.0f} s)")


def provide_tools(module: AnsibleModule, uefi: bool) -> list[str]:
    """Return the packages that were (or in check mode would be) installed; FleetError if they cannot be."""
    tools = [qemu.QEMU, "qemu-img", "mmdebstrap", "mke2fs", "fakeroot", "newuidmap", "ssh", "ssh-keygen"]
    tools += ["mformat"] if uefi else []
    missing = qemu.missing_packages(tools, uefi=uefi)
    if not missing:
        return []
    if not module.params["install_packages"] or os.geteuid() != 0:
        raise FleetError(
            f"this host lacks Debian packages that the lab needs: {', '.join(missing)}. "
            f"Install them: apt-get install {' '.join(missing)}",
            missing_packages=missing,
        )
    if not module.check_mode:
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
        try:
            lab_disk.run(install, "installing tools", env=environment)
        except FleetError:
            lab_disk.run(["apt-get", "update"], "installing tools", env=environment)
            lab_disk.run(install, "installing tools", env=environment)
    return missing


def provide_key(private_key: Path, check_mode: bool) -> tuple[str, bool]:
    """Return the public key and whether it was made now (in check mode: would be)."""
    public = private_key.with_name(f"{private_key.name}.pub")
    if private_key.exists() and public.exists():
        return public.read_text(encoding="utf-8").strip(), False
    if check_mode:
        return "", True
    private_key.parent.mkdir(parents=True, exist_ok=True)
    private_key.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "fetchbpf-lab", "-f", str(private_key)]
    lab_disk.run(command, "making the lab's ssh key")
    return public.read_text(encoding="utf-8").strip(), True


def recipes(params: dict, authorized_key: str) -> dict[str, lab_image.Recipe]:
    """Return the recipe of each image asked for, by its name."""
    codename = apt_sources.host_codename()
    sources = apt_sources.read_sources()
    options = tuple(apt_sources.carried_options())
    wanted = {}
    for family in params["images"]:
        suite, boot = lab_image.parse_family(family)
        mirrors = apt_sources.sources_for(suite, codename, sources, params["mirror"])
        wanted[family] = lab_image.Recipe(
            suite=suite,
            boot=boot,
            sources=tuple(source.line() for source in mirrors),
            authorized_key=authorized_key,
            apt_options=options,
            extra_packages=tuple(params["packages"]),
            root_size=params["root_size"] * lab_disk.MIB,
        )
    return wanted


def build_all(todo: list[lab_image.Recipe], image_dir: Path, jobs: int, board: Board) -> None:
    """Make the images; the first error is raised after all have ended."""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {
            recipe.family: pool.submit(lab_image.build, recipe, image_dir, partial(board.report, recipe.family))
            for recipe in todo
        }
    errors = [f"image {name}: {future.exception()}" for name, future in futures.items() if future.exception()]
    if errors:
        raise FleetError("\n".join(errors))


def run(module: AnsibleModule) -> dict:
    params = module.params
    image_dir = Path(params["image_dir"]).absolute()
    uefi = any(lab_image.parse_family(family)[1] == "uefi" for family in params["images"])
    installed = provide_tools(module, uefi)
    key, new_key = provide_key(Path(params["private_key"]).absolute(), module.check_mode)
    wanted = recipes(params, key)
    paths = {family: lab_image.image_path(recipe, image_dir) for family, recipe in wanted.items()}
    todo = {family: recipe for family, recipe in wanted.items() if not paths[family].exists()}
    removed: list[str] = []
    if not module.check_mode:
        image_dir.mkdir(parents=True, exist_ok=True)
        if todo:
            for folder in (image_dir, Path("/var/tmp")):
                workspace.require_space(folder, len(todo) * _SPACE_MIB, "making the lab's images")
            build_all(list(todo.values()), image_dir, params["jobs"], Board(Progress(params["progress_file"])))
        removed = [name for recipe in wanted.values() for name in lab_image.prune(image_dir, recipe)]
    return {
        "changed": bool(todo or installed or new_key or removed),
        "paths": {family: str(path) for family, path in paths.items()},
        "made": sorted(todo),
        "installed": installed,
        "removed": removed,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "images": {"type": "list", "elements": "str", "required": True},
            "image_dir": {"type": "path", "required": True},
            "private_key": {"type": "path", "required": True, "no_log": False},
            "mirror": {"type": "str", "default": ""},
            "packages": {"type": "list", "elements": "str", "default": []},
            "root_size": {"type": "int", "default": 4096},
            "install_packages": {"type": "bool", "default": True},
            "jobs": {"type": "int", "default": 2},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**run(module))
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except (OSError, subprocess.SubprocessError) as exc:
        module.fail_json(msg=f"cannot make the lab's images: {exc}")


if __name__ == "__main__":
    main()
