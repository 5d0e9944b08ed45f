# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of what is written, and taking it back; what the kernel makes of it is tested in VMs."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import Plan, Probe, Registered
from ansible_collections.fetchbpf.fleet.plugins.modules import probe_events


class Kernel:
    """Keeps events as the kernel does: an enabled event cannot be deleted, a symbol ``nope`` is refused."""

    def __init__(self, **events: Registered) -> None:
        self.events = {f"g/{name}": event for name, event in events.items()}
        self.log: list[str] = []

    def command(self, name: str, line: str) -> None:
        self.log.append(line)
        if line.startswith("-:"):
            if self.events[name].enabled:
                raise FleetError(f"{name}: EBUSY")
            del self.events[name]
        elif "nope" in line:
            raise FleetError(f"{name}: ENOENT")
        else:
            self.events[name] = Registered((line,), False, "none")

    def set_event_file(self, name: str, file: str, text: str) -> None:
        self.log.append(f"{name} {file}={text}")
        event = self.events[name]
        if file == "enable":
            self.events[name] = Registered(event.lines, text == "1", event.filter)
        else:
            self.events[name] = Registered(event.lines, event.enabled, "none" if text == "0" else text)


def probe(name: str, symbol: str, enabled: bool = True, filter: str = "") -> Probe:
    return Probe(f"g/{name}", "kprobe", f"p:g/{name} {symbol}", enabled, filter)


def shown(name: str, symbol: str, enabled: bool = True, filter: str = "none") -> Registered:
    return Registered((f"p:g/{name} {symbol}",), enabled, filter)


def test_a_changed_event_is_switched_off_before_it_is_deleted() -> None:
    kernel = Kernel(a=shown("a", "old"))
    probe_events.apply_plan(
        kernel, Plan(delete=["g/a"], create=[probe("a", "new", filter="x > 1")]), dict(kernel.events)
    )
    assert kernel.log == ["g/a enable=0", "-:g/a", "p:g/a new", "g/a filter=x > 1", "g/a enable=1"]
    assert kernel.events == {"g/a": Registered(("p:g/a new",), True, "x > 1")}


def test_a_refused_event_leaves_everything_as_it_was() -> None:
    before = {
        "a": shown("a", "old", filter="x > 1"),
        "b": shown("b", "old", enabled=False),
        "c": shown("c", "old"),
    }
    kernel = Kernel(**before)
    plan = Plan(
        delete=["g/a", "g/b"],
        create=[probe("a", "new"), probe("b", "new"), probe("d", "nope")],
    )
    with pytest.raises(FleetError, match="g/d: ENOENT\nThe events are as they were before"):
        probe_events.apply_plan(kernel, plan, dict(kernel.events))
    assert kernel.events == {f"g/{name}": event for name, event in before.items()}


def test_a_late_failure_takes_back_filters_and_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(a=shown("a", "f", filter="x > 1"), b=shown("b", "f"), c=shown("c", "f"))
    before = dict(kernel.events)
    accept = kernel.set_event_file

    def refuse_c(name: str, file: str, text: str) -> None:
        if name == "g/c" and text == "0":
            raise FleetError("g/c: enable '0' was refused")
        accept(name, file, text)

    monkeypatch.setattr(kernel, "set_event_file", refuse_c)
    plan = Plan(
        refilter=[probe("a", "f", filter="x > 2")],
        switch=[probe("b", "f", enabled=False), probe("c", "f", enabled=False)],
    )
    with pytest.raises(FleetError, match="as they were before"):
        probe_events.apply_plan(kernel, plan, before)
    assert kernel.events == before


def test_a_damaged_state_file_counts_as_nothing_remembered(tmp_path: Path) -> None:
    path = tmp_path / "lib" / "state.json"
    assert probe_events.load_state(str(path)) == {}
    entry = {"g/a": {"definition": "p:g/a f", "lines": ["p:g/a f"], "filter": "", "filter_shown": "none"}}
    probe_events.save_state(str(path), entry)
    assert probe_events.load_state(str(path)) == entry
    path.write_text("{")
    assert probe_events.load_state(str(path)) == {}
