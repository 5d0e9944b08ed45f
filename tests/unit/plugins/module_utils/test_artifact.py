# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import artifact, build_host
from ansible_collections.fetchbpf.fleet.plugins.module_utils.artifact import ArtifactBuilder, Plan
from ansible_collections.fetchbpf.fleet.plugins.module_utils.configure import Wanted, configure
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kbuild import Kbuild, find_arch
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kconfig import Fragment
from ansible_collections.fetchbpf.fleet.plugins.module_utils.manifest import artifact_key
from ansible_collections.fetchbpf.fleet.plugins.module_utils.patched_tree import PatchedTree
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress
from ansible_collections.fetchbpf.fleet.plugins.module_utils.series import NO_SERIES, load_series

from tests.unit.fakes import FAKELINUX, make_patch, make_series, make_tree, written

FETCH = (FAKELINUX / "kernel/trace/fetch.c").read_text()
GOOD = make_patch({"kernel/trace/fetch.c": FETCH}, {"kernel/trace/fetch.c": FETCH.replace("return 5;", "return 55;")})
BAD = make_patch({"kernel/trace/fetch.c": FETCH}, {"kernel/trace/fetch.c": FETCH.replace("return 5;", "return x;")})
TOOLS = make_patch(
    {},
    {
        "tools/tracing/benchmark/Kbuild": "obj-m := fetcharg_bench.o\n",
        "tools/tracing/benchmark/fetcharg_bench.c": "int bench;\n",
        "tools/tracing/benchmark/bench_fetcharg.sh": "#!/bin/sh\n",
    },
)


class Bench:
    """A cache with a fake kernel to build."""

    def __init__(self, folder: Path, ccache_dir: str = "") -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.pristine = make_tree(folder / "pristine") if not (folder / "pristine").exists() else folder / "pristine"
        self.tree = self.cache / "trees" / "mine"
        self.kbuild = Kbuild(
            self.tree, self.cache / "build" / "mine", find_arch("x86_64"), "", 1_000_000, self.cache, ccache_dir
        )
        self.progress = folder / "progress"
        self.builder = ArtifactBuilder(self.kbuild, self.cache, Progress(str(self.progress), interval=0))
        self.count = 0

    def plan(self, *patches: str, fragment: str = "CONFIG_NET=y\nCONFIG_MODULES=y\n") -> Plan:
        self.count += 1
        series = load_series(make_series(self.folder / f"s{self.count}" / "mine", *patches)) if patches else NO_SERIES
        PatchedTree(self.tree, self.pristine, "test:1").sync(series)
        wanted = Wanted("tinyconfig", "", [Fragment("f", fragment)], "-fetchbpf", "test:1", series.hash, "gcc 1")
        config = configure(self.kbuild, wanted)
        return Plan(
            key=config.key,
            release=config.release,
            source_id="test:1",
            series={"name": series.name, "hash": series.hash, "patches": [patch.name for patch in series.patches]},
            config_hash=config.config_hash,
            requested=config.requested,
            compiler="gcc 1",
            epoch=1_000_000,
            jobs=2,
            cross_compile="",
        )

    def make(self, *patches: str, **options: Any) -> tuple[dict[str, Any], dict[str, int]]:
        return self.builder.build(self.plan(*patches, **options))


@pytest.fixture(autouse=True)
def tools_of_the_kernel_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_host.Need, "met", lambda need: True)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def contents(deb: Path) -> list[str]:
    listing = subprocess.run(["dpkg-deb", "--contents", deb], check=True, capture_output=True, text=True).stdout
    return sorted(line.split()[5].lstrip(".") for line in listing.splitlines() if line.startswith("-"))


