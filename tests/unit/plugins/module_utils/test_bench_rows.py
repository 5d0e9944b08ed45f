# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From raw samples to rows: what is divided by what, and what is paired with what."""

from __future__ import annotations

from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_rows import Rows, notes_of


def raw(benchmark: str, *rows: dict[str, Any], loops: int = 10) -> dict[str, Any]:
    return {"benchmark": benchmark, "loops": loops, "notes": ["said by the program"], "rows": list(rows)}


def row(labels: dict[str, Any], reason: str = "", **series: list[int]) -> dict[str, Any]:
    return {"labels": labels, "target": "f", "reason": reason, "series": {} if reason else series}


def fetcharg(kind: str, mode: str, nargs: int, ns: list[int] | None = None, reason: str = "") -> dict[str, Any]:
    return row({"kind": kind, "mode": mode, "nargs": nargs}, reason, ns=ns or [])


def by_metric(rows: list[dict[str, Any]], **labels: Any) -> dict[str, dict[str, Any]]:
    return {each["metric"]: each for each in rows if labels.items() <= each["labels"].items()}


DRIFTING = [1000, 1100, 1200, 1300, 1400, 1500]
FETCHARG = raw(
    "fetcharg",
    fetcharg("baseline", "default", 0, [900, 1000, 1100, 1200, 1300, 1400]),
    fetcharg("harness", "default", 0, [20] * 6),
    fetcharg("kprobe", "legacy", 0, DRIFTING),
    # Always 50 more than its own round without arguments, however the host drifts.
    fetcharg("kprobe", "legacy", 1, [each + 50 for each in DRIFTING]),
    # Another mode has an event without arguments of its own.
    fetcharg("kprobe", "bpf", 0, [100] * 6),
    fetcharg("kprobe", "bpf", 1, [180] * 6),
    fetcharg("fprobe", "bpf", 1, reason="no"),
)


def test_overhead_pairs_the_rounds_so_that_drift_cancels_out() -> None:
    rows = Rows(FETCHARG, "time").make()
    legacy = by_metric(rows, kind="kprobe", mode="legacy", nargs=1)
    assert legacy["overhead"]["samples"] == [5.0] * 6
    assert legacy["probe_overhead"]["samples"] == [15.0] * 6
    assert legacy["per_call"]["median"] == 130.0
    assert (legacy["per_call"]["noisy"], legacy["overhead"]["noisy"]) == (True, False)
    assert by_metric(rows, kind="kprobe", mode="bpf", nargs=1)["overhead"]["median"] == 8.0
    assert by_metric(rows, kind="kprobe", mode="bpf", nargs=1)["rate"]["median"] == round(1e9 / 18, 3)


def test_baseline_and_harness_have_no_overhead_and_nothing_is_subtracted_from_them() -> None:
    rows = Rows(FETCHARG, "time").make()
    assert set(by_metric(rows, kind="baseline")) == {"per_call", "rate"}
    assert set(by_metric(rows, kind="harness")) == {"per_call"}
    assert by_metric(rows, kind="baseline")["per_call"]["median"] == 115.0
    assert "overhead" not in by_metric(rows, kind="kprobe", mode="legacy", nargs=0)


def test_what_is_not_supported_is_a_row_of_each_metric_with_the_reason() -> None:
    rows = by_metric(Rows(FETCHARG, "time").make(), kind="fprobe")
    assert set(rows) == {"per_call", "probe_overhead", "overhead", "rate"}
    assert {each["reason"] for each in rows.values()} == {"no"}
    assert {each["median"] for each in rows.values()} == {None}


def test_an_instruction_clock_gives_instructions_and_never_time() -> None:
    units = {each["unit"] for each in Rows(FETCHARG, "instructions").make()}
    assert units == {"instructions", "calls/Ginstr"}


def test_rates_are_of_all_threads_and_a_call_is_of_one() -> None:
    labels = {"hook": "kprobe", "threads": 2, "counter": "none"}
    rows = by_metric(Rows(raw("hook_overhead", row(labels, ns=[1000] * 6, calls=[20] * 6)), "time").make())
    assert (rows["rate"]["median"], rows["rate"]["unit"]) == (2e7, "events/s")
    assert (rows["per_call"]["median"], rows["per_call"]["unit"]) == (100.0, "ns")


def test_latency_and_parallel_are_taken_as_they_are() -> None:
    labels = {"hook": "base", "load": "full", "percentile": "p50"}
    rows = Rows(raw("latency", row(labels, ns=[60, 61, 60, 60, 60, 62])), "time").make()
    assert (rows[0]["metric"], rows[0]["median"], rows[0]["unit"]) == ("run_time", 60, "ns")
    labels = {"workload": "comm", "hook": "base", "cpus": 1}
    rows = Rows(raw("parallel", row(labels, ns=[1000] * 6, calls=[10] * 6)), "time").make()
    assert (rows[0]["metric"], rows[0]["median"], rows[0]["unit"]) == ("rate", 1e7, "calls/s")


def hit_count(hits: list[int]) -> dict[str, Any]:
    return raw(
        "hit_count",
        row({"hook": "base", "cpus": 1}, ns=[100] * 6, calls=[10] * 6),
        row({"hook": "kprobe", "cpus": 1}, ns=[100] * 6, calls=[10] * 6, hits=hits, misses=[0] * 6),
    )


def test_hits_are_compared_with_calls_sample_by_sample() -> None:
    exact = hit_count([10] * 6)
    rows = Rows(exact, "time").make()
    assert set(by_metric(rows, hook="base")) == {"calls", "rate"}
    assert set(by_metric(rows, hook="kprobe")) == {"calls", "hits", "misses", "rate"}
    assert {each["better"] for each in rows if each["unit"] == "count"} == {"exact"}
    assert notes_of(exact, rows) == [
        "said by the program",
        "The kernel counted every call, exactly, in all 6 samples.",
    ]
    wrong = hit_count([10, 10, 9, 10, 12, 10])
    assert "In 2 of 6 samples the hits differ from the calls made, by -1 to 2." in notes_of(wrong, [])


def test_noisy_rows_are_told() -> None:
    labels = {"workload": "comm", "hook": "base", "cpus": 1}
    noisy = raw("parallel", row(labels, ns=[1000, 2000, 1500, 3000, 1000, 2500], calls=[10] * 6))
    assert "1 of 1 rows are noisy" in notes_of(noisy, Rows(noisy, "time").make())[-1]
