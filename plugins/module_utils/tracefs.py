# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to the files of tracefs that dynamic probe events live in."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

from .errors import FleetError

# What /sys/kernel/tracing/README says of each command letter of dynamic_events.
_README_MARKS = {
    "kprobe": "Create/append/remove/show the kernel dynamic events",
    "kretprobe": "r[maxactive][:[<group>/][<event>]]",
    "fprobe": "f[:[<group>/][<event>]]",
    "fexit": "f[:[<group>/][<event>]]",
    "tprobe": "t[:[<group>/][<event>]]",
    "eprobe": " <attached-group>.<attached-event>",
    "uprobe": "Create/append/remove/show the userspace dynamic events",
    "uretprobe": "Create/append/remove/show the userspace dynamic events",
}
# Files of an event that are one value.
_VALUES = ("enable", "filter")
DEFAULT_ROOT = "/sys/kernel/tracing"


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
    """The dynamic events of one tracefs mount (``root``).

    A *place* is a tracing instance by its name; "" is the top level.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._commands = -1
        self._old_errors: list[str] | None = None

    def path(self, *parts: str) -> str:
        """Return a path below the mount."""
        return os.path.join(self.root, *parts)

    def read(self, *parts: str) -> str:
        """Return a file's text; FileNotFoundError when the kernel has no such file."""
        return self._read("/".join((self.root, *parts)), whole=False)

    @staticmethod
    def _read(path: str, whole: bool) -> str:
        """Return a file's text; ``whole`` says that the kernel gives all of it at the first read."""
        # Thousands of small files are read: no buffered file objects.
        descriptor = os.open(path, os.O_RDONLY)
        try:
            chunks = [os.read(descriptor, 1 << 16)]
            while chunks[-1] and not whole:
                chunks.append(os.read(descriptor, 1 << 16))
        finally:
            os.close(descriptor)
        return b"".join(chunks).decode(errors="replace")

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

    # Places

    def instances(self) -> list[str]:
        """Return the names of the tracing instances."""
        try:
            return sorted(os.listdir(self.path("instances")))
        except FileNotFoundError:
            return []

    def make_instance(self, place: str) -> None:
        """Make a tracing instance."""
        os.mkdir(self.path("instances", place))

    def remove_instance(self, place: str) -> None:
        """Remove a tracing instance; OSError while somebody uses it."""
        os.rmdir(self.path("instances", place))

    def event_names(self) -> Iterator[tuple[str, str]]:
        """Return group and name of every event, also of those that are not dynamic."""
        root = self.path("events")
        for group in sorted(os.listdir(root)):
            # Files stand beside the groups and the events.
            with contextlib.suppress(NotADirectoryError):
                for name in sorted(os.listdir(os.path.join(root, group))):
                    if os.path.isdir(os.path.join(root, group, name)):
                        yield group, name

    def place(self, place: str, *parts: str) -> tuple[str, ...]:
        """Return the parts of a path in a place."""
        return ("instances", place, *parts) if place else parts

    def recording(self, place: str) -> set[str]:
        """Return the events (``GROUP/EVENT``) that record in a place."""
        return {line.strip().replace(":", "/", 1) for line in self.read(*self.place(place, "set_event")).splitlines()}

    # One event

    def event_file(self, name: str, file: str, place: str = "") -> str:
        """Return the stripped text of ``events/GROUP/EVENT/FILE`` of a place."""
        parts = (self.root, *self.place(place, "events"), name, file)
        return self._read("/".join(parts), whole=file in _VALUES).strip()

    def triggers(self, name: str, place: str = "") -> list[str]:
        """Return an event's triggers as the kernel shows them, without what counts down."""
        lines = self.event_file(name, "trigger", place).splitlines()
        return [normal_trigger(line) for line in lines if line and not line.startswith("#")]

    def set_event_file(self, name: str, file: str, text: str, place: str = "") -> None:
        """Write to ``events/GROUP/EVENT/FILE``; FleetError says what the kernel says."""
        try:
            self.write(text, *self.place(place, "events"), *name.split("/"), file)
        except OSError as exc:
            detail = f"{errno.errorcode.get(exc.errno or 0, exc.errno)} {exc.strerror}"
            if file == "filter":
                # The file holds the reason until another filter is written.
                with contextlib.suppress(OSError):
                    detail = self.event_file(name, file, place)
                    self.write("0", *self.place(place, "events"), *name.split("/"), file)
            elif file == "trigger":
                told = self.new_errors(text)
                detail += f"\n{told[-1]}" if told else ""
            where = f" in instance {place}" if place else ""
            raise FleetError(f"event {name}: {file} {text!r} was refused{where}: {detail}", event=name) from exc

    # Commands

    def begin(self) -> None:
        """Remember the messages that are in error_log before this run writes anything."""
        self._old_errors = self._errors()

    def command(self, name: str, line: str) -> None:
        """Give ``dynamic_events`` one command; FleetError carries the kernel's own message and caret."""
        try:
            if self._commands < 0:
                # One descriptor for all commands: with a thousand of them opening counts.
                self._commands = os.open(self.path("dynamic_events"), os.O_WRONLY | os.O_APPEND)
            os.write(self._commands, f"{line}\n".encode())
        except OSError as exc:
            told = self.new_errors(line)
            code = errno.errorcode.get(exc.errno or 0, str(exc.errno))
            text = "\n".join(told) if told else f"(the kernel logged no reason)\n  Command: {line}"
            raise FleetError(
                f"event {name}: the kernel refused the definition: {code} {exc.strerror}\n{text}",
                event=name,
                errno=code,
                kernel_message=text,
            ) from exc

    def close(self) -> None:
        """Close what is kept open between commands."""
        if self._commands >= 0:
            os.close(self._commands)
            self._commands = -1

    def new_errors(self, command: str) -> list[str]:
        """Return the kernel's messages about ``command`` since ``begin``, without their time stamps."""
        old = self._old_errors or []
        now = self._errors()
        new = [block for block in now if block not in old]
        about = [block for block in new if f"Command: {command}" in block]
        return [block.partition("] ")[2] for block in (about or new[-1:])]

    def _errors(self) -> list[str]:
        """Return the blocks of error_log, oldest first."""
        try:
            text = self.read("error_log")
        except OSError:
            return []
        blocks: list[str] = []
        for line in text.splitlines():
            if line.startswith("["):
                blocks.append(line)
            elif blocks:
                blocks[-1] += "\n" + line
        return blocks

    # Trace buffers

    def setting(self, place: str, name: str) -> str | None:
        """Return a buffer setting (buffer_size_kb, trace_clock, disable_bpf) in short, None if there is none."""
        file = ("options", name) if name == "disable_bpf" else (name,)
        try:
            text = self.read(*self.place(place, *file)).strip()
        except FileNotFoundError:
            return None
        if name == "trace_clock":
            found = re.search(r"\[(\S+)\]", text)
            return found[1] if found else text
        if name == "buffer_size_kb":
            found = re.search(r"expanded: (\d+)", text)
            return found[1] if found else text
        return text

    def set_setting(self, place: str, name: str, value: str) -> None:
        """Change a buffer setting; FleetError says why not."""
        file = ("options", name) if name == "disable_bpf" else (name,)
        try:
            self.write(value, *self.place(place, *file))
        except OSError as exc:
            where = f"instance {place}" if place else "the top level"
            code = errno.errorcode.get(exc.errno or 0, str(exc.errno))
            raise FleetError(f"{name} {value!r} of {where} was refused: {code} {exc.strerror}") from exc


def normal_trigger(text: str) -> str:
    """Return a trigger without what the kernel adds or counts down: it can be written again as it is.

    >>> normal_trigger("traceoff:count=4 if a > 1")
    'traceoff if a > 1'
    >>> normal_trigger("hist:keys=a:vals=hitcount:sort=hitcount:size=2048 [active]")
    'hist:keys=a:vals=hitcount:sort=hitcount:size=2048'
    """
    command, space, condition = text.strip().partition(" if ")
    command = re.sub(r"\s+\[(active|paused)\]\Z", "", command)
    condition = re.sub(r"\s+\[(active|paused)\]\Z", "", condition)
    command = re.sub(r":(unlimited|count=\d+|\d+)\Z", "", command)
    return command + space + condition


def removal_of(trigger: str) -> str:
    """Return what removes a trigger; the kernel takes only a hist's condition into account."""
    text = normal_trigger(trigger)
    return "!" + (text if text.startswith("hist:") else text.partition(" if ")[0])
