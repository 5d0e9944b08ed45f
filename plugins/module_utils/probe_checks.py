# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be known to be wrong about an event by looking at the host, before anything is written."""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
from collections import Counter
from collections.abc import Iterable

from .elf import Elf
from .errors import FleetError
from .probe_plan import Registered
from .probes import USER_KINDS, Event, Probe, needs_btf, with_targets
from .tracefs import Tracefs

_CAP_SYS_ADMIN = 21
_TEXT = "tTwW"


def check_process(status: str = "/proc/self/status") -> None:
    """Refuse to go on without the rights that tracefs asks for."""
    with open(status, encoding="utf-8") as handle:
        found = re.search(r"^CapEff:\s*([0-9a-f]+)", handle.read(), re.MULTILINE)
    if os.geteuid() != 0:
        raise FleetError("probe events need root; use become")
    if found and not int(found[1], 16) >> _CAP_SYS_ADMIN & 1:
        raise FleetError("probe events need CAP_SYS_ADMIN, which this root has not (a container without privileges?)")


def check_tracefs(
    root: str, mounts: str = "/proc/self/mounts", lockdown: str = "/sys/kernel/security/lockdown"
) -> None:
    """Refuse a tracefs that cannot be written."""
    try:
        with open(lockdown, encoding="utf-8") as handle:
            if "[confidentiality]" in handle.read():
                raise FleetError("the kernel is locked down ([confidentiality]), which forbids tracefs and probes")
    except OSError:
        pass
    with open(mounts, encoding="utf-8") as handle:
        for line in handle:
            fields = line.split()
            if len(fields) > 3 and fields[1] == root and fields[2] == "tracefs" and "ro" in fields[3].split(","):
                raise FleetError(f"{root} is mounted read-only: mount -o remount,rw {root}")
    if not os.path.exists(os.path.join(root, "dynamic_events")):
        raise FleetError(
            f"{root} has no dynamic_events: the kernel lacks CONFIG_DYNAMIC_EVENTS, or this is not tracefs"
        )


