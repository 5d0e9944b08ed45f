# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts have after the role ran and they were rebooted, read in their own tracefs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from plays import Play
from testinfra.host import Host

TRACING = "/sys/kernel/tracing"
STATE = "/var/lib/fetchbpf/probe_events.json"
UNIT = "fetchbpf-probe-events.service"
EVERYWHERE = {"open", "open_ret", "fork", "libc_getppid", "libc_getppid_ret", "both"}
WITH_FPROBES = {"read", "read_ret", "new_task"}
KERNELS = {
    "fetchbpf-stock": r"6\.\d+\.\d+-\d+-.*amd64",
    "fetchbpf-v612": r"6\.12\..*-fetchbpf-",
    "fetchbpf-v73": r"7\.3\..*-fetchbpf-",
}


def registered(host: Host) -> dict[str, list[str]]:
    """Return the registered lines of our group by the event's name."""
    found: dict[str, list[str]] = {}
    for line in host.file(f"{TRACING}/dynamic_events").content_string.splitlines():
        group, _slash, name = line.split()[0].partition(":")[2].partition("/")
        if group == "fetchbpf":
            found.setdefault(name, []).append(line)
    return found


def has_fprobes(host: Host) -> bool:
    return "f[:[<group>/][<event>]]" in host.file(f"{TRACING}/README").content_string


def files_of_ours(host: Host) -> str:
    """Return the files that the role leaves on a host, "" if there are none."""
    return host.check_output("find /etc /usr /var /run -name '*probe[_-]events*' ! -name '*.lock'")


def test_the_kernel_is_the_one_to_test(host: Host, guest: str) -> None:
    release = host.check_output("uname -r")
    assert re.match(KERNELS[guest], release), release


def test_every_declared_event_is_there_after_the_reboot(host: Host) -> None:
    lines = registered(host)
    wanted = EVERYWHERE | (WITH_FPROBES if has_fprobes(host) else set())
    assert set(lines) - {"loop_rq"} == wanted, lines
    assert lines["both"] == [
        "p:fetchbpf/both vfs_fsync x=$arg1:x64",
        "p:fetchbpf/both vfs_fsync_range x=$arg2:x64",
    ]
    for name in wanted:
        # What follows the first character, a *, says that a trigger could switch it.
        enabled = host.file(f"{TRACING}/events/fetchbpf/{name}/enable").content_string
        assert enabled.startswith("0" if name == "open_ret" else "1"), name
    assert host.file(f"{TRACING}/instances/returns/events/fetchbpf/open_ret/enable").content_string.strip() == "1"
    assert host.file(f"{TRACING}/events/fetchbpf/open/filter").content_string.strip() == "dfd < 0"
    assert "stacktrace:unlimited if child == 1" in host.file(f"{TRACING}/events/fetchbpf/fork/trigger").content_string
    assert "[mono]" in host.file(f"{TRACING}/instances/returns/trace_clock").content_string
    for place, size in (("/instances/returns", 256), ("", 512)):
        # The kernel rounds to whole pages of its own.
        assert abs(int(host.file(f"{TRACING}{place}/buffer_size_kb").content_string) - size) <= 8


def test_the_events_record(host: Host) -> None:
    # Reads are traced too: a trace that is read while it records would never end.
    trace = host.check_output(
        f"cd {TRACING} && echo > trace && cat /etc/hostname > /dev/null && echo 0 > tracing_on;"
        "grep -m 1 'open: .*hostname' trace; echo 1 > tracing_on"
    )
    assert trace.endswith('file="/etc/hostname"'), trace


def test_they_were_there_before_anybody_could_log_in(host: Host) -> None:
    def when(unit: str, what: str) -> int:
        return int(host.check_output(f"systemctl show -p {what} --value {unit}"))

    done = when(UNIT, "ExecMainExitTimestampMonotonic")
    assert done > 0
    for unit in ("systemd-user-sessions.service", "ssh.service"):
        assert done < when(unit, "InactiveExitTimestampMonotonic"), unit
    loaded = when("systemd-modules-load.service", "ActiveEnterTimestampMonotonic")
    assert loaded < when(UNIT, "ExecMainStartTimestampMonotonic")


def test_nothing_failed(host: Host) -> None:
    assert host.check_output("systemctl --failed --no-legend --plain") == ""


def test_a_module_that_is_loaded_later_gets_its_event(host: Host) -> None:
    assert (
        "module loop is not loaded"
        in json.loads(host.file(STATE).content_string)["events"]["fetchbpf/loop_rq"]["pending"]
    )
    host.check_output("modprobe -i loop")
    # Only a host that never does it takes so long.
    deadline = time.monotonic() + 120
    while "loop_rq" not in registered(host):
        assert time.monotonic() < deadline, host.check_output("journalctl -b -u 'fetchbpf-probe-events*' --no-pager")
        time.sleep(0.5)
    assert host.file(f"{TRACING}/events/fetchbpf/loop_rq/enable").content_string.strip() == "1"


def test_the_patched_kernels_run_them_compiled(host: Host, guest: str) -> None:
    if guest == "fetchbpf-stock":
        assert not host.file(f"{TRACING}/fetcharg_bpf").exists
        return
    lines = host.file(f"{TRACING}/fetcharg_bpf").content_string.splitlines()
    jited = {line.split()[0] for line in lines if " jited=1 " in line}
    assert {"fetchbpf/open", "fetchbpf/read"} <= jited, lines
    assert host.file(f"{TRACING}/instances/returns/options/disable_bpf").content_string.strip() == "1"


def test_case(guest: str, case: str, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[guest].get(case)
    assert outcome, f"{case} did not run: {list(outcomes[guest])}"
    if outcome["skipped"]:
        pytest.skip(outcome["skipped"])
    assert not outcome["error"], outcome["error"]


def test_the_info_module_tells_all(guest: str, told: dict[str, Play]) -> None:
    assert not told[guest].failed, told[guest].output


def test_nothing_is_left_when_it_is_removed(host: Host, guest: str, removals: list[dict[str, Play]]) -> None:
    first, again = (removal[guest] for removal in removals)
    assert not first.failed and first.recap["changed"] == 1, first.output
    assert registered(host) == {}
    assert not host.file(f"{TRACING}/instances/returns").exists
    assert files_of_ours(host) == ""
    assert host.run(f"systemctl is-enabled {UNIT}").rc != 0
    assert again.recap["changed"] == 0, again.output


def test_a_kernel_that_is_locked_down_is_refused(host: Host, playbook: Callable[..., Play]) -> None:
    lockdown = "/sys/kernel/security/lockdown"
    if not host.file(lockdown).exists:
        pytest.skip("this kernel has no lockdown")
    # Until the next boot; nothing comes after it.
    host.check_output(f"echo confidentiality > {lockdown}")
    play = playbook("playbooks/probe_events.yml")
    assert play.failed and "the kernel is locked down ([confidentiality])" in play.flat, play.output
    assert play.recap["changed"] == 0 and files_of_ours(host) == ""
