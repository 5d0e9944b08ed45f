# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each series on its real base: Debian's source, fuzz 0, every requested symbol. Compiling is for the VM tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCHES = ROOT / "kernel-patches"
BASES = sorted(path.name for path in PATCHES.glob("v*"))


def configure(base: str, build_dir: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Fetch, patch and configure ``base``; ``more`` are fragments by name."""
    files = [PATCHES / "kconfig/lab.config", PATCHES / "kconfig/fetchbpf.config", PATCHES / base / "kconfig"]
    fragments = [{"name": file.name, "text": file.read_text(encoding="utf-8")} for file in files]
    fragments += [{"name": name, "text": text} for name, text in more.items()]
    variables = {
        "ansible_python_interpreter": sys.executable,
        "kernel_series": base,
        "build_dir": str(build_dir),
        "fragments": fragments,
    }
    return subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "tests/integration/series.yml", "-e", json.dumps(variables)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def check_style(base: str, pristine: Path) -> subprocess.CompletedProcess[str]:
    """Run the base's own checkpatch on the series; who maintains new files is not for a patch to say."""
    patches = [str(path) for path in sorted((PATCHES / base).glob("*.patch"))]
    command = ["perl", "scripts/checkpatch.pl", "--strict", "--no-summary", "--ignore", "FILE_PATH_CHANGES"]
    return subprocess.run([*command, *patches], cwd=pristine, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("base", BASES)
def test_the_series_applies_and_every_symbol_holds(base: str, tmp_path: Path) -> None:
    done = configure(base, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    configured = (tmp_path / ".config").read_text(encoding="utf-8").splitlines()
    for line in (PATCHES / base / "kconfig").read_text(encoding="utf-8").splitlines():
        assert not line.startswith("CONFIG_") or line in configured
    checked = check_style(base, Path((tmp_path / "pristine").read_text(encoding="utf-8")))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_symbol_with_an_unmet_dependency_is_refused_before_compiling(tmp_path: Path) -> None:
    done = configure("v6.12", tmp_path, owner="CONFIG_NETFILTER_XT_MATCH_OWNER=y\n")
    assert done.returncode != 0
    text = " ".join(done.stdout.split())
    assert re.search(r"CONFIG_NETFILTER_XT_MATCH_OWNER: asked y .*got n; unmet dependency: .*NETFILTER_ADVANCED", text)


def test_a_size_optimised_7_3_from_an_old_compiler_is_refused(tmp_path: Path) -> None:
    version = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    if int(version.split(".")[0]) >= 14:
        pytest.skip("gcc 14 aligns functions when it optimises for size too")
    size = "# CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE is not set\nCONFIG_CC_OPTIMIZE_FOR_SIZE=y\n"
    done = configure("v7.3", tmp_path, size=size)
    assert done.returncode != 0
    assert "CONFIG_CC_OPTIMIZE_FOR_SIZE" in done.stdout
    assert "gcc" in done.stdout
