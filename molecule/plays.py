# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that a scenario's tests run on its guests: what must fail, what must change nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# pytest's capture manager, set by conftest.py.
capture: Any = None


@dataclass
class Play:
    """What one ansible-playbook did to a host: its output, the host's line of the recap, its duration in seconds."""

    output: str
    recap: dict[str, int]
    seconds: float

    @property
    def failed(self) -> bool:
        return self.recap.get("failed", 0) + self.recap.get("unreachable", 0) > 0

    @property
    def flat(self) -> str:
        """The output without the line breaks that Ansible puts into long messages."""
        return re.sub(r"\s+", " ", self.output)


def run_playbook(name: str, path: Path | str, *arguments: str, **variables: Any) -> Play:
    """Run a playbook on the scenario's host of this name; its steps appear on the terminal."""
    return run_on([name], path, *arguments, **variables)[name]


def run_on(names: list[str], path: Path | str, *arguments: str, **variables: Any) -> dict[str, Play]:
    """Run a playbook on several hosts of the scenario at once; return what it did to each."""
    command = [
        "ansible-playbook",
        "-i",
        f"{os.environ['MOLECULE_EPHEMERAL_DIRECTORY']}/inventory",
        str(path),
        *arguments,
    ]
    command += ["-e", json.dumps(variables), "--limit", ",".join(names)]
    start = time.monotonic()
    lines = []
    environment = dict(os.environ, ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1")
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            if line.startswith((*(f"{name}: " for name in names), "TASK")):
                report(f"{time.monotonic() - start:5.0f} s  {line.rstrip(' *' + chr(10))}")
    output = "".join(lines)
    plays = {}
    for name in names:
        found = re.findall(rf"^{re.escape(name)}\s+: (.*)$", output, re.MULTILINE)
        assert found, output
        recap = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", found[-1])}
        plays[name] = Play(output, recap, time.monotonic() - start)
    return plays


def report(text: str) -> None:
    """Say on the terminal what is going on, also while pytest captures."""
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        print(f"    {text}", flush=True)
