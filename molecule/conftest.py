# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks Ansible once for the variables of all hosts, since testinfra itself does not template an inventory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

sys.path.insert(0, str(Path(__file__).parent))
# The collection's own code, for what tests check with it.
sys.path.insert(0, str(Path(__file__).parents[1] / "collections"))

import plays  # noqa: E402

_WANTED = (
    "ansible_user",
    "ansible_host",
    "ansible_port",
    "ansible_ssh_private_key_file",
    "ansible_ssh_common_args",
    "lab_dir",
    "lab_guest",
    "probe_events_list",
)
GUESTS = "kvm_guests"


def pytest_configure(config: pytest.Config) -> None:
    """Let the steps of a long test appear while it runs."""
    plays.capture = config.pluginmanager.getplugin("capturemanager")


def ansible(inventory: str, *arguments: str) -> dict[str, Any]:
    """Run an ad-hoc command on all guests; return the module's result by host."""
    environment = dict(os.environ, ANSIBLE_CALLBACK_RESULT_FORMAT="json", ANSIBLE_LOAD_CALLBACK_PLUGINS="0")
    # Molecule asks for colours, by which JSON is none.
    environment.update(ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1")
    command = ["ansible", GUESTS, "-i", inventory, *arguments]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    results = {}
    decoder = json.JSONDecoder()
    while " => " in output:
        head, _arrow, rest = output.partition(" => ")
        result, end = decoder.raw_decode(rest)
        results[head.split("|")[0].strip()] = result
        output = rest[end:]
    return results


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the tests every guest, by ssh."""
    if "fleet_host" not in metafunc.fixturenames:
        return
    inventory = metafunc.config.getoption("ansible_inventory")
    template = "{{ {" + ", ".join(f"'{name}': {name} | default(none)" for name in _WANTED) + "} }}"
    answers = ansible(inventory, "-m", "ansible.builtin.debug", "-a", f"msg={template}")
    names = sorted(answers)
    hosts = [(name, answers[name]["msg"]) for name in names]
    metafunc.parametrize("fleet_host", hosts, ids=names, scope="module")


@pytest.fixture(scope="module")
def variables(fleet_host: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Variables of the host."""
    return fleet_host[1]


@pytest.fixture(scope="module")
def connection(fleet_host: tuple[str, dict[str, Any]]) -> Iterator[dict[str, str]]:
    """How to reach the host: by one connection for all commands, as an emulated guest takes long to accept one."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"controlpath": f"{folder}/{fleet_host[0]}"}


@pytest.fixture(scope="module")
def host(variables: dict[str, Any], connection: dict[str, str]) -> Host:
    """Connection to the host."""
    return Host.get_host(
        f"ssh://{variables['ansible_user']}@{variables['ansible_host']}:{variables['ansible_port']}",
        ssh_identity_file=variables["ansible_ssh_private_key_file"],
        ssh_extra_args=variables["ansible_ssh_common_args"].strip(),
        timeout=60,
        **connection,
    )


@pytest.fixture(scope="module")
def local_facts(fleet_host: tuple[str, dict[str, Any]], request: pytest.FixtureRequest) -> dict[str, Any]:
    """What ``ansible -m setup`` shows of the host's local facts."""
    inventory = request.config.getoption("ansible_inventory")
    arguments = ["-m", "ansible.builtin.setup", "-a", "filter=ansible_local gather_subset=!all"]
    answers = ansible(inventory, "--limit", fleet_host[0], *arguments)
    return answers[fleet_host[0]]["ansible_facts"]["ansible_local"]


@pytest.fixture(scope="module")
def playbook(fleet_host: tuple[str, dict[str, Any]]) -> Callable[..., plays.Play]:
    """Runs a playbook on the host: ``playbook(path, *arguments, **variables)``."""
    return lambda *arguments, **variables: plays.run_playbook(fleet_host[0], *arguments, **variables)
