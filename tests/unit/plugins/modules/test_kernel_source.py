# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.modules import kernel_patch, kernel_source

from tests.unit.fakes import FAKELINUX, make_patch, make_series, make_tree, run_module

FORK = (FAKELINUX / "kernel/fork.c").read_text()
ONE = make_patch({"kernel/fork.c": FORK}, {"kernel/fork.c": FORK.replace("return 2", "return 22")})


@pytest.fixture
def source(tmp_path: Path) -> dict[str, Any]:
    tree = make_tree(tmp_path / "linux")
    return {"kind": "tree", "path": tree, "cache_root": tmp_path / "cache"}


def test_a_source_is_reported_and_a_second_run_is_ok(source: dict[str, Any], tmp_path: Path) -> None:
    result = run_module(kernel_source, source)
    assert result["source_id"].startswith("tree:sha256:")
    assert (result["version"], result["cache_root"]) == ("6.12.1", str(tmp_path / "cache"))
    assert run_module(kernel_source, source)["changed"] is False


def test_check_mode_resolves_nothing_over_the_network(tmp_path: Path) -> None:
    options = {"kind": "git", "url": "file:///no/such/place", "ref": "main", "cache_root": tmp_path / "cache"}
    result = run_module(kernel_source, options, check=True)
    assert (result["changed"], result["source_id"], result["pristine"]) == (True, "", "")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "svn"}, "value of kind must be one of: debian, git, tarball, tree, got: svn"),
        ({"kind": "tarball", "path": "/x.tar.xz", "sha256": ""}, "kind tarball needs sha256"),
        ({"kind": "tree", "path": "/no/such"}, "no such directory: /no/such"),
    ],
)
def test_wrong_input_is_one_clear_failure(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    result = run_module(kernel_source, {**options, "cache_root": tmp_path / "cache"})
    assert result["failed"]
    assert message in result["msg"]
    assert not (tmp_path / "cache").exists()


def test_patching_has_a_diff_and_a_second_run_is_ok(source: dict[str, Any], tmp_path: Path) -> None:
    pristine = run_module(kernel_source, source)
    options = {
        "pristine": pristine["pristine"],
        "source_id": pristine["source_id"],
        "tree": tmp_path / "cache/trees/mine",
        "series": make_series(tmp_path / "mine", ONE),
    }
    would = run_module(kernel_patch, options, check=True)
    assert would["changed"]
    assert not (tmp_path / "cache/trees").exists()
    result = run_module(kernel_patch, options)
    assert (result["series_name"], result["patches"], result["written"]) == ("mine", ["0001.patch"], ["kernel/fork.c"])
    assert "return 2;" in result["diff"]["before"]
    assert "return 22;" in result["diff"]["after"]
    again = run_module(kernel_patch, options)
    assert (again["changed"], again["series_hash"], again["diff"]["after"]) == (False, result["series_hash"], "")


def test_a_wrong_series_is_found_in_check_mode_before_there_is_a_source(tmp_path: Path) -> None:
    options = {"pristine": "", "source_id": "", "tree": tmp_path / "tree", "series": make_series(tmp_path / "mine")}
    result = run_module(kernel_patch, options, check=True)
    assert result["failed"]
    assert "the series file names no patch" in result["msg"]


def test_no_pristine_tree_is_an_error_outside_of_check_mode(tmp_path: Path) -> None:
    options = {"pristine": "", "source_id": "", "tree": tmp_path / "tree"}
    assert "pristine is empty" in run_module(kernel_patch, options)["msg"]
    assert run_module(kernel_patch, options, check=True)["changed"]
