#!/usr/bin/env python3
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does hook_overhead put the hooks in the same order as the kernel's own selftests/bpf/bench does?

    tests/bench/hook_order.py [--rounds 2]

Both programs run in one boot of one kernel, whose clock counts instructions (QEMU -icount, one CPU). The kernel is that
of the newest artifact of series v6.12, and the kernel's bench is built from that kernel's source as it is.
Exit status 1: a pair of hooks is in another order, and DOCUMENTED does not say why.

Needs the packages clang-19, llvm-19, libelf-dev, zlib1g-dev, busybox-static and qemu-system-x86, and the artifact:

    ansible-playbook -i inventories/lab playbooks/build_kernel.yml -e kernel_series=v6.12
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kernel"))

from ansible_collections.fetchbpf.fleet.plugins.module_utils.workspace import digest
from guest import Run, run
from kernels import CACHE, ROOT, Kernel

# Not v7.3, whose bench does not build for our kernel: another of its benchmarks needs types of CONFIG_CRYPTO.
SERIES = "v6.12"
# What of a kernel's source the bench is made of.
SOURCE_PARTS = "tools", "scripts", "kernel/bpf", "include/uapi"
BENCH = "tools/testing/selftests/bpf"
WORK = CACHE / "selftests-bpf"


@dataclass(frozen=True)
class Table:
    """Rows that are compared: ``theirs`` names the kernel's benchmark for each hook of ours."""

    title: str
    counter: str
    base: str
    theirs: dict[str, str]


RENAME = Table(
    "Same work, same function: a write to /proc/self/comm, __set_task_comm and task:task_rename",
    "none",
    "rename-base",
    {
        "raw_tracepoint": "rename-rawtp",
        "fentry": "rename-fentry",
        "fexit": "rename-fexit",
        "kprobe": "rename-kprobe",
        "kretprobe": "rename-kretprobe",
    },
)
TRIGGER = Table(
    "Other function and tracepoint: theirs are a BPF helper and bpf_test_run:bpf_trigger_tp; programs count",
    "atomic",
    "trig-kernel-count",
    {
        "raw_tracepoint": "trig-rawtp",
        "tracepoint": "trig-tp",
        "fentry": "trig-fentry",
        "fexit": "trig-fexit",
        "kprobe": "trig-kprobe",
        "kretprobe": "trig-kretprobe",
    },
)
TABLES = RENAME, TRIGGER
# Measured but not compared: no kernel lets a program change what __set_task_comm returns, as it returns nothing.
FMOD_RET = "trig-fmodret"
# Pairs that bench has in the other order, the one that is cheaper in ours first.
DOCUMENTED = {
    ("trig-kprobe", "trig-tp"): (
        "before a program on a tracepoint runs, the kernel writes the event's record: that of task_rename has two "
        "names and two numbers, that of bpf_trigger_tp one number"
    )
}


@dataclass(frozen=True)
class Cost:
    """Instructions of a call: the median of the rounds, and how far they and the digits printed leave it open."""

    median: float
    noise: float

    @classmethod
    def of(cls, values: list[float], step: float = 0) -> Cost:
        return cls(statistics.median(values), max(values) - min(values) + step)

    def order(self, other: Cost) -> int:
        """Return -1 if it is less, 1 if it is more, 0 if the noise does not let us say."""
        if abs(self.median - other.median) <= max(self.noise, other.noise):
            return 0
        return -1 if self.median < other.median else 1

    def over(self, base: float) -> str:
        return f"{self.median - base:11.1f} ±{self.noise:4.1f}"


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="runs of each benchmark (default: %(default)s)")
    parser.add_argument("--clang", default="clang-19", help="compiler of the programs (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="of make (default: one for each CPU)")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds: at least 2, as what differs between them is the noise")

    artifact, manifest = newest_artifact()
    kernel = unpack(artifact, manifest)
    bench = build_bench(manifest["source_id"], kernel, arguments.clang, arguments.jobs)
    done = measure(kernel, bench, arguments.rounds)
    ours, refusal = our_costs(done)
    theirs = their_costs(done, arguments.rounds)

    print(f"{manifest['release']}, instructions a call over base, ± noise of {arguments.rounds} rounds")
    surprises = [surprise for table in TABLES for surprise in compare(table, ours, theirs)]
    print(f"\nfmod_ret is not compared. Ours: {refusal}.")
    print(f"{FMOD_RET} is {theirs[FMOD_RET].over(theirs[TRIGGER.base].median).strip()}")
    return 1 if surprises else 0


