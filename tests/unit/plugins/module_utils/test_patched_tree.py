# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import patched_tree
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.patched_tree import PatchedTree, TreeUpdate, list_files
from ansible_collections.fetchbpf.fleet.plugins.module_utils.series import NO_SERIES, load_series

from tests.unit.fakes import FAKELINUX, make_patch, make_series, make_tree

FORK = (FAKELINUX / "kernel/fork.c").read_text()
FETCH = (FAKELINUX / "kernel/trace/fetch.c").read_text()
FORK2 = FORK.replace("return 2", "return 22")
FORK3 = FORK2.replace("return 22", "return 333")
FIRST = make_patch({"kernel/fork.c": FORK}, {"kernel/fork.c": FORK2, "lib/new.c": "int new;\n"})
SECOND = make_patch({"kernel/fork.c": FORK2}, {"kernel/fork.c": FORK3})
THIRD = make_patch({"kernel/trace/fetch.c": FETCH}, {"kernel/trace/fetch.c": FETCH.replace("return 5;", "return 55;")})
BROKEN = make_patch(
    {"kernel/trace/fetch.c": FETCH.replace("return 9;", "return 8;")},
    {"kernel/trace/fetch.c": FETCH.replace("return 1;", "return 11;").replace("return 9;", "return 99;")},
)


