# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared probe events: from what a user writes to the commands that the kernel gets.

Nothing here looks at a host; what can be known to be wrong without one is
refused here, with a message that names the event and the part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import FleetError

KINDS = ("kprobe", "kretprobe", "fprobe", "fexit", "tprobe", "eprobe", "uprobe", "uretprobe")
USER_KINDS = ("uprobe", "uretprobe")
RETURN_KINDS = ("kretprobe", "fexit", "uretprobe")
LETTER = {"kretprobe": "r", "uretprobe": "r", "fprobe": "f", "fexit": "f", "tprobe": "t", "eprobe": "e"}
# Groups that other tools register in when they name none; nobody owns them.
SHARED_GROUPS = ("kprobes", "uprobes", "fprobes", "tracepoints", "eprobes", "synthetic")

# Limits that all kernels share.
MAX_NAME = 63
MAX_ARG_NAME = 32
MAX_ARGS = 128
MAX_ARRAY = 64
MAX_RECORD = 3072
MAX_COMMAND = 4094
MAX_ACTIVE = 4096

_EVENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_GROUP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_INSTANCE_NAME = re.compile(r"[A-Za-z0-9_.:-]+\Z")
_RESERVED_ARGS = (
    *("common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid"),
    *("__probe_ip", "__probe_ret_ip", "__probe_func"),
)
_RAW = re.compile(r"(?P<letter>[a-z-])(?P<max>\d*)(?::(?P<name>\S*))?\s+(?P<target>\S+)(?P<rest>.*)\Z")
_TYPE = re.compile(
    r"(?:(?P<sign>[usx])(?P<bits>8|16|32|64)|(?P<word>char|string|ustring|symbol|symstr|%pd|%pD)"
    r"|b\d+@\d+/(?P<container>8|16|32|64))(?:\[(?P<count>\d+)\])?\Z"
)
_DEREFERENCE = re.compile(r"[+-]u?(?:0x[0-9a-fA-F]+|\d+)?\(")
_ARG_NAME = re.compile(r"([A-Za-z_]\w*)=")
_NO_WORD = re.compile(r"[\s#]")
_BTF_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:->|\.)\w+)*\Z")


@dataclass(frozen=True)
class Limits:
    """What differs between kernels: how deep dereferences nest, how long an argument's expression may be."""

    nesting: int
    expression: int


def limits_of(release: str) -> Limits:
    """Return the limits of a kernel release.

    The kernel tells them to nobody, so they go by the version: 6.1, 6.12 and
    7.3 were tried. Between them the wider is taken. What nests less deep but
    is too much with its type, only the kernel can tell.
    """
    found = re.match(r"(\d+)\.(\d+)", release)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version <= (6, 12):
        return Limits(nesting=14, expression=63)
    if version >= (7, 3):
        return Limits(nesting=8, expression=255)
    return Limits(nesting=14, expression=255)


@dataclass(frozen=True)
class Probe:
    """One probe of an event: where it sits and what it fetches.

    ``tail`` is what follows an eprobe's arguments: ``if FILTER``.
    """

    kind: str
    target: str
    args: tuple[str, ...] = ()
    maxactive: int | None = None
    tail: str = ""

    def command(self, name: str) -> str:
        """Return the command that registers the probe on event ``name`` (``GROUP/EVENT``)."""
        suffix = "%return" if self.kind == "fexit" else ""
        words = [f"{LETTER.get(self.kind, 'p')}{self.maxactive or ''}:{name}", self.target + suffix, *self.args]
        return " ".join([*words, self.tail] if self.tail else words)


@dataclass(frozen=True)
class Event:
    """One declared event.

    ``name`` is ``GROUP/EVENT``. ``triggers`` is None where they are nobody's
    business. ``item`` is the declaration in the user's words. ``pins`` are
    (device, inode) of the files that its uprobes sit in.
    """

    name: str
    probes: tuple[Probe, ...]
    enabled: bool = True
    filter: str = ""
    triggers: tuple[str, ...] | None = None
    instances: tuple[str, ...] = ()
    optional: bool = False
    item: dict[str, Any] = field(default_factory=dict, compare=False)
    pins: tuple[tuple[int, int], ...] = ()
    # What registers the probes, made once: it is compared a few times in each run.
    commands: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "commands", tuple([probe.command(self.name) for probe in self.probes]))

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]

    @property
    def kind(self) -> str:
        return self.probes[0].kind

    @property
    def places(self) -> tuple[str, ...]:
        """Where filter and triggers are set: instances, "" being the top level."""
        return (("",) if self.enabled or not self.instances else ()) + self.instances

    def on_in(self, place: str) -> bool:
        """Return whether the event is to record in ``place``."""
        return self.enabled if place == "" else place in self.instances


