# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens a report in headless Chromium and reads it as a person does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from report_data import answer, make_fact
from selenium.webdriver import Chrome

TEMPLATES = str(Path(__file__).resolve().parents[2] / "roles" / "fleet_report" / "templates")
PHONE, DESK = (390, 844), (1280, 900)

# What the reader sees of each table: its cells' texts and the values behind them.
_TABLES = """
return Object.fromEntries([...document.querySelectorAll("table")].map(table => [table.id,
  [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => [cell.textContent, cell.dataset.value ?? null]))]));
"""
_LABELS = """
return [...document.querySelectorAll("figure")].map(figure => [...figure.querySelectorAll("svg path[aria-label]")]
  .map(mark => mark.getAttribute("aria-label")));
"""
# Marks whose colour the style sheet does not know would be black, which no colour here is.
_COLOURS = """
return [...document.querySelectorAll("figure path[aria-label]")].map(mark => getComputedStyle(mark).fill)
  .concat([...document.querySelectorAll(".legend span")].map(mark => getComputedStyle(mark).backgroundColor));
"""
# Text needs 4.5, marks 3 (WCAG 2.2).
_CONTRAST = """
const style = getComputedStyle(document.documentElement), probe = document.createElement("i");
document.body.append(probe);
const light = name => {
  probe.style.color = style.getPropertyValue(name);
  const [r, g, b] = getComputedStyle(probe).color.match(/[0-9.]+/g).map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
return arguments[0].map(name => {
  const [dark, bright] = [light(name), light("--paper")].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
});
"""
REAL = os.environ.get("FETCHBPF_REPORT")
invented = pytest.mark.skipif(bool(REAL), reason="is about hosts that were made up")
TEXT = ("--ink", "--muted", "--link", "--good", "--bad", "--noisy")
MODES = ("bpf", "interpreter", "legacy", "default")
HOOKS = ("base", "kprobe", "kretprobe", "raw-tracepoint", "tracepoint", "fentry", "fexit", "fmod-ret", "harness")
MARKS = tuple(f"--c-{name}" for name in (*MODES, *HOOKS, "better", "worse"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of hosts of three units, one host that failed in part and three without a result, after an older run.

    Or FETCHBPF_REPORT, the folder of a report of a real run.
    """
    if REAL:
        return Path(REAL)
    from ansible_collections.fetchbpf.fleet.plugins.action.fleet_report import write_report

    runs = tmp_path_factory.mktemp("runs")
    half = make_fact(seed=3, noise=0.2)
    half["benchmarks"]["latency"].update(status="failed", reason="killed", rows=[])
    facts = {
        "metal": answer(make_fact(virtualisation="none")),
        "noisy": answer(half),
        "exact": answer(make_fact(clock="instructions", virtualisation="qemu", cpus=1, noise=0.0)),
        "emulated": answer(make_fact(virtualisation="qemu", speed=0.1, cpus=2)),
        "old": answer({"schema": 1}),
        "broken": answer("error loading facts as JSON or ini"),
        "gone": {"unreachable": True, "msg": "no route to host"},
    }
    args = {"path": str(runs), "keep": 5, "baseline": None, "max_regression": 5.0, "compare": [], "terminal": []}
    before = {"metal": answer(make_fact(seed=2, virtualisation="none", worse=1.2))}
    run = write_report({**args, "hosts": list(before)}, before, TEMPLATES, False)["run"]
    result = write_report({**args, "hosts": list(facts), "baseline": run}, facts, TEMPLATES, False)
    return Path(result["folder"])


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Chrome]:
    with browser.open_page(folder / "report.html", DESK) as driver:
        yield driver


def test_the_console_is_silent(page: Chrome) -> None:
    assert page.get_log("browser") == []
    assert page.title.startswith("Cost of probing, 20")


def test_every_table_of_the_json_is_on_the_page_with_its_numbers(page: Chrome, report: dict[str, Any]) -> None:
    shown = page.execute_script(_TABLES)
    wanted = {table["id"]: table["rows"] for table in report["tables"] if table["rows"]}
    assert list(shown) == [*wanted] or sorted(shown) == sorted(wanted)
    numbers = 0
    for name, rows in wanted.items():
        assert [[cell[0] for cell in row] for row in shown[name]] == [[cell["text"] for cell in row] for row in rows]
        for row, cells in zip(shown[name], rows):
            for (_text, value), cell in zip(row, cells):
                assert (None if value is None else float(value)) == cell["value"], name
                numbers += value is not None
    assert numbers > (100 if REAL else 1000)


@invented
def test_the_numbers_are_those_of_the_facts(page: Chrome, report: dict[str, Any]) -> None:
    (host,) = [host for host in report["hosts"] if host["name"] == "exact"]
    rows = host["fact"]["benchmarks"]["fetcharg"]["rows"]
    medians = {tuple(row["labels"].values()): row["median"] for row in rows if row["metric"] == "overhead"}
    lines = [[cell for cell, _value in row] for row in page.execute_script(_TABLES)["fetcharg-instructions"]]
    seen = 0
    for _host, kind, mode, *cells in lines:
        for nargs in (1, 2, 3):
            if (kind, mode, nargs) in medians:
                assert float(cells[nargs].split()[0]) == pytest.approx(medians[kind, mode, nargs], abs=0.05)
                seen += 1
    assert seen == len(medians)


@invented
def test_hosts_without_a_result_are_rows_with_the_reason(page: Chrome) -> None:
    rows = {row[0][0]: [text for text, _value in row[1:]] for row in page.execute_script(_TABLES)["hosts"]}
    assert rows["old"] == ["old fact", "fact.schema: 1 instead of 2, an old fact: measure again"]
    assert rows["broken"] == ["bad fact", "error loading facts as JSON or ini"]
    assert rows["gone"] == ["unreachable", "no route to host"]
    assert "failed: killed" in rows["noisy"]


@invented
def test_charts_are_there_and_say_their_numbers(page: Chrome, report: dict[str, Any]) -> None:
    charts = page.execute_script(_LABELS)
    assert len(charts) > 40
    assert all(charts), "a chart without marks"
    marks = {label for chart in charts for label in chart}
    (host,) = [host for host in report["hosts"] if host["name"] == "metal"]
    rows = [row for row in host["fact"]["benchmarks"]["latency"]["rows"] if row["supported"]]
    for row in rows:
        (value,) = [_number(mark) for mark in marks if mark.startswith("metal: run time") and _what(row) in mark]
        assert value == pytest.approx(row["median"], rel=0.01)


def _number(mark: str) -> float:
    """Return the median that a mark says."""
    return float(mark.replace("\u202f", "").split()[3])


def _what(row: dict[str, Any]) -> str:
    return "({})".format(", ".join(f"{key} {value}" for key, value in row["labels"].items()))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_can_be_read(page: Chrome, scheme: str) -> None:
    browser.prefer(page, scheme)
    found = dict(zip(TEXT + MARKS, page.execute_script(_CONTRAST, list(TEXT + MARKS))))
    assert {name: ratio for name, ratio in found.items() if ratio < (4.5 if name in TEXT else 3)} == {}
    assert not {"rgb(0, 0, 0)", "rgba(0, 0, 0, 0)"} & set(page.execute_script(_COLOURS))


@pytest.mark.parametrize("size", [PHONE, DESK])
def test_nothing_sticks_out_at_the_side(page: Chrome, size: tuple[int, int]) -> None:
    browser.resize(page, size)
    assert page.execute_script("return document.documentElement.scrollWidth") <= size[0]
    # Charts are drawn for this width, so their text is not scaled down.
    smallest = page.execute_script(
        "return Math.min(...[...document.querySelectorAll('figure svg')]"
        ".map(chart => chart.clientWidth / chart.viewBox.baseVal.width))"
    )
    assert smallest > 0.95


def test_touching_a_mark_shows_its_numbers(page: Chrome) -> None:
    browser.resize(page, DESK)
    label, shown = page.execute_script(
        """
        const mark = document.querySelector("figure path[aria-label]"), box = mark.getBoundingClientRect();
        mark.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, clientX: box.x, clientY: box.y}));
        const tip = document.getElementById("tip");
        return [mark.getAttribute("aria-label"), tip.hidden ? "" : tip.textContent];
        """
    )
    assert shown == label
