# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's make, out of tree, the same everywhere: environment, progress, first error."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import FleetError
from .process import run, start

_BUILT = re.compile(r"^\s+(?:CC|AS|LD)(?: \[M\])?\s+(\S+\.o)$")
_ERROR = re.compile(
    r"^\S.*?:\d+(?::\d+)?: (?:fatal )?error: .*"
    r"|^\S*ld(?:\.\w+)?: (?!warning: ).*"
    r"|^ERROR: modpost: .*"
    r"|^.*: undefined reference to .*"
    r"|^\S+: error: .*"
    r"|^make(?:\[\d+\])?: \*\*\* No rule to make target .*"
    r"|^.*: No such file or directory$"
)
# Context lines of a compiler error that are shown: source line and caret.
_CONTEXT = 2
_OBJECT_KIB = 600


class Arch(NamedTuple):
    """Names of one architecture: uname -m, kernel ARCH, directory below arch/, Debian, file below /boot."""

    machine: str
    arch: str
    srcarch: str
    debian: str
    image: str = "vmlinuz"


_ARCHES = (
    Arch("x86_64", "x86_64", "x86", "amd64"),
    Arch("i686", "i386", "x86", "i386"),
    Arch("aarch64", "arm64", "arm64", "arm64"),
    Arch("armv7l", "arm", "arm", "armhf"),
    Arch("riscv64", "riscv", "riscv", "riscv64"),
    Arch("ppc64le", "powerpc", "powerpc", "ppc64el", "vmlinux"),
    Arch("s390x", "s390", "s390", "s390x"),
    Arch("loongarch64", "loongarch", "loongarch", "loong64"),
    Arch("mips64", "mips", "mips", "mips64el", "vmlinux"),
)


def find_arch(name: str, tree: Path | None = None) -> Arch:
    """Return the architecture with this ``uname -m`` or kernel ARCH name; empty means this host's.

    Any other directory of the tree's arch/ is taken by its own name, for
    configuring only. Raises FleetError for a name that is none of these.
    """
    wanted = name or platform.machine()
    for arch in _ARCHES:
        if wanted in (arch.machine, arch.arch):
            return arch
    if tree and re.fullmatch(r"\w+", wanted) and (tree / "arch" / wanted / "Kconfig").is_file():
        return Arch(wanted, wanted, wanted, "")
    raise FleetError(f"unknown architecture: {wanted} (one of {', '.join(arch.machine for arch in _ARCHES)})")