def arg_text(arg: Any, label: str) -> str:
    """Return one argument in the kernel's notation; it may be a mapping of name, fetch and type."""
    if isinstance(arg, dict):
        extra = set(arg) - {"name", "fetch", "type"}
        if extra or not arg.get("fetch"):
            wrong = f"has the unknown key {sorted(extra)[0]}" if extra else "lacks the key fetch"
            raise FleetError(f"{label}: arg {arg} {wrong}; an arg has name, fetch and type")
        name, kind = arg.get("name"), arg.get("type")
        return (f"{name}=" if name else "") + str(arg["fetch"]) + (f":{kind}" if kind else "")
    return str(arg)


def split_arg(arg: str) -> tuple[str, str, str]:
    """Return name, expression and type of an argument, each "" where it is not there."""
    found = _ARG_NAME.match(arg)
    name, rest = (found[1], arg[found.end() :]) if found else ("", arg)
    if rest.startswith('\\"'):
        close = rest.find('"', 2)
        return name, rest[: close + 1], rest[close + 2 :] if rest[close + 1 : close + 2] == ":" else ""
    start = rest.rfind(")") + 1
    colon = rest.find(":", start)
    return (name, rest, "") if colon < 0 else (name, rest[:colon], rest[colon + 1 :])


def needs_btf(probe: Probe) -> str:
    """Return the first argument that only a kernel with BTF understands, or ""."""
    if probe.kind in (*USER_KINDS, "eprobe"):
        return ""
    for arg in probe.args:
        expression = split_arg(arg)[1]
        inner = re.sub(r"^(?:[+-]u?(?:0x[0-9a-fA-F]+|\d+)?\()*|\)*$", "", expression)
        if expression == "$arg*" or _BTF_NAME.match(inner) or "->" in expression:
            return arg
    return ""


def _check_args(args: tuple[str, ...], label: str, limits: Limits) -> None:
    if len(args) > MAX_ARGS:
        raise FleetError(f"{label}: {len(args)} args; the kernel takes {MAX_ARGS}")
    names: set[str] = set()
    record = 0
    for arg in args:
        if not arg or _NO_WORD.search(arg):
            raise FleetError(f"{label}: arg {arg!r} must be one word without '#'")
        name, expression, kind = split_arg(arg)
        if not expression:
            raise FleetError(f"{label}: arg {arg!r} fetches nothing")
        if not name and "=" in arg.partition("(")[0] and not arg.startswith("\\"):
            raise FleetError(f"{label}: arg {arg!r}: its name may hold letters, digits and _ and starts with no digit")
        if len(name) > MAX_ARG_NAME:
            raise FleetError(f"{label}: arg name {name} has {len(name)} characters; the kernel takes {MAX_ARG_NAME}")
        if name in _RESERVED_ARGS:
            raise FleetError(f"{label}: arg name {name} is a field that every event has")
        if name and name in names:
            raise FleetError(f"{label}: two args have the name {name}")
        names.add(name)
        body = arg[len(name) + 1 :] if name else arg
        if len(body) > limits.expression:
            raise FleetError(f"{label}: arg {arg!r} has {len(body)} characters; this kernel takes {limits.expression}")
        depth = len(_DEREFERENCE.findall(expression))
        if depth > limits.nesting:
            raise FleetError(f"{label}: arg {arg!r} nests {depth} dereferences; this kernel takes {limits.nesting}")
        record += _arg_size(arg, kind, label)
    if record > MAX_RECORD:
        raise FleetError(f"{label}: the args take {record} bytes of a record; the kernel takes {MAX_RECORD}")


def _arg_size(arg: str, kind: str, label: str) -> int:
    """Return how many bytes of a record an argument takes; FleetError for a type there is none of."""
    if not kind:
        return 8
    found = _TYPE.match(kind)
    if not found:
        raise FleetError(
            f"{label}: arg {arg!r} has the unknown type {kind!r}; types are u8 s8 x8 (also 16, 32, 64), char, string, "
            "ustring, symbol, symstr, %pd, %pD, bWIDTH@OFFSET/SIZE, each also as TYPE[COUNT]"
        )
    count = int(found["count"]) if found["count"] else 1
    if found["count"] and not 1 <= count <= MAX_ARRAY:
        raise FleetError(f"{label}: arg {arg!r} has {count} elements; the kernel takes 1 to {MAX_ARRAY}")
    bits = found["bits"] or found["container"]
    one = int(bits) // 8 if bits else {"char": 1, "symbol": 8}.get(found["word"], 4)
    return one * count


