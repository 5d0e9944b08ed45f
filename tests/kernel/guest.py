# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boots a kernel with an initramfs that runs one script, and brings home what the script and the kernel said.

The first serial port is the kernel's console, the second the script's output: a splat does not tear a result apart.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernels import HERE, ROOT, Kernel, program

QEMU = "qemu-system-x86_64"
BUSYBOX = Path("/bin/busybox")
# A guest that has not even come up is started once more; nothing else is.
_TRIES = 3
_UP = "=== up"
_DONE = re.compile(r"^=== done (\d+)$", re.MULTILINE)
_SPLAT = re.compile(
    r"WARNING: |BUG: |BUG at |KASAN|Oops|general protection fault|stack-protector|UBSAN|DEBUG_LOCKS_WARN_ON"
    r"|suspicious RCU usage|possible (?:circular|recursive) locking|inconsistent lock state|bad unlock balance"
    r"|ODEBUG|list_(?:add|del) corruption|refcount_t|INFO: (?:trying|task|possible)|unreferenced object"
    r"|sleeping function called|Kernel panic|unable to handle|scheduling while atomic|Call Trace"
)
_CONTEXT = 30


@dataclass(frozen=True)
class Run:
    """What a guest said: ``output`` of its script with the exit status ``code``, and the kernel's ``console``."""

    output: str
    console: str
    code: int

    def splats(self) -> list[str]:
        """Return what the kernel complained about, each with the lines after it."""
        lines = self.console.splitlines()
        found, after = [], -1
        for number, line in enumerate(lines):
            if number > after and _SPLAT.search(line):
                after = number + _CONTEXT
                found.append("\n".join(lines[max(0, number - 2) : after]))
        return found

    def rows(self, word: str) -> list[list[str]]:
        """Return the fields of the output's lines that begin with a word."""
        return [line.split()[1:] for line in self.output.splitlines() if line.split()[:1] == [word]]


class GuestError(AssertionError):
    """A guest that did not come up, or did not end its script."""


def run(
    kernel: Kernel,
    script: str,
    files: dict[str, Path | str] | None = None,
    exact: bool = False,
    parallel: bool = False,
    timeout: float = 14400,
    parameters: str = "",
) -> Run:
    """Boot ``kernel`` and run a shell script in it; ``files`` are there by their names in the root directory.

    ``exact`` makes the guest's clock count instructions, on one CPU; ``parallel`` has two CPUs run at once.
    """
    with tempfile.TemporaryDirectory(prefix="fetchbpf-kernel-test-") as folder:
        work = Path(folder)
        initramfs(work / "initramfs", kernel, script, files or {})
        for attempt in range(1, _TRIES + 1):
            finished = _qemu(kernel, work, exact, parallel, timeout, parameters)
            console = (work / "console").read_text(encoding="utf-8", errors="replace").replace("\r", "")
            output = (work / "output").read_text(encoding="utf-8", errors="replace").replace("\r", "")
            if _UP in output or _SPLAT.search(console) or attempt == _TRIES:
                break
    done = _DONE.search(output)
    if not done:
        why = "ended" if finished else f"did not end within {timeout:.0f} s"
        raise GuestError(
            f"{kernel.base} {kernel.variant}: the guest {why} before its script did\n"
            + "\n".join(["--- output", *output.splitlines()[-20:], "--- console", *console.splitlines()[-60:]])
        )
    return Run(output[: done.start()].partition(f"{_UP}\n")[2], console, int(done[1]))


def _qemu(kernel: Kernel, work: Path, exact: bool, parallel: bool, timeout: float, parameters: str) -> bool:
    """Run the guest to its end; return False if it had to be stopped."""
    memory = 1536 if kernel.variant == "debug" else 512
    if exact:
        machine = ["-icount", "shift=0,sleep=off", "-smp", "1", "-accel", "tcg,thread=single,tb-size=256"]
    else:
        # QEMU with a thread for each CPU misses at times that one patched code which another executes: that hangs, or
        # traps where no breakpoint is. Only what is about CPUs that run at the same time takes that risk.
        machine = ["-smp", "2", "-accel", f"tcg,thread={'multi' if parallel else 'single'},tb-size=256"]
    # A busy machine stalls a guest's CPU for seconds: that is no mistake of its kernel.
    always = "console=ttyS0 loglevel=5 panic=-1 nokaslr rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable"
    command = [
        *(QEMU, "-machine", "q35", "-cpu", "qemu64", "-m", str(memory), *machine),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-serial", f"file:{work}/console", "-serial", f"file:{work}/output"),
        *("-kernel", str(kernel.image), "-initrd", f"{work}/initramfs", "-append", f"{always} {parameters}".strip()),
    ]
    for name in ("console", "output"):
        (work / name).write_text("", encoding="utf-8")
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            return False
    return True


def initramfs(target: Path, kernel: Kernel, script: str, files: dict[str, Path | str]) -> None:
    """Write an initramfs with busybox, the tests' programs and modules, ``script`` as /script, and an empty /run."""
    if not BUSYBOX.is_file() or shutil.which(QEMU) is None:
        raise GuestError("install the packages busybox-static and qemu-system-x86")
    content: dict[str, tuple[int, bytes]] = {
        "init": (0o100755, (HERE / "guest/init").read_bytes()),
        "script": (0o100755, script.encode()),
        "bin/busybox": (0o100755, BUSYBOX.read_bytes()),
        "bin/capdrop": (0o100755, program(HERE / "fuzz/capdrop.c").read_bytes()),
        "bin/fuzz": (0o100755, program(HERE / "fuzz/fuzz.c").read_bytes()),
        "bin/stress": (0o100755, program(HERE / "guest/stress.c").read_bytes()),
        "bin/cost": (0o100755, program(ROOT / "tests/bench/cost.c").read_bytes()),
    }
    for module in kernel.modules():
        content[f"modules/{module.name}"] = (0o100644, module.read_bytes())
    for name, source in files.items():
        if isinstance(source, str):
            content[name] = (0o100644, source.encode())
        elif source.is_file():
            content[name] = (source.stat().st_mode, source.read_bytes())
        else:
            for path in source.rglob("*"):
                if path.is_file():
                    content[f"{name}/{path.relative_to(source)}"] = (path.stat().st_mode, path.read_bytes())
    target.write_bytes(gzip.compress(b"".join(_cpio(content)), 1))


def _cpio(content: dict[str, tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield an archive in the format "newc", directories before what is in them."""
    directories = {"dev", "proc", "sys", "run", "tmp", "lib", "usr"}
    for name in content:
        directories |= {str(parent) for parent in Path(name).parents} - {"."}
    entries = [(name, 0o040755, b"") for name in sorted(directories)]
    entries += [(name, mode, data) for name, (mode, data) in content.items()]
    entries.append(("TRAILER!!!", 0, b""))
    for number, (name, mode, data) in enumerate(entries, 1):
        path = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + path
        yield header + b"\0" * (-len(header) % 4) + data + b"\0" * (-len(data) % 4)
