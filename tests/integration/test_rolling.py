# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet is served in the batches that its inventory asks for. The hosts are this machine, which is only looked at."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = """
all:
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  children:
    build:
      hosts: {builder: }
    fleet:
      children:
        bare_metal:
          hosts: {one: , two: , three: , four: }
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return an inventory of four hosts: a canary, then the others, and none of them once one has failed."""
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/fleet.yml").write_text('fetchbpf_serial: [1, "100%"]\nfetchbpf_max_fail_percentage: 0\n')
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    return tmp_path / "hosts.yml"


def run(inventory: Path, *arguments: str) -> str:
    command = ["ansible-playbook", "-i", str(inventory), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_a_rollback_that_fails_on_the_canary_ends_there(inventory: Path) -> None:
    arguments = ("--check", "-e", "rollback_release=none-of-ours")
    output = run(inventory, "playbooks/rollback_fetchbpf.yml", *arguments)
    assert "kernel none-of-ours was not installed by this collection" in output, output
    assert "fatal: [one]" in output, output
    assert "[two]" not in output, output


def test_a_canary_that_fails_is_the_last_host(inventory: Path) -> None:
    plays = [
        {"hosts": "build", "gather_facts": False},
        {"import_playbook": str(ROOT / "playbooks/install_kernel.yml")},
    ]
    playbook = inventory.with_name("site.yml")
    playbook.write_text(json.dumps(plays))
    output = run(inventory, str(playbook))
    assert "which kernel is to be installed is what the build host says" in output, output
    assert "fatal: [one]" in output, output
    assert "[two]" not in output, output
