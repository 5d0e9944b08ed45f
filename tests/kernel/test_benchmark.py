# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet's benchmark on a kernel with the series: what it turns off to measure is as it was before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from conftest import Findings
from guest import Run
from kernels import ROOT


@pytest.mark.parametrize("setting", ["0", "1"])
def test_the_jit_is_as_it_was(base: str, boot: Callable[..., Run], findings: Findings, setting: str) -> None:
    folder = ROOT / "tools/bench"
    subprocess.run(["make", "--silent", "-C", str(folder)], check=True)
    done = boot(
        "patched",
        f"""insmod /lib/modules/*/fetcharg_bench.ko || exit 1
        echo {setting} > /proc/sys/net/core/bpf_jit_enable
        rows=$(fetchbpf-bench --rounds 2 --loops 1000 fetcharg) || exit 1
        echo "rows $rows" | tr '\\n' ' '
        echo
        echo "jit $(cat /proc/sys/net/core/bpf_jit_enable)"
        """,
        files={"bin/fetchbpf-bench": folder / "fetchbpf-bench"},
        exact=True,
    )
    assert done.code == 0, done.output
    assert done.rows("jit") == [[setting]]
    (text,) = [line for line in done.output.splitlines() if line.startswith("rows ")]
    rows = json.loads(text.partition(" ")[2])["rows"]
    refused = {row["labels"]["mode"] for row in rows if row["reason"]}
    # Without the JIT nothing is compiled; the interpreted rows need it off anyway.
    assert refused == (set() if setting == "1" else {"bpf"}), rows
    findings.add(base, f"fetcharg with bpf_jit_enable={setting}: {len(rows)} rows, the setting is as it was")
