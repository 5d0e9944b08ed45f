# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel that was promoted, on a host with kernels of almost the same name and an admin's own GRUB; then back."""

from __future__ import annotations

from guest import HERE, Guest
from plays import report


def test_exactly_the_kernel_is_booted_and_promoted(guest: Guest) -> None:
    assert guest.running() == guest.release
    assert guest.default_is(f"fetchbpf-{guest.release}")
    assert "fetchbpf-confirm" not in guest.run("ls -R /etc/systemd/system")
    timer = guest.run("systemctl show -p LoadState -p ActiveState fetchbpf-confirm.timer")
    assert set(timer.split()) == {"LoadState=not-found", "ActiveState=inactive"}


def test_the_admins_grub_configuration_is_as_the_admin_left_it(guest: Guest) -> None:
    guest.run("cmp /etc/default/grub /root/grub.admin")


def test_a_second_run_changes_nothing(guest: Guest) -> None:
    boot_id, before = guest.boot_id(), guest.snapshot()
    play = guest.install()
    report(f"second run: {play.seconds:.0f} s")
    assert (play.recap["changed"], play.recap["failed"]) == (0, 0)
    assert guest.boot_id() == boot_id
    assert guest.snapshot() == before


def test_a_promoted_kernel_is_what_an_ordinary_reboot_starts(guest: Guest) -> None:
    play = guest.playbook(HERE / "boot.yml", release=guest.release)
    assert not play.failed, play.output
    assert "panic=5" not in guest.run("cat /proc/cmdline")


def test_a_kernel_of_the_distribution_is_not_rolled_back(guest: Guest, old: str) -> None:
    before = guest.snapshot()
    play = guest.playbook("playbooks/rollback_fetchbpf.yml", rollback_release=old)
    assert play.failed
    assert f"kernel {old} was not installed by this collection" in play.output
    assert guest.snapshot() == before


def test_a_rollback_leaves_the_host_as_it_was(guest: Guest, old: str, before: dict[str, str]) -> None:
    names = (f"{guest.release}2", f"{guest.release}.old", guest.release[:-1])
    guest.run(f"rm -f {' '.join(f'/boot/vmlinuz-{name}' for name in names)}")
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
