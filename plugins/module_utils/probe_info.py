# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be told of the probe events that a host has."""

from __future__ import annotations

from typing import Any

from .errors import FleetError
from .probe_run import observe
from .probe_state import State
from .probes import parse_line, split_arg
from .tracefs import Tracefs


def all_events(tracefs: Tracefs, state: State) -> list[dict[str, Any]]:
    """Return every registered event, then those that are declared but not there."""
    counts, programs = profile(tracefs), bpf_programs(tracefs)
    events = []
    registered = observe(tracefs)
    places = ["", *tracefs.instances()]
    for name, event in registered.items():
        short = name.partition("/")[2]
        filters, triggers = {}, {}
        for place in places:
            try:
                shown = tracefs.event_file(name, "filter", place)
                lines = tracefs.triggers(name, place)
            except FileNotFoundError:
                # Synthetic events have other files.
                continue
            filters.update({place: shown} if shown != "none" else {})
            triggers.update({place: lines} if lines else {})
        record = state.events.get(name, {})
        hits, misses = counts.get(short, (0, 0))
        events.append(
            {
                "name": name,
                "registered": True,
                "probes": [probe_of(line) for line in event.lines],
                "recording_in": sorted(event.on),
                "filters": filters,
                "triggers": triggers,
                "hits": hits,
                "misses": misses,
                "counted": short in counts,
                "bpf": programs.get(name, {}),
                "declared": record.get("item", {}),
                "pending": record.get("pending", ""),
            }
        )
    for name, record in sorted(state.events.items()):
        if name not in registered:
            events.append(
                {
                    "name": name,
                    "registered": False,
                    "probes": [],
                    "recording_in": [],
                    "filters": {},
                    "triggers": {},
                    "hits": 0,
                    "misses": 0,
                    "counted": False,
                    "bpf": {},
                    "declared": record["item"],
                    "pending": record.get("pending", ""),
                }
            )
    return events


def probe_of(line: str) -> dict[str, Any]:
    """Return one line of dynamic_events in its parts; a kind that is not ours only as the line."""
    try:
        _name, probe = parse_line(line)
    except FleetError:
        return {"type": "other", "target": "", "args": [], "maxactive": None, "line": line}
    args = []
    for arg in probe.args:
        name, fetch, kind = split_arg(arg)
        args.append({"name": name, "fetch": fetch, "type": kind})
    return {
        "type": probe.kind,
        "target": probe.target,
        "args": args,
        "maxactive": probe.maxactive,
        "line": line,
    }


def profile(tracefs: Tracefs) -> dict[str, tuple[int, int]]:
    """Return hits and misses by the event's name without its group, which the kernel does not tell."""
    counts: dict[str, tuple[int, int]] = {}
    for file, misses_too in (("kprobe_profile", True), ("uprobe_profile", False)):
        try:
            text = tracefs.read(file)
        except OSError:
            continue
        for line in text.splitlines():
            words = line.split()
            # A uprobe's line begins with the file, which may hold spaces.
            name, hits, misses = words[-3:] if misses_too else (words[-2], words[-1], "0")
            before = counts.get(name, (0, 0))
            counts[name] = (before[0] + int(hits), before[1] + int(misses))
    return counts


def bpf_programs(tracefs: Tracefs) -> dict[str, dict[str, str]]:
    """Return what the kernel tells of events whose args it compiled, by ``GROUP/EVENT``."""
    try:
        text = tracefs.read("fetcharg_bpf")
    except OSError:
        return {}
    programs = {}
    for line in text.splitlines():
        words = line.split()
        fields = dict(word.partition("=")[::2] for word in words[1:] if "=" in word)
        if fields:
            programs[words[0]] = fields
    return programs
