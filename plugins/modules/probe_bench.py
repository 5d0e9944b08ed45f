#!/usr/bin/python
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: probe_bench
short_description: Measure what fetchargs cost on a host and keep the result as a local fact
version_added: "0.1.0"
description:
  - Loads the micro-benchmark that was built with the running kernel (package C(fetchbpf-tools-RELEASE)), times a
    function and a trace event with kprobe, fprobe and eprobe events of 0 to 3 fetchargs, and writes the result to a
    local fact file, so that it is C(ansible_local.fetchbpf) from then on.
  - Where the kernel has the trace option C(disable_bpf), every row is measured with the fetchargs' BPF program (mode
    C(bpf)) and with the interpreter of fetch instructions (mode C(legacy)).
  - A result for the same kernel, the same parameters and the same tool is not measured again.
attributes:
  check_mode:
    support: full
    description: Can run in check_mode and return changed status prediction without modifying target.
  diff_mode:
    support: none
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
options:
  loops:
    description: Calls per round and variant.
    type: int
    default: 100000
  rounds:
    description: Rounds; each round runs every variant once. Ten or more give a 95 % confidence interval worth its name.
    type: int
    default: 10
  series_hash:
    description: Hash of the patch series of the running kernel, kept with the result.
    type: str
    default: ''
  tool:
    description: The benchmark script; C(/usr/lib/fetchbpf/RELEASE/bench_fetcharg.sh) when left out.
    type: path
  fact_file:
    description: The local fact file.
    type: path
    default: /etc/ansible/facts.d/fetchbpf.fact
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
"""

RETURN = r"""
fact:
  description:
    - The content of the fact file. Times are C(unit) per call, each with the median over the rounds and its 95 %
      confidence interval. C(overhead) is over the same event without fetchargs, round by round.
  returned: success, and not in check mode unless a result is there already
  type: dict
  sample:
    schema: 1
    unit: ns
    fetcharg:
      loops: 100000
      rounds: 10
      rows:
        - kind: kprobe
          mode: bpf
          nargs: 1
          supported: true
          per_call: {median: 121.5, low: 120.9, high: 122.4}
          overhead: {median: 7.1, low: 6.8, high: 7.5}
"""

import hashlib
import json
import os
import re
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fetchbpf.fleet.plugins.module_utils.environment import describe_environment
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.process import run_watched
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress
from ansible_collections.fetchbpf.fleet.plugins.module_utils.statistics import median_interval
from ansible_collections.fetchbpf.fleet.plugins.module_utils.tracefs import find_tracefs

SCHEMA = 1
# A confidence interval wider than this share of the median makes a row noisy.
NOISY_SHARE = 0.10
_ROUND = re.compile(r"round (\d+)/(\d+)")


def interval(samples: list[float]) -> dict[str, float]:
    """Return median and 95 % confidence interval of ``samples``, in their unit."""
    middle, low, high = median_interval(samples)
    return {"median": round(middle, 3), "low": round(low, 3), "high": round(high, 3)}


def summarise(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each variant of the tool's JSON, the raw samples kept.

    ``per_call`` and ``overhead`` are in nanoseconds a call; ``overhead`` pairs
    the rounds of a variant with those of the same kind without fetchargs, so
    that slow drift of the host cancels out.
    """
    loops = raw["loops"]
    bare = {(row["kind"], row["mode"]): row["ns"] for row in raw["results"] if row["nargs"] == 0 and row["supported"]}
    rows = []
    for row in raw["results"]:
        entry = {key: row[key] for key in ("kind", "mode", "nargs", "args", "supported", "reason")}
        if row["supported"]:
            per_call = [total / loops for total in row["ns"]]
            entry["per_call"] = interval(per_call)
            entry["samples"] = row["ns"]
            entry["noisy"] = (
                entry["per_call"]["high"] - entry["per_call"]["low"] > NOISY_SHARE * entry["per_call"]["median"]
            )
            zeros = bare.get((row["kind"], row["mode"]))
            if row["nargs"] > 0 and zeros:
                entry["overhead"] = interval([(mine - zero) / loops for mine, zero in zip(row["ns"], zeros)])
        rows.append(entry)
    return rows


