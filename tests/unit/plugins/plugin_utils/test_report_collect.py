# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_collect import collect, plain
from report_data import answer, make_fact


class Tagged(str):
    """A text as Ansible hands it out: of a class of its own."""

    __slots__ = ()


def test_every_host_is_there_in_its_order() -> None:
    found = collect(["b", "a", "c"], {"a": answer(make_fact()), "b": answer(None)})
    assert [(host.name, host.state) for host in found] == [("b", "no fact"), ("a", "measured"), ("c", "not gathered")]


@pytest.mark.parametrize(
    ("given", "state", "reason"),
    [
        (None, "not gathered", "failed earlier, or the run was limited"),
        ({"unreachable": True, "msg": "ssh:\n  no route"}, "unreachable", "ssh: no route"),
        ({"unreachable": True}, "unreachable", "no answer"),
        ({"failed": True, "msg": "no python"}, "failed", "no python"),
        (answer(None), "no fact", "not measured yet"),
        ({"ansible_facts": {}}, "no fact", "not measured yet"),
        (answer("error loading facts as JSON or ini - please check content"), "bad fact", "error loading facts"),
        (answer([1, 2]), "bad fact", "fact: [1, 2] instead of an object"),
        (answer({"schema": 1, "unit": "ns"}), "old fact", "1 instead of 2, an old fact: measure again"),
        (answer({"schema": 2}), "bad fact", "fact: time, environment, benchmarks missing"),
        (answer({"schema": 9}), "bad fact", "9 instead of 2"),
    ],
)
def test_a_host_without_a_fact_has_the_reason(given: Any, state: str, reason: str) -> None:
    (host,) = collect(["a"], {"a": given})
    assert host.state == state
    assert reason in host.reason
    assert host.fact is None
    assert host.benchmarks == {}


def test_a_reason_is_one_line_of_bearable_length() -> None:
    (host,) = collect(["a"], {"a": {"unreachable": True, "msg": "x\n" * 5000}})
    assert "\n" not in host.reason
    assert len(host.reason) == 300


def test_plain_types_only() -> None:
    found = plain({Tagged("key"): [Tagged("text"), 1, None, True, (2.5,)]})
    assert found == {"key": ["text", 1, None, True, [2.5]]}
    assert type(found["key"][0]) is str
    assert all(type(key) is str for key in found)
