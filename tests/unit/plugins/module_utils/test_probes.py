# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import Probe, Registered, make_plan, parse_probe


def probe(**item: Any) -> Probe:
    return parse_probe({"name": "e", "type": "kprobe", "target": "f", **item}, "g")


@pytest.mark.parametrize(
    ("item", "definition"),
    [
        ({"type": "kprobe", "args": ["a=$arg1", "b=+0($arg2):string"]}, "p:g/e f a=$arg1 b=+0($arg2):string"),
        ({"type": "kretprobe"}, "r:g/e f"),
        ({"type": "kretprobe", "maxactive": 64}, "r64:g/e f"),
        ({"type": "fprobe"}, "f:g/e f"),
        ({"type": "fexit"}, "f:g/e f%return"),
        ({"type": "fexit", "target": "f%return"}, "f:g/e f%return"),
        ({"type": "tprobe", "target": "sched_switch"}, "t:g/e sched_switch"),
        (
            {"type": "eprobe", "target": "sched.sched_switch", "args": ["p=$prev_pid"]},
            "e:g/e sched.sched_switch p=$prev_pid",
        ),
        ({"type": "uprobe", "target": "/bin/sh:0x100"}, "p:g/e /bin/sh:0x100"),
        ({"type": "uretprobe", "target": "/bin/sh:0x100"}, "p:g/e /bin/sh:0x100%return"),
        ({"group": "mine"}, "p:mine/e f"),
    ],
)
def test_definition_of_each_kind(item: dict[str, Any], definition: str) -> None:
    assert probe(**item).definition == definition


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"name": "1x"}, "g/1x: the name may hold"),
        ({"name": "a-b"}, "g/a-b: the name may hold"),
        ({"group": "a/b"}, "the group may hold"),
        ({"name": "n" * 64}, "has 64 characters; the kernel takes 63"),
        ({"target": "two words"}, "'two words' must be one word"),
        ({"args": ["a=1 b=2"]}, "arg 'a=1 b=2' must be one word"),
        ({"args": ["x"] * 129}, "129 args; the kernel takes 128"),
        ({"maxactive": 5}, "maxactive belongs to a kretprobe, not to a kprobe"),
        ({"type": "kretprobe", "maxactive": 0}, "maxactive 0 is not between 1 and 4096"),
        ({"args": ["a" * 63 + "=$arg1"] * 128}, "the kernel takes 4094"),
    ],
)
def test_bad_input_is_named(item: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        probe(**item)
    assert message in str(caught.value)


def remembered(*probes: Probe, lines: dict[str, tuple[str, ...]] | None = None) -> dict[str, dict[str, Any]]:
    return {
        p.name: {
            "definition": p.definition,
            "lines": list((lines or {}).get(p.name, (p.definition,))),
            "filter": p.filter,
            "filter_shown": p.filter or "none",
        }
        for p in probes
    }


def registered(*probes: Probe, lines: dict[str, tuple[str, ...]] | None = None) -> dict[str, Registered]:
    return {
        p.name: Registered((lines or {}).get(p.name, (p.definition,)), p.enabled, p.filter or "none") for p in probes
    }


def test_nothing_to_do_although_the_kernel_rewrote_the_definition() -> None:
    ret = probe(type="kretprobe")
    shown = {ret.name: ("r10:g/e f",)}
    assert not make_plan([ret], set(), registered(ret, lines=shown), remembered(ret, lines=shown), {"g"})


def test_only_the_changed_event_is_made_anew() -> None:
    same, old = probe(name="same"), probe(name="e", args=["a=$arg1"])
    new = probe(name="e", args=["a=$arg2"])
    plan = make_plan([same, new], set(), registered(same, old), remembered(same, old), {"g"})
    assert (plan.delete, plan.create, plan.refilter, plan.switch) == (["g/e"], [new], [], [])


def test_an_event_changed_behind_our_back_is_made_anew() -> None:
    mine = probe()
    plan = make_plan([mine], set(), registered(mine, lines={"g/e": ("p:g/e other",)}), remembered(mine), set())
    assert (plan.delete, plan.create) == (["g/e"], [mine])


def test_a_filter_and_a_switch_need_no_new_event() -> None:
    old, new = probe(filter="a > 1"), probe(filter="a > 2", enabled=False)
    plan = make_plan([new], set(), registered(old), remembered(old), set())
    assert (plan.delete, plan.create, plan.refilter, plan.switch) == ([], [], [new], [new])


def test_undeclared_events_go_only_from_exclusive_groups() -> None:
    ours, theirs = probe(name="old"), probe(name="x", group="kprobes")
    found = registered(ours, theirs)
    assert make_plan([], set(), found, {}, set()).delete == []
    assert make_plan([], set(), found, {}, {"g"}).delete == ["g/old"]
    assert make_plan([], {"g/old", "g/gone"}, found, {}, set()).delete == ["g/old"]


def test_an_eprobe_goes_before_its_target_and_comes_after_it() -> None:
    target, on_it = probe(name="t"), probe(name="a", type="eprobe", target="g.t")
    plan = make_plan([on_it, target], set(), {}, {}, set())
    assert plan.create == [target, on_it]
    plan = make_plan([], set(), registered(target, on_it), {}, {"g"})
    assert plan.delete == ["g/a", "g/t"]
