# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fetch arguments cost, in instructions: the guest's clock counts them (QEMU -icount), so the numbers repeat.

The cost of arguments is that of a hit over a hit of the same event without arguments. What is measured is listed in
tests/bench/cases.tsv.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Findings
from guest import Run
from kernels import ROOT

_CASES = ROOT / "tests/bench/cases.tsv"
_LOAD = "insmod /lib/modules/*/fetcharg_bench.ko || exit 1\n"
# The cost of compiled arguments in percent of interpreted ones, at most.
_GOALS = {
    **{f"{kind}-{number}": goal for kind in ("kprobe", "fprobe") for number, goal in ((1, 25), (2, 14), (3, 12))},
    **{f"eprobe-{number}": 25 for number in (1, 2, 3)},
    **{f"{kind}-string": 100 for kind in ("kprobe", "fprobe", "eprobe", "kretprobe", "uprobe")},
}
# Of instructions: an event without arguments may differ from the unpatched kernel's by so many.
_SAME = 5
# A hit may cost so much more than legacy at most, and to define an event.
_SLOWER = 1.01
_DEFINE = 2.0
_RANDOM = 60

Costs = dict[tuple[str, str, str], float]


def names() -> list[str]:
    return [line.split("\t")[0] for line in _CASES.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def costs(base: str, boot: Callable[..., Run], once: dict[Any, Any]) -> Callable[[str, str], Costs]:
    """Return a function: (variant, modes) -> what was measured, by (cost or define, case, mode)."""

    def measure(variant: str, modes: str) -> Costs:
        if (base, variant) not in once:
            script = f"{_LOAD}cost /cases --modes {modes}"
            done = boot(variant, script, files={"cases": Path(_CASES)}, exact=True)
            assert done.code == 0, done.output
            measured = {
                (word, case, mode): float(value) for word in ("cost", "define") for case, mode, value in done.rows(word)
            }
            assert set(names()) == {case for word, case, _mode in measured if word == "cost"}, done.output
            once[base, variant] = measured
        found: Costs = once[base, variant]
        return found

    return measure


def test_arguments_cost_what_was_promised(base: str, costs: Callable[[str, str], Costs], findings: Findings) -> None:
    found = costs("patched", "bpf,legacy")
    lines, missed = [], []
    for case in names():
        none = f"{case.partition('-')[0]}-0"
        if case in ("none", none) or case.startswith("static"):
            continue
        legacy, bpf = (found["cost", case, mode] - found["cost", none, mode] for mode in ("legacy", "bpf"))
        percent = 100 * bpf / legacy
        goal = _GOALS.get(case)
        met = goal is None or percent <= goal
        missed += [] if met else [case]
        wanted = "" if goal is None else f"≤ {goal} % {'met' if met else 'MISSED'}"
        lines.append(f"| {case} | {legacy:.0f} | {bpf:.0f} | {percent:.0f} % | {wanted} |")
    floor = [found["cost", f"static-{number}", "bpf"] - found["cost", "static-0", "bpf"] for number in (1, 2, 3)]
    findings.add(
        base,
        "instructions per hit over the same event without arguments",
        "| arguments | interpreted | compiled | left | goal |",
        "|---|---|---|---|---|",
        *lines,
        f"floor, a static event that stores what kprobe-1, -2, -3 do: {' / '.join(f'{cost:.0f}' for cost in floor)}",
    )
    assert not missed


def test_no_listed_event_is_slower(base: str, costs: Callable[[str, str], Costs], findings: Findings) -> None:
    found = costs("patched", "bpf,legacy")
    ratios = {case: found["cost", case, "bpf"] / found["cost", case, "legacy"] for case in names()}
    worst = max(ratios, key=lambda case: ratios[case])
    findings.add(base, f"a whole hit, compiled over interpreted: at most {100 * ratios[worst]:.2f} % ({worst})")
    assert ratios[worst] <= _SLOWER, ratios


def test_no_random_event_is_slower(base: str, boot: Callable[..., Run], findings: Findings, seed: int) -> None:
    script = f"insmod /lib/modules/*/fetcharg_fuzz.ko || exit 1\nfuzz --cost --seed {seed + 4} --count {_RANDOM}"
    done = boot("patched", script, exact=True)
    worst = re.findall(r"^cost (\w+): at worst ([\d.]+) %", done.output, re.MULTILINE)
    total = re.search(r"^fuzz total: .* (\d+) definitions, (\d+) mismatches", done.output, re.MULTILINE)
    assert worst and total, done.output
    findings.add(
        base,
        f"a whole hit of {total[1]} random events, compiled over interpreted, at worst: "
        + ", ".join(f"{kind} {percent} %" for kind, percent in worst),
    )
    assert total[2] == "0", done.output


def test_an_event_without_arguments_costs_the_same(
    base: str, costs: Callable[[str, str], Costs], findings: Findings
) -> None:
    before, after = costs("unpatched", "legacy"), costs("patched", "bpf,legacy")
    events = [case for case in names() if case.endswith("-0") and not case.startswith("static")]
    rows = {
        case: (before["cost", case, "legacy"], after["cost", case, "legacy"], after["cost", case, "bpf"])
        for case in events
    }
    findings.add(
        base,
        "instructions per hit without arguments, unpatched and patched: "
        + ", ".join(f"{case[:-2]} {row[0]:.0f} {row[2]:.0f}" for case, row in rows.items()),
    )
    different = {case: row for case, row in rows.items() if max(row[1:]) - row[0] > _SAME}
    assert not different


def test_to_define_an_event_costs_at_most_twice(
    base: str, costs: Callable[[str, str], Costs], findings: Findings
) -> None:
    before, after = costs("unpatched", "legacy"), costs("patched", "bpf,legacy")
    ratios = {
        case: after["define", case, "bpf"] / before["define", case, "legacy"]
        for word, case, mode in after
        if (word, mode) == ("define", "bpf")
    }
    worst = max(ratios, key=lambda case: ratios[case])
    shown = ", ".join(
        f"{case} {before['define', case, 'legacy'] / 1000:.0f} {after['define', case, 'bpf'] / 1000:.0f}"
        for case in ("kprobe-1", "kprobe-3", "fprobe-3", "eprobe-3", "uprobe-3")
    )
    findings.add(
        base,
        f"thousands of instructions to define an event, unpatched and patched: {shown}; "
        f"at most {ratios[worst]:.2f} times ({worst})",
    )
    assert ratios[worst] <= _DEFINE, ratios
