# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases that are run inside a guest, each on a kernel without events of ours, and cleaned up after.

``python3 cases.py`` prints one JSON object a case; the tests read them. A case
may return a string: why it says nothing about this kernel.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.elf import Elf
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_info import all_events
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_run import observe, only_one
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_state import load_state
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import limits_of
from guest_kernel import GROUP, LIBC, WORK, Kernel, read_something, shell

# Only a case that hangs takes so long, also on a slow and busy machine.
LONGEST = 240


CASES: list[Callable[[Kernel], str | None]] = []


def case(function: Callable[[Kernel], str | None]) -> Callable[[Kernel], str | None]:
    """Mark a function as a case."""
    CASES.append(function)
    return function


def read_back_rows(kernel: Kernel) -> list[str]:
    """Return a definition for every way in which the kernel rewrites what is written."""
    with open("/proc/kallsyms", encoding="utf-8") as handle:
        address = next(line.split()[0] for line in handle if line.split()[2] == "vfs_write")
    offset = Elf(LIBC).offset_of("getppid")
    return [
        "r:a vfs_read",
        "p:a vfs_read%return",
        "r5:a vfs_read v=$retval",
        "p:a vfs_read+0",
        "p:a vfs_read+0x0 x=%ax",
        *[
            f"p:a vfs_read+{text}"
            for text in ("0x4", "5", "0x9")
            if kernel.accepts(f"p:{GROUP}/probing vfs_read+{text}")
        ],
        f"p:a 0x{address}",
        "p:a vfs_read $arg1",
        "p:a vfs_read $arg3:x64",
        "p:a vfs_read a=$arg1",
        "p:a vfs_read %ax",
        "p:a vfs_read b=$arg1 %ax:u8 +0($arg1):x32",
        "p:a vfs_read count",
        "p:a vfs_read $arg*",
        "p:a vfs_read x=$arg1:%pD",
        "p:a vfs_read d=+0($arg1):x64 e=+0x0($arg1):x64 f=-8($arg1):x8[4]",
        'p:a vfs_read s=\\"hello":string i=\\7:u8 c=$comm st=$stack1 g=@jiffies',
        "p:a    vfs_read     a=$arg1    # a comment",
        "p:a vfs_read a=$arg1:b4@2/32 b=$arg2:symbol",
        "f:a vfs_read",
        "f:a vfs_read a=$arg1",
        "f:a vfs_read $retval",
        "f:a vfs_read%return v=$retval",
        "f:a vfs_rea* ",
        "t:a sched_switch",
        "t:a sched_process_exec p=$arg2",
        "e:a sched.sched_switch p=$prev_pid",
        "e:a sched/sched_switch p=$prev_pid",
        "e:a sched.sched_switch p=$prev_pid if prev_pid > 1",
        f"p:a {LIBC}:{offset}",
        f"p:a {LIBC}:0x{offset:x} x=%ax",
        f"p:a {LIBC}:getppid",
        f"r:a {LIBC}:0x{offset:x}",
        f"p:a {LIBC}:0x{offset:x}%return",
        f"p:a /usr/../{LIBC}:0x{offset:x}",
    ]


@case
def p1_declared_twice_is_unchanged(kernel: Kernel) -> None:
    """P1: every row of the read-back table."""
    tried, unsupported = 0, []
    for row in read_back_rows(kernel):
        event = {"definition": row}
        try:
            first = kernel.apply(event)
        except FleetError as exc:
            # Kinds and BTF args that this kernel has not; everything else must be taken.
            assert "has no" in str(exc) or "needs BTF" in str(exc) or "refused" in str(exc), f"{row}: {exc}"
            unsupported.append(row)
            continue
        tried += 1
        assert first["changed"], row
        shown = kernel.lines("a")
        second = kernel.apply(event)
        assert not second["changed"], f"{row}: {shown} was changed by the second run: {second}"
        assert kernel.lines("a") == shown
        # Nothing is remembered: once it may be made anew, not twice.
        os.unlink(kernel.state)
        kernel.apply(event)
        assert not kernel.apply(event)["changed"], f"{row} without a state file"
        kernel.apply()
    needed = 26 if "fprobe" in kernel.kinds else 20
    assert tried >= needed, f"only {tried} rows were taken; refused: {unsupported}"


