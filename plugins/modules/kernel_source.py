#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_source
short_description: Keep a pristine kernel source tree in the cache
version_added: "0.1.0"
description:
  - Fetches and unpacks a kernel source once and remembers what the request was resolved to. A later run of the same
    request uses that and needs no network.
  - Debian packages come through an apt configuration of their own, derived from the host's; signatures and hashes are
    checked by apt. The host's own apt state is not touched.
  - A download that is cut off or has a wrong sha256 is refused and removed; the next run starts clean.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  kind:
    description:
      - Where the source comes from.
      - V(debian) is a C(linux-source-*) package, V(git) a commit, V(tarball) a file or URL, V(tree) a local directory
        that is only read.
    type: str
    required: true
    choices: [debian, git, tarball, tree]
  cache_root:
    description: The cache; trees are kept in its folder C(sources).
    type: path
    default: ~/.cache/fetchbpf
  package:
    description: Name of the Debian package, for O(kind=debian).
    type: str
    default: ''
  version:
    description: Exact version of the package; the newest of the first suite that has it when empty.
    type: str
    default: ''
  suites:
    description: Suites to look in, in this order. V(host) is the host's own apt configuration.
    type: list
    elements: str
    default: [host, trixie, sid, experimental]
  mirror:
    description: Debian mirror for suites other than V(host); the host's own mirror when empty.
    type: str
    default: ''
  url:
    description: Repository for O(kind=git), or address of the tarball for O(kind=tarball).
    type: str
    default: ''
  ref:
    description: Branch, tag or commit, for O(kind=git).
    type: str
    default: ''
  shallow:
    description: Fetch only that commit, for O(kind=git).
    type: bool
    default: true
  path:
    description: The local tree for O(kind=tree), or a local file for O(kind=tarball).
    type: path
  sha256:
    description: Hash that the tarball must have; required for O(kind=tarball).
    type: str
    default: ''
  update:
    description: Resolve package or ref anew, over the network, even if an earlier run did.
    type: bool
    default: false
  progress_file:
    description: Where the module says how far it is; set by the action plugin of the same name.
    type: path
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Have Debian's source of Linux 6.12
  fetchbpf.fleet.kernel_source:
    kind: debian
    package: linux-source-6.12

- name: Have a tag of a git repository
  fetchbpf.fleet.kernel_source:
    kind: git
    url: https://git.example.org/linux.git
    ref: v6.12.20
"""

RETURN = r"""
source_id:
  description: Names the content of the source; empty in check mode when it is not resolved yet.
  returned: success
  type: str
  sample: debian:linux-source-6.12=6.12.117-1~deb12u1
pristine:
  description: Path of the pristine tree; empty in check mode when there is none yet.
  returned: success
  type: str
  sample: /root/.cache/fetchbpf/sources/debian-linux-source-6.12-6.12.117-1-deb12u1-0f3a99c1
name:
  description: Short name that stays the same over versions of the source.
  returned: success
  type: str
  sample: linux-source-6.12
version:
  description: The kernel version of the tree.
  returned: success
  type: str
  sample: 6.12.117
epoch:
  description: Date of the source, in seconds since 1970.
  returned: success
  type: int
  sample: 1763124960
cache_root:
  description: Absolute path of the cache.
  returned: success
  type: str
  sample: /root/.cache/fetchbpf
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_sources import Request, Source, SourceCache
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress


def main() -> None:
    """Run the module."""
    text = {"type": "str", "default": ""}
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "required": True, "choices": ["debian", "git", "tarball", "tree"]},
            "cache_root": {"type": "path", "default": "~/.cache/fetchbpf"},
            "package": text,
            "version": text,
            "suites": {"type": "list", "elements": "str", "default": ["host", "trixie", "sid", "experimental"]},
            "mirror": text,
            "url": text,
            "ref": text,
            "shallow": {"type": "bool", "default": True},
            "path": {"type": "path"},
            "sha256": text,
            "update": {"type": "bool", "default": False},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    options = module.params
    progress = Progress(options["progress_file"])

    def show(step: str, done: int, total: int) -> None:
        if step in ("download", "unpack"):
            progress.update(step, done=done >> 20, total=total >> 20, unit="MiB")
        else:
            progress.update(step, done=done or None, total=total or None)

    request = Request(
        kind=options["kind"],
        package=options["package"],
        version=options["version"],
        suites=tuple(options["suites"]),
        mirror=options["mirror"],
        url=options["url"],
        ref=options["ref"],
        shallow=options["shallow"],
        path=options["path"] or "",
        sha256=options["sha256"].lower(),
    )
    cache = SourceCache(options["cache_root"], show, read_only=module.check_mode)
    try:
        before = cache.pinned(request)
        source = before
        if not module.check_mode and (before is None or options["update"]):
            source = cache.fetch(request)
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    found = source or Source("", "", "", "", 0)
    module.exit_json(changed=source is None or source != before, cache_root=options["cache_root"], **found._asdict())


if __name__ == "__main__":
    main()
