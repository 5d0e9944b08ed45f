# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a build host must have: commands and headers, and the Debian packages they come from."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .errors import FleetError


class Need(NamedTuple):
    """A command or a header below the include path, and the Debian package with it."""

    item: str
    package: str

    def met(self, include: str = "/usr/include") -> bool:
        """Tell whether it is there."""
        if self.item.endswith(".h"):
            here = Path(include)
            return (here / self.item).is_file() or any(here.glob(f"*-linux-gnu*/{self.item}"))
        return shutil.which(self.item) is not None


BUILD = (
    Need("make", "make"),
    Need("flex", "flex"),
    Need("bison", "bison"),
    Need("bc", "bc"),
    Need("git", "git"),
    Need("tar", "tar"),
    Need("xz", "xz-utils"),
    Need("perl", "perl"),
    Need("depmod", "kmod"),
    Need("dpkg-deb", "dpkg"),
    Need("stdio.h", "libc6-dev"),
    Need("libelf.h", "libelf-dev"),
    Need("openssl/opensslv.h", "libssl-dev"),
)
CCACHE = Need("ccache", "ccache")
# Settings whose build runs a command of its own.
BY_CONFIG = {
    "CONFIG_KERNEL_LZ4": Need("lz4", "lz4"),
    "CONFIG_KERNEL_ZSTD": Need("zstd", "zstd"),
    "CONFIG_KERNEL_LZO": Need("lzop", "lzop"),
    "CONFIG_KERNEL_BZIP2": Need("bzip2", "bzip2"),
    "CONFIG_MODULE_COMPRESS_ZSTD": Need("zstd", "zstd"),
    "CONFIG_DEBUG_INFO_BTF": Need("pahole", "dwarves"),
    "CONFIG_IKHEADERS": Need("cpio", "cpio"),
}


def build_needs(cross_compile: str = "", ccache: bool = True, values: dict[str, str] | None = None) -> list[Need]:
    """Return what a build needs; ``values`` are the settings known so far."""
    compiler = Need(f"{cross_compile}gcc", f"gcc-{cross_compile.rstrip('-')}" if cross_compile else "gcc")
    linker = Need(f"{cross_compile}ld", f"binutils-{cross_compile.rstrip('-')}" if cross_compile else "binutils")
    needs = [compiler, linker, *BUILD, *([CCACHE] if ccache else [])]
    needs.extend(need for symbol, need in BY_CONFIG.items() if (values or {}).get(symbol) == "y")
    return needs


def missing(needs: Iterable[Need]) -> dict[str, list[str]]:
    """Return ``missing`` items, in order, and the ``missing_packages`` with them, sorted."""
    lacking = [need for need in needs if not need.met()]
    packages = sorted({need.package for need in lacking})
    return {"missing": [need.item for need in lacking], "missing_packages": packages}


def require(needs: Iterable[Need]) -> None:
    """Raise one FleetError that names all that is missing and the packages to install."""
    found = missing(needs)
    if found["missing"]:
        raise FleetError(
            f"this build host lacks {', '.join(found['missing'])}; install the packages "
            f"{' '.join(found['missing_packages'])} or set kernel_build_install_packages: true",
            **found,
        )
