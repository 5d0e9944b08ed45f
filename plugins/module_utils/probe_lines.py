# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel shows of events, and whether that is what was declared.

The kernel rewrites what is registered: it names arguments, fills in maxactive,
expands ``$arg*`` by BTF. So what was declared and what the kernel made of it
are remembered side by side, and where nothing is remembered the lines that can
be foretold are.
"""

from __future__ import annotations

import re

from .probes import LETTER, USER_KINDS, Event, Probe, split_arg

_OFFSET = re.compile(r"(?P<symbol>[^+]+)\+(?P<offset>0x[0-9a-fA-F]+|\d+)\Z")


def same_line(one: str, other: str, maxactive_matters: bool) -> bool:
    """Return whether two shown lines are of one probe.

    A kretprobe's default maxactive is shown only once its module is loaded.
    """
    if one == other:
        return True
    if maxactive_matters:
        return False
    return _without_maxactive(one) == _without_maxactive(other)


def _without_maxactive(line: str) -> str:
    return re.sub(r"\Ar\d+:", "r:", line)


def same_lines(event: Event, shown: tuple[str, ...], known: tuple[str, ...]) -> bool:
    """Return whether ``shown`` are the lines ``known`` of a declared event, in this order."""
    return len(shown) == len(known) == len(event.probes) and all(
        same_line(one, other, probe.maxactive is not None) for one, other, probe in zip(shown, known, event.probes)
    )


def foretold(name: str, probe: Probe) -> str | None:
    """Return the line that the kernel will show of a probe, None where only the kernel knows."""
    target = shown_target(probe)
    if target is None or probe.tail:
        return None
    args = []
    for number, arg in enumerate(probe.args, 1):
        label, expression, kind = split_arg(arg)
        if kind.startswith("%p"):
            # Becomes dereferences whose offsets depend on the kernel's build.
            return None
        if label:
            args.append(arg)
        elif expression.startswith("$arg"):
            # By BTF the name of the function's parameter, or a list of them.
            return None
        elif re.match(r"[A-Za-z_]\w*\Z", expression):
            args.append(f"{expression}={arg}")
        else:
            args.append(f"arg{number}={arg}")
    head = f"{LETTER.get(probe.kind, 'p')}{probe.maxactive or ''}:{name}"
    return " ".join([head, target, *args])


def shown_target(probe: Probe) -> str | None:
    """Return a probe's target as the kernel shows it, None for a raw address, of which it shows a hash."""
    target = probe.target
    if probe.kind in USER_KINDS:
        path, _colon, place = target.rpartition(":")
        offset, paren, reference = place.partition("(")
        try:
            text = f"0x{int(offset, 0):016x}"
        except ValueError:
            return None
        return f"{path}:{text}" + (f"(0x{int(reference.rstrip(')'), 0):x})" if paren else "")
    if probe.kind == "fexit":
        return f"{target}%return"
    if probe.kind not in ("kprobe", "kretprobe"):
        return target
    if target[0].isdigit():
        return None
    found = _OFFSET.match(target)
    if found:
        offset_value = int(found["offset"], 0)
        return f"{found['symbol']}+{offset_value}" if offset_value else found["symbol"]
    return target


def as_declared(event: Event, shown: tuple[str, ...]) -> bool:
    """Return whether lines of which nothing is remembered are surely what is declared."""
    known = [foretold(event.name, probe) for probe in event.probes]
    # Nothing shows which file a uprobe sits in if the path now leads to another.
    if event.kind in USER_KINDS or any(line is None for line in known):
        return False
    return same_lines(event, shown, tuple(line or "" for line in known))
