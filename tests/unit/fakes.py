# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel tree, patches and modules small enough for unit tests."""

from __future__ import annotations

import contextlib
import difflib
import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args

FAKELINUX = Path(__file__).with_name("fakelinux")


def make_tree(path: Path) -> Path:
    """Copy the fake kernel tree to ``path``."""
    shutil.copytree(FAKELINUX, path)
    return path


def written(path: Path) -> tuple[int, int]:
    """Return what every write of a file changes: inode and mtime (a whole stat has its time of reading, too)."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def make_patch(before: dict[str, str], after: dict[str, str], message: str = "change") -> str:
    """Return a patch in the form of ``git format-patch`` between two sets of files."""
    text = f"From: A <a@example.org>\nSubject: [PATCH] {message}\n\n--- a/not the patch yet\n---\n files\n\n"
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        text += f"diff --git a/{path} b/{path}\n"
        text += "new file mode 100644\n" if old is None else "deleted file mode 100644\n" if new is None else ""
        names = (f"a/{path}" if old is not None else "/dev/null", f"b/{path}" if new is not None else "/dev/null")
        lines = difflib.unified_diff((old or "").splitlines(True), (new or "").splitlines(True), *names)
        text += "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    return text + "-- \n2.39.5\n\n"


def make_series(folder: Path, *patches: str) -> Path:
    """Write a series folder with the patches as 0001.patch, 0002.patch, …"""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{number:04}.patch" for number in range(1, len(patches) + 1)]
    for name, text in zip(names, patches):
        (folder / name).write_bytes(text.encode())
    (folder / "series").write_text("# the series\n" + "".join(f"{name}\n" for name in names))
    return folder


def run_module(module: Any, arguments: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Run a module's main() in this process and return its result, ``failed`` included."""
    printed: list[dict[str, Any]] = []

    def leave(self: Any, **result: Any) -> None:
        printed.append(result)
        raise SystemExit

    def fail(self: Any, msg: str, **result: Any) -> None:
        leave(self, failed=True, msg=msg, **result)

    arguments = dict(json.loads(json.dumps(arguments, default=str)), _ansible_check_mode=check)
    replaced = mock.patch.multiple(basic.AnsibleModule, exit_json=leave, fail_json=fail)
    with patch_module_args(arguments), replaced, contextlib.suppress(SystemExit):
        module.main()
    return printed[-1]
