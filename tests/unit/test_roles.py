# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role documents is what it does: argument_specs and defaults say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())


def load(role: str, file: str) -> Any:
    return yaml.safe_load((ROOT / "roles" / role / file).read_text(encoding="utf-8")) or {}


def options(role: str) -> dict[str, dict[str, Any]]:
    return load(role, "meta/argument_specs.yml")["argument_specs"]["main"].get("options", {})


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_documented_with_its_value(role: str) -> None:
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert documented == load(role, "defaults/main.yml")


@pytest.mark.parametrize("role", ROLES)
def test_every_option_has_type_description_and_the_roles_prefix(role: str) -> None:
    for name, option in options(role).items():
        assert name.startswith(f"{role}_"), name
        assert {"type", "description"} <= set(option), name
        assert option["type"] != "list" or "elements" in option, name


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_a_readme(role: str) -> None:
    assert f"`{role}`" in (ROOT / "roles" / role / "README.md").read_text(encoding="utf-8").splitlines()[0]
