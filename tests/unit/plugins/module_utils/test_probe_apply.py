# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan and apply on a kernel in memory; what the real one makes of it is tested in VMs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_apply import Editor, apply_plan
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_plan import make_plan
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import Event, Limits, parse_event
from fake_tracefs import FakeTracefs


class Host:
    """A kernel and what was remembered of it."""

    def __init__(self) -> None:
        self.kernel = FakeTracefs()
        self.records: dict[str, dict[str, Any]] = {}

    def apply(self, *events: Event, skip: bool = False, exclusive: bool = True) -> tuple[bool, dict[str, str]]:
        names = {event.name for event in events}
        registered = self.kernel.registered()
        undeclared = [name for name in registered if exclusive and name.startswith("g/") and name not in names]
        plan = make_plan(list(events), undeclared, registered, self.records, self.kernel, self.kernel.instances())
        self.kernel.log.clear()
        self.kernel.wiped.clear()
        failed = apply_plan(Editor(self.kernel, self.records), plan, registered, [], skip)
        for event in events:
            if event.name not in failed:
                self.records[event.name] = {
                    "commands": list(event.commands),
                    "lines": list(self.kernel.lines[event.name]),
                    "pins": [],
                    "places": {
                        place: {
                            "filter": event.filter,
                            "filter_shown": self.kernel.event_file(event.name, "filter", place),
                            "triggers": None if event.triggers is None else list(event.triggers),
                            "triggers_shown": self.kernel.triggers(event.name, place),
                        }
                        for place in event.places
                    },
                }
        return bool(plan), failed


def event(name: str, definition: str, **item: Any) -> Event:
    return parse_event({"name": name, "definition": definition, **item}, "g", Limits(13, 63))


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_new_event_is_set_up_before_it_records(host: Host) -> None:
    host.apply(event("a", "p f x=%ax", filter="x > 1", triggers=["stacktrace"], instances=["i"]))
    assert host.kernel.log == [
        "mkdir i",
        "p:g/a f x=%ax",
        *("g/a filter=x > 1", "g/a trigger=stacktrace", "g/a enable=1"),
        *("i:g/a filter=x > 1", "i:g/a trigger=stacktrace", "i:g/a enable=1"),
    ]


def test_the_second_run_writes_nothing(host: Host) -> None:
    events = [event("a", "r f", filter="x > 1", triggers=["traceoff:5"], instances=["i"]), event("b", "p f $arg1")]
    assert host.apply(*events) == (True, {})
    assert host.apply(*events) == (False, {})
    assert host.kernel.log == []


def test_a_changed_arg_is_exchanged_without_deleting_the_event(host: Host) -> None:
    host.apply(event("a", "p f x=%ax", filter="x > 1"), event("b", "p f"))
    host.apply(event("a", "p f x=%bx", filter="x > 1"), event("b", "p f"))
    assert host.kernel.log == ["g/a enable=0", "p:g/a f x=%bx", "-:g/a f x=%ax", "g/a enable=1"]
    assert host.kernel.wiped == []
    assert host.kernel.lines["g/a"] == ["p:g/a f x=%bx"]


def test_a_changed_maxactive_needs_a_stand_in(host: Host) -> None:
    host.apply(event("a", "r5 f x=$retval"))
    host.apply(event("a", "r6 f x=$retval"))
    assert host.kernel.lines["g/a"] == ["r6:g/a f x=$retval"]
    assert host.kernel.wiped == []
    assert host.kernel.on[""] == {"g/a"}


def test_another_format_needs_another_event(host: Host) -> None:
    host.apply(event("a", "p f x=%ax", triggers=["stacktrace"]))
    host.kernel.make_instance("theirs")
    host.kernel.set_event_file("g/a", "enable", "1", "theirs")
    host.apply(event("a", "p f x=%ax:u8", triggers=["stacktrace"]))
    assert host.kernel.wiped == ["g/a"]
    assert host.kernel.lines["g/a"] == ["p:g/a f x=%ax:u8"]
    # It records again wherever it did, also where others had switched it on.
    assert host.kernel.on == {"": {"g/a"}, "theirs": {"g/a"}}
    assert host.kernel.triggers("g/a") == ["stacktrace"]


