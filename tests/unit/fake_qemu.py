# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for qemu-system-x86_64: detaches, answers on the guest's port and on its monitor.

FAKE_QEMU says how the guest behaves: `answers`, `silent` (never greets on
its port), `dies` (ends after a moment), `fails` (does not even start),
`lost` (dies if it is to go on from a saved memory), `full` (cannot save it).
Each start adds a line to the file FAKE_QEMU_LOG.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path


def main(words: list[str]) -> None:
    behaviour = os.environ.get("FAKE_QEMU", "answers")
    if words == ["--version"]:
        sys.stdout.write(os.environ.get("FAKE_QEMU_VERSION", "QEMU emulator version 7.2") + "\n")
        return
    if behaviour == "lost":
        behaviour = "dies" if "-incoming" in words else "answers"
    with open(os.environ["FAKE_QEMU_LOG"], "a", encoding="utf-8") as log:
        log.write(" ".join(words) + "\n")
    if behaviour == "fails":
        sys.exit("qemu-system-x86_64: Could not set up host forwarding rule")
    port = int(re.search(r"hostfwd=tcp:127\.0\.0\.1:(\d+)-", " ".join(words))[1])  # type: ignore[index]
    ssh = listen(socket.AF_INET, ("127.0.0.1", port))
    monitor = listen(socket.AF_UNIX, "qmp.sock")
    if os.fork():
        return
    os.setsid()
    Path("qemu.pid").write_text(str(os.getpid()), encoding="utf-8")
    with open("console.log", "a", encoding="utf-8") as console:
        console.write("\x1b[2;24HGNU GRUB\r\n\x1b[1mKernel panic - not syncing: fake\x1b[0m\r\n")
        if behaviour == "panics":
            console.write("[    7.1] ---[ end Kernel panic - not syncing: fake ]---\r\n")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    if behaviour == "dies":
        time.sleep(0.3)
        os._exit(1)
    threading.Thread(target=greet, args=(ssh, behaviour), daemon=True).start()
    serve(monitor, behaviour)


def listen(family: int, address: object) -> socket.socket:
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(address)
    server.listen()
    return server


def greet(server: socket.socket, behaviour: str) -> None:
    while True:
        connection, _address = server.accept()
        with connection:
            if behaviour in ("answers", "full"):
                connection.sendall(b"SSH-2.0-fake\r\n")


def serve(server: socket.socket, behaviour: str) -> None:
    while True:
        connection, _address = server.accept()
        with connection, contextlib.suppress(OSError), connection.makefile("rw") as stream:
            answer(stream, {"QMP": {}})
            for line in stream:
                message = json.loads(line)
                command = message["execute"]
                if command == "migrate":
                    subprocess.run(message["arguments"]["uri"].removeprefix("exec:"), shell=True, input=b"memory")
                with open("commands", "a", encoding="utf-8") as log:
                    log.write(f"{command}\n")
                # An event may come in between.
                answer(stream, {"event": "NOTHING"})
                status = {"status": "failed", "error-desc": "full"} if behaviour == "full" else {"status": "completed"}
                result = status if command == "query-migrate" else {}
                answer(stream, {"error": {"desc": "unknown"}} if command == "nonsense" else {"return": result})
                if command in ("quit", "system_powerdown"):
                    os._exit(0)


def answer(stream: object, value: dict) -> None:
    stream.write(json.dumps(value) + "\n")  # type: ignore[attr-defined]
    stream.flush()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(sys.argv[1:])
