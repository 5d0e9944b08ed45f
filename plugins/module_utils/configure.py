# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the .config of a build directory, and with it the key and the release of the artifact."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from .build_host import build_needs, require
from .errors import FleetError
from .kbuild import Kbuild
from .kconfig import (
    Asked,
    Fragment,
    check_localversion,
    config_hash,
    distro_keys,
    key_files,
    merge,
    not_honoured,
    parse_config,
    parse_fragments,
    refuse_bad_pairs,
)
from .kconfig_tree import KconfigTree
from .kernel_sources import kernel_version
from .manifest import artifact_key, local_version, release_name
from .workspace import digest, read_json, write_json, write_whole

# Raised when the same inputs would give another configuration.
_SCHEMA = 1
_BASE_TARGET = re.compile(r"[a-z0-9][a-z0-9_.-]*config")


@dataclasses.dataclass
class Configuration:
    """A checked configuration: ``before`` and ``after`` are texts of .config, ``notes`` tell what nobody asked for."""

    changed: bool
    config_hash: str
    key: str
    release: str
    requested: dict[str, str]
    notes: list[str]
    before: str = ""
    after: str = ""


@dataclasses.dataclass
class Wanted:
    """What to configure. ``base_text`` is a whole configuration; without it ``base`` is a make target."""

    base: str
    base_text: str
    fragments: list[Fragment]
    localversion: str
    source_id: str
    series_hash: str
    compiler: str
    cross_compile: str = ""
    tools_hash: str = ""

    def check(self) -> dict[str, Asked]:
        """Return what is asked for; raise FleetError for input that is wrong by itself."""
        check_localversion(self.localversion)
        if not self.base_text and not _BASE_TARGET.fullmatch(self.base):
            raise FleetError(f"base configuration {self.base!r}: neither a file nor a make target such as tinyconfig")
        if self.base_text and not parse_config(self.base_text):
            raise FleetError(f"base configuration {self.base}: there is no CONFIG_ line in it")
        return parse_fragments(self.fragments)

    def identity(self, arch: str) -> str:
        """Return a hash over all that the configuration follows from."""
        return digest(json.dumps([_SCHEMA, arch, dataclasses.asdict(self)], sort_keys=True))


def configure(kbuild: Kbuild, wanted: Wanted, dry_run: bool = False) -> Configuration:
    """Make .config from base and fragments, if it is not there yet.

    Raises FleetError, before .config is touched, if a requested symbol does
    not get its value: the message lists what was asked, got, and why.
    """
    asked = wanted.check()
    require(
        build_needs(wanted.cross_compile, ccache=False, values={name: value.value for name, value in asked.items()})
    )
    identity = wanted.identity(kbuild.arch.arch)
    config = kbuild.build_dir / ".config"
    memory = kbuild.build_dir / ".fetchbpf" / "config.json"
    before = config.read_text(encoding="utf-8") if config.is_file() else ""
    known = read_json(memory) or {}
    if before and known.get("identity") == identity and known.get("sha256") == digest(before):
        return Configuration(changed=False, **known["result"])
    if dry_run:
        with tempfile.TemporaryDirectory() as scratch:
            elsewhere = Kbuild(kbuild.tree, scratch, kbuild.arch, wanted.cross_compile)
            text, notes = _generate(elsewhere, wanted, asked)
    else:
        text, notes = _generate(kbuild, wanted, asked)
    result = _result(kbuild.tree, wanted, asked, text, notes)
    result.before = before
    result.after = re.sub(
        r"^CONFIG_LOCALVERSION=.*$",
        f'CONFIG_LOCALVERSION="{local_version(wanted.localversion, result.key)}"',
        text,
        flags=re.MULTILINE,
    )
    result.changed = before != result.after
    if not dry_run:
        if result.changed:
            write_whole(config, result.after)
        memory.parent.mkdir(exist_ok=True)
        kept: dict[str, Any] = {
            name: getattr(result, name) for name in ("config_hash", "key", "release", "requested", "notes")
        }
        write_json(memory, {"identity": identity, "sha256": digest(result.after), "result": kept})
    return result


def _generate(kbuild: Kbuild, wanted: Wanted, asked: dict[str, Asked]) -> tuple[str, list[str]]:
    """Return the text of the configuration and notes; raise FleetError if it is not what was asked."""
    kbuild.build_dir.mkdir(parents=True, exist_ok=True)
    new = kbuild.build_dir / ".config.fetchbpf"
    in_place = f"KCONFIG_CONFIG={new}"
    if not wanted.base_text:
        kbuild.query(in_place, wanted.base)
    base = wanted.base_text or new.read_text(encoding="utf-8")
    values = parse_config(base)
    named = key_files(values)
    freed = distro_keys(values, asked, {path for path in named if (kbuild.tree / path).is_file()})
    notes = [f"{symbol} cleared: its file {values[symbol]} is not in this source tree" for symbol in freed]
    changes = {name: request.value for name, request in asked.items()}
    own = {"CONFIG_LOCALVERSION": '""', "CONFIG_LOCALVERSION_AUTO": "n"}
    write_whole(new, merge(base, {**freed, **changes, **own}))
    kbuild.query(in_place, "olddefconfig")
    text = new.read_text(encoding="utf-8")
    for leftover in (new, new.with_name(f"{new.name}.old")):
        if leftover.exists():
            os.unlink(leftover)
    values = parse_config(text)
    _refuse_dropped(kbuild, asked, values)
    refuse_bad_pairs(values)
    require(build_needs(wanted.cross_compile, ccache=False, values=values))
    if values.get("CONFIG_MODULE_SIG") == "y" and values.get("CONFIG_MODULE_SIG_KEY") == '"certs/signing_key.pem"':
        notes.append("CONFIG_MODULE_SIG makes a key at build time: the build cannot be repeated to the same bytes")
    return text, notes


def _refuse_dropped(kbuild: Kbuild, asked: dict[str, Asked], values: dict[str, str]) -> None:
    wrong = not_honoured(asked, values)
    if not wrong:
        return
    kconfig = KconfigTree(kbuild.tree, kbuild.arch.srcarch)
    lines, rows = [], []
    for symbol, got in wrong.items():
        reason = kconfig.why(symbol, asked[symbol].value, values)
        rows.append(
            {"symbol": symbol, "asked": asked[symbol].value, "got": got, "reason": reason, "place": asked[symbol].place}
        )
        lines.append(f"{symbol}: asked {asked[symbol].value} ({asked[symbol].place}), got {got}; {reason}")
    raise FleetError("the kernel configuration drops what was asked: " + "\n".join(lines), dropped=rows)


def _result(tree: Path, wanted: Wanted, asked: dict[str, Asked], text: str, notes: list[str]) -> Configuration:
    hashed = config_hash(text)
    key = artifact_key(wanted.source_id, wanted.series_hash, hashed, wanted.compiler, wanted.tools_hash)
    # A tree may add to its release by files of its own (linux-next, rt).
    extra = "".join(path.read_text(encoding="utf-8").strip() for path in sorted(tree.glob("localversion*")))
    release = release_name(kernel_version(tree) + extra, wanted.localversion, key)
    requested = {name: request.value for name, request in sorted(asked.items())}
    return Configuration(True, hashed, key, release, requested, notes)
