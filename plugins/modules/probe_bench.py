#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: probe_bench
short_description: Measure what probing costs on a host and keep the result as a local fact
version_added: "0.1.0"
description:
  - Runs the program C(fetchbpf-bench), which comes with the packages of the kernel (C(fetchbpf-tools-RELEASE)) and
    needs nothing but the kernel, and writes medians, 95 % intervals and raw samples to a local fact file, so that they
    are C(ansible_local.fetchbpf) from then on.
  - What this kernel cannot do is a row that says so. A benchmark that fails is an entry with the reason, and a warning.
  - A result for the same kernel, parameters, settings and program is not measured again; the results of other
    benchmarks stay.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  benchmarks:
    description:
      - What to measure.
      - V(fetcharg) is kprobe, fprobe and eprobe events with 0 to 3 fetchargs, by each way to fetch them.
      - V(hook_overhead) is calls per second with each kind of hook and a minimal BPF program.
      - V(latency) is percentiles of a function's run time with each kind of hook on it.
      - V(parallel) is calls per second on 1 to all CPUs.
      - V(hit_count) is whether a kprobe counts every call made on 1 to all CPUs.
    type: list
    elements: str
    choices: [fetcharg, hook_overhead, latency, parallel, hit_count]
    default: [fetcharg]
  loops:
    description: Calls per sample.
    type: int
    default: 100000
  rounds:
    description: Samples of each variant. Ten or more give a 95 % confidence interval worth its name.
    type: int
    default: 10
  slow_calls:
    description: Calls per sample of V(latency) at 100 calls a second.
    type: int
    default: 100
  tool:
    description:
      - The benchmark program. When left out, the one of the running kernel's package, else
        C(/usr/lib/fetchbpf/fetchbpf-bench), else that of another kernel's package.
    type: path
  fact_file:
    description: The local fact file.
    type: path
    default: /etc/ansible/facts.d/fetchbpf.fact
  openmetrics_file:
    description: Also write the result there, as text for the textfile collector of Prometheus' node_exporter.
    type: path
  force:
    description: Measure even if there is a result for the same kernel and parameters.
    type: bool
    default: false
  progress_file:
    description: Where the module says how far it is; set by the action plugin of the same name.
    type: path
author:
  - The fetchbpf.fleet authors (@fetchbpf)
"""

EXAMPLES = r"""
- name: Measure what fetchargs cost
  fetchbpf.fleet.probe_bench:
    loops: 1000000
    rounds: 20

- name: Measure all, and let node_exporter tell it
  fetchbpf.fleet.probe_bench:
    benchmarks: [fetcharg, hook_overhead, latency, parallel, hit_count]
    openmetrics_file: /var/lib/prometheus/node-exporter/fetchbpf.prom
"""

RETURN = r"""
fact:
  description: The content of the fact file, as docs/facts.md describes it.
  returned: success, and not in check mode unless a result is there already
  type: dict
  sample:
    schema: 2
    time: "2026-11-30T18:00:12Z"
    environment: {kernel: 6.12.117-fetchbpf-e71c8b33, clock: time, cpus: 2}
    benchmarks:
      fetcharg:
        status: ok
        reason: ""
        rows:
          - metric: per_call
            labels: {kind: kprobe, mode: bpf, nargs: 1}
            target: fetcharg_bench_target
            unit: ns
            median: 121.5
            low: 120.9
            high: 122.4
            noisy: false
measured:
  description: The benchmarks that were run, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [fetcharg]
failed_benchmarks:
  description: Reason of each benchmark that failed.
  returned: success
  type: dict
  sample: {latency: "fetchbpf-bench latency failed with exit code 1: fetchbpf-bench: out of memory"}
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils import process
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_file import (
    merged,
    read_fact,
    same_environment,
    write_fact,
    write_whole,
)
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_rows import Rows, notes_of
from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_tool import (
    BENCHMARKS,
    NAME,
    BenchTool,
    find_tool,
    series_of,
)
from ansible_collections.fetchbpf.fleet.plugins.module_utils.environment import describe_environment
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.openmetrics import render
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress

MODULE = "fetcharg_bench"


def now() -> str:
    """Return the time as facts have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def options_of(benchmark: str, params: dict[str, Any]) -> dict[str, int]:
    """Return the program's options for a benchmark; they decide what is measured, so they are part of its key."""
    names = ("rounds", "loops", *(("slow_calls",) if benchmark == "latency" else ()))
    return {name: params[name] for name in names}


def key_of(benchmark: str, params: dict[str, Any], environment: dict[str, Any], tool: BenchTool) -> dict[str, Any]:
    """Return what must be equal for a result to be worth as much as a new one."""
    common = ("kernel", "kernel_build", "series_hash", "cpus", "clock", "governor", "smt", "sysctl")
    return {**{name: environment[name] for name in common}, **options_of(benchmark, params), "tool": tool.sha256}


