# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The charts of a report, drawn by Vega-Lite as SVG: no script, and the page's style sheet colours them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import HOOKS, KINDS, LOADS, MODES, PERCENTILES
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_compare import Change, describe
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import Group, HostResult, scale_for

# Wide enough for its text on a phone, so that nothing is ever scaled down.
WIDTH = 340
# The charts of single hosts stop here, the tables do not.
MANY_HOSTS = 6
MANY_CHANGES = 24

_INK, _MUTED, _GRID = "var(--ink)", "var(--muted)", "var(--grid)"
_CONFIG = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    # Fonts differ from place to place: room for a label that is a little wider than it was measured.
    "padding": {"left": 12, "right": 14, "top": 4, "bottom": 4},
    "axis": {
        "labelColor": _MUTED,
        "titleColor": _MUTED,
        "gridColor": _GRID,
        "domainColor": _GRID,
        "tickColor": _GRID,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 170,
        "labelOverlap": "greedy",
    },
}


@dataclass(frozen=True)
class Chart:
    """A chart with its heading and a note; ``colours`` are the names that the legend explains."""

    id: str
    title: str
    svg: str
    colours: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Section:
    """The charts that answer one question."""

    id: str
    title: str
    charts: list[Chart]
    note: str = ""


def draw(spec: dict[str, Any]) -> str:
    """Return a Vega-Lite chart as SVG that fits into a page."""
    try:
        import vl_convert
    except ImportError as exc:
        raise FleetError(
            f"the report needs vl-convert-python on the controller ({exc}): pip install -r requirements.txt"
        ) from exc
    whole = {"width": WIDTH, "autosize": {"type": "fit", "contains": "padding"}, "config": _CONFIG, **spec}
    return vl_convert.vegalite_to_svg(whole)


def colour(name: str) -> str:
    """Return the style sheet's colour of a mode or hook; of a name, which a host wrote, only letters get through."""
    return f"var(--c-{re.sub('[^a-z0-9]', '-', name)}, {_MUTED})"


def _colour(field: str, names: Sequence[str]) -> dict[str, Any]:
    """Return an encoding that gives each name the colour that the style sheet has for it."""
    scale = {"domain": list(names), "range": [colour(name) for name in names]}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None}


def _axis(title: str, unit: str) -> dict[str, Any]:
    return {"title": title, "tickCount": 5, **({"format": "~s"} if "/" in unit else {})}


def _point(row: dict[str, Any], host: str, **more: Any) -> dict[str, Any]:
    """Return a measurement as Vega-Lite wants it, with the text that a reader gets on touching its mark."""
    scale = scale_for([row])
    value = f"{scale.write(row['median'])} [{scale.write(row['low'])} {scale.write(row['high'])}] {scale.unit}"
    noisy = ", noisy" if row["noisy"] else ""
    tip = f"{host}: {row['metric'].replace('_', ' ')} {value}{noisy} ({describe(row['labels'])})"
    return {"median": row["median"], "low": row["low"], "high": row["high"], "tip": tip, **row["labels"], **more}


_TIP = {"field": "tip", "type": "nominal"}


def _bars(
    points: list[dict[str, Any]], y: str, order: Sequence[Any], colour: str, names: Sequence[str], title: str, unit: str
) -> str:
    """Return horizontal bars with their intervals as whiskers; bars of one ``y`` are side by side by ``colour``."""
    place: dict[str, Any] = {"y": {"field": y, "type": "nominal", "sort": list(order), "title": None}}
    if colour != y:
        place["yOffset"] = {"field": colour, "type": "nominal", "sort": list(names)}
    lines = len({(point[y], point[colour]) for point in points})
    value = {"field": "median", "type": "quantitative", "axis": _axis(title, unit)}
    ends = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}
    return draw(
        {
            "height": 44 + 22 * max(lines, 2),
            "data": {"values": points},
            "layer": [
                {
                    "mark": {"type": "bar", "cornerRadiusEnd": 2},
                    "encoding": {**place, "x": value, "color": _colour(colour, names), "description": _TIP},
                },
                {"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": {**place, **ends, "color": {"value": _INK}}},
            ],
        }
    )


