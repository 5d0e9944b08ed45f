# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark program as far as it runs without root: it compiles without a warning and says what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_tool import BENCHMARKS, BenchTool  # noqa: E402

SOURCES = ROOT / "tools" / "bench"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")


def compile_c(program: Path, *arguments: str | Path) -> Path:
    """Compile a program."""
    subprocess.run(["gcc", *FLAGS, *arguments, "-o", program], check=True)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled program."""
    return compile_c(tmp_path_factory.mktemp("bench") / "fetchbpf-bench", "-static", *sorted(SOURCES.glob("*.c")))


def test_it_needs_no_library_of_the_host(program: Path) -> None:
    headers = subprocess.run(["readelf", "--program-headers", program], check=True, capture_output=True, text=True)
    assert "INTERP" not in headers.stdout


def test_it_knows_the_benchmarks_that_the_module_offers(program: Path) -> None:
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    assert tuple(listed) == BENCHMARKS


def test_it_says_what_the_clock_counts(program: Path) -> None:
    name, how = BenchTool(str(program)).clock()
    assert name in ("time", "instructions")
    assert "divisions" in how


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "0", "fetcharg"], "--rounds wants a number from 1 to 1000, not '0'"),
        (["--loops", "many", "fetcharg"], "--loops wants a number"),
        (["--loops", "-5", "fetcharg"], "--loops wants a number"),
        ([], "usage:"),
        (["fetcharg", "latency"], "usage:"),
        (["--sweep", "fetcharg"], "usage:"),
    ],
)
def test_bad_arguments_are_refused_by_name(program: Path, arguments: list[str], message: str) -> None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert done.stdout == ""


def test_the_histogram_is_as_accurate_as_it_says(tmp_path: Path) -> None:
    others = [path for path in sorted(SOURCES.glob("*.c")) if path.name not in ("main.c", "bench_latency.c")]
    here = Path(__file__).with_name("histogram.c")
    test = compile_c(tmp_path / "histogram", "-Wno-unused", f"-I{SOURCES}", here, *others)
    done = subprocess.run([test], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
