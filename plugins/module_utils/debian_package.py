# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages of a built kernel and of its tools, assembled with dpkg-deb alone."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from .errors import FleetError
from .process import run

_MAINTAINER = "The fetchbpf.fleet authors <fetchbpf@invalid>"
_KERNEL_SCRIPT = """#!/bin/sh
set -e
export DEB_MAINT_PARAMS="$*"
export INITRD={initrd}
{before}
dirs=
for dir in /etc/kernel/{script}.d /usr/share/kernel/{script}.d; do
\t[ ! -d "$dir" ] || dirs="$dirs $dir"
done
# Debian's run-parts takes one directory: each has its own turn.
for dir in $dirs; do
\trun-parts --arg={release} --arg=/boot/{image}-{release} "$dir"
done
{after}
"""
# depmod makes files that no package owns; without this they outlive the kernel.
_FORGET_MODULES = """if [ "$1" = remove ] || [ "$1" = purge ]; then
\trm -f /lib/modules/{release}/modules.*
\trmdir --ignore-fail-on-non-empty /lib/modules/{release} 2>/dev/null || :
fi"""
_TOOLS_SCRIPT = """#!/bin/sh
set -e
if [ -e /lib/modules/{release}/modules.order ]; then
\tdepmod {release} || :
fi
"""


class Package(NamedTuple):
    """A package to make: control fields and maintainer scripts."""

    name: str
    version: str
    architecture: str
    description: str
    depends: str
    scripts: dict[str, str]


def kernel_scripts(release: str, image: str, initrd: bool) -> dict[str, str]:
    """Return the maintainer scripts of a kernel package: they run the host's kernel hooks, as Debian's own do."""
    scripts = {}
    for script in ("preinst", "postinst", "prerm", "postrm"):
        scripts[script] = _KERNEL_SCRIPT.format(
            script=script,
            release=release,
            image=image,
            initrd="Yes" if initrd else "No",
            before=f"depmod {release} || :" if script == "postinst" else "",
            after=_FORGET_MODULES.format(release=release) if script == "postrm" else "",
        )
    return scripts


def tools_scripts(release: str) -> dict[str, str]:
    """Return the maintainer scripts of a package with a module: they tell depmod."""
    text = _TOOLS_SCRIPT.format(release=release)
    return {"postinst": text, "postrm": text}


def make_package(package: Package, root: Path, folder: Path, epoch: int) -> Path:
    """Make a .deb in ``folder`` of the files below ``root``; the same files give the same bytes."""
    control = root / "DEBIAN"
    shutil.rmtree(control, ignore_errors=True)
    control.mkdir(parents=True)
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    sums = "".join(f"{_md5(path)}  {path.relative_to(root)}\n" for path in files)
    size = sum(path.stat().st_size for path in files) // 1024 + 1
    fields = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": package.architecture,
        "Section": "kernel",
        "Priority": "optional",
        "Maintainer": _MAINTAINER,
        "Installed-Size": str(size),
        "Depends": package.depends,
        "Description": package.description,
    }
    text = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    (control / "control").write_text(text, encoding="utf-8")
    (control / "md5sums").write_text(sums, encoding="utf-8")
    for name, script in package.scripts.items():
        (control / name).write_text(script, encoding="utf-8")
        (control / name).chmod(0o755)
    _plain_modes(root)
    target = folder / f"{package.name}_{package.version}_{package.architecture}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(target)]
    result = run(command, env=dict(os.environ, LC_ALL="C", SOURCE_DATE_EPOCH=str(epoch)))
    if result.returncode:
        raise FleetError(f"dpkg-deb cannot make {package.name}: {result.stderr.strip()}")
    return target


def _md5(path: Path) -> str:
    """Return the md5 that dpkg's own file lists want."""
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _plain_modes(root: Path) -> None:
    """Give all files modes that do not depend on the umask of the build."""
    root.chmod(0o755)
    for path in root.rglob("*"):
        if path.is_symlink():
            continue
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)
