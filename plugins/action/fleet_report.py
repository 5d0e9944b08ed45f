# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes one report of all hosts' benchmark facts; the module of the same name documents it."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_build import (
    TEMPLATE,
    Comparison,
    Report,
    build,
    digest,
    to_csv,
    to_html,
    to_json,
    to_text,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_collect import collect, plain
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_compare import (
    Change,
    compare,
    pair_hosts,
    regressions,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_history import (
    LATEST,
    SCHEMA,
    History,
    host_entry,
    hosts_of,
    read_report,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import HostResult, scale_for
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_sides import hosts_of_side
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_tables import percent

# Raised when reports of the same facts look different, so that they are written anew.
FORM = 1

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "path": {"type": "path", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "gathered": {"type": "str", "required": True},
    "keep": {"type": "int", "default": 20},
    "baseline": {"type": "str"},
    "max_regression": {"type": "float", "default": 5.0},
    "compare": {"type": "list", "elements": "str", "default": []},
    "terminal": {
        "type": "list",
        "elements": "str",
        "default": ["fetcharg", "hook_overhead", "latency", "parallel", "hit_count"],
    },
}


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec=_ARGUMENTS)
        hostvars = (task_vars or {}).get("hostvars", {})
        gathered = {
            name: plain(hostvars[name][args["gathered"]])
            for name in args["hosts"]
            if name in hostvars and args["gathered"] in hostvars[name]
        }
        templates = os.path.dirname(self._find_needle("templates", TEMPLATE))
        try:
            return {**result, **write_report(plain(args), gathered, templates, self._task.check_mode)}
        except FleetError as exc:
            return {**result, "failed": True, "msg": str(exc), **exc.details}


def write_report(args: dict[str, Any], gathered: dict[str, Any], templates: str, check_mode: bool) -> dict[str, Any]:
    """Write the report unless there is one of the same content; return the task's result."""
    _check(args)
    history = History(args["path"])
    hosts = collect(args["hosts"], gathered)
    facts = digest([host_entry(host) for host in hosts])
    comparisons, needed = _comparisons(args, history, hosts, facts)
    content = digest([FORM, SCHEMA, facts, [[c.a, c.b, c.max_regression, c.regressed is None] for c in comparisons]])
    names = history.names()
    before = read_report(history.file(names[-1])) if names else {}
    changed = before.get("content") != content
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    run = history.free_name(now) if changed else names[-1]
    if changed:
        comparisons += _since(history, before, hosts, facts, comparisons)
    report = build(run, now, content, hosts, comparisons)
    text = to_text(report, args["terminal"])
    # The new run is one of those that are kept.
    removed = history.surplus(args["keep"] - changed, needed) if args["keep"] else []
    if not check_mode:
        if changed:
            page = to_html(report, templates)
            history.write(run, {"report.html": page, "report.json": to_json(report), "report.csv": to_csv(report)})
        for name in removed:
            history.remove(name)
    return {
        "changed": changed or bool(removed),
        "run": run,
        "folder": os.path.join(history.path, run),
        "table": text,
        "hosts": {host.name: host.state for host in hosts},
        "regressions": [_sentence(change) for c in comparisons for change in c.regressed or []],
        "removed": removed,
        "diff": {"before": _old_text(before, args["terminal"]), "after": text + "\n"},
    }


def _check(args: dict[str, Any]) -> None:
    for name in ("keep", "max_regression"):
        if args[name] < 0:
            raise FleetError(f"{name} is {args[name]}; it must be 0 or more")
    if args["compare"] and len(args["compare"]) != 2:
        raise FleetError(f"compare has {len(args['compare'])} entries; it must have two, A and B")


def _comparisons(
    args: dict[str, Any], history: History, hosts: list[HostResult], facts: str
) -> tuple[list[Comparison], list[str]]:
    """Return the comparisons that were asked for, and the names of runs that must be kept for them."""
    found, needed = [], []
    if args["baseline"]:
        name = args["baseline"]
        if name == LATEST:
            name = _newest_other(history, facts) or LATEST
        path = history.resolve(name)
        changes = compare(pair_hosts(hosts_of(read_report(path), path), hosts, f"baseline {name}", "this run"))
        worse = regressions(changes, args["max_regression"])
        title = "Against the baseline"
        found.append(Comparison("baseline", title, name, "this run", changes, worse, args["max_regression"]))
        needed.append(name)
    if args["compare"]:
        a, b = args["compare"]
        pairs = pair_hosts(hosts_of_side(a, history, hosts), hosts_of_side(b, history, hosts), a, b)
        found.append(Comparison("compare", "A against B", a, b, compare(pairs)))
        needed += [side.partition("@")[0] for side in (a, b)]
    return found, needed


def _since(
    history: History, before: dict[str, Any], hosts: list[HostResult], facts: str, asked: list[Comparison]
) -> list[Comparison]:
    """Return what changed since the newest run with other facts, unless that or more was asked for anyway."""
    name = _newest_other(history, facts)
    if asked or not before or not name:
        return []
    earlier = hosts_of(history.load(name), history.resolve(name))
    if not {host.name for host in earlier} & {host.name for host in hosts}:
        return []
    changes = compare(pair_hosts(earlier, hosts, name, "this run"))
    return [Comparison("since", "Since the run before", name, "this run", changes)]


def _newest_other(history: History, facts: str) -> str | None:
    """Return the newest run that was made of other facts."""
    for name in reversed(history.names()):
        if history.load(name).get("facts") != facts:
            return name
    return None


def _old_text(before: dict[str, Any], terminal: list[str]) -> str:
    """Return the newest run's tables as the terminal shows them; empty before the first run."""
    if not before:
        return ""
    hosts = hosts_of(before, str(before.get("run")))
    report: Report = build(str(before.get("run")), str(before.get("time")), "", hosts)
    return to_text(report, terminal) + "\n"


def _sentence(change: Change) -> str:
    """Return a regressed cell in words."""
    if change.a is None or change.b is None:
        return f"{change.name}: {change.verdict}: {change.reason}"
    scale = scale_for([{"supported": True, "median": value, "unit": change.unit} for value in (change.a, change.b)])
    p = f", p = {change.p:.2g}" if change.p is not None else ""
    return (
        f"{change.name}: {scale.write(change.a)} to {scale.write(change.b)} {scale.unit} ({percent(change.percent)}{p})"
    )
