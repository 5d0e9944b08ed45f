# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A source tree that is a pristine tree plus a series, and stays so.

Beside the tree ``T`` lie ``T.state.json`` (what it was made of) and
``T.index.json`` (size and mtime of each file as we left it). The pristine tree
is only read: the tree is a copy of its own, so no editor reaches the pristine
files through it.
"""

from __future__ import annotations

import difflib
import filecmp
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .errors import FleetError
from .process import run
from .series import Patch, Series
from .workspace import digest_file, locked, read_json, remove, require_space, write_json

_SCHEMA = 1
_SHOWN = 10
# A build uses the tree for as long as it takes.
_WAIT_SECONDS = 7200
# A kernel tree is 1.7 GiB in 2026; the copy is one more.
TREE_MIB = 2200

Tick = Callable[[str], None]


class TreeUpdate(NamedTuple):
    """What a run did or would do: paths relative to the tree, sorted; ``created`` for a new tree."""

    created: bool
    written: tuple[str, ...]
    removed: tuple[str, ...]
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Tell whether the tree was not as wanted."""
        return self.created or bool(self.written or self.removed)


_UNCHANGED = TreeUpdate(False, (), (), "", "")


class PatchedTree:
    """The tree at ``tree``, made from ``pristine``, whose content is named by ``source_id``."""

    def __init__(self, tree: str | Path, pristine: str | Path, source_id: str, tick: Tick | None = None) -> None:
        self.tree = Path(tree)
        self.pristine = Path(pristine)
        self.source_id = source_id
        self._tick = tick or (lambda line: None)
        self._state_file = self.tree.with_name(f"{self.tree.name}.state.json")
        self._index_file = self.tree.with_name(f"{self.tree.name}.index.json")

    def sync(self, series: Series, discard_edits: bool = False, dry_run: bool = False) -> TreeUpdate:
        """Make the tree the pristine one plus ``series``; write only files that differ.

        All patches are applied beside before the tree is touched, so a patch
        that fails leaves the tree as it is. Raises FleetError for that, and for
        a tree that was edited by hand unless ``discard_edits``.
        """
        if dry_run:
            return self._sync(series, discard_edits, dry_run)
        if self._is_made_of(series) and not self._edits(read_json(self._index_file)):
            # Nothing to write, so no need to wait for a build that uses the tree.
            return _UNCHANGED
        with locked(self.tree.with_name(f"{self.tree.name}.lock"), f"the tree {self.tree}", _WAIT_SECONDS, self._tick):
            for stale in ("new", "scratch-*"):
                for path in self.tree.parent.glob(f".{self.tree.name}.{stale}"):
                    remove(path)
            return self._sync(series, discard_edits, dry_run)

    def _sync(self, series: Series, discard_edits: bool, dry_run: bool) -> TreeUpdate:
        state = read_json(self._state_file) or {}
        index = read_json(self._index_file)
        known = self._is_known(state)
        edits = self._edits(index) if known else []
        if edits and not discard_edits:
            shown = ", ".join(edits[:_SHOWN]) + (f" and {len(edits) - _SHOWN} more" if len(edits) > _SHOWN else "")
            raise FleetError(
                f"files of {self.tree} were edited by hand: {shown}. Make the edits a patch of the series, or "
                "discard them with kernel_source_discard_edits: true",
                edits=edits,
            )
        if self._is_made_of(series) and not edits:
            return _UNCHANGED
        parent = self.tree.parent if self.tree.parent.is_dir() and not dry_run else None
        with tempfile.TemporaryDirectory(prefix=f".{self.tree.name}.scratch-", dir=parent) as scratch:
            patched = self._apply(series, Path(scratch))
            if not self.tree.is_dir():
                return self._create(patched, series, dry_run)
            if known and state["source_id"] == self.source_id:
                candidates = set(state["touched"]) | set(patched) | set(edits)
            else:
                self._tick("compare all files")
                candidates = set(patched) | set(list_files(self.pristine)) | set(list_files(self.tree))
            return self._update(candidates, patched, series, dry_run, index if known else None)

    def _is_known(self, state: dict[str, Any]) -> bool:
        """Tell whether the tree was left whole by a run that wrote down what it is made of."""
        return bool(state.get("complete")) and self._index_file.is_file() and self.tree.is_dir()

    def _is_made_of(self, series: Series) -> bool:
        """Tell whether the tree is that source with that series, but for edits."""
        state = read_json(self._state_file) or {}
        wanted = (self.source_id, series.hash)
        return self._is_known(state) and (state["source_id"], state["series_hash"]) == wanted

    def _edits(self, index: dict[str, list[int]]) -> list[str]:
        """Return the paths that are not as we left them."""
        now = list_files(self.tree)
        return sorted(path for path in now.keys() | index.keys() if now.get(path) != index.get(path))

    def _apply(self, series: Series, scratch: Path) -> dict[str, Path | None]:
        """Apply the series to copies in ``scratch``; return the result of each touched path (None: no file)."""
        touched = sorted({path for patch in series.patches for path in patch.paths})
        content = scratch / "tree"
        content.mkdir()
        for path in touched:
            source = self.pristine / path
            if os.path.lexists(source):
                (content / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, content / path, follow_symlinks=False)
        for patch in series.patches:
            self._tick(f"apply {patch.name}")
            apply_patch(patch, content, scratch)
        return {path: content / path if os.path.lexists(content / path) else None for path in touched}

    def _create(self, patched: dict[str, Path | None], series: Series, dry_run: bool) -> TreeUpdate:
        diff = self._diff(patched, self.pristine)
        if dry_run:
            return TreeUpdate(True, tuple(sorted(patched)), (), *diff)
        require_space(self.tree, TREE_MIB, "the patched kernel tree")
        self._tick("copy the pristine tree")
        self.tree.parent.mkdir(parents=True, exist_ok=True)
        new = self.tree.with_name(f".{self.tree.name}.new")
        new.mkdir()
        entries = [str(entry) for entry in sorted(self.pristine.iterdir()) if entry.name != ".git"]
        result = run(["cp", "-a", "--reflink=auto", "--no-preserve=ownership", "-t", str(new), *entries])
        if result.returncode:
            raise FleetError(f"cannot copy {self.pristine}: {result.stderr.strip()}")
        for path, source in patched.items():
            _put(source, new / path)
        os.rename(new, self.tree)
        self._finish(patched, series)
        return TreeUpdate(True, tuple(sorted(patched)), (), *diff)

    def _update(
        self,
        candidates: set[str],
        patched: dict[str, Path | None],
        series: Series,
        dry_run: bool,
        index: dict[str, list[int]] | None,
    ) -> TreeUpdate:
        wanted: dict[str, Path | None] = {}
        for path in sorted(candidates):
            source = patched.get(path, self.pristine / path)
            source = source if source is not None and os.path.lexists(source) else None
            if not _same(source, self.tree / path):
                wanted[path] = source
        diff = self._diff({path: wanted[path] for path in wanted if path in patched or index is not None}, self.tree)
        update = TreeUpdate(
            False,
            tuple(path for path, source in wanted.items() if source is not None),
            tuple(path for path, source in wanted.items() if source is None),
            *diff,
        )
        if dry_run:
            return update
        if wanted:
            write_json(self._state_file, {"schema": _SCHEMA, "complete": False})
        for path, source in wanted.items():
            _put(source, self.tree / path)
            if source is None:
                _prune(self.tree, (self.tree / path).parent)
        self._finish(patched, series)
        return update

    def _finish(self, patched: dict[str, Path | None], series: Series) -> None:
        """Write down what the tree is now made of."""
        write_json(self._index_file, list_files(self.tree))
        state = {
            "schema": _SCHEMA,
            "complete": True,
            "source_id": self.source_id,
            "series_name": series.name,
            "series_hash": series.hash,
            "patches": [patch.name for patch in series.patches],
            "touched": {path: digest_file(source) if source else None for path, source in patched.items()},
        }
        write_json(self._state_file, state)

    @staticmethod
    def _diff(wanted: dict[str, Path | None], old: Path) -> tuple[str, str]:
        """Return before and after texts of the wanted files, for --diff."""
        before, after = [], []
        for path, source in sorted(wanted.items()):
            texts = [_text(old / path), _text(source)]
            diff = difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), lineterm="", n=0)
            if texts[0] != texts[1] and any(diff):
                before.append(f"# {path}\n{texts[0]}")
                after.append(f"# {path}\n{texts[1]}")
        return "".join(before), "".join(after)


