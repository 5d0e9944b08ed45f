# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmarks leave on a host: results, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import validate
from plays import Play
from testinfra.host import Host

FACT = "/etc/ansible/facts.d/fetchbpf.fact"
METRICS = "/var/lib/node-exporter/fetchbpf.prom"
PLAY = Path(__file__).parents[1] / "bench.yml"
BENCHMARKS = {"fetcharg", "hook_overhead", "latency", "parallel", "hit_count"}
TOOL = "/usr/lib/fetchbpf/fetchbpf-bench"


def read_fact(host: Host) -> dict[str, Any]:
    """Return the host's fact, which is as documented."""
    fact = json.loads(host.file(FACT).content_string)
    validate(fact)
    return fact


@pytest.fixture(scope="module")
def fact(host: Host) -> dict[str, Any]:
    """What converge measured."""
    return read_fact(host)


def cells(fact: dict[str, Any], benchmark: str, metric: str, **labels: Any) -> list[dict[str, Any]]:
    """Return the rows of a metric that have these labels."""
    rows = fact["benchmarks"][benchmark]["rows"]
    return [row for row in rows if row["metric"] == metric and labels.items() <= row["labels"].items()]


def is_clean(host: Host) -> bool:
    """Tell whether there is nothing of the benchmark's in the kernel."""
    events = host.file("/sys/kernel/tracing/dynamic_events").content_string
    instances = host.check_output("ls /sys/kernel/tracing/instances")
    return "fetchbpf_bench" not in events + instances and not host.file("/run/fetchbpf-bench.jit").exists


def test_all_five_were_measured_and_nothing_is_left_of_it(fact: dict[str, Any], host: Host) -> None:
    told = {name: (entry["status"], entry["reason"]) for name, entry in fact["benchmarks"].items()}
    assert told == dict.fromkeys(BENCHMARKS, ("ok", ""))
    assert is_clean(host)


def test_ansible_shows_the_fact(local_facts: dict[str, Any], fact: dict[str, Any]) -> None:
    assert local_facts["fetchbpf"] == fact


def test_only_the_guest_whose_clock_counts_instructions_says_so(
    fact: dict[str, Any], variables: dict[str, Any]
) -> None:
    icount = bool(variables["lab_guest"].get("icount"))
    assert fact["environment"]["clock"] == ("instructions" if icount else "time"), fact["environment"]["clock_how"]


def test_what_needs_the_series_is_not_supported_and_the_rest_is_measured(fact: dict[str, Any]) -> None:
    for mode in ("bpf", "interpreter"):
        rows = cells(fact, "fetcharg", "per_call", mode=mode)
        assert len(rows) == 12
        assert all(row["reason"].startswith("not supported on this kernel") for row in rows)
    for kind in ("kprobe", "eprobe"):
        rows = cells(fact, "fetcharg", "overhead", kind=kind, mode="legacy")
        assert [row["labels"]["nargs"] for row in rows] == [1, 2, 3]
        assert all(row["supported"] for row in rows), rows
    # The probe itself costs something, or nothing was measured.
    assert all(
        row["median"] > 0 for row in cells(fact, "fetcharg", "probe_overhead", mode="legacy") if row["supported"]
    )


def test_each_hook_is_measured_or_the_kernel_says_why_not(fact: dict[str, Any]) -> None:
    rows = {row["labels"]["hook"]: row for row in cells(fact, "hook_overhead", "rate", threads=1, counter="none")}
    hooks = {"base", "kprobe", "kretprobe", "raw_tracepoint", "tracepoint", "fentry", "fexit", "harness"}
    assert set(rows) == hooks | {"fmod_ret"}
    assert all(rows[hook]["supported"] for hook in hooks), rows
    assert all(len(rows[hook]["samples"]) == 10 for hook in hooks)
    assert rows["fmod_ret"]["reason"].startswith("not allowed on this function: the kernel says: ")
    assert rows["kprobe"]["target"] == "__set_task_comm"
    assert rows["tracepoint"]["target"] == "task:task_rename"


def test_the_order_of_hooks_is_that_of_the_field(fact: dict[str, Any]) -> None:
    if fact["environment"]["clock"] != "instructions":
        pytest.skip("on a shared machine only instructions are sure to be in order")
    rows = cells(fact, "hook_overhead", "per_call", threads=1, counter="none")
    cost = {row["labels"]["hook"]: row["median"] for row in rows if row["supported"]}
    assert cost["harness"] < cost["base"] < min(cost["fentry"], cost["raw_tracepoint"])
    assert max(cost["fentry"], cost["raw_tracepoint"]) < cost["kprobe"] < cost["kretprobe"]


