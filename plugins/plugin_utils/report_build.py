# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a report of hosts and comparisons, and writes it as JSON, CSV, text and one HTML file."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import jinja2
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import LABELS, OPTIONAL_LABELS
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_answer import Card, cards, overall
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_charts import (
    Chart,
    Section,
    change_chart,
    colour,
    sections,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_compare import Change
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_history import SCHEMA, host_entry
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import Group, HostResult, Table, by_clock
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_reference import reference_tables
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_tables import (
    change_table,
    fleet_table,
    host_tables,
    hosts_table,
)

TEMPLATE = "report.html.j2"
_LABELS = tuple(dict.fromkeys(label for labels in (*LABELS.values(), *OPTIONAL_LABELS.values()) for label in labels))

# Verdicts that call nothing a change.
_QUIET = ("the same", "exact", "too few rounds", "not supported")


@dataclass(frozen=True)
class Comparison:
    """A against B; ``regressed`` is None unless it is the baseline's gate, at ``max_regression`` per cent."""

    id: str
    title: str
    a: str
    b: str
    changes: list[Change]
    regressed: list[Change] | None = None
    max_regression: float = 0.0

    @property
    def clear(self) -> list[Change]:
        """The changes that a reader should see at once, the largest first."""
        found = [change for change in self.changes if change.verdict not in _QUIET]
        return sorted(found, key=lambda change: (change.verdict != "worse", -abs(change.percent or 0.0)))

    @property
    def summary(self) -> str:
        """How many cells have which verdict."""
        counts: dict[str, int] = {}
        for change in self.changes:
            counts[change.verdict] = counts.get(change.verdict, 0) + 1
        return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) or "nothing to compare"


@dataclass(frozen=True)
class GroupReport:
    """What the page says about the hosts of one clock."""

    group: Group
    cards: list[Card]
    tables: list[Table]
    fleet: Table | None
    references: list[Table]


@dataclass(frozen=True)
class Report:
    """A whole report, before it is written in any form."""

    run: str
    time: str
    content: str
    facts: str
    hosts: list[HostResult]
    comparisons: list[Comparison]
    overall: list[Card] = field(default_factory=list)
    groups: list[GroupReport] = field(default_factory=list)
    hosts_table: Table | None = None
    change_tables: list[Table] = field(default_factory=list)

    @property
    def tables(self) -> list[Table]:
        """Every table in the order of the page."""
        found = [self.hosts_table] if self.hosts_table else []
        for part in self.groups:
            found += [*part.tables, *([part.fleet] if part.fleet else []), *part.references]
        return found + self.change_tables


