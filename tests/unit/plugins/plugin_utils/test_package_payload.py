# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils import package_payload


def image(certificate: int) -> bytes:
    """Return the head of a 64-bit EFI application with a certificate table of this size."""
    optional = struct.pack("<H110x", 0x20B) + b"\0" * 32 + struct.pack("<II", 4096, certificate)
    return b"MZ" + b"\0" * 58 + struct.pack("<I", 64) + b"PE\0\0" + b"\0" * 20 + optional


def test_a_signature_is_a_certificate_table() -> None:
    assert package_payload.is_signed(image(1000))
    assert not package_payload.is_signed(image(0))
    assert not package_payload.is_signed(b"")
    assert not package_payload.is_signed(b"MZ" + b"\0" * 100)


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")
def test_the_content_of_packages_is_summed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name, content in (
        ("DEBIAN/control", b"Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n"),
        ("boot/vmlinuz-1", image(8)),
        ("lib/modules/1/a.ko", b"x" * 1000),
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    subprocess.run(["dpkg-deb", "--build", tree, tmp_path / "a.deb"], check=True, capture_output=True)
    result = package_payload.inspect([str(tmp_path / "a.deb")])
    boot = len(image(8))
    assert result == {"boot_bytes": boot, "installed_bytes": boot + 1000, "signed": True}


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")
def test_a_file_that_is_no_package_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.deb"
    path.write_text("x")
    with pytest.raises(FleetError, match=f"{path}: not a Debian package"):
        package_payload.inspect([str(path)])


def test_without_dpkg_the_size_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.deb").write_bytes(b"x" * 100)
    monkeypatch.setattr(package_payload.shutil, "which", lambda _name: None)
    assert package_payload.inspect([str(tmp_path / "a.deb")]) == {
        "boot_bytes": 100,
        "installed_bytes": 400,
        "signed": None,
    }
