# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests of the lab for tests, apart from the lab that a user may have running.

``FETCHBPF_TEST_ARTIFACT`` names the kernel artifact to install, else the newest of series v6.12 is taken.
``FETCHBPF_TEST_GUEST`` names the guest of inventories/lab to use, else fetchbpf-bookworm.
``FETCHBPF_TEST_IMAGE`` is a base image to take as it is; without it the lab makes the one that its recipe asks for.
``FETCHBPF_TEST_KEEP=1`` leaves the guest running afterwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import guest as guests
import pytest
from guest import CACHE, Guest

SERIES = "v6.12"


def pytest_configure(config: pytest.Config) -> None:
    """Let the steps of a long test appear while it runs."""
    guests.capture = config.pluginmanager.getplugin("capturemanager")


@pytest.fixture(scope="session")
def artifact() -> Path:
    """The kernel that is installed, made by kernel_build."""
    named = os.environ.get("FETCHBPF_TEST_ARTIFACT")
    if named:
        return Path(named)
    found = [
        path
        for path in (CACHE / "artifacts").glob("*/manifest.json")
        if json.loads(path.read_text(encoding="utf-8"))["series"]["name"] == SERIES
    ]
    if not found:
        pytest.fail(f"no {SERIES} artifact in {CACHE}/artifacts; run make deploy first, or set FETCHBPF_TEST_ARTIFACT")
    return max(found, key=lambda path: path.stat().st_mtime).parent


@pytest.fixture(scope="module")
def guest(artifact: Path) -> Iterator[Guest]:
    """A guest with a fresh disk; it ends with the module."""
    name = os.environ.get("FETCHBPF_TEST_GUEST", "fetchbpf-bookworm")
    guest = Guest(name, CACHE / "lab/integration", artifact)
    guest.playbook("playbooks/lab_down.yml", limit=False)
    image = os.environ.get("FETCHBPF_TEST_IMAGE")
    up = guest.playbook("tests/integration/vm/up.yml" if image else "playbooks/lab_up.yml", limit=False, image=image)
    assert "failed=0" in up.output, up.output
    yield guest
    if not os.environ.get("FETCHBPF_TEST_KEEP"):
        guest.playbook("playbooks/lab_down.yml", limit=False)
