# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action that runs its module and prints the module's progress meanwhile."""

from __future__ import annotations

import json
import secrets
import shlex
import threading
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import render

display = Display()


class ProgressAction(ActionBase):
    """Run the module that has the action's name; print a line every few seconds.

    The module gets ``progress_file``, a path on the host it runs on, and
    writes to it with ``module_utils.progress.Progress``. A line is printed
    only when it says something new.
    """

    # Seconds between two looks at the progress file; each look is one command on the host.
    poll_seconds = 5.0
    # Seconds between two lines about the same step.
    print_seconds = 20.0

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        return self.run_module(self._task.args, task_vars or {})

    def run_module(
        self, args: dict[str, Any], task_vars: dict[str, Any], module_name: str | None = None
    ) -> dict[str, Any]:
        """Run the module with ``args`` and return its result."""
        host = task_vars.get("inventory_hostname", "?")
        name = (module_name or self._task.action).rpartition(".")[2]
        path = f"/tmp/.fetchbpf-progress-{secrets.token_hex(8)}"
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(path, f"{host}: {name}", stop), daemon=True)
        # Connect before the thread starts, so that two threads never open the connection at once.
        self._connection._connect()
        watcher.start()
        try:
            return self._execute_module(
                module_name=module_name, module_args=dict(args, progress_file=path), task_vars=task_vars
            )
        finally:
            stop.set()
            watcher.join(timeout=30)
            self._low_level_execute_command(f"rm -f {shlex.quote(path)}")

    def _watch(self, path: str, label: str, stop: threading.Event) -> None:
        printed, step, waited = "", "", 0.0
        while not stop.wait(self.poll_seconds):
            waited += self.poll_seconds
            result = self._low_level_execute_command(f"cat {shlex.quote(path)} 2>/dev/null || true")
            state = self._state(result.get("stdout", ""))
            line = render(state) if state else ""
            if line and line != printed and (state["step"] != step or waited >= self.print_seconds):
                display.display(f"{label}: {line}")
                printed, step, waited = line, state["step"], 0.0

    @staticmethod
    def _state(text: str) -> dict[str, Any]:
        """Return what the module wrote, or nothing for a file not written yet."""
        try:
            return json.loads(text)
        except ValueError:
            return {}
