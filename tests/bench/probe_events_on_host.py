# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of probe_events_1000.py that runs on the host: python3 probe_events_on_host.py COUNT."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

TRACING = "/sys/kernel/tracing"
GROUP = "fbbench"
STATE = "/run/fbbench-host.json"
HERE = os.path.dirname(os.path.abspath(__file__))
# Each is measured that often, in turn: a machine that does other things too disturbs one round, not all.
ROUNDS = 3
# What the module does with the events on standard input, and nothing else that takes time.
RUN = f"""
import json, resource, sys
sys.path.insert(0, {HERE!r})
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_run import Request, run
run(Request(events=json.load(sys.stdin), group={GROUP!r}, exclusive=True, state_file={STATE!r}))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def pick(count: int) -> list[str]:
    """Return functions that are quiet, can be probed and whose names are unique."""
    sys.path.insert(0, HERE)
    from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_checks import Host
    from ansible_collections.fetchbpf.fleet.plugins.module_utils.tracefs import Tracefs

    host = Host(Tracefs(TRACING), set())
    names = [
        name
        for name, times in host.traceable().items()
        if times == 1 and name.startswith("ext4_") and "." not in name and host.symbols().get(name) == [""]
    ]
    names += [
        name
        for name, times in host.traceable().items()
        if times == 1
        and name.startswith(("acpi_", "pci_", "tcp_", "inet", "ip6_", "blk_", "drm_", "efi", "cgroup_", "xfrm", "tty_"))
        and "." not in name
        and host.symbols().get(name) == [""]
    ]
    names = [name for name in names if name not in host.blacklist()]
    random.Random(1000).shuffle(names)
    # Fewer functions than events: the rest sit on them a second time.
    return [names[number % len(names)] for number in range(count)]


def shell_loop(lines: list[str]) -> float:
    """Return the seconds of the loop that everybody writes."""
    script = (
        f'cd {TRACING}\nwhile read -r name line; do echo "$line" >> dynamic_events; echo 1 > events/$name/enable; done'
    )
    text = "".join(f"{line.split()[0][2:]} {line}\n" for line in lines)
    start = time.monotonic()
    subprocess.run(["sh", "-c", script], input=text, text=True, check=True)
    return time.monotonic() - start


def clear() -> None:
    """Remove the benchmark's events."""
    script = f"cd {TRACING}; [ ! -d events/{GROUP} ] || echo 0 > events/{GROUP}/enable;"
    script += (
        f"grep -o ':{GROUP}/[^ ]*' dynamic_events | while read -r name; do echo \"-$name\" >> dynamic_events; done"
    )
    subprocess.run(["sh", "-c", script], check=True)


def module(lines: list[str]) -> tuple[float, int]:
    """Return seconds and memory (KiB) of one run of the module's work in a process of its own."""
    start = time.monotonic()
    text = json.dumps([{"definition": line} for line in lines])
    done = subprocess.run([sys.executable, "-c", RUN], input=text, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode:
        raise SystemExit(done.stderr)
    return seconds, int(done.stdout)


def main() -> None:
    """Entry point."""
    symbols = pick(int(sys.argv[1]))
    lines = [f"p:{GROUP}/e{number} {symbol} a=$arg1" for number, symbol in enumerate(symbols)]
    rounds: list[dict[str, float]] = []
    rss = 0
    clear()
    for _number in range(ROUNDS):
        shell = shell_loop(lines)
        clear()
        first, rss = module(lines)
        second, _rss = module(lines)
        with open(f"{TRACING}/dynamic_events", encoding="utf-8") as handle:
            there = sum(f":{GROUP}/" in line for line in handle)
        clear()
        os.unlink(STATE)
        if there != len(lines):
            raise SystemExit(f"{there} of {len(lines)} events were registered")
        rounds.append({"shell": shell, "first": first, "second": second})
    found = {"count": len(lines), "kernel": os.uname().release, "rounds": rounds, "rss": rss, "symbols": symbols}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
