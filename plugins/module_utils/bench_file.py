# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The local fact file: read whole or not believed, written whole or not at all."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import SCHEMA, validate
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

# What all benchmarks of a fact have in common; a result made under other circumstances is dropped.
_COMMON = ("kernel", "kernel_build", "series_hash", "clock")


def read_fact(path: str) -> tuple[dict[str, Any] | None, str]:
    """Return the fact of a file and ""; or None and, if there is a file, what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as handle:
            fact = json.load(handle)
        validate(fact)
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError, FleetError) as exc:
        return None, f"{path} is not used: {exc}"
    return fact, ""


def write_whole(path: str, text: str) -> None:
    """Write a file beside, then rename it: a reader never sees half of it."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    beside = f"{path}.new"
    with open(beside, "w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    os.chmod(beside, 0o644)
    os.replace(beside, path)


def write_fact(path: str, fact: dict[str, Any]) -> None:
    """Check the fact and write it; FleetError without touching the file if it is not as documented."""
    validate(fact)
    write_whole(path, json.dumps(fact, indent=1) + "\n")


def merged(
    known: dict[str, Any] | None, environment: dict[str, Any], benchmarks: dict[str, Any], time: str
) -> dict[str, Any]:
    """Return the fact with new results put over the known ones, if those belong to the same environment."""
    before = known["benchmarks"] if known and same_environment(known, environment) else {}
    return {"schema": SCHEMA, "time": time, "environment": environment, "benchmarks": {**before, **benchmarks}}


def same_environment(known: dict[str, Any], environment: dict[str, Any]) -> bool:
    """Tell whether a fact was measured on this kernel with this clock."""
    return all(known["environment"].get(key) == environment[key] for key in _COMMON)
