# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures that others published, to be set beside ours: their machines, not ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import (
    Cell,
    Group,
    HostResult,
    Table,
    scale_for,
)


@dataclass(frozen=True)
class Reference:
    """Published values by hook; what is compared is their order and their share of ``base``."""

    id: str
    title: str
    machine: str
    unit: str
    higher_is_better: bool
    values: Mapping[str, float]
    benchmark: str
    metric: str
    labels: Mapping[str, str | int]


PUBLISHED = "published"

# Overhead of 1, 2 and 3 fetchargs in ns; the interpreter was published for 3 only.
FETCHARG_MACHINE = "Core i7-8565U under KVM, the RFC of the BPF fetchargs"
FETCHARG: dict[str, dict[str, tuple[float | None, float | None, float | None]]] = {
    "kprobe": {"legacy": (7.38, 28.08, 44.51), "bpf": (12.76, 23.21, 28.78), "interpreter": (None, None, 149.42)},
    "fprobe": {"legacy": (15.57, 41.38, 59.27), "bpf": (16.09, 32.76, 37.79), "interpreter": (None, None, 163.40)},
    "eprobe": {"legacy": (52.40, 54.70, 65.05), "bpf": (11.88, 39.78, 58.15), "interpreter": (None, None, 76.94)},
}

_BENCH = {"base": 4.622e6, "kprobe": 3.673e6, "kretprobe": 2.625e6, "raw_tracepoint": 4.369e6, "fentry": 4.201e6}
_LOW = {"base": 270, "kprobe": 870, "kretprobe": 1220, "tracepoint": 500, "fentry": 400, "fexit": 450}
_FULL = {"base": 60, "kprobe": 120, "kretprobe": 210, "tracepoint": 90, "fentry": 70, "fexit": 80}

HOOKS = (
    Reference(
        "hooks",
        "Events/s by hook, one thread",
        "the kernel's own bench, single-threaded, atomic counter",
        "events/s",
        True,
        {**_BENCH, "fexit": 4.309e6, "fmod_ret": 4.314e6},
        "hook_overhead",
        "rate",
        {"threads": 1, "counter": "atomic"},
    ),
    Reference(
        "p90-low",
        "Run time at 100 calls/s, 90th percentile",
        "a published latency study",
        "ns",
        False,
        _LOW,
        "latency",
        "run_time",
        {"load": "100/s", "percentile": "p90"},
    ),
    Reference(
        "p90-full",
        "Run time at full rate, 90th percentile",
        "a published latency study, more than 1 M calls/s",
        "ns",
        False,
        _FULL,
        "latency",
        "run_time",
        {"load": "full", "percentile": "p90"},
    ),
    Reference(
        "writes",
        "Writes/s to /proc/self/comm on all CPUs",
        "4 CPUs",
        "calls/s",
        True,
        {"base": 930e3, "kprobe": 420e3, "tracepoint": 730e3},
        "parallel",
        "rate",
        {"workload": "comm"},
    ),
    Reference(
        "reads",
        "Reads/s of /dev/urandom on all CPUs",
        "4 CPUs, tracepoint random:urandom_read",
        "calls/s",
        True,
        {"base": 300e3, "kprobe": 279e3, "tracepoint": 290e3},
        "parallel",
        "rate",
        {"workload": "urandom"},
    ),
)


@dataclass(frozen=True)
class Agreement:
    """How many pairs of hooks have the same order here as there; pairs whose intervals overlap are undecided."""

    same: int
    other: int
    undecided: int

    @property
    def text(self) -> str:
        """The agreement in words."""
        pairs = self.same + self.other + self.undecided
        if not pairs:
            return "nothing to compare"
        text = f"{self.same} of {pairs} pairs in their order"
        if self.other:
            text += f", {self.other} in the other"
        return f"{text}, {self.undecided} too close to tell" if self.undecided else text


def agreement(theirs: Mapping[str, float], ours: Mapping[str, Mapping[str, Any]]) -> Agreement:
    """Return how the order of ``ours`` (rows by hook) agrees with ``theirs``."""
    same = other = undecided = 0
    for one, two in combinations([hook for hook in theirs if hook in ours], 2):
        if theirs[one] == theirs[two]:
            continue
        a, b = ours[one], ours[two]
        if a["low"] <= b["high"] and b["low"] <= a["high"]:
            undecided += 1
        elif (a["median"] < b["median"]) == (theirs[one] < theirs[two]):
            same += 1
        else:
            other += 1
    return Agreement(same, other, undecided)


