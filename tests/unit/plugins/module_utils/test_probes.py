# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import (
    Event,
    Limits,
    limits_of,
    needs_btf,
    parse_event,
    split_arg,
)

LIMITS = Limits(nesting=13, expression=63)


def event(**item: Any) -> Event:
    if "definition" not in item:
        item = {"type": "kprobe", "target": "f", **item}
    return parse_event({"name": "e", **item}, "g", LIMITS)


@pytest.mark.parametrize(
    ("item", "command"),
    [
        ({"args": ["a=$arg1", "b=+0($arg2):string"]}, "p:g/e f a=$arg1 b=+0($arg2):string"),
        ({"args": [{"name": "b", "fetch": "+0($arg2)", "type": "string"}]}, "p:g/e f b=+0($arg2):string"),
        ({"args": [{"fetch": "$arg1"}]}, "p:g/e f $arg1"),
        ({"type": "kretprobe"}, "r:g/e f"),
        ({"type": "kretprobe", "target": "f%return", "maxactive": 64}, "r64:g/e f"),
        ({"type": "fprobe"}, "f:g/e f"),
        ({"type": "fexit"}, "f:g/e f%return"),
        ({"type": "fexit", "target": "f%return"}, "f:g/e f%return"),
        ({"type": "tprobe", "target": "sched_switch"}, "t:g/e sched_switch"),
        ({"type": "eprobe", "target": "sched/sched_switch", "args": ["p=$a"]}, "e:g/e sched.sched_switch p=$a"),
        ({"type": "uprobe", "target": "/bin/sh:0x100"}, "p:g/e /bin/sh:0x100"),
        ({"type": "uretprobe", "target": "/bin/sh:main"}, "r:g/e /bin/sh:main"),
        ({"group": "mi-ne"}, "p:mi-ne/e f"),
        ({"definition": "p:g/e  f   a=$arg1 # why"}, "p:g/e f a=$arg1"),
        ({"definition": "r7:e f"}, "r7:g/e f"),
        ({"definition": "p f%return"}, "r:g/e f"),
        ({"definition": "f:g/e f $retval"}, "f:g/e f%return $retval"),
        ({"definition": "p:g.e /bin/sh:0x1%return"}, "r:g/e /bin/sh:0x1"),
        ({"definition": "e:g/e a/b c=$d if e > 1 && f == 2"}, "e:g/e a.b c=$d if e > 1 && f == 2"),
    ],
)
def test_command_of_each_kind(item: dict[str, Any], command: str) -> None:
    assert event(**item).commands == (command,)


