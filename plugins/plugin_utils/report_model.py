# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report is made of: results of hosts, tables of cells, and how a number is written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import clock_name

# Units whose numbers are large enough to want a prefix.
_RATES = ("calls/s", "events/s", "calls/Ginstr", "events/Ginstr")


NOT_SUPPORTED = "not supported"


@dataclass(frozen=True)
class HostResult:
    """What one host of the fleet has: a valid ``fact``, or a ``state`` and ``reason`` why it has none."""

    name: str
    state: str
    reason: str = ""
    fact: dict[str, Any] | None = None

    @property
    def clock(self) -> str:
        """What the host's times are times of; empty without a fact."""
        return clock_name(self.fact["environment"]) if self.fact else ""

    @property
    def benchmarks(self) -> dict[str, Any]:
        """The host's benchmarks by name; none without a fact."""
        return self.fact["benchmarks"] if self.fact else {}

    @property
    def noisy(self) -> bool:
        """Whether most of what the host measured is noisy: then the host is, and not the thing measured."""
        rows = [row for benchmark in self.benchmarks.values() for row in benchmark["rows"] if row["supported"]]
        return sum(row["noisy"] for row in rows) > len(rows) / 2

    def rows(self, benchmark: str, metric: str, **labels: str | int) -> list[dict[str, Any]]:
        """Return the rows of a metric whose labels include ``labels``."""
        return [
            row
            for row in self.benchmarks.get(benchmark, {}).get("rows", [])
            if row["metric"] == metric and labels.items() <= row["labels"].items()
        ]

    def row(self, benchmark: str, metric: str, **labels: str | int) -> dict[str, Any] | None:
        """Return the one measured row of a metric with ``labels``; None where there is none."""
        found = [row for row in self.rows(benchmark, metric, **labels) if row["supported"]]
        return found[0] if found else None


@dataclass(frozen=True)
class Cell:
    """One cell: the text that is shown and, for a number, the value it was made of in the table's plain unit."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    mark: str = ""  # noisy, good, bad, muted
    note: str = ""


@dataclass(frozen=True)
class Table:
    """One table; a row that is shorter than ``columns`` ends with a cell that says why."""

    id: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    unit: str = ""
    note: str = ""
    benchmark: str = ""
    terminal: bool = False  # the terminal shows it too


@dataclass(frozen=True)
class Scale:
    """How the numbers of one table are written, so that a column can be compared by eye."""

    unit: str
    divisor: float = 1.0
    decimals: int = 0

    def write(self, value: float) -> str:
        """Return ``value`` as text, without the unit."""
        # A narrow no-break space for thousands reads the same in every country.
        text = f"{value / self.divisor:,.{self.decimals}f}".replace(",", "\u202f")
        return (
            text.replace("-", "\u2212", 1) if float(f"{value / self.divisor:.{self.decimals}f}") else text.lstrip("-")
        )

    def cell(self, row: Mapping[str, Any] | None) -> Cell:
        """Return a measurement with its interval, or the reason why there is none."""
        if row is None:
            return Cell("\u2013", mark="muted", note="not measured")
        if not row["supported"]:
            return Cell(NOT_SUPPORTED, mark="muted", note=row["reason"])
        text = f"{self.write(row['median'])} [{self.write(row['low'])} {self.write(row['high'])}]"
        mark = "noisy" if row["noisy"] else ""
        return Cell(f"{text} ~" if mark else text, row["median"], row["low"], row["high"], mark)


def scale_for(rows: Iterable[Mapping[str, Any]]) -> Scale:
    """Return a scale that suits all measured ``rows``, which have one unit."""
    measured = [row for row in rows if row["supported"]]
    if not measured:
        return Scale("")
    unit = measured[0]["unit"]
    sizes = [abs(row["median"]) for row in measured if row["median"]] or [1.0]
    if unit in _RATES:
        if max(sizes) >= 1e6:
            return Scale(f"M {unit}", 1e6, 3)
        return Scale(f"k {unit}", 1e3, 2) if max(sizes) >= 1e4 else Scale(unit, 1.0, 1)
    if unit == "count":
        return Scale(unit)
    if unit == "instructions" and all(float(size).is_integer() for size in sizes):
        return Scale(unit)
    # Three digits of the smallest number, at most two after the point.
    return Scale(unit, 1.0, min(max(2 - math.floor(math.log10(min(sizes))), 0), 2 if max(sizes) < 1000 else 1))


@dataclass
class Group:
    """The hosts whose numbers may stand in one table: those of one clock."""

    clock: str
    hosts: list[HostResult] = field(default_factory=list)

    def say(self, unit: str) -> str:
        """Return a unit so that nobody takes an emulator's clock for a real one."""
        return f"{unit}, emulated CPU" if unit and self.id == "emulated" else unit

    @property
    def id(self) -> str:
        """The clock as a name for anchors."""
        return {"ns": "ns", "instructions": "instructions"}.get(self.clock, "emulated")


def by_clock(hosts: Iterable[HostResult]) -> list[Group]:
    """Return the measured hosts in groups of one clock each."""
    groups: dict[str, Group] = {}
    for host in hosts:
        if host.fact:
            groups.setdefault(host.clock, Group(host.clock)).hosts.append(host)
    return [groups[clock] for clock in sorted(groups, key=lambda clock: (len(clock), clock))]
