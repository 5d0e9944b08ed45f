# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's own tests of tracing pass, or do not, as they do without the series."""

from __future__ import annotations

import re
from collections.abc import Callable

from conftest import Findings, say
from guest import Run
from kernels import Kernels

_SETS = ("00basic", "dynevent", "kprobe", "trigger")
_RESULT = re.compile(r"^\[\d+\](.*?)\t\[(\w+)\]", re.MULTILINE)
# Of the series.
_OURS = "fetch arguments"
# What crashes a base, and with it the guest, unless the series is applied: file and name of the test.
_CRASHES = {
    "v6.12": (
        "dynevent/add_remove_tprobe_module.tc",
        "Generic dynamic event - add/remove tracepoint probe events on module",
    )
}


def selftests(kernels: Kernels, base: str, boot: Callable[..., Run], variant: str, parameters: str) -> dict[str, str]:
    """Return the result of each test, by its name."""
    folder = kernels.get(base, "patched").selftests
    sets = " ".join(f"test.d/{name}" for name in _SETS)
    script = f"cd /ftrace && ./ftracetest {sets} 2>&1 | cat"
    if variant == "unpatched" and base in _CRASHES:
        script = f"rm /ftrace/test.d/{_CRASHES[base][0]} && {script}"
    # Their sleeps take no time where the clock counts instructions.
    done = boot(variant, script, files={"ftrace": folder}, parameters=parameters, exact=True)
    results = {name.strip(): result for name, result in _RESULT.findall(done.output)}
    assert results and "# of passed" in done.output, done.output
    return results


def test_the_same_of_them_pass(base: str, kernels: Kernels, boot: Callable[..., Run], findings: Findings) -> None:
    without = selftests(kernels, base, boot, "unpatched", "")
    with_series = selftests(kernels, base, boot, "patched", "")
    disabled = selftests(kernels, base, boot, "patched", "trace_options=disable_bpf")
    passed = []
    for name, results in (("series", with_series), ("series, disable_bpf", disabled)):
        if base in _CRASHES:
            assert results.pop(_CRASHES[base][1]) == "PASS", f"{name}: {_CRASHES[base][1]}"
        ours = {test: result for test, result in results.items() if _OURS in test}
        # They switch disable_bpf themselves.
        assert len(ours) == 2 and (name != "series" or set(ours.values()) == {"PASS"}), ours
        others = {test: result for test, result in results.items() if test not in ours}
        different = {
            test: (without.get(test), others.get(test))
            for test in without.keys() | others.keys()
            if without.get(test) != others.get(test)
        }
        assert not different, f"without the series -> {name}: {different}"
        passed.append(list(others.values()).count("PASS"))
    rest = sorted(f"{test}: {result}" for test, result in without.items() if result != "PASS")
    for line in rest:
        say(f"{base} with and without the series: {line}")
    findings.add(
        base,
        f"selftests ({', '.join(_SETS)}): passed {list(without.values()).count('PASS')} of {len(without)} without the "
        f"series, {passed[0]} with it, {passed[1]} with disable_bpf: the same set; and 2 of the series' own"
        + (f", and one that crashes without the series: {_CRASHES[base][0]}" if base in _CRASHES else ""),
    )