def test_appended_probes_share_the_event() -> None:
    both = event(
        args=["a=$arg1:u64"], append=[{"target": "h", "args": ["a=$arg2:u64"]}, {"definition": "p i a=%ax:u64"}]
    )
    assert both.commands == ("p:g/e f a=$arg1:u64", "p:g/e h a=$arg2:u64", "p:g/e i a=%ax:u64")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"name": "1x"}, "g/1x: the name may hold"),
        ({"name": "a-b"}, "g/a-b: the name may hold"),
        ({"group": "a/b"}, "the group may hold"),
        ({"name": "n" * 64}, "has 64 characters; the kernel takes 63"),
        ({"group": "n" * 64}, "has 64 characters; the kernel takes 63"),
        ({"type": "zprobe"}, "unknown type 'zprobe'; types are kprobe"),
        ({"target": "two words"}, "'two words' must be one word"),
        ({"target": ""}, "target is missing"),
        ({"args": ["a=1 b=2"]}, "arg 'a=1 b=2' must be one word"),
        ({"args": ["x=%ax"] * 2}, "two args have the name x"),
        ({"args": [f"a{n}=%ax" for n in range(129)]}, "129 args; the kernel takes 128"),
        ({"args": ["a" * 33 + "=%ax"]}, "has 33 characters; the kernel takes 32"),
        ({"args": ["a-b=%ax"]}, "its name may hold"),
        ({"args": ["common_pid=%ax"]}, "common_pid is a field that every event has"),
        ({"args": ["a="]}, "fetches nothing"),
        ({"args": ["a=%ax:u33"]}, "has the unknown type 'u33'"),
        ({"args": ["a=+0(%ax):u8[65]"]}, "has 65 elements; the kernel takes 1 to 64"),
        ({"args": [f"a{n}=+0(%ax):u64[64]" for n in range(7)]}, "take 3584 bytes of a record; the kernel takes 3072"),
        ({"args": ["a=" + "+0(" * 14 + "%ax" + ")" * 14]}, "nests 14 dereferences; this kernel takes 13"),
        ({"args": ["a=+0(%ax):" + "u" * 60]}, "this kernel takes 63"),
        ({"args": [{"fetch": "%ax", "kind": "u8"}]}, "has the unknown key kind"),
        ({"maxactive": 5}, "maxactive belongs to a kretprobe, not to a kprobe"),
        ({"type": "kretprobe", "maxactive": 0}, "maxactive 0 is not between 1 and 4096"),
        ({"type": "kretprobe", "maxactive": 4097}, "maxactive 4097 is not between 1 and 4096"),
        ({"definition": "r5:g/e /bin/sh:0x1"}, "maxactive belongs to a kretprobe, not to a uretprobe"),
        ({"definition": "p:g/other f"}, "its definition calls it g/other"),
        ({"definition": "p:g/e f", "target": "h"}, "target cannot be given beside it"),
        ({"definition": "hello"}, "is no definition"),
        ({"type": "fprobe", "target": "mod:f"}, "an fprobe takes the function's name without its module"),
        ({"type": "tprobe", "target": "a+4"}, "a tprobe takes no offset"),
        ({"type": "eprobe", "target": "sched_switch"}, "must be SYSTEM.EVENT"),
        ({"type": "uprobe", "target": "bin/sh:0x1"}, "must be an absolute PATH:OFFSET"),
        ({"target": "/bin/sh:0x1"}, "is a file, which a kprobe cannot sit in"),
        ({"append": [{"target": "f"}]}, "the same probe is appended twice"),
        ({"append": [{"target": "h", "args": ["a=%ax"]}]}, "args of the same names and types"),
        ({"type": "tprobe", "append": [{"target": "h"}]}, "the kernel appends no tprobe"),
        ({"instances": ["a/b"]}, "instance 'a/b' may hold"),
    ],
)
def test_bad_input_is_named(item: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        event(**item)
    assert message in str(caught.value)
    assert str(caught.value).startswith("event ")


def test_a_command_that_is_too_long_is_refused() -> None:
    args = [f"{'a' * 28}{n:03}=+0x0000000000000000(%ax):u8" for n in range(100)]
    with pytest.raises(FleetError, match="the kernel takes 4094"):
        event(args=args)


@pytest.mark.parametrize(
    ("release", "limits"),
    [
        ("6.1.0-42-amd64", Limits(14, 63)),
        ("6.12.117-fetchbpf", Limits(14, 63)),
        ("6.18.1", Limits(14, 255)),
        ("7.3.0-rc7", Limits(8, 255)),
    ],
)
def test_limits_go_by_the_release(release: str, limits: Limits) -> None:
    assert limits_of(release) == limits


@pytest.mark.parametrize(
    ("arg", "parts"),
    [
        ("a=+0($arg1):u64", ("a", "+0($arg1)", "u64")),
        ("$arg1:x64", ("", "$arg1", "x64")),
        ("a=%ax", ("a", "%ax", "")),
        ('a=\\"x:y":string', ("a", '\\"x:y"', "string")),
        ("a=+4(+0(%ax))", ("a", "+4(+0(%ax))", "")),
    ],
)
def test_parts_of_an_arg(arg: str, parts: tuple[str, str, str]) -> None:
    assert split_arg(arg) == parts


@pytest.mark.parametrize(
    ("arg", "needs"),
    [("count", True), ("$arg*", True), ("a=file->f_mode", True), ("x=+0(file)", True), ("a=$arg1", False)],
)
def test_args_that_need_btf(arg: str, needs: bool) -> None:
    assert bool(needs_btf(event(args=[arg]).probes[0])) is needs
