# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployed host is, asked of the host itself."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import validate
from testinfra.host import Host


@pytest.fixture(scope="module")
def kernels(host: Host) -> dict[str, Any]:
    """Return what the host remembers of the kernels that were installed."""
    return json.loads(host.file("/var/lib/fetchbpf/kernels.json").content_string)


@pytest.fixture(scope="module")
def fact(host: Host) -> dict[str, Any]:
    """Return the benchmark's local fact."""
    return json.loads(host.file("/etc/ansible/facts.d/fetchbpf.fact").content_string)


def test_the_patched_kernel_runs_and_jits(host: Host) -> None:
    release = host.check_output("uname -r")
    assert "-fetchbpf-" in release
    assert "CONFIG_BPF_JIT=y" in host.check_output("zcat /proc/config.gz").splitlines()
    assert host.file(f"/lib/modules/{release}/extra/fetcharg_bench.ko").exists


def test_the_new_kernel_is_the_default_and_the_old_one_the_fallback(host: Host) -> None:
    release = host.check_output("uname -r")
    config = host.file("/boot/grub/fetchbpf.cfg").content_string
    assert f"set default=fetchbpf-{release}" in config.replace('"', "").replace("'", "")
    assert "set fallback=0" in config.replace('"', "")
    # Nothing of the trial is left: not in the menu, not in grubenv, no timer.
    assert "fetchbpf.trial" not in config
    assert "next_entry=fetchbpf" not in host.check_output("grub-editenv - list")
    assert not host.service("fetchbpf-confirm.timer").is_running


def test_the_declared_events_run_compiled(host: Host, variables: dict[str, Any]) -> None:
    lines = host.file("/sys/kernel/tracing/fetcharg_bpf").content_string.splitlines()
    jited = [line.split()[0] for line in lines if " jited=1 " in line]
    declared = variables["probe_events_list"]
    assert {f"fetchbpf/{event['name']}" for event in declared} <= set(jited), lines


def test_no_unit_failed(host: Host) -> None:
    assert host.check_output("systemctl --failed --no-legend --plain") == ""


def test_the_declared_events_are_registered_and_on(host: Host, variables: dict[str, Any]) -> None:
    declared = variables["probe_events_list"]
    assert declared
    registered = host.file("/sys/kernel/tracing/dynamic_events").content_string
    for event in declared:
        assert f":fetchbpf/{event['name']} " in registered, registered
        enable = f"/sys/kernel/tracing/events/fetchbpf/{event['name']}/enable"
        assert host.file(enable).content_string.strip() == "1"
    # The benchmark took its own events with it.
    assert "fetchbpf_bench" not in registered


def test_events_record_what_they_were_declared_to_fetch(host: Host) -> None:
    # Reads are traced too: a trace that is read while it records would never end.
    line = host.check_output(
        "cd /sys/kernel/tracing && echo > trace && cat /etc/hostname > /dev/null && echo 0 > tracing_on;"
        "grep -m 1 'open: .*hostname' trace; echo 1 > tracing_on"
    )
    assert line.endswith('file="/etc/hostname"'), line


def test_the_fact_has_every_kind_and_number_of_fetchargs(fact: dict[str, Any], host: Host) -> None:
    validate(fact)
    assert fact["environment"]["kernel"] == host.check_output("uname -r")
    benchmark = fact["benchmarks"]["fetcharg"]
    assert benchmark["status"] == "ok", benchmark["reason"]
    rows = {
        (row["labels"]["kind"], row["labels"]["mode"], row["labels"]["nargs"]): row
        for row in benchmark["rows"]
        if row["metric"] == "per_call"
    }
    for kind in ("kprobe", "fprobe", "eprobe"):
        for mode, count in itertools.product(("bpf", "interpreter", "legacy"), range(4)):
            row = rows[kind, mode, count]
            assert row["supported"], row
            assert len(row["samples"]) == benchmark["params"]["rounds"]
            assert row["target"].startswith("fetcharg_bench")
    # The probe itself costs something, or nothing was measured.
    bare = rows["baseline", "default", 0]["median"]
    assert rows["kprobe", "bpf", 0]["median"] > bare


def test_the_jit_is_on_as_before_it_was_turned_off_for_the_interpreted_rows(host: Host) -> None:
    assert host.file("/proc/sys/net/core/bpf_jit_enable").content_string.strip() == "1"
    assert host.file("/sys/module/trace_probe_bpf/parameters/interpreter").content_string.strip() == "N"
    assert not host.file("/run/fetchbpf-bench.jit").exists


def test_ansible_shows_the_fact(local_facts: dict[str, Any], fact: dict[str, Any]) -> None:
    assert local_facts["fetchbpf"] == fact
