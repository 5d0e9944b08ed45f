# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_answer import cards, overall
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import (
    Cell,
    Group,
    HostResult,
    Table,
    by_clock,
    scale_for,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_reference import (
    HOOKS,
    agreement,
    reference_tables,
)
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_tables import (
    fetcharg_table,
    fleet_table,
    hit_table,
    host_tables,
    hosts_table,
)
from report_data import make_fact


def host(name: str = "a", **changes: Any) -> HostResult:
    return HostResult(name, "measured", "", make_fact(**changes))


def group(*hosts: HostResult) -> Group:
    return by_clock(hosts)[0]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def line(table: Table, *head: str) -> list[Cell]:
    return next(row for row in table.rows if [cell.text for cell in row[: len(head)]] == list(head))


def measured(value: float, unit: str, **changes: Any) -> dict[str, Any]:
    return {"supported": True, "median": value, "low": value, "high": value, "unit": unit, "noisy": False, **changes}


@pytest.mark.parametrize(
    ("values", "unit", "written", "shown"),
    [
        ([37.0, 454.0], "instructions", ["37", "454"], "instructions"),
        ([37.5, 454.0], "instructions", ["37.5", "454.0"], "instructions"),
        ([7.382], "ns", ["7.38"], "ns"),
        ([120.4, 1507.2], "ns", ["120", "1\u202f507"], "ns"),
        ([-3.2, 800.0], "ns", ["\u22123.20", "800.00"], "ns"),
        ([4.622e6, 8e5], "events/s", ["4.622", "0.800"], "M events/s"),
        ([93021.0], "calls/s", ["93.02"], "k calls/s"),
        ([12.0], "calls/s", ["12.0"], "calls/s"),
        ([100000.0], "count", ["100\u202f000"], "count"),
    ],
)
def test_numbers_are_written_for_people(values: list[float], unit: str, written: list[str], shown: str) -> None:
    scale = scale_for(measured(value, unit) for value in values)
    assert [scale.write(value) for value in values] == written
    assert scale.unit == shown


def test_nothing_is_not_negative() -> None:
    assert scale_for([measured(100.0, "ns")]).write(-0.001) == "0"


def test_cells_say_what_they_are() -> None:
    scale = scale_for([measured(50.0, "ns")])
    noisy = scale.cell(measured(50.0, "ns", low=40.0, high=60.0, noisy=True))
    assert (noisy.text, noisy.value, noisy.mark) == ("50.0 [40.0 60.0] ~", 50.0, "noisy")
    refused = scale.cell({"supported": False, "reason": "no fprobe"})
    assert (refused.text, refused.note, refused.value) == ("not supported", "no fprobe", None)


def test_hosts_of_other_clocks_share_no_table() -> None:
    hosts = [
        host("a"),
        host("b", clock="instructions"),
        host("c", virtualisation="qemu"),
        HostResult("d", "no fact", "x"),
    ]
    groups = by_clock(hosts)
    assert [(found.clock, [host.name for host in found.hosts]) for found in groups] == [
        ("ns", ["a"]),
        ("instructions", ["b"]),
        ("ns of an emulated CPU", ["c"]),
    ]
    ids = [table.id for found in groups for table in [*host_tables(found), *reference_tables(found)]]
    assert len(ids) == len(set(ids))
    for found in groups:
        for table in host_tables(found):
            assert {row[0].text for row in table.rows} == {found.hosts[0].name}


def test_fetchargs_are_laid_out_by_host_probe_and_number() -> None:
    table = fetcharg_table(group(host(clock="instructions", noise=0.0)))
    assert table.columns == ["host", "probe", "mode", "0 args", "+1 arg", "+2 args", "+3 args"]
    assert [cell.value for cell in line(table, "a", "kprobe", "legacy")[3:]] == [780, 108, 283, 454]
    assert [cell.value for cell in line(table, "a", "kprobe", "bpf")[3:]] == [780, 14, 25, 37]
    assert [cell.text for cell in line(table, "a", "eprobe", "interpreter")[3:]] == [
        "not supported: no interpreter for eprobes here"
    ]
    assert line(table, "a", "baseline", "default")[3].value == 2
    assert line(table, "a", "harness", "default")[3].value == 1


def test_modes_that_no_host_has_fill_no_columns() -> None:
    tables = {table.id: table for table in host_tables(group(host()))}
    assert tables["fetcharg-kprobe-ns"].columns[2:] == [
        "bpf M calls/s",
        "bpf +ns",
        "interpreter M calls/s",
        "interpreter +ns",
        "legacy M calls/s",
        "legacy +ns",
    ]
    assert [column.split()[0] for column in tables["fetcharg-eprobe-ns"].columns[2::2]] == ["bpf", "legacy"]
    assert line(tables["fetcharg-kprobe-ns"], "a", "no probe")[2].value == pytest.approx(5e8, rel=0.05)


def test_a_failed_benchmark_is_a_line_with_the_reason_in_every_table_of_it() -> None:
    broken, none = host("b"), host("c")
    for name in list(broken.benchmarks):
        broken.benchmarks[name].update(status="failed", reason="killed <b>", rows=[])
        if name != "latency":
            none.benchmarks.pop(name)
    tables = host_tables(group(host("a"), broken, none))
    assert len({table.benchmark for table in tables}) == 5
    for table in tables:
        assert ["b", "failed: killed <b>"] in texts(table), table.id
        if table.benchmark != "latency":
            assert ["c", "not measured"] in texts(table), table.id


def test_a_benchmark_that_failed_halfway_shows_both() -> None:
    half = host("a")
    half.benchmarks["parallel"].update(status="failed", reason="killed")
    table = next(table for table in host_tables(group(half)) if table.benchmark == "parallel")
    assert ["a", "failed: killed"] in texts(table)
    assert line(table, "a", "comm", "kprobe")[3].value


def test_hooks_are_in_their_order_and_refused_ones_are_there() -> None:
    table = next(table for table in host_tables(group(host())) if table.benchmark == "hook_overhead")
    assert [row[1].text for row in table.rows] == [
        "base",
        "kprobe",
        "kretprobe",
        "raw_tracepoint",
        "tracepoint",
        "fentry",
        "fexit",
        "fmod_ret",
        "harness",
    ]
    assert table.columns[2:] == ["1 thread", "1 thread, atomic counter", "4 threads", "4 threads, atomic counter"]
    assert line(table, "a", "fmod_ret")[2].text == "not supported: not allowed on this function"


def test_hits_are_checked_round_by_round() -> None:
    exact = hit_table(group(host()))
    assert [cell.text for cell in line(exact, "a", "kprobe", "2")[3:7]] == [
        "2\u202f000\u202f000",
        "2\u202f000\u202f000",
        "0",
        "yes, in all 10 rounds",
    ]
    lost = line(hit_table(group(host(lost=3))), "a", "kprobe", "1")
    assert (lost[6].text, lost[6].mark) == ("no: in 1 of 10 rounds they differ", "bad")


def test_an_unknown_benchmark_is_a_plain_table() -> None:
    other = host()
    other.benchmarks["cache_misses"] = other.benchmarks.pop("latency")
    table = next(table for table in host_tables(group(other)) if table.benchmark == "cache_misses")
    assert table.columns == ["host", "metric", "what", "value", "unit"]
    assert len(table.rows) == 36


def test_the_hosts_table_has_every_host_and_benchmark() -> None:
    noisy = host("a", noise=0.5)
    noisy.benchmarks["latency"].update(status="unsupported", reason="no timer", rows=[])
    noisy.benchmarks.pop("parallel")
    rows = texts(hosts_table([noisy, HostResult("b", "unreachable", "no route")]))
    assert rows[1] == ["b", "unreachable", "no route"]
    assert rows[0][1] == "measured, noisy"
    assert "noisy" in rows[0][4]
    assert rows[0][6:8] == ["unsupported: no timer", "not measured"]


def test_the_fleets_spread_names_the_outlier() -> None:
    hosts = [host(f"h{number}", seed=number, noise=0.001) for number in range(5)] + [host("slow", seed=9, speed=0.4)]
    table = fleet_table(group(*hosts))
    assert table
    row = line(table, "parallel", "rate (workload comm, hook base, cpus 1)")
    assert (row[4].text.partition("(")[2], row[6].text) == ("slow)", "slow")
    assert fleet_table(group(host())) is None


def test_the_order_of_hooks_is_compared_pair_by_pair() -> None:
    def rows(**medians: float) -> dict[str, dict[str, Any]]:
        return {hook: {"low": value - 1, "median": value, "high": value + 1} for hook, value in medians.items()}

    theirs = {"base": 100.0, "kprobe": 60.0, "fentry": 90.0}
    assert agreement(theirs, rows(base=50, kprobe=30, fentry=40)).text == "3 of 3 pairs in their order"
    assert agreement(theirs, rows(base=50, kprobe=45, fentry=40)).text == "2 of 3 pairs in their order, 1 in the other"
    close = agreement(theirs, rows(base=50, kprobe=30, fentry=31))
    assert close.text == "2 of 3 pairs in their order, 1 too close to tell"
    assert agreement(theirs, rows(base=50)).text == "nothing to compare"


def test_published_figures_stand_beside_each_host() -> None:
    tables = {table.id: table for table in reference_tables(group(host("a", noise=0.001), host("b", noise=0.001)))}
    assert len(tables) == 1 + len(HOOKS)
    hooks = tables["reference-hooks-ns"]
    assert hooks.rows[0][0].text == "published"
    assert hooks.rows[0][3].text == "3.673 M events/s · 79 %"
    assert line(hooks, "a")[3].text.endswith("· 79 %")
    assert line(hooks, "a")[8].mark == "muted"
    fetcharg = tables["reference-fetcharg-ns"]
    assert [cell.text for cell in fetcharg.rows[0][1:]] == [
        "kprobe",
        "7.38 → 12.76 ns (+73 %)",
        "28.08 → 23.21 ns (\u221217 %)",
        "44.51 → 28.78 ns (\u221235 %)",
    ]
    assert line(fetcharg, "a", "kprobe")[4].text.endswith("(\u221292 %)")
    # The scaling figures are compared at the most CPUs.
    writes = tables["reference-writes-ns"]
    assert line(writes, "a")[2].value == pytest.approx(230e3 * 4**0.9, rel=0.01)


def test_the_answer_says_what_is_saved_and_which_hook_is_cheapest() -> None:
    found = {
        card.title: card
        for card in cards(group(host("a", clock="instructions"), host("b", seed=2, clock="instructions")))
    }
    saved = found["BPF fetchargs on kprobes"]
    assert saved.value == "92 % less"
    assert "3 fetchargs add 37." in saved.text and "(median of 2 hosts)" in saved.text
    hook = found["Cheapest hook"]
    assert hook.value == "raw_tracepoint"
    assert "keeps 95 % of the bare call's rate. The dearest, kretprobe, keeps 57 %" in hook.text
    assert found["Hit counts"].value == "exact"


def test_the_answer_does_not_claim_what_noise_hides() -> None:
    found = {card.title: card for card in cards(group(host(modes=("bpf", "legacy"), noise=0.0)))}
    assert found["BPF fetchargs on kprobes"].mark == "good"
    wild = host()
    for mode in ("bpf", "legacy"):
        wild.row("fetcharg", "overhead", kind="kprobe", mode=mode, nargs=3).update(samples=[1, 2, 3], median=2)  # type: ignore[union-attr]
    found = {card.title: card for card in cards(group(wild))}
    assert found["BPF fetchargs on kprobes"].value == "no clear difference"
    assert "within the noise on 1 of 1" in found["BPF fetchargs on kprobes"].text


def test_the_answer_names_no_cheapest_hook_where_noise_hides_it() -> None:
    (card,) = [card for card in cards(group(host(noise=0.6))) if card.title == "Cheapest hook"]
    assert card.value == "too close"
    assert "cannot be told from" in card.text


def test_the_answer_says_that_a_kernel_has_no_programs() -> None:
    stock = host(modes=("bpf", "legacy"))
    for row in stock.benchmarks["fetcharg"]["rows"]:
        if row["labels"]["mode"] == "bpf":
            row.update(supported=False, reason="no series", samples=[], median=None, low=None, high=None)
    card = cards(group(stock))[0]
    assert (card.title, card.value, card.text) == ("BPF fetchargs", "not supported", "no series")


def test_the_answer_on_a_stock_kernel_claims_nothing_about_bpf() -> None:
    found = [card.title for card in cards(group(host(modes=("default",))))]
    assert found == ["Cheapest hook", "Hit counts"]


def test_lost_hits_and_lost_hosts_are_in_the_answer() -> None:
    (card,) = [card for card in cards(group(host(lost=1))) if card.title == "Hit counts"]
    assert (card.value, card.mark) == ("4 rounds differ", "bad")
    broken = host("b")
    broken.benchmarks["latency"].update(status="failed", reason="killed", rows=[])
    (card,) = overall([host("a"), broken, HostResult("c", "unreachable", "no route")], None)
    assert (card.value, card.mark) == ("2 of 3", "bad")
    assert card.text == "c: unreachable; b latency failed"
    (card,) = overall([host("a"), host("loud", noise=0.9)], None)
    assert (card.mark, card.text) == ("good", "loud is noisy")