def test_a_changed_filter_touches_the_filter_only(host: Host) -> None:
    host.apply(event("a", "p f x=%ax", filter="x > 1"))
    host.apply(event("a", "p f x=%ax", filter="x > 2"))
    assert host.kernel.log == ["g/a filter=x > 2"]
    host.apply(event("a", "p f x=%ax"))
    assert host.kernel.log == ["g/a filter=0"]


def test_a_counted_trigger_that_counted_is_still_the_declared_one(host: Host) -> None:
    host.apply(event("a", "p f", triggers=["traceoff:5"]))
    host.kernel.files["g/a", "trigger", ""] = ["traceoff:count=2"]
    assert host.apply(event("a", "p f", triggers=["traceoff:5"])) == (False, {})


def test_what_was_changed_behind_our_back_is_put_right(host: Host) -> None:
    declared = event("a", "p f x=%ax", filter="x > 1", triggers=[])
    host.apply(declared)
    host.kernel.set_event_file("g/a", "filter", "x > 9")
    host.kernel.set_event_file("g/a", "enable", "0")
    host.kernel.set_event_file("g/a", "trigger", "traceoff")
    host.apply(declared)
    assert host.kernel.log == ["g/a filter=x > 1", "g/a trigger=!traceoff", "g/a enable=1"]


def test_an_instance_that_is_no_longer_declared_is_switched_off(host: Host) -> None:
    host.apply(event("a", "p f", filter="common_pid > 1", instances=["i"]))
    host.apply(event("a", "p f", filter="common_pid > 1"))
    assert host.kernel.on == {"": {"g/a"}, "i": set()}
    assert host.kernel.event_file("g/a", "filter", "i") == "none"


def test_an_eprobe_goes_before_its_target_and_comes_after_it(host: Host) -> None:
    host.apply(event("on_it", "e g.t"), event("t", "f f x=%ax"))
    assert [line for line in host.kernel.log if "enable" not in line] == ["f:g/t f x=%ax", "e:g/on_it g.t"]
    # The target's format changes: both are made anew although only one is another.
    host.apply(event("on_it", "e g.t"), event("t", "f f x=%ax:u8"))
    commands = [line for line in host.kernel.log if "enable" not in line]
    assert commands == ["-:g/on_it", "-:g/t", "f:g/t f x=%ax:u8", "e:g/on_it g.t"]
    host.apply()
    assert [line for line in host.kernel.log if "enable" not in line] == ["-:g/on_it", "-:g/t"]


def test_a_target_that_a_foreign_eprobe_holds_is_refused_by_name(host: Host) -> None:
    host.apply(event("t", "f f x=%ax"))
    host.kernel.command("theirs/e", "e:theirs/e g.t")
    before = host.kernel.everything()
    with pytest.raises(FleetError, match="g/t: the event probe theirs/e, which is not declared here, is attached"):
        host.apply()
    assert host.kernel.everything() == before


def test_probes_are_appended_and_removed_one_by_one(host: Host) -> None:
    host.apply(event("a", "p f x=%ax", append=[{"target": "h", "args": ["x=%ax"]}]))
    assert host.kernel.lines["g/a"] == ["p:g/a f x=%ax", "p:g/a h x=%ax"]
    host.apply(event("a", "p f x=%ax", append=[{"target": "i", "args": ["x=%ax"]}]))
    assert host.kernel.lines["g/a"] == ["p:g/a f x=%ax", "p:g/a i x=%ax"]
    host.apply(event("a", "p f x=%ax"))
    assert host.kernel.lines["g/a"] == ["p:g/a f x=%ax"]
    assert host.kernel.wiped == []


