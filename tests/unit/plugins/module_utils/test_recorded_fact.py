# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fact that a real guest wrote is valid here too."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import LABELS, validate

FACT = Path(__file__).resolve().parents[2] / "data" / "guest.fact"


def test_a_recorded_fact_is_valid_and_has_all_five() -> None:
    fact = json.loads(FACT.read_text(encoding="utf-8"))
    validate(fact)
    assert set(fact["benchmarks"]) == set(LABELS)
