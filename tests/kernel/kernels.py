# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernels that the tests boot: each base with and without its series, in a few configurations.

All of them lie in the cache, named by what they are made of, so that a second run builds nothing. One tree and a few
build directories serve all kernels of a base: what differs between two of them is what is compiled.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.fetchbpf.fleet.plugins.module_utils.build_host import build_needs, require
from ansible_collections.fetchbpf.fleet.plugins.module_utils.configure import Wanted, configure
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kbuild import Kbuild, compiler_text, find_arch
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kconfig import Fragment
from ansible_collections.fetchbpf.fleet.plugins.module_utils.patched_tree import PatchedTree
from ansible_collections.fetchbpf.fleet.plugins.module_utils.series import NO_SERIES, load_series
from ansible_collections.fetchbpf.fleet.plugins.module_utils.workspace import digest, locked, remove

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATCHES = ROOT / "kernel-patches"
CACHE = Path(os.environ.get("FETCHBPF_CACHE") or Path.home() / ".cache/fetchbpf").resolve()
BASES = sorted(path.name for path in PATCHES.glob("v*"))
# Raised when the same inputs would give other files.
_SCHEMA = 1
_BENCH = "tools/tracing/benchmark"
_SELFTESTS = "tools/testing/selftests/ftrace"
_SAMPLES = "samples/trace_events/trace-events-sample.ko", "samples/trace_printk/trace-printk.ko"
_COMMON = HERE / "config/guest.config", PATCHES / "kconfig/fetchbpf.config"


@dataclass(frozen=True)
class Variant:
    """One way to configure a base. Variants of one ``group`` share a build directory."""

    group: str
    fragments: tuple[str, ...] = ()
    patched: bool = True


VARIANTS = {
    "patched": Variant("small", ("selftests",)),
    "unpatched": Variant("small", ("selftests",), patched=False),
    "off": Variant("small", ("selftests", "off")),
    "nojit": Variant("small", ("selftests", "nojit")),
    "always-on": Variant("small", ("selftests", "always-on")),
    "debug": Variant("debug", ("debug",)),
}


@dataclass(frozen=True)
class Kernel:
    """A built kernel: its image, the modules of the tests and the kernel's own tests lie in ``folder``."""

    base: str
    variant: str
    folder: Path

    @property
    def image(self) -> Path:
        return self.folder / "bzImage"

    @property
    def selftests(self) -> Path:
        return self.folder / "ftrace"

    def modules(self) -> list[Path]:
        return sorted(self.folder.glob("*.ko"))


