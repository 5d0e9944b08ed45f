# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiles a configured kernel and stores its packages under their content key."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

from .debian_package import Package, kernel_scripts, make_package, tools_scripts
from .errors import FleetError
from .kbuild import Kbuild, ccache_counts, estimate_objects, space_mib
from .kconfig import config_hash, parse_config
from .kernel_sources import kernel_version
from .manifest import package_version, read_manifest, store
from .process import run
from .progress import Progress
from .workspace import locked, read_json, remove, require_space, write_json

_TOOLS = Path("tools/tracing/benchmark")
BENCH = "fetchbpf-bench"
# Another run in the same build directory is waited for: what it builds may be what we want.
_WAIT_SECONDS = 7200


@dataclasses.dataclass
class Plan:
    """What to build: the results of kernel_source, kernel_patch and kernel_config."""

    key: str
    release: str
    source_id: str
    series: dict[str, Any]
    config_hash: str
    requested: dict[str, str]
    compiler: str
    epoch: int
    jobs: int
    cross_compile: str
    bench_sources: dict[str, str] = dataclasses.field(default_factory=dict)


class ArtifactBuilder:
    """Builds artifacts of one tree in one build directory, below a cache root."""

    def __init__(self, kbuild: Kbuild, cache_root: str | Path, progress: Progress) -> None:
        self._kbuild = kbuild
        self._artifacts = Path(cache_root) / "artifacts"
        self._progress = progress
        self._own = kbuild.build_dir / ".fetchbpf"

    def folder(self, plan: Plan) -> Path:
        """Return where the artifact is or will be."""
        return self._artifacts / plan.key

    def stored(self, plan: Plan) -> dict[str, Any] | None:
        """Return the manifest of the artifact if it is there, whole."""
        return read_manifest(self.folder(plan), plan.key)

    def build(self, plan: Plan) -> tuple[dict[str, Any], dict[str, int]]:
        """Build and store the artifact; return its manifest and counts of objects, ccache hits and misses."""
        tree = self._kbuild.tree

        def waiting(line: str) -> None:
            self._progress.update("wait", detail=line)

        self._own.mkdir(parents=True, exist_ok=True)
        with (
            locked(tree.with_name(f"{tree.name}.lock"), f"the tree {tree}", _WAIT_SECONDS, waiting) as tree_lock,
            locked(
                self._own / "lock", f"the build directory {self._kbuild.build_dir}", _WAIT_SECONDS, waiting
            ) as build_lock,
        ):
            stored = self.stored(plan)
            if stored:
                return stored, {"objects": 0, "hits": 0, "misses": 0}
            values = self._check(plan)
            remove(self._own / "ccache.log")
            objects = self._compile(plan, values, (tree_lock.fd, build_lock.fd))
            manifest = self._pack(plan, values)
        return manifest, {"objects": objects, **ccache_counts(self._own / "ccache.log")}

    def _check(self, plan: Plan) -> dict[str, str]:
        """Return the configuration; raise FleetError if tree or configuration are not those of the plan."""
        tree = self._kbuild.tree
        state = read_json(tree.with_name(f"{tree.name}.state.json")) or {}
        if (state.get("source_id"), state.get("series_hash")) != (plan.source_id, plan.series["hash"]):
            raise FleetError(
                f"the tree {tree} is not {plan.source_id} with series {plan.series['hash']}; run kernel_source"
            )
        text = (self._kbuild.build_dir / ".config").read_text(encoding="utf-8")
        if config_hash(text) != plan.config_hash:
            raise FleetError(
                f"{self._kbuild.build_dir}/.config was changed meanwhile, by another run or by make; run again"
            )
        return parse_config(text)

    def _compile(self, plan: Plan, values: dict[str, str], locks: tuple[int, ...]) -> int:
        """Run make; return the number of objects built."""
        memory = self._own / "objects.json"
        learned = read_json(memory) or {}
        there = self._kbuild.objects()
        total = learned.get(plan.config_hash)
        unit = "objects" if total else "objects (estimate)"
        total = total or estimate_objects(self._kbuild.tree, self._kbuild.arch.srcarch, values)
        require_space(
            self._kbuild.build_dir,
            space_mib(max(total - there, 0), values.get("CONFIG_DEBUG_INFO") == "y"),
            f"the kernel build (about {total} objects)",
        )
        built = 0
        here = f"{self._kbuild.build_dir}/"

        def tick(name: str) -> None:
            nonlocal built
            built += 1
            # Of a build that is taken up again, what is there already may be compiled anew.
            expected = max(total - there, built)
            self._progress.update("compile", done=built, total=expected, unit=unit, detail=name.replace(here, ""))

        self._progress.update("compile", done=0, total=max(total - there, 0), unit=unit)
        self._kbuild.build("all", jobs=plan.jobs, log=self._own / "build.log", keep_open=locks, tick=tick)
        write_json(memory, {**learned, plan.config_hash: self._kbuild.objects()})
        self._check(plan)
        release = (self._kbuild.build_dir / "include/config/kernel.release").read_text(encoding="utf-8").strip()
        if release != plan.release:
            raise FleetError(f"the kernel calls itself {release}, not {plan.release}")
        return built

    def _pack(self, plan: Plan, values: dict[str, str]) -> dict[str, Any]:
        self._artifacts.mkdir(parents=True, exist_ok=True)
        beside = self._artifacts / f".{plan.key}.new"
        remove(beside)
        beside.mkdir()
        version = package_version(kernel_version(self._kbuild.tree))
        packages = {}
        for package, root in (self._image(plan, values, version), self._tools(plan, values, version)):
            if package:
                self._progress.update("pack", detail=package.name)
                make_package(package, root, beside, plan.epoch)
                packages[package.name] = version
            remove(root)
        if plan.bench_sources:
            shutil.copy(self._own / BENCH / BENCH, beside / BENCH)
        shutil.copyfile(self._kbuild.build_dir / ".config", beside / f"config-{plan.release}")
        manifest = {
            "key": plan.key,
            "release": plan.release,
            "arch": self._kbuild.arch.machine,
            "source_id": plan.source_id,
            "series": plan.series,
            "config": {"hash": plan.config_hash, "requested": plan.requested},
            "compiler": plan.compiler,
            "packages": packages,
        }
        return store(beside, self.folder(plan), manifest)

    def _root(self, name: str) -> Path:
        root = self._own / name
        remove(root)
        root.mkdir()
        return root

    def _image(self, plan: Plan, values: dict[str, str], version: str) -> tuple[Package, Path]:
        """Install the kernel and its modules below a directory of their own."""
        root = self._root("image")
        boot = root / "boot"
        boot.mkdir()
        arch, build_dir = self._kbuild.arch, self._kbuild.build_dir
        self._progress.update("pack", detail="modules")
        if values.get("CONFIG_MODULES") == "y":
            self._kbuild.query(f"INSTALL_MOD_PATH={root}", "INSTALL_MOD_STRIP=1", "modules_install")
            for link in ("build", "source"):
                remove(root / "lib/modules" / plan.release / link)
        if (
            values.get("CONFIG_OF_EARLY_FLATTREE") == "y"
            and (self._kbuild.tree / "arch" / arch.srcarch / "boot/dts").is_dir()
        ):
            self._kbuild.query(f"INSTALL_DTBS_PATH={root}/usr/lib/linux-image-{plan.release}", "dtbs_install")
        image = self._kbuild.query("-s", "image_name").split()[-1]
        shutil.copyfile(build_dir / image, boot / f"{arch.image}-{plan.release}")
        shutil.copyfile(build_dir / "System.map", boot / f"System.map-{plan.release}")
        shutil.copyfile(build_dir / ".config", boot / f"config-{plan.release}")
        initrd = values.get("CONFIG_BLK_DEV_INITRD") == "y"
        return (
            Package(
                name=f"linux-image-{plan.release}",
                version=version,
                architecture=arch.debian,
                description=(
                    f"Linux {plan.release}, built by fetchbpf.fleet\n"
                    f" Source {plan.source_id}, series {plan.series['name']}."
                ),
                depends="kmod",
                scripts=kernel_scripts(plan.release, arch.image, initrd),
            ),
            root,
        )

    def _tools(self, plan: Plan, values: dict[str, str], version: str) -> tuple[Package | None, Path]:
        """Pack the benchmark program, and the benchmark module of the tree, if there are such."""
        root = self._root("tools")
        scripts = root / "usr/lib/fetchbpf" / plan.release
        scripts.mkdir(parents=True)
        has_module = values.get("CONFIG_MODULES") == "y" and (self._kbuild.tree / _TOOLS / "Kbuild").is_file()
        if not has_module and not plan.bench_sources:
            return None, root
        if plan.series["patches"]:
            # For results to carry it, whoever measures.
            (scripts / "series").write_text(plan.series["hash"] + "\n", encoding="utf-8")
        if plan.bench_sources:
            shutil.copy(self._bench_program(plan), scripts / BENCH)
        if has_module:
            self._bench_module(plan, root, scripts)
        return (
            Package(
                name=f"fetchbpf-tools-{plan.release}",
                version=version,
                architecture=self._kbuild.arch.debian,
                description=f"Benchmarks of probing for Linux {plan.release}",
                depends=f"linux-image-{plan.release} (= {version}), kmod",
                scripts=tools_scripts(plan.release),
            ),
            root,
        )

    def _bench_program(self, plan: Plan) -> Path:
        """Compile the benchmark program, static: it has to run on hosts of any C library."""
        self._progress.update("compile the benchmark program")
        work = self._root(BENCH)
        for name, text in plan.bench_sources.items():
            (work / name).write_text(text, encoding="utf-8")
        result = run(["make", "-C", str(work), f"CROSS_COMPILE={plan.cross_compile}", BENCH])
        if result.returncode:
            raise FleetError(f"the benchmark program does not compile: {result.stderr.strip()}")
        program = work / BENCH
        result = run([f"{plan.cross_compile}strip", str(program)])
        if result.returncode:
            raise FleetError(f"cannot strip {program}: {result.stderr.strip()}")
        return program

    def _bench_module(self, plan: Plan, root: Path, scripts: Path) -> None:
        """Build the tree's benchmark module against the built kernel; put it and its scripts below ``root``."""
        self._progress.update("compile the benchmark module")
        source = self._kbuild.tree / _TOOLS
        work = self._own / "benchmark"
        remove(work)
        shutil.copytree(source, work)
        self._kbuild.build(f"M={work}", "modules", jobs=plan.jobs, log=self._own / "benchmark.log")
        modules = root / "lib/modules" / plan.release / "extra"
        modules.mkdir(parents=True)
        for module in sorted(work.glob("*.ko")):
            target = modules / module.name
            result = run([f"{plan.cross_compile}strip", "--strip-debug", "-o", str(target), str(module)])
            if result.returncode:
                raise FleetError(f"cannot strip {module}: {result.stderr.strip()}")
        for script in sorted(work.glob("*.sh")):
            shutil.copyfile(script, scripts / script.name)
            os.chmod(scripts / script.name, 0o755)
        remove(work)