def test_the_artifact_has_packages_and_a_manifest_that_names_them(bench: Bench) -> None:
    manifest, counts = bench.make(TOOLS)
    plan = bench.plan(TOOLS)
    folder = bench.builder.folder(plan)
    assert folder == bench.cache / "artifacts" / plan.key
    assert manifest == json.loads((folder / "manifest.json").read_text())
    assert manifest["release"] == plan.release == f"6.12.1-fetchbpf-{plan.key[:8]}"
    assert [entry["kind"] for entry in manifest["files"]] == ["config", "tools", "image"]
    assert sorted(manifest["packages"].values()) == ["6.12.1-1", "6.12.1-1"]
    assert counts["objects"] == 3
    release = plan.release
    image = next(entry["name"] for entry in manifest["files"] if entry["kind"] == "image")
    assert contents(folder / image) == [
        f"/boot/System.map-{release}",
        f"/boot/config-{release}",
        f"/boot/vmlinuz-{release}",
        f"/lib/modules/{release}/kernel/net/fake.ko",
        f"/lib/modules/{release}/modules.order",
    ]
    tools = next(entry["name"] for entry in manifest["files"] if entry["kind"] == "tools")
    assert contents(folder / tools) == [
        f"/lib/modules/{release}/extra/fetcharg_bench.ko",
        f"/usr/lib/fetchbpf/{release}/bench_fetcharg.sh",
        f"/usr/lib/fetchbpf/{release}/series",
    ]
    assert sorted(path.name for path in bench.cache.joinpath("artifacts").iterdir()) == [plan.key]


def test_the_benchmark_program_is_packed_and_kept_for_hosts_of_other_kernels(bench: Bench, tmp_path: Path) -> None:
    sources = {
        "Makefile": "fetchbpf-bench: a.c\n\t$(CROSS_COMPILE)gcc -static -o $@ $<\n",
        "a.c": "int main(void) { return 7; }\n",
    }
    plan = bench.plan()
    plan.bench_sources = sources
    manifest, _counts = bench.builder.build(plan)
    folder = bench.builder.folder(plan)
    assert [entry["kind"] for entry in manifest["files"]] == ["config", "bench", "tools", "image"]
    assert subprocess.run([folder / "fetchbpf-bench"], check=False).returncode == 7
    tools = next(folder.glob("fetchbpf-tools-*.deb"))
    assert contents(tools) == [f"/usr/lib/fetchbpf/{plan.release}/fetchbpf-bench"]
    plan.key, plan.bench_sources = "another", {"Makefile": "fetchbpf-bench:\n\t@echo broken >&2; false\n"}
    with pytest.raises(FleetError, match="the benchmark program does not compile: broken"):
        bench.builder.build(plan)


def test_another_program_makes_another_key() -> None:
    plain = artifact_key("s", "h", "c", "gcc")
    assert len({plain, artifact_key("s", "h", "c", "gcc", "1"), artifact_key("s", "h", "c", "gcc", "2")}) == 3


def test_the_kernel_package_runs_the_hosts_hooks(bench: Bench, tmp_path: Path) -> None:
    manifest, _counts = bench.make()
    image = next(entry["name"] for entry in manifest["files"] if entry["kind"] == "image")
    deb = bench.builder.folder(bench.plan()) / image
    subprocess.run(["dpkg-deb", "--control", deb, tmp_path / "control"], check=True)
    for script in ("preinst", "postinst", "prerm", "postrm"):
        text = (tmp_path / "control" / script).read_text()
        assert f"/etc/kernel/{script}.d" in text
        assert f"--arg=/boot/vmlinuz-{manifest['release']}" in text
        subprocess.run(["sh", "-n", tmp_path / "control" / script], check=True)


def test_the_same_key_runs_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, _counts = bench.make()
    plan = bench.plan()
    monkeypatch.setattr(Kbuild, "command", lambda *_words, **_options: ["false"])
    assert bench.builder.stored(plan) == manifest
    assert bench.builder.build(plan)[0] == manifest


def test_a_damaged_artifact_is_packed_again(bench: Bench) -> None:
    manifest, _counts = bench.make()
    plan = bench.plan()
    next(bench.builder.folder(plan).glob("*.deb")).write_bytes(b"cut")
    assert bench.builder.stored(plan) is None
    again, counts = bench.builder.build(plan)
    assert again == manifest
    assert counts["objects"] == 0


def test_a_changed_patch_compiles_only_its_file(bench: Bench) -> None:
    one, _counts = bench.make()
    two, counts = bench.make(GOOD)
    assert counts["objects"] == 1
    assert two["key"] != one["key"]
    assert len(list((bench.cache / "artifacts").iterdir())) == 2


