# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tarball that users install: what is in it, and that it works without the checkout."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the collection from the checkout."""
    place = tmp_path_factory.mktemp("build")
    subprocess.run(
        ["ansible-galaxy", "collection", "build", "--output-path", place], cwd=ROOT, check=True, capture_output=True
    )
    (found,) = place.glob("fetchbpf-fleet-*.tar.gz")
    return found


@pytest.fixture(scope="module")
def installed(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install it where no checkout is near; return the collections path."""
    place = tmp_path_factory.mktemp("collections")
    command = ["ansible-galaxy", "collection", "install", "--offline", "-p", place, tarball]
    subprocess.run(command, cwd=place, env=environment(place), check=True, capture_output=True)
    return place


def environment(collections: Path) -> dict[str, str]:
    """Return an environment in which the checkout's own configuration is not seen."""
    values = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(collections))
    values.pop("ANSIBLE_CONFIG", None)
    return values


def test_tarball_holds_the_product_and_nothing_else(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = archive.getnames()
        size = sum(member.size for member in archive.getmembers())
    tops = {name.split("/")[0] for name in names}
    assert {"roles", "plugins", "playbooks", "kernel-patches", "inventories", "meta", "README.md"} <= tops
    assert not tops & {"tests", "molecule", "collections", ".venv", ".git", ".ci", ".cache", ".config", ".test-logs"}
    assert "tools/bench/fetchbpf-bench" not in names
    assert not [name for name in names if name.endswith((".qcow2", ".pyc", ".deb"))]
    assert size < 8 * 1024 * 1024


def run_playbook(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ansible-playbook where only the installed collection can be found."""
    command = ["ansible-playbook", *arguments]
    return subprocess.run(
        command, cwd=installed, env=environment(installed), capture_output=True, text=True, check=False
    )


def test_playbook_by_fqcn_lists_every_play(installed: Path) -> None:
    inventory = installed / "ansible_collections/fetchbpf/fleet/inventories/lab"
    done = run_playbook(installed, "-i", str(inventory), "fetchbpf.fleet.deploy_fetchbpf", "--list-tasks")
    assert done.returncode == 0, done.stderr
    for role in sorted(path.name for path in (ROOT / "roles").iterdir()):
        assert f"{role} : " in done.stdout, f"no task of role {role} in:\n{done.stdout}"


def test_example_inventory_is_complete(installed: Path) -> None:
    inventory = installed / "ansible_collections/fetchbpf/fleet/inventories/example"
    done = run_playbook(installed, "-i", str(inventory), "fetchbpf.fleet.deploy_fetchbpf", "--list-hosts")
    assert done.returncode == 0, done.stderr
    assert "hosts (0)" not in done.stdout.replace("Bring up the embedded lab", "", 1).split("Patch and build")[1]