def digest(value: Any) -> str:
    """Return the sha256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def build(run: str, time: str, content: str, hosts: list[HostResult], comparisons: Sequence[Comparison] = ()) -> Report:
    """Return the report of ``hosts``; ``content`` names what it is made of, so that equal reports are known."""
    regressed = [comparison.regressed for comparison in comparisons if comparison.regressed is not None]
    groups = [
        GroupReport(group, cards(group), host_tables(group), fleet_table(group), reference_tables(group))
        for group in by_clock(hosts)
    ]
    return Report(
        run=run,
        time=time,
        content=content,
        facts=digest([host_entry(host) for host in hosts]),
        hosts=hosts,
        comparisons=list(comparisons),
        overall=overall(hosts, sum(regressed, []) if regressed else None),
        groups=groups,
        hosts_table=hosts_table(hosts),
        change_tables=[table for comparison in comparisons for table in _change_tables(comparison)],
    )


def _change_tables(comparison: Comparison) -> list[Table]:
    tables = []
    if comparison.regressed:
        title = f"Worse than {comparison.a} by more than {comparison.max_regression:g} %"
        tables.append(change_table(comparison.regressed, f"{comparison.id}-regressed", title))
    note = (
        "p is that of a two-sided Mann-Whitney U test, adjusted for the number of cells (Benjamini-Hochberg); the "
        "effect is Cliff's delta: +1 if all of B's rounds are above all of A's, \u22121 if below."
    )
    title = f"What changed from {comparison.a} to {comparison.b}: {comparison.summary}"
    return [*tables, change_table(comparison.clear, f"{comparison.id}-changes", title, note)]


def to_json(report: Report) -> str:
    """Return report.json."""
    content = {
        "schema": SCHEMA,
        "run": report.run,
        "time": report.time,
        "content": report.content,
        "facts": report.facts,
        "answers": {
            "overall": [asdict(card) for card in report.overall],
            "groups": [
                {"clock": part.group.clock, "cards": [asdict(card) for card in part.cards]} for part in report.groups
            ],
        },
        "tables": [asdict(table) for table in report.tables],
        "comparisons": [asdict(comparison) for comparison in report.comparisons],
        "hosts": [host_entry(host) for host in report.hosts],
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


_HEAD = ("host", "state", "reason", "kernel", "clock", "benchmark", "status", "status_reason", "metric", *_LABELS)
_TAIL = (
    "other_labels",
    "target",
    "unit",
    "better",
    "supported",
    "row_reason",
    "median",
    "low",
    "high",
    "noisy",
    "samples",
)


def to_csv(report: Report) -> str:
    """Return report.csv: one line for each measurement, and for each host or benchmark without any."""
    out = io.StringIO()
    writer = csv.DictWriter(out, (*_HEAD, *_TAIL), restval="", lineterminator="\n")
    writer.writeheader()
    for host in report.hosts:
        line: dict[str, Any] = {"host": host.name, "state": host.state, "reason": host.reason, "clock": host.clock}
        if host.fact:
            line["kernel"] = host.fact["environment"]["kernel"]
        else:
            writer.writerow(_safe(line))
        for name, benchmark in host.benchmarks.items():
            head = {**line, "benchmark": name, "status": benchmark["status"], "status_reason": benchmark["reason"]}
            for row in benchmark["rows"] or [None]:
                writer.writerow(_safe({**head, **(_csv_row(row) if row else {})}))
    return out.getvalue()


def _csv_row(row: dict[str, Any]) -> dict[str, Any]:
    labels = {key: value for key, value in row["labels"].items() if key in _LABELS}
    other = {key: value for key, value in row["labels"].items() if key not in _LABELS}
    return {
        **labels,
        "other_labels": " ".join(f"{key}={value}" for key, value in other.items()),
        **{
            key: row[key]
            for key in ("metric", "target", "unit", "better", "supported", "median", "low", "high", "noisy")
        },
        "row_reason": row["reason"],
        "samples": " ".join(map(str, row["samples"])),
    }


def _safe(line: dict[str, Any]) -> dict[str, Any]:
    """Return the line so that no spreadsheet takes a host's text for a formula."""
    return {
        key: f"'{value}"
        if isinstance(value, str) and key != "samples" and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        else value
        for key, value in line.items()
    }


def to_text(report: Report, benchmarks: Iterable[str]) -> str:
    """Return the tables for a terminal: the named benchmarks, hosts without a result, and what changed."""
    parts = []
    for benchmark in benchmarks:
        parts += [_layout(table) for table in report.tables if table.terminal and table.benchmark == benchmark]
    for comparison, table in (
        (c, t) for c in report.comparisons for t in report.change_tables if t.id == f"{c.id}-changes"
    ):
        if comparison.clear:
            parts.append(_layout(table))
    problems = [f"{host.name}: {host.state}: {host.reason}" for host in report.hosts if not host.fact]
    return "\n\n".join([*parts, *(["\n".join(problems)] if problems else [])])


def _layout(table: Table) -> str:
    """Return one table as text; a short row's last cell runs on to the right."""
    lines = [list(table.columns), *([cell.text for cell in row] for row in table.rows)]
    full = [line for line in lines if len(line) == len(table.columns)]
    widths = [max(len(line[column]) for line in full) for column in range(len(table.columns))]
    for line in lines:
        for column, text in enumerate(line[:-1]):
            widths[column] = max(widths[column], len(text))
    laid = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    unit = f" ({table.unit})" if table.unit else ""
    rule = "-" * max(len(line) for line in laid)
    note = [table.note] if table.note else []
    return "\n".join([f"{table.title}{unit}", *note, laid[0], rule, *laid[1:]])


@dataclass(frozen=True)
class _Page:
    """What the template needs besides the report."""

    sections: dict[str, list[Section]]
    charts: dict[str, Chart]


def to_html(report: Report, templates: str) -> str:
    """Return the page: one file that needs nothing but a browser. ``templates`` is the folder of its parts."""
    # Everything is escaped but what this collection wrote itself: style, script and the SVG, which Vega escapes.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (_read(os.path.join(templates, name)) for name in ("report.css", "report.js"))
    charts = {comparison.id: change_chart(comparison.clear) for comparison in report.comparisons}
    page = _Page(
        {part.group.id: sections(part.group) for part in report.groups},
        {key: chart for key, chart in charts.items() if chart},
    )
    return environment.get_template(TEMPLATE).render(
        report=report,
        page=page,
        colour=colour,
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as handle:
        return handle.read()