@case
def p1_a_module_that_comes_later_fills_in_maxactive(kernel: Kernel) -> None:
    """P1: ``r:`` while the module is not loaded, ``r10:`` after."""
    shell("modprobe -i loop")
    event = {"definition": "r:a loop:loop_queue_rq"}
    kernel.apply(event)
    assert not kernel.apply(event)["changed"]
    shell("modprobe -r loop")
    assert not kernel.apply(event)["changed"], kernel.lines("a")
    shell("modprobe -i loop")
    assert not kernel.apply(event)["changed"], kernel.lines("a")


@case
def p2_others_stay(kernel: Kernel) -> None:
    """P2: somebody else's events beside an exclusive group."""
    kernel.register("p:kprobes/t_other vfs_read")
    kernel.register("p:kprobes/t_two vfs_write")
    kernel.tracefs.set_event_file("kprobes/t_other", "enable", "1")
    kernel.register(f"p:{GROUP}/stray vfs_read")
    kernel.apply({"definition": "p:a vfs_read"}, {"definition": "p:b vfs_write"})
    assert kernel.ours() == {"a", "b"}
    now = observe(kernel.tracefs)
    assert now["kprobes/t_other"].on == {""} and "kprobes/t_two" in now
    kernel.apply()
    assert kernel.ours() == set() and "kprobes/t_other" in kernel.tracefs.definitions()
    message = kernel.refused({"definition": "p:kprobes/t_other vfs_write"}, exclusive=False)
    assert "was not made by this collection" in message, message
    message = kernel.refused({"definition": "p:kprobes/x vfs_write"})
    assert "group kprobes cannot be exclusive" in message, message


def _swap_keeps_the_buffer(kernel: Kernel, old: dict[str, Any], new: dict[str, Any]) -> None:
    keep = {"definition": "p:keep vfs_read", "instances": ["t_one"], "enabled": False}
    where: dict[str, Any] = {"instances": ["t_one"], "enabled": False}
    kernel.apply(keep, {**where, **old})
    read_something()
    before = kernel.trace("t_one", "keep")
    assert before, "the event that stays recorded nothing"
    result = kernel.apply(keep, {**where, **new})
    assert result["changed_events"] == [f"{GROUP}/a"], result
    assert kernel.trace("t_one", "keep") >= before, "the change emptied the trace buffer"
    told = kernel.trace("t_one", "a")
    read_something()
    os.listdir("/etc")
    assert kernel.trace("t_one", "a") > told, "the changed event does not record"
    assert not kernel.apply(keep, {**where, **new})["changed"]


@case
def p3_only_maxactive(kernel: Kernel) -> None:
    """P3: a kretprobe's maxactive changes."""
    _swap_keeps_the_buffer(
        kernel, {"definition": "r20:a vfs_read v=$retval"}, {"definition": "r30:a vfs_read v=$retval"}
    )
    assert kernel.lines("a") == [f"r30:{GROUP}/a vfs_read v=$retval"]


@case
def p3_only_maxactive_without_args(kernel: Kernel) -> None:
    """P3: a kretprobe's maxactive changes, and nothing but its place tells it from others."""
    _swap_keeps_the_buffer(kernel, {"definition": "r20:a vfs_read"}, {"definition": "r30:a vfs_read"})


@case
def p3_only_one_arg(kernel: Kernel) -> None:
    """P3: one arg fetches something else."""
    old, new = "p:a vfs_read x=$arg1:x64 y=$arg2:x64", "p:a vfs_read x=$arg1:x64 y=$arg3:x64"
    _swap_keeps_the_buffer(kernel, {"definition": old}, {"definition": new})
    assert kernel.lines("a") == [f"p:{GROUP}/a vfs_read x=$arg1:x64 y=$arg3:x64"]


