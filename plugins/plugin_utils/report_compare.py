# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A against B: two runs, two hosts or two kernels, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import row_id
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import HostResult
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_statistics import (
    ALPHA,
    adjust,
    can_decide,
    mann_whitney,
)


@dataclass(frozen=True)
class Change:
    """One cell in A and in B.

    ``verdict``: better, worse, the same, too few rounds, not supported, exact
    (counts are not compared), or which side has no value. ``p`` is adjusted for the number of
    cells; ``effect`` is Cliff's delta; ``percent`` is the change of the median,
    None where A is not above zero.
    """

    host: str
    benchmark: str
    metric: str
    labels: dict[str, Any]
    unit: str
    verdict: str
    a: float | None = None
    b: float | None = None
    percent: float | None = None
    p: float | None = None
    effect: float | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """The cell's name for a person."""
        what = f"{self.benchmark} {self.cell}".strip()
        return f"{self.host}: {what}" if what else self.host

    @property
    def cell(self) -> str:
        """Metric and labels; empty for a whole benchmark or host."""
        return f"{self.metric} ({describe(self.labels)})" if self.labels else ""


def describe(labels: dict[str, Any]) -> str:
    """Return labels as text.

    >>> describe({"hook": "kprobe", "cpus": 2})
    'hook kprobe, cpus 2'
    """
    return ", ".join(f"{key} {value}" for key, value in labels.items())


def compare(pairs: Iterable[tuple[str, HostResult, HostResult]]) -> list[Change]:
    """Return every cell of the pairs (name, A, B), the p-values adjusted over all of them."""
    changes: list[Change] = []
    for name, a, b in pairs:
        changes += _compare_hosts(name, a, b)
    tested = [index for index, change in enumerate(changes) if change.p is not None]
    adjusted = adjust([changes[index].p or 0.0 for index in tested])
    for index, p in zip(tested, adjusted):
        changes[index] = _judge(replace(changes[index], p=p))
    return changes


def _compare_hosts(name: str, a: HostResult, b: HostResult) -> list[Change]:
    for side, host in (("A", a), ("B", b)):
        if not host.fact:
            return [Change(name, "", "", {}, "", f"nothing in {side}", reason=host.reason)]
    if a.clock != b.clock:
        reason = f"A is in {a.clock}, B in {b.clock}: these are never compared"
        return [Change(name, "", "", {}, "", "other clock", reason=reason)]
    changes = []
    for benchmark in dict.fromkeys((*a.benchmarks, *b.benchmarks)):
        rows_a = {row_id(row): row for row in a.benchmarks.get(benchmark, {}).get("rows", [])}
        rows_b = {row_id(row): row for row in b.benchmarks.get(benchmark, {}).get("rows", [])}
        for side, host in (("A", a), ("B", b)):
            state = host.benchmarks.get(benchmark, {"status": "missing", "reason": "not measured"})
            if state["status"] != "ok":
                verdict = f"nothing in {side}"
                changes.append(
                    Change(name, benchmark, "", {}, "", verdict, reason=f"{state['status']}: {state['reason']}")
                )
        for key in dict.fromkeys((*rows_a, *rows_b)):
            changes.append(_compare_rows(name, benchmark, rows_a.get(key), rows_b.get(key)))
    return changes


def _compare_rows(host: str, benchmark: str, a: dict[str, Any] | None, b: dict[str, Any] | None) -> Change:
    some = a or b or {}
    cell = Change(host, benchmark, some["metric"], some["labels"], some["unit"], "")
    if a and b and not a["supported"] and not b["supported"]:
        return replace(cell, verdict="not supported", reason=b["reason"])
    if a is None or not a["supported"]:
        return replace(cell, verdict="nothing in A", reason=a["reason"] if a else "not measured")
    if b is None or not b["supported"]:
        return replace(cell, verdict="nothing in B", reason=b["reason"] if b else "not measured")
    percent = 100 * (b["median"] - a["median"]) / a["median"] if a["median"] > 0 else None
    cell = replace(cell, a=a["median"], b=b["median"], percent=percent)
    if a["unit"] != b["unit"]:
        return replace(cell, verdict="other unit", reason=f"A is in {a['unit']}, B in {b['unit']}", percent=None)
    if some["better"] == "exact":
        return replace(cell, verdict="exact")
    if not can_decide(len(a["samples"]), len(b["samples"])):
        reason = f"{len(a['samples'])} and {len(b['samples'])} rounds cannot show a difference"
        return replace(cell, verdict="too few rounds", reason=reason)
    difference = mann_whitney(a["samples"], b["samples"])
    return replace(cell, p=difference.p, effect=difference.effect, verdict=some["better"])


def _judge(change: Change) -> Change:
    """Return the change with its verdict; until here ``verdict`` says in which direction is better."""
    if change.p is None or change.p >= ALPHA or change.a == change.b or not change.effect:
        return replace(change, verdict="the same")
    up = (change.b or 0.0) > (change.a or 0.0)
    return replace(change, verdict="better" if up == (change.verdict == "higher") else "worse")


def regressions(changes: Iterable[Change], max_percent: float) -> list[Change]:
    """Return the cells that are significantly worse by more than ``max_percent``, the worst first.

    A cell that A measured and B did not is one too: a gate that a failed
    benchmark passes would guard nothing.
    """
    found = [
        change
        for change in changes
        if (change.verdict == "worse" and (change.percent is None or abs(change.percent) > max_percent))
        or change.verdict in ("nothing in B", "other clock", "other unit")
    ]
    return sorted(found, key=lambda change: -abs(change.percent) if change.percent is not None else float("-inf"))


def pair_hosts(
    a: Sequence[HostResult], b: Sequence[HostResult], side_a: str = "A", side_b: str = "B"
) -> list[tuple[str, HostResult, HostResult]]:
    """Return who is compared with whom: one host with one host, else the hosts of both sides by name."""
    if len(a) == 1 and len(b) == 1:
        name = a[0].name if a[0].name == b[0].name else f"{a[0].name} → {b[0].name}"
        return [(name, a[0], b[0])]
    by_a, by_b = ({host.name: host for host in side} for side in (a, b))
    if not by_a.keys() & by_b.keys():
        raise FleetError(f"{side_a} and {side_b} have no host in common: {', '.join(by_a)} and {', '.join(by_b)}")
    pairs = []
    for name in dict.fromkeys((*by_a, *by_b)):
        gone_a = HostResult(name, "not there", f"{side_a} has no host {name}")
        gone_b = HostResult(name, "not there", f"{side_b} has no host {name}")
        pairs.append((name, by_a.get(name, gone_a), by_b.get(name, gone_b)))
    return pairs
