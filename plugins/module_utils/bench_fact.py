# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of the benchmark fact, for who writes it (targets) and who reads it (the controller).

docs/facts.md describes every key. Standard library only: this runs on targets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.statistics import median_interval

SCHEMA = 2

# The clock of an environment, and the units that its measurements may have. Two clocks never meet in one table.
UNITS = {
    "time": ("ns", "calls/s", "events/s", "count"),
    "instructions": ("instructions", "calls/Ginstr", "events/Ginstr", "count"),
}
STATUSES = ("ok", "failed", "unsupported")

KINDS = ("kprobe", "fprobe", "eprobe")
MODES = ("bpf", "interpreter", "legacy", "default")
# base: the call without a probe; harness: the measuring loop around nothing.
HOOKS = ("base", "kprobe", "kretprobe", "raw_tracepoint", "tracepoint", "fentry", "fexit", "fmod_ret", "harness")
COUNTERS = ("none", "atomic")
LOADS = ("100/s", "full")
PERCENTILES = ("p50", "p90", "p99")

# The labels and metrics of the benchmarks we know; "case" is for fetchargs other than the plain 0 to 3.
LABELS = {
    "fetcharg": ("kind", "mode", "nargs"),
    "hook_overhead": ("hook", "threads", "counter"),
    "latency": ("hook", "load", "percentile"),
    "parallel": ("workload", "hook", "cpus"),
    "hit_count": ("hook", "cpus"),
}
OPTIONAL_LABELS = {"fetcharg": ("case",)}
NUMBER_LABELS = ("nargs", "threads", "cpus")
METRICS = {
    "fetcharg": ("per_call", "probe_overhead", "overhead", "rate"),
    "hook_overhead": ("rate", "per_call"),
    "latency": ("run_time",),
    "parallel": ("rate",),
    "hit_count": ("calls", "hits", "misses", "rate"),
}
BETTER = {"ns": "lower", "instructions": "lower", "count": "exact"}

# A confidence interval wider than this share of the median makes a row noisy.
NOISY_SHARE = 0.10

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def make_row(
    metric: str,
    labels: Mapping[str, str | int],
    unit: str,
    samples: Sequence[float],
    target: str = "",
    noise_base: float | None = None,
) -> dict[str, Any]:
    """Return a measured row: ``samples`` (one a round, in ``unit``) with their median and 95 % interval.

    ``target`` names the function or tracepoint that was really used. A row is
    noisy when its interval is wider than a tenth of its median, or of
    ``noise_base``: a difference of two times is as noisy as the times are.
    """
    middle, low, high = median_interval(samples)
    base = abs(middle if noise_base is None else noise_base)
    return {
        "labels": dict(labels),
        "metric": metric,
        "unit": unit,
        "better": BETTER.get(unit, "higher"),
        "target": target,
        "supported": True,
        "reason": "",
        "samples": list(samples),
        "median": middle,
        "low": low,
        "high": high,
        "noisy": high - low > NOISY_SHARE * base,
    }


def unsupported_row(
    metric: str, labels: Mapping[str, str | int], unit: str, reason: str, target: str = ""
) -> dict[str, Any]:
    """Return the row of something that this kernel cannot do, with the reason."""
    return {
        "labels": dict(labels),
        "metric": metric,
        "unit": unit,
        "better": BETTER.get(unit, "higher"),
        "target": target,
        "supported": False,
        "reason": reason,
        "samples": [],
        "median": None,
        "low": None,
        "high": None,
        "noisy": False,
    }


