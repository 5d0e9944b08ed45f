# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import build_host
from ansible_collections.fetchbpf.fleet.plugins.modules import (
    kernel_build,
    kernel_build_host,
    kernel_config,
    kernel_patch,
    kernel_source,
)

from tests.unit.fakes import make_tree, run_module

FRAGMENTS = [{"name": "mine.config", "text": "CONFIG_NET=y\nCONFIG_MODULES=y\n"}]


class Bench:
    """The four modules in a row on the fake tree."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.source = run_module(
            kernel_source, {"kind": "tree", "path": make_tree(folder / "linux"), "cache_root": self.cache}
        )
        self.tree = self.cache / "trees" / "linux-none"
        self.build_dir = self.cache / "build" / "linux-none"

    def patch(self) -> dict[str, Any]:
        names = ("pristine", "source_id")
        return run_module(kernel_patch, {"tree": self.tree, **{name: self.source[name] for name in names}})

    def configure(self, check: bool = False, **options: Any) -> dict[str, Any]:
        common = {"tree": self.tree, "build_dir": self.build_dir, "source_id": self.source["source_id"]}
        return run_module(kernel_config, {"fragments": FRAGMENTS, "arch": "x86_64", **common, **options}, check)

    def build(self, config: dict[str, Any], check: bool = False, **options: Any) -> dict[str, Any]:
        names = ("key", "release", "config_hash", "requested", "compiler")
        common = {"tree": self.tree, "build_dir": self.build_dir, "source_id": self.source["source_id"]}
        series = {"name": "none", "hash": "none", "patches": []}
        options = {"cache_root": self.cache, "series": series, "ccache": False, "arch": "x86_64", **common, **options}
        return run_module(kernel_build, {**options, **{name: config[name] for name in names}}, check)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(build_host.Need, "met", lambda need: True)
    return Bench(tmp_path)


def test_from_source_to_artifact_and_nothing_the_second_time(bench: Bench) -> None:
    assert bench.patch()["changed"]
    config = bench.configure()
    assert config["changed"]
    assert "CONFIG_NET=y" in config["diff"]["after"]
    built = bench.build(config)
    assert built["changed"]
    assert built["objects"] == 3
    assert built["manifest"]["release"] == config["release"]
    assert built["artifact_dir"] == str(bench.cache / "artifacts" / config["key"])
    again = [bench.patch(), bench.configure()]
    again.append(bench.build(again[1]))
    assert [result["changed"] for result in again] == [False, False, False]
    assert again[2]["manifest"] == built["manifest"]


def test_check_mode_changes_nothing_at_any_step(bench: Bench) -> None:
    config = bench.configure(check=True)
    assert (config["changed"], config["key"]) == (True, "")
    assert bench.build(config, check=True)["changed"]
    bench.patch()
    config = bench.configure(check=True)
    assert len(config["key"]) == 16
    built = bench.build(config, check=True)
    assert (built["changed"], built["manifest"]) == (True, {})
    assert not (bench.cache / "build").exists()
    assert not (bench.cache / "artifacts").exists()


def test_a_dropped_symbol_fails_with_a_row_for_each(bench: Bench) -> None:
    bench.patch()
    fragments = [{"name": "mine.config", "text": "CONFIG_NET=y\nCONFIG_NETFILTER_XT_MATCH_OWNER=y\n"}]
    result = bench.configure(fragments=fragments)
    assert result["failed"]
    (row,) = result["dropped"]
    assert (row["symbol"], row["asked"], row["got"]) == ("CONFIG_NETFILTER_XT_MATCH_OWNER", "y", "n")
    assert "NETFILTER_ADVANCED=n" in row["reason"]


def test_a_missing_build_dependency_is_said_before_anything(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_host.Need, "met", lambda need: need.item not in ("bison", "libelf.h"))
    result = bench.configure()
    assert "lacks bison, libelf.h; install the packages bison libelf-dev" in result["msg"]
    assert result["missing_packages"] == ["bison", "libelf-dev"]
    assert run_module(kernel_build_host, {})["msg"] == result["msg"]


def test_what_is_missing_can_be_asked_for_without_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_host.Need, "met", lambda need: need.item != "bison")
    result = run_module(kernel_build_host, {"fail": False})
    assert (result["changed"], result["missing"], result["missing_packages"]) == (False, ["bison"], ["bison"])
    monkeypatch.setattr(build_host.Need, "met", lambda need: True)
    assert run_module(kernel_build_host, {})["missing_packages"] == []


def test_an_unknown_architecture_is_named(bench: Bench) -> None:
    bench.patch()
    assert "unknown architecture: pdp11" in bench.configure(arch="pdp11")["msg"]
