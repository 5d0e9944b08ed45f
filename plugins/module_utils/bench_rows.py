# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the raw samples of the benchmark program to the rows of the fact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import make_row, unsupported_row

Raw = dict[str, Any]
Row = dict[str, Any]
# Unit of a duration, of calls and of events by rate, for each clock.
_UNITS = {
    "time": {"duration": "ns", "calls": "calls/s", "events": "events/s"},
    "instructions": {"duration": "instructions", "calls": "calls/Ginstr", "events": "events/Ginstr"},
}


class Rows:
    """Makes the rows of one benchmark; ``clock`` is what the samples' clock counts."""

    def __init__(self, raw: Raw, clock: str) -> None:
        self._raw = raw
        self._units = _UNITS[clock]
        self.rows: list[Row] = []

    def make(self) -> list[Row]:
        """Return the rows, in the order of the program's."""
        makers: dict[str, Callable[[Raw], None]] = {
            "fetcharg": self._fetcharg,
            "hook_overhead": self._hook_overhead,
            "latency": self._latency,
            "parallel": self._parallel,
            "hit_count": self._hit_count,
        }
        for row in self._raw["rows"]:
            makers[self._raw["benchmark"]](row)
        return self.rows

    def _add(self, metric: str, raw: Raw, unit: str, samples: list[float], noise_base: float | None = None) -> None:
        unit = self._units.get(unit, unit)
        if raw["reason"]:
            self.rows.append(unsupported_row(metric, raw["labels"], unit, raw["reason"], raw["target"]))
        else:
            rounded = [round(sample, 3) for sample in samples]
            self.rows.append(make_row(metric, raw["labels"], unit, rounded, raw["target"], noise_base))

    def _per_call(self, raw: Raw) -> list[float]:
        return [ns / self._raw["loops"] for ns in raw["series"].get("ns", [])]

    def _find(self, **labels: str | int) -> Raw | None:
        found = (row for row in self._raw["rows"] if row["labels"] == labels and not row["reason"])
        return next(found, None)

    def _fetcharg(self, raw: Raw) -> None:
        """Differences are taken round by round, so that slow drift of the host cancels out."""
        mine = self._per_call(raw)
        self._add("per_call", raw, "duration", mine)
        labels = raw["labels"]
        if labels["kind"] == "harness":
            return
        self._add("rate", raw, "calls", [1e9 / max(each, 1e-3) for each in mine])
        if labels["kind"] == "baseline":
            return
        noise_base = sorted(mine)[len(mine) // 2] if mine else None
        for metric, other in (
            ("probe_overhead", self._find(kind="baseline", mode="default", nargs=0)),
            ("overhead", self._find(**dict(labels, nargs=0)) if labels["nargs"] else None),
        ):
            if metric == "overhead" and not labels["nargs"]:
                continue
            if other or raw["reason"]:
                base = self._per_call(other) if other else []
                self._add(metric, raw, "duration", [one - two for one, two in zip(mine, base)], noise_base)

    def _rates(self, raw: Raw) -> list[float]:
        series = raw["series"]
        return [calls * 1e9 / max(ns, 1) for calls, ns in zip(series.get("calls", []), series.get("ns", []))]

    def _hook_overhead(self, raw: Raw) -> None:
        rates = self._rates(raw)
        self._add("rate", raw, "events", rates)
        self._add("per_call", raw, "duration", [raw["labels"]["threads"] * 1e9 / rate for rate in rates])

    def _latency(self, raw: Raw) -> None:
        self._add("run_time", raw, "duration", raw["series"].get("ns", []))

    def _parallel(self, raw: Raw) -> None:
        self._add("rate", raw, "calls", self._rates(raw))

    def _hit_count(self, raw: Raw) -> None:
        self._add("calls", raw, "count", raw["series"].get("calls", []))
        if raw["labels"]["hook"] != "base":
            self._add("hits", raw, "count", raw["series"].get("hits", []))
            self._add("misses", raw, "count", raw["series"].get("misses", []))
        self._add("rate", raw, "calls", self._rates(raw))


def notes_of(raw: Raw, rows: list[Row]) -> list[str]:
    """Return what a reader should know: the program's own notes, wrong counts and noise."""
    notes = list(raw["notes"])
    if raw["benchmark"] == "hit_count":
        notes.append(_count_note(raw))
    noisy = [row for row in rows if row["noisy"]]
    if noisy:
        notes.append(
            f"{len(noisy)} of {len(rows)} rows are noisy: their 95 % interval is wider than a tenth of their median."
        )
    return notes


def _count_note(raw: Raw) -> str:
    pairs = [
        (calls, hits)
        for row in raw["rows"]
        for calls, hits in zip(row["series"].get("calls", []), row["series"].get("hits", []))
    ]
    wrong = [hits - calls for calls, hits in pairs if hits != calls]
    if not pairs:
        return "No hits were counted."
    if not wrong:
        return f"The kernel counted every call, exactly, in all {len(pairs)} samples."
    span = f"{min(wrong)} to {max(wrong)}"
    return f"In {len(wrong)} of {len(pairs)} samples the hits differ from the calls made, by {span}."
