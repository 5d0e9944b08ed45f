# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import grub
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from fake_host import ROOT, grub_cfg, menu_entry

LOOKALIKES = ["6.12.0-test2", "6.12.0-test.old", "6.12.0-test", "6.12.0-tes", "6.1.0-57-amd64"]


@pytest.mark.parametrize("submenu", [True, False])
@pytest.mark.parametrize("release", LOOKALIKES)
def test_exactly_the_release_is_found_among_names_that_contain_it(release: str, submenu: bool) -> None:
    entry = grub.find_entry(grub.parse_menu(grub_cfg(LOOKALIKES, submenu=submenu)), release)
    assert entry is not None
    assert entry.kernel_files == [f"vmlinuz-{release}"]
    assert not entry.is_recovery


def test_a_release_without_an_entry_is_not_replaced_by_a_similar_one() -> None:
    assert grub.find_entry(grub.parse_menu(grub_cfg(["6.12.0-test2", "6.12.0-test.old"])), "6.12.0-test") is None


def test_a_recovery_entry_alone_is_no_entry() -> None:
    assert grub.find_entry(grub.parse_menu(menu_entry("6.1", "recovery")), "6.1") is None


def test_submenu_titles_are_the_path() -> None:
    entries = grub.parse_menu(grub_cfg(["6.2", "6.1"]))
    assert [entry.path for entry in entries if entry.ident == "gnulinux-6.1-advanced-43e8168a"] == [
        ("Advanced options for Debian GNU/Linux",)
    ]


def test_among_entries_of_one_kernel_the_one_with_the_running_arguments_is_taken() -> None:
    menu = menu_entry("6.1", "advanced") + menu_entry("6.1", "custom", f"{ROOT} nosmt")
    found = grub.find_entry(grub.parse_menu(menu), "6.1", f"BOOT_IMAGE=/boot/vmlinuz-6.1 nosmt {ROOT}")
    assert found is not None
    assert found.ident == "gnulinux-6.1-custom-43e8168a"


def test_the_words_of_a_trial_do_not_count_when_arguments_are_compared() -> None:
    menu = menu_entry("6.1", "advanced") + menu_entry("6.1", "custom", f"{ROOT} nosmt")
    found = grub.find_entry(grub.parse_menu(menu), "6.1", f"{ROOT} panic=5 fetchbpf.trial=6.1 nosmt")
    assert found is not None
    assert found.ident == "gnulinux-6.1-custom-43e8168a"


def test_an_entry_for_another_init_comes_last() -> None:
    menu = menu_entry("6.1", "init-sysvinit", f"{ROOT} init=/lib/sysvinit/init") + menu_entry("6.1", "advanced")
    found = grub.find_entry(grub.parse_menu(menu), "6.1")
    assert found is not None
    assert found.ident == "gnulinux-6.1-advanced-43e8168a"


def test_a_signed_image_has_the_release_of_its_kernel() -> None:
    assert grub.release_of_file("vmlinuz-6.8.0-31-generic.efi.signed") == "6.8.0-31-generic"
    assert grub.release_of_file("memtest86+x64.bin") is None


@pytest.mark.parametrize(
    "title",
    ["It's {odd}; really", 'a "quoted" $name', "ends with \\", "# not a comment", "}"],
)
def test_titles_with_marks_of_the_language_do_not_end_the_entry(title: str) -> None:
    menu = f"menuentry {grub.quote(title)} --id x {{\n linux /boot/vmlinuz-6.1 ro\n}}\n" + menu_entry("6.2", "simple")
    entries = grub.parse_menu(menu)
    assert [entry.title for entry in entries] == [title, "Debian GNU/Linux"]
    assert entries[0].ident == "x"


