#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_config
short_description: Configure a kernel out of tree and check that it is what was asked
version_added: "0.1.0"
description:
  - Merges fragments over a base configuration, lets the kernel complete it, and fails before anything is compiled if a
    requested symbol did not get its value. The message lists symbol, value asked, value got and the unmet dependency.
  - Key files of a distribution's source package that the tree does not have are cleared, and that is said.
  - Computes the key and the release of the artifact, which follow from source, series, configuration and compiler.
  - The C(.config) is only written if it differs, so an incremental build stays incremental.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: full
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  tree:
    description: The patched source tree.
    type: path
    required: true
  build_dir:
    description: The build directory.
    type: path
    required: true
  arch:
    description: Architecture, as C(uname -m) or the kernel call it; the build host's when empty.
    type: str
    default: ''
  cross_compile:
    description: Prefix of a cross compiler, e.g. V(aarch64-linux-gnu-).
    type: str
    default: ''
  base:
    description: A configuration target of the kernel (V(tinyconfig), V(defconfig)), or the name of O(base_text).
    type: str
    default: tinyconfig
  base_text:
    description: Content of a whole configuration file to use as base.
    type: str
    default: ''
  fragments:
    description: Pieces of configuration; a later one overrides an earlier one.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: What messages call it.
        type: str
        required: true
      text:
        description: Lines C(CONFIG_X=value) or C(# CONFIG_X is not set).
        type: str
        required: true
  localversion:
    description: Start of the local version; the first 8 digits of the key follow.
    type: str
    default: -fetchbpf
  source_id:
    description: Names the content of the source.
    type: str
    required: true
  series_hash:
    description: Hash of the patch series in the tree.
    type: str
    default: none
  tools_hash:
    description: Hash of the sources of programs that are packed with the kernel; empty when there are none.
    type: str
    default: ''
  ccache:
    description: Whether the build is going to use ccache; it must be there then.
    type: bool
    default: true
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Configure the kernel
  fetchbpf.fleet.kernel_config:
    tree: /var/cache/kernels/trees/linux-6.12-mine
    build_dir: /var/cache/kernels/build/linux-6.12-mine
    source_id: tarball:sha256:0e6f8b5c
    fragments:
      - name: mine.config
        text: |
          CONFIG_KPROBES=y
          # CONFIG_DEBUG_INFO is not set
"""

RETURN = r"""
config_hash:
  description: The sha256 over all settings but the local version.
  returned: success
  type: str
  sample: 5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592
key:
  description: Key of the artifact; empty in check mode when there is no tree to configure yet.
  returned: success
  type: str
  sample: 0f3a99c1d2e4b586
release:
  description: What C(uname -r) will say.
  returned: success
  type: str
  sample: 6.12.117-fetchbpf-0f3a99c1
requested:
  description: The symbols that the fragments asked for, with their values.
  returned: success
  type: dict
  sample: {CONFIG_KPROBES: y}
compiler:
  description: First line of C(gcc --version).
  returned: success
  type: str
  sample: gcc (Debian 12.2.0-14) 12.2.0
notes:
  description: What was changed without being asked, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
dropped:
  description: For each symbol that did not get its value, symbol, asked, got, reason and place.
  returned: failure
  type: list
  elements: dict
"""

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils.build_host import build_needs, missing, require
from ansible_collections.fetchbpf.fleet.plugins.module_utils.configure import Wanted, configure
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kbuild import Kbuild, compiler_text, find_arch
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kconfig import FRAGMENTS, Fragment


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "tree": {"type": "path", "required": True},
            "build_dir": {"type": "path", "required": True},
            "arch": {"type": "str", "default": ""},
            "cross_compile": {"type": "str", "default": ""},
            "base": {"type": "str", "default": "tinyconfig"},
            "base_text": {"type": "str", "default": ""},
            "fragments": FRAGMENTS,
            "localversion": {"type": "str", "default": "-fetchbpf"},
            "source_id": {"type": "str", "required": True},
            "series_hash": {"type": "str", "default": "none"},
            "tools_hash": {"type": "str", "default": ""},
            "ccache": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        needs = build_needs(options["cross_compile"], options["ccache"])
        unbuilt = {"config_hash": "", "key": "", "release": "", "requested": {}, "notes": []}
        if module.check_mode and missing(needs)["missing"]:
            # What a run would have installed before.
            module.exit_json(changed=True, compiler="", **unbuilt)
        require(needs)
        wanted = Wanted(
            base=options["base"],
            base_text=options["base_text"],
            fragments=[Fragment(**fragment) for fragment in options["fragments"]],
            localversion=options["localversion"],
            source_id=options["source_id"],
            series_hash=options["series_hash"],
            compiler=compiler_text(options["cross_compile"]),
            cross_compile=options["cross_compile"],
            tools_hash=options["tools_hash"],
        )
        wanted.check()
        if not os.path.isdir(options["tree"]):
            if not module.check_mode:
                raise FleetError(f"no such source tree: {options['tree']}")
            module.exit_json(changed=True, compiler=wanted.compiler, **unbuilt)
        arch = find_arch(options["arch"], Path(options["tree"]))
        kbuild = Kbuild(options["tree"], options["build_dir"], arch, options["cross_compile"])
        result = configure(kbuild, wanted, dry_run=module.check_mode)
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    for note in result.notes if result.changed else []:
        module.warn(note)
    module.exit_json(
        changed=result.changed,
        config_hash=result.config_hash,
        key=result.key,
        release=result.release,
        requested=result.requested,
        compiler=wanted.compiler,
        notes=result.notes,
        diff={
            "before": result.before,
            "after": result.after,
            "before_header": ".config",
            "after_header": f".config of {result.release}",
        },
    )


if __name__ == "__main__":
    main()
