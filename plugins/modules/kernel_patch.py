#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_patch
short_description: Keep a source tree that is a pristine tree plus a patch series
version_added: "0.1.0"
description:
  - The tree is a copy of the pristine tree with the series applied, each patch with its whole context (fuzz 0).
  - What the tree is made of is known by content (source and series hash), never by whether a patch seems applied.
  - All patches are applied beside first. A patch that fails leaves the tree as it is.
  - Another series is applied to the pristine files, but only files that differ are written, so that an incremental
    build stays incremental.
  - A tree that was edited by hand is refused, unless O(discard_edits=true).
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: full
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  pristine:
    description: Path of the pristine tree. Empty in check mode when there is none yet; only the series is checked then.
    type: str
    required: true
  source_id:
    description: Names the content of the pristine tree.
    type: str
    required: true
  tree:
    description: The tree to keep. Two files with its state are kept beside it.
    type: path
    required: true
  series:
    description:
      - A folder of the controller with a C(series) file and the patches it names; no patches when left out.
    type: path
  series_file:
    description: What the action plugin of the same name brought of O(series) to the host; set by it.
    type: path
  discard_edits:
    description: Undo edits that were made by hand in the tree instead of refusing it.
    type: bool
    default: false
  progress_file:
    description: Where the module says how far it is; set by the action plugin of the same name.
    type: path
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Apply the series
  fetchbpf.fleet.kernel_patch:
    pristine: /var/cache/kernels/sources/linux-6.12
    source_id: tarball:sha256:0e6f8b5c
    tree: /var/cache/kernels/trees/linux-6.12-mine
    series: kernel-patches/v6.12
"""

RETURN = r"""
series_name:
  description: Name of the series' folder, or V(none).
  returned: success
  type: str
  sample: v6.12
series_hash:
  description: The sha256 over names and contents of the patches, or V(none).
  returned: success
  type: str
  sample: 3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
patches:
  description: Names of the patches, in order.
  returned: success
  type: list
  elements: str
  sample: [0001-tracing-add-benchmark.patch]
written:
  description: Files that were written, relative to the tree.
  returned: success
  type: list
  elements: str
  sample: [kernel/trace/trace_probe.c]
removed:
  description: Files that were removed.
  returned: success
  type: list
  elements: str
  sample: []
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.patched_tree import PatchedTree, TreeUpdate
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress
from ansible_collections.fetchbpf.fleet.plugins.module_utils.series import NO_SERIES, load_series, unpack


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "pristine": {"type": "str", "required": True},
            "source_id": {"type": "str", "required": True},
            "tree": {"type": "path", "required": True},
            "series": {"type": "path"},
            "series_file": {"type": "path"},
            "discard_edits": {"type": "bool", "default": False},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    options = module.params
    progress = Progress(options["progress_file"])
    try:
        if options["series_file"]:
            series = unpack(Path(options["series_file"]).read_text(encoding="ascii"))
        else:
            series = load_series(options["series"]) if options["series"] else NO_SERIES
        if options["pristine"]:
            tree = PatchedTree(options["tree"], options["pristine"], options["source_id"], progress.update)
            update = tree.sync(series, options["discard_edits"], dry_run=module.check_mode)
        elif module.check_mode:
            update = TreeUpdate(True, (), (), "", "")
        else:
            raise FleetError("the argument pristine is empty: there is no pristine tree to patch")
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    module.exit_json(
        changed=update.changed,
        series_name=series.name,
        series_hash=series.hash,
        patches=[patch.name for patch in series.patches],
        written=list(update.written),
        removed=list(update.removed),
        diff={
            "before": update.before,
            "after": update.after,
            "before_header": options["tree"],
            "after_header": series.name,
        },
    )


if __name__ == "__main__":
    main()