class Kernels:
    """Builds what is not there yet; ``tick`` is told what takes long."""

    def __init__(self, tick: Callable[[str], None]) -> None:
        self._tick = tick
        self._sources: dict[str, dict[str, str]] = {}

    def get(self, base: str, variant: str) -> Kernel:
        """Return a kernel of the base; FleetError if it does not compile."""
        source = self._source(base)
        what = VARIANTS[variant]
        series = load_series(PATCHES / base)
        fragments = [*_COMMON, *(HERE / f"config/{name}.config" for name in what.fragments)]
        if what.patched:
            fragments.insert(len(_COMMON), PATCHES / base / "kconfig")
        texts = [Fragment(path.name, path.read_text(encoding="utf-8")) for path in fragments]
        fuzz = sorted((HERE / "fuzz/module").iterdir())
        identity = [
            *(_SCHEMA, source["source_id"], series.hash, what.patched, compiler_text()),
            *([text.name, text.text] for text in texts),
            *(path.read_text(encoding="utf-8") for path in fuzz),
        ]
        folder = CACHE / "kernel-test/kernels" / f"{base}-{variant}-{digest(json.dumps(identity))[:16]}"
        kernel = Kernel(base, variant, folder)
        if folder.is_dir():
            return kernel
        require(build_needs())
        top = CACHE / "kernel-test"
        with locked(top / f"{base}.lock", f"the tree of {base}", 7200, self._tick):
            if not folder.is_dir():
                self._build(kernel, what, texts, source)
        return kernel

    def _source(self, base: str) -> dict[str, str]:
        """Return what module kernel_source says about the base."""
        if base not in self._sources:
            result = CACHE / "kernel-test" / f"{base}.source.json"
            result.parent.mkdir(parents=True, exist_ok=True)
            variables = {"kernel_series": base, "result_file": str(result)}
            command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,"]
            done = subprocess.run(
                [*command, str(HERE / "source.yml"), "-e", json.dumps(variables)],
                cwd=ROOT,
                env=dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg")),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(done.stdout + done.stderr)
            self._sources[base] = json.loads(result.read_text(encoding="utf-8"))
        return self._sources[base]

    def _build(self, kernel: Kernel, what: Variant, fragments: list[Fragment], source: dict[str, str]) -> None:
        top = CACHE / "kernel-test"
        series = load_series(PATCHES / kernel.base)
        # Named as a deploy's tree, so that the compiler's cache knows its files already.
        tree = top / "trees" / f"{source['name']}-{kernel.base}"
        build_dir = top / "build" / f"{kernel.base}-{what.group}"
        say = f"{kernel.base} {kernel.variant}"

        PatchedTree(tree, source["pristine"], source["source_id"], self._tick).sync(series, discard_edits=True)
        bench = build_dir / "modules/bench"
        self._copy(tree / _BENCH, bench)
        self._copy(HERE / "fuzz/module", build_dir / "modules/fuzz")
        beside = kernel.folder.with_name(f".{kernel.folder.name}.new")
        remove(beside)
        beside.mkdir(parents=True)
        shutil.copytree(tree / _SELFTESTS, beside / "ftrace", symlinks=True)
        if not what.patched:
            PatchedTree(tree, source["pristine"], source["source_id"], self._tick).sync(NO_SERIES, discard_edits=True)

        kbuild = Kbuild(
            *(tree, build_dir, find_arch("x86_64"), "", int(source["epoch"])),
            cache_root=top,
            ccache_dir=str(CACHE / "ccache"),
            # The variants differ in a setting or two, which few files look at.
            ccache_depend=False,
        )
        configure(
            kbuild,
            Wanted(
                base="tinyconfig",
                base_text="",
                fragments=fragments,
                localversion=f"-{kernel.variant}",
                source_id=source["source_id"],
                series_hash=series.hash if what.patched else NO_SERIES.hash,
                compiler=compiler_text(),
            ),
        )
        count = 0

        def tick(_path: str) -> None:
            nonlocal count
            count += 1
            if count % 200 == 0:
                self._tick(f"{say}: {count} objects")

        self._tick(f"build {say}")
        log = build_dir / ".fetchbpf/kernel-test.log"
        jobs = os.cpu_count() or 1
        kbuild.build("bzImage", "modules", jobs=jobs, log=log, tick=tick)
        for name in ("bench", "fuzz"):
            kbuild.build(f"M={build_dir}/modules/{name}", "modules", jobs=jobs, log=log)
        shutil.copy(build_dir / "arch/x86/boot/bzImage", beside)
        for module in (bench / "fetcharg_bench.ko", build_dir / "modules/fuzz/fetcharg_fuzz.ko"):
            shutil.copy(module, beside)
        for sample in _SAMPLES:
            if (build_dir / sample).is_file() and "selftests" in what.fragments:
                shutil.copy(build_dir / sample, beside)
        for old in kernel.folder.parent.glob(f"{kernel.base}-{kernel.variant}-*"):
            remove(old)
        os.rename(beside, kernel.folder)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        """Have the files of ``source`` in ``target``, and write only those that differ, as make looks at times."""
        target.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            if path.is_file():
                copy = target / path.name
                if not copy.is_file() or copy.read_bytes() != path.read_bytes():
                    shutil.copyfile(path, copy)


def program(source: Path) -> Path:
    """Return a C program of the tests, compiled for a guest without libraries."""
    header = HERE / "guest/tracefs.h"
    text = source.read_text(encoding="utf-8") + header.read_text(encoding="utf-8")
    name = f"{source.stem}-{digest(text)[:16]}"
    binary = CACHE / "kernel-test/programs" / name
    if not binary.is_file():
        binary.parent.mkdir(parents=True, exist_ok=True)
        beside = binary.with_name(f".{name}.{os.getpid()}.new")
        flags = ["-O2", "-Wall", "-Wno-format-truncation", "-static", f"-I{header.parent}"]
        subprocess.run(["gcc", *flags, "-o", str(beside), str(source)], check=True)
        os.replace(beside, binary)
    return binary
