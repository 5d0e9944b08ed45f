# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest of the lab for tests, and the playbooks that are run on it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("FETCHBPF_CACHE") or Path.home() / ".cache/fetchbpf")
PORT = 22251
BIN = Path(sys.executable).parent
# pytest's capture manager, set by conftest.py.
capture: Any = None


@dataclass
class Play:
    """What one ansible-playbook did to the guest: its output, the last line of the recap, its duration."""

    output: str
    seconds: float
    recap: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.recap.get("failed", 0) + self.recap.get("unreachable", 0) > 0


class Guest:
    """One guest of the lab and the playbooks that are run on it."""

    def __init__(self, name: str, directory: Path, artifact: Path) -> None:
        self.name = name
        self.directory = directory
        self.artifact = artifact
        self.manifest: dict[str, Any] = json.loads((artifact / "manifest.json").read_text())
        self.release: str = self.manifest["release"]
        suite, boot = ("trixie", "uefi") if name.endswith("trixie") else ("bookworm", "bios")
        lab = [{"name": name, "suite": suite, "boot": boot, "port": PORT}]
        self.variables = {
            "lab_guests": lab,
            "lab_dir": str(directory),
            "kernel_install_artifact": str(artifact),
            # Only what hangs waits for so long; a busy machine must not fail the tests.
            "kernel_install_boot_timeout": 900,
            "kernel_install_confirm_timeout": 900,
            "kernel_install_health_timeout": 300,
        }

    def playbook(self, path: Path | str, *arguments: str, limit: bool = True, **variables: Any) -> Play:
        """Run a playbook of the checkout, or a file, with these variables; its steps appear on the terminal."""
        command = [str(BIN / "ansible-playbook"), "-i", "inventories/lab", str(path), *arguments]
        command += ["-e", json.dumps({**self.variables, **variables})]
        command += ["--limit", self.name] if limit else []
        start = time.monotonic()
        lines = []
        environment = dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_NOCOLOR="1")
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout
            for line in process.stdout:
                lines.append(line)
                if line.startswith(f"{self.name}: ") or line.startswith("TASK"):
                    report(f"{time.monotonic() - start:5.0f} s  {line.rstrip(' *' + chr(10))}")
        output = "".join(lines)
        play = Play(output, time.monotonic() - start)
        found = re.findall(rf"^{re.escape(self.name)}\s+: (.*)$", output, re.MULTILINE)
        if found:
            play.recap = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", found[-1])}
        assert play.recap or not limit, output
        return play

    def install(self, *arguments: str, **variables: Any) -> Play:
        """Run role kernel_install on the guest."""
        return self.playbook("tests/integration/vm/kernel_install.yml", *arguments, **variables)

    def run(self, script: str) -> str:
        """Run a shell script on the guest and return its output."""
        key = CACHE / "images/id_ed25519"
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=60"]
        command = ["ssh", "-i", str(key), "-p", str(PORT), *(word for option in options for word in ("-o", option))]
        done = subprocess.run(
            [*command, "root@127.0.0.1", "sh", "-s"], input=script, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def running(self) -> str:
        return self.run("uname -r").strip()

    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id").strip()

    def snapshot(self) -> dict[str, str]:
        """Return what an installation could change: packages, boot files, configuration, our own state."""
        script = """cd /
            find boot etc lib/modules var/lib/fetchbpf var/lib/initramfs-tools usr/local \\
                -path 'lib/modules/*/kernel' -prune -o -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum
            find etc -type l -printf '%p -> %l\\n'
            dpkg-query -W -f '${Package} ${Version} ${Status}\\n'"""
        lines = self.run(script).splitlines()
        return {line.split(maxsplit=1)[-1] if "  " in line else line: line for line in lines}


def report(text: str) -> None:
    """Say on the terminal what is going on, also while pytest captures."""
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        print(f"    {text}", flush=True)
