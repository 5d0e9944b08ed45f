# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import build_host, manifest, process, workspace
from ansible_collections.fetchbpf.fleet.plugins.module_utils.build_host import BUILD, Need, build_needs, require
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError


def test_all_that_is_missing_is_in_one_error_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_host.Need, "met", lambda need: need.item not in ("flex", "bison", "libelf.h"))
    with pytest.raises(FleetError) as caught:
        require(build_needs())
    assert "lacks flex, bison, libelf.h; install the packages bison flex libelf-dev" in str(caught.value)
    assert "kernel_build_install_packages: true" in str(caught.value)
    assert caught.value.details["missing_packages"] == ["bison", "flex", "libelf-dev"]


def test_needs_follow_from_compiler_ccache_and_configuration() -> None:
    assert Need("ccache", "ccache") in build_needs(ccache=True)
    assert Need("ccache", "ccache") not in build_needs(ccache=False)
    assert Need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu") in build_needs("aarch64-linux-gnu-")
    assert Need("pahole", "dwarves") in build_needs(values={"CONFIG_DEBUG_INFO_BTF": "y"})
    assert len(build_needs(ccache=False)) == len(BUILD) + 2


def test_headers_are_found_also_in_the_multiarch_directory(tmp_path: Path) -> None:
    need = Need("openssl/opensslv.h", "libssl-dev")
    assert not need.met(str(tmp_path))
    (tmp_path / "x86_64-linux-gnu/openssl").mkdir(parents=True)
    (tmp_path / "x86_64-linux-gnu/openssl/opensslv.h").write_text("")
    assert need.met(str(tmp_path))


def test_a_second_lock_is_refused_with_the_holder_or_waits(tmp_path: Path) -> None:
    ticks: list[str] = []
    with workspace.locked(tmp_path / "lock", "the tree"):
        second = workspace.locked(tmp_path / "lock", "the tree", 0.6, ticks.append)
        with pytest.raises(FleetError, match=rf"the tree is in use by another run \(process {os.getpid()}\)"), second:
            pass
        assert ticks == [f"process {os.getpid()} uses the tree"] * len(ticks)
        assert ticks
    with workspace.locked(tmp_path / "lock", "the tree"):
        pass


def test_a_release_that_is_too_long_is_refused() -> None:
    assert manifest.release_name("6.12.1", "-fetchbpf", "0123456789abcdef") == "6.12.1-fetchbpf-01234567"
    with pytest.raises(FleetError, match="64 is the most"):
        manifest.release_name("6.12.1", "-" + "x" * 60, "0123456789abcdef")


def test_a_manifest_of_another_key_schema_or_file_counts_as_none(tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "linux-image-1.deb").write_text("x")
    stored = manifest.store(beside, tmp_path / "k", {"key": "k"})
    assert manifest.read_manifest(tmp_path / "k", "k") == stored
    assert manifest.read_manifest(tmp_path / "k", "other") is None
    (tmp_path / "k" / "linux-image-1.deb").write_text("y")
    assert manifest.read_manifest(tmp_path / "k", "k") is None
    assert manifest.read_manifest(tmp_path / "none", "k") is None


def test_a_missing_command_is_an_error_for_a_person() -> None:
    with pytest.raises(FleetError, match="the command no-such-command is missing"):
        process.run(["no-such-command"])