def test_a_config_change_is_another_artifact_beside_the_old_one(bench: Bench) -> None:
    one, _counts = bench.make()
    before = written(bench.builder.folder(bench.plan()) / "manifest.json")
    two, _counts = bench.make(fragment="CONFIG_NET=y\nCONFIG_MODULES=y\nCONFIG_LOG_SHIFT=18\n")
    assert one["release"] != two["release"]
    assert written(bench.cache / "artifacts" / one["key"] / "manifest.json") == before


def test_the_first_compiler_error_is_shown_and_the_last_good_series_still_builds(bench: Bench) -> None:
    one, _counts = bench.make(GOOD)
    with pytest.raises(FleetError, match="kernel/trace/fetch.c:.* error: .x. undeclared") as caught:
        bench.make(BAD)
    assert "make" not in str(caught.value)
    assert not list((bench.cache / "artifacts").glob(".*"))
    two, _counts = bench.make(GOOD)
    assert one == two


def test_twice_in_two_directories_gives_the_same_bytes_and_ccache_hits(tmp_path: Path) -> None:
    if not shutil.which("ccache"):
        pytest.skip("no ccache here")
    ccache_dir = str(tmp_path / "ccache")
    results = []
    for name in ("one", "a/longer/path"):
        make_tree(tmp_path / name / "pristine")
        results.append(Bench(tmp_path / name, ccache_dir).make(TOOLS))
    assert results[0][0] == results[1][0]
    assert results[0][1] == {"objects": 3, "hits": 0, "misses": 5}
    assert results[1][1] == {"objects": 3, "hits": 5, "misses": 0}


def test_a_killed_build_leaves_no_artifact_and_the_next_run_goes_on(bench: Bench) -> None:
    plan = bench.plan()
    slow = bench.tree / "init" / "main.c"
    marker = bench.folder / "compiling"
    compiler = bench.folder / "bin" / "gcc"
    compiler.parent.mkdir()
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *init/main.c*) touch {marker}; exec sleep 60;; esac\n'
        f'exec {shutil.which("gcc")} "$@"\n'
    )
    compiler.chmod(0o755)
    program = (
        "import sys, pickle\n"
        "from tests.unit.plugins.module_utils.test_artifact import Bench, build_host\n"
        "from pathlib import Path\n"
        "build_host.Need.met = lambda need: True\n"
        f"bench = Bench(Path({str(bench.folder)!r}))\n"
        "bench.make()\n"
    )
    root = FAKELINUX.parents[2]
    environment = dict(
        os.environ,
        PATH=f"{compiler.parent}:{os.environ['PATH']}",
        PYTHONPATH=f"{root}:{root / 'collections'}",
    )
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, start_new_session=True)
    deadline = time.monotonic() + 30
    while not marker.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert marker.exists()
    assert bench.builder.stored(plan) is None
    manifest, _counts = bench.make()
    assert manifest["key"] == plan.key
    assert slow.is_file()


def test_no_disk_space_is_said_with_both_numbers_before_compiling(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact, "space_mib", lambda objects, debug_info: 10**9)
    with pytest.raises(FleetError, match=r"kernel build \(about \d+ objects\): 1000000000 MiB needed, \d+ MiB free in"):
        bench.make()
    assert not list(bench.kbuild.build_dir.rglob("*.o"))


def test_a_tree_of_another_series_is_refused(bench: Bench) -> None:
    plan = bench.plan(GOOD)
    bench.plan()
    with pytest.raises(FleetError, match="is not test:1 with series"):
        bench.builder.build(plan)


def test_progress_counts_objects(bench: Bench) -> None:
    seen = []
    real = Progress.update

    class Watch(Progress):
        def update(self, *words: Any, **options: Any) -> None:
            seen.append((words, options))
            real(self, *words, **options)

    ArtifactBuilder(bench.kbuild, bench.cache, Watch(None)).build(bench.plan())
    compile_steps = [options for words, options in seen if words == ("compile",)]
    assert [step["done"] for step in compile_steps] == [0, 1, 2, 3]
    assert all(step["unit"] == "objects (estimate)" for step in compile_steps)
