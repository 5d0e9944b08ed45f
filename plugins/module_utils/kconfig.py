# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel configurations: reading, merging fragments, checking that what was asked is what came out."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .errors import FleetError
from .workspace import digest

NOT_SET = "n"
_SET = re.compile(r"^(CONFIG_\w+)=(.*)$")
_UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")
_LOCALVERSION = "CONFIG_LOCALVERSION"
# What a Debian package name and a kernel release both take.
_LOCALVERSION_OK = re.compile(r"[-+.~a-z0-9]*")
# Options that a distribution sets to files of its own source package: value a build can do without.
_DISTRO_KEYS = {
    "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
    "CONFIG_SYSTEM_REVOCATION_KEYS": '""',
    "CONFIG_MODULE_SIG_KEY": '"certs/signing_key.pem"',
}
# The option of the modules that take fragments.
FRAGMENTS: dict[str, Any] = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {"name": {"type": "str", "required": True}, "text": {"type": "str", "required": True}},
}


class Fragment(NamedTuple):
    """A named piece of configuration text."""

    name: str
    text: str


class Asked(NamedTuple):
    """A value that a fragment asks for, and where."""

    value: str
    place: str


def parse_config(text: str) -> dict[str, str]:
    """Return the symbols of a .config; ``is not set`` is ``n``."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = _SET.match(line)
        if match:
            values[match[1]] = match[2]
            continue
        match = _UNSET.match(line)
        if match:
            values[match[1]] = NOT_SET
    return values


def parse_fragments(fragments: list[Fragment]) -> dict[str, Asked]:
    """Return what the fragments ask for; a later fragment overrides an earlier one.

    Raises FleetError for a line that is neither setting nor comment, for a
    symbol set twice with different values in one fragment, and for
    CONFIG_LOCALVERSION, which names the artifact.
    """
    asked: dict[str, Asked] = {}
    for fragment in fragments:
        own: dict[str, Asked] = {}
        for number, raw in enumerate(fragment.text.splitlines(), 1):
            line, place = raw.strip(), f"{fragment.name}:{number}"
            match = _SET.match(line) or _UNSET.match(line)
            if not match:
                if line and not line.startswith("#"):
                    raise FleetError(f"{place}: neither CONFIG_X=value nor a comment: {line}")
                continue
            symbol, value = match[1], match[2].strip() if match.re is _SET else NOT_SET
            if symbol in ("CONFIG_LOCALVERSION", "CONFIG_LOCALVERSION_AUTO"):
                raise FleetError(f"{place}: {symbol} names the artifact and is set by kernel_build_localversion")
            if symbol in own and own[symbol].value != value:
                raise FleetError(f"{place}: {symbol}={value} contradicts {own[symbol].place} ({own[symbol].value})")
            own[symbol] = Asked(value, place)
        asked.update(own)
    return asked


def check_localversion(value: str) -> None:
    """Raise FleetError for a local version that would not make an installable Debian package."""
    if not _LOCALVERSION_OK.fullmatch(value) or not value.startswith("-"):
        raise FleetError(
            f"local version {value!r}: a Debian package name takes lower-case letters, digits and + . - only, "
            "and it must start with '-' (no capitals, no underscore)"
        )


def merge(base: str, changes: dict[str, str]) -> str:
    """Return the configuration text ``base`` with ``changes`` in place of its own values."""
    lines = []
    for line in base.splitlines():
        match = _SET.match(line) or _UNSET.match(line)
        if not match or match[1] not in changes:
            lines.append(line)
    lines.extend(setting(symbol, value) for symbol, value in changes.items())
    return "\n".join(lines) + "\n"


def setting(symbol: str, value: str) -> str:
    """Return the line of a .config for a value."""
    return f"# {symbol} is not set" if value == NOT_SET else f"{symbol}={value}"


def distro_keys(values: dict[str, str], asked: dict[str, Asked], in_tree: set[str]) -> dict[str, str]:
    """Return the changes that free a distribution's config of key files its source package had.

    ``in_tree`` holds those of the files named that the source tree has. A path
    that a fragment asks for is left alone.
    """
    changes = {}
    for symbol, neutral in _DISTRO_KEYS.items():
        path = values.get(symbol, "").strip('"')
        if path and values[symbol] != neutral and symbol not in asked and path not in in_tree:
            changes[symbol] = neutral
    return changes


def key_files(values: dict[str, str]) -> set[str]:
    """Return the key files that a configuration names."""
    return {values[symbol].strip('"') for symbol in _DISTRO_KEYS if values.get(symbol, '""') != '""'}


def not_honoured(asked: dict[str, Asked], values: dict[str, str]) -> dict[str, str]:
    """Return the symbols that did not get what was asked, with what they got."""
    wrong = {}
    for symbol, request in asked.items():
        got = values.get(symbol, NOT_SET)
        if _normal(got) != _normal(request.value):
            wrong[symbol] = got
    return wrong


def _normal(value: str) -> str:
    return value.lower() if value.lower().startswith("0x") else value


def config_hash(text: str) -> str:
    """Return the sha256 over the settings, without the local version and comments that say nothing."""
    values = parse_config(text)
    values.pop(_LOCALVERSION, None)
    return digest("".join(f"{setting(symbol, value)}\n" for symbol, value in sorted(values.items())))


def refuse_bad_pairs(values: dict[str, str]) -> None:
    """Raise FleetError for a combination of settings and compiler that is known to build a kernel that crashes."""
    gcc = int(values.get("CONFIG_GCC_VERSION", "0"))
    jumps = values.get("CONFIG_DYNAMIC_FTRACE_WITH_JMP") == "y"
    if jumps and values.get("CONFIG_CC_OPTIMIZE_FOR_SIZE") == "y" and 0 < gcc < 140000:
        raise FleetError(
            f"CONFIG_CC_OPTIMIZE_FOR_SIZE=y with gcc {gcc // 10000} (older than 14) does not align functions, and a "
            "kernel with CONFIG_DYNAMIC_FTRACE_WITH_JMP (7.3) then takes odd callback addresses for jumps and crashes "
            "on the second ftrace-based kprobe: set CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y"
        )
