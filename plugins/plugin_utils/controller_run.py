# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which run of Ansible is this, and does another one still live?"""

from __future__ import annotations

import os
import platform
import uuid
from typing import Any


def current_run() -> dict[str, Any]:
    """Return {"run", "controller", "pid"} of this ansible-playbook; equal for all its tasks and hosts."""
    # Actions run in a worker that was forked for the task; the run is its parent.
    pid = os.getppid()
    controller = f"{platform.node()}/{uuid.getnode():012x}"
    return {"run": f"{controller}/{pid}/{_start_time(pid)}", "controller": controller, "pid": pid}


def has_ended(lease: dict[str, Any]) -> bool:
    """Whether the process of ``lease`` was one of this controller and is gone."""
    here = current_run()
    alive = f"{here['controller']}/{lease.get('pid')}/{_start_time(lease.get('pid', 0))}"
    return lease.get("controller") == here["controller"] and lease.get("run") != alive


def _start_time(pid: int) -> str:
    """Return when ``pid`` started in the kernel's ticks, "0" for a process that is not there."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            # The second field is the command in parentheses and may hold spaces.
            return handle.read().rpartition(")")[2].split()[19]
    except OSError:
        return "0"
