# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings the module's own code and the cases into all guests and runs them there, at the same time."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from plays import Play, run_on

SCENARIO = Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[1]
CACHE = Path(os.environ.get("FETCHBPF_CACHE") or Path.home() / ".cache/fetchbpf")
KEY = CACHE / "images/id_ed25519"
OPTIONS = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o IdentitiesOnly=yes"
NAMESPACE = "ansible_collections/fetchbpf/fleet/plugins/module_utils"


def examples() -> list[dict[str, Any]]:
    """Return the documentation's examples: the module's options, and the lines that are shown under them."""
    found: list[dict[str, Any]] = []
    blocks = (ROOT / "docs/probe_events.md").read_text(encoding="utf-8").split("```")[1::2]
    for block in blocks:
        language, _newline, text = block.partition("\n")
        if language == "yaml":
            found.append({"options": yaml.safe_load(text)[0]["fetchbpf.fleet.probe_events"], "lines": []})
        elif language == "dynamic_events":
            found[-1]["lines"] = text.splitlines()
    return found


def case_names() -> list[str]:
    """Return the names of the cases, which only the guests can run."""
    tree = ast.parse((SCENARIO / "guest/cases.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    return [function.name for function in functions]


def bundle() -> bytes:
    """Return a tar of the module's code and the cases, as they lie in the guest."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in (ROOT / "plugins/module_utils").glob("*.py"):
            archive.add(path, f"{NAMESPACE}/{path.name}")
        for path in (SCENARIO / "guest").glob("*.py"):
            archive.add(path, path.name)
        text = json.dumps(examples()).encode()
        entry = tarfile.TarInfo("examples.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return buffer.getvalue()


@pytest.fixture(scope="session")
def ports(request: pytest.FixtureRequest) -> dict[str, int]:
    """The guests' ports, by their names."""
    inventory = request.config.getoption("ansible_inventory")
    command = [
        "ansible",
        "kvm_guests",
        "-i",
        inventory,
        "-m",
        "ansible.builtin.debug",
        "-a",
        "msg=port{{ lab_guest.port }}",
    ]
    environment = dict(os.environ, ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1")
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return {name: int(port) for name, port in re.findall(r"^(\S+) \| SUCCESS.*?port(\d+)", output, re.M | re.S)}


@pytest.fixture(scope="session")
def outcomes(ports: dict[str, int]) -> dict[str, dict[str, Any]]:
    """What came of each case, by guest."""
    running = {}
    for name, port in ports.items():
        ssh = ["ssh", *OPTIONS.split(), "-i", str(KEY), "-p", str(port), "root@127.0.0.1"]
        unpack = "rm -rf /root/cases && mkdir /root/cases && tar -C /root/cases -xzf -"
        subprocess.run([*ssh, unpack], input=bundle(), check=True)
        command = "cd /root/cases && PYTHONPATH=. python3 cases.py"
        running[name] = subprocess.Popen([*ssh, command], stdout=subprocess.PIPE, text=True)
    found: dict[str, dict[str, Any]] = {}
    for name, process in running.items():
        output = process.communicate()[0]
        assert process.returncode == 0, output
        found[name] = {entry["case"]: entry for entry in map(json.loads, output.splitlines())}
    return found


@pytest.fixture(scope="session")
def told(ports: dict[str, int]) -> dict[str, Play]:
    """What the play about the info module said of each guest."""
    return run_on(list(ports), "molecule/probe_events/info.yml")


@pytest.fixture(scope="session")
def removals(ports: dict[str, int]) -> list[dict[str, Play]]:
    """What removing all events did to each guest, and doing it again."""
    return [run_on(list(ports), "playbooks/probe_events.yml", probe_events_state="absent") for _again in range(2)]


# Cases load and unload modules, which what was declared must not have seen yet; removing it all ends a guest's tests.
_LATER = {
    "test_case": 1,
    "test_the_info_module_tells_all": 2,
    "test_nothing_is_left_when_it_is_removed": 3,
    "test_a_kernel_that_is_locked_down_is_refused": 4,
}


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Look at all guests as the reboot left them before anything else is done to one of them."""
    items.sort(key=lambda item: _LATER.get(item.originalname, 0))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the tests every case."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", case_names())


@pytest.fixture(scope="module")
def guest(fleet_host: tuple[str, dict[str, Any]]) -> str:
    """The guest's name."""
    return fleet_host[0]