def apply_patch(patch: Patch, content: Path, scratch: Path) -> None:
    """Apply one patch in ``content`` with its whole context (fuzz 0).

    Raises FleetError that names the patch, the file and the hunk.
    """
    patch_file = scratch / "current.patch"
    patch_file.write_bytes(patch.data)
    command = ["git", "apply", "--verbose", "-p1", "--whitespace=nowarn", str(patch_file)]
    # Neither a repository around the cache nor the user's git settings may change what a patch does.
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": str(scratch),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(content.parent.resolve()),
    }
    result = run(command, cwd=content, env=environment)
    if result.returncode == 0:
        return
    # The second try says which hunks are at fault; it runs in the scratch copy, which is thrown away.
    retry = run([*command[:2], "--reject", *command[2:]], cwd=content, env=environment)
    raise FleetError(f"{patch.name} does not apply: {_reason(patch, retry.stderr or result.stderr)}", patch=patch.name)


def _reason(patch: Patch, stderr: str) -> str:
    """Return file and hunk of the first failure in the output of ``git apply --reject --verbose``."""
    errors = [line[len("error: ") :] for line in stderr.splitlines() if line.startswith("error: ")]
    current = ""
    for line in stderr.splitlines():
        applying = re.match(r"Applying patch (.+) with \d+ rejects?\.\.\.", line)
        rejected = re.match(r"Rejected hunk #(\d+)", line)
        if applying:
            current = applying[1]
        elif rejected and current:
            header = _hunk_header(patch, current, int(rejected[1]))
            return f"{current}, hunk {rejected[1]}{f' ({header})' if header else ''}; nothing was changed"
    reason = next((line for line in errors if not line.startswith("while searching")), "")
    return f"{reason or stderr.strip()[:300]}; nothing was changed"


