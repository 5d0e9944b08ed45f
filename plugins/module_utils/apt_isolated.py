# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of any suite of the host's own mirror, without touching the host's apt.

Lists, caches and settings are below one directory; mirror, keyring and proxy
are taken from the host's configuration; apt checks signatures and hashes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .apt_sources import AptSource, carried_options, host_codename, read_sources, sources_for
from .errors import FleetError
from .process import run, start
from .workspace import digest_file, remove, write_whole

HOST = "host"

# Called with bytes done and bytes in all.
Meter = Callable[[int, int], None]


class Candidate(NamedTuple):
    """A package that apt would download: size in bytes, sha256 in hexadecimal."""

    package: str
    version: str
    suite: str
    sha256: str
    size: int


class IsolatedApt:
    """apt for one suite, with all its state in ``root``. ``suite`` ``host`` means the host's own sources."""

    def __init__(self, root: str | os.PathLike[str], suite: str, mirror: str = "") -> None:
        self.suite = suite
        self._root = Path(root)
        sources = None if suite == HOST else [_base_source(suite, mirror)]
        self._write_configuration(sources)

    def _write_configuration(self, sources: list[AptSource] | None) -> None:
        for folder in ("lists/partial", "cache/archives/partial", "parts"):
            (self._root / folder).mkdir(parents=True, exist_ok=True)
        settings = {
            "Dir::State": self._root,
            "Dir::State::lists": self._root / "lists",
            "Dir::State::status": self._root / "status",
            "Dir::Cache": self._root / "cache",
            # The host's hooks (some remove its downloaded packages) are none of ours.
            "Dir::Etc::main": self._root / "main.conf",
            "Dir::Etc::parts": self._root / "parts",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": self._root / "parts",
            "Acquire::Languages": "none",
            # Lists stay compressed and no binary caches are kept: 30 MiB instead of 400.
            "Acquire::GzipIndexes": "true",
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "APT::Get::List-Cleanup": "true",
        }
        if os.geteuid() == 0:
            # The unprivileged download user cannot reach a cache in root's home.
            settings["APT::Sandbox::User"] = "root"
        if sources is not None:
            write_whole(self._root / "fleet.sources", "\n".join(map(_deb822, sources)))
            settings["Dir::Etc::sourcelist"] = self._root / "fleet.sources"
            settings["Dir::Etc::sourceparts"] = self._root / "parts"
        lines = [f'{name} "{value}";' for name, value in settings.items()] + carried_options()
        write_whole(self._root / "apt.conf", "\n".join(lines) + "\n")
        for empty in ("status", "main.conf"):
            write_whole(self._root / empty, "")

    def _environment(self) -> dict[str, str]:
        return dict(os.environ, LC_ALL="C", APT_CONFIG=str(self._root / "apt.conf"))

    def candidate(self, package: str, version: str = "") -> Candidate | None:
        """Read the suite's lists anew and return its package, or None if it has none.

        Raises FleetError when the lists cannot be fetched or are not signed by a known key.
        """
        update = run(["apt-get", "update", "-q"], env=self._environment())
        wanted = f"{package}={version}" if version else package
        show = run(["apt-cache", "show", "--no-all-versions", wanted], env=self._environment())
        fields = dict(line.split(": ", 1) for line in show.stdout.splitlines() if ": " in line[:40])
        if show.returncode or "SHA256" not in fields:
            errors = [line for line in update.stderr.splitlines() if line.startswith(("E:", "W: GPG", "Err"))]
            if update.returncode or errors:
                raise FleetError(
                    f"apt cannot read the suite {self.suite}: {'; '.join(errors) or update.stderr.strip()}"
                )
            return None
        return Candidate(package, fields["Version"], self.suite, fields["SHA256"], int(fields["Size"]))

    def download(self, candidate: Candidate, target: Path, meter: Meter) -> None:
        """Download the package to ``target``; nothing is left there unless its sha256 is right."""
        folder = target.with_name(f".{target.name}.part")
        remove(folder)
        folder.mkdir(parents=True)
        if os.geteuid() == 0:
            folder.chmod(0o755)
        try:
            self._fetch(candidate, folder, meter)
            files = list(folder.glob("*.deb"))
            if len(files) != 1 or digest_file(files[0]) != candidate.sha256:
                raise FleetError(
                    f"the download of {candidate.package}={candidate.version} is damaged (sha256 differs from the "
                    "signed list); it was removed"
                )
            os.replace(files[0], target)
        finally:
            remove(folder)

    def _fetch(self, candidate: Candidate, folder: Path, meter: Meter) -> None:
        command = ["apt-get", "download", "-q", f"{candidate.package}={candidate.version}"]
        with open(folder / "log", "w+", encoding="utf-8") as log:
            process = start(command, cwd=folder, env=self._environment(), stdout=log, stderr=log)
            while process.poll() is None:
                time.sleep(0.2)
                meter(sum(path.stat().st_size for path in folder.rglob("*.deb") if path.exists()), candidate.size)
            if process.returncode:
                log.seek(0)
                errors = [line.strip() for line in log if line.startswith("E:")]
                raise FleetError(
                    f"apt cannot download {candidate.package}={candidate.version} from {self.suite}: "
                    f"{'; '.join(errors) or 'see the network settings'}"
                )


def _base_source(suite: str, mirror: str) -> AptSource:
    """Return the source of ``suite`` on the host's mirror, with the host's keyring."""
    if mirror:
        return AptSource(mirror.rstrip("/"), suite, ("main",), "/usr/share/keyrings/debian-archive-keyring.gpg")
    try:
        return sources_for(suite, host_codename(), read_sources())[0]
    except FleetError as exc:
        raise FleetError(
            f"no Debian mirror in this host's apt configuration to reach the suite {suite} on; "
            "name one with kernel_source_debian_mirror"
        ) from exc


def _deb822(source: AptSource) -> str:
    fields = {
        "Types": "deb",
        "URIs": source.uri,
        "Suites": source.suite,
        "Components": " ".join(source.components),
        # A key inside the host's file goes over several lines.
        "Signed-By": source.signed_by,
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def find_package(
    root: Path, suites: list[str], package: str, version: str = "", mirror: str = ""
) -> tuple[IsolatedApt, Candidate]:
    """Return apt and package of the first suite that has it.

    Raises FleetError that says for each suite why it has not.
    """
    reasons = []
    for suite in suites:
        try:
            apt = IsolatedApt(root / suite, suite, mirror)
            candidate = apt.candidate(package, version)
        except FleetError as exc:
            reasons.append(f"{suite}: {exc}")
            continue
        if candidate:
            return apt, candidate
        reasons.append(f"{suite}: no such package")
    wanted = f"{package}={version}" if version else package
    raise FleetError(f"no suite has the package {wanted} ({'; '.join(reasons)})")
