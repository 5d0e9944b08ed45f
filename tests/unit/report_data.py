# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark facts with invented numbers, equal in every run, for tests of the report."""

from __future__ import annotations

import itertools
import random
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import (
    KINDS,
    make_row,
    unsupported_row,
    validate,
)

SHARE = {
    "base": 1.0,
    "kprobe": 0.79,
    "kretprobe": 0.57,
    "raw_tracepoint": 0.945,
    "tracepoint": 0.88,
    "fentry": 0.91,
    "fexit": 0.90,
    "harness": 40.0,
}
ADDED = {"bpf": (0.0, 14.0, 25.0, 37.0), "interpreter": (0.0, 60.0, 105.0, 149.0), "legacy": (0.0, 108.0, 283.0, 454.0)}
ROUNDS = 10


class Maker:
    """Makes one fact; ``speed`` 2 is a host that is twice as fast, ``noise`` the relative spread of a round."""

    def __init__(self, seed: int, clock: str, speed: float, noise: float) -> None:
        self.random = random.Random(seed)
        self.clock, self.speed, self.noise = clock, speed, noise
        self.time = "ns" if clock == "time" else "instructions"
        self.per = "/s" if clock == "time" else "/Ginstr"

    def samples(self, value: float, spread: float | None = None) -> list[float]:
        noise = self.noise if spread is None else spread
        return [round(value * (1 + noise * self.random.uniform(-1, 1)), 3) for _round in range(ROUNDS)]

    def duration(self, metric: str, value: float, base: float | None = None, **labels: Any) -> dict[str, Any]:
        samples = self.samples(value / self.speed)
        return make_row(metric, labels, self.time, samples, "fetcharg_bench_target", base)

    def rate(self, value: float, what: str = "calls", **labels: Any) -> dict[str, Any]:
        return make_row("rate", labels, what + self.per, self.samples(value * self.speed), "__set_task_comm")

    def fetcharg(self, modes: tuple[str, ...], worse: float) -> list[dict[str, Any]]:
        rows = []
        for kind, call in (("harness", 1.0), ("baseline", 2.0)):
            labels = {"kind": kind, "mode": "default", "nargs": 0}
            rows += [self.duration("per_call", call, **labels), self.rate(1e9 / call, **labels)]
        for index, kind in enumerate(KINDS):
            for mode in modes:
                for nargs in range(4):
                    labels = {"kind": kind, "mode": mode, "nargs": nargs}
                    added = (
                        ADDED.get(mode, ADDED["legacy"])[nargs] * (1 + 0.1 * index) * (worse if mode == "bpf" else 1)
                    )
                    if mode == "interpreter" and kind == "eprobe":
                        rows.append(unsupported_row("per_call", labels, self.time, "no interpreter for eprobes here"))
                        continue
                    call = 780 + added
                    rows += [self.duration("per_call", call, **labels), self.rate(1e9 / call, **labels)]
                    rows.append(self.duration("probe_overhead", call - 2, **labels))
                    if nargs:
                        rows.append(self.duration("overhead", added, call, **labels))
        return rows

    def hooks(self, cpus: int) -> list[dict[str, Any]]:
        rows = []
        for threads, counter in itertools.product(dict.fromkeys((1, cpus)), ("none", "atomic")):
            for hook, share in SHARE.items():
                scale = threads * (0.8 if counter == "atomic" and threads > 1 else 1)
                labels = {"hook": hook, "threads": threads, "counter": counter}
                rows.append(self.rate(4.6e6 * share * scale, "events", **labels))
            labels = {"hook": "fmod_ret", "threads": threads, "counter": counter}
            rows.append(unsupported_row("rate", labels, "events" + self.per, "not allowed on this function"))
        return rows

    def latency(self) -> list[dict[str, Any]]:
        rows = []
        for load, base in (("100/s", 270), ("full", 60)):
            for hook in ("base", "kprobe", "kretprobe", "tracepoint", "fentry", "fexit"):
                for percentile, factor in (("p50", 0.8), ("p90", 1.0), ("p99", 2.5)):
                    labels = {"hook": hook, "load": load, "percentile": percentile}
                    rows.append(self.duration("run_time", factor * base / SHARE[hook] ** 2, **labels))
        return rows

    def parallel(self, cpus: int) -> list[dict[str, Any]]:
        rows = []
        for workload, one, hooks in (
            ("comm", 230e3, ("base", "kprobe", "tracepoint")),
            ("urandom", 75e3, ("base", "kprobe", "fentry")),
        ):
            for hook in hooks:
                for count in range(1, cpus + 1):
                    rows.append(self.rate(one * SHARE[hook] * count**0.9, workload=workload, hook=hook, cpus=count))
        return rows

    def hits(self, cpus: int, lost: int) -> list[dict[str, Any]]:
        rows = []
        for count in range(1, cpus + 1):
            labels = {"hook": "kprobe", "cpus": count}
            calls = [100000 * count] * ROUNDS
            hits = [calls[0] - lost, *calls[1:]]
            rows += [
                make_row("calls", labels, "count", calls, "fetcharg_bench_target"),
                make_row("hits", labels, "count", hits, "fetcharg_bench_target"),
                make_row("misses", labels, "count", [0] * ROUNDS, "fetcharg_bench_target"),
                self.rate(3e6 * count, **labels),
            ]
        return rows


def benchmark(rows: list[dict[str, Any]], status: str = "ok", reason: str = "", **params: Any) -> dict[str, Any]:
    """Return a benchmark with ``rows``."""
    return {
        "key": {"tool": "test"},
        "time": "2026-11-30T18:00:00Z",
        "status": status,
        "reason": reason,
        "params": {"rounds": ROUNDS, **params},
        "duration_s": 12.5,
        "notes": ["Invented numbers."],
        "rows": rows,
    }


def make_fact(
    seed: int = 1,
    clock: str = "time",
    virtualisation: str = "kvm",
    kernel: str = "6.12.117-fetchbpf-e71c8b33",
    speed: float = 1.0,
    noise: float = 0.02,
    modes: tuple[str, ...] = ("bpf", "interpreter", "legacy"),
    cpus: int = 4,
    worse: float = 1.0,
    lost: int = 0,
) -> dict[str, Any]:
    """Return a valid fact with all five benchmarks."""
    maker = Maker(seed, clock, speed, noise)
    fact = {
        "schema": 2,
        "time": "2026-11-30T18:00:00Z",
        "environment": {
            "kernel": kernel,
            "kernel_build": "#1 SMP PREEMPT_DYNAMIC",
            "series_hash": "3b0c44298fc1c149",
            "clock": clock,
            "virtualisation": virtualisation,
            "architecture": "x86_64",
            "cpu": "Invented CPU",
            "cpus": cpus,
            "governor": None,
            "smt": "off",
            "mitigations": {"retbleed": "Not affected"},
            "sysctl": {"net.core.bpf_jit_enable": "1"},
        },
        "benchmarks": {
            "fetcharg": benchmark(maker.fetcharg(modes, worse), loops=100000),
            "hook_overhead": benchmark(maker.hooks(cpus)),
            "latency": benchmark(maker.latency(), accuracy_percent=1.6),
            "parallel": benchmark(maker.parallel(cpus)),
            "hit_count": benchmark(maker.hits(cpus, lost)),
        },
    }
    validate(fact)
    return fact


def answer(fact: Any) -> dict[str, Any]:
    """Return what the setup task registers for a host with this fact; None for a host without."""
    return {"ansible_facts": {"ansible_local": {} if fact is None else {"fetchbpf": fact}}}
