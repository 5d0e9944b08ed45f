# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reports that were written of a guest with a good fact, and again after it was damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

RUNS = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "reports"
FACT = Path(__file__).resolve().parents[3] / "tests" / "unit" / "data" / "guest.fact"
GUEST = "fetchbpf-bookworm"


@pytest.fixture(scope="module")
def runs() -> list[Path]:
    """Return the folders of the runs, the oldest first."""
    return sorted(path for path in RUNS.iterdir() if not path.is_symlink())


def hosts_of(run: Path) -> dict[str, dict[str, Any]]:
    """Return the hosts of a run by name."""
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    return {host["name"]: host for host in report["hosts"]}


def test_neither_the_second_run_nor_check_mode_wrote_anything(runs: list[Path]) -> None:
    assert len(runs) == 2
    assert (RUNS / "latest").resolve() == runs[1]


def test_a_guests_fact_arrives_as_it_is(runs: list[Path]) -> None:
    guest = hosts_of(runs[0])[GUEST]
    assert guest["state"] == "measured"
    assert guest["fact"] == json.loads(FACT.read_text(encoding="utf-8"))


def test_an_absent_host_is_named(runs: list[Path]) -> None:
    gone = hosts_of(runs[0])["fetchbpf-gone"]
    assert gone["state"] == "unreachable"
    assert "refused" in gone["reason"]


def test_a_damaged_fact_is_named(runs: list[Path]) -> None:
    guest = hosts_of(runs[1])[GUEST]
    assert guest["state"] == "bad fact"
    assert "fetchbpf.fact" in guest["reason"]
    page = (runs[1] / "report.html").read_text(encoding="utf-8")
    assert "bad fact" in page and "unreachable" in page
