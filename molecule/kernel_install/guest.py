# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest of this scenario, and the kernel that is tried on it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from plays import Play, run_playbook

HERE = Path(__file__).resolve().parent
MENU = "/boot/grub/fetchbpf.cfg"


class Guest:
    """The guest, known by its variables in the inventory, and the kernel that is tried on it."""

    def __init__(self, name: str, variables: dict[str, Any], kernel: dict[str, Any]) -> None:
        self.name = name
        self.release: str = kernel["release"]
        self._ssh = [
            *("ssh", "-i", variables["ansible_ssh_private_key_file"], "-p", str(variables["ansible_port"])),
            *variables["ansible_ssh_common_args"].split(),
            *("-o", "ConnectTimeout=60", f"{variables['ansible_user']}@{variables['ansible_host']}"),
        ]
        self.variables = {
            "kernel_install_artifact": kernel["artifact_dir"],
            # Only what hangs waits for so long; a busy machine must not fail the tests.
            "kernel_install_boot_timeout": 900,
            "kernel_install_confirm_timeout": 900,
            "kernel_install_health_timeout": 300,
        }

    def playbook(self, path: Path | str, *arguments: str, **variables: Any) -> Play:
        """Run a playbook on the guest with these variables."""
        return run_playbook(self.name, path, *arguments, **{**self.variables, **variables})

    def install(self, *arguments: str, **variables: Any) -> Play:
        """Run role kernel_install on the guest."""
        return self.playbook(HERE / "install.yml", *arguments, **variables)

    def run(self, script: str) -> str:
        """Run a shell script on the guest and return its output."""
        done = subprocess.run([*self._ssh, "sh", "-s"], input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def default_is(self, ident: str) -> bool:
        """Tell whether this entry boots by default, with no one-shot pending."""
        menu, grubenv = self.run(f"cat {MENU}"), self.run("grub-editenv list")
        return f"set default={ident}" in menu and "next_entry=fetchbpf" not in grubenv

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