class Host:
    """The kernel's symbols and the host's files. Each list is read when it is first needed, and once."""

    def __init__(self, tracefs: Tracefs, kinds: set[str], root: str = "/") -> None:
        self.tracefs = tracefs
        self.kinds = kinds
        self.root = root
        self.release = os.uname().release
        self._traceable: list[str] | None = None
        self._traceable_counts: dict[str, int] = {}
        self._symbols: dict[str, list[str]] | None = None
        self._blacklist: set[str] | None = None
        self._elves: dict[str, Elf] = {}

    def _read(self, *parts: str) -> str:
        try:
            with open(os.path.join(self.root, *parts), encoding="utf-8", errors="replace") as handle:
                return handle.read()
        except OSError:
            return ""

    # Lists

    def traceable(self) -> dict[str, int]:
        """Return how many functions of each name ftrace can hook; empty when the kernel does not tell."""
        if self._traceable is None:
            try:
                text = self.tracefs.read("available_filter_functions")
            except OSError:
                text = ""
            self._traceable = text.split()
            self._traceable_counts = Counter(self._traceable)
        return self._traceable_counts

    def symbols(self) -> dict[str, list[str]]:
        """Return the modules ("" is the kernel) that have a text symbol, by its name; also ``__tracepoint_X``."""
        if self._symbols is None:
            self._symbols = {}
            for line in self._read("proc/kallsyms").splitlines():
                fields = line.split()
                if len(fields) > 2 and (fields[1] in _TEXT or fields[2].startswith("__tracepoint_")):
                    self._symbols.setdefault(fields[2], []).append(fields[3][1:-1] if len(fields) > 3 else "")
        return self._symbols

    def blacklist(self) -> set[str]:
        """Return the functions that no kprobe may sit in."""
        if self._blacklist is None:
            text = self._read("sys/kernel/debug/kprobes/blacklist")
            self._blacklist = {line.split()[-1] for line in text.splitlines() if line.split()}
        return self._blacklist

    def module_is_loaded(self, module: str) -> bool:
        """Return whether a module is in the kernel."""
        return any(line.startswith(f"{module} ") for line in self._read("proc/modules").splitlines())

    def module_file(self, module: str) -> str:
        """Return the file of a module below /lib/modules/RELEASE, "" if there is none."""
        wanted = module.replace("-", "_")
        for line in self._read("lib/modules", self.release, "modules.dep").splitlines():
            path = line.partition(":")[0]
            if os.path.basename(path).partition(".")[0].replace("-", "_") == wanted:
                return path
        return ""

    def exporter(self, symbol: str) -> str:
        """Return the module that is not loaded and exports a symbol, "" if there is none."""
        found = re.search(
            rf"^alias symbol:{re.escape(symbol)} (\S+)",
            self._read("lib/modules", self.release, "modules.symbols"),
            re.MULTILINE,
        )
        return found[1] if found and not self.module_is_loaded(found[1]) else ""

    def elf(self, path: str) -> Elf:
        """Return the ELF file at ``path``."""
        if path not in self._elves:
            self._elves[path] = Elf(path)
        return self._elves[path]

    # Checks

    def resolve(self, event: Event) -> Event:
        """Return the event with its uprobes' symbols as offsets and their files pinned."""
        if event.kind not in USER_KINDS:
            return event
        targets, pins = [], []
        for probe in event.probes:
            path, _colon, place = probe.target.rpartition(":")
            place, paren, reference = place.partition("(")
            try:
                if not os.path.isfile(path):
                    raise FleetError(f"{path} is no file" if os.path.exists(path) else f"there is no file {path}")
                symbol, _plus, more = place.partition("+")
                if symbol[0].isdigit():
                    status = os.stat(path)
                    offset, pin = int(symbol, 0), (status.st_dev, status.st_ino)
                else:
                    elf = self.elf(path)
                    offset, pin = elf.offset_of(symbol), elf.pin
                offset += int(more, 0) if more else 0
            except ValueError:
                raise FleetError(f"event {event.name}: {place!r} is neither an offset nor a symbol") from None
            except FleetError as exc:
                raise FleetError(f"event {event.name}: {exc}") from exc
            targets.append(f"{path}:0x{offset:x}{paren}{reference}")
            pins.append(pin)
        return with_targets(event, targets, pins)

    def check_kind(self, event: Event) -> None:
        """Refuse a kind of probe that the kernel has not."""
        if event.kind not in self.kinds:
            raise FleetError(
                f"event {event.name}: kernel {self.release} has no {event.kind} events "
                f"(it has: {', '.join(sorted(self.kinds))})"
            )

    def check(self, event: Event, registered: dict[str, Registered], declared: dict[str, Event]) -> None:
        """Refuse an event that this kernel cannot have as it is."""
        label = f"event {event.name}"
        for probe in event.probes:
            btf = needs_btf(probe)
            if btf and not os.path.exists(os.path.join(self.root, "sys/kernel/btf/vmlinux")):
                raise FleetError(f"{label}: arg {btf!r} needs BTF, which kernel {self.release} has not")
            if probe.kind in ("kprobe", "kretprobe"):
                self._check_kprobe(probe, label)
            elif probe.kind in ("fprobe", "fexit"):
                self._check_fprobe(probe, label)
            elif probe.kind == "tprobe":
                self._check_tracepoint(probe, label)
            elif probe.kind == "eprobe":
                self._check_attached(probe, label, registered, declared)
            else:
                self._check_code(probe, label)

    def _check_kprobe(self, probe: Probe, label: str) -> None:
        place, _plus, _offset = probe.target.partition("+")
        if place[0].isdigit():
            return
        module, colon, symbol = place.rpartition(":")
        if colon and not self.module_is_loaded(module):
            file = self.module_file(module)
            if file:
                raise FleetError(f"{label}: module {module} is not loaded: modprobe {module} first")
            raise FleetError(f"{label}: kernel {self.release} has no module {module}, neither loaded nor as a file")
        traceable = self.traceable()
        # The common case needs the shorter list only.
        if not colon and traceable.get(symbol) == 1 and symbol not in self.blacklist():
            return
        found = [name for name in self.symbols().get(symbol, []) if not colon or name == module]
        if not found:
            self._no_symbol(symbol, module, label)
        if len(found) > 1:
            raise FleetError(
                f"{label}: symbol {symbol} is not unique, {len(found)} functions have this name; "
                "name one of them by MODULE:SYMBOL or by another symbol and an offset"
            )
        if symbol in self.blacklist():
            raise FleetError(f"{label}: function {symbol} cannot be probed: it is in the kernel's kprobe blacklist")
        if traceable and symbol not in traceable and symbol.partition(".")[0] not in traceable:
            raise FleetError(
                f"{label}: function {symbol} exists but cannot be probed: it is notrace "
                "(not in available_filter_functions)"
            )

    def _no_symbol(self, symbol: str, module: str, label: str) -> None:
        exporter = "" if module else self.exporter(symbol)
        if exporter:
            raise FleetError(
                f"{label}: symbol {symbol} lives in module {exporter}, which is not loaded: modprobe {exporter} first"
            )
        names = [name for name, where in self.symbols().items() if not module or module in where]
        where = f"module {module}" if module else f"kernel {self.release}"
        raise FleetError(f"{label}: {where} has no function {symbol}{near(symbol, names)}")

    def _check_fprobe(self, probe: Probe, label: str) -> None:
        traceable, symbol = self.traceable(), probe.target
        if not traceable:
            return
        if any(mark in symbol for mark in "*?["):
            if not any(fnmatch.fnmatchcase(name, symbol) for name in traceable):
                raise FleetError(f"{label}: no function that can be traced matches {symbol}")
            return
        if symbol not in traceable:
            if symbol in self.symbols():
                raise FleetError(
                    f"{label}: function {symbol} exists but cannot be probed: it is notrace "
                    "(not in available_filter_functions)"
                )
            self._no_symbol(symbol, "", label)
        if traceable[symbol] > 1:
            raise FleetError(
                f"{label}: symbol {symbol} is not unique: an fprobe would sit in all {traceable[symbol]} functions"
            )

    def _check_tracepoint(self, probe: Probe, label: str) -> None:
        if self._has_event_named(probe.target) or f"__tracepoint_{probe.target}" in self.symbols():
            return
        prefix = "__tracepoint_"
        names = [name[len(prefix) :] for name in self.symbols() if name.startswith(prefix)]
        names += [name for _group, name in self.tracefs.event_names()]
        raise FleetError(f"{label}: kernel {self.release} has no tracepoint {probe.target}{near(probe.target, names)}")

    def _has_event_named(self, name: str) -> bool:
        return any(event == name for _group, event in self.tracefs.event_names())

    def _check_attached(
        self, probe: Probe, label: str, registered: dict[str, Registered], declared: dict[str, Event]
    ) -> None:
        name = probe.target.replace(".", "/", 1)
        other = declared.get(name)
        line = registered[name].lines[0] if name in registered else ""
        kind = other.kind if other else {"p": "kprobe", "r": "kretprobe", "e": "eprobe"}.get(line[:1], "")
        if kind in ("kprobe", "kretprobe", "eprobe", *USER_KINDS):
            raise FleetError(f"{label}: the kernel attaches no event probe to another {kind} ({name})")
        if other or os.path.isdir(self.tracefs.path("events", *name.split("/"))):
            return
        names = [f"{group}.{event}" for group, event in self.tracefs.event_names()]
        raise FleetError(f"{label}: there is no event {probe.target}{near(probe.target, names)}")

    def _check_code(self, probe: Probe, label: str) -> None:
        path, _colon, place = probe.target.rpartition(":")
        offset = int(place.partition("(")[0], 0)
        try:
            if not self.elf(path).has_code_at(offset):
                raise FleetError(f"{path} has no code at offset 0x{offset:x}")
        except FleetError as exc:
            raise FleetError(f"{label}: {exc}") from exc

    def check_group(self, group: str, registered: dict[str, Registered], label: str) -> None:
        """Refuse a group that is the kernel's own: one with events that are not dynamic."""
        root = self.tracefs.path("events", group)
        try:
            entries = os.listdir(root)
        except OSError:
            return
        for entry in entries:
            if f"{group}/{entry}" not in registered and os.path.isdir(os.path.join(root, entry)):
                raise FleetError(f"{label}: group {group} is a system of the kernel (it has {group}/{entry})")


def near(name: str, names: Iterable[str]) -> str:
    """Return a hint with the names that are like a wrong one, "" if there are none."""
    # Only names of about its length are compared: a kernel has a hundred thousand.
    close = [other for other in set(names) if abs(len(other) - len(name)) <= 3 and other[:1] == name[:1]]
    found = difflib.get_close_matches(name, sorted(close), 3, 0.75)
    return f"; near names: {', '.join(found)}" if found else ""
