# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the build host has on its disk after the converge, and what must leave that alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from plays import ROOT, Play
from testinfra.host import Host

HERE = Path(__file__).resolve().parents[1]
CACHE = "/root/.cache/fetchbpf"
PATCHED = "return 23;"
PRISTINE = "return 2;"


def value(host: Host, tree: str) -> str:
    """Return the line of kernel/fork.c that the series changes."""
    return next(
        line.strip() for line in host.file(f"{tree}/kernel/fork.c").content_string.splitlines() if "ret" in line
    )


def trees(host: Host) -> dict[str, str]:
    """Return that line of each tree in the cache, by the tree's name."""
    found = host.check_output(f"ls -d {CACHE}/trees/*/").split()
    return {path.rstrip("/").rpartition("/")[2]: value(host, path.rstrip("/")) for path in found}


def test_each_kind_gave_its_tree(host: Host) -> None:
    by_series = {name.rpartition("-")[2]: line for name, line in trees(host).items()}
    assert by_series == {"series": PATCHED, "none": PRISTINE}
    assert len([line for line in trees(host).values() if line == PATCHED]) == 2


def test_a_tree_of_the_user_is_as_it_was(host: Host) -> None:
    assert value(host, "/usr/src/theirs") == PRISTINE
    assert host.check_output("git -C /usr/src/theirs status --porcelain") == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"kernel_source_series": str(ROOT / "molecule/tiny/broken/series")},
            "0002.patch does not apply: kernel/fork.c, hunk 1",
        ),
        ({"kernel_source_sha256": "0" * 64}, "sha256"),
        ({"kernel_source_kind": "svn"}, "value of kernel_source_kind must be one of: debian, git, tarball, tree"),
        (
            {"kernel_source_path": "/usr/src/nothing.tar.xz", "kernel_source_sha256": "1" * 64},
            "/usr/src/nothing.tar.xz",
        ),
    ],
    ids=["patch", "checksum", "kind", "path"],
)
def test_a_fault_is_one_message_and_nothing_changes(
    host: Host, playbook: Callable[..., Play], wrong: dict[str, str], message: str
) -> None:
    before = trees(host)
    play = playbook(HERE / "source.yml", **wrong)
    assert play.failed
    assert message in play.flat
    assert trees(host) == before


def test_the_next_good_run_changes_no_tree(host: Host, playbook: Callable[..., Play]) -> None:
    before = trees(host)
    play = playbook(HERE / "source.yml")
    assert not play.failed, play.output
    assert trees(host) == before
