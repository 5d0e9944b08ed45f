#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_build
short_description: Compile a configured kernel into Debian packages, once for each content key
version_added: "0.1.0"
description:
  - Compiles out of tree with ccache, the same bytes on each machine with the same compiler, and stores the packages and
    a C(manifest.json) in a folder named by the key. If that folder is there, whole, nothing is run.
  - A build that was killed is taken up where it stopped.
  - A build that fails shows the first compiler error.
  - If the tree has C(tools/tracing/benchmark), its module is built against the kernel and packed too.
  - The benchmark program is compiled from O(bench_sources), static, packed too, and kept beside the packages for hosts
    that run another kernel.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  tree:
    description: The patched source tree, as kept by M(fetchbpf.fleet.kernel_patch).
    type: path
    required: true
  build_dir:
    description: The build directory, configured by M(fetchbpf.fleet.kernel_config).
    type: path
    required: true
  cache_root:
    description: The cache; artifacts are kept in its folder C(artifacts), compiler results in C(ccache).
    type: path
    default: ~/.cache/fetchbpf
  key:
    description: Key of the artifact, from M(fetchbpf.fleet.kernel_config). May be empty in check mode.
    type: str
    required: true
  release:
    description: Release of the kernel, from M(fetchbpf.fleet.kernel_config).
    type: str
    required: true
  source_id:
    description: Names the content of the source.
    type: str
    required: true
  series:
    description: Name, hash and patches of the series in the tree.
    type: dict
    required: true
    suboptions:
      name:
        description: Name of the series.
        type: str
        required: true
      hash:
        description: Hash of the series.
        type: str
        required: true
      patches:
        description: Names of the patches.
        type: list
        elements: str
        default: []
  config_hash:
    description: Hash of the configuration, from M(fetchbpf.fleet.kernel_config).
    type: str
    required: true
  requested:
    description: Symbols that were asked for, with their values; kept in the manifest.
    type: dict
    default: {}
  compiler:
    description: First line of C(gcc --version).
    type: str
    required: true
  bench_sources:
    description:
      - Files of the benchmark program, a C(Makefile) among them that makes C(fetchbpf-bench). None is made without.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the file.
        type: str
        required: true
      text:
        description: Its content.
        type: str
        required: true
  epoch:
    description: Date that the build carries, in seconds since 1970.
    type: int
    default: 0
  arch:
    description: Architecture, as C(uname -m) or the kernel call it; the build host's when empty.
    type: str
    default: ''
  cross_compile:
    description: Prefix of a cross compiler.
    type: str
    default: ''
  jobs:
    description: Compilers at a time; the number of processors when 0.
    type: int
    default: 0
  ccache:
    description: Compile through ccache.
    type: bool
    default: true
  ccache_dir:
    description: Directory of ccache; C(ccache) in O(cache_root) when left out.
    type: path
  controller_dir:
    description:
      - A folder of the controller. The action plugin of the same name brings the artifact to its subfolder O(key),
        unless it is there, whole. Left out, it stays on the host.
    type: path
  progress_file:
    description: Where the module says how far it is; set by the action plugin of the same name.
    type: path
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Build the kernel
  fetchbpf.fleet.kernel_build:
    tree: /var/cache/kernels/trees/linux-6.12-mine
    build_dir: /var/cache/kernels/build/linux-6.12-mine
    key: "{{ config.key }}"
    release: "{{ config.release }}"
    source_id: "{{ source.source_id }}"
    series: {name: mine, hash: "{{ patched.series_hash }}", patches: "{{ patched.patches }}"}
    config_hash: "{{ config.config_hash }}"
    compiler: "{{ config.compiler }}"
"""

RETURN = r"""
artifact_dir:
  description: Folder of the artifact; empty in check mode when the key is not known yet.
  returned: success
  type: str
  sample: /root/.cache/fetchbpf/artifacts/0f3a99c1d2e4b586
manifest:
  description: Content of C(manifest.json); empty in check mode when it is not built yet.
  returned: success
  type: dict
objects:
  description: Object files that were built in this run.
  returned: success
  type: int
  sample: 2120
ccache_hits:
  description: How many of them came from ccache.
  returned: success
  type: int
  sample: 0
ccache_misses:
  description: How many were compiled.
  returned: success
  type: int
  sample: 2102
log:
  description: File with the output of make.
  returned: failure to compile
  type: str
  sample: /root/.cache/fetchbpf/build/linux-source-6.12-v6.12/.fetchbpf/build.log
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils.artifact import ArtifactBuilder, Plan
from ansible_collections.fetchbpf.fleet.plugins.module_utils.build_host import build_needs, require
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kbuild import Kbuild, find_arch
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress


def _run(module: AnsibleModule) -> dict[str, Any]:
    """Return the module's result; raise FleetError."""
    options = module.params
    idle = {"objects": 0, "hits": 0, "misses": 0}
    if not options["key"] and module.check_mode:
        return _result(True, "", {}, idle)
    arch = find_arch(options["arch"])
    if not arch.debian:
        raise FleetError(f"packages for the architecture {arch.machine} are not supported")
    plan = Plan(
        key=options["key"],
        release=options["release"],
        source_id=options["source_id"],
        series=options["series"],
        config_hash=options["config_hash"],
        requested=options["requested"],
        compiler=options["compiler"],
        epoch=options["epoch"],
        jobs=options["jobs"] or os.cpu_count() or 1,
        cross_compile=options["cross_compile"],
        bench_sources={source["name"]: source["text"] for source in options["bench_sources"]},
    )
    ccache_dir = (options["ccache_dir"] or os.path.join(options["cache_root"], "ccache")) if options["ccache"] else ""
    kbuild = Kbuild(
        options["tree"], options["build_dir"], arch, plan.cross_compile, plan.epoch, options["cache_root"], ccache_dir
    )
    builder = ArtifactBuilder(kbuild, options["cache_root"], Progress(options["progress_file"]))
    stored = builder.stored(plan)
    if stored or module.check_mode:
        return _result(stored is None, str(builder.folder(plan)), stored or {}, idle)
    require(build_needs(plan.cross_compile, options["ccache"]))
    manifest, counts = builder.build(plan)
    return _result(True, str(builder.folder(plan)), manifest, counts)


def _result(changed: bool, folder: str, manifest: dict[str, Any], counts: dict[str, int]) -> dict[str, Any]:
    return {
        "changed": changed,
        "artifact_dir": folder,
        "manifest": manifest,
        "objects": counts["objects"],
        "ccache_hits": counts["hits"],
        "ccache_misses": counts["misses"],
    }


def main() -> None:
    """Run the module."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "tree": {"type": "path", "required": True},
            "build_dir": {"type": "path", "required": True},
            "cache_root": {"type": "path", "default": "~/.cache/fetchbpf"},
            "key": dict(text, no_log=False),
            "release": text,
            "source_id": text,
            "series": {
                "type": "dict",
                "required": True,
                "options": {
                    "name": text,
                    "hash": text,
                    "patches": {"type": "list", "elements": "str", "default": []},
                },
            },
            "config_hash": text,
            "requested": {"type": "dict", "default": {}},
            "compiler": text,
            "bench_sources": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"name": text, "text": text},
            },
            "epoch": {"type": "int", "default": 0},
            "arch": {"type": "str", "default": ""},
            "cross_compile": {"type": "str", "default": ""},
            "jobs": {"type": "int", "default": 0},
            "ccache": {"type": "bool", "default": True},
            "ccache_dir": {"type": "path"},
            "controller_dir": {"type": "path"},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**_run(module))
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)


if __name__ == "__main__":
    main()