class Kbuild:
    """``make`` of a source tree into a build directory.

    ``cache_root`` is what tree and build directory have in common: ccache sees
    paths relative to it, so the same build elsewhere hits. ``ccache_depend`` makes
    a miss cheaper by a third, but each file misses after a change of any setting.
    """

    def __init__(
        self,
        tree: str | Path,
        build_dir: str | Path,
        arch: Arch,
        cross_compile: str = "",
        epoch: int = 0,
        cache_root: str | Path = "",
        ccache_dir: str = "",
        ccache_depend: bool = True,
    ) -> None:
        self.tree = Path(tree)
        self.build_dir = Path(build_dir)
        self.arch = arch
        self._cross = cross_compile
        self._epoch = epoch
        self._ccache_dir = ccache_dir
        self._ccache_depend = ccache_depend
        self._cache_root = str(cache_root)
        for path in (self.tree, self.build_dir):
            if re.search(r"[\s:]", str(path)):
                raise FleetError(f"the kernel's make does not take a path with a space or colon: {path}")

    def environment(self) -> dict[str, str]:
        """Return the whole environment of make: nothing of the user's reaches the build but PATH and HOME."""
        stamp = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(self._epoch))
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.environ.get("HOME", "/"),
            "LC_ALL": "C",
            "TZ": "UTC",
            "SOURCE_DATE_EPOCH": str(self._epoch),
            "KBUILD_BUILD_TIMESTAMP": stamp,
            "KBUILD_BUILD_USER": "fetchbpf",
            "KBUILD_BUILD_HOST": "fetchbpf",
            "KBUILD_BUILD_VERSION": "1",
        }
        if self._ccache_dir:
            environment.update(
                CCACHE_DIR=self._ccache_dir,
                CCACHE_BASEDIR=self._cache_root,
                CCACHE_NOHASHDIR="1",
                CCACHE_COMPILERCHECK="content",
                CCACHE_STATSLOG=str(self.build_dir / ".fetchbpf" / "ccache.log"),
            )
            environment["CCACHE_DEPEND" if self._ccache_depend else "CCACHE_NODEPEND"] = "1"
        return environment

    def command(self, *arguments: str, jobs: int = 1) -> list[str]:
        """Return the make command line for the arguments."""
        compiler = f"{'ccache ' if self._ccache_dir else ''}{self._cross}gcc"
        # Both prefixes end in what must not show in debug information: where this cache is.
        maps = f"-ffile-prefix-map={self.build_dir}/= -ffile-prefix-map={self.tree}/="
        return [
            "make",
            "--no-print-directory",
            f"-j{jobs}",
            "-C",
            str(self.tree),
            f"O={self.build_dir}",
            f"ARCH={self.arch.arch}",
            f"CC={compiler}",
            *([f"CROSS_COMPILE={self._cross}"] if self._cross else []),
            f"KCFLAGS={maps}",
            f"KAFLAGS={maps}",
            *arguments,
        ]

    def query(self, *arguments: str) -> str:
        """Run a quick make to its end and return its output; raise FleetError with its first error."""
        self.build_dir.mkdir(parents=True, exist_ok=True)
        result = run(self.command(*arguments), env=self.environment())
        if result.returncode:
            raise FleetError(f"make {' '.join(arguments)} failed: {first_error(result.stderr + result.stdout)}")
        return result.stdout

    def build(
        self,
        *arguments: str,
        jobs: int,
        log: Path,
        keep_open: tuple[int, ...] = (),
        tick: Callable[[str], None] | None = None,
    ) -> None:
        """Run make with output to ``log``; ``tick`` gets each object file as it is built.

        ``keep_open`` are file descriptors of locks that make shall hold too.
        Raises FleetError with the first compiler error.
        """
        with open(log, "w", encoding="utf-8") as handle:
            process = start(
                self.command(*arguments, jobs=jobs),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                pass_fds=keep_open,
            )
            for line in process.stdout or ():
                handle.write(line)
                built = _BUILT.match(line)
                if built and tick:
                    tick(built[1])
            process.wait()
        if process.returncode:
            text = log.read_text(encoding="utf-8", errors="replace")
            raise FleetError(f"the kernel does not compile: {first_error(text)}", log=str(log))

    def objects(self) -> int:
        """Return how many object files the build directory has."""
        return sum(1 for _unused in self.build_dir.rglob(".*.o.cmd"))


