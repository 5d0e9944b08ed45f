# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels that fail, on a real guest that starts from its own GRUB: it is back on its old one, and says why.

The guest lives through the tests in this order; the first ones leave it as it came, the later ones leave a kernel
that is installed and not promoted.
"""

from __future__ import annotations

import re

from guest import HERE, Guest


def test_check_mode_changes_nothing_and_says_what_it_would_do(guest: Guest, old: str, before: dict[str, str]) -> None:
    play = guest.install("--check", "--diff")
    assert play.recap["changed"] == 2
    assert re.search(rf"would install .*linux-image-{re.escape(guest.release)} ", play.output)
    assert f"would boot {guest.release} once" in play.output
    assert guest.snapshot() == before


def test_a_boot_without_room_is_refused_with_both_numbers(guest: Guest, old: str, before: dict[str, str]) -> None:
    guest.run("fallocate -l $(($(df -k --output=avail / | tail -1) - 15000))K /root/filler")
    try:
        play = guest.install()
    finally:
        guest.run("rm /root/filler")
    assert play.failed
    assert "/boot has " in play.output
    assert guest.snapshot() == before


def test_a_second_run_at_the_same_time_is_refused(guest: Guest, before: dict[str, str]) -> None:
    guest.run("setsid flock /run/lock/fetchbpf-kernel.lock sleep 300 > /dev/null 2>&1 & echo $! > /run/lock/holder")
    try:
        play = guest.install()
    finally:
        guest.run("kill -- -$(cat /run/lock/holder); rm /run/lock/holder")
    assert play.failed
    assert "another run is changing this host's kernels right now" in play.output
    assert guest.snapshot() == before


def test_a_wrong_root_is_back_by_itself_with_the_reason(guest: Guest, old: str, before: dict[str, str]) -> None:
    play = guest.install(kernel_install_cmdline="root=/dev/nowhere")
    assert play.failed
    assert f"the host is back on {old} after" in play.output
    assert "nowhere" in play.output.partition("Reason: ")[2]
    assert guest.running() == old
    assert guest.default_is("fetchbpf-known-good")


def test_a_failed_check_is_back_with_the_reason_and_the_default_never_changed(guest: Guest, old: str) -> None:
    play = guest.install(kernel_install_health_commands=["true", ["test", "-e", "/no/such/file"]])
    assert play.failed
    assert "failed its checks: health command 'test -e /no/such/file': exit status 1" in play.output
    assert f"The host is back on {old}" in play.output
    assert guest.running() == old
    assert guest.default_is("fetchbpf-known-good")


def test_a_missing_kernel_file_is_back_by_grubs_fallback(guest: Guest, old: str) -> None:
    guest.install(kernel_install_reboot_ok=False)
    guest.run(f"mv /boot/vmlinuz-{guest.release} /root")
    boot_id = guest.boot_id()
    try:
        play = guest.playbook(HERE / "boot.yml", release=guest.release, trial="any")
    finally:
        guest.run(f"mv /root/vmlinuz-{guest.release} /boot")
    assert f"the host is back on {old} after" in play.output
    assert "not found" in play.output.partition("Reason: ")[2]
    assert guest.boot_id() != boot_id


def test_a_hang_after_mounting_root_is_reset_once(guest: Guest, old: str) -> None:
    guest.run(
        "printf '#!/bin/sh\\nwhile :; do sleep 1000; done\\n' > /usr/local/sbin/hang; chmod 755 /usr/local/sbin/hang"
    )
    play = guest.install(kernel_install_cmdline="init=/usr/local/sbin/hang", kernel_install_boot_timeout=200)
    guest.run("rm /usr/local/sbin/hang")
    assert "running the rescue command" in play.output
    assert f"the host is back on {old} after" in play.output


def test_a_trial_nobody_can_confirm_is_left_by_its_timer(guest: Guest, old: str) -> None:
    play = guest.install(
        kernel_install_cmdline="systemd.mask=ssh.service",
        kernel_install_confirm_timeout=40,
        kernel_install_rescue_command=[],
    )
    assert f"the host is back on {old} after" in play.output
    assert "its timer rebooted the host" in play.output