def newest_artifact() -> tuple[Path, dict[str, Any]]:
    """Return the folder and the manifest of the series' artifact that was made last."""
    found = []
    for path in CACHE.glob("artifacts/*/manifest.json"):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["series"]["name"] == SERIES:
            found.append((path.stat().st_mtime, path.parent, manifest))
    if not found:
        raise SystemExit(f"no artifact of {SERIES} in {CACHE}/artifacts: see --help")
    _time, artifact, manifest = max(found, key=lambda item: item[0])
    return artifact, manifest


def source_of(source_id: str) -> Path:
    """Return the source in the cache that a kernel was made of."""
    for path in CACHE.glob("sources/*.json"):
        if json.loads(path.read_text(encoding="utf-8"))["source_id"] == source_id:
            return path.with_suffix("")
    raise SystemExit(f"no source {source_id} in {CACHE}/sources: see --help")


def unpack(artifact: Path, manifest: dict[str, Any]) -> Kernel:
    """Return the artifact's kernel as a guest of the tests boots it."""
    kernel = Kernel(SERIES, manifest["key"], WORK / manifest["key"])
    if not kernel.image.is_file():
        (package,) = [file["name"] for file in manifest["files"] if file["kind"] == "image"]
        with tempfile.TemporaryDirectory() as work:
            subprocess.run(["dpkg-deb", "--extract", str(artifact / package), work], check=True)
            kernel.folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(f"{work}/boot/vmlinuz-{manifest['release']}", kernel.image)
    return kernel


def build_bench(source_id: str, kernel: Kernel, clang: str, jobs: int) -> Path:
    """Return the kernel's bench, built from a copy of its source."""
    version = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout
    binary = WORK / f"bench-{digest(source_id + version)[:16]}"
    if binary.is_file():
        return binary
    source, log = source_of(source_id), WORK / "build.log"
    with tempfile.TemporaryDirectory(dir=WORK, prefix="source-") as work:
        copy = Path(work)
        for part in SOURCE_PARTS:
            shutil.copytree(source / part, copy / part, symlinks=True)
        # Only for a header of other benchmarks: the programs that are compared do without it.
        vmlinux = copy / "vmlinux"
        with vmlinux.open("wb") as output:
            subprocess.run([str(copy / "scripts/extract-vmlinux"), str(kernel.image)], stdout=output, check=True)
        tools = [f"CLANG={clang}", f"LLVM_STRIP={clang.replace('clang', 'llvm-strip')}", f"VMLINUX_BTF={vmlinux}"]
        make = ["make", f"-j{jobs}", "-C", str(copy / BENCH), *tools, "bench"]
        with log.open("wb") as output:
            if subprocess.run(make, stdout=output, stderr=subprocess.STDOUT, check=False).returncode:
                raise SystemExit(f"the kernel's bench does not build, see {log}")
        os.replace(copy / BENCH / "bench", binary)
    return binary


def libraries(program: Path) -> dict[str, Path | str]:
    """Return the shared libraries of a program by their names in a guest."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return {path.lstrip("/"): Path(path) for path in re.findall(r"(/\S+) \(0x", listed)}


def measure(kernel: Kernel, bench: Path, rounds: int) -> Run:
    """Run both programs in one boot."""
    names = [name for table in TABLES for name in (table.base, *table.theirs.values())]
    # The bench counts for whole seconds of the guest, the shortest it can is one after one to warm up.
    script = f"""
rm /run && mkdir /run
fetchbpf-bench --clock | grep 'counts instructions' || exit 1
for round in $(seq {rounds}); do
    for name in {" ".join([*names, FMOD_RET])}; do
        summary=$(bench -w1 -d1 $name | grep Summary) || exit 1
        echo "theirs $name $summary"
    done