def test_the_kernel_counts_every_call(fact: dict[str, Any]) -> None:
    probed = cells(fact, "hit_count", "hits", hook="kprobe")
    assert [row["labels"]["cpus"] for row in probed] == list(range(1, fact["environment"]["cpus"] + 1))
    for row in probed:
        calls = cells(fact, "hit_count", "calls", **row["labels"])[0]["samples"]
        misses = cells(fact, "hit_count", "misses", **row["labels"])[0]["samples"]
        assert row["samples"] == [made - missed for made, missed in zip(calls, misses)]


def test_a_hook_of_today_stands_in_for_a_tracepoint_that_is_gone(fact: dict[str, Any]) -> None:
    rows = {row["labels"]["hook"]: row for row in cells(fact, "parallel", "rate", workload="urandom", cpus=1)}
    assert not rows["tracepoint"]["supported"]
    assert rows["kprobe"]["supported"]
    assert rows["kprobe"]["target"] == rows["fentry"]["target"] != ""


def test_percentiles_rise(fact: dict[str, Any]) -> None:
    for hook in ("base", "kprobe", "kretprobe", "tracepoint", "fentry", "fexit"):
        for load in ("100/s", "full"):
            rows = cells(fact, "latency", "run_time", hook=hook, load=load)
            found = [row["median"] for row in rows]
            assert [row["labels"]["percentile"] for row in rows] == ["p50", "p90", "p99"]
            assert found == sorted(found)
            assert found[0] > 0


def test_the_collectors_file_is_there_for_it_to_read(host: Host) -> None:
    file = host.file(METRICS)
    assert file.mode == 0o644
    assert file.content_string.endswith("# EOF\n")


def test_a_killed_run_leaves_no_event_and_the_fact_as_it_was(host: Host) -> None:
    before = host.file(FACT).content_string
    # The parent of the program is killed in the middle, then the program's guard, then all of it at once.
    for victims in ("$parent", "$(pgrep -o fetchbpf-bench)", "$(pgrep fetchbpf-bench)"):
        host.run_test(
            f"(setsid sh -c '{TOOL} --loops 2000 --rounds 100 fetcharg; :' > /dev/null 2>&1 & echo $! > /tmp/parent);"
            "parent=$(cat /tmp/parent); for i in $(seq 300); do "
            "grep -q fetchbpf_bench /sys/kernel/tracing/dynamic_events && break; sleep 0.1; done;"
            f"kill -9 {victims}; for i in $(seq 300); do pgrep fetchbpf-bench > /dev/null || break; sleep 0.1; done"
        )
        assert not host.run("pgrep fetchbpf-bench").stdout
        # Nobody was left to clean up only when all were killed at once: then the next run does.
        if victims.startswith("$(pgrep f"):
            host.check_output(f"{TOOL} --sweep")
        assert is_clean(host), victims
    assert host.file(FACT).content_string == before


def test_a_second_run_under_icount_gives_the_same_numbers(
    fact: dict[str, Any], host: Host, playbook: Callable[..., Play]
) -> None:
    if fact["environment"]["clock"] != "instructions":
        pytest.skip("the clock counts time")
    play = playbook(PLAY, probe_bench_run=["fetcharg"], probe_bench_force=True)
    assert not play.failed, play.output
    again = read_fact(host)
    assert again["time"] != fact["time"]
    for row in cells(fact, "fetcharg", "per_call"):
        if row["supported"]:
            other = cells(again, "fetcharg", "per_call", **row["labels"])[0]
            assert abs(other["median"] - row["median"]) <= 0.005 * row["median"], row["labels"]


def test_a_noisy_host_is_marked_and_its_intervals_widen(
    fact: dict[str, Any], host: Host, playbook: Callable[..., Play]
) -> None:
    if fact["environment"]["clock"] != "time":
        pytest.skip("nothing disturbs a clock that counts instructions of a sample")
    burst = "while :; do timeout 0.3 sh -c 'while :; do :; done'; sleep 0.3; done"
    host.check_output(f'for i in 1 2 3; do setsid sh -c "{burst}" > /dev/null 2>&1 & echo $!; done > /tmp/burst')
    try:
        play = playbook(PLAY, probe_bench_run=["hook_overhead"], probe_bench_force=True)
    finally:
        host.run("for pid in $(cat /tmp/burst); do kill -- -$pid; done")
    assert not play.failed, play.output
    noisy = read_fact(host)["benchmarks"]["hook_overhead"]
    assert any("rows are noisy" in note for note in noisy["notes"])
    calm = fact["benchmarks"]["hook_overhead"]
    assert width(noisy) > width(calm)


def width(benchmark: dict[str, Any]) -> float:
    """Return the mean width of the intervals of the rates, as shares of their medians."""
    rows = [row for row in benchmark["rows"] if row["metric"] == "rate" and row["supported"]]
    return sum((row["high"] - row["low"]) / row["median"] for row in rows) / len(rows)
