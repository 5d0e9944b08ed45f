# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The terminal table of the ``fetcharg`` benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOCUMENTATION = r"""
name: fetcharg_table
short_description: Lay out the fetcharg benchmark of many hosts as a table
version_added: "0.1.0"
description:
  - Takes C(hostvars) and returns the text of one table a unit, host by probe kind, mode and number of fetchargs.
options:
  _input:
    description: Variables by host name; C(probe_bench_result) of each host is read.
    type: dict
    required: true
  hosts:
    description: The hosts to show, in this order.
    type: list
    elements: str
    required: true
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Print the table
  ansible.builtin.debug:
    msg: "{{ hostvars | fetchbpf.fleet.fetcharg_table(groups['fleet']) }}"
"""

RETURN = r"""
_value:
  description: The table.
  type: str
"""

_HEAD = ("host", "kernel", "probe", "mode", "0 args", "+1 arg", "+2 args", "+3 args")
# The emulator's clock is not the host's: say so wherever its numbers are shown.
_EMULATED = ("qemu",)


def _cell(row: dict[str, Any] | None, field: str) -> str:
    if row is None:
        return "-"
    if not row["supported"]:
        return "not supported"
    value = row.get(field)
    if value is None:
        return "-"
    mark = " ~" if row.get("noisy") else ""
    return f"{value['median']:.1f} [{value['low']:.1f} {value['high']:.1f}]{mark}"


def _rows(host: str, fact: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = fact["fetcharg"]["rows"]
    by_variant = {(row["kind"], row["mode"], row["nargs"]): row for row in rows}
    kernel = fact["environment"]["kernel"]
    table = []
    for kind, mode in dict.fromkeys((row["kind"], row["mode"]) for row in rows):
        cells = [_cell(by_variant.get((kind, mode, 0)), "per_call")]
        cells += [_cell(by_variant.get((kind, mode, count)), "overhead") for count in (1, 2, 3)]
        table.append((host, kernel, kind, mode, *cells))
    return table


def _layout(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in [_HEAD, *rows]) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [_HEAD, *rows]]
    return [lines[0], "-" * max(len(line) for line in lines), *lines[1:]]


def fetcharg_table(hostvars: Mapping[str, Any], hosts: list[str]) -> str:
    """Return the tables, one for each unit, and a line for each host that has none."""
    by_unit: dict[str, list[tuple[str, ...]]] = {}
    missing = []
    for host in hosts:
        fact = hostvars[host].get("probe_bench_result") if host in hostvars else None
        if not fact:
            missing.append(f"{host}: no result (the host failed earlier in this run, or was not measured)")
            continue
        unit = fact["unit"]
        if fact["environment"]["virtualisation"] in _EMULATED:
            unit += " of an emulated CPU"
        by_unit.setdefault(unit, []).extend(_rows(host, fact))
    lines = []
    for unit, rows in by_unit.items():
        lines.append(
            f"Cost of fetchargs, {unit} per call: median [95 % confidence interval]; '0 args' is the whole call with"
        )
        lines.append("the event on, '+N args' what N fetchargs add to it; '~' marks a noisy row.")
        lines += _layout(rows) + [""]
    return "\n".join(lines + missing).rstrip()


class FilterModule:
    """Entry point for ansible-core."""

    def filters(self) -> dict[str, Any]:
        """Return the filters of this file by name."""
        return {"fetcharg_table": fetcharg_table}
