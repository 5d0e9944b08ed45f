# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared probe events: their grammar, and the smallest change that makes them true.

The kernel rewrites what is registered (it names arguments, fills in maxactive,
expands ``$arg*``), so its text cannot be compared with a declaration. What was
declared and what the kernel made of it are therefore remembered side by side:
an event is unchanged when its declaration is the remembered one *and* the
kernel still shows the remembered text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

KINDS = ("kprobe", "kretprobe", "fprobe", "fexit", "tprobe", "eprobe", "uprobe", "uretprobe")
_LETTER = {"kretprobe": "r", "fprobe": "f", "fexit": "f", "tprobe": "t", "eprobe": "e"}
# Kernel limits (MAX_EVENT_NAME_LEN less the final NUL, MAX_TRACE_ARGS).
MAX_NAME = 63
MAX_ARGS = 128
MAX_COMMAND = 4094
_EVENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_GROUP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True)
class Probe:
    """One declared event: ``name`` is ``GROUP/EVENT``, ``definition`` the kernel's command."""

    name: str
    kind: str
    definition: str
    enabled: bool
    filter: str


def parse_probe(item: dict[str, Any], default_group: str) -> Probe:
    """Return the probe that one list item declares; FleetError names what is wrong with it."""
    event, group, kind, target = item["name"], item.get("group") or default_group, item["type"], item["target"]
    label = f"event {group}/{event}"
    if not _EVENT_NAME.match(event):
        raise FleetError(f"{label}: the name may hold letters, digits and _ and does not start with a digit")
    if not _GROUP_NAME.match(group):
        raise FleetError(f"{label}: the group may hold letters, digits, _ and - and does not start with a digit")
    for what, text in (("name", event), ("group", group)):
        if len(text) > MAX_NAME:
            raise FleetError(f"{label}: the {what} has {len(text)} characters; the kernel takes {MAX_NAME}")
    if not target or re.search(r"\s", target):
        raise FleetError(f"{label}: target {target!r} must be one word")
    args = item.get("args") or []
    if len(args) > MAX_ARGS:
        raise FleetError(f"{label}: {len(args)} args; the kernel takes {MAX_ARGS}")
    for arg in args:
        if not arg or re.search(r"[\s#]", arg):
            raise FleetError(f"{label}: arg {arg!r} must be one word without '#'")
    maxactive = item.get("maxactive")
    if maxactive is not None and kind != "kretprobe":
        raise FleetError(f"{label}: maxactive belongs to a kretprobe, not to a {kind}")
    if maxactive is not None and not 1 <= maxactive <= 4096:
        raise FleetError(f"{label}: maxactive {maxactive} is not between 1 and 4096")
    if kind in ("fexit", "uretprobe") and not target.endswith("%return"):
        target += "%return"
    head = f"{_LETTER.get(kind, 'p')}{maxactive or ''}:{group}/{event}"
    definition = " ".join([head, target, *args])
    if len(definition) > MAX_COMMAND:
        raise FleetError(f"{label}: the definition has {len(definition)} characters; the kernel takes {MAX_COMMAND}")
    return Probe(f"{group}/{event}", kind, definition, item.get("enabled", True), (item.get("filter") or "").strip())


@dataclass
class Plan:
    """What has to be done, in this order: disable and delete, create, set filters, switch."""

    delete: list[str] = field(default_factory=list)
    create: list[Probe] = field(default_factory=list)
    refilter: list[Probe] = field(default_factory=list)
    switch: list[Probe] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.delete or self.create or self.refilter or self.switch)


@dataclass(frozen=True)
class Registered:
    """What the kernel shows of one event: its lines, whether it is on, its filter."""

    lines: tuple[str, ...]
    enabled: bool
    filter: str


def make_plan(
    wanted: list[Probe],
    absent: set[str],
    registered: dict[str, Registered],
    remembered: dict[str, dict[str, Any]],
    exclusive_groups: set[str],
) -> Plan:
    """Return the smallest change that makes ``wanted`` true.

    ``registered`` is by ``GROUP/EVENT``; ``remembered`` is what an earlier run
    declared and read back (``definition``, ``lines``, ``filter``,
    ``filter_shown``). Events of ``exclusive_groups`` that nobody declares go.
    """
    plan = Plan()
    names = {probe.name for probe in wanted}
    for name in registered:
        undeclared = name not in names and name.split("/")[0] in exclusive_groups
        if name in absent or undeclared:
            plan.delete.append(name)
    for probe in wanted:
        now, before = registered.get(probe.name), remembered.get(probe.name)
        same = (
            now is not None
            and before is not None
            and before["definition"] == probe.definition
            and tuple(before["lines"]) == now.lines
        )
        if not same or now is None or before is None:
            if now is not None:
                plan.delete.append(probe.name)
            plan.create.append(probe)
            continue
        if probe.filter != before["filter"] or now.filter != before["filter_shown"]:
            plan.refilter.append(probe)
        if probe.enabled != now.enabled:
            plan.switch.append(probe)
    # An eprobe goes before, and comes after, the event it is attached to.
    plan.delete.sort(key=lambda name: not registered[name].lines[0].startswith("e"))
    plan.create.sort(key=lambda probe: probe.kind == "eprobe")
    return plan
