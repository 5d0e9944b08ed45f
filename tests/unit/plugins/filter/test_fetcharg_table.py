# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.filter.fetcharg_table import FilterModule

table = FilterModule().filters()["fetcharg_table"]


def fact(unit: str = "ns", virtualisation: str = "none", **changes: Any) -> dict[str, Any]:
    value = {"median": 7.12, "low": 6.8, "high": 7.5}
    rows = [
        {
            "kind": "kprobe",
            "mode": "bpf",
            "nargs": 0,
            "supported": True,
            "per_call": {"median": 100.0, "low": 99.0, "high": 101.0},
        },
        {
            "kind": "kprobe",
            "mode": "bpf",
            "nargs": 1,
            "supported": True,
            "per_call": value,
            "overhead": value,
            "noisy": True,
        },
        {"kind": "fprobe", "mode": "bpf", "nargs": 0, "supported": False, "reason": "no fprobe events"},
    ]
    environment = {"kernel": "6.12.1-x", "virtualisation": virtualisation}
    return {"probe_bench_result": {"unit": unit, "environment": environment, "fetcharg": {"rows": rows}} | changes}


def test_one_row_for_each_probe_kind_of_each_host() -> None:
    text = table({"a": fact(), "b": fact()}, ["a", "b"])
    assert text.count("kprobe  bpf   100.0 [99.0 101.0]  7.1 [6.8 7.5] ~") == 2
    assert text.count("fprobe  bpf   not supported") == 2


def test_units_are_never_mixed() -> None:
    text = table({"a": fact(), "b": fact(unit="instructions"), "c": fact(virtualisation="qemu")}, ["a", "b", "c"])
    assert [line.split(": median")[0] for line in text.splitlines() if line.startswith("Cost")] == [
        "Cost of fetchargs, ns per call",
        "Cost of fetchargs, instructions per call",
        "Cost of fetchargs, ns of an emulated CPU per call",
    ]


def test_a_host_without_a_result_is_a_line_that_says_so() -> None:
    text = table({"a": fact(), "b": {}}, ["a", "b", "gone"])
    assert "b: no result" in text
    assert "gone: no result" in text
