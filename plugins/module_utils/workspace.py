# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the cache: written whole, locked, hashed, with room for them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .errors import FleetError

_CHUNK = 1 << 20


def slug(text: str) -> str:
    """Return ``text`` as one path component that make(1) and a shell take as it is.

    >>> slug("linux-source-6.12=6.12.117-1~deb12u1")
    'linux-source-6.12-6.12.117-1-deb12u1'
    """
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.") or "unnamed"


def digest(data: bytes | str) -> str:
    """Return the sha256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def digest_file(path: str | os.PathLike[str]) -> str:
    """Return the sha256 of a file in hexadecimal."""
    total = hashlib.sha256()
    with open(path, "rb") as handle:
        while chunk := handle.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()


def write_whole(path: str | os.PathLike[str], data: bytes | str, mode: int = 0o644) -> None:
    """Write a file beside ``path`` and rename it, so that nobody sees half of it."""
    beside = f"{os.fspath(path)}.new"
    with open(beside, "wb") as handle:
        handle.write(data.encode() if isinstance(data, str) else data)
        os.fchmod(handle.fileno(), mode)
    os.replace(beside, path)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as JSON, whole."""
    write_whole(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the value of a JSON file, or None if there is no readable one."""
    try:
        with open(path, encoding="utf-8") as handle:
            return json.load(handle)
    except (OSError, ValueError):
        return None


def require_space(path: str | os.PathLike[str], need_mib: int, purpose: str) -> None:
    """Raise FleetError unless ``need_mib`` MiB are free where ``path`` is or will be."""
    where = Path(path).absolute()
    while not where.exists():
        where = where.parent
    free_mib = shutil.disk_usage(where).free >> 20
    if free_mib < need_mib:
        raise FleetError(
            f"not enough disk space for {purpose}: {need_mib} MiB needed, {free_mib} MiB free in {where}",
            need_mib=need_mib,
            free_mib=free_mib,
        )


class Lock:
    """An exclusive lock on something in the cache; ``fd`` is for child processes to hold too."""

    def __init__(
        self, path: Path, purpose: str, wait_seconds: float, tick: Callable[[str], None] | None = None
    ) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(self.fd, 32, 0).decode(errors="replace").strip() or "?"
                if time.monotonic() >= deadline:
                    os.close(self.fd)
                    raise FleetError(f"{purpose} is in use by another run (process {holder}): {path}") from None
                if tick:
                    tick(f"process {holder} uses {purpose}")
                time.sleep(0.5)
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock up."""
        os.close(self.fd)


@contextlib.contextmanager
def locked(
    path: str | os.PathLike[str],
    purpose: str,
    wait_seconds: float = 0,
    tick: Callable[[str], None] | None = None,
) -> Iterator[Lock]:
    """Hold an exclusive lock file; wait up to ``wait_seconds``, then raise FleetError.

    ``tick`` gets a line to show while waiting.
    """
    lock = Lock(Path(path), purpose, wait_seconds, tick)
    try:
        yield lock
    finally:
        lock.release()


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file or a whole directory, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