def _hunk_header(patch: Patch, path: str, number: int) -> str:
    """Return the @@ line of the ``number``-th hunk of ``path`` in the patch."""
    current, count = "", 0
    for line in patch.data.decode("utf-8", "replace").splitlines():
        if line.startswith("diff --git "):
            current, count = line.rpartition(" b/")[2], 0
        elif line.startswith("@@ ") and current == path:
            count += 1
            if count == number:
                return line[:100]
    return ""


def list_files(tree: Path) -> dict[str, list[int]]:
    """Return size, mtime in ns and executable bit of each file and link below ``tree``."""
    found: dict[str, list[int]] = {}
    pending = [("", str(tree))]
    while pending:
        prefix, directory = pending.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".git":
                        pending.append((f"{prefix}{entry.name}/", entry.path))
                else:
                    stat = entry.stat(follow_symlinks=False)
                    found[prefix + entry.name] = [stat.st_size, stat.st_mtime_ns, stat.st_mode & 0o100]
    return found


def _same(source: Path | None, target: Path) -> bool:
    """Tell whether content, kind and executable bit of two paths are equal; None stands for no file."""
    if source is None or not os.path.lexists(target):
        return source is None and not os.path.lexists(target)
    if source.is_symlink() or target.is_symlink():
        return source.is_symlink() and target.is_symlink() and os.readlink(source) == os.readlink(target)
    if (source.stat().st_mode ^ target.stat().st_mode) & 0o100:
        return False
    return filecmp.cmp(source, target, shallow=False)


def _put(source: Path | None, target: Path) -> None:
    """Make ``target`` a fresh copy of ``source`` by rename; its mtime is now, so that make sees the change."""
    if source is None:
        remove(target)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.fetchbpf-new")
    remove(beside)
    shutil.copy(source, beside, follow_symlinks=False)
    os.replace(beside, target)


def _prune(tree: Path, directory: Path) -> None:
    """Remove directories that a removed file left empty."""
    while directory != tree and directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()
        directory = directory.parent


def _text(path: Path | None) -> str:
    if path is None or not os.path.lexists(path) or path.is_symlink():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")
