# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kbuild import (
    Kbuild,
    estimate_objects,
    find_arch,
    first_error,
    space_mib,
)

from tests.unit.fakes import FAKELINUX

OUTPUT = """  CC      init/main.o
kernel/trace/fetch.c: In function 'fetch_5':
kernel/trace/fetch.c:12:16: error: 'x' undeclared (first use in this function)
   12 |         return x;
      |                ^
make[3]: *** [scripts/Makefile.build:229: kernel/trace/fetch.o] Error 1
make[2]: *** [scripts/Makefile.build:478: kernel/trace] Error 2
other/later.c:1:1: error: later
make: *** [Makefile:224: __sub-make] Error 2
"""


def test_the_first_compiler_error_is_found_with_its_place() -> None:
    assert first_error(OUTPUT) == (
        "kernel/trace/fetch.c:12:16: error: 'x' undeclared (first use in this function)\n"
        "   12 |         return x;\n      |                ^"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "  LD x\nld: kernel/fork.o: in function `f':\nfork.c:(.text): undefined reference to `g'\nmake: *** x\n",
            "ld",
        ),
        (
            "ld: warning: vmlinux has a LOAD segment with RWX permissions\n  CC y\ny.c:1:2: error: z\nmake: *** x\n",
            "y.c:1:2: error: z",
        ),
        ('  MODPOST\nERROR: modpost: "f" [net/fake.ko] undefined!\nmake: *** x\n', "ERROR: modpost"),
        ("a.h:1:10: fatal error: gelf.h: No such file or directory\nmake: *** x\n", "a.h:1:10: fatal error"),
        ("make[1]: *** No rule to make target 'x.o', needed by 'y'.  Stop.\nmake: *** x\n", "make[1]: *** No rule"),
        ("/bin/sh: 1: bc: not found\nmake: *** [x] Error 127\n", "/bin/sh: 1: bc: not found"),
    ],
)
def test_errors_that_are_not_the_compilers_are_found_too(text: str, error: str) -> None:
    assert first_error(text).startswith(error)


def test_objects_are_estimated_from_the_lists_of_the_makefiles() -> None:
    # init/main, kernel/fork, on, probes of fetch and parse.
    assert estimate_objects(FAKELINUX, "x86", {"CONFIG_KPROBES": "y"}) == 6
    # And net/fake.
    assert estimate_objects(FAKELINUX, "x86", {"CONFIG_KPROBES": "y", "CONFIG_NET": "m"}) == 7
    # main, fork, not_on.
    assert estimate_objects(FAKELINUX, "x86", {}) == 3


def test_nothing_of_the_users_environment_reaches_make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LOCALVERSION", "KCFLAGS", "CROSS_COMPILE", "MAKEFLAGS", "ARCH", "KBUILD_OUTPUT"):
        monkeypatch.setenv(name, "x")
    kbuild = Kbuild(tmp_path / "tree", tmp_path / "build", find_arch("x86_64"), epoch=1_000_000)
    environment = kbuild.environment()
    assert "x" not in environment.values()
    assert environment["KBUILD_BUILD_TIMESTAMP"] == "Mon, 12 Jan 1970 13:46:40 +0000"


def test_architectures_are_known_by_both_names_or_by_their_directory(tmp_path: Path) -> None:
    assert find_arch("aarch64") == find_arch("arm64")
    assert find_arch("x86_64").srcarch == "x86"
    (tmp_path / "arch/newone").mkdir(parents=True)
    (tmp_path / "arch/newone/Kconfig").write_text("")
    assert find_arch("newone", tmp_path).arch == "newone"
    with pytest.raises(FleetError, match=r"unknown architecture: pdp11 \(one of x86_64"):
        find_arch("pdp11", tmp_path)


def test_a_path_that_make_does_not_take_is_refused() -> None:
    with pytest.raises(FleetError, match="space or colon: /a b"):
        Kbuild("/a b", "/c", find_arch("x86_64"))


def test_debug_information_needs_more_room() -> None:
    assert space_mib(1000, True) > space_mib(1000, False) > 500
