# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import apt_sources
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

DEB822 = """\
# main
Types: deb deb-src
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
# a comment in between
Components: main
 contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main
"""


def lines(suite: str, codename: str, sources: list[apt_sources.AptSource], mirror: str = "") -> list[str]:
    return [source.line() for source in apt_sources.sources_for(suite, codename, sources, mirror)]


def configuration(tmp_path: Path, **files: str) -> list[apt_sources.AptSource]:
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        stem, _underscore, suffix = name.rpartition("_")
        path = tmp_path / "sources.list" if stem == "main" else tmp_path / "sources.list.d" / f"{stem}.{suffix}"
        path.write_text(text)
    return apt_sources.read_sources(str(tmp_path))


def test_deb822_gives_the_mirror_of_another_suite_with_updates_and_security(tmp_path: Path) -> None:
    sources = configuration(tmp_path, debian_sources=DEB822)
    assert lines("trixie", "bookworm", sources) == [
        "deb http://mirror.example/debian trixie main",
        "deb http://mirror.example/debian trixie-updates main",
        "deb http://mirror.example/debian-security trixie-security main",
    ]


def test_one_line_format_with_options_and_comments(tmp_path: Path) -> None:
    text = (
        "# deb http://off.example/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/keys/debian-archive-keyring.gpg] http://m.example/debian bookworm main\n"
        "deb-src http://m.example/debian bookworm main\n"
        "deb http://m.example/sec bookworm/updates main contrib # comment\n"
    )
    assert lines("bookworm", "bookworm", configuration(tmp_path, main_list=text)) == [
        "deb http://m.example/debian bookworm main",
        "deb http://m.example/sec bookworm-security main",
    ]


def test_a_foreign_repository_is_no_debian_mirror(tmp_path: Path) -> None:
    foreign = (
        "deb [signed-by=/etc/apt/keyrings/tool.gpg] http://tool.example/apt bookworm main\n"
        "deb http://cloud.example/apt cloud-sdk-bookworm main\n"
        "deb http://docker.example bookworm stable\n"
    )
    sources = configuration(tmp_path, aaa_list=foreign, debian_sources=DEB822)
    assert lines("bookworm", "bookworm", sources)[0] == "deb http://mirror.example/debian bookworm main"


def test_a_host_that_follows_stable(tmp_path: Path) -> None:
    sources = configuration(
        tmp_path, main_list="deb http://m.example/debian stable main\ndeb http://m.example/s stable-security main\n"
    )
    assert lines("trixie", "bookworm", sources) == [
        "deb http://m.example/debian trixie main",
        "deb http://m.example/s trixie-security main",
    ]


def test_no_mirror_is_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="lab_mirror"):
        lines("trixie", "", configuration(tmp_path, main_list="deb http://u.example/ubuntu noble main\n"))


def test_a_given_mirror_replaces_the_search() -> None:
    assert lines("trixie", "noble", [], "http://m.example/debian/") == ["deb http://m.example/debian trixie main"]


def test_only_settings_that_reach_or_trust_a_mirror_are_carried() -> None:
    dump = (
        'Acquire "";\nAcquire::Languages "none";\nAcquire::http::Proxy "http://proxy.example:3128";\n'
        'Acquire::https "";\nAcquire::Check-Valid-Until "false";\nAPT::Architecture "amd64";\n'
    )
    assert apt_sources.carried_options(dump) == [
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::Check-Valid-Until "false";',
    ]


def test_codename(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    assert apt_sources.host_codename(str(tmp_path / "os-release")) == "bookworm"
    assert apt_sources.host_codename(str(tmp_path / "none")) == ""


def test_another_distribution_has_no_debian_codename(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text("ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n")
    assert apt_sources.host_codename(str(tmp_path / "os-release")) == ""
