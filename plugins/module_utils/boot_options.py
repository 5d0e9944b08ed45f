# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of kernel_boot: its part on the controller and its part on the host take the same."""

from __future__ import annotations

from typing import Any

BOOT_OPTIONS: dict[str, dict[str, Any]] = {
    "release": {"type": "str", "required": True},
    "trial": {"type": "str", "default": ""},
    "boot_timeout": {"type": "int", "default": 600},
    "rescue_command": {"type": "raw", "default": []},
    "console_command": {"type": "raw", "default": []},
    "requested": {"type": "dict", "default": {}},
    "health_commands": {"type": "list", "elements": "raw", "default": []},
    "health_timeout": {"type": "int", "default": 120},
    "degraded_ok": {"type": "bool", "default": False},
}
