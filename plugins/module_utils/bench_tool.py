# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark program on a host: which one, what its clock counts, and running it."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.process import run, run_watched
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress

NAME = "fetchbpf-bench"
LIBRARY = "/usr/lib/fetchbpf"
BENCHMARKS = ("fetcharg", "hook_overhead", "latency", "parallel", "hit_count")
_ROUND = re.compile(r"round (\d+)/(\d+)")


def find_tool(wanted: str | None, release: str, library: str = LIBRARY) -> str | None:
    """Return the program to use: the one asked for, the running kernel's, one brought by the role, any kernel's.

    It does not depend on the kernel, so that of another kernel measures a
    stock one too. None if there is none.
    """
    if wanted:
        return wanted if os.path.exists(wanted) else None
    places = [os.path.join(library, release, NAME), os.path.join(library, NAME)]
    places += sorted(glob.glob(os.path.join(library, "*", NAME)), key=os.path.getmtime, reverse=True)
    return next((place for place in places if os.path.exists(place)), None)


def series_of(release: str, library: str = LIBRARY) -> str:
    """Return the hash of the patch series of a kernel, as its package says; empty for a kernel without one."""
    try:
        with open(os.path.join(library, release, "series"), encoding="utf-8") as handle:
            return handle.read().strip()
    except FileNotFoundError:
        return ""


class BenchTool:
    """A benchmark program that is there."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as handle:
            self.sha256 = hashlib.sha256(handle.read()).hexdigest()

    def clock(self) -> tuple[str, str]:
        """Return what the host's clock counts, ``time`` or ``instructions``, and how that was found."""
        done = run([self.path, "--clock"])
        told = done.stdout.strip()
        name = told.rpartition(" ")[2]
        if done.returncode != 0 or name not in ("time", "instructions"):
            raise FleetError(f"{self.path} --clock failed: {done.stderr.strip() or told or done.returncode}")
        return name, told

    def run(self, benchmark: str, options: dict[str, int], progress: Progress) -> dict[str, Any]:
        """Run one benchmark and return its raw samples; FleetError carries what it said."""

        def on_message(line: str) -> None:
            match = _ROUND.search(line)
            if match:
                progress.update(benchmark, done=int(match[1]) - 1, total=int(match[2]), unit="rounds")

        command = [self.path, *(f"--{name.replace('_', '-')}={value}" for name, value in options.items()), benchmark]
        done = run_watched(command, on_message)
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if not _ROUND.search(line)]
            how = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
            raise FleetError(f"{NAME} {benchmark} failed with {how}: {' / '.join(said[-5:]) or 'it said nothing'}")
        try:
            return json.loads(done.stdout)
        except ValueError as exc:
            raise FleetError(f"{NAME} {benchmark} printed no JSON ({exc}): {done.stdout[:200]!r}") from exc
