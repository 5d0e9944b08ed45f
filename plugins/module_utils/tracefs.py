# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to the files of tracefs that dynamic probe events live in."""

from __future__ import annotations

import errno
import os

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

# What /sys/kernel/tracing/README says of each command letter of dynamic_events.
_README_MARKS = {
    "kprobe": "Create/append/remove/show the kernel dynamic events",
    "kretprobe": "r[maxactive][:[<group>/][<event>]]",
    "fprobe": "f[:[<group>/][<event>]]",
    "fexit": "f[:[<group>/][<event>]]",
    "tprobe": "t[:[<group>/][<event>]]",
    "eprobe": "e[:[<group>/][<event>]]",
    "uprobe": "Create/append/remove/show the userspace dynamic events",
    "uretprobe": "Create/append/remove/show the userspace dynamic events",
}


def find_tracefs(mounts: str = "/proc/self/mounts") -> str | None:
    """Return where tracefs is mounted, or None.

    A mount under debugfs is taken only when there is no other.
    """
    found = []
    with open(mounts, encoding="utf-8") as handle:
        for line in handle:
            fields = line.split()
            if len(fields) > 2 and fields[2] == "tracefs":
                found.append(fields[1])
    found.sort(key=lambda path: "/debug/" in path)
    return found[0] if found else None


class Tracefs:
    """The dynamic events of one tracefs mount (``root``)."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, *parts: str) -> str:
        """Return a path below the mount."""
        return os.path.join(self.root, *parts)

    def read(self, *parts: str) -> str:
        """Return a file's text; FileNotFoundError when the kernel has no such file."""
        with open(self.path(*parts), encoding="utf-8", errors="replace") as handle:
            return handle.read()

    def write(self, text: str, *parts: str) -> None:
        """Write ``text`` in one write(2), as tracefs wants; never truncates."""
        # O_TRUNC on dynamic_events deletes everybody's events.
        descriptor = os.open(self.path(*parts), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def kinds(self) -> set[str]:
        """Return the kinds of probe that the running kernel offers."""
        readme = self.read("README")
        return {kind for kind, mark in _README_MARKS.items() if mark in readme}

    def definitions(self) -> dict[str, list[str]]:
        """Return the registered lines by ``GROUP/EVENT``, in the kernel's order."""
        events: dict[str, list[str]] = {}
        for line in self.read("dynamic_events").splitlines():
            head = line.split(None, 1)[0]
            _letter, _colon, name = head.partition(":")
            if name:
                events.setdefault(name, []).append(line)
        return events

    def event_file(self, name: str, file: str) -> str:
        """Return the stripped text of ``events/GROUP/EVENT/FILE``."""
        return self.read("events", *name.split("/"), file).strip()

    def set_event_file(self, name: str, file: str, text: str) -> None:
        """Write to ``events/GROUP/EVENT/FILE``; FleetError says what the kernel says."""
        try:
            self.write(text, "events", *name.split("/"), file)
        except OSError as exc:
            detail = self.event_file(name, file) if file == "filter" else exc.strerror
            if file == "filter":
                self.write("0", "events", *name.split("/"), file)
            raise FleetError(f"{name}: {file} {text!r} was refused: {detail}") from exc

    def command(self, name: str, line: str) -> None:
        """Give ``dynamic_events`` one command; FleetError carries the kernel's own message and caret."""
        before = self._errors()
        try:
            self.write(line + "\n", "dynamic_events")
        except OSError as exc:
            told = self._errors()[len(before) :] if len(self._errors()) > len(before) else []
            if not told and self._errors() != before:
                told = self._errors()[-1:]
            code = errno.errorcode.get(exc.errno or 0, str(exc.errno))
            text = "\n".join(told) if told else f"(the kernel logged no reason)\n  Command: {line}"
            raise FleetError(
                f"{name}: the kernel refused the definition: {code} {exc.strerror}\n{text}", event=name
            ) from exc

    def _errors(self) -> list[str]:
        """Return the blocks of error_log, oldest first, without their time stamps."""
        try:
            text = self.read("error_log")
        except OSError:
            return []
        blocks: list[str] = []
        for line in text.splitlines():
            if line.startswith("["):
                blocks.append(line.partition("] ")[2])
            elif blocks:
                blocks[-1] += "\n" + line
        return blocks
