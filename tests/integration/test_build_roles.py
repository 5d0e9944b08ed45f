# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles kernel_source and kernel_build, by ansible-playbook, on a tree small enough to take seconds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import FAKELINUX, make_patch, make_series, make_tree

ROOT = Path(__file__).resolve().parents[2]
FORK = (FAKELINUX / "kernel/fork.c").read_text()
ONE = make_patch({"kernel/fork.c": FORK}, {"kernel/fork.c": FORK.replace("return 2", "return 22")})
PLAYBOOK = """
- name: Build
  hosts: localhost
  gather_facts: false
  roles:
    - role: fetchbpf.fleet.kernel_source
    - role: fetchbpf.fleet.kernel_build
  tasks:
    - name: Write down the result
      ansible.builtin.copy:
        content: "{{ kernel_build_result | to_json }}"
        dest: "{{ result_file }}"
        mode: "0644"
      check_mode: false
      changed_when: false
"""


class Bench:
    """A playbook, a tree, a series and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = make_tree(folder / "linux")
        self.series = make_series(folder / "mine", ONE)
        (folder / "play.yml").write_text(PLAYBOOK)
        self.fragment("CONFIG_NET=y\nCONFIG_MODULES=y\n")

    def fragment(self, text: str) -> None:
        (self.folder / "mine.config").write_text(text)

    def run(self, *options: str, **variables: Any) -> tuple[str, dict[str, int], dict[str, Any]]:
        """Return output, counts of the recap, and kernel_build_result."""
        result_file = self.folder / "result.json"
        result_file.unlink(missing_ok=True)
        values = {
            "ansible_python_interpreter": sys.executable,
            "result_file": str(result_file),
            "kernel_source_cache_dir": str(self.folder / "cache"),
            "kernel_source_kind": "tree",
            "kernel_source_path": str(self.tree),
            "kernel_series": str(self.series),
            "kernel_build_arch": "x86_64",
            "kernel_build_config_base": "tinyconfig",
            "kernel_build_fragments": [str(self.folder / "mine.config")],
            **variables,
        }
        command = ["ansible-playbook", "-i", "localhost,", "-c", "local", *options, "-e", json.dumps(values)]
        environment = dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_NOCOLOR="1")
        # The configuration of the checkout names its paths relative to itself.
        done = subprocess.run(
            [*command, str(self.folder / "play.yml")], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        output = done.stdout + done.stderr
        if "this build host lacks" in output:
            pytest.skip("this host lacks what a kernel build needs")
        counts = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", output.rpartition("PLAY RECAP")[2])}
        return output, counts, json.loads(result_file.read_text()) if result_file.exists() else {}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_second_run_changes_nothing_and_check_mode_changes_nothing(bench: Bench) -> None:
    output, counts, _result = bench.run("--check")
    assert counts["failed"] == 0, output
    assert not (bench.folder / "cache").exists()
    output, counts, first = bench.run()
    assert (counts["failed"], counts["changed"]) == (0, 3), output
    assert (Path(first["artifact_dir"]) / "manifest.json").is_file()
    assert first["manifest"]["series"]["patches"] == ["0001.patch"]
    output, counts, second = bench.run()
    assert (counts["failed"], counts["changed"]) == (0, 0), output
    assert second == first


def test_a_series_brings_settings_of_its_own(bench: Bench) -> None:
    (bench.series / "kconfig").write_text("CONFIG_NETFILTER_ADVANCED=y\n")
    _output, _counts, result = bench.run()
    assert result["manifest"]["config"]["requested"]["CONFIG_NETFILTER_ADVANCED"] == "y"


def test_faults_are_one_message_and_the_next_good_run_repairs(bench: Bench) -> None:
    bench.fragment("CONFIG_NET=y\nCONFIG_NETFILTER_XT_MATCH_OWNER=y\n")
    output, counts, _result = bench.run()
    assert counts["failed"] == 1
    assert "CONFIG_NETFILTER_XT_MATCH_OWNER: asked y (mine.config:2), got n; unmet dependency" in flat(output)
    bench.fragment("CONFIG_NET=y\nCONFIG_MODULES=y\n")
    (bench.series / "0001.patch").write_text(ONE.replace("-\treturn 2;", "-\treturn 3;"))
    output, counts, _result = bench.run()
    assert counts["failed"] == 1
    assert "0001.patch does not apply: kernel/fork.c, hunk 1" in flat(output)
    output, counts, _result = bench.run(kernel_source_kind="svn")
    assert "value of kernel_source_kind must be one of: debian, git, tarball, tree" in flat(output)
    output, counts, _result = bench.run(kernel_build_localversion="-Perf_Team1")
    assert counts["failed"] == 1
    (bench.series / "0001.patch").write_text(ONE)
    output, counts, result = bench.run()
    assert counts["failed"] == 0, output
    assert result["manifest"]["key"] == result["key"]


def flat(output: str) -> str:
    """Return the output without the line breaks that Ansible puts into long messages."""
    return re.sub(r"\s+", " ", output)