def _check_probe(probe: Probe, label: str, limits: Limits) -> None:
    if probe.kind not in KINDS:
        raise FleetError(f"{label}: unknown type {probe.kind!r}; types are {', '.join(KINDS)}")
    if not probe.target or _NO_WORD.search(probe.target):
        raise FleetError(f"{label}: target {probe.target!r} must be one word")
    if probe.kind in USER_KINDS:
        path, colon, place = probe.target.rpartition(":")
        if not path.startswith("/") or not colon or not place:
            raise FleetError(f"{label}: target {probe.target!r} must be an absolute PATH:OFFSET or PATH:SYMBOL")
    elif "/" in probe.target:
        raise FleetError(f"{label}: target {probe.target!r} is a file, which a {probe.kind} cannot sit in")
    elif probe.kind == "eprobe" and not re.match(r"[^.\s]+\.[^.\s]+\Z", probe.target):
        raise FleetError(f"{label}: target {probe.target!r} must be SYSTEM.EVENT")
    elif probe.kind in ("fprobe", "fexit") and ":" in probe.target:
        raise FleetError(
            f"{label}: target {probe.target!r}: an fprobe takes the function's name without its module "
            "(a kprobe takes MODULE:SYMBOL)"
        )
    elif probe.kind in ("fprobe", "fexit", "tprobe") and "+" in probe.target:
        raise FleetError(f"{label}: target {probe.target!r}: a {probe.kind} takes no offset")
    if probe.maxactive is not None and probe.kind != "kretprobe":
        raise FleetError(f"{label}: maxactive belongs to a kretprobe, not to a {probe.kind}")
    if probe.maxactive is not None and not 1 <= probe.maxactive <= MAX_ACTIVE:
        raise FleetError(f"{label}: maxactive {probe.maxactive} is not between 1 and {MAX_ACTIVE}")
    if probe.tail and probe.kind != "eprobe":
        raise FleetError(f"{label}: 'if' belongs to an eprobe, not to a {probe.kind}; use filter")
    _check_args(probe.args, label, limits)


def _normal_target(kind: str, target: str) -> str:
    """Return a target without what its kind says anyway, an eprobe's with its dot."""
    if kind in RETURN_KINDS and target.endswith("%return"):
        target = target[: -len("%return")]
    if kind == "eprobe" and "." not in target:
        target = target.replace("/", ".", 1)
    return target


def parse_line(line: str, label: str = "definition") -> tuple[str, Probe]:
    """Return the name (``GROUP/EVENT``, either part may be missing) and the probe of a raw definition line.

    As in the kernel, what follows a ``#`` is a comment and spaces do not count.
    """
    text = line.partition("#")[0].strip()
    found = _RAW.match(text)
    if not found or found["letter"] not in "prfte":
        raise FleetError(f"{label}: {line!r} is no definition; it begins with p, r, f, t or e, then :GROUP/EVENT")
    words, tail = found["rest"].split(), ""
    if "if" in words:
        cut = words.index("if")
        words, tail = words[:cut], " ".join(words[cut:])
    letter, target = found["letter"], found["target"]
    returns = target.endswith("%return") or letter == "r"
    user = "/" in target and letter in "pr"
    kind = {"t": "tprobe", "e": "eprobe"}.get(letter, "")
    if letter == "f":
        # The kernel makes an exit probe of one that fetches the return value.
        kind = "fexit" if returns or any("$retval" in word for word in words) else "fprobe"
    elif user:
        kind = "uretprobe" if returns else "uprobe"
    elif not kind:
        kind = "kretprobe" if returns else "kprobe"
    maxactive = int(found["max"]) if found["max"] else None
    name = (found["name"] or "").replace(".", "/", 1)
    return name, Probe(kind, _normal_target(kind, target), tuple(words), maxactive, tail)


def _parse_probe(item: dict[str, Any], label: str) -> tuple[str, Probe]:
    """Return the name in the definition line, if there is one, and the probe of an item."""
    if item.get("definition"):
        given = [key for key in ("type", "target", "args", "maxactive") if item.get(key)]
        if given:
            raise FleetError(f"{label}: definition says it all; {', '.join(given)} cannot be given beside it")
        return parse_line(item["definition"], label)
    for key in ("type", "target"):
        if not item.get(key):
            raise FleetError(f"{label}: {key} is missing (or a whole definition line)")
    kind, args = str(item["type"]), item.get("args") or []
    if kind not in KINDS:
        raise FleetError(f"{label}: unknown type {kind!r}; types are {', '.join(KINDS)}")
    words = tuple(arg_text(arg, label) for arg in args)
    return "", Probe(kind, _normal_target(kind, str(item["target"])), words, item.get("maxactive"))


