# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runs of the past: one dated folder each, found by name, kept by number."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.bench_fact import validate
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.report_model import HostResult

SCHEMA = 1
REPORT = "report.json"
LATEST = "latest"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(?:-\d+)?")


class History:
    """The folder that holds the runs."""

    def __init__(self, path: str) -> None:
        self.path = path

    def names(self) -> list[str]:
        """Return the names of the runs, the oldest first; other things in the folder are not ours."""
        try:
            entries = os.listdir(self.path)
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise FleetError(f"{self.path}: {exc.strerror}") from exc
        runs = [name for name in entries if _NAME.fullmatch(name) and os.path.isfile(self.file(name))]
        return sorted(runs, key=_age)

    def file(self, name: str, file: str = REPORT) -> str:
        """Return the path of a run's file."""
        return os.path.join(self.path, name, file)

    def resolve(self, name: str) -> str:
        """Return the path of the report.json that ``name`` means: a run's name, V(latest), or a path."""
        if name == LATEST:
            names = self.names()
            if not names:
                raise FleetError(f"{self.path} holds no run yet, so there is no {LATEST}")
            return self.file(names[-1])
        if _NAME.fullmatch(name):
            if name not in self.names():
                raise FleetError(f"{self.path} holds no run {name}; it holds {', '.join(self.names()) or 'none'}")
            return self.file(name)
        path = os.path.expanduser(name)
        path = os.path.join(path, REPORT) if os.path.isdir(path) else path
        if not os.path.isfile(path):
            raise FleetError(f"{name} is neither a run of {self.path} nor a report.json")
        return path

    def load(self, name: str) -> dict[str, Any]:
        """Return the report.json that ``name`` means."""
        return read_report(self.resolve(name))

    def write(self, name: str, files: Mapping[str, str]) -> str:
        """Write a run's files, all or none, and return its folder; ``latest`` points to it afterwards."""
        target = os.path.join(self.path, name)
        try:
            os.makedirs(self.path, exist_ok=True)
            beside = tempfile.mkdtemp(prefix=".new-", dir=self.path)
            try:
                for file, text in files.items():
                    with open(os.path.join(beside, file), "w", encoding="utf-8", newline="") as handle:
                        handle.write(text)
                os.chmod(beside, 0o755)
                os.rename(beside, target)
            except BaseException:
                shutil.rmtree(beside, ignore_errors=True)
                raise
            self._point(name)
        except OSError as exc:
            raise FleetError(f"{exc.filename or target}: {exc.strerror}") from exc
        return target

    def _point(self, name: str) -> None:
        beside = os.path.join(self.path, f".{LATEST}-{os.getpid()}")
        os.symlink(name, beside)
        os.replace(beside, os.path.join(self.path, LATEST))

    def free_name(self, time: str) -> str:
        """Return the name of a run that was made at ``time`` (ISO 8601, UTC)."""
        name, number = time.replace(":", "-"), 1
        taken = name
        while os.path.lexists(os.path.join(self.path, taken)):
            number += 1
            taken = f"{name}-{number}"
        return taken

    def surplus(self, keep: int, needed: Iterable[str] = ()) -> list[str]:
        """Return the runs that are older than the newest ``keep`` and not ``needed``."""
        names = self.names()
        return [name for name in names[: max(len(names) - keep, 0)] if name not in set(needed)]

    def remove(self, name: str) -> None:
        """Remove a run."""
        try:
            shutil.rmtree(os.path.join(self.path, name))
        except OSError as exc:
            raise FleetError(f"{exc.filename}: {exc.strerror}") from exc


def _age(name: str) -> tuple[str, int]:
    """Return a key that puts the second run of one second after the first."""
    time, _dash, number = name.partition("Z")
    return time, int(number[1:] or 1)


def read_report(path: str) -> dict[str, Any]:
    """Return a report.json, or raise FleetError that names the file and the problem."""
    try:
        with open(path, encoding="utf-8") as handle:
            report = json.load(handle)
    except OSError as exc:
        raise FleetError(f"{path}: {exc.strerror}") from exc
    except ValueError as exc:
        raise FleetError(f"{path}: not JSON: {exc}") from exc
    if not isinstance(report, dict) or report.get("schema") != SCHEMA or not isinstance(report.get("hosts"), list):
        raise FleetError(f"{path}: not a report of schema {SCHEMA}")
    return report


def hosts_of(report: Mapping[str, Any], path: str) -> list[HostResult]:
    """Return the hosts of a report; a report edited by hand is not believed unseen."""
    hosts = []
    for entry in report["hosts"]:
        try:
            host = HostResult(entry["name"], entry["state"], entry["reason"], entry["fact"])
        except (KeyError, TypeError) as exc:
            raise FleetError(f"{path}: a host without name, state, reason or fact") from exc
        if host.fact is not None:
            try:
                validate(host.fact)
            except FleetError as exc:
                raise FleetError(f"{path}: host {host.name}: {exc}") from exc
        hosts.append(host)
    return hosts


def host_entry(host: HostResult) -> dict[str, Any]:
    """Return a host as report.json has it."""
    return asdict(host)