def _lines(points: list[dict[str, Any]], names: Sequence[str], title: str, unit: str) -> str:
    """Return values by number of CPUs, a line for each hook."""
    x = {"field": "cpus", "type": "ordinal", "title": "CPUs", "axis": {"labelAngle": 0}}
    y = {"field": "median", "type": "quantitative", "axis": _axis(title, unit), "scale": {"zero": True}}
    colour = _colour("hook", names)
    return draw(
        {
            "height": 230,
            "data": {"values": points},
            "encoding": {"x": x, "color": colour},
            "layer": [
                {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": y}},
                {
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                    "encoding": {"y": y, "description": _TIP},
                },
            ],
        }
    )


def _dots(points: list[dict[str, Any]], order: Sequence[str], title: str, unit: str) -> str:
    """Return p50 to p99 of each hook as a line with three marks, on a logarithmic axis."""
    x = {"type": "quantitative", "scale": {"type": "log", "nice": True}}
    y = {"field": "hook", "type": "nominal", "sort": list(order), "title": None, "axis": {"grid": True}}
    shapes = {"domain": list(PERCENTILES), "range": ["circle", "diamond", "triangle-right"]}
    colour = _colour("hook", order)
    axis = {"title": title, "format": "~s", "tickCount": 4}
    return draw(
        {
            "height": 50 + 24 * len({point["hook"] for point in points}),
            "data": {"values": points},
            "encoding": {"y": y},
            "layer": [
                {
                    "mark": {"type": "line", "strokeWidth": 2},
                    "encoding": {
                        "x": {"field": "median", **x, "axis": axis},
                        "detail": {"field": "hook"},
                        "color": colour,
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                    "encoding": {
                        "x": {"field": "median", **x, "axis": axis},
                        "color": colour,
                        "shape": {"field": "percentile", "type": "nominal", "scale": shapes, "legend": None},
                        "description": _TIP,
                    },
                },
            ],
        }
    )


def _strip(points: list[dict[str, Any]], y: str, order: Sequence[str], title: str, unit: str) -> str:
    """Return one dot for each host and a tick at their median."""
    place = {"field": y, "type": "nominal", "sort": list(order), "title": None, "axis": {"grid": True}}
    return draw(
        {
            "height": 50 + 26 * len({point[y] for point in points}),
            "data": {"values": points},
            "encoding": {"y": place},
            "layer": [
                {
                    "mark": {"type": "point", "filled": True, "size": 55, "opacity": 0.75},
                    "encoding": {
                        "x": {"field": "median", "type": "quantitative", "axis": _axis(title, unit)},
                        "color": _colour(y, order),
                        "description": _TIP,
                    },
                },
                {
                    "mark": {"type": "tick", "thickness": 2, "size": 18},
                    "encoding": {
                        "x": {"field": "median", "type": "quantitative", "aggregate": "median", "title": title},
                        "color": {"value": _INK},
                    },
                },
            ],
        }
    )


def _named(rows: Iterable[dict[str, Any]], label: str, order: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a label in the order that all charts have, the unknown ones last."""
    there = dict.fromkeys(row["labels"][label] for row in rows)
    return tuple([name for name in order if name in there] + [name for name in there if name not in order])


def _measured(host: HostResult, benchmark: str, metric: str, **labels: Any) -> list[dict[str, Any]]:
    return [row for row in host.rows(benchmark, metric, **labels) if row["supported"] and "case" not in row["labels"]]


def _refused(rows: Iterable[dict[str, Any]], label: str) -> str:
    """Return a note that names what this kernel cannot do, since it has no mark."""
    names = dict.fromkeys(row["labels"][label] for row in rows if not row["supported"])
    return f"Not supported: {', '.join(names)}." if names else ""


def sections(group: Group) -> list[Section]:
    """Return the charts of a group of hosts, section by section; those without data are left out."""
    shown = group.hosts[:MANY_HOSTS]
    note = ""
    if len(group.hosts) > MANY_HOSTS:
        note = (
            f"Drawn for the first {MANY_HOSTS} of {len(group.hosts)} hosts; the tables and the fleet's charts have all."
        )
    found = [
        Section(f"fetcharg-{group.id}", "What fetchargs add to a probe", _fetcharg(shown), note),
        Section(f"hooks-{group.id}", "What a hook costs", _hooks(shown), note),
        Section(f"latency-{group.id}", "How long one call takes", _latency(shown), note),
        Section(f"parallel-{group.id}", "How it scales with CPUs", _parallel(shown), note),
        Section(
            f"fleet-{group.id}",
            "How far the hosts are apart",
            _fleet(group),
            "One dot for each host; the tick is their median.",
        ),
    ]
    return [section for section in found if section.charts]


def _fetcharg(hosts: list[HostResult]) -> list[Chart]:
    charts: list[Chart] = []
    for host in hosts:
        for kind in KINDS:
            rows = [row for row in _measured(host, "fetcharg", "overhead", kind=kind) if row["labels"]["nargs"] > 0]
            if not rows:
                continue
            points = [_point(row, host.name, args=_args(row["labels"]["nargs"])) for row in rows]
            modes = _named(rows, "mode", MODES)
            unit = rows[0]["unit"]
            order = [_args(nargs) for nargs in (1, 2, 3)]
            svg = _bars(points, "args", order, "mode", modes, f"{unit} over the same {kind} without fetchargs", unit)
            note = _refused(host.rows("fetcharg", "per_call", kind=kind), "mode")
            charts.append(Chart(f"fetcharg-{kind}-{len(charts)}", f"{kind} · {host.name}", svg, modes, note))
    return charts


def _args(nargs: int) -> str:
    return "1 arg" if nargs == 1 else f"{nargs} args"


def _hooks(hosts: list[HostResult]) -> list[Chart]:
    charts: list[Chart] = []
    for host in hosts:
        rows = _measured(host, "hook_overhead", "rate")
        ways = dict.fromkeys((row["labels"]["threads"], row["labels"]["counter"]) for row in rows)
        for threads, counter in sorted(ways, key=lambda way: (way[0], way[1] != "none")):
            found = _measured(host, "hook_overhead", "rate", threads=threads, counter=counter)
            own = [row for row in found if row["labels"]["hook"] != "harness"]
            if not own:
                continue
            hooks = _named(own, "hook", HOOKS)
            svg = _bars(
                [_point(row, host.name) for row in own], "hook", hooks, "hook", hooks, own[0]["unit"], own[0]["unit"]
            )
            many = f"{threads} threads" if threads > 1 else "1 thread"
            atomic = ", atomic counter" if counter == "atomic" else ""
            note = _refused(host.rows("hook_overhead", "rate", threads=threads, counter=counter), "hook")
            charts.append(Chart(f"hooks-{len(charts)}", f"{many}{atomic} · {host.name}", svg, (), note))
    return charts


def _latency(hosts: list[HostResult]) -> list[Chart]:
    charts: list[Chart] = []
    for host in hosts:
        for load in LOADS:
            rows = [row for row in _measured(host, "latency", "run_time", load=load) if row["median"] > 0]
            rows = [row for row in rows if row["labels"]["hook"] != "harness"]
            if not rows:
                continue
            hooks = _named(rows, "hook", HOOKS)
            unit = rows[0]["unit"]
            title = f"{unit}, logarithmic: ● p50  ◆ p90  ▶ p99"
            svg = _dots([_point(row, host.name) for row in rows], hooks, title, unit)
            what = "full rate" if load == "full" else f"{load.partition('/')[0]} calls/s"
            note = _refused(host.rows("latency", "run_time", load=load), "hook")
            charts.append(Chart(f"latency-{len(charts)}", f"{what} · {host.name}", svg, (), note))
    return charts


def _parallel(hosts: list[HostResult]) -> list[Chart]:
    charts: list[Chart] = []
    for host in hosts:
        rows = [row for row in _measured(host, "parallel", "rate") if row["labels"]["hook"] != "harness"]
        for workload in dict.fromkeys(row["labels"]["workload"] for row in rows):
            own = [row for row in rows if row["labels"]["workload"] == workload]
            note = _refused(host.rows("parallel", "rate", workload=workload), "hook")
            charts.append(_scaling(f"parallel-{len(charts)}", f"{workload} · {host.name}", own, host, note))
        counted = [row for row in _measured(host, "hit_count", "rate") if row["labels"]["hook"] != "harness"]
        if counted:
            charts.append(_scaling(f"hits-{len(charts)}", f"hot function, hits counted · {host.name}", counted, host))
    return charts


def _scaling(id_: str, title: str, rows: list[dict[str, Any]], host: HostResult, note: str = "") -> Chart:
    hooks = _named(rows, "hook", HOOKS)
    points = [_point(row, host.name) for row in rows]
    return Chart(id_, title, _lines(points, hooks, rows[0]["unit"], rows[0]["unit"]), hooks, note)


def _fleet(group: Group) -> list[Chart]:
    """Return the spread of the two numbers that matter most; one host has none."""
    if len(group.hosts) < 2:
        return []
    charts: list[Chart] = []
    for kind in KINDS:
        rows = [
            (row, host) for host in group.hosts for row in _measured(host, "fetcharg", "overhead", kind=kind, nargs=3)
        ]
        if rows:
            modes = _named((row for row, _host in rows), "mode", MODES)
            unit = rows[0][0]["unit"]
            svg = _strip([_point(row, host.name) for row, host in rows], "mode", modes, f"{unit} for 3 fetchargs", unit)
            charts.append(Chart(f"fleet-{kind}", f"{kind} · all hosts", svg))
    rows = [(row, host) for host in group.hosts for row in _measured(host, "hook_overhead", "rate", threads=1)]
    for counter in ("none", "atomic"):
        own = [(row, host) for row, host in rows if row["labels"]["counter"] == counter]
        own = [(row, host) for row, host in own if row["labels"]["hook"] != "harness"]
        if own:
            hooks = _named((row for row, _host in own), "hook", HOOKS)
            unit = own[0][0]["unit"]
            svg = _strip([_point(row, host.name) for row, host in own], "hook", hooks, unit, unit)
            atomic = ", atomic counter" if counter == "atomic" else ""
            charts.append(Chart(f"fleet-hooks-{counter}", f"1 thread{atomic} · all hosts", svg))
    return charts


def change_chart(changes: Sequence[Change]) -> Chart | None:
    """Return the largest significant changes; None if there is none."""
    clear = [change for change in changes if change.verdict in ("better", "worse") and change.percent is not None]
    clear = sorted(clear, key=lambda change: -abs(change.percent or 0.0))[:MANY_CHANGES]
    if not clear:
        return None
    points = [
        {
            # A number in front keeps two cells apart whose shortened names are equal.
            "cell": f"{number + 1}. {change.metric} {' '.join(map(str, change.labels.values()))}",
            "median": change.percent,
            "verdict": change.verdict,
            "tip": f"{change.name}: {change.percent:+.1f} %, p = {change.p:.2g}",
        }
        for number, change in enumerate(clear)
    ]
    cells = [point["cell"] for point in points]
    svg = draw(
        {
            "height": 44 + 22 * len(points),
            "data": {"values": points},
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "y": {"field": "cell", "type": "nominal", "sort": cells, "title": None},
                "x": {
                    "field": "median",
                    "type": "quantitative",
                    "axis": {"title": "change of the median, %", "tickCount": 5},
                },
                "color": _colour("verdict", ("better", "worse")),
                "description": _TIP,
            },
        }
    )
    return Chart("changes", "The largest significant changes", svg, ("better", "worse"))
