# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an artifact is called and what it holds: the one place where both are computed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .errors import FleetError
from .workspace import digest, digest_file, read_json, remove, write_json

SCHEMA = 1
_KEY_DIGITS = 16
_RELEASE_DIGITS = 8
_UTS_LENGTH = 64
_KINDS = {"linux-image-": "image", "fetchbpf-tools-": "tools", "fetchbpf-bench": "bench", "config-": "config"}


def artifact_key(source_id: str, series_hash: str, config_hash: str, compiler: str, tools_hash: str = "") -> str:
    """Return the key of the artifact that these make: 16 hexadecimal digits."""
    parts = (source_id, series_hash, config_hash, compiler, *([tools_hash] if tools_hash else []))
    return digest("\n".join(parts))[:_KEY_DIGITS]


def local_version(prefix: str, key: str) -> str:
    """Return CONFIG_LOCALVERSION for an artifact, e.g. ``-fetchbpf-0123abcd``."""
    return f"{prefix}-{key[:_RELEASE_DIGITS]}"


def release_name(kernel_version: str, prefix: str, key: str) -> str:
    """Return ``uname -r`` of an artifact; raise FleetError if it is too long for the kernel."""
    release = kernel_version + local_version(prefix, key)
    if len(release) > _UTS_LENGTH:
        raise FleetError(f"the kernel release {release} has {len(release)} characters; {_UTS_LENGTH} is the most")
    return release


def package_version(kernel_version: str) -> str:
    """Return the Debian version of the packages; a release candidate sorts before its release.

    >>> package_version("7.3.0-rc7")
    '7.3.0~rc7-1'
    """
    return f"{kernel_version.replace('-rc', '~rc').replace('-', '.')}-1"


def describe_files(folder: Path) -> list[dict[str, Any]]:
    """Return name, sha256, size in bytes and kind of each file of an artifact."""
    found = []
    for path in sorted(folder.iterdir()):
        kind = next((kind for prefix, kind in _KINDS.items() if path.name.startswith(prefix)), None)
        if kind:
            found.append({"name": path.name, "sha256": digest_file(path), "size": path.stat().st_size, "kind": kind})
    return found


def read_manifest(folder: Path, key: str) -> dict[str, Any] | None:
    """Return the manifest of a whole artifact with this key, or None if there is none or a file is damaged."""
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA or manifest.get("key") != key:
        return None
    return manifest if manifest.get("files") == describe_files(folder) else None


def store(beside: Path, folder: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Add the manifest to the files in ``beside`` and make it the artifact ``folder``."""
    whole = dict(manifest, schema=SCHEMA, files=describe_files(beside))
    write_json(beside / "manifest.json", whole)
    remove(folder)
    os.rename(beside, folder)
    return whole
