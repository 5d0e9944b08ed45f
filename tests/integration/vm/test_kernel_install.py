# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels that fail in every way there is, on a real guest that starts from its own GRUB.

One guest lives through all tests in this order; each reboot costs a minute in an emulated guest, so the first
tests leave a kernel that is installed and not promoted, and the last ones remove it.
"""

from __future__ import annotations

import re

import pytest
from guest import Guest, report

STATE = "/var/lib/fetchbpf/kernels.json"
MENU = "/boot/grub/fetchbpf.cfg"


@pytest.fixture(scope="module")
def old(guest: Guest) -> str:
    """Release that the guest came with."""
    return guest.running()


@pytest.fixture(scope="module")
def before(guest: Guest) -> dict[str, str]:
    """The guest as it came."""
    return guest.snapshot()


def lookalikes(release: str) -> list[str]:
    """Releases that contain ``release`` or are contained in it."""
    return [f"{release}2", f"{release}.old", release[:-1]]


def assert_default_is(guest: Guest, ident: str) -> None:
    assert f"set default={ident}" in guest.run(f"cat {MENU}")
    assert "next_entry=fetchbpf" not in guest.run("grub-editenv list")


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
    assert_default_is(guest, "fetchbpf-known-good")


def test_a_failed_check_is_back_with_the_reason_and_the_default_never_changed(guest: Guest, old: str) -> None:
    play = guest.install(kernel_install_health_commands=["true", ["test", "-e", "/no/such/file"]])
    assert play.failed
    assert "failed its checks: health command 'test -e /no/such/file': exit status 1" in play.output
    assert f"The host is back on {old}" in play.output
    assert guest.running() == old
    assert_default_is(guest, "fetchbpf-known-good")


def test_a_missing_kernel_file_is_back_by_grubs_fallback(guest: Guest, old: str) -> None:
    guest.install(kernel_install_reboot_ok=False)
    guest.run(f"mv /boot/vmlinuz-{guest.release} /root")
    boot_id = guest.boot_id()
    try:
        play = guest.playbook("tests/integration/vm/boot.yml", release=guest.release, trial="any")
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


def test_exactly_the_kernel_is_booted_and_promoted_whatever_the_admins_grub_looks_like(guest: Guest, old: str) -> None:
    release = guest.release
    guest.run(
        f"""set -e
        printf '%s\\n%s' "$(grep -v '^GRUB_DEFAULT=' /etc/default/grub)" GRUB_DISABLE_SUBMENU=true > /etc/default/grub
        for name in {" ".join(lookalikes(release))}; do cp /boot/vmlinuz-{old} /boot/vmlinuz-$name; done
        sha256sum /etc/default/grub > /root/grub.sum
        update-grub"""
    )
    play = guest.install()
    report(f"from failed to promoted: {play.seconds:.0f} s")
    assert not play.failed, play.output
    assert guest.running() == release
    assert_default_is(guest, f"fetchbpf-{release}")
    guest.run("sha256sum -c /root/grub.sum")
    assert "fetchbpf-confirm" not in guest.run("ls -R /etc/systemd/system")
    timer = guest.run("systemctl show -p LoadState -p ActiveState fetchbpf-confirm.timer")
    assert set(timer.split()) == {"LoadState=not-found", "ActiveState=inactive"}


def test_a_second_run_changes_nothing(guest: Guest) -> None:
    boot_id, before = guest.boot_id(), guest.snapshot()
    play = guest.install()
    report(f"second run: {play.seconds:.0f} s")
    assert (play.recap["changed"], play.recap["failed"]) == (0, 0)
    assert guest.boot_id() == boot_id
    assert guest.snapshot() == before


def test_a_promoted_kernel_is_what_an_ordinary_reboot_starts(guest: Guest) -> None:
    play = guest.playbook("tests/integration/vm/boot.yml", release=guest.release)
    assert not play.failed, play.output
    assert "panic=5" not in guest.run("cat /proc/cmdline")


def test_a_kernel_of_the_distribution_is_not_rolled_back(guest: Guest, old: str) -> None:
    before = guest.snapshot()
    play = guest.playbook("playbooks/rollback_fetchbpf.yml", rollback_release=old)
    assert play.failed
    assert f"kernel {old} was not installed by this collection" in play.output
    assert guest.snapshot() == before


def test_a_rollback_leaves_the_host_as_it_was(guest: Guest, old: str, before: dict[str, str]) -> None:
    guest.run(f"rm -f {' '.join(f'/boot/vmlinuz-{name}' for name in lookalikes(guest.release))}")
    play = guest.playbook("playbooks/rollback_fetchbpf.yml")
    assert not play.failed, play.output
    assert guest.running() == old
    after = guest.snapshot()
    expected = {
        name: line
        for name, line in before.items()
        # The admin's own changes of these tests.
        if name not in ("etc/default/grub", "boot/grub/grub.cfg")
    }
    extra = {name for name in after if name not in before}
    assert not extra
    assert {name: after.get(name) for name in expected} == expected
    assert "fetchbpf" not in guest.run("cat /boot/grub/grub.cfg; grub-editenv list; ls /var/lib /lib/modules")
    again = guest.playbook("playbooks/rollback_fetchbpf.yml")
    assert again.recap["changed"] == 0