@case
def p3_only_one_arg_of_an_fprobe(kernel: Kernel) -> str | None:
    """P3: the same for an fprobe."""
    if "fprobe" not in kernel.kinds:
        return "no fprobes"
    _swap_keeps_the_buffer(
        kernel, {"definition": "f:a vfs_read x=$arg1:x64"}, {"definition": "f:a vfs_read x=$arg3:x64"}
    )
    return None


@case
def p3_only_the_filter(kernel: Kernel) -> None:
    """P3: the filter changes."""
    base = {"definition": "p:a vfs_read n=$arg3:u64"}
    _swap_keeps_the_buffer(kernel, {**base, "filter": "n == 1"}, {**base, "filter": "n > 1"})


@case
def p3_another_type_empties_its_own_instance_only(kernel: Kernel) -> None:
    """P3: another format needs another event; buffers that it never recorded into stay."""
    keep = {"definition": "p:keep vfs_read", "instances": ["t_two"], "enabled": False}
    where: dict[str, Any] = {
        "instances": ["t_one"],
        "enabled": False,
        "filter": "x != 0",
        "triggers": ["stacktrace if x == 1"],
    }
    kernel.apply(keep, {**where, "definition": "p:a vfs_read x=$arg1:x64"})
    read_something()
    before = kernel.trace("t_two", "keep")
    result = kernel.apply(keep, {**where, "definition": "p:a vfs_read x=$arg1:x32"})
    assert result["changed_events"] == [f"{GROUP}/a"]
    assert kernel.trace("t_two", "keep") >= before > 0
    read_something()
    assert kernel.trace("t_one", "a") > 0
    assert not kernel.apply(keep, {**where, "definition": "p:a vfs_read x=$arg1:x32"})["changed"]


@case
def p4_no_such_function(kernel: Kernel) -> None:
    """P4: a function that does not exist."""
    for kind in ("kprobe", "kretprobe", "fprobe"):
        if kind in kernel.kinds:
            message = kernel.refused({"name": "a", "type": kind, "target": "vfs_raed"})
            assert "has no function vfs_raed; near names:" in message and "vfs_read" in message, message
    message = kernel.refused({"definition": "p:a nomodule_t:f"})
    assert "has no module nomodule_t, neither loaded nor as a file" in message, message


@case
def p4_notrace(kernel: Kernel) -> None:
    """P4: a function that exists and that nobody may probe."""
    traceable, blacklist = kernel.host.traceable(), kernel.host.blacklist()
    found = next(
        name
        for name, where in sorted(kernel.text_symbols().items())
        if where == [""]
        and "." not in name
        and name not in traceable
        and name not in blacklist
        and not name.startswith("_")
        and not kernel.accepts(f"p:{GROUP}/probing {name}")
    )
    message = kernel.refused({"definition": f"p:a {found}"})
    assert f"function {found} exists but cannot be probed: it is notrace" in message, message
    if blacklist:
        black = next(name for name in sorted(blacklist) if kernel.text_symbols().get(name) == [""])
        message = kernel.refused({"definition": f"p:a {black}"})
        assert "cannot be probed: it is" in message, message


@case
def p4_not_unique(kernel: Kernel) -> None:
    """P4: a name that several functions have."""
    found = next(
        name
        for name, where in sorted(kernel.text_symbols().items())
        if len(where) > 1 and set(where) == {""} and not name.startswith("_")
    )
    message = kernel.refused({"definition": f"p:a {found}"})
    assert f"symbol {found} is not unique" in message, message


@case
def p4_module_not_loaded(kernel: Kernel) -> None:
    """P4 and bad input: a function of a module that is not loaded, also for an event that is to be on."""
    shell("modprobe -r loop")
    message = kernel.refused({"definition": "p:a loop:loop_queue_rq", "enabled": True})
    assert "module loop is not loaded: modprobe loop first" in message, message
    exported = "loop_register_transfer"
    if kernel.host.exporter(exported):
        message = kernel.refused({"definition": f"p:a {exported}"})
        assert "lives in module loop, which is not loaded" in message, message


