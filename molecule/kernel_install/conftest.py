# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests before and after the converge share: the guest, and what it was like when it came."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from guest import Guest  # noqa: E402

MEMORY = Path(os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY", "."))


@pytest.fixture(scope="module")
def guest(fleet_host: tuple[str, dict[str, Any]]) -> Guest:
    """The scenario's guest, with the kernel that prepare.yml wrote down."""
    return Guest(*fleet_host, json.loads((MEMORY / "kernel.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def as_it_came(guest: Guest) -> dict[str, Any]:
    """The guest's kernel and files before anything was installed, remembered until its end."""
    note = MEMORY / "as_it_came.json"
    if not note.exists() or "fetchbpf" not in guest.run("ls -R /boot /var/lib"):
        found = {"release": guest.running(), "files": guest.snapshot()}
        note.write_text(json.dumps(found), encoding="utf-8")
    return json.loads(note.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def old(as_it_came: dict[str, Any]) -> str:
    """Release that the guest came with."""
    return as_it_came["release"]


@pytest.fixture(scope="module")
def before(as_it_came: dict[str, Any]) -> dict[str, str]:
    """The guest's files as they came."""
    return as_it_came["files"]
