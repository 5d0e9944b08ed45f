# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark fact as a file for node_exporter's textfile collector (OpenMetrics text)."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable
from typing import Any

# Unit of a row: name of the metric, factor to its base unit, help.
_FAMILIES = {
    "ns": ("fetchbpf_bench_seconds", 1e-9, "Duration of a call, or what a probe adds to it."),
    "instructions": ("fetchbpf_bench_instructions", 1, "The same as instructions of an emulated CPU."),
    "calls/s": ("fetchbpf_bench_calls_per_second", 1, "Calls per second."),
    "events/s": ("fetchbpf_bench_events_per_second", 1, "Events per second."),
    "calls/Ginstr": ("fetchbpf_bench_calls_per_instruction", 1e-9, "Calls per instruction of an emulated CPU."),
    "events/Ginstr": ("fetchbpf_bench_events_per_instruction", 1e-9, "Events per instruction of an emulated CPU."),
    "count": ("fetchbpf_bench_count", 1, "Calls, hits and misses of one sample."),
}


def render(fact: dict[str, Any]) -> str:
    """Return the text for a fact: median and 95 % interval of each row, and how each benchmark went."""
    lines: list[str] = []
    benchmarks = fact["benchmarks"]
    for unit, (family, factor, help_text) in _FAMILIES.items():
        samples = [
            _sample(family, dict(row["labels"], benchmark=name, metric=row["metric"], stat=stat), row[stat] * factor)
            for name, benchmark in benchmarks.items()
            for row in benchmark["rows"]
            if row["unit"] == unit and row["supported"]
            for stat in ("median", "low", "high")
        ]
        lines += _family(family, help_text, samples)
    ok = [
        _sample("fetchbpf_bench_ok", {"benchmark": name}, int(benchmark["status"] == "ok"))
        for name, benchmark in benchmarks.items()
    ]
    lines += _family("fetchbpf_bench_ok", "Whether the benchmark could be run.", ok)
    noisy = [
        _sample("fetchbpf_bench_noisy_rows", {"benchmark": name}, sum(row["noisy"] for row in benchmark["rows"]))
        for name, benchmark in benchmarks.items()
    ]
    lines += _family("fetchbpf_bench_noisy_rows", "Rows whose 95 % interval is too wide.", noisy)
    times = [
        _sample("fetchbpf_bench_timestamp_seconds", {"benchmark": name}, _epoch(benchmark["time"]))
        for name, benchmark in benchmarks.items()
    ]
    lines += _family("fetchbpf_bench_timestamp_seconds", "When it was measured.", times)
    environment = {key: str(fact["environment"][key]) for key in ("kernel", "series_hash", "clock", "virtualisation")}
    info = [_sample("fetchbpf_bench_environment_info", environment, 1)]
    lines += _family("fetchbpf_bench_environment_info", "What it was measured on.", info)
    return "\n".join([*lines, "# EOF", ""])


def _family(name: str, help_text: str, samples: Iterable[str]) -> list[str]:
    found = list(samples)
    return [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *found] if found else []


def _sample(name: str, labels: dict[str, Any], value: float) -> str:
    inside = ",".join(f'{key}="{_escape(str(text))}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:.10g}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _epoch(text: str) -> int:
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