def read_fact(path: str) -> dict[str, Any] | None:
    """Return the fact file's content, or None if there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as handle:
            fact = json.load(handle)
    except (OSError, ValueError):
        return None
    return fact if isinstance(fact, dict) and fact.get("schema") == SCHEMA else None


def write_fact(path: str, fact: dict[str, Any]) -> None:
    """Write the fact file whole or not at all; a reader never sees half of it."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as handle:
        json.dump(fact, handle, indent=1)
    os.replace(path + ".new", path)


def available_modes(tracefs: str) -> list[str]:
    """Return the ways to fetch arguments that this kernel can be asked to compare."""
    if os.path.exists(os.path.join(tracefs, "options", "disable_bpf")):
        return ["bpf", "legacy"]
    return ["default"]


def run_tool(tool: str, loops: int, rounds: int, modes: list[str], progress: Progress) -> dict[str, Any]:
    """Run the benchmark script and return its JSON; FleetError carries what it said."""

    def on_message(line: str) -> None:
        match = _ROUND.search(line)
        if match:
            progress.update("measure", done=int(match[1]), total=int(match[2]), unit="rounds")

    command = ["/bin/sh", tool, "--loops", str(loops), "--rounds", str(rounds)]
    command += ["--modes", ",".join(modes), "--json", "-"]
    done = run_watched(command, on_message)
    if done.returncode != 0:
        last = " / ".join(done.stderr.strip().splitlines()[-5:])
        raise FleetError(f"{tool} failed with exit code {done.returncode}: {last}")
    try:
        return json.loads(done.stdout)
    except ValueError as exc:
        raise FleetError(f"{tool} printed no JSON ({exc}): {done.stdout[:200]!r}") from exc


def run(module: AnsibleModule) -> dict[str, Any]:
    """Do the module's work and return its result."""
    params = module.params
    release = os.uname().release
    for name in ("loops", "rounds"):
        if params[name] < 1:
            raise FleetError(f"{name} is {params[name]}; it must be 1 or more")
    tool = params["tool"] or f"/usr/lib/fetchbpf/{release}/bench_fetcharg.sh"
    if not os.path.exists(tool):
        if module.check_mode:
            return {
                "changed": True,
                "msg": f"kernel {release} has no benchmark yet; it would be measured after the install",
            }
        raise FleetError(f"{tool} is missing: kernel {release} was not installed with its fetchbpf-tools package")
    modes = available_modes(find_tracefs() or "/sys/kernel/tracing")
    with open(tool, "rb") as handle:
        key = {
            "kernel": release,
            "kernel_build": os.uname().version,
            "series_hash": params["series_hash"],
            "loops": params["loops"],
            "rounds": params["rounds"],
            "modes": modes,
            "tool": hashlib.sha256(handle.read()).hexdigest(),
        }
    known = read_fact(params["fact_file"])
    if known and known.get("key") == key and not params["force"]:
        return {"changed": False, "fact": known}
    if module.check_mode:
        return {"changed": True}
    progress = Progress(params["progress_file"])
    progress.update("load", detail="fetcharg_bench")
    loaded = subprocess.run(["modprobe", "fetcharg_bench"], capture_output=True, text=True, check=False)
    if loaded.returncode != 0:
        raise FleetError(f"modprobe fetcharg_bench failed: {loaded.stderr.strip()}")
    try:
        raw = run_tool(tool, params["loops"], params["rounds"], modes, progress)
    finally:
        subprocess.run(["modprobe", "-r", "fetcharg_bench"], capture_output=True, check=False)
    fact = {
        "schema": SCHEMA,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "key": key,
        "environment": dict(describe_environment(), series_hash=params["series_hash"]),
        "unit": raw["clock"],
        "fetcharg": {"loops": raw["loops"], "rounds": raw["rounds"], "rows": summarise(raw)},
    }
    write_fact(params["fact_file"], fact)
    return {"changed": True, "fact": fact}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "loops": {"type": "int", "default": 100000},
            "rounds": {"type": "int", "default": 10},
            "series_hash": {"type": "str", "default": ""},
            "tool": {"type": "path"},
            "fact_file": {"type": "path", "default": "/etc/ansible/facts.d/fetchbpf.fact"},
            "force": {"type": "bool", "default": False},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**run(module))
    except FleetError as exc:
        module.fail_json(msg=str(exc), **exc.details)


if __name__ == "__main__":
    main()
