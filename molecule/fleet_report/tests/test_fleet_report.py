# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report that was written of the guests' facts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

RUNS = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "reports"
FACT = Path(__file__).resolve().parents[3] / "tests" / "unit" / "data" / "guest.fact"


@pytest.fixture(scope="module")
def hosts() -> dict[str, dict[str, Any]]:
    """Return the hosts of the newest run by name."""
    report = json.loads((RUNS / "latest" / "report.json").read_text(encoding="utf-8"))
    return {host["name"]: host for host in report["hosts"]}


def test_the_second_run_wrote_nothing() -> None:
    assert len([path for path in RUNS.iterdir() if path.is_dir() and not path.is_symlink()]) == 1


def test_a_guests_fact_arrives_as_it_is(hosts: dict[str, dict[str, Any]]) -> None:
    assert hosts["fetchbpf-bookworm"]["state"] == "measured"
    assert hosts["fetchbpf-bookworm"]["fact"] == json.loads(FACT.read_text(encoding="utf-8"))


def test_a_damaged_fact_and_an_absent_host_are_named(hosts: dict[str, dict[str, Any]]) -> None:
    assert hosts["fetchbpf-trixie"]["state"] == "bad fact"
    assert "fetchbpf.fact" in hosts["fetchbpf-trixie"]["reason"]
    assert hosts["fetchbpf-gone"]["state"] == "unreachable"
    assert "refused" in hosts["fetchbpf-gone"]["reason"]


def test_the_page_names_them_too() -> None:
    page = (RUNS / "latest" / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("fetchbpf-bookworm", "fetchbpf-trixie", "fetchbpf-gone"))