@case
def p5_held_events_change_and_go(kernel: Kernel) -> None:
    """P5: on in an instance that is not ours, with a trigger, and the target of an eprobe."""
    target = "f:t vfs_read n=$arg3" if "fprobe" in kernel.kinds else "p:t vfs_read n=$arg3"
    events: list[dict[str, Any]] = [{"definition": f"{target}:u64", "triggers": ["stacktrace"], "instances": ["t_one"]}]
    if "fprobe" in kernel.kinds:
        events.append({"definition": f"e:on_it {GROUP}.t n=$n"})
    kernel.apply(*events)
    kernel.tracefs.make_instance("t_theirs")
    kernel.tracefs.set_event_file(f"{GROUP}/t", "enable", "1", "t_theirs")
    events[0]["definition"] = f"{target}:u32"
    kernel.apply(*events)
    assert f"{target}:u32".split()[1:] == kernel.lines("t")[0].split()[1:]
    assert observe(kernel.tracefs)[f"{GROUP}/t"].on == {"", "t_one", "t_theirs"}
    assert kernel.tracefs.triggers(f"{GROUP}/t", "t_one") == ["stacktrace"]
    assert not kernel.apply(*events)["changed"]
    if "fprobe" in kernel.kinds:
        assert kernel.ours() == {"t", "on_it"}
        kernel.apply(events[0])
        kernel.register(f"e:theirs/on_it {GROUP}.t n=$n")
        message = kernel.refused()
        assert "the event probe theirs/on_it, which is not declared here, is attached to it" in message, message
        kernel.register("-:theirs/on_it")
    kernel.apply()
    assert kernel.ours() == set()


@case
def p5_a_trigger_elsewhere_holds(kernel: Kernel) -> None:
    """P5: an event of somebody else switches ours; the error says which."""
    kernel.apply({"definition": "p:a vfs_read"})
    kernel.tracefs.set_event_file("sched/sched_process_exit", "trigger", f"enable_event:{GROUP}:a")
    try:
        message = kernel.refused()
        assert "sched/sched_process_exit" in message, message
    finally:
        kernel.tracefs.set_event_file("sched/sched_process_exit", "trigger", f"!enable_event:{GROUP}:a")


@case
def p6_many_events(kernel: Kernel) -> None:
    """P6: one run for a long list, the second one changes nothing. tests/bench does it with a thousand."""
    names = [name for name in kernel.host.traceable() if kernel.text_symbols().get(name) == [""]]
    black = kernel.host.blacklist()
    chosen = [name for name in names if kernel.host.traceable()[name] == 1 and name not in black]
    events = [
        {"definition": f"p:e{number} {symbol} a=$arg1:x{8 << number % 4}", "enabled": False}
        for number, symbol in enumerate(random.Random(6).sample(chosen, 60))
    ]
    first = kernel.apply(*events)
    assert len(first["created"]) == len(events) == len(kernel.ours())
    assert not kernel.apply(*events)["changed"]


@case
def p7_one_of_many_is_wrong(kernel: Kernel) -> None:
    """P7: nothing of the list, or all but the wrong one; with the kernel's caret line."""
    events: list[dict[str, Any]] = [
        {"definition": f"p:e{number} vfs_read a=$stack{number}", "enabled": number < 5} for number in range(30)
    ]
    kernel.apply({"definition": "p:before vfs_read"}, *events[:3])
    # What only the kernel can know: the register's name.
    wrong = {"definition": "p:e15 vfs_read a=$stack1 b=%nope"}
    listed = events[:15] + [wrong] + events[16:]
    before = kernel.everything()
    message = kernel.refused(*listed)
    assert "event fbtest/e15: the kernel refused the definition: EINVAL" in message, message
    caret = [line for line in message.splitlines() if line.strip() == "^"]
    command = next(line for line in message.splitlines() if "Command: " in line)
    assert caret and caret[0].index("^") == command.index("%nope"), message
    assert "The events are as they were before." in message
    assert kernel.everything() == before
    result = kernel.apply(*listed, skip=True)
    assert [entry["event"] for entry in result["failed_events"]] == [f"{GROUP}/e15"]
    assert kernel.ours() == {f"e{number}" for number in range(30)} - {"e15"}


