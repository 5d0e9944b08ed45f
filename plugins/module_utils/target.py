# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host a module works on: files below its root, its commands, its running kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Callable

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

# Same shape as AnsibleModule.run_command: exit status, stdout, stderr.
Run = Callable[[Sequence[str]], "tuple[int, str, str]"]


class Target:
    """Access to one host. ``root`` is another directory only in tests."""

    def __init__(self, run: Run, root: str = "/") -> None:
        self.run = run
        self.root = root

    def path(self, path: str) -> str:
        """Return where the host's absolute ``path`` is found."""
        return os.path.join(self.root, path.lstrip("/"))

    def exists(self, path: str) -> bool:
        """Whether the host has ``path``."""
        return os.path.exists(self.path(path))

    def read(self, path: str, missing: str = "") -> str:
        """Return the text of ``path``, or ``missing`` if there is no such file."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as handle:
                return handle.read()
        except (FileNotFoundError, NotADirectoryError):
            return missing

    def size(self, path: str) -> int:
        """Return the bytes of ``path``, 0 if there is no such file."""
        try:
            return os.stat(self.path(path)).st_size
        except OSError:
            return 0

    def write(self, path: str, text: str, mode: int = 0o644) -> bool:
        """Make ``path`` hold exactly ``text``; return whether that changed anything.

        The file is whole at any time, also after a power cut.
        """
        name = self.path(path)
        if self.read(path, "\0") == text and os.stat(name).st_mode & 0o777 == mode:
            return False
        os.makedirs(os.path.dirname(name), exist_ok=True)
        beside = f"{name}.fetchbpf-new"
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as handle:
            os.fchmod(handle.fileno(), mode)
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(beside, name)
        directory = os.open(os.path.dirname(name), os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return True

    def remove(self, path: str) -> bool:
        """Delete the file ``path``; return whether it was there."""
        try:
            os.unlink(self.path(path))
        except FileNotFoundError:
            return False
        return True

    def check(self, argv: Sequence[str], what: str) -> str:
        """Run a command and return its output; FleetError "``what`` failed: …" with the end of what it said."""
        status, out, err = self.run(argv)
        if status != 0:
            said = (err.strip() or out.strip()).splitlines()[-15:]
            raise FleetError(f"{what} failed: {' '.join(argv)}: exit status {status}: " + "\n".join(said))
        return out

    @property
    def release(self) -> str:
        """Release of the running kernel."""
        return self.read("/proc/sys/kernel/osrelease").strip()

    @property
    def boot_id(self) -> str:
        """Id of this boot, another one after each reboot."""
        return self.read("/proc/sys/kernel/random/boot_id").strip()

    @property
    def cmdline(self) -> str:
        """Command line of the running kernel."""
        return self.read("/proc/cmdline").strip()

    def argument(self, name: str) -> str | None:
        """Return the value of ``name=value`` on the running kernel's command line, None without it."""
        for word in reversed(self.cmdline.split()):
            key, separator, value = word.partition("=")
            if key == name and separator:
                return value
        return None