def first_error(text: str) -> str:
    """Return the first error of a make output with the lines that show the place, or its last lines.

    >>> first_error("  CC a.o\\na.c:3:5: error: no x\\n    3 | x\\n      | ^\\nmake: *** [a.o] Error 1\\n")
    'a.c:3:5: error: no x\\n    3 | x\\n      | ^'
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _ERROR.match(line):
            context = [more for more in lines[number + 1 : number + 1 + _CONTEXT] if re.match(r"^\s+\d* *\|", more)]
            return "\n".join([line, *context])
    return "\n".join(lines[-3:]).strip() or "no output"


def compiler_text(cross_compile: str = "") -> str:
    """Return the first line of ``gcc --version``."""
    result = run([f"{cross_compile}gcc", "--version"])
    if result.returncode:
        raise FleetError(f"{cross_compile}gcc --version failed: {result.stderr.strip()}")
    return result.stdout.splitlines()[0]


def ccache_counts(log: Path) -> dict[str, int]:
    """Return hits and misses that ccache noted in its statistics log."""
    counts = {"hits": 0, "misses": 0}
    if log.is_file():
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line in ("direct_cache_hit", "preprocessed_cache_hit"):
                counts["hits"] += 1
            elif line == "cache_miss":
                counts["misses"] += 1
    return counts


def space_mib(objects: int, debug_info: bool) -> int:
    """Return the MiB that a build of that many objects takes, artifact included."""
    return 500 + objects * _OBJECT_KIB * (8 if debug_info else 1) // 1024


def estimate_objects(tree: Path, srcarch: str, values: dict[str, str]) -> int:
    """Return about how many objects a configuration compiles, from the lists in the tree's makefiles.

    Conditions other than on one CONFIG symbol are taken as true.
    """
    seen: set[str] = set()
    top = [f"arch/{srcarch}/", *_lists(tree, "", values)[0], "lib/"]
    return sum(_count(tree, directory, values, seen) for directory in top)


def _count(tree: Path, directory: str, values: dict[str, str], seen: set[str]) -> int:
    if directory in seen:
        return 0
    seen.add(directory)
    directories, objects = _lists(tree, directory, values)
    return objects + sum(_count(tree, child, values, seen) for child in directories)


def _lists(tree: Path, directory: str, values: dict[str, str]) -> tuple[list[str], int]:
    """Return sub-directories to descend to, and the number of objects, of one directory's makefile."""
    makefile = next(
        (tree / directory / name for name in ("Kbuild", "Makefile") if (tree / directory / name).is_file()), None
    )
    if makefile is None or (not directory and makefile.name != "Kbuild"):
        return [], 0
    built: list[str] = []
    parts: dict[str, list[str]] = {}
    for name, suffix, words in _assignments(makefile.read_text(encoding="utf-8", errors="replace"), values):
        if name in ("obj", "lib", "core", "drivers", "libs", "net", "virt", "subdir"):
            if suffix in ("y", "m"):
                built.extend(words)
        elif suffix in ("y", "m", "objs"):
            parts.setdefault(name, []).extend(words)
    directories, objects = [], 0
    for word in dict.fromkeys(built):
        if word.endswith("/"):
            directories.append(word if (tree / word).is_dir() and word.startswith("arch/") else directory + word)
        elif word.endswith(".o"):
            members = [part for part in parts.get(word[:-2], []) if part.endswith(".o")]
            objects += 1 + len(set(members))
    return directories, objects


def _assignments(text: str, values: dict[str, str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (name, suffix, words) of the list assignments that hold for a configuration."""
    active = [True]
    for raw in text.replace("\\\n", " ").splitlines():
        line = raw.split("#")[0].strip()
        condition = re.match(r"^(ifdef|ifndef|ifeq|ifneq)\b(.*)", line)
        if condition:
            symbol = re.search(r"(CONFIG_\w+)", condition[2])
            holds = True
            if symbol:
                wanted_off = condition[1] == "ifeq" and re.search(r"\(\s*,|,\s*\)", condition[2]) is not None
                negative = condition[1] in ("ifndef", "ifneq") and not (
                    condition[1] == "ifneq" and re.search(r",\s*\)", condition[2])
                )
                holds = (values.get(symbol[1], "n") != "n") != (wanted_off or negative)
            active.append(active[-1] and holds)
        elif line.startswith("else") and len(active) > 1:
            active[-1] = active[-2] and not active[-1]
        elif line.startswith("endif") and len(active) > 1:
            active.pop()
        elif active[-1]:
            match = re.match(r"^([\w.-]+?)-(y|m|objs|\$\(.*?CONFIG_\w+\)\)?)\s*[:+]?=\s*(.*)$", line)
            if match:
                suffix = match[2]
                symbol = re.search(r"CONFIG_\w+", suffix)
                if symbol:
                    suffix = values.get(symbol[0], "n")
                yield match[1], suffix, match[3].split()
