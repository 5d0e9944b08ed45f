# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import apt_isolated
from ansible_collections.fetchbpf.fleet.plugins.module_utils.apt_isolated import IsolatedApt, find_package
from ansible_collections.fetchbpf.fleet.plugins.module_utils.apt_sources import AptSource
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

CONTENT = b"a package"
SHOW = f"Package: linux-source-9\nVersion: 9.1-1\nSHA256: {hashlib.sha256(CONTENT).hexdigest()}\nSize: {len(CONTENT)}\n"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class FakeCommands:
    """apt-get and apt-cache in PATH: the package is in the suite ``has``, downloads give ``content``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        self.set(has="sid", content=CONTENT)
        (folder / "apt-cache").write_text(
            f'#!/bin/sh\ngrep -q "^Suites: $(cat {folder}/has)$" "$(dirname $APT_CONFIG)/fleet.sources" 2>/dev/null ||'
            f" exit 100\ncat {folder}/show\n"
        )
        (folder / "apt-get").write_text(
            f'#!/bin/sh\necho "$@" >> {folder}/log\ncase $1 in\n'
            f"update) cat {folder}/update >&2; exit $(cat {folder}/rc);;\n"
            f"download) cp {folder}/content linux-source-9_9.1-1_all.deb;;\nesac\n"
        )
        for name in ("apt-get", "apt-cache"):
            (folder / name).chmod(0o755)
        (folder / "show").write_text(SHOW)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(apt_isolated, "host_codename", lambda: "bookworm")
        monkeypatch.setattr(apt_isolated, "carried_options", lambda: ['Acquire::http::Proxy "http://p";'])
        sources = [AptSource("http://deb.example/debian", "bookworm", ("main",), KEYRING)]
        monkeypatch.setattr(apt_isolated, "read_sources", lambda: sources)

    def set(self, has: str, content: bytes, update: str = "", rc: int = 0) -> None:
        (self.folder / "has").write_text(has)
        (self.folder / "content").write_bytes(content)
        (self.folder / "update").write_text(update)
        (self.folder / "rc").write_text(str(rc))


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    return FakeCommands(tmp_path / "bin", monkeypatch)


def test_the_configuration_has_the_hosts_mirror_key_and_proxy_and_a_place_of_its_own(
    commands: FakeCommands, tmp_path: Path
) -> None:
    IsolatedApt(tmp_path / "apt", "sid")
    sources = (tmp_path / "apt/fleet.sources").read_text()
    assert "URIs: http://deb.example/debian\nSuites: sid\nComponents: main\n" in sources
    assert f"Signed-By: {KEYRING}\n" in sources
    settings = (tmp_path / "apt/apt.conf").read_text()
    assert 'Acquire::http::Proxy "http://p";' in settings
    for name in ("Dir::State", "Dir::State::lists", "Dir::Cache", "Dir::Etc::parts", "Dir::Etc::sourceparts"):
        assert f'{name} "{tmp_path}/apt' in settings
    assert "unauthenticated" not in settings.lower()


def test_the_hosts_own_sources_are_used_for_the_suite_host(commands: FakeCommands, tmp_path: Path) -> None:
    IsolatedApt(tmp_path / "apt", "host")
    assert "sourcelist" not in (tmp_path / "apt/apt.conf").read_text()
    assert not (tmp_path / "apt/fleet.sources").exists()


def test_the_first_suite_that_has_the_package_is_taken(commands: FakeCommands, tmp_path: Path) -> None:
    _apt, found = find_package(tmp_path / "apt", ["host", "trixie", "sid", "experimental"], "linux-source-9")
    assert (found.suite, found.version, found.size) == ("sid", "9.1-1", len(CONTENT))


def test_no_suite_has_it_is_said_for_each_suite(commands: FakeCommands, tmp_path: Path) -> None:
    with pytest.raises(FleetError) as caught:
        find_package(tmp_path / "apt", ["trixie", "experimental"], "linux-source-9", "9.9")
    assert str(caught.value) == (
        "no suite has the package linux-source-9=9.9 (trixie: no such package; experimental: no such package)"
    )


def test_a_suite_with_a_bad_signature_is_refused_with_apts_reason(commands: FakeCommands, tmp_path: Path) -> None:
    commands.set("trixie", CONTENT, "E: The repository 'http://deb.example sid InRelease' is not signed.\n", 100)
    with pytest.raises(FleetError, match="sid: apt cannot read the suite sid: E: The repository .* is not signed"):
        find_package(tmp_path / "apt", ["sid"], "linux-source-9")


def test_a_package_is_downloaded_whole_or_not_at_all(commands: FakeCommands, tmp_path: Path) -> None:
    apt, found = find_package(tmp_path / "apt", ["sid"], "linux-source-9")
    target = tmp_path / "x.deb"
    commands.set("sid", CONTENT[:4])
    with pytest.raises(FleetError, match="linux-source-9=9.1-1 is damaged .* it was removed"):
        apt.download(found, target, lambda done, total: None)
    assert not target.exists()
    commands.set("sid", CONTENT)
    apt.download(found, target, lambda done, total: None)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_without_a_debian_mirror_the_option_to_name_one_is_said(
    commands: FakeCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt_isolated, "read_sources", list)
    with pytest.raises(FleetError, match="sid: .*name one with kernel_source_debian_mirror"):
        find_package(tmp_path / "apt", ["sid"], "linux-source-9")
    _apt, found = find_package(tmp_path / "apt", ["sid"], "linux-source-9", mirror="http://other.example/debian/")
    assert found.suite == "sid"
