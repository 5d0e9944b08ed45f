# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is inside a kernel's Debian packages, looked at on the controller before anything is copied."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import tarfile
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

# Without dpkg-deb only the compressed size is known; a kernel's modules shrink to about a quarter.
COMPRESSION = 4


def read_manifest(artifact: str) -> dict[str, Any]:
    """Return the manifest of the artifact in this directory."""
    path = os.path.join(os.path.expanduser(artifact), "manifest.json")
    try:
        with open(path, encoding="utf-8") as handle:
            manifest = json.load(handle)
    except OSError as exc:
        raise FleetError(f"artifact: {path}: {exc.strerror}") from exc
    except ValueError as exc:
        raise FleetError(f"artifact: {path}: not JSON: {exc}") from exc
    missing = [name for name in ("schema", "key", "release", "arch", "files", "packages") if name not in manifest]
    if missing or manifest["schema"] != 1:
        problem = f"{', '.join(missing)} missing" if missing else f"schema {manifest['schema']} is not known here"
        raise FleetError(f"artifact: {path}: {problem}")
    return manifest


def check_artifact(artifact: str, files: list[dict[str, Any]]) -> None:
    """Raise FleetError unless each file is in ``artifact`` with the sha256 of the manifest."""
    for item in files:
        path = os.path.join(artifact, item["name"])
        try:
            with open(path, "rb") as handle:
                digest = hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError as exc:
            raise FleetError(f"artifact file {path}: {exc.strerror}") from exc
        if digest != item["sha256"]:
            raise FleetError(f"artifact file {path}: sha256 is {digest}, the manifest says {item['sha256']}")


def inspect(paths: list[str]) -> dict[str, Any]:
    """Return {"boot_bytes", "installed_bytes", "signed"} of the packages together; signed may be None (unknown)."""
    result: dict[str, Any] = {"boot_bytes": 0, "installed_bytes": 0, "signed": None}
    for path in paths:
        if shutil.which("dpkg-deb"):
            _inspect_one(path, result)
        else:
            result["boot_bytes"] += os.path.getsize(path)
            result["installed_bytes"] += COMPRESSION * os.path.getsize(path)
    return result


def _inspect_one(path: str, result: dict[str, Any]) -> None:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    result["installed_bytes"] += member.size
                    if name.startswith("boot/"):
                        result["boot_bytes"] += member.size
                    if name.startswith("boot/vmlinuz-") and member.isfile():
                        image = archive.extractfile(member)
                        result["signed"] = is_signed(image.read() if image else b"")
        except tarfile.TarError as exc:
            raise FleetError(f"artifact file {path}: not a Debian package: {exc}") from exc


def is_signed(image: bytes) -> bool:
    """Whether a kernel image, as an EFI application, carries a signature (of whom is not looked at)."""
    try:
        header = struct.unpack_from("<I", image, 0x3C)[0]
        if image[:2] != b"MZ" or image[header : header + 4] != b"PE\0\0":
            return False
        optional = header + 24
        directories = optional + (112 if struct.unpack_from("<H", image, optional)[0] == 0x20B else 96)
        # The fifth data directory is the certificate table.
        return struct.unpack_from("<II", image, directories + 4 * 8)[1] > 0
    except struct.error:
        return False