def _name(item: dict[str, Any], in_line: str, default_group: str) -> str:
    """Return ``GROUP/EVENT`` of an item whose definition line may name the event too."""
    head, _slash, event = in_line.rpartition("/")
    group = item.get("group") or head or default_group
    event = item.get("name") or event
    label = f"event {group}/{event}" if event else f"event {item.get('definition')!r}"
    if not event:
        raise FleetError(f"{label}: give it a name; one that the kernel makes up cannot be told from others")
    if in_line and in_line not in (event, f"{group}/{event}"):
        raise FleetError(f"{label}: its definition calls it {in_line}")
    if not _EVENT_NAME.match(event):
        raise FleetError(f"{label}: the name may hold letters, digits and _ and does not start with a digit")
    if not _GROUP_NAME.match(group):
        raise FleetError(f"{label}: the group may hold letters, digits, _ and - and does not start with a digit")
    for what, text in (("name", event), ("group", group)):
        if len(text) > MAX_NAME:
            raise FleetError(f"{label}: the {what} has {len(text)} characters; the kernel takes {MAX_NAME}")
    return f"{group}/{event}"


def event_name(item: dict[str, Any], default_group: str) -> str:
    """Return ``GROUP/EVENT`` of an item, also of one that only says which event is to be absent."""
    in_line = parse_line(item["definition"])[0] if item.get("definition") else ""
    return _name(item, in_line, default_group)


def parse_event(item: dict[str, Any], default_group: str, limits: Limits) -> Event:
    """Return the event that one list item declares; FleetError names what is wrong with it."""
    guess = f"event {item.get('group') or default_group}/{item.get('name') or '?'}"
    in_line, first = _parse_probe(item, guess)
    name = _name(item, in_line, default_group)
    label = f"event {name}"
    probes = [first]
    for more in item.get("append") or []:
        other, probe = _parse_probe({"type": first.kind, **more} if "definition" not in more else more, label)
        if other not in ("", name, name.partition("/")[2]):
            raise FleetError(f"{label}: the probe to append calls the event {other}")
        probes.append(probe)
    for probe in probes:
        _check_probe(probe, label, limits)
    _check_together(probes, label)
    instances = tuple(dict.fromkeys(item.get("instances") or []))
    for instance in instances:
        if not _INSTANCE_NAME.match(instance) or instance in (".", ".."):
            raise FleetError(f"{label}: instance {instance!r} may hold letters, digits and _ . : -")
    triggers = item.get("triggers")
    # An empty list of triggers says that there are to be none.
    kept = {key: value for key, value in item.items() if value or value is False or (key, value) == ("triggers", [])}
    kept["group"], _slash, kept["name"] = name.partition("/")
    event = Event(
        name=name,
        probes=tuple(probes),
        enabled=item.get("enabled", True) is not False,
        filter=(item.get("filter") or "").strip(),
        triggers=None if triggers is None else tuple(" ".join(text.split()) for text in triggers),
        instances=instances,
        optional=bool(item.get("optional")),
        item=kept,
    )
    for command in event.commands:
        if len(command) > MAX_COMMAND:
            raise FleetError(f"{label}: the definition has {len(command)} characters; the kernel takes {MAX_COMMAND}")
    return event


def _check_together(probes: list[Probe], label: str) -> None:
    """Refuse probes that cannot share one event."""
    if len(probes) == 1:
        return
    first = probes[0]
    if first.kind in ("eprobe", "tprobe"):
        raise FleetError(f"{label}: the kernel appends no {first.kind} to an event")
    for probe in probes[1:]:
        if probe.kind != first.kind:
            raise FleetError(f"{label}: a {probe.kind} cannot be appended to a {first.kind}")
        if signature(probe.args) != signature(first.args):
            raise FleetError(f"{label}: appended probes need args of the same names and types as the first")
    if len({(probe.target, probe.args) for probe in probes}) < len(probes):
        raise FleetError(f"{label}: the same probe is appended twice")


def signature(args: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return names and types of arguments, by which the kernel knows an event's format."""
    return tuple((split_arg(arg)[0], split_arg(arg)[2]) for arg in args)


def with_targets(event: Event, targets: list[str], pins: list[tuple[int, int]]) -> Event:
    """Return the event with its uprobes at the resolved ``targets``, in the files ``pins``."""
    probes = tuple(replace(probe, target=target) for probe, target in zip(event.probes, targets))
    return replace(event, probes=probes, pins=tuple(pins))
