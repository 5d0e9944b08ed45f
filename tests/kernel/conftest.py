# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each test boots a kernel or several; what they measured is printed at the end, base by base.

``FETCHBPF_TEST_BASE`` is the one base to test, else all are, one after the other; ``FETCHBPF_TEST_SEED`` is the seed of
the random events.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))

import guest
from kernels import BASES, Kernels

_START = time.monotonic()


def say(text: str) -> None:
    print(f"    {time.monotonic() - _START:5.0f} s  {text}", flush=True)


class Findings:
    """What is printed at the end: lines for each base, in the order of the tests."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self.boots: dict[str, int] = {}
        self.splats: dict[str, int] = {}

    def add(self, base: str, *lines: str) -> None:
        self.lines.setdefault(base, []).extend(lines)


FINDINGS = Findings()


@pytest.fixture(scope="session")
def findings() -> Findings:
    return FINDINGS


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    return Kernels(say)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for each base."""
    if "base" in metafunc.fixturenames:
        chosen = os.environ.get("FETCHBPF_TEST_BASE")
        metafunc.parametrize("base", [chosen] if chosen else BASES, scope="session")


@pytest.fixture(scope="session")
def seed() -> int:
    return int(os.environ.get("FETCHBPF_TEST_SEED") or 1)


@pytest.fixture(scope="session")
def boot(kernels: Kernels, base: str) -> Callable[..., guest.Run]:
    """Return a function that runs a script on a variant of the base, and fails if the kernel complains of anything."""

    def run(variant: str, script: str, **more: Any) -> guest.Run:
        kernel = kernels.get(base, variant)
        say(f"boot {base} {variant}")
        done = guest.run(kernel, script, **more)
        splats = done.splats()
        FINDINGS.boots[base] = FINDINGS.boots.get(base, 0) + 1
        FINDINGS.splats[base] = FINDINGS.splats.get(base, 0) + len(splats)
        assert not splats, f"{base} {variant} complains:\n" + "\n\n".join(splats)
        return done

    return run


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was found."""
    for base in BASES:
        if base in FINDINGS.boots:
            terminalreporter.section(base)
            for line in FINDINGS.lines.get(base, []):
                terminalreporter.write_line(line)
            terminalreporter.write_line(f"splats: {FINDINGS.splats[base]} in {FINDINGS.boots[base]} boots")


@pytest.fixture(scope="session")
def once() -> Iterator[dict[Any, Any]]:
    """What several tests use but one of them boots for, by what it is."""
    yield {}
