#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_build_host
short_description: See that a host has what a kernel build needs
version_added: "0.1.0"
description:
  - Fails with one message that names all commands and headers that are missing and the Debian packages they come from,
    or only returns them. Run it before anything is fetched.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  cross_compile:
    description: Prefix of a cross compiler.
    type: str
    default: ''
  ccache:
    description: Whether the build is going to use ccache.
    type: bool
    default: true
  fragments:
    description:
      - Pieces of configuration, as M(fetchbpf.fleet.kernel_config) takes them. Some settings need a command of their
        own, as C(CONFIG_DEBUG_INFO_BTF) needs C(pahole).
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
  fail:
    description: Fail if something is missing.
    type: bool
    default: true
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: See that this host can build a kernel
  fetchbpf.fleet.kernel_build_host:
    fragments:
      - name: mine.config
        text: CONFIG_DEBUG_INFO_BTF=y
"""

RETURN = r"""
missing:
  description: Commands and headers that are missing.
  returned: always
  type: list
  elements: str
  sample: [bison, libelf.h]
missing_packages:
  description: Debian packages to install.
  returned: always
  type: list
  elements: str
  sample: [bison, libelf-dev]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils.build_host import (
    build_needs,
    missing,
    require,
)
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kconfig import FRAGMENTS, Fragment, parse_fragments


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cross_compile": {"type": "str", "default": ""},
            "ccache": {"type": "bool", "default": True},
            "fragments": FRAGMENTS,
            "fail": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        asked = parse_fragments([Fragment(**item) for item in params["fragments"]])
        values = {symbol: setting.value for symbol, setting in asked.items()}
        needs = build_needs(params["cross_compile"], params["ccache"], values)
        if params["fail"]:
            require(needs)
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    module.exit_json(changed=False, **missing(needs))


if __name__ == "__main__":
    main()
