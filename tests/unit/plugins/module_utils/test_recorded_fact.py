# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fact that a real guest wrote is valid here too."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import LABELS, validate
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_build import build, to_csv, to_json, to_text
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import HostResult

FACT = Path(__file__).resolve().parents[2] / "data" / "guest.fact"


def test_a_recorded_fact_is_valid_and_has_all_five() -> None:
    fact = json.loads(FACT.read_text(encoding="utf-8"))
    validate(fact)
    assert set(fact["benchmarks"]) == set(LABELS)


def test_a_report_can_be_made_of_it() -> None:
    fact = json.loads(FACT.read_text(encoding="utf-8"))
    report = build("run", "2026-11-30T18:00:00Z", "", [HostResult("guest", "measured", "", fact)])
    assert json.loads(to_json(report))["hosts"][0]["fact"] == fact
    assert to_csv(report).count("\n") > 100
    text = to_text(report, LABELS)
    assert "guest  kprobe    legacy" in text
    assert "not supported on this kernel: it does not compile fetchargs" in text