@contextmanager
def kernel_module(benchmark: str) -> Iterator[None]:
    """Have the module that makes the calls of fetcharg loaded meanwhile, if this kernel has it."""
    loaded_here = False
    if benchmark == "fetcharg" and not os.path.exists(f"/sys/module/{MODULE}"):
        # Without it the program makes the calls itself, and says so.
        done = process.run(["modprobe", "-q", MODULE])
        loaded_here = done.returncode == 0
    try:
        yield
    finally:
        if loaded_here:
            process.run(["modprobe", "-r", MODULE])


def measure(tool: BenchTool, benchmark: str, options: dict[str, int], clock: str, progress: Progress) -> dict[str, Any]:
    """Run a benchmark and return its entry of the fact without the key; a failure is an entry too."""
    progress.update(benchmark, detail="starting")
    start = time.monotonic()
    entry: dict[str, Any] = {"status": "ok", "reason": "", "params": dict(options), "notes": [], "rows": []}
    try:
        with kernel_module(benchmark):
            raw = tool.run(benchmark, options, progress)
        entry["rows"] = Rows(raw, clock).make()
        entry["notes"] = notes_of(raw, entry["rows"])
        if not any(row["supported"] for row in entry["rows"]):
            entry["status"] = "unsupported"
            entry["reason"] = "nothing of it is supported on this kernel"
    except FleetError as exc:
        entry["status"] = "failed"
        entry["reason"] = str(exc)
    entry["time"] = now()
    entry["duration_s"] = round(time.monotonic() - start, 1)
    return entry


def write_metrics(path: str | None, fact: dict[str, Any]) -> bool:
    """Write the OpenMetrics file, if one is asked for and it is not so already; return whether it was."""
    if not path:
        return False
    text = render(fact)
    try:
        with open(path, encoding="utf-8") as handle:
            if handle.read() == text:
                return False
    except FileNotFoundError:
        pass
    write_whole(path, text)
    return True


def missing_tool(module: AnsibleModule, release: str) -> dict[str, Any]:
    """Return the result of a host without the program; only in check mode is that no error."""
    if module.check_mode and not module.params["tool"]:
        return {
            "changed": True,
            "measured": module.params["benchmarks"],
            "failed_benchmarks": {},
            "msg": f"there is no {NAME} for kernel {release} yet; it would be measured after the install",
        }
    raise FleetError(
        f"{module.params['tool'] or NAME} is missing on this host: neither a fetchbpf-tools package is installed nor "
        f"was the program brought (probe_bench_tool)"
    )


def run(module: AnsibleModule) -> dict[str, Any]:
    """Do the module's work and return its result."""
    params = module.params
    for name in ("loops", "rounds", "slow_calls"):
        if params[name] < 1:
            raise FleetError(f"{name} is {params[name]}; it must be 1 or more")
    release = os.uname().release
    path = find_tool(params["tool"], release)
    if path is None:
        return missing_tool(module, release)
    tool = BenchTool(path)
    clock, how = tool.clock()
    environment = dict(describe_environment(), series_hash=series_of(release), clock=clock, clock_how=how)
    known, problem = read_fact(params["fact_file"])
    if problem:
        module.warn(problem)
    kept = known["benchmarks"] if known and same_environment(known, environment) else {}
    keys = {name: key_of(name, params, environment, tool) for name in params["benchmarks"]}
    todo = [
        name
        for name, key in keys.items()
        if params["force"] or name not in kept or kept[name]["key"] != key or kept[name]["status"] == "failed"
    ]
    result: dict[str, Any] = {"changed": bool(todo), "measured": todo, "failed_benchmarks": {}}
    if module.check_mode:
        return dict(result, fact=known) if known else result
    progress = Progress(params["progress_file"])
    fact = known
    for name in todo:
        entry = measure(tool, name, options_of(name, params), clock, progress)
        entry["key"] = keys[name]
        # After each one, so that what comes later can fail without taking it along.
        fact = merged(fact, environment, {name: entry}, now())
        write_fact(params["fact_file"], fact)
        if entry["status"] == "failed":
            module.warn(f"benchmark {name}: {entry['reason']}")
            result["failed_benchmarks"][name] = entry["reason"]
    if fact:
        result["fact"] = fact
        result["changed"] = write_metrics(params["openmetrics_file"], fact) or result["changed"]
    return result


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "benchmarks": {"type": "list", "elements": "str", "choices": list(BENCHMARKS), "default": ["fetcharg"]},
            "loops": {"type": "int", "default": 100000},
            "rounds": {"type": "int", "default": 10},
            "slow_calls": {"type": "int", "default": 100},
            "tool": {"type": "path"},
            "fact_file": {"type": "path", "default": "/etc/ansible/facts.d/fetchbpf.fact"},
            "openmetrics_file": {"type": "path"},
            "force": {"type": "bool", "default": False},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**run(module))
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except OSError as exc:
        module.fail_json(msg=f"cannot keep the result: {exc}")


if __name__ == "__main__":
    main()
