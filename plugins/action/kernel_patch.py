# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module of the same name and prints its progress."""

from __future__ import annotations

from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.progress_action import ProgressAction


class ActionModule(ProgressAction):
    """See the module's documentation."""
