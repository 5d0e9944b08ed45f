# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib

import pytest
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.progress_action import ProgressAction


@pytest.mark.parametrize("name", ["kernel_source", "kernel_patch", "kernel_build"])
def test_modules_that_take_long_show_progress(name: str) -> None:
    base = "ansible_collections.fetchbpf.fleet.plugins"
    action = importlib.import_module(f"{base}.action.{name}")
    module = importlib.import_module(f"{base}.modules.{name}")
    assert issubclass(action.ActionModule, ProgressAction)
    assert "\n  progress_file:\n" in module.DOCUMENTATION
