# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import build_host
from ansible_collections.fetchbpf.fleet.plugins.module_utils.configure import Configuration, Wanted, configure
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kbuild import Kbuild, find_arch
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kconfig import Fragment

from tests.unit.fakes import make_tree, written

OWNER = "CONFIG_NETFILTER_XT_MATCH_OWNER=y\n"


class Bench:
    """A fake tree to configure."""

    def __init__(self, folder: Path) -> None:
        self.tree = make_tree(folder / "tree")
        self.kbuild = Kbuild(self.tree, folder / "build", find_arch("x86_64"))
        self.config = folder / "build" / ".config"

    def run(self, *fragments: str, dry_run: bool = False, **options: Any) -> Configuration:
        wanted = Wanted(
            base="tinyconfig",
            base_text="",
            fragments=[Fragment(f"f{number}.config", text) for number, text in enumerate(fragments, 1)],
            localversion="-fetchbpf",
            source_id="test:1",
            series_hash="none",
            compiler="gcc 1",
        )
        return configure(self.kbuild, dataclasses.replace(wanted, **options), dry_run)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(build_host.Need, "met", lambda need: need.item != "lz4")
    return Bench(tmp_path)


def test_a_dropped_symbol_is_refused_before_compiling_with_its_dependency(bench: Bench) -> None:
    with pytest.raises(FleetError) as caught:
        bench.run("CONFIG_NET=y\n", OWNER)
    assert (
        "CONFIG_NETFILTER_XT_MATCH_OWNER: asked y (f2.config:1), got n; unmet dependency: NETFILTER_ADVANCED=n ["
        in str(caught.value)
    )
    assert caught.value.details["dropped"][0]["symbol"] == "CONFIG_NETFILTER_XT_MATCH_OWNER"
    assert not bench.config.exists()


def test_the_dependency_asked_for_as_well_is_enough(bench: Bench) -> None:
    result = bench.run("CONFIG_NET=y\n", OWNER, "CONFIG_NETFILTER_ADVANCED=y\n")
    assert result.requested["CONFIG_NETFILTER_XT_MATCH_OWNER"] == "y"
    assert OWNER in bench.config.read_text()


def test_all_dropped_symbols_are_in_one_message_and_the_last_good_config_stays(bench: Bench) -> None:
    bench.run("CONFIG_NET=y\n")
    before = written(bench.config)
    with pytest.raises(FleetError) as caught:
        bench.run(OWNER, "CONFIG_NO_SUCH_THING=y\n", "# CONFIG_X86 is not set\n")
    assert "CONFIG_NO_SUCH_THING: asked y (f2.config:1), got n; this kernel has no such symbol" in str(caught.value)
    assert "CONFIG_NETFILTER_XT_MATCH_OWNER" in str(caught.value)
    assert written(bench.config) == before


def test_the_release_has_the_key_and_both_follow_from_the_content(bench: Bench) -> None:
    one = bench.run("CONFIG_NET=y\n")
    assert one.release == f"6.12.1-fetchbpf-{one.key[:8]}"
    assert f'CONFIG_LOCALVERSION="-fetchbpf-{one.key[:8]}"' in bench.config.read_text()
    assert "# CONFIG_LOCALVERSION_AUTO is not set" in bench.config.read_text()
    others = [
        bench.run("CONFIG_NET=y\n", "CONFIG_LOG_SHIFT=18\n"),
        bench.run("CONFIG_NET=y\n", source_id="test:2"),
        bench.run("CONFIG_NET=y\n", series_hash="abc"),
        bench.run("CONFIG_NET=y\n", compiler="gcc 2"),
    ]
    assert len({one.key, *(other.key for other in others)}) == 5
    # The name of the release is no content.
    assert bench.run("CONFIG_NET=y\n", localversion="-perf").key == one.key


def test_a_second_run_runs_no_make_and_keeps_the_mtime(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench.run("CONFIG_NET=y\n")
    before = written(bench.config)

    def refuse(*_words: str) -> str:
        raise AssertionError("make was run")

    monkeypatch.setattr(Kbuild, "query", refuse)
    two = bench.run("CONFIG_NET=y\n")
    assert (two.changed, two.key, two.release, two.requested) == (False, one.key, one.release, one.requested)
    assert written(bench.config) == before


def test_other_inputs_with_the_same_outcome_do_not_write_the_config(bench: Bench) -> None:
    bench.run("CONFIG_NET=y\n")
    before = written(bench.config)
    assert not bench.run("CONFIG_NET=y\n# a comment\n").changed
    assert written(bench.config) == before


def test_a_config_edited_by_hand_is_made_again(bench: Bench) -> None:
    bench.run("CONFIG_NET=y\n")
    bench.config.write_text("CONFIG_NET=n\n")
    assert bench.run("CONFIG_NET=y\n").changed
    assert "CONFIG_NET=y" in bench.config.read_text()


def test_check_mode_shows_the_config_and_writes_none(bench: Bench) -> None:
    result = bench.run("CONFIG_NET=y\n", dry_run=True)
    assert result.changed
    assert "CONFIG_NET=y" in result.after
    assert not bench.kbuild.build_dir.exists()
    bench.run("CONFIG_NET=y\n")
    again = bench.run("CONFIG_NET=y\n", dry_run=True)
    assert (again.changed, again.key) == (False, result.key)


def test_keys_of_a_distribution_config_are_cleared_and_that_is_said(bench: Bench) -> None:
    text = (
        'CONFIG_X86=y\nCONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/debian-uefi-certs.pem"\nCONFIG_LOCALVERSION="-amd64"\n'
    )
    result = bench.run("CONFIG_NET=y\n", base="config-6.1.0-48-amd64", base_text=text)
    assert 'CONFIG_SYSTEM_TRUSTED_KEYS=""' in bench.config.read_text()
    assert "CONFIG_SYSTEM_TRUSTED_KEYS cleared" in result.notes[0]
    assert "debian/certs/debian-uefi-certs.pem" in result.notes[0]
    assert "-amd64" not in bench.config.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"localversion": "-Perf_Team1"}, "'-Perf_Team1': a Debian package name"),
        ({"base": "no such"}, "'no such': neither a file nor a make target"),
        ({"base": "x", "base_text": "hello\n"}, "x: there is no CONFIG_ line in it"),
        ({"fragments": [Fragment("f", "CONFIG_KERNEL_LZ4=y\n")]}, "lacks lz4; install the packages lz4"),
        ({"localversion": "-" + "a" * 60}, "characters; 64 is the most"),
    ],
)
def test_wrong_input_is_one_error_before_anything(bench: Bench, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        bench.run(**options)
    assert not bench.config.exists()


def test_a_make_that_fails_says_why(bench: Bench) -> None:
    (bench.tree / "scripts/conf.py").write_text("import sys\nsys.exit('init/Kconfig:3: syntax error')\n")
    with pytest.raises(FleetError, match="make .* tinyconfig failed: .*syntax error"):
        bench.run("CONFIG_NET=y\n")
