# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A patch series: a folder with a ``series`` file and the patches it names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .errors import FleetError
from .workspace import digest

_HUNK = re.compile(rb"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NO_FILE = "/dev/null"


class Patch(NamedTuple):
    """One patch: its name in the series, its text with LF line ends, the paths it reads or writes."""

    name: str
    data: bytes
    paths: tuple[str, ...]


class Series(NamedTuple):
    """The patches in order. ``hash`` is ``none`` for no series."""

    name: str
    hash: str
    patches: tuple[Patch, ...]


NO_SERIES = Series("none", "none", ())


def load_series(directory: str | Path) -> Series:
    """Read a series folder.

    Raises FleetError, naming the file and line, for an empty or missing
    ``series`` file, a patch that is missing, doubled, damaged, of mixed line
    ends, or that leaves the tree.
    """
    base = Path(directory)
    listing = base / "series"
    if not listing.is_file():
        raise FleetError(f"no series file: {listing}")
    patches: list[Patch] = []
    seen: dict[str, str] = {}
    for number, raw in enumerate(listing.read_text(encoding="utf-8").splitlines(), 1):
        name = re.sub(r"(^|\s)#.*", "", raw).strip()
        if not name:
            continue
        place = f"{listing}:{number}"
        if re.search(r"\s", name):
            raise FleetError(f"{place}: one patch name and nothing else in a line (all patches are -p1): {name!r}")
        if _leaves(name):
            raise FleetError(f"{place}: the patch is outside of the series folder: {name}")
        patch = load_patch(base / name, name, place)
        content = digest(patch.data)
        for key in (name, content):
            if key in seen:
                raise FleetError(f"{place}: {name} is in the series twice (first as {seen[key]})")
            seen[key] = f"{name}, line {number}"
        patches.append(patch)
    if not patches:
        raise FleetError(f"the series file names no patch: {listing}")
    return Series(base.name, series_hash(patches), tuple(patches))


def pack(series: Series) -> str:
    """Return the series as a text that ``unpack`` reads: it goes to another host as one file."""
    # Each byte is a character: patches need not be UTF-8.
    return json.dumps({"name": series.name, "patches": [[p.name, p.data.decode("latin-1")] for p in series.patches]})


def unpack(text: str) -> Series:
    """Return the series that ``pack`` made the text of."""
    packed = json.loads(text)
    data = [(name, content.encode("latin-1")) for name, content in packed["patches"]]
    patches = tuple(Patch(name, content, touched_paths(content, name)) for name, content in data)
    return Series(packed["name"], series_hash(patches), patches)


def series_hash(patches: Sequence[Patch]) -> str:
    """Return the sha256 over names and contents of the patches, in order."""
    return digest("".join(f"{patch.name}\0{digest(patch.data)}\n" for patch in patches))


def load_patch(path: Path, name: str, place: str) -> Patch:
    """Read one patch file; ``place`` is where it was named."""
    if not path.is_file():
        raise FleetError(f"{place}: the patch file is missing: {path}")
    data = with_lf(path.read_bytes(), name)
    return Patch(name, data, touched_paths(data, name))


def with_lf(data: bytes, name: str) -> bytes:
    """Return a patch that was saved with CRLF line ends as its LF twin.

    A CR that belongs to the content of a patched file stays. A patch whose own
    header lines have CRLF while other lines do not is refused.
    """
    if b"\r\n" not in data:
        return data
    lines = data.splitlines(keepends=True)
    header = re.compile(rb"^(diff --git |--- |\+\+\+ |@@ )")
    headers_crlf = {line.endswith(b"\r\n") for line in lines if header.match(line)}
    if headers_crlf == {False}:
        return data
    if all(line.endswith(b"\r\n") for line in lines if line.endswith(b"\n")):
        return data.replace(b"\r\n", b"\n")
    raise FleetError(f"{name}: some lines end with CRLF and some with LF; save the patch with LF line ends only")


def touched_paths(data: bytes, name: str) -> tuple[str, ...]:
    """Return the paths, without a/ and b/, that the patch reads or writes, sorted.

    Raises FleetError for a path outside of the tree, a hunk that is cut off,
    or a file that holds no patch.
    """
    paths: set[str] = set()
    lines = data.split(b"\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        hunk = _HUNK.match(line)
        if hunk:
            number = _after_hunk(lines, number, hunk, name)
            continue
        text = line.decode("utf-8", "surrogateescape")
        if text.startswith("diff --git "):
            pair = re.fullmatch(r'diff --git "?a/(.+?)"? "?b/(.+?)"?', text)
            if pair:
                paths.update(pair.groups())
        elif text.startswith(("rename from ", "rename to ", "copy from ", "copy to ")):
            paths.add(text.split(" ", 2)[2])
        elif text.startswith("+++ ") and lines[number - 2].startswith(b"--- "):
            for end in (lines[number - 2].decode("utf-8", "surrogateescape"), text):
                paths.add(_header_path(end[4:], name, number))
    paths.discard("")
    if not paths:
        raise FleetError(f"{name}: there is no patch in this file")
    for path in sorted(paths):
        if _leaves(path):
            raise FleetError(f"{name}: the patch leaves the source tree: {path}")
    return tuple(sorted(paths))


def _after_hunk(lines: list[bytes], number: int, hunk: re.Match[bytes], name: str) -> int:
    """Return the index after the hunk body that starts at ``number``."""
    start = number
    old, new = (int(count) if count is not None else 1 for count in hunk.groups())
    while old > 0 or new > 0:
        mark = lines[number][:1] if number < len(lines) else b"!"
        if mark in (b" ", b"") and number < len(lines) - (mark == b""):
            old, new = old - 1, new - 1
        elif mark == b"-":
            old -= 1
        elif mark == b"+":
            new -= 1
        elif mark != b"\\":
            raise FleetError(f"{name}:{start}: the hunk is cut off or damaged at line {number + 1}")
        number += 1
    return number


def _header_path(text: str, name: str, number: int) -> str:
    path = text.split("\t")[0].strip().strip('"')
    if path == _NO_FILE:
        return ""
    first, slash, rest = path.partition("/")
    if not slash or first not in ("a", "b"):
        if _leaves(path):
            raise FleetError(f"{name}: the patch leaves the source tree: {path}")
        raise FleetError(f"{name}:{number}: not a -p1 patch with a/ and b/ in its paths: {path}")
    return rest


def _leaves(path: str) -> bool:
    """Tell whether a path is absolute, goes up, or into git's own folder."""
    parts = Path(path).parts
    return path.startswith("/") or ".." in parts or ".git" in parts
