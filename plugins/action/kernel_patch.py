# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the series on the controller, brings it to the host as one file, and runs the module of the same name there."""

from __future__ import annotations

from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.series import load_series, pack
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.progress_action import ProgressAction


class ActionModule(ProgressAction):
    """See the module's documentation."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        # Not the run of ProgressAction: the module gets other arguments than the task.
        super(ProgressAction, self).run(tmp, task_vars)
        args = dict(self._task.args)
        folder = args.pop("series", None)
        if not folder:
            return self.run_module(args, task_vars or {})
        try:
            # Here, so that a fault is named by the path that the user knows.
            packed = pack(load_series(self._loader.path_dwim(folder)))
        except FleetError as exc:
            return {"failed": True, "msg": str(exc), **exc.details}
        directory = self._make_tmp_path()
        try:
            copy = self._connection._shell.join_path(directory, "series.json")
            self._transfer_data(copy, packed)
            self._fixup_perms2([directory, copy])
            return self.run_module(dict(args, series_file=copy), task_vars or {})
        finally:
            self._remove_tmp_path(directory, force=True)