done
ours=$(fetchbpf-bench --rounds {rounds} hook_overhead) || exit 1
echo "ours $ours" | tr '\\n' ' '
echo
"""
    with tempfile.TemporaryDirectory() as work:
        tree = Path(shutil.copytree(ROOT / "tools/bench", f"{work}/bench"))
        subprocess.run(["make", "--always-make", "--silent", "-C", str(tree)], check=True)
        files = {"bin/fetchbpf-bench": tree / "fetchbpf-bench", "bin/bench": bench, **libraries(bench)}
        done = run(kernel, script, files=files, exact=True)
    if done.code or done.splats():
        raise SystemExit("\n".join([done.output, *done.splats(), f"the guest's script ended with status {done.code}"]))
    return done


def our_costs(done: Run) -> tuple[dict[tuple[str, str], Cost], str]:
    """Return the costs by (hook, counter), and why there is none of fmod_ret."""
    (text,) = re.findall(r"^ours (.*)$", done.output, re.MULTILINE)
    costs, refusal = {}, ""
    for row in json.loads(text)["rows"]:
        hook, counter = row["labels"]["hook"], row["labels"]["counter"]
        if not row["reason"]:
            calls = zip(row["series"]["ns"], row["series"]["calls"])
            costs[hook, counter] = Cost.of([ns / number for ns, number in calls])
        elif hook == "fmod_ret":
            refusal = row["reason"]
        else:
            raise SystemExit(f"hook_overhead has no row {hook}: {row['reason']}")
    return costs, refusal


def their_costs(done: Run, rounds: int) -> dict[str, Cost]:
    """Return the costs by the name of the kernel's benchmark, which prints thousands of calls a second."""
    rates: dict[str, list[float]] = {}
    for name, rate in re.findall(r"^theirs (\S+) Summary: hits +([\d.]+) ", done.output, re.MULTILINE):
        rates.setdefault(name, []).append(1000 * float(rate))
    for name, found in rates.items():
        if len(found) != rounds or 0 in found:
            raise SystemExit(f"{name} did not count its calls:\n{done.output}")
    return {name: Cost.of([1e6 / rate for rate in found], step=1e6 / min(found) ** 2) for name, found in rates.items()}


def compare(table: Table, ours: dict[tuple[str, str], Cost], theirs: dict[str, Cost]) -> list[str]:
    """Print a table and what of it is in another order; return what of that is not documented."""
    our_base, their_base = ours["base", table.counter], theirs[table.base]
    rows = {hook: (ours[hook, table.counter], theirs[name]) for hook, name in table.theirs.items()}
    hooks = sorted(rows, key=lambda hook: rows[hook][0].median)
    print(f"\n{table.title}\n{'hook':14}{'hook_overhead':>18}{'bench':>18}")
    print(f"{'base, in all':14}{our_base.over(0)}{their_base.over(0)}  {table.base}")
    for hook in hooks:
        our_cost, their_cost = rows[hook]
        print(f"{hook:14}{our_cost.over(our_base.median)}{their_cost.over(their_base.median)}  {table.theirs[hook]}")

    same, tied, other, surprises = 0, [], [], []
    for first, second in itertools.combinations(hooks, 2):
        orders = [one.order(two) for one, two in zip(rows[first], rows[second])]
        if 0 in orders:
            tied.append(f"{first}/{second}")
        elif orders[0] == orders[1]:
            same += 1
        else:
            reason = DOCUMENTED.get((table.theirs[first], table.theirs[second]))
            other.append(f"{first}/{second}: {reason or 'NOT DOCUMENTED'}")
            surprises += [] if reason else other[-1:]
    pairs = same + len(tied) + len(other)
    print(f"{same} of {pairs} pairs in the same order, Kendall's tau {(same - len(other)) / pairs:.2f}")
    for what, those in (("too near to say", tied), ("in another order", other)):
        for pair in those:
            print(f"{what}: {pair}")
    # A hook that costs nothing was not there.
    for hook, (our_cost, their_cost) in rows.items():
        if our_base.order(our_cost) != -1 or their_base.order(their_cost) != -1:
            surprises.append(f"{hook} costs no more than base")
            print(surprises[-1])
    return surprises


if __name__ == "__main__":
    sys.exit(main())