@case
def p9_misses_are_told(kernel: Kernel) -> None:
    """P9: maxactive is too low while many calls are under way."""
    kernel.apply(
        {"definition": "r1:a do_nanosleep" if "do_nanosleep" in kernel.text_symbols() else "r1:a hrtimer_nanosleep"}
    )
    sleepers = [subprocess.Popen(["sleep", "0.3"]) for _number in range(6)]
    for sleeper in sleepers:
        sleeper.wait()
    event = next(
        event for event in all_events(kernel.tracefs, load_state(kernel.state)) if event["name"] == f"{GROUP}/a"
    )
    assert event["misses"] > 0, event
    assert event["counted"] and event["declared"] and event["probes"][0]["maxactive"] == 1


@case
def p10_a_replaced_binary(kernel: Kernel) -> None:
    """P10: after an upgrade there is one probe, in the new file."""
    program = f"{WORK}/prog"
    shutil.copy("/bin/true", program)
    with open(program, "rb") as handle:
        entry = int.from_bytes(handle.read(32)[24:], "little")
    event = {"definition": f"p:a {program}:0x{Elf(program).file_offset(entry):x}"}

    def hits() -> int:
        before = kernel.trace("", "a")
        subprocess.run([program], check=False)
        return kernel.trace("", "a") - before

    kernel.apply(event)
    assert hits() == 1
    assert not kernel.apply(event)["changed"]
    shutil.copy("/bin/true", f"{program}.new")
    os.replace(f"{program}.new", program)
    assert hits() == 0, "the old probe sees the new file"
    result = kernel.apply(event)
    assert result["changed_events"] == [f"{GROUP}/a"], result
    assert len(kernel.lines("a")) == 1
    assert hits() == 1
    assert not kernel.apply(event)["changed"]
    os.unlink(program)
    assert f"there is no file {program}" in kernel.refused(event)


@case
def bad_input_is_refused(kernel: Kernel) -> None:
    """Bad input that needs a kernel to be told."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"definition": "p:sched/a vfs_read"}, "group sched is a system of the kernel"),
        ({"definition": "t:a sched_swich"}, "has no tracepoint sched_swich; near names: "),
        ({"definition": "e:a sched.sched_swich"}, "there is no event sched.sched_swich; near names: "),
        ({"definition": f"p:a {LIBC}:getppid_t"}, "has no function getppid_t"),
        ({"definition": f"p:a {LIBC}:0x7fffffff"}, "has no code at offset 0x7fffffff"),
        ({"definition": "p:a /etc/hostname:0x10"}, "is no ELF file"),
        ({"definition": "p:a /nowhere:0x10"}, "there is no file /nowhere"),
        ({"definition": "p:a vfs_read x=$arg1:u64", "filter": "nofield == 1"}, "filter 'nofield == 1' was refused"),
        ({"definition": "p:a vfs_read", "triggers": ["notrigger"]}, "trigger 'notrigger' was refused"),
    ]
    depth = limits_of(os.uname().release).nesting + 1
    wrong.append(
        ({"definition": "p:a vfs_read x=" + "+0(" * depth + "%ax" + ")" * depth}, f"nests {depth} dereferences")
    )
    for event, text in wrong:
        kind = {"t": "tprobe", "e": "eprobe"}.get(event["definition"][0], "kprobe")
        if kind in kernel.kinds:
            message = kernel.refused(event, exclusive=False)
            assert text in message, message
    if "tprobe" not in kernel.kinds:
        message = kernel.refused({"definition": "t:a sched_switch"})
        assert "has no tprobe events (it has: " in message, message


@case
def limits_are_those_of_this_kernel(kernel: Kernel) -> None:
    """The limits that go by the version are the kernel's: what is just within them is taken."""
    limits = limits_of(os.uname().release)
    kernel.apply({"definition": "p:a vfs_read x=" + "+0(" * limits.nesting + "%ax" + ")" * limits.nesting})
    too_deep = "+0(" * (limits.nesting + 1) + "%ax" + ")" * (limits.nesting + 1)
    assert not kernel.accepts(f"p:{GROUP}/b vfs_read x={too_deep}")
    text = "%ax:" + "x64"
    longest = "+" + "0" * (limits.expression - len(text) - 4) + "1(%ax):x64"
    longest = (
        longest if len(longest) <= limits.expression else longest.replace("0", "", len(longest) - limits.expression)
    )
    kernel.apply({"definition": f"p:a vfs_read x={longest}"})
    kernel.apply({"definition": "p:a vfs_read " + " ".join(f"a{number}=%ax:u8" for number in range(128))})


