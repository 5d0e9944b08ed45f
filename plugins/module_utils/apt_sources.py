# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Debian mirror this host uses, and how to reach another suite on it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import FleetError
from .process import run

ARCHIVE_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Suites that name the host's release without its codename.
_ALIASES = ("stable", "oldstable", "oldoldstable", "testing", "unstable")
# Settings of the host's apt that decide whether a mirror can be reached or is believed.
_CARRIED_OPTIONS = re.compile(
    r"^Acquire::(https?|Retries|Check-Valid-Until|Check-Date|ForceIPv[46])(::|\s)", re.IGNORECASE
)


class AptSource(NamedTuple):
    """One `deb` source: URI without a final slash, suite, components, Signed-By ("" if none)."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""

    def line(self, keyring: str = "") -> str:
        """Return the one-line form, with ``keyring`` as its Signed-By if given."""
        options = f"[signed-by={keyring}] " if keyring else ""
        return f"deb {options}{self.uri} {self.suite} {' '.join(self.components)}"


def read_sources(apt_dir: str = "/etc/apt") -> list[AptSource]:
    """Return all enabled binary sources of an apt configuration directory, in apt's order."""
    base = Path(apt_dir)
    parts = sorted((base / "sources.list.d").glob("*"))
    sources: list[AptSource] = []
    for path in [base / "sources.list", *parts]:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        sources.extend(_one_line(text) if path.suffix == ".list" else _deb822(text))
    return sources


def _one_line(text: str) -> Iterator[AptSource]:
    for raw in text.splitlines():
        match = re.match(r"^\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)((?:\s+[^#\s]+)*)", raw)
        if not match:
            continue
        options = dict(item.split("=", 1) for item in shlex.split(match[1] or "") if "=" in item)
        yield AptSource(match[2].rstrip("/"), match[3], tuple(match[4].split()), options.get("signed-by", ""))


def _deb822(text: str) -> Iterator[AptSource]:
    without_comments = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for paragraph in re.split(r"\n[ \t]*\n", without_comments):
        # A line that starts with a blank goes on with the field above it.
        fields = {
            match[1].lower(): match[2].strip()
            for match in re.finditer(r"^([\w-]+):((?:.*)(?:\n[ \t]+.*)*)", paragraph, re.MULTILINE)
        }
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                components = tuple(fields.get("components", "").split())
                yield AptSource(uri.rstrip("/"), suite, components, fields.get("signed-by", ""))


def sources_for(suite: str, codename: str, sources: list[AptSource], mirror: str = "") -> list[AptSource]:
    """Return the Debian sources of ``suite`` on the mirrors that ``sources`` use for ``codename``.

    ``codename`` is the host's Debian release. Updates and security suites are taken
    when the host has them. ``mirror`` replaces the search by one URI.
    Raises FleetError when the host has no Debian mirror to go by.
    """
    if mirror:
        return [AptSource(mirror.rstrip("/"), suite, ("main",))]
    # A source that names Debian's keyring is surer than one that names none.
    mine = sorted(filter(_is_debian, sources), key=lambda source: not source.signed_by) if codename else []
    base = next((source for source in mine if source.suite == codename), None)
    base = base or next((source for source in mine if source.suite in _ALIASES), None)
    if base is None:
        raise FleetError(
            f"no Debian mirror for {codename or 'this distribution'} in the apt configuration of this host; "
            "name one with lab_mirror"
        )
    found = [base._replace(suite=suite, components=("main",))]
    for source in mine:
        same_release = source.suite.startswith((f"{base.suite}-", f"{base.suite}/"))
        wanted = re.sub(r"^.*/updates$", "-security", source.suite[len(base.suite) :]) if same_release else ""
        other = source._replace(suite=f"{suite}{wanted.replace('/', '-')}", components=("main",))
        if wanted in ("-updates", "-security") and other not in found:
            found.append(other)
    return found


def _is_debian(source: AptSource) -> bool:
    """Tell whether the source is signed by Debian's own keys, as far as the configuration says."""
    known_key = not source.signed_by or "debian-archive" in source.signed_by
    return known_key and "main" in source.components and source.uri.startswith(("http", "file", "copy", "ftp"))


def carried_options(dump: str | None = None) -> list[str]:
    """Return the host's apt settings for proxies, retries and dates, as lines of an apt.conf.

    ``dump`` is the output of ``apt-config dump``; without it the command is run.
    """
    if dump is None:
        told = run(["apt-config", "dump"])
        if told.returncode:
            raise FleetError(f"cannot read this host's apt configuration: {told.stderr.strip()}")
        dump = told.stdout
    lines = [line for line in dump.splitlines() if _CARRIED_OPTIONS.match(line)]
    return [line for line in lines if not line.endswith('"";')]


def host_codename(os_release: str = "/etc/os-release") -> str:
    """Return the codename of this host's Debian release, or nothing if it is no Debian."""
    if not os.path.exists(os_release):
        return ""
    fields = dict(re.findall(r"^(\w+)=[\"']?([^\"'\n]*)", Path(os_release).read_text(encoding="utf-8"), re.MULTILINE))
    return fields.get("VERSION_CODENAME", "") if fields.get("ID") == "debian" else ""
