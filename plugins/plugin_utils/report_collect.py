# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns what Ansible gathered into one result for each host; no host is ever left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import SCHEMA, validate
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import HostResult

FACT = "fetchbpf"


def collect(hosts: Iterable[str], gathered: Mapping[str, Any]) -> list[HostResult]:
    """Return the results of ``hosts`` in their order; ``gathered`` has the setup task's result by host.

    States: measured, unreachable, failed, not gathered, no fact, old fact, bad fact.
    """
    return [_result(name, gathered.get(name)) for name in hosts]


def _result(name: str, answer: Any) -> HostResult:
    if not isinstance(answer, Mapping):
        return HostResult(name, "not gathered", "not asked in this run: it failed earlier, or the run was limited")
    if answer.get("unreachable"):
        return HostResult(name, "unreachable", _line(answer.get("msg") or "no answer"))
    if answer.get("failed"):
        return HostResult(name, "failed", _line(answer.get("msg") or "facts could not be gathered"))
    local = (answer.get("ansible_facts") or {}).get("ansible_local") or {}
    fact = local.get(FACT)
    if fact is None:
        return HostResult(name, "no fact", f"facts.d/{FACT}.fact is missing: not measured yet")
    if isinstance(fact, str):
        # Ansible's own word for a fact file that is not JSON.
        return HostResult(name, "bad fact", _line(fact))
    try:
        validate(fact)
    except FleetError as exc:
        schema = fact.get("schema") if isinstance(fact, Mapping) else None
        old = isinstance(schema, int) and schema < SCHEMA
        return HostResult(name, "old fact" if old else "bad fact", str(exc))
    return HostResult(name, "measured", "", plain(fact))


def plain(value: Any) -> Any:
    """Return a copy of Ansible's containers and texts in plain Python types."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return str.__getitem__(value, slice(None))
    return value


def _line(text: Any) -> str:
    """Return a message as one line of bearable length."""
    line = " ".join(str(text).split())
    return line if len(line) <= 300 else f"{line[:297]}..."
