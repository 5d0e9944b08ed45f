# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find in a serial console's text why a boot failed."""

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
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][0-9A-Za-z]?|[\x00-\x08\x0b-\x1f\x7f]")


def new_text(before: str, after: str) -> str:
    """Return what a console printed since ``before`` was read, all of ``after`` if it is not a continuation."""
    return after[len(before) :] if after.startswith(before) else after


def excerpt(text: str) -> str:
    """Return the lines around the most telling message, else the last lines; empty for an empty console.

    >>> excerpt("a\\nKernel panic - not syncing: VFS\\nb")
    'a\\nKernel panic - not syncing: VFS\\nb'
    """
    lines = [CONTROL.sub("", line).rstrip() for line in re.split(r"\r*\n|\r", text)]
    lines = [line for line in lines if line]
    for pattern in TELLING:
        for number, line in enumerate(lines):
            if re.search(pattern, line):
                return "\n".join(lines[max(number - BEFORE, 0) : number + AFTER + 1])
    return "\n".join(lines[-TAIL:])
