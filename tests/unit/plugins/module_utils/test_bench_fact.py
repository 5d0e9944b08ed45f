# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import (
    LABELS,
    METRICS,
    UNITS,
    clock_name,
    make_row,
    row_id,
    unsupported_row,
    validate,
)
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "facts.md").read_text(encoding="utf-8")
ROWS = "benchmarks.fetcharg.rows"


def example() -> dict[str, Any]:
    match = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert match
    return json.loads(match[1])


def changed(path: str, value: Any) -> Any:
    """Return the example with the value at a dotted path replaced; None removes the key."""
    fact: Any = example()
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = fact
    for part in way:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return fact


def test_the_documented_example_is_valid() -> None:
    validate(example())


def test_the_page_names_every_benchmark_label_metric_and_unit() -> None:
    for name in {*LABELS, *sum(LABELS.values(), ()), *sum(METRICS.values(), ()), *sum(UNITS.values(), ())}:
        assert f"`{name}`" in PAGE, name


def test_rows_made_here_are_valid() -> None:
    labels = {"kind": "eprobe", "mode": "bpf", "nargs": 2}
    fact = example()
    fact["benchmarks"]["fetcharg"]["rows"] = [
        make_row("per_call", labels, "ns", [10.0, 11.0, 12.0], "fetcharg_bench"),
        make_row("rate", labels, "calls/s", [1e6, 2e6, 3e6]),
        unsupported_row("overhead", labels, "ns", "no eprobe events"),
    ]
    validate(fact)


def test_a_row_has_the_median_and_its_interval() -> None:
    row = make_row("per_call", {}, "ns", [float(number) for number in range(1, 11)])
    assert (row["median"], row["low"], row["high"], row["noisy"]) == (5.5, 2, 9, True)
    assert row["better"] == "lower"
    # A small difference between two steady times is steady.
    assert not make_row("overhead", {}, "ns", [0.1, 0.2, 0.3], noise_base=100.0)["noisy"]


def test_better_follows_from_the_unit() -> None:
    assert make_row("rate", {}, "events/s", [1])["better"] == "higher"
    assert make_row("hits", {}, "count", [1])["better"] == "exact"


def test_the_order_of_labels_does_not_make_another_row() -> None:
    one = make_row("rate", {"hook": "kprobe", "cpus": 2}, "calls/s", [1])
    two = make_row("rate", {"cpus": 2, "hook": "kprobe"}, "calls/s", [5])
    assert row_id(one) == row_id(two)


def test_clocks_have_names() -> None:
    assert clock_name({"clock": "time", "virtualisation": "kvm"}) == "ns"
    assert clock_name({"clock": "instructions", "virtualisation": "qemu"}) == "instructions"


@pytest.mark.parametrize("broken", [None, [], "fact", 7, {"schema": True}, {1: 2}])
def test_what_is_no_fact_at_all_is_refused(broken: Any) -> None:
    with pytest.raises(FleetError, match=r"^fact"):
        validate(broken)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", 1, "fact.schema: 1 instead of 2, an old fact: measure again"),
        ("schema", 3, "fact.schema: 3 instead of 2"),
        ("time", "yesterday", "fact.time: 'yesterday' instead of a time like"),
        ("time", None, "fact: time missing"),
        ("host", "x", "fact: host not known"),
        ("environment.kernel", None, "fact.environment.kernel: None is no text"),
        ("environment.cpus", 0, "fact.environment.cpus: 0 is no number of CPUs"),
        ("environment.clock", "ticks", "fact.environment.clock: 'ticks' instead of one of time, instructions"),
        ("environment.clock", "instructions", f"fact.{ROWS}[0].unit: 'ns' instead of one of instructions,"),
        ("environment.mitigations", [], "fact.environment.mitigations: [] instead of an object"),
        ("benchmarks", {}, "fact.benchmarks: empty"),
        ("benchmarks", {"<b>": {}}, "fact.benchmarks: '<b>' is no name of a benchmark"),
        ("benchmarks.fetcharg.status", "fine", "fact.benchmarks.fetcharg.status: 'fine' instead of one of ok, failed"),
        ("benchmarks.fetcharg.status", "failed", "fact.benchmarks.fetcharg.reason: '' with status failed"),
        ("benchmarks.fetcharg.rows", [], "fact.benchmarks.fetcharg.rows: empty, but the status is ok"),
        ("benchmarks.fetcharg.rows", {}, "fact.benchmarks.fetcharg.rows: {} instead of a list"),
        ("benchmarks.fetcharg.duration_s", -1, "fact.benchmarks.fetcharg.duration_s: -1 is negative"),
        ("benchmarks.fetcharg.notes", ["a", 1], "fact.benchmarks.fetcharg.notes[1]: 1 instead of a text"),
        (f"{ROWS}.0.labels", {"kind": "kprobe"}, f"fact.{ROWS}[0].labels: has kind; fetcharg has kind, mode, nargs"),
        (f"{ROWS}.0.labels.nargs", 1.5, f"fact.{ROWS}[0].labels.nargs: 1.5 is neither text nor a whole number"),
        (f"{ROWS}.0.labels.nargs", "1", f"fact.{ROWS}[0].labels.nargs: '1' instead of a number"),
        (f"{ROWS}.0.labels.kind", 1, f"fact.{ROWS}[0].labels.kind: 1 instead of a text"),
        (f"{ROWS}.0.metric", "speed", f"fact.{ROWS}[0].metric: 'speed' instead of one of per_call"),
        (f"{ROWS}.0.unit", "instructions", f"fact.{ROWS}[0].unit: 'instructions' instead of one of ns"),
        (f"{ROWS}.0.better", "higher", f"fact.{ROWS}[0].better: 'higher' with unit ns"),
        (f"{ROWS}.0.reason", "why", f"fact.{ROWS}[0].reason: 'why' with supported True"),
        (f"{ROWS}.0.samples", [], f"fact.{ROWS}[0].samples: empty"),
        (f"{ROWS}.0.samples", [float("nan")], f"fact.{ROWS}[0].samples[0]: nan instead of a finite number"),
        (f"{ROWS}.0.median", "2.1", f"fact.{ROWS}[0].median: '2.1' instead of a finite number"),
        (f"{ROWS}.0.low", 9.0, f"fact.{ROWS}[0]: low 9.0, median 2.1, high 2.2 are not in this order"),
        (f"{ROWS}.2.median", 1.0, f"fact.{ROWS}[2]: not supported, but it has values"),
        (f"{ROWS}.1.noisy", 0, f"fact.{ROWS}[1].noisy: 0 is neither true nor false"),
    ],
)
def test_a_broken_fact_is_refused_with_path_and_problem(path: str, value: Any, message: str) -> None:
    with pytest.raises(FleetError) as caught:
        validate(changed(path, value))
    assert str(caught.value).startswith(message)


def test_the_same_row_twice_is_refused() -> None:
    fact = example()
    fact["benchmarks"]["fetcharg"]["rows"] += [example()["benchmarks"]["fetcharg"]["rows"][0]]
    with pytest.raises(FleetError, match=r"rows\[3\]: a second row with metric and labels"):
        validate(fact)


def test_a_message_stays_short() -> None:
    with pytest.raises(FleetError) as caught:
        validate(changed("time", "x" * 10000))
    assert len(str(caught.value)) < 200
