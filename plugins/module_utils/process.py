# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running a command while its messages are read."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from typing import Callable


def run_watched(command: Sequence[str], on_message: Callable[[str], None]) -> subprocess.CompletedProcess[str]:
    """Run ``command``; give each line it writes to stderr to ``on_message`` as it comes.

    Returns the exit code with all of stdout and stderr; nothing is raised for
    a command that fails.
    """
    said = []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace") as child,  # pylint: disable=ansible-bad-function
    ):
        for line in child.stderr or ():
            said.append(line)
            on_message(line.rstrip("\n"))
        child.wait()
        output.seek(0)
        return subprocess.CompletedProcess(command, child.returncode, output.read(), "".join(said))
