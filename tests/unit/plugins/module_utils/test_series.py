# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.series import load_series, pack, touched_paths, unpack

from tests.unit.fakes import make_patch, make_series

ONE = make_patch({"a.c": "1\n2\n3\n"}, {"a.c": "1\n9\n3\n"})
NEW = make_patch({}, {"dir/new.c": "--- a/trap.c\n+++ b/trap.c\n"})


def test_a_series_has_names_paths_and_a_hash_of_both(tmp_path: Path) -> None:
    series = load_series(make_series(tmp_path / "mine", ONE, NEW))
    assert [(patch.name, patch.paths) for patch in series.patches] == [
        ("0001.patch", ("a.c",)),
        ("0002.patch", ("dir/new.c",)),
    ]
    assert series.name == "mine"
    assert series.hash == load_series(make_series(tmp_path / "same" / "mine", ONE, NEW)).hash
    assert series.hash != load_series(make_series(tmp_path / "other", NEW, ONE)).hash


def test_it_travels_as_one_text(tmp_path: Path) -> None:
    folder = make_series(tmp_path / "mine", ONE, NEW)
    with open(folder / "0001.patch", "ab") as patch:
        patch.write("-- \nLéa\n".encode("latin-1"))
    series = load_series(folder)
    assert unpack(pack(series)) == series


def test_comments_and_blank_lines_of_the_series_file_do_not_count(tmp_path: Path) -> None:
    plain = load_series(make_series(tmp_path / "a", ONE))
    folder = make_series(tmp_path / "b", ONE)
    (folder / "series").write_text("\n# no patch\n0001.patch  # why\n\n")
    assert load_series(folder).hash == plain.hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no patch"),
        ("# only a comment\n\n", "names no patch"),
        ("0001.patch\nmissing.patch\n", "series:2: the patch file is missing"),
        ("0001.patch\n\n0001.patch\n", "series:3: 0001.patch is in the series twice (first as 0001.patch, line 1)"),
        ("0001.patch\ntwin.patch\n", "series:2: twin.patch is in the series twice (first as 0001.patch, line 1)"),
        ("../0001.patch\n", "series:1: the patch is outside of the series folder"),
        ("0001.patch -p0\n", "series:1: one patch name"),
        ("text.patch\n", "text.patch: there is no patch in this file"),
        ("escape.patch\n", "escape.patch: the patch leaves the source tree: ../../etc/passwd"),
        ("absolute.patch\n", "absolute.patch: the patch leaves the source tree: /etc/passwd"),
        ("cut.patch\n", "cut.patch:"),
        ("p0.patch\n", "p0.patch:"),
    ],
)
def test_a_wrong_series_is_one_error_that_names_the_place(tmp_path: Path, text: str, message: str) -> None:
    folder = make_series(tmp_path / "mine", ONE)
    (folder / "twin.patch").write_text(ONE)
    (folder / "text.patch").write_text("Hello\n")
    (folder / "escape.patch").write_text(ONE.replace("a.c", "../../etc/passwd"))
    (folder / "absolute.patch").write_text("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n")
    (folder / "cut.patch").write_text(ONE[: ONE.index("+9")])
    (folder / "p0.patch").write_text("--- a.c\n+++ a.c\n@@ -1 +1 @@\n-a\n+b\n")
    (folder / "series").write_text(text)
    with pytest.raises(FleetError) as caught:
        load_series(folder)
    assert message in str(caught.value)


def test_a_folder_without_series_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="no series file: .*nowhere/series"):
        load_series(tmp_path / "nowhere")


def test_a_crlf_patch_is_its_lf_twin(tmp_path: Path) -> None:
    crlf = load_series(make_series(tmp_path / "crlf", ONE.replace("\n", "\r\n")))
    assert crlf.patches[0].data == ONE.encode()
    assert crlf.hash == load_series(make_series(tmp_path / "lf", ONE)).hash


def test_mixed_line_ends_are_refused_by_name(tmp_path: Path) -> None:
    mixed = ONE.replace("\n", "\r\n").replace(" 1\r\n", " 1\n")
    with pytest.raises(FleetError, match=r"0001\.patch: .*CRLF"):
        load_series(make_series(tmp_path / "mixed", mixed))


def test_a_cr_of_the_patched_file_itself_is_kept(tmp_path: Path) -> None:
    patch = make_patch({"dos.bat": "a\r\nb\r\n"}, {"dos.bat": "a\r\nc\r\n"})
    assert load_series(make_series(tmp_path / "dos", patch)).patches[0].data == patch.encode()


def test_renames_and_mode_changes_count_as_touched() -> None:
    text = (
        b"diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to new name\n"
        b"diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
    )
    assert touched_paths(text, "x") == ("new name", "old name", "run.sh")
