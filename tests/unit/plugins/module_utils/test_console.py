# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.fetchbpf.fleet.plugins.module_utils import console


def test_only_what_is_new_is_looked_at() -> None:
    assert console.new_text("a\n", "a\nb\n") == "b\n"
    assert console.new_text("a\n", "another log") == "another log"


def test_a_panic_explains_more_than_what_comes_before_or_after() -> None:
    lines = [f"line {number}" for number in range(30)]
    lines[5] = "Gave up waiting for root file system device."
    lines[20] = "[    1.2] Kernel panic - not syncing: VFS"
    text = console.excerpt("\r\n".join(lines))
    assert text.splitlines() == lines[16:27]


def test_a_missing_file_is_recognised() -> None:
    assert "error: file `/boot/vmlinuz-x' not found." in console.excerpt(
        "\x1b[2J\x1b[1;1HBooting\nerror: file `/boot/vmlinuz-x' not found.\nPress any key\n"
    )


def test_without_a_telling_line_the_end_is_shown() -> None:
    text = "\n".join(str(number) for number in range(100))
    assert console.excerpt(text).splitlines() == [str(number) for number in range(85, 100)]
    assert console.excerpt("\r\n\x1b[K\n") == ""


def test_lines_are_without_terminal_codes_and_without_grub_s_frame() -> None:
    frame = "\x1b[H\x1b[J\x1b[4;2H+----+\x1b[5;2H|\x1b[5;79H|\x1b[7m\x1b[5;3H*Debian\x1b[m\x1b[5;78H"
    text = f"{frame}\r\n\x1b]0;title\x07Booting\r\n\r\n"
    assert console.clean(text) == ["*Debian", "Booting"]
