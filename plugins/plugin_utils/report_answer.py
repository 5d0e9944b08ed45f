# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few sentences at the top of the report: what the numbers below say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import KINDS
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_compare import Change
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import Group, HostResult, scale_for
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_statistics import ALPHA, adjust, mann_whitney
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_tables import exact_rounds

# Neither is a way to probe.
_NO_HOOK = ("base", "harness")


@dataclass(frozen=True)
class Card:
    """One finding: a large ``value``, what it is, and the sentence that keeps it honest; ``mark`` is good or bad."""

    title: str
    value: str
    text: str
    mark: str = ""


def cards(group: Group) -> list[Card]:
    """Return the findings of a group of hosts, those it has numbers for."""
    found = [_saving(group, kind) for kind in KINDS]
    found += [] if any(found) else [_no_saving(group)]
    return [card for card in [*found, _cheapest_hook(group), _hits(group)] if card]


def overall(hosts: Sequence[HostResult], regressed: Sequence[Change] | None) -> list[Card]:
    """Return what is true of the run as a whole; ``regressed`` is None without a baseline."""
    without = [host for host in hosts if not host.fact]
    failed = [
        f"{host.name} {name}"
        for host in hosts
        for name, state in host.benchmarks.items()
        if state["status"] == "failed"
    ]
    parts = [f"{host.name}: {host.state}" for host in without] + [f"{name} failed" for name in failed]
    noise = [f"{host.name} is noisy" for host in hosts if host.noisy]
    card = Card(
        "Hosts measured",
        f"{len(hosts) - len(without)} of {len(hosts)}",
        "; ".join(parts + noise) or "every benchmark of every host ran",
        "bad" if parts else "good",
    )
    if regressed is None:
        return [card]
    names = "; ".join(change.name for change in regressed[:3]) + (" …" if len(regressed) > 3 else "")
    gate = Card(
        "Worse than the baseline", f"{len(regressed)} cells", names or "no regression", "bad" if regressed else "good"
    )
    return [card, gate]


def _saving(group: Group, kind: str) -> Card | None:
    """Return what the compiled program saves, at the largest number of fetchargs that a host has both ways."""
    for nargs in (3, 2, 1):
        pairs = []
        for host in group.hosts:
            legacy = host.row("fetcharg", "overhead", kind=kind, mode="legacy", nargs=nargs)
            bpf = host.row("fetcharg", "overhead", kind=kind, mode="bpf", nargs=nargs)
            if legacy and bpf:
                pairs.append((legacy, bpf))
        if pairs:
            break
    else:
        return None
    clear = [pair for pair in pairs if mann_whitney(pair[0]["samples"], pair[1]["samples"]).p < ALPHA]
    scale = scale_for([row for pair in pairs for row in pair])
    before, after = (median(pair[side]["median"] for pair in pairs) for side in (0, 1))
    article = "an" if kind == "eprobe" else "a"
    args = f"{nargs} fetcharg{'s' if nargs > 1 else ''}"
    text = f"{args} add {scale.write(after)} instead of {scale.write(before)} {scale.unit} to {article} {kind}"
    text += f" (median of {len(pairs)} hosts)" if len(pairs) > 1 else ""
    if len(clear) < len(pairs):
        text += f"; within the noise on {len(pairs) - len(clear)} of {len(pairs)}"
    title = f"BPF fetchargs on {kind}s"
    if before <= 0 or not clear:
        return Card(title, "no clear difference", text)
    saved = 100 * (before - after) / before
    return Card(title, f"{abs(saved):.0f} % {'less' if saved > 0 else 'more'}", text, "good" if saved > 0 else "bad")


def _no_saving(group: Group) -> Card | None:
    """Return why nothing is said of compiled fetchargs, if they were tried."""
    tried = [row for host in group.hosts for row in host.rows("fetcharg", "per_call", mode="bpf")]
    reasons = dict.fromkeys(row["reason"] for row in tried if not row["supported"])
    return Card("BPF fetchargs", "not supported", "; ".join(reasons)) if reasons else None


def _rates(host: HostResult) -> dict[str, dict[str, Any]]:
    """Return the host's single-threaded rates by hook, all with the same counter."""
    rows = [row for row in host.rows("hook_overhead", "rate", threads=1) if row["supported"]]
    counters = [row["labels"]["counter"] for row in rows]
    return {
        row["labels"]["hook"]: row for row in rows if row["labels"]["counter"] == min(counters, key=str, default="")
    }


def _cheapest_hook(group: Group) -> Card | None:
    """Return which hook slows the bare call least, by the median over the hosts of its share of the bare rate."""
    shares: dict[str, list[float]] = {}
    rates = [rows for rows in map(_rates, group.hosts) if "base" in rows]
    for rows in rates:
        for hook, row in rows.items():
            if hook not in _NO_HOOK and rows["base"]["median"] > 0:
                shares.setdefault(hook, []).append(row["median"] / rows["base"]["median"])
    if len(shares) < 2:
        return None
    ranked = sorted(shares, key=lambda hook: -median(shares[hook]))
    first, last = ranked[0], ranked[-1]
    clear = _told_apart(rates, first)
    ties = [hook for hook in ranked[1:] if hook not in clear]
    text = f"{first} keeps {100 * median(shares[first]):.0f} % of the bare call's rate"
    text += f", and cannot be told from {', '.join(ties)}" if ties else ""
    text += f". The dearest, {last}, keeps {100 * median(shares[last]):.0f} %" if last not in ties else ""
    return Card(
        "Cheapest hook", first if not ties else f"{first} or {ties[0]}" if len(ties) == 1 else "too close", text
    )


def _told_apart(rates: Iterable[dict[str, dict[str, Any]]], one: str) -> set[str]:
    """Return the hooks that some host tells from ``one``, the p-values adjusted for the number of hooks."""
    found = set()
    for rows in rates:
        others = [hook for hook in rows if hook != one and hook not in _NO_HOOK]
        if one in rows:
            tests = [mann_whitney(rows[one]["samples"], rows[hook]["samples"]).p for hook in others]
            found |= {hook for hook, p in zip(others, adjust(tests)) if p < ALPHA}
    return found


def _hits(group: Group) -> Card | None:
    exact = total = 0
    for host in group.hosts:
        labels = {tuple(row["labels"].items()) for row in host.rows("hit_count", "hits")}
        for own in map(dict, labels):
            counts = {metric: host.rows("hit_count", metric, **own) for metric in ("calls", "hits", "misses")}
            rounds = exact_rounds(counts)
            exact, total = exact + (rounds or (0, 0))[0], total + (rounds or (0, 0))[1]
    if not total:
        return None
    value = "exact" if exact == total else f"{total - exact} rounds differ"
    text = f"hits and misses add up to the calls made in {exact} of {total} rounds"
    return Card("Hit counts", value, text, "good" if exact == total else "bad")
