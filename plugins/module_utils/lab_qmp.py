# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's monitor protocol, as much as the lab needs of it.

The file has no imports of the collection because a copy of it lies in every
guest's folder as the guest's remote control::

    python3 ~/.cache/fetchbpf/lab/default/fetchbpf-bookworm/qmp.py system_reset
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TextIO

SOCKET_NAME = "qmp.sock"


def execute(guest_dir: str, *commands: str | dict, timeout: float = 10.0) -> list[dict]:
    """Run monitor commands on the guest of ``guest_dir`` and return their results.

    A command is its name, or ``{"execute": NAME, "arguments": {...}}``. Raises
    OSError when the monitor cannot be reached or refuses a command.
    """
    # A socket's path has at most 107 bytes; through the folder's descriptor it is always short.
    folder = os.open(guest_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(timeout)
            monitor.connect(f"/proc/self/fd/{folder}/{SOCKET_NAME}")
            with monitor.makefile("rw", encoding="utf-8") as stream:
                _read(stream, "QMP")
                results = []
                for command in ("qmp_capabilities", *commands):
                    message = {"execute": command} if isinstance(command, str) else command
                    stream.write(json.dumps(message) + "\n")
                    stream.flush()
                    results.append(_read(stream, "return"))
                return results[1:]
    finally:
        os.close(folder)


def _read(stream: TextIO, key: str) -> dict:
    """Return the value of ``key`` from the next answer that is not an event."""
    for line in stream:
        answer = json.loads(line)
        if "error" in answer:
            raise OSError(f"QEMU refused: {answer['error'].get('desc')}")
        if key in answer:
            return answer[key]
    raise ConnectionError("QEMU closed its monitor")


if __name__ == "__main__":
    for result in execute(os.path.dirname(os.path.abspath(__file__)), *sys.argv[1:]):
        sys.stdout.write(json.dumps(result) + "\n")