def rows_by_hook(host: HostResult, reference: Reference) -> dict[str, dict[str, Any]]:
    """Return the host's measured rows that answer to ``reference``, by hook; of several, those of most CPUs."""
    found: dict[str, dict[str, Any]] = {}
    for row in host.rows(reference.benchmark, reference.metric, **reference.labels):
        hook = row["labels"]["hook"]
        if row["supported"] and row["labels"].get("cpus", 0) >= found.get(hook, row)["labels"].get("cpus", 0):
            found[hook] = row
    return found


def reference_tables(group: Group) -> list[Table]:
    """Return one table for each published figure that a host of the group has a counterpart of."""
    tables = [_fetcharg_table(group)] if any("fetcharg" in host.benchmarks for host in group.hosts) else []
    for reference in HOOKS:
        if any(rows_by_hook(host, reference) for host in group.hosts):
            tables.append(_hook_table(group, reference))
    return tables


def _share(value: float, base: float | None) -> str:
    return f" · {100 * value / base:.0f} %" if base else ""


def _hook_table(group: Group, reference: Reference) -> Table:
    hooks = list(reference.values)
    base = reference.values["base"]
    scale = scale_for(
        [{"supported": True, "median": value, "unit": reference.unit} for value in reference.values.values()]
    )
    published = [
        Cell(f"{scale.write(value)} {scale.unit}{_share(value, base)}", value) for value in reference.values.values()
    ]
    rows = [[Cell(PUBLISHED, mark="muted"), Cell("\u2013", mark="muted"), *published]]
    for host in group.hosts:
        ours = rows_by_hook(host, reference)
        if not ours:
            rows.append([Cell(host.name), Cell("not measured", mark="muted")])
            continue
        own = scale_for(ours.values())
        own_base = ours["base"]["median"] if "base" in ours else None
        cells = [
            Cell(
                f"{own.write(ours[hook]['median'])} {own.unit}{_share(ours[hook]['median'], own_base)}",
                ours[hook]["median"],
            )
            if hook in ours
            else Cell("\u2013", mark="muted", note="not measured or not supported")
            for hook in hooks
        ]
        rows.append([Cell(host.name), Cell(agreement(reference.values, ours).text), *cells])
    return Table(
        f"reference-{reference.id}-{group.id}",
        reference.title,
        ["host", "order of the hooks", *hooks],
        rows,
        note=f"{PUBLISHED}: {reference.machine}. Percentages are shares of the machine's own base. "
        "On another machine only the order can agree.",
    )


def _fetcharg_table(group: Group) -> Table:
    rows = []
    for kind, modes in FETCHARG.items():
        cells = [_theirs(modes["legacy"][index], modes["bpf"][index]) for index in range(3)]
        rows.append([Cell(PUBLISHED, mark="muted"), Cell(kind), *cells])
        for host in group.hosts:
            rows.append([Cell(host.name), Cell(kind), *(_ours(host, kind, nargs) for nargs in (1, 2, 3))])
    return Table(
        f"reference-fetcharg-{group.id}",
        "What fetchargs add: the kernel's interpreter → one compiled program",
        ["host", "probe", "1 arg", "2 args", "3 args"],
        rows,
        unit=group.clock,
        note=f"{PUBLISHED}: {FETCHARG_MACHINE}, in ns; the hosts' numbers are in {group.clock}.",
    )


def _theirs(legacy: float | None, bpf: float | None) -> Cell:
    if legacy is None or bpf is None:
        return Cell("\u2013", mark="muted")
    return Cell(f"{legacy:g} → {bpf:g} ns ({100 * (bpf - legacy) / legacy:+.0f} %)".replace("-", "\u2212"), bpf)


def _ours(host: HostResult, kind: str, nargs: int) -> Cell:
    pair = [host.row("fetcharg", "overhead", kind=kind, mode=mode, nargs=nargs) for mode in ("legacy", "bpf")]
    legacy, bpf = pair
    if not legacy or not bpf:
        return Cell("\u2013", mark="muted", note="not measured or not supported")
    scale = scale_for([legacy, bpf])
    percent = ""
    if legacy["median"] > 0:
        percent = f" ({100 * (bpf['median'] - legacy['median']) / legacy['median']:+.0f} %)".replace("-", "\u2212")
    return Cell(f"{scale.write(legacy['median'])} → {scale.write(bpf['median'])} {scale.unit}{percent}", bpf["median"])


def order(rows: Mapping[str, Mapping[str, Any]], higher_is_better: bool) -> Sequence[str]:
    """Return the hooks, the cheapest first."""
    return sorted(rows, key=lambda hook: rows[hook]["median"], reverse=higher_is_better)
