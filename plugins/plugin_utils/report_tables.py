# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of a report: made once, shown by the page, the terminal and report.json alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import (
    COUNTERS,
    HOOKS,
    KINDS,
    LABELS,
    LOADS,
    MODES,
    PERCENTILES,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_compare import Change, describe
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import (
    NOT_SUPPORTED,
    Cell,
    Group,
    HostResult,
    Table,
    scale_for,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_statistics import spread

# The order in which labels are shown; what is not here comes after, as it came.
_PROBES = dict.fromkeys(("baseline", *(hook for hook in HOOKS if hook != "harness"), *KINDS, "harness"))
_ORDER = (*_PROBES, *MODES, *COUNTERS, *LOADS, *PERCENTILES)
_INTERVAL = "Median of the rounds [95 % confidence interval]; ~ marks a noisy row."


def _rank(value: str | int) -> tuple[int, str]:
    if isinstance(value, int):
        return value, ""
    return (_ORDER.index(value), "") if value in _ORDER else (len(_ORDER), value)


def _line(head: Sequence[str], cells: list[Cell]) -> list[Cell]:
    """Return one line of a table; where nothing is supported, the first reason is the whole line."""
    first = [Cell(text) for text in head]
    if cells and all(cell.text == NOT_SUPPORTED for cell in cells):
        reason = cells[0].note
        return [*first, Cell(reason if NOT_SUPPORTED in reason else f"{NOT_SUPPORTED}: {reason}", mark="muted")]
    return [*first, *cells]


@dataclass(frozen=True)
class Pivot:
    """Lays out one metric: a line for each host and value of ``lines``, a column for each value of ``across``."""

    benchmark: str
    metric: str
    title: str
    lines: tuple[str, ...]
    across: tuple[str, ...]
    column: Callable[..., str]
    note: str = ""

    def table(self, group: Group) -> Table:
        """Return the table of a group's hosts; a host without the benchmark is a line that says why."""
        found = {host.name: host.rows(self.benchmark, self.metric) for host in group.hosts}
        everything = [row for rows in found.values() for row in rows]
        # The loop around nothing is so fast that its numbers would set the scale of all others.
        scale = scale_for([row for row in everything if row["labels"].get("hook") != "harness"] or everything)
        heads = _sorted({tuple(row["labels"][name] for name in self.across) for row in everything})
        lines = []
        for host in group.hosts:
            lines += missing(host, self.benchmark) if not found[host.name] else []
            by_place = {
                (
                    tuple(row["labels"][name] for name in self.lines),
                    tuple(row["labels"][name] for name in self.across),
                ): row
                for row in found[host.name]
            }
            for line in _sorted({line for line, _head in by_place}):
                cells = [scale.cell(by_place.get((line, head))) for head in heads]
                lines.append(_line([host.name, *map(str, line)], cells))
            if found[host.name] and host.benchmarks[self.benchmark]["status"] != "ok":
                lines += missing(host, self.benchmark)
        return Table(
            f"{self.benchmark}-{self.metric.replace('_', '-')}-{group.id}",
            self.title,
            ["host", *self.lines, *(self.column(*head) for head in heads)],
            lines,
            unit=group.say(scale.unit),
            note=f"{_INTERVAL} {self.note}".strip(),
            benchmark=self.benchmark,
            terminal=True,
        )


def _sorted(keys: set[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(keys, key=lambda key: [_rank(value) for value in key])


def missing(host: HostResult, benchmark: str) -> list[list[Cell]]:
    """Return the line of a host that has no (or not all) numbers of a benchmark."""
    state = host.benchmarks.get(benchmark)
    if state is None:
        return [[Cell(host.name), Cell("not measured", mark="muted")]]
    if state["status"] == "ok":
        return []
    mark = "bad" if state["status"] == "failed" else "muted"
    return [[Cell(host.name), Cell(f"{state['status']}: {state['reason']}", mark=mark)]]


HOOK_OVERHEAD = Pivot(
    "hook_overhead",
    "rate",
    "What an attached program costs: events/s by hook",
    ("hook",),
    ("threads", "counter"),
    lambda threads, counter: (
        f"{threads} thread{'s' if threads > 1 else ''}" + (", atomic counter" if counter == "atomic" else "")
    ),
    "base is the call without a probe, harness the measuring loop around nothing; neither is subtracted.",
)
LATENCY = Pivot(
    "latency",
    "run_time",
    "Run time of one call, by hook and load",
    ("hook",),
    ("load", "percentile"),
    lambda load, percentile: f"{load} {percentile}",
)
PARALLEL = Pivot(
    "parallel",
    "rate",
    "Calls/s of pinned processes on 1 to all CPUs",
    ("workload", "hook"),
    ("cpus",),
    lambda cpus: f"{cpus} CPU{'s' if cpus > 1 else ''}",
)


def fetcharg_table(group: Group) -> Table:
    """Return host × probe kind × number of fetchargs: the whole call, then what the fetchargs add."""
    lines = []
    used = [
        row for host in group.hosts for row in host.rows("fetcharg", "overhead") + host.rows("fetcharg", "per_call")
    ]
    scale = scale_for([row for row in used if row["labels"]["kind"] in KINDS] or used)
    for host in group.hosts:
        rows = [row for row in host.rows("fetcharg", "per_call") if "case" not in row["labels"]]
        calls = {(row["labels"]["kind"], row["labels"]["mode"], row["labels"]["nargs"]): row for row in rows}
        added = {
            (row["labels"]["kind"], row["labels"]["mode"], row["labels"]["nargs"]): row
            for row in host.rows("fetcharg", "overhead")
            if "case" not in row["labels"]
        }
        for kind, mode in _sorted({(kind, mode) for kind, mode, _nargs in (*calls, *added)}):
            cells = [scale.cell(calls.get((kind, mode, 0)))]
            cells += [
                scale.cell(added.get((kind, mode, nargs)) or _refused(calls, (kind, mode, nargs)))
                for nargs in (1, 2, 3)
            ]
            lines.append(_line([host.name, kind, mode], cells))
        if not rows or host.benchmarks["fetcharg"]["status"] != "ok":
            lines += missing(host, "fetcharg")
    return Table(
        f"fetcharg-{group.id}",
        "What fetchargs cost, by probe",
        ["host", "probe", "mode", "0 args", "+1 arg", "+2 args", "+3 args"],
        lines,
        unit=group.say(f"{scale.unit} per call"),
        note=f"'0 args' is the whole call with the event on, '+N args' what N fetchargs add to it. {_INTERVAL}",
        benchmark="fetcharg",
        terminal=True,
    )


def _refused(calls: dict[tuple[Any, ...], dict[str, Any]], key: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return the row that says why there is no overhead."""
    row = calls.get(key)
    return row if row and not row["supported"] else None


def fetcharg_kind_tables(group: Group) -> list[Table]:
    """Return a table for each probe kind: number of fetchargs by mode, calls/s and overhead, and the baseline."""
    tables = []
    for kind in KINDS:
        rows = [row for host in group.hosts for row in host.rows("fetcharg", "rate", kind=kind)]
        rows = [row for row in rows if "case" not in row["labels"]]
        added = [row for host in group.hosts for row in host.rows("fetcharg", "overhead", kind=kind)]
        if not rows:
            continue
        # A mode that no host has is in the first table, with the reason.
        modes = [mode for mode in MODES if any(row["labels"]["mode"] == mode for row in rows if row["supported"])]
        if not modes:
            continue
        rate, cost = scale_for(rows), scale_for(added)
        lines = []
        for host in group.hosts:
            own = [row for row in rows if row in host.rows("fetcharg", "rate", kind=kind)]
            if not own:
                lines += missing(host, "fetcharg")
                continue
            base = host.row("fetcharg", "rate", kind="baseline")
            lines.append([Cell(host.name), Cell("no probe"), *[rate.cell(base), Cell("")] * len(modes)])
            for nargs in sorted({row["labels"]["nargs"] for row in own}):
                cells = []
                for mode in modes:
                    labels = {"kind": kind, "mode": mode, "nargs": nargs}
                    cells.append(rate.cell(_plain(host.rows("fetcharg", "rate", **labels))))
                    over = _plain(host.rows("fetcharg", "overhead", **labels))
                    cells.append(cost.cell(over) if nargs else Cell(""))
                lines.append([Cell(host.name), Cell(f"{nargs} args" if nargs != 1 else "1 arg"), *cells])
        tables.append(
            Table(
                f"fetcharg-{kind}-{group.id}",
                f"{kind}: calls/s and overhead of its fetchargs",
                ["host", "fetchargs", *(f"{mode} {what}" for mode in modes for what in (rate.unit, f"+{cost.unit}"))],
                lines,
                note=_INTERVAL,
                benchmark="fetcharg",
            )
        )
    return tables


def _plain(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    found = [row for row in rows if "case" not in row["labels"]]
    return found[0] if found else None


def case_table(group: Group) -> Table | None:
    """Return the table of fetchargs other than the plain ones; None if no host has any."""
    rows = [row for host in group.hosts for row in host.rows("fetcharg", "overhead") if "case" in row["labels"]]
    if not rows:
        return None
    pivot = Pivot("fetcharg", "overhead", "Strings, arrays, faults and others", ("kind", "case"), ("mode",), str)
    only = [
        HostResult(host.name, host.state, host.reason, _only_cases(host))
        for host in group.hosts
        if host.benchmarks.get("fetcharg")
    ]
    table = pivot.table(Group(group.clock, only))
    return Table(
        f"fetcharg-cases-{group.id}", table.title, table.columns, table.rows, table.unit, table.note, "fetcharg"
    )


def _only_cases(host: HostResult) -> dict[str, Any]:
    benchmark = host.benchmarks["fetcharg"]
    rows = [row for row in benchmark["rows"] if "case" in row["labels"]]
    return {**(host.fact or {}), "benchmarks": {"fetcharg": {**benchmark, "rows": rows}}}


def hit_table(group: Group) -> Table:
    """Return hits, misses and calls by number of CPUs, and whether hits + misses are the calls in every round."""
    lines = []
    rates = [row for host in group.hosts for row in host.rows("hit_count", "rate")]
    scale = scale_for(rates)
    for host in group.hosts:
        keys = {
            (row["labels"]["hook"], row["labels"]["cpus"])
            for row in host.benchmarks.get("hit_count", {}).get("rows", [])
        }
        for hook, cpus in _sorted(keys):
            labels = {"hook": hook, "cpus": cpus}
            counts = {metric: host.rows("hit_count", metric, **labels) for metric in ("calls", "hits", "misses")}
            cells = [_total(rows[0] if rows else None) for rows in counts.values()]
            rate = host.rows("hit_count", "rate", **labels)
            lines.append(
                [
                    Cell(host.name),
                    Cell(hook),
                    Cell(str(cpus)),
                    *cells,
                    verdict(counts),
                    scale.cell(rate[0] if rate else None),
                ]
            )
        if not keys or host.benchmarks["hit_count"]["status"] != "ok":
            lines += missing(host, "hit_count")
    return Table(
        f"hit-count-{group.id}",
        "Are hits counted exactly?",
        ["host", "hook", "CPUs", "calls", "hits", "misses", "hits + misses = calls", scale.unit or "rate"],
        lines,
        note="calls, hits and misses are summed over all rounds; each round is checked by itself.",
        benchmark="hit_count",
        terminal=True,
    )


def _total(row: dict[str, Any] | None) -> Cell:
    if row is None or not row["supported"]:
        return Cell("\u2013", mark="muted", note=row["reason"] if row else "not measured")
    total = sum(row["samples"])
    return Cell(f"{total:,.0f}".replace(",", "\u202f"), total)


def exact_rounds(counts: dict[str, list[dict[str, Any]]]) -> tuple[int, int] | None:
    """Return in how many rounds hits and misses add up to the calls, and of how many; None without the numbers."""
    rows = {metric: found[0] for metric, found in counts.items() if found and found[0]["supported"]}
    if "calls" not in rows or "hits" not in rows:
        return None
    misses = rows["misses"]["samples"] if "misses" in rows else [0] * len(rows["calls"]["samples"])
    rounds = list(zip(rows["calls"]["samples"], rows["hits"]["samples"], misses))
    return sum(calls == hits + missed for calls, hits, missed in rounds), len(rounds)


def verdict(counts: dict[str, list[dict[str, Any]]]) -> Cell:
    """Return whether every round was counted exactly."""
    rounds = exact_rounds(counts)
    if rounds is None:
        return Cell("\u2013", mark="muted")
    exact, total = rounds
    if exact == total:
        return Cell(f"yes, in all {total} rounds", mark="good")
    return Cell(f"no: in {total - exact} of {total} rounds they differ", mark="bad")


def other_table(group: Group, benchmark: str) -> Table:
    """Return a benchmark that this collection does not know, one line for each row."""
    lines = []
    for host in group.hosts:
        for row in host.benchmarks.get(benchmark, {}).get("rows", []):
            scale = scale_for([row])
            cells = [Cell(row["metric"]), Cell(describe(row["labels"])), scale.cell(row), Cell(scale.unit)]
            lines.append([Cell(host.name), *cells])
        lines += missing(host, benchmark)
    return Table(
        f"{benchmark.replace('_', '-')}-{group.id}",
        benchmark,
        ["host", "metric", "what", "value", "unit"],
        lines,
        note=_INTERVAL,
        benchmark=benchmark,
        terminal=True,
    )


def host_tables(group: Group) -> list[Table]:
    """Return the tables of a group's measurements, in the order of the page."""
    present = dict.fromkeys(name for host in group.hosts for name in host.benchmarks)
    tables = []
    if "fetcharg" in present:
        case = case_table(group)
        tables += [fetcharg_table(group), *fetcharg_kind_tables(group), *([case] if case else [])]
    tables += [pivot.table(group) for pivot in (HOOK_OVERHEAD, LATENCY, PARALLEL) if pivot.benchmark in present]
    if "hit_count" in present:
        tables.append(hit_table(group))
    return tables + [other_table(group, name) for name in present if name not in LABELS]


def fleet_table(group: Group) -> Table | None:
    """Return how far the hosts are apart in every cell that two of them have; None for one host."""
    values: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for host in group.hosts:
        for name, benchmark in host.benchmarks.items():
            for row in benchmark["rows"]:
                if row["supported"] and row["better"] != "exact":
                    key = (name, row["metric"], row["unit"], tuple(row["labels"].items()))
                    values.setdefault(key, {})[host.name] = row
    lines = []
    for (benchmark, metric, _unit, labels), by_host in values.items():
        if len(by_host) < 2:
            continue
        scale = scale_for(by_host.values())
        far = spread({host: row["median"] for host, row in by_host.items()})
        lines.append(
            [
                Cell(benchmark),
                Cell(f"{metric} ({describe(dict(labels))})"),
                Cell(f"{scale.write(far.median)} {scale.unit}", far.median),
                Cell(scale.write(far.mad), far.mad),
                Cell(f"{scale.write(far.lowest[1])} ({far.lowest[0]})", far.lowest[1]),
                Cell(f"{scale.write(far.highest[1])} ({far.highest[0]})", far.highest[1]),
                Cell(", ".join(far.outliers), mark="bad") if far.outliers else Cell("none", mark="muted"),
            ]
        )
    if not lines:
        return None
    return Table(
        f"fleet-{group.id}",
        "How far the hosts are apart",
        ["benchmark", "cell", "fleet median", "MAD", "lowest", "highest", "outliers"],
        lines,
        note="MAD: median absolute deviation from the fleet's median. An outlier is more than 3.5 robust standard "
        "deviations away, or more than 1 % where most hosts agree; fewer than four hosts have none.",
    )


def hosts_table(hosts: Sequence[HostResult]) -> Table:
    """Return every host with its state, and every benchmark of it."""
    names = list(dict.fromkeys([*LABELS, *(name for host in hosts for name in host.benchmarks)]))
    lines = []
    for host in hosts:
        if not host.fact:
            lines.append([Cell(host.name), Cell(host.state, mark="bad"), Cell(host.reason)])
            continue
        environment = host.fact["environment"]
        states = [_state(host.benchmarks.get(name)) for name in names]
        state = Cell("measured, noisy", mark="noisy") if host.noisy else Cell("measured", mark="good")
        lines.append([Cell(host.name), state, Cell(environment["kernel"]), Cell(host.clock), *states])
    return Table("hosts", "Hosts", ["host", "state", "kernel", "unit of time", *names], lines)


def _state(benchmark: dict[str, Any] | None) -> Cell:
    if benchmark is None:
        return Cell("not measured", mark="muted")
    if benchmark["status"] != "ok":
        mark = "bad" if benchmark["status"] == "failed" else "muted"
        return Cell(f"{benchmark['status']}: {benchmark['reason']}", mark=mark)
    rows = benchmark["rows"]
    noisy, refused = sum(row["noisy"] for row in rows), sum(not row["supported"] for row in rows)
    text = f"{len(rows)} rows"
    text += f", {noisy} noisy" if noisy else ""
    return Cell(f"{text}, {refused} not supported" if refused else text, mark="noisy" if noisy else "")


def change_table(changes: Sequence[Change], id_: str, title: str, note: str = "") -> Table:
    """Return the cells of a comparison."""
    lines = []
    for change in changes:
        head = [Cell(change.host), Cell(change.benchmark), Cell(change.cell)]
        mark = {"better": "good", "worse": "bad", "the same": "muted"}.get(change.verdict, "muted")
        if change.a is None or change.b is None:
            lines.append([*head, Cell(f"{change.verdict}: {change.reason}", mark=mark)])
            continue
        scale = scale_for([{"supported": True, "median": value, "unit": change.unit} for value in (change.a, change.b)])
        lines.append(
            [
                *head,
                Cell(f"{scale.write(change.a)} {scale.unit}", change.a),
                Cell(f"{scale.write(change.b)} {scale.unit}", change.b),
                Cell(percent(change.percent), change.percent),
                Cell("" if change.p is None else f"{change.p:.2g}", change.p),
                Cell("" if change.effect is None else f"{change.effect:+.2f}".replace("-", "\u2212"), change.effect),
                Cell(change.verdict, mark=mark, note=change.reason),
            ]
        )
    columns = ["host", "benchmark", "cell", "A", "B", "change", "p", "effect", "verdict"]
    return Table(id_, title, columns, lines, note=note)


def percent(value: float | None) -> str:
    """Return a change in per cent with its sign.

    >>> percent(12.34)
    '+12.3 %'
    """
    return "" if value is None else f"{value:+.1f} %".replace("-", "\u2212")
