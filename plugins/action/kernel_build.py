# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module of the same name, prints its progress, and brings the artifact to the controller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.fetchbpf.fleet.plugins.module_utils.manifest import read_manifest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.workspace import remove
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.progress_action import ProgressAction

display = Display()


class ActionModule(ProgressAction):
    """See the module's documentation."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        home = self._task.args.get("controller_dir")
        if not home or result.get("failed") or self._task.check_mode:
            return result
        manifest = result["manifest"]
        folder = Path(os.path.expanduser(home)) / manifest["key"]
        if read_manifest(folder, manifest["key"]) == manifest:
            return result
        failure = self._bring(result["artifact_dir"], manifest, folder, task_vars or {})
        return failure or {**result, "changed": True}

    def _bring(
        self, source: str, manifest: dict[str, Any], folder: Path, task_vars: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Fetch all files beside ``folder`` and make them the artifact; return the result of what failed."""
        host = task_vars.get("inventory_hostname")
        beside = folder.with_name(f".{folder.name}.{host}.new")
        remove(beside)
        for item in [*manifest["files"], {"name": "manifest.json", "size": 0}]:
            if item["size"]:
                display.display(f"{host}: kernel_build: fetch {item['name']} ({item['size'] / 1e6:.1f} MB)")
            task = self._task.copy()
            task.args = {"src": f"{source}/{item['name']}", "dest": f"{beside}/", "flat": True}
            # Ansible's own, which knows what to do where the connection's user cannot read the file.
            fetch = self._shared_loader_obj.action_loader.get(
                "ansible.builtin.fetch",
                task=task,
                connection=self._connection,
                play_context=self._play_context,
                loader=self._loader,
                templar=self._templar,
                shared_loader_obj=self._shared_loader_obj,
            )
            fetched = fetch.run(task_vars=task_vars)
            if fetched.get("failed"):
                return fetched
        if read_manifest(beside, manifest["key"]) != manifest:
            return {"failed": True, "msg": f"what was fetched of {source} is not what its manifest says: {beside}"}
        remove(folder)
        os.rename(beside, folder)
        return None