@case
def bad_tracefs_is_refused(kernel: Kernel) -> None:
    """Bad input: read-only tracefs, no CAP_SYS_ADMIN, another run."""
    place = f"{WORK}/readonly"
    os.makedirs(place)
    shell(f"mount --bind /sys/kernel/tracing {place} && mount -o remount,bind,ro {place}")
    try:
        message = kernel.refused({"definition": "p:a vfs_read"}, tracefs=place)
        assert f"{place} is mounted read-only" in message, message
    finally:
        shell(f"umount {place}")
    done = subprocess.run(
        ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", sys.executable, __file__, "--one"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
    )
    assert "probe events need CAP_SYS_ADMIN" in done.stdout, done.stdout + done.stderr
    lock = f"{WORK}/lock"
    with open(lock, "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.write("4711")
        handle.flush()
        try:
            with only_one(0.2, lock):
                raise AssertionError("two runs at once")
        except FleetError as exc:
            assert "another run changes the probe events of this host (pid 4711)" in str(exc)


@case
def check_mode_writes_nothing(kernel: Kernel) -> None:
    """A check run says what would be done and does nothing; the run after it does that."""
    kernel.apply({"definition": "p:a vfs_read x=$arg1:x64"}, {"definition": "p:gone vfs_read"})
    wanted: list[dict[str, Any]] = [
        {"definition": "p:a vfs_read x=$arg2:x64", "instances": ["t_new"], "filter": "x > 1"},
        {"definition": "p:b vfs_write", "triggers": ["stacktrace"]},
    ]
    buffers = [{"instance": "t_new", "buffer_size_kb": 128}]
    before, state = kernel.everything(), load_state(kernel.state)
    told = kernel.apply(*wanted, check=True, diff=True, buffers=buffers)
    assert kernel.everything() == before and load_state(kernel.state) == state
    assert "t_new" not in kernel.tracefs.instances()
    done = kernel.apply(*wanted, diff=True, buffers=buffers)
    for key in ("changed", "created", "deleted", "changed_events"):
        assert told[key] == done[key], key
    assert told["diff"]["before"] == done["diff"]["before"]
    # By these keys Ansible would take the task for one that did not run.
    assert not {"skipped", "failed", "unreachable"} & set(done)
    assert f"-:{GROUP}/gone" not in told["diff"]["after"] and "gone" not in told["diff"]["after"]
    again = kernel.apply(*wanted, check=True, buffers=buffers)
    assert not again["changed"], again


@case
def buffers_and_instances_come_and_go(kernel: Kernel) -> None:
    """Buffer settings are kept, and everything is as before when it is removed."""
    size = kernel.tracefs.setting("", "buffer_size_kb")
    buffers: list[dict[str, Any]] = [
        {"instance": "t_one", "buffer_size_kb": 256, "clock": "mono"},
        {"instance": "", "buffer_size_kb": 700},
    ]
    has_option = kernel.tracefs.setting("", "disable_bpf") is not None
    if has_option:
        buffers.append({"instance": "t_one", "disable_bpf": True})
    else:
        message = kernel.refused(buffers=[{"instance": "", "disable_bpf": True}])
        assert "disable_bpf of the top level: kernel" in message and "has no such setting" in message, message
    message = kernel.refused(buffers=[{"instance": "", "clock": "sundial"}])
    assert "the kernel has no clock 'sundial', only local" in message, message
    event = {"definition": "p:a vfs_read", "instances": ["t_one"]}
    assert kernel.apply(event, buffers=buffers)["changed"]
    # The kernel rounds to whole pages of its own.
    assert abs(int(kernel.tracefs.setting("t_one", "buffer_size_kb") or 0) - 256) <= 8
    assert kernel.tracefs.setting("t_one", "trace_clock") == "mono"
    assert not has_option or kernel.tracefs.setting("t_one", "disable_bpf") == "1"
    assert not kernel.apply(event, buffers=buffers)["changed"]
    kernel.apply(remove_all=True)
    assert "t_one" not in kernel.tracefs.instances()
    assert kernel.tracefs.setting("", "buffer_size_kb") == size
    assert not os.path.exists(kernel.state)


@case
def optional_events_wait(kernel: Kernel) -> None:
    """An optional event is left out with its reason, again and again without a change."""
    events = [{"definition": "p:a vfs_read"}, {"definition": "p:b no_such_function_t", "optional": True}]
    result = kernel.apply(*events)
    assert [entry["event"] for entry in result["left_out"]] == [f"{GROUP}/b"]
    assert not kernel.apply(*events)["changed"]
    told = {event["name"]: event for event in all_events(kernel.tracefs, load_state(kernel.state))}
    assert not told[f"{GROUP}/b"]["registered"] and "no_such_function_t" in told[f"{GROUP}/b"]["pending"]


@case
def docs_examples_do_what_they_say(kernel: Kernel) -> None:
    """Every example of docs/probe_events.md, with the lines that it shows."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples.json"), encoding="utf-8") as handle:
        examples = json.load(handle)
    assert len(examples) >= 8
    for example in examples:
        options = example["options"]
        more = {"buffers": options.get("buffers", []), "exclusive": True}
        result = kernel.apply(*options["events"], **more)
        skipped = {entry["event"].partition("/")[2] for entry in result["left_out"]}
        assert all("has no" in entry["reason"] for entry in result["left_out"])
        assert kernel.ours() == {event["name"] for event in options["events"]} - skipped
        shown = [line for lines in result["events"].values() for line in lines["lines"]]
        for line in example["lines"]:
            if line.split()[0].partition("/")[2] not in skipped:
                assert line.replace("fetchbpf/", f"{GROUP}/") in shown, f"{line} is not in {shown}"
        assert not kernel.apply(*options["events"], **more)["changed"], example


@case
def property_any_list_after_any_other(kernel: Kernel) -> None:
    """Random lists: apply, apply again is ok; another list gives exactly that list; others' events stay as they are."""
    seed = int(os.environ.get("PROBE_TEST_SEED", "4"))
    rounds = int(os.environ.get("PROBE_TEST_ROUNDS", "6"))
    chance = random.Random(seed)
    kernel.register("p:kprobes/t_foreign vfs_read n=$arg3:u64")
    kernel.tracefs.make_instance("t_foreign")
    kernel.tracefs.set_event_file("kprobes/t_foreign", "enable", "1", "t_foreign")
    read_something()
    kernel.tracefs.set_event_file("kprobes/t_foreign", "enable", "0", "t_foreign")
    kernel.tracefs.set_event_file("kprobes/t_foreign", "filter", "n > 3", "t_foreign")
    recorded = kernel.tracefs.read("instances", "t_foreign", "trace")
    assert " t_foreign: " in recorded
    for number in range(rounds):
        events = _random_events(chance, kernel)
        kernel.apply(*events)
        label = f"seed {seed}, round {number}: {json.dumps(events)}"
        assert kernel.ours() == {event["name"] for event in events}, label
        now = observe(kernel.tracefs)
        for event in events:
            mine = now[f"{GROUP}/{event['name']}"]
            assert mine.on == ({""} if event["enabled"] else set()) | set(event["instances"]), label
            assert len(mine.lines) == 1 + len(event.get("append", [])), label
            for place in event["instances"]:
                shown = kernel.tracefs.event_file(f"{GROUP}/{event['name']}", "filter", place)
                assert shown == (event["filter"] or "none"), label
        assert not kernel.apply(*events)["changed"], label
        assert kernel.tracefs.read("instances", "t_foreign", "trace") == recorded, label
        assert kernel.tracefs.event_file("kprobes/t_foreign", "filter", "t_foreign") == "n > 3"


def _random_events(chance: random.Random, kernel: Kernel) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    letters = {"p": "kprobe", "r": "kretprobe", "f": "fprobe", "t": "tprobe", "e": "eprobe", "u": "uprobe"}
    tracepoints = ["sched_switch", "sched_wakeup", "sched_process_fork", "sched_process_exec", "sched_process_exit"]
    chance.shuffle(tracepoints)
    for name in chance.sample([f"e{number}" for number in range(20)], chance.randint(0, 6)):
        letter = chance.choice([letter for letter, kind in letters.items() if kind in kernel.kinds])
        symbol = chance.choice(["vfs_read", "vfs_write", "do_sys_openat2", "vfs_fsync"])
        args = chance.choice(
            ["", " x=$stack0:x64", " x=$stack1:x64", " x=$stack0:x32", " $stack2", " x=$stack0 y=%ax:u8"]
        )
        event: dict[str, Any] = {
            "name": name,
            "enabled": chance.random() < 0.6,
            "filter": chance.choice(["", "common_pid > 1", "common_pid != 7"]),
            "instances": chance.choice([[], [], ["t_one"], ["t_one", "t_two"]]),
            "triggers": chance.choice([None, [], ["stacktrace if common_pid == 1"], ["traceon:3 if common_pid == 1"]]),
        }
        if event["triggers"] is None:
            del event["triggers"]
        if letter in "pr":
            maxactive = chance.choice(["", "7", "9"]) if letter == "r" else ""
            event["definition"] = f"{letter}{maxactive} {symbol}{args}"
            if chance.random() < 0.3:
                event["append"] = [{"definition": f"{letter} vfs_fsync_range{args}"}]
        elif letter == "f":
            event["definition"] = f"f {symbol}" + chance.choice(["", " x=$arg1", " x=$arg2", " x=$arg1:u8"])
        elif letter == "t":
            event["definition"] = f"t {tracepoints.pop()}" if tracepoints else f"p {symbol}"
        elif letter == "e":
            event["definition"] = "e sched.sched_switch" + chance.choice(["", " p=$prev_pid", " p=$next_pid"])
            event["definition"] += chance.choice(["", " if prev_pid > 1"]) if "=" in event["definition"] else ""
        else:
            function = chance.choice(["getppid", "getuid"])
            event["definition"] = f"{chance.choice('pr')} {LIBC}:{function}" + chance.choice(["", " x=%ax", " x=%di"])
        events.append(event)
    return events


class TooLong(BaseException):
    """A case hangs. No OSError, as what is tested handles those."""


def _too_long(*_arguments: Any) -> None:
    raise TooLong(f"the case did not end within {LONGEST} s")


def main() -> None:
    """Run all cases, or those whose names are given."""
    kernel = Kernel()
    if sys.argv[1:] == ["--one"]:
        try:
            kernel.apply()
        except FleetError as exc:
            print(exc)
        return
    # What a run that was killed left.
    with kernel.clean():
        pass
    signal.signal(signal.SIGALRM, _too_long)
    for function in CASES:
        if sys.argv[1:] and not any(word in function.__name__ for word in sys.argv[1:]):
            continue
        start, error, reason = time.monotonic(), "", None
        signal.alarm(LONGEST)
        try:
            with kernel.clean():
                reason = function(kernel)
        except BaseException:
            error = traceback.format_exc()
        signal.alarm(0)
        seconds = round(time.monotonic() - start, 1)
        told = {"case": function.__name__, "error": error, "skipped": reason, "seconds": seconds}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
