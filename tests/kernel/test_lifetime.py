# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events come and go while they are hit, on a kernel that looks for every mistake it can: KASAN, lockdep, kmemleak."""

from __future__ import annotations

import re
from collections.abc import Callable

from conftest import Findings
from guest import Run

_ROUNDS = 48
_WORKERS = 3
# What the JIT has in use, read by an event of its own that runs no program; and the symbols of programs.
_USAGE = """usage() {
    echo 0 > /proc/sys/net/core/bpf_jit_enable
    cd /sys/kernel/tracing
    echo 'p:usage/ev fetcharg_fuzz_target jit=@bpf_jit_current:s64' >> dynamic_events || return 1
    echo > trace
    echo 1 > events/usage/ev/enable
    echo 1 > /sys/module/fetcharg_fuzz/parameters/hit
    echo 0 > events/usage/ev/enable
    sed -n "s/.*jit=/usage $1 jit /p" trace
    echo -:usage/ev >> dynamic_events
    echo 1 > /proc/sys/net/core/bpf_jit_enable
    echo usage $1 symbols $(grep -c '\\[bpf\\]' /proc/kallsyms)
    cd /
}
"""
# Events on a tracepoint whose module comes and goes under them: defined and deleted with it and without it.
_MODULE = """module_goes() {
    module=$(echo /lib/modules/*/fetcharg_bench.ko)
    cd /sys/kernel/tracing && mkdir instances/goes && echo 64 > instances/goes/buffer_size_kb || return 1
    rounds=0 hits=0
    while [ ! -e /run/enough ]; do
        [ $((rounds % 3)) = 0 ] && insmod $module
        echo 't:goes/ev fetcharg_bench a=$arg1 b=+0($arg1):u64 c=$comm' >> dynamic_events || return 1
        echo 1 > instances/goes/events/goes/ev/enable
        [ $((rounds % 3)) = 0 ] || insmod $module
        echo 20 > /sys/module/fetcharg_bench/parameters/loops
        hits=$((hits + $(grep -c ' ev: .* a=' instances/goes/trace)))
        echo > instances/goes/trace
        [ $((rounds % 3)) = 2 ] || rmmod fetcharg_bench || return 1
        echo 0 > instances/goes/events/goes/ev/enable
        echo -:goes/ev >> dynamic_events || return 1
        [ $((rounds % 3)) = 2 ] && rmmod fetcharg_bench
        rounds=$((rounds + 1))
    done
    cd / && rmdir /sys/kernel/tracing/instances/goes
    echo goes $rounds rounds $hits hits
}
"""


def test_events_come_and_go_while_they_are_hit(
    base: str, boot: Callable[..., Run], findings: Findings, seed: int
) -> None:
    done = boot(
        "debug",
        f"insmod /lib/modules/*/fetcharg_fuzz.ko || exit 1\n{_USAGE}{_MODULE}"
        # 7.3 reads an entry of the stack for fprobes like any memory, and KASAN guards what is between its variables.
        f"fuzz --seed {seed + 3} --count 30 --no-stack\n"
        "usage before\n"
        "module_goes &\n"
        f"stress --rounds {_ROUNDS} --workers {_WORKERS} || exit 1\n"
        "touch /run/enough\n"
        "wait\n"
        # Programs are freed behind a grace period.
        "sleep 10\n"
        "usage after\n"
        "wc -l < /sys/kernel/tracing/dynamic_events",
        parallel=True,
        timeout=5400,
    )
    assert done.code == 0, done.output
    assert "stress ended" in done.output, done.output
    total = re.search(r"fuzz total: .* (\d+) definitions, 0 mismatches", done.output)
    assert total, done.output
    events = [int(row[1]) for row in done.rows("worker")]
    by_perf = [int(row[3]) for row in done.rows("worker")]
    assert len(events) == _WORKERS and min(events) > _ROUNDS // 2 and min(by_perf) > 0, done.output
    modules = [(int(row[0]), int(row[2])) for row in done.rows("goes")]
    assert len(modules) == 1 and min(modules[0]) > 3, done.output
    usage = {(when, what): int(value) for when, what, value in done.rows("usage")}
    for what in ("jit", "symbols"):
        assert usage["before", what] == usage["after", what], done.output
    findings.add(
        base,
        f"lifetime: {sum(events)} events came and went under KASAN, lockdep, PROVE_RCU and DEBUG_ATOMIC_SLEEP, "
        f"{sum(by_perf)} of them recorded by perf, and {modules[0][0]} on a module that came and went; JIT memory "
        f"before and after: {usage['before', 'jit']} and {usage['after', 'jit']} bytes; kmemleak found nothing",
    )