def row_id(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what makes a row the same row in another fact: its metric and labels."""
    return (row["metric"], *sorted(row["labels"].items()))


def clock_name(environment: Mapping[str, Any]) -> str:
    """Return what the times of this environment are times of; facts that differ here share no table.

    >>> clock_name({"clock": "time", "virtualisation": "qemu"})
    'ns of an emulated CPU'
    """
    if environment["clock"] == "instructions":
        return "instructions"
    return "ns of an emulated CPU" if environment["virtualisation"] == "qemu" else "ns"


def validate(fact: Any) -> None:
    """Raise FleetError, which names the path and the problem, unless ``fact`` has the documented form."""
    _dict(fact, "fact")
    schema = fact.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        older = isinstance(schema, int) and schema < SCHEMA
        hint = ", an old fact: measure again" if older else ""
        raise FleetError(f"fact.schema: {schema!r} instead of {SCHEMA}{hint}")
    _keys(fact, "fact", ("schema", "time", "environment", "benchmarks"))
    _time(fact["time"], "fact.time")
    _environment(fact["environment"], "fact.environment")
    _dict(fact["benchmarks"], "fact.benchmarks")
    if not fact["benchmarks"]:
        raise FleetError("fact.benchmarks: empty")
    for name, benchmark in fact["benchmarks"].items():
        if not _NAME.fullmatch(name):
            raise FleetError(f"fact.benchmarks: {name!r} is no name of a benchmark")
        _benchmark(name, benchmark, f"fact.benchmarks.{name}", UNITS[fact["environment"]["clock"]])


def _environment(value: Any, path: str) -> None:
    _dict(value, path)
    for key in ("kernel", "kernel_build", "virtualisation", "series_hash"):
        if not isinstance(value.get(key), str):
            raise FleetError(f"{path}.{key}: {value.get(key)!r} is no text")
    _one_of(value.get("clock"), UNITS, f"{path}.clock")
    cpus = value.get("cpus")
    if not isinstance(cpus, int) or isinstance(cpus, bool) or cpus < 1:
        raise FleetError(f"{path}.cpus: {cpus!r} is no number of CPUs")
    for key in ("mitigations", "sysctl"):
        _dict(value.get(key, {}), f"{path}.{key}")


def _benchmark(name: str, value: Any, path: str, units: Sequence[str]) -> None:
    _dict(value, path)
    _keys(value, path, ("key", "time", "status", "reason", "params", "duration_s", "notes", "rows"))
    _dict(value["key"], f"{path}.key")
    _dict(value["params"], f"{path}.params")
    _time(value["time"], f"{path}.time")
    _one_of(value["status"], STATUSES, f"{path}.status")
    _text(value["reason"], f"{path}.reason")
    if (value["status"] == "ok") == bool(value["reason"]):
        raise FleetError(f"{path}.reason: {value['reason']!r} with status {value['status']}")
    if _number(value["duration_s"], f"{path}.duration_s") < 0:
        raise FleetError(f"{path}.duration_s: {value['duration_s']} is negative")
    for index, note in enumerate(_list(value["notes"], f"{path}.notes")):
        _text(note, f"{path}.notes[{index}]")
    rows = _list(value["rows"], f"{path}.rows")
    if value["status"] == "ok" and not rows:
        raise FleetError(f"{path}.rows: empty, but the status is ok")
    seen = set()
    for index, row in enumerate(rows):
        _row(name, row, f"{path}.rows[{index}]", units)
        if row_id(row) in seen:
            raise FleetError(f"{path}.rows[{index}]: a second row with metric and labels {row_id(row)}")
        seen.add(row_id(row))


def _row(name: str, row: Any, path: str, units: Sequence[str]) -> None:
    _dict(row, path)
    _keys(row, path, tuple(unsupported_row("", {}, "", "")))
    _labels(name, row["labels"], f"{path}.labels")
    _text(row["metric"], f"{path}.metric")
    if name in METRICS:
        _one_of(row["metric"], METRICS[name], f"{path}.metric")
    _one_of(row["unit"], units, f"{path}.unit")
    if row["better"] != BETTER.get(row["unit"], "higher"):
        raise FleetError(f"{path}.better: {row['better']!r} with unit {row['unit']}")
    _text(row["target"], f"{path}.target")
    _text(row["reason"], f"{path}.reason")
    for key in ("supported", "noisy"):
        if not isinstance(row[key], bool):
            raise FleetError(f"{path}.{key}: {row[key]!r} is neither true nor false")
    if row["supported"] == bool(row["reason"]):
        raise FleetError(f"{path}.reason: {row['reason']!r} with supported {row['supported']}")
    samples = _list(row["samples"], f"{path}.samples")
    if not row["supported"]:
        if samples or any(row[key] is not None for key in ("median", "low", "high")):
            raise FleetError(f"{path}: not supported, but it has values")
        return
    if not samples:
        raise FleetError(f"{path}.samples: empty")
    for index, sample in enumerate(samples):
        _number(sample, f"{path}.samples[{index}]")
    low, middle, high = (_number(row[key], f"{path}.{key}") for key in ("low", "median", "high"))
    if not low <= middle <= high:
        raise FleetError(f"{path}: low {low}, median {middle}, high {high} are not in this order")


def _labels(name: str, labels: Any, path: str) -> None:
    _dict(labels, path)
    for key, value in labels.items():
        if not _NAME.fullmatch(key):
            raise FleetError(f"{path}: {key!r} is no name of a label")
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise FleetError(f"{path}.{key}: {value!r} is neither text nor a whole number")
        if isinstance(value, str) == (key in NUMBER_LABELS):
            raise FleetError(f"{path}.{key}: {value!r} instead of a {'number' if key in NUMBER_LABELS else 'text'}")
    if name in LABELS:
        wanted = LABELS[name]
        wrong = [key for key in wanted if key not in labels]
        wrong += [key for key in labels if key not in wanted and key not in OPTIONAL_LABELS.get(name, ())]
        if wrong:
            raise FleetError(f"{path}: has {', '.join(labels) or 'none'}; {name} has {', '.join(wanted)}")


def _dict(value: Any, path: str) -> None:
    if not isinstance(value, Mapping) or any(not isinstance(key, str) for key in value):
        raise FleetError(f"{path}: {_short(value)} instead of an object")


def _keys(value: Mapping[str, Any], path: str, wanted: Sequence[str]) -> None:
    missing = [key for key in wanted if key not in value]
    unknown = [key for key in value if key not in wanted]
    if missing or unknown:
        problem = f"{', '.join(missing)} missing" if missing else f"{', '.join(unknown)} not known"
        raise FleetError(f"{path}: {problem}")


def _list(value: Any, path: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise FleetError(f"{path}: {_short(value)} instead of a list")
    return value


def _text(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise FleetError(f"{path}: {_short(value)} instead of a text")


def _time(value: Any, path: str) -> None:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise FleetError(f"{path}: {_short(value)} instead of a time like 2026-11-30T18:00:00Z")


def _number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise FleetError(f"{path}: {_short(value)} instead of a finite number")
    return value


def _one_of(value: Any, known: Iterable[str], path: str) -> None:
    if not isinstance(value, str) or value not in known:
        raise FleetError(f"{path}: {_short(value)} instead of one of {', '.join(known)}")


def _short(value: Any) -> str:
    """Return a value for a message; a broken fact must not fill the screen."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
