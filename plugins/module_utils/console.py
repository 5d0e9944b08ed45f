# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a serial console: its lines, and those that tell why a boot failed."""

from __future__ import annotations

import re

# The most telling first: a panic explains the messages before it.
TELLING = (
    r"Kernel panic - not syncing",
    r"VFS: Cannot open root device|Gave up waiting for|ALERT!",
    r"\b(?:BUG|Oops|general protection fault)\b",
    r"error: .*(?:not found|invalid|unknown|no such)|you need to load the kernel first",
    r"fetchbpf: trial kernel not confirmed",
    r"emergency mode|Failed to start|Dependency failed|watchdog",
)
BEFORE, AFTER = 4, 6
TAIL = 15


def clean(text: str) -> list[str]:
    """Return the lines that say something, without terminal codes and without what GRUB draws its menu with."""
    # Moving the cursor is how GRUB begins a line.
    text = re.sub(r"\x1b\[[0-9;]*H", "\n", text)
    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|.)", "", text)
    text = re.sub(r"[^\n\t\x20-\x7e\u00a0-\U0010ffff]", "", text.replace("\r", "\n"))
    return [line.rstrip() for line in text.split("\n") if re.search(r"\w", line)]


def new_text(before: str, after: str) -> str:
    """Return what a console printed since ``before`` was read, all of ``after`` if it is not a continuation."""
    return after[len(before) :] if after.startswith(before) else after


def excerpt(text: str) -> str:
    """Return the lines around the most telling message, else the last lines; empty for an empty console.

    >>> excerpt("a\\nKernel panic - not syncing: VFS\\nb")
    'a\\nKernel panic - not syncing: VFS\\nb'
    """
    lines = clean(text)
    for pattern in TELLING:
        for number, line in enumerate(lines):
            if re.search(pattern, line):
                return "\n".join(lines[max(number - BEFORE, 0) : number + AFTER + 1])
    return "\n".join(lines[-TAIL:])
