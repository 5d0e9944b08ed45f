# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What A and B of a comparison may be called, and the hosts that are meant."""

from __future__ import annotations

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_history import History, hosts_of
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import HostResult

THIS = "this"
KERNEL = "kernel:"


def hosts_of_side(side: str, history: History, here: list[HostResult]) -> list[HostResult]:
    """Return the hosts that ``side`` means.

    ``this`` is the run being made, ``RUN`` another (a name, ``latest`` or a
    path), each optionally with ``@HOST``; ``kernel:RELEASE`` is each host's newest
    result on that kernel, of this run or of an older one.
    """
    if side.startswith(KERNEL):
        return _newest_on(side.removeprefix(KERNEL), history, here)
    run, _at, name = side.partition("@")
    hosts = here if run == THIS else hosts_of(history.load(run), history.resolve(run))
    if not name:
        return hosts
    chosen = [host for host in hosts if host.name == name]
    if not chosen:
        raise FleetError(f"{side}: run {run} has no host {name}; it has {', '.join(host.name for host in hosts)}")
    return chosen


def _newest_on(release: str, history: History, here: list[HostResult]) -> list[HostResult]:
    found: dict[str, HostResult] = {}
    seen: set[str] = set()
    runs = (hosts_of(history.load(name), history.resolve(name)) for name in reversed(history.names()))
    for hosts in (here, *runs):
        for host in hosts:
            if host.fact:
                kernel = host.fact["environment"]["kernel"]
                seen.add(kernel)
                if kernel == release:
                    found.setdefault(host.name, host)
    if not found:
        known = ", ".join(sorted(seen)) or "none"
        raise FleetError(f"{KERNEL}{release}: no run has results of that kernel; known kernels: {known}")
    return list(found.values())
