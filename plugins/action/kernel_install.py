# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run kernel_install on the host; copy the artifact there only if the host asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ansible.utils.display import Display
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils import package_payload
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.controller_run import current_run, has_ended
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.progress_action import ProgressAction

display = Display()


class ActionModule(ProgressAction):
    """One execution on the host if there is nothing to install, three if there is."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        # Not the run of ProgressAction: the first look at the host needs no progress.
        super(ProgressAction, self).run(tmp, task_vars)
        args = dict(self._task.args, owner=current_run())
        if args.get("state", "staged") != "staged":
            return self._told(self._taking_over(args, task_vars, self.run_module), task_vars)
        if self._task.check_mode and not args.get("artifact"):
            action = "install the kernel that is built"
            unbuilt = {"changed": True, "status": "unbuilt", "release": "", "trial": "", "reboot_required": False}
            return self._told(dict(unbuilt, actions=[action], requested={}), task_vars)
        try:
            if not args.get("manifest"):
                args["manifest"] = package_payload.read_manifest(args.get("artifact") or "")
            return self._told(self._stage(args, task_vars), task_vars)
        except FleetError as exc:
            return {"failed": True, "msg": str(exc), **exc.details}

    def _told(self, result: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Show what was done, or would be in check mode; return the same result."""
        if result.get("changed") and not result.get("failed"):
            verb = "would " if self._task.check_mode else ""
            for action in result.get("actions", []):
                display.display(f"{task_vars.get('inventory_hostname')}: kernel_install: {verb}{action}")
        return result

    def _taking_over(
        self, args: dict[str, Any], task_vars: dict[str, Any], execute: Callable[..., dict[str, Any]]
    ) -> dict[str, Any]:
        """Execute the module, again if what holds the host is a run of this controller that has ended."""
        result = execute(args, task_vars)
        if result.get("failed") and has_ended(result.get("busy") or {}):
            display.warning(f"{task_vars.get('inventory_hostname')}: taking over from a run that has ended")
            args["take_over"] = result["busy"]["run"]
            result = execute(args, task_vars)
        return result

    def _stage(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        result = self._taking_over(
            args, task_vars, lambda given, known: self._execute_module(module_args=given, task_vars=known)
        )
        if result.get("failed") or not result.get("needed_files"):
            return result
        return self._bring_files(args, result["needed_files"], task_vars)

    def _bring_files(self, args: dict[str, Any], names: list[str], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Check everything that can be known before copying, then copy and install."""
        artifact = os.path.expanduser(args["artifact"])
        package_payload.check_artifact(artifact, [item for item in args["manifest"]["files"] if item["name"] in names])
        paths = [os.path.join(artifact, name) for name in names]
        args = dict(args, payload=package_payload.inspect(paths))
        result = self._execute_module(module_args=args, task_vars=task_vars)
        if result.get("failed") or self._task.check_mode:
            return result
        directory = self._make_tmp_path()
        try:
            copies = [self._connection._shell.join_path(directory, name) for name in names]
            for path, copy in zip(paths, copies):
                display.display(
                    f"{task_vars.get('inventory_hostname')}: kernel_install: copy {os.path.basename(path)} "
                    f"({os.path.getsize(path) / 1e6:.1f} MB)"
                )
                self._transfer_file(path, copy)
            self._fixup_perms2([directory, *copies])
            return self.run_module(dict(args, packages_dir=directory), task_vars)
        finally:
            self._remove_tmp_path(directory, force=True)