class Bench:
    """A pristine tree and the tree made of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pristine = make_tree(folder / "pristine")
        for path in self.pristine.rglob("*"):
            if path.is_file():
                os.utime(path, (1_000_000, 1_000_000))
        self.tree = folder / "trees" / "mine"
        self.source_id = "test:1"
        self.count = 0

    def sync(self, *patches: str, **options: bool) -> TreeUpdate:
        self.count += 1
        series = load_series(make_series(self.folder / f"s{self.count}" / "mine", *patches)) if patches else NO_SERIES
        return PatchedTree(self.tree, self.pristine, self.source_id).sync(series, **options)

    def text(self, path: str) -> str:
        return (self.tree / path).read_text()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_second_patch_on_lines_of_the_first_second_run_touches_nothing(bench: Bench) -> None:
    assert bench.sync(FIRST, SECOND).created
    assert bench.text("kernel/fork.c") == FORK3
    before = list_files(bench.tree)
    again = bench.sync(FIRST, SECOND)
    assert not again.changed
    assert list_files(bench.tree) == before


def test_the_pristine_tree_is_only_read(bench: Bench) -> None:
    before = list_files(bench.pristine)
    bench.sync(FIRST)
    (bench.tree / "init/main.c").write_text("edited in place\n")
    bench.sync(SECOND.replace("22", "2"), discard_edits=True)
    assert list_files(bench.pristine) == before
    assert (bench.pristine / "kernel/fork.c").read_text() == FORK


def test_another_series_writes_only_the_files_that_differ(bench: Bench) -> None:
    bench.sync(FIRST)
    before = list_files(bench.tree)
    update = bench.sync(FIRST, THIRD)
    assert (update.written, update.removed) == (("kernel/trace/fetch.c",), ())
    after = list_files(bench.tree)
    assert {path for path in before if before[path] != after[path]} == {"kernel/trace/fetch.c"}
    # make goes by the mtime: a file that goes back to its old content is new.
    update = bench.sync(THIRD)
    assert (update.written, update.removed) == (("kernel/fork.c",), ("lib/new.c",))
    assert not (bench.tree / "lib").exists()
    assert (bench.tree / "kernel/fork.c").stat().st_mtime > before["kernel/fork.c"][1] / 1e9


def test_no_series_is_the_pristine_tree(bench: Bench) -> None:
    bench.sync(FIRST)
    bench.sync()
    assert {path: value[0] for path, value in list_files(bench.tree).items()} == {
        path: value[0] for path, value in list_files(bench.pristine).items()
    }
    assert bench.text("kernel/fork.c") == FORK


def test_a_patch_that_fails_names_patch_file_hunk_and_leaves_the_last_good_tree(bench: Bench) -> None:
    bench.sync(FIRST, SECOND)
    before = list_files(bench.tree)
    other = make_patch({"init/main.c": (FAKELINUX / "init/main.c").read_text()}, {"init/main.c": "int x;\n"})
    with pytest.raises(FleetError) as caught:
        bench.sync(FIRST, SECOND, BROKEN, other)
    message = str(caught.value)
    assert "0003.patch does not apply" in message
    assert "kernel/trace/fetch.c, hunk 2 (@@ " in message
    assert list_files(bench.tree) == before
    assert not bench.sync(FIRST, SECOND).changed
    assert sorted(path.name for path in bench.tree.parent.iterdir()) == [
        "mine",
        "mine.index.json",
        "mine.lock",
        "mine.state.json",
    ]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (make_patch({"no/such.c": "a\n"}, {"no/such.c": "b\n"}), "no/such.c"),
        (make_patch({}, {"init/main.c": "int x;\n"}), "init/main.c: already exists"),
    ],
)
def test_a_patch_for_another_tree_says_why(bench: Bench, patch: str, message: str) -> None:
    with pytest.raises(FleetError, match=r"0001\.patch does not apply") as caught:
        bench.sync(patch)
    assert message in str(caught.value)
    assert not bench.tree.exists()


def test_lines_that_moved_are_found_context_that_differs_is_refused(bench: Bench) -> None:
    fetch = bench.pristine / "kernel/trace/fetch.c"
    fetch.write_text("/* one */\n/* two */\n" + FETCH)
    bench.sync(THIRD)
    assert "return 55;" in bench.text("kernel/trace/fetch.c")
    with pytest.raises(FleetError, match="kernel/trace/fetch.c, hunk 1"):
        bench.sync(THIRD.replace("\n {\n-\treturn 5;", "\n { /* other */\n-\treturn 5;"))


def test_a_crlf_series_gives_the_same_tree_as_its_lf_twin(bench: Bench) -> None:
    bench.sync(FIRST, SECOND)
    assert not bench.sync(FIRST.replace("\n", "\r\n"), SECOND.replace("\n", "\r\n")).changed


def test_edits_by_hand_are_refused_by_name_and_discarded_only_on_demand(bench: Bench) -> None:
    bench.sync(FIRST)
    (bench.tree / "init/main.c").write_text("int mine;\n")
    (bench.tree / "init/draft.c").write_text("int draft;\n")
    with pytest.raises(FleetError, match="edited by hand: init/draft.c, init/main.c"):
        bench.sync(FIRST)
    assert bench.text("init/main.c") == "int mine;\n"
    update = bench.sync(FIRST, discard_edits=True)
    assert (update.written, update.removed) == (("init/main.c",), ("init/draft.c",))
    assert bench.text("init/main.c") == (bench.pristine / "init/main.c").read_text()


def test_a_run_killed_while_it_wrote_is_repaired_by_the_next(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.sync(FIRST)
    real = patched_tree._put

    def put_one(source: Path | None, target: Path) -> None:
        real(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(patched_tree, "_put", put_one)
    with pytest.raises(KeyboardInterrupt):
        bench.sync(THIRD)
    monkeypatch.setattr(patched_tree, "_put", real)
    assert bench.sync(FIRST, SECOND).changed
    assert bench.text("kernel/fork.c") == FORK3
    assert bench.text("kernel/trace/fetch.c") == FETCH
    assert not bench.sync(FIRST, SECOND).changed


def test_another_source_writes_only_the_files_that_differ(bench: Bench) -> None:
    bench.sync(FIRST)
    bench.source_id = "test:2"
    (bench.pristine / "net/fake.c").write_text("int newer;\n")
    (bench.pristine / "init/main.c").unlink()
    update = bench.sync(FIRST)
    assert (update.written, update.removed) == (("net/fake.c",), ("init/main.c",))


def test_check_mode_changes_nothing_and_tells(bench: Bench) -> None:
    assert bench.sync(FIRST, dry_run=True).created
    assert not bench.tree.parent.exists()
    bench.sync(FIRST)
    before = list_files(bench.tree.parent)
    update = bench.sync(SECOND.replace("22", "2"), dry_run=True)
    assert update.written == ("kernel/fork.c",)
    assert "return 22;" in update.before
    assert "return 333;" in update.after
    assert list_files(bench.tree.parent) == before


def test_executable_files_of_a_patch_are_executable(bench: Bench) -> None:
    script = make_patch({}, {"tools/run.sh": "#!/bin/sh\n"}).replace("mode 100644", "mode 100755")
    bench.sync(script)
    assert os.access(bench.tree / "tools/run.sh", os.X_OK)


def test_a_repository_around_the_cache_does_not_matter(bench: Bench, tmp_path: Path) -> None:
    os.system(f"git init --quiet {tmp_path}")
    bench.sync(FIRST)
    assert bench.text("kernel/fork.c") == FORK2
