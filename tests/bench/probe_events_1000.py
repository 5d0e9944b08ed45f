#!/usr/bin/env python3
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a long list of probe events costs: the module, a shell loop, and an Ansible loop of one task an event.

All on one host, in one run, one after the other:

    tests/bench/probe_events_1000.py -i INVENTORY HOST [--events 1000]

The host must be reached by Ansible as root. Its probe events of group
``fbbench`` are made and removed; others are left alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GROUP = "fbbench"
# Runs on the host: measures the shell loop and the module's own work, prints JSON.
ON_HOST = Path(__file__).with_name("probe_events_on_host.py")


def ansible(inventory: str, host: str, tasks: list[dict[str, Any]]) -> tuple[float, str]:
    """Run tasks on the host; return the seconds and the output."""
    play = [{"hosts": host, "gather_facts": False, "tasks": tasks}]
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=ROOT) as handle:
        json.dump(play, handle)
        handle.flush()
        environment = dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_CALLBACK_RESULT_FORMAT="json")
        start = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", "-i", inventory, handle.name],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - start
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return seconds, done.stdout


def on_host(inventory: str, host: str, count: int) -> dict[str, Any]:
    """Return what the host measured by itself."""
    mine = ("probe", "process", "tracefs", "errors", "elf")
    parts = [path for path in sorted((ROOT / "plugins/module_utils").glob("*.py")) if path.name.startswith(mine)]
    place = "/root/fbbench/ansible_collections/fetchbpf/fleet/plugins/module_utils/"
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.file": {"path": place, "state": "directory", "recurse": False, "mode": "0755"}},
        {
            "ansible.builtin.copy": {"src": "{{ item }}", "dest": place, "mode": "0644"},
            "loop": [str(path) for path in parts],
        },
        {"ansible.builtin.copy": {"src": str(ON_HOST), "dest": "/root/fbbench/on_host.py", "mode": "0644"}},
        {
            "ansible.builtin.command": {
                "cmd": f"python3 /root/fbbench/on_host.py {count}",
            },
            "register": "told",
        },
        {"ansible.builtin.debug": {"msg": "FOUND {{ told.stdout | b64encode }} END"}},
        {"ansible.builtin.file": {"path": "/root/fbbench", "state": "absent"}},
    ]
    _seconds, output = ansible(inventory, host, tasks)
    found = re.search(r"FOUND (\S+) END", output)
    assert found, output
    import base64

    return json.loads(base64.b64decode(found[1]))


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-i", "--inventory", required=True)
    parser.add_argument("host")
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--loop", type=int, default=20, help="events of the Ansible loop, which is scaled up")
    parser.add_argument("--json", help="also write the result there")
    arguments = parser.parse_args()

    result = on_host(arguments.inventory, arguments.host, arguments.events)
    symbols = result.pop("symbols")[: arguments.loop]
    nothing, _output = ansible(arguments.inventory, arguments.host, [{"ansible.builtin.meta": "noop"}])
    script = (
        "cd /sys/kernel/tracing && echo '{{ item }}' >> dynamic_events && echo 1 > events/"
        + GROUP
        + "/e{{ nr }}/enable"
    )
    looped, _output = ansible(
        arguments.inventory,
        arguments.host,
        [
            {
                "ansible.builtin.shell": script,
                "loop": [f"p:{GROUP}/e{number} {symbol} a=$arg1" for number, symbol in enumerate(symbols)],
                "loop_control": {"index_var": "nr"},
            }
        ],
    )
    events = [{"definition": f"p:e{number} {symbol} a=$arg1"} for number, symbol in enumerate(symbols)]
    options = {"events": [], "group": GROUP, "exclusive": True, "state_file": "/run/fbbench.json"}
    ansible(arguments.inventory, arguments.host, [{"fetchbpf.fleet.probe_events": options}])
    one_task, _output = ansible(
        arguments.inventory, arguments.host, [{"fetchbpf.fleet.probe_events": dict(options, events=events)}]
    )
    ansible(arguments.inventory, arguments.host, [{"fetchbpf.fleet.probe_events": options}])
    result["ansible_loop"] = (looped - nothing) * arguments.events / arguments.loop
    result["ansible_task"] = one_task - nothing
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1), encoding="utf-8")

    rounds = result["rounds"]
    floor, first, second = (median(one[what] for one in rounds) for what in ("shell", "first", "second"))
    to_floor = median(one["first"] / one["shell"] for one in rounds)
    to_first = median(one["second"] / one["first"] for one in rounds)
    print(
        f"{result['count']} kprobes with one arg, registered and enabled; kernel {result['kernel']}; "
        f"medians of {len(rounds)} rounds and of their ratios"
    )
    rows = [
        ("shell loop of echo (the floor)", floor, ""),
        ("module, first run", first, f"{to_floor:.2f} x the floor (goal 1.3)"),
        (
            "module, nothing to change",
            second,
            f"{100 * to_first:.1f} % of the first (goal 10)",
        ),
        (
            f"Ansible loop, {arguments.loop} events scaled",
            result["ansible_loop"],
            f"{result['ansible_loop'] / first:.0f} x the module's run (goal 100)",
        ),
        (
            f"one Ansible task of the module, {arguments.loop} events",
            result["ansible_task"],
            "whole task, with Python's start",
        ),
    ]
    for what, seconds, note in rows:
        print(f"{what:45} {seconds:9.2f} s  {note}")
    print(f"{'memory of the module (ru_maxrss)':45} {result['rss'] / 1024:9.1f} MiB")


if __name__ == "__main__":
    main()
