# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel's dynamic events in memory, with the rules that the real one has: busy, same probe, other format."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_lines import foretold
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_plan import Registered
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import parse_line, signature
from ansible_collections.fetchbpf.fleet.plugins.module_utils.tracefs import Tracefs, normal_trigger


class FakeTracefs(Tracefs):
    """``log`` is everything that was written. A symbol ``nope`` is refused, deletion of ``wiped`` events is noted."""

    def __init__(self) -> None:
        super().__init__("/fake")
        self.lines: dict[str, list[str]] = {}
        self.on: dict[str, set[str]] = {"": set()}
        self.files: dict[tuple[str, str, str], Any] = {}
        self.log: list[str] = []
        self.wiped: list[str] = []
        self.refuse: set[str] = set()

    def begin(self) -> None:
        pass

    def instances(self) -> list[str]:
        return sorted(set(self.on) - {""})

    def make_instance(self, place: str) -> None:
        self.log.append(f"mkdir {place}")
        self.on[place] = set()

    def remove_instance(self, place: str) -> None:
        self.log.append(f"rmdir {place}")
        del self.on[place]

    def event_file(self, name: str, file: str, place: str = "") -> str:
        return self.files.get((name, file, place), "none")

    def triggers(self, name: str, place: str = "") -> list[str]:
        return [normal_trigger(text) for text in self.files.get((name, "trigger", place), [])]

    def set_event_file(self, name: str, file: str, text: str, place: str = "") -> None:
        where = f"{place}:" if place else ""
        self.log.append(f"{where}{name} {file}={text}")
        if name not in self.lines or text in self.refuse:
            raise FleetError(f"event {name}: {file} {text!r} was refused", event=name)
        if file == "enable":
            (self.on[place].add if text == "1" else self.on[place].discard)(name)
        elif file == "filter":
            self.files[name, file, place] = "none" if text == "0" else text
        else:
            known = self.files.setdefault((name, file, place), [])
            # A counted trigger shows what is left, and a second one of its kind is refused.
            text = re.sub(r"\Atrace(on|off):(\d+)", r"trace\1:count=\2", text)
            if text.startswith("!"):
                known[:] = [one for one in known if not one.startswith(text[1:])]
            elif text in known:
                raise FleetError(f"event {name}: EEXIST", event=name)
            else:
                known.append(text)

    def command(self, name: str, line: str) -> None:
        self.log.append(line)
        if line.startswith("-:"):
            self._delete(name, line.split()[1:])
            return
        _name, probe = parse_line(line)
        if probe.target == "nope":
            raise FleetError(f"event {name}: ENOENT", event=name, errno="ENOENT")
        if probe.kind == "tprobe" and any(lines[0].split()[1] == probe.target for lines in self.lines.values()):
            # As 6.12 does: a trace point takes one.
            raise FleetError(f"event {name}: EEXIST", event=name, errno="EEXIST")
        shown = foretold(name, probe) or line
        if probe.kind == "kretprobe" and probe.maxactive is None:
            shown = "r10" + shown[1:]
        for other in self.lines.get(name, []):
            if other.split()[1:] == shown.split()[1:]:
                raise FleetError(f"event {name}: EEXIST", event=name, errno="EEXIST")
            if signature(parse_line(other)[1].args) != signature(parse_line(shown)[1].args):
                raise FleetError(f"event {name}: EEXIST, other format", event=name, errno="EEXIST")
        self.lines.setdefault(name, []).append(shown)

    def _delete(self, name: str, words: list[str]) -> None:
        matching = [line for line in self.lines.get(name, []) if not words or line.split()[1:] == words]
        if not matching:
            raise FleetError(f"event {name}: ENOENT", event=name, errno="ENOENT")
        rest = [line for line in self.lines[name] if line not in matching]
        attached = any(f" {name.replace('/', '.')}" in line for lines in self.lines.values() for line in lines)
        held = any(self.files.get((name, "trigger", place)) for place in self.on)
        if not rest and (attached or held or any(name in on for on in self.on.values())):
            raise FleetError(f"event {name}: EBUSY", event=name, errno="EBUSY")
        if rest:
            self.lines[name] = rest
            return
        del self.lines[name]
        self.wiped.append(name)
        self.files = {key: value for key, value in self.files.items() if key[0] != name}

    def definitions(self) -> dict[str, list[str]]:
        return dict(self.lines)

    def event_names(self) -> Any:
        return (tuple(name.split("/")) for name in self.lines)

    def registered(self) -> dict[str, Registered]:
        return {
            name: Registered(tuple(lines), frozenset(place for place, on in self.on.items() if name in on))
            for name, lines in self.lines.items()
        }

    def everything(self) -> Any:
        """Return all that there is, to compare with later."""
        files = {key: list(value) if isinstance(value, list) else value for key, value in self.files.items()}
        files = {key: value for key, value in files.items() if value not in ("none", [])}
        return (
            {name: sorted(lines) for name, lines in self.lines.items()},
            {place: set(on) for place, on in self.on.items()},
            files,
        )
