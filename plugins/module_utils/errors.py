# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception that a user is meant to read."""

from __future__ import annotations

from typing import Any


class FleetError(Exception):
    """An error of input or environment, worded for the user.

    The message names the file, line, symbol or argument that is wrong.
    ``details`` are extra keys for ``fail_json``.
    """

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details
