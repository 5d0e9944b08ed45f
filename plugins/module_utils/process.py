# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place that starts processes; all of them end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any, Callable

from .errors import FleetError

_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Ask the kernel to end this process when its parent is gone (for ``preexec_fn``)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command. ``options`` are those of Popen. Raises FleetError when the command does not exist."""
    try:
        return subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv, preexec_fn=_die_with_parent, **options
        )
    except FileNotFoundError as exc:
        raise FleetError(f"the command {argv[0]} is missing on this host") from exc


def run(argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output as text; the caller judges the return code.

    ``options`` are those of Popen, and ``input``. Raises FleetError when the
    command does not exist.
    """
    given = options.pop("input", None)
    options.setdefault("env", dict(os.environ, LC_ALL="C"))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if given is not None:
        pipes["stdin"] = subprocess.PIPE
    with start(argv, text=True, errors="replace", **pipes, **options) as child:
        output, errors = child.communicate(given)
        return subprocess.CompletedProcess(argv, child.returncode, output, errors)


def run_watched(argv: Sequence[str], on_message: Callable[[str], None]) -> subprocess.CompletedProcess[str]:
    """Run a command; give each line it writes to stderr to ``on_message`` as it comes.

    Returns the exit code with all of stdout and stderr; nothing is raised for
    a command that fails.
    """
    said = []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        start(argv, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace") as child,
    ):
        for line in child.stderr or ():
            said.append(line)
            on_message(line.rstrip("\n"))
        child.wait()
        output.seek(0)
        return subprocess.CompletedProcess(argv, child.returncode, output.read(), "".join(said))
