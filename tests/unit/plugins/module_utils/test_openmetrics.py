# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import make_row, unsupported_row
from ansible_collections.fetchbpf.fleet.plugins.module_utils.openmetrics import render

LABELS = {"hook": "kprobe", "threads": 1, "counter": "none"}
FACT: dict[str, Any] = {
    "environment": {"kernel": '6.12 "x"', "series_hash": "", "clock": "time", "virtualisation": "kvm"},
    "benchmarks": {
        "hook_overhead": {
            "status": "ok",
            "time": "2026-11-30T18:00:12Z",
            "rows": [
                make_row("per_call", LABELS, "ns", [250.0] * 6),
                make_row("rate", LABELS, "events/s", [4e6] * 6),
                unsupported_row("rate", dict(LABELS, hook="fmod_ret"), "events/s", "no"),
            ],
        },
        "latency": {"status": "failed", "time": "1970-01-01T00:00:00Z", "rows": []},
    },
}
SAMPLE = re.compile(r'[a-z_]+\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\} -?[0-9.e+-]+')


def test_it_is_text_that_a_collector_reads() -> None:
    lines = render(FACT).splitlines()
    assert lines[-1] == "# EOF"
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    # Each family once, all its samples together and nothing without a family.
    assert len(families) == len(set(families))
    order = [line.partition("{")[0] for line in lines if not line.startswith("#")]
    assert [name for index, name in enumerate(order) if index == 0 or order[index - 1] != name] == families
    assert all(SAMPLE.fullmatch(line) for line in lines if not line.startswith("#"))


def test_times_are_seconds_and_what_is_not_supported_is_left_out() -> None:
    text = render(FACT)
    where = 'hook="kprobe",threads="1",counter="none",benchmark="hook_overhead",metric="per_call",stat="median"'
    assert f"fetchbpf_bench_seconds{{{where}}} 2.5e-07\n" in text
    assert "fmod_ret" not in text


def test_a_failed_benchmark_is_told() -> None:
    text = render(FACT)
    assert 'fetchbpf_bench_ok{benchmark="hook_overhead"} 1\n' in text
    assert 'fetchbpf_bench_ok{benchmark="latency"} 0\n' in text
    assert 'fetchbpf_bench_timestamp_seconds{benchmark="latency"} 0\n' in text
    assert 'kernel="6.12 \\"x\\""' in text