def test_an_entry_that_chooses_between_two_kernels_boots_no_release_for_sure() -> None:
    text = "menuentry a {\nif true; then\n linux /vmlinuz-1 ro\nelse\n linux /vmlinuz-2 ro\nfi\n}\n"
    assert grub.parse_menu(text)[0].release is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("menuentry a {\n", "line 1: a { is never closed"),
        ("set a=1\n}\n", "line 2: a } closes nothing"),
        ("\n\nset a='b\n", "line 3: ' is never closed"),
    ],
)
def test_a_broken_menu_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FleetError, match=message):
        grub.parse_menu(text)


def test_a_copy_changes_only_title_id_and_arguments() -> None:
    original = grub.parse_menu(grub_cfg(["6.2", "6.1"]))[-2]
    copy = grub.parse_menu(grub.render_entry(original, "fetchbpf-6.1", "It's", ["panic=5", "dyndbg=file a.c +p"]))[0]
    assert (copy.ident, copy.title, copy.head) == ("fetchbpf-6.1", "It's", original.head)
    assert copy.arguments == [*original.arguments, "panic=5", "dyndbg=file a.c +p"]
    assert copy.body.replace(" panic=5 'dyndbg=file a.c +p'", "") == original.body


def test_arguments_are_added_to_every_kernel_command_and_before_those_of_init() -> None:
    entry = grub.Entry("a", "a", "", "\nif x; then\n linux /vmlinuz-1 ro -- 3\nelse\n linux /vmlinuz-1 ro;\nfi\n")
    assert grub.render_entry(entry, "b", "b", ["panic=5"]).count("ro panic=5") == 2
    assert "ro panic=5 -- 3" in grub.render_entry(entry, "b", "b", ["panic=5"])


def test_a_copy_does_not_save_itself_as_the_default() -> None:
    entry = grub.Entry("a", "a", "", "\n\tsavedefault\n\tlinux /vmlinuz-1 ro\n")
    assert "savedefault" not in grub.render_entry(entry, "b", "b")


def test_the_menu_pins_its_default_unless_grub_boots_something_once() -> None:
    menu = grub.render_menu(["menuentry a {\n}\n"], grub.KNOWN_GOOD_ID)
    assert "set fallback=0\n" in menu
    assert 'if [ "${boot_once}" != "true" ]; then\n  set default=fetchbpf-known-good\nfi' in menu


@pytest.mark.parametrize("cmdline", ["a\nb", "a 'b", "fetchbpf.trial=1"])
def test_a_command_line_that_cannot_be_one_is_refused(cmdline: str) -> None:
    with pytest.raises(FleetError, match="^cmdline: "):
        grub.split_cmdline(cmdline)


def test_an_entry_before_ours_is_refused_whether_ours_is_there_or_not() -> None:
    early = "### BEGIN /etc/grub.d/04_local ###\n" + menu_entry("6.0", "advanced")
    for ours in (True, False):
        text = grub_cfg(["6.1"], ours=ours)
        grub.check_menu(text, "grub.cfg")
        header_end = text.index("### END /etc/grub.d/00_header")
        with pytest.raises(FleetError, match="grub.cfg line .* would come before the entries of fetchbpf.cfg"):
            grub.check_menu(text[:header_end] + early + text[header_end:], "grub.cfg")


def test_a_later_default_is_refused_with_its_line() -> None:
    text = grub_cfg(["6.1"], ours=True) + "set default=3\n"
    with pytest.raises(FleetError, match=f"grub.cfg line {text.count(chr(10))}: sets default after fetchbpf.cfg"):
        grub.check_menu(text, "grub.cfg")


def test_a_menu_that_waits_for_ever_is_refused() -> None:
    with pytest.raises(FleetError, match="timeout=-1 makes GRUB wait for a key"):
        grub.check_menu(grub_cfg(["6.1"], timeout=-1), "grub.cfg")


def test_an_entry_survives_json() -> None:
    entry = grub.parse_menu(grub_cfg(["6.2", "6.1"]))[-2]
    assert grub.Entry.from_dict(entry.as_dict()) == entry


def test_the_environment_block_is_read() -> None:
    assert grub.parse_environment("# GRUB Environment Block\nnext_entry=a>b\nx=\n###") == {"next_entry": "a>b", "x": ""}
