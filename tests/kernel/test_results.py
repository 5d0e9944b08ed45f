# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled and interpreted arguments record the same, in every situation where one of them may run."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from conftest import Findings
from guest import Run

# Definitions of each kind of probe, in one boot.
_MANY = 500
_FEW = 40
_LINE = re.compile(r"^fuzz (\w+) (\d+) definitions, (\d+) with a program, (\d+) mismatches", re.MULTILINE)
_LOAD = "insmod /lib/modules/*/fetcharg_fuzz.ko || exit 1\n"


def kinds(output: str) -> dict[str, tuple[int, int, int]]:
    """Return definitions, programs and mismatches of each kind of probe in the fuzzer's output."""
    return {kind: (int(all_), int(programs), int(bad)) for kind, all_, programs, bad in _LINE.findall(output)}


def check(output: str, count: int, without: str = "") -> dict[str, tuple[int, int, int]]:
    """Return the kinds; fail unless all of them but ``without`` were compared and none differs."""
    found = kinds(output)
    all_kinds = {"kprobe", "kretprobe", "fprobe", "fexit", "tprobe", "eprobe", "uprobe", "uretprobe"}
    assert set(found) == all_kinds - {without}, output
    assert all(definitions == count and not bad for definitions, _programs, bad in found.values()), output
    return found


def test_random_events_record_the_same(base: str, boot: Callable[..., Run], findings: Findings, seed: int) -> None:
    # Waiting for grace periods takes no time where the clock counts instructions.
    done = boot("patched", f"{_LOAD}fuzz --seed {seed} --count {_MANY}", exact=True)
    found = check(done.output, _MANY)
    assert all(programs > _MANY * 0.9 for _definitions, programs, _bad in found.values()), done.output
    total = sum(definitions for definitions, _programs, _bad in found.values())
    programs = sum(programs for _definitions, programs, _bad in found.values())
    findings.add(base, f"fuzz: {total} definitions, {programs} with a program, 0 mismatches (seed {seed})")


def test_perf_records_the_same(base: str, boot: Callable[..., Run], findings: Findings, seed: int) -> None:
    done = boot("patched", f"{_LOAD}fuzz --perf --seed {seed + 5} --count {_MANY // 4}", exact=True)
    found = check(done.output, _MANY // 4, without="eprobe")  # perf cannot record an eprobe
    findings.add(base, f"fuzz, recorded by perf: {_MANY // 4 * len(found)} definitions, 0 mismatches")


# What the kernel or the writer is like -> how many of the definitions get a program.
_SITUATIONS = {
    "bpf_jit_enable=0": ("echo 0 > $net/bpf_jit_enable; fuzz {}; echo 1 > $net/bpf_jit_enable", "none"),
    "bpf_jit_harden=2": ("echo 2 > $net/bpf_jit_harden; fuzz {}; echo 0 > $net/bpf_jit_harden", "most"),
    "no CAP_BPF": ("capdrop fuzz {}", "none"),
    "JIT limit exhausted": ("echo 1 > $net/bpf_jit_limit; fuzz {}", "any"),
    "JIT limit exhausted, no CAP_BPF": ("echo 1 > $net/bpf_jit_limit; capdrop fuzz {}", "none"),
}


def test_whatever_keeps_programs_away(base: str, boot: Callable[..., Run], findings: Findings, seed: int) -> None:
    script = [_LOAD, "net=/proc/sys/net/core"]
    for number, (command, _programs) in enumerate(_SITUATIONS.values()):
        script += [f"echo situation {number}", command.format(f"--seed {seed + 1} --count {_FEW}")]
    output = boot("patched", "\n".join(script), exact=True).output
    parts = re.split(r"^situation \d+\n", output, flags=re.MULTILINE)[1:]
    assert len(parts) == len(_SITUATIONS), output
    for part, (name, (_command, wanted)) in zip(parts, _SITUATIONS.items(), strict=True):
        found = check(part, _FEW)
        programs = sum(programs for _definitions, programs, _bad in found.values())
        assert wanted == "any" or (programs == 0) == (wanted == "none"), f"{name}\n{part}"
        findings.add(base, f"fuzz, {name}: {_FEW * len(found)} definitions, {programs} with a program, 0 mismatches")


def test_always_the_jit(base: str, boot: Callable[..., Run], findings: Findings, seed: int) -> None:
    """CONFIG_BPF_JIT_ALWAYS_ON: there is no interpreter to fall back to."""
    found = check(boot("always-on", f"{_LOAD}fuzz --seed {seed + 2} --count {_FEW}").output, _FEW)
    programs = sum(programs for _definitions, programs, _bad in found.values())
    assert programs
    findings.add(base, f"fuzz, BPF_JIT_ALWAYS_ON: {_FEW * len(found)} definitions, {programs} programs, 0 mismatches")


@pytest.mark.parametrize("variant", ["off", "nojit"])
def test_without_the_feature_nothing_of_it_is_there(base: str, boot: Callable[..., Run], variant: str) -> None:
    done = boot(
        variant,
        _LOAD
        + """cd /sys/kernel/tracing
        ls fetcharg_bpf options/disable_bpf instances 2> /dev/null
        echo 'p:off/ev fetcharg_fuzz_target a=+0($arg1):x64 b=+376($arg1):string' > dynamic_events || exit 1
        echo 1 > events/off/ev/enable
        echo 1 > /sys/module/fetcharg_fuzz/parameters/hit
        grep -c 'a=0xf1e2d3c4b5a69789 b="text of 1"' trace
        echo 0 > events/off/ev/enable
        echo > dynamic_events""",
    )
    assert done.code == 0, done.output
    assert "fetcharg_bpf" not in done.output
    assert "disable_bpf" not in done.output
    assert "1" in done.output.splitlines(), done.output