def test_a_refused_event_leaves_everything_as_it_was(host: Host) -> None:
    old = [
        event("a", "p f x=%ax", filter="x > 1", triggers=["stacktrace"]),
        event("b", "r5 f", enabled=False, instances=["i"]),
        event("c", "p f"),
        event("d", "p f x=%ax"),
    ]
    host.apply(*old)
    host.kernel.command("kprobes/other", "p:kprobes/other f")
    before = host.kernel.everything()
    new = [
        event("a", "p f x=%ax:u8", filter="x > 1"),
        event("b", "r6 f", instances=["j"]),
        event("d", "p f x=%bx"),
        event("e", "p f"),
        event("f", "p nope"),
    ]
    with pytest.raises(FleetError, match="event g/f: ENOENT\nThe events are as they were before"):
        host.apply(*new)
    assert host.kernel.everything() == before


def test_skipping_keeps_what_works_and_the_old_form_of_what_does_not(host: Host) -> None:
    host.apply(event("a", "p f x=%ax", filter="x > 1"), event("b", "p f"))
    _changed, failed = host.apply(
        event("a", "p nope y=%ax"), event("b", "p h"), event("c", "p nope"), event("d", "p f"), skip=True
    )
    assert sorted(failed) == ["g/a", "g/c"]
    assert host.kernel.lines == {
        "g/a": ["p:g/a f x=%ax"],
        "g/b": ["p:g/b h"],
        "g/d": ["p:g/d f"],
    }
    assert host.kernel.event_file("g/a", "filter") == "x > 1"
    assert host.kernel.on[""] == {"g/a", "g/b", "g/d"}


def test_a_filter_that_is_refused_takes_the_event_with_it(host: Host) -> None:
    host.kernel.refuse.add("z > 1")
    with pytest.raises(FleetError, match="as they were before"):
        host.apply(event("a", "p f"), event("b", "p f", filter="z > 1"))
    assert host.kernel.lines == {}


@pytest.mark.parametrize("seed", range(30))
def test_any_list_after_any_other(seed: int, host: Host) -> None:
    chance = random.Random(seed)

    def some() -> list[Event]:
        events = []
        for name in chance.sample("abcdefgh", chance.randint(0, 6)):
            kind = chance.choice(["p", "r", "r7", "r9", "f"])
            args = chance.choice(["", " x=%ax", " x=%bx", " x=%ax:u8"])
            more: dict[str, Any] = {"enabled": chance.random() < 0.7}
            more["filter"] = chance.choice(["", "common_pid > 1", "common_pid > 2"])
            more["triggers"] = chance.choice([None, [], ["stacktrace"], ["traceoff:3"]])
            more["instances"] = chance.choice([[], [], ["i"], ["i", "j"]])
            if args and chance.random() < 0.3:
                more["append"] = [{"definition": f"{kind[0]} k{args}"}]
            events.append(event(name, f"{kind} {chance.choice(['f', 'h'])}{args}", **more))
        return events

    host.kernel.command("kprobes/other", "p:kprobes/other f")
    host.kernel.set_event_file("kprobes/other", "enable", "1")
    for _step in range(5):
        events = some()
        host.apply(*events)
        assert {name for name in host.kernel.lines if name != "kprobes/other"} == {one.name for one in events}
        for one in events:
            assert len(host.kernel.lines[one.name]) == len(one.probes)
            for place in host.kernel.on:
                assert (one.name in host.kernel.on[place]) == one.on_in(place)
            for place in one.places:
                assert host.kernel.event_file(one.name, "filter", place) == (one.filter or "none")
        assert host.apply(*events) == (False, {})
        assert "kprobes/other" not in host.kernel.wiped
        assert "kprobes/other" in host.kernel.on[""]


def test_a_second_tprobe_on_a_trace_point_says_which_is_there(host: Host) -> None:
    host.apply(event("a", "t sched_switch"))
    with pytest.raises(FleetError, match="one tprobe a trace point, and g/a is on sched_switch already"):
        host.apply(event("a", "t sched_switch"), event("b", "t sched_switch"))
    assert list(host.kernel.lines) == ["g/a"]
