# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import confirm, grub
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_rollout import Result
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_state import STATE_FILE, exclusive
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target
from fake_host import NEW, OLD, FakeHost, grub_cfg, menu_entry

MENU = "/boot/grub/fetchbpf.cfg"
PAYLOAD = {"boot_bytes": 1000, "installed_bytes": 2000, "signed": False}


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path / "host", tmp_path / "artifact")


def stage(host: FakeHost, cmdline: str = "", release: str = NEW) -> Result:
    return host.rollout().stage(host.wanted(cmdline, release), str(host.artifact), PAYLOAD, 300)


def deploy(host: FakeHost, cmdline: str = "", release: str = NEW) -> Result:
    stage(host, cmdline, release)
    host.reboot()
    return host.rollout().promote(release)


def state(host: FakeHost) -> dict[str, Any]:
    return json.loads(host.text(STATE_FILE) or "{}")


def test_the_new_kernel_is_booted_once_and_only_once(host: FakeHost) -> None:
    result = stage(host)
    assert (result.status, result.changed, result.reboot_required, result.known_good) == ("staged", True, True, OLD)
    assert host.reboot() == f"fetchbpf-{NEW}"
    assert f"panic=5 fetchbpf.trial={NEW}/" in host.text("/proc/cmdline")
    # Nobody promoted it: the next boot is the old kernel although the new one has the higher version.
    assert host.reboot() == grub.KNOWN_GOOD_ID
    assert f"vmlinuz-{OLD}" in host.text("/proc/cmdline")


def test_words_of_the_user_do_not_keep_a_trial_that_panics_from_rebooting(host: FakeHost) -> None:
    stage(host, "panic=0 nosmt")
    host.reboot()
    words = host.text("/proc/cmdline").split()
    assert [word for word in words if word.startswith("panic=")] == ["panic=0", "panic=5"]


def test_a_kernel_whose_packages_were_there_already_is_tried_promoted_and_removed(host: FakeHost) -> None:
    host.wanted()
    host.run(["dpkg", "-i", *(str(path) for path in host.artifact.glob("*.deb"))])
    assert stage(host).status == "staged"
    host.reboot()
    assert host.rollout().promote(NEW).changed
    assert list(state(host)["kernels"]) == [NEW]
    assert host.rollout().remove(None).reboot_required


def test_a_host_that_is_ready_is_only_looked_at(host: FakeHost) -> None:
    before = host.snapshot()
    result = host.rollout().ready()
    assert (result.status, result.changed) == ("ready", False)
    assert host.snapshot() == before
    host.file_system = "btrfs"
    with pytest.raises(FleetError, match="GRUB cannot write"):
        host.rollout().ready()


def test_a_promoted_kernel_is_the_default_without_the_words_of_its_trial(host: FakeHost) -> None:
    deploy(host, "nosmt")
    assert host.reboot() == f"fetchbpf-{NEW}"
    assert "nosmt" in host.text("/proc/cmdline")
    assert "panic=5" not in host.text("/proc/cmdline")
    assert "fetchbpf.trial" not in host.text("/proc/cmdline")


@pytest.mark.parametrize("reboot", [False, True])
def test_a_second_run_changes_nothing_and_asks_dpkg_only(host: FakeHost, reboot: bool) -> None:
    deploy(host)
    if reboot:
        host.reboot()
    before, host.log = host.snapshot(), []
    result = host.rollout().stage(host.wanted(), None, None, 300)
    assert (result.status, result.changed, result.reboot_required) == ("promoted", False, False)
    assert host.snapshot() == before
    assert [command.split()[0] for command in host.log] == ["dpkg-query"]


def test_a_second_run_before_the_reboot_changes_nothing_and_still_asks_for_it(host: FakeHost) -> None:
    stage(host)
    before = host.snapshot()
    result = host.rollout().stage(host.wanted(), None, None, 300)
    assert (result.status, result.changed, result.reboot_required) == ("staged", False, True)
    assert host.snapshot() == before


def test_a_run_that_finds_its_trial_running_goes_on_with_the_checks(host: FakeHost) -> None:
    stage(host)
    host.reboot()
    result = host.rollout().stage(host.wanted(), None, None, 300)
    assert (result.status, result.changed, result.reboot_required) == ("trial", False, False)


def test_check_mode_changes_nothing_and_tells_all(host: FakeHost) -> None:
    before = host.snapshot()
    result = host.rollout(check=True).stage(host.wanted(), None, PAYLOAD, 300)
    assert result.changed
    assert host.snapshot() == before
    assert [action.split()[0] for action in result.actions] == ["pin", "install", "boot"]
    assert "Known good" in result.diff["after"]


def test_without_packages_nothing_is_written_and_they_are_named(host: FakeHost) -> None:
    before = host.snapshot()
    result = host.rollout().stage(host.wanted(), None, None, 300)
    assert (result.changed, result.status) == (False, "needs_files")
    assert result.needed_files == [f"linux-image-{NEW}_1_amd64.deb"]
    assert host.snapshot() == before


def test_the_default_is_pinned_before_the_package_regenerates_the_menu(host: FakeHost) -> None:
    seen = []

    def spy(argv: Any) -> Any:
        if "-i" in argv:
            seen.append(host.text(MENU))
        return FakeHost.run(host, argv)

    host.run = spy  # type: ignore[method-assign]
    stage(host)
    assert "set default=fetchbpf-known-good" in seen[0]


def test_a_missing_kernel_file_falls_back_by_number(host: FakeHost) -> None:
    stage(host)
    host.at(f"/boot/vmlinuz-{NEW}").unlink()
    assert host.reboot() == grub.KNOWN_GOOD_ID


@pytest.mark.parametrize("submenu", [True, False])
def test_lookalike_releases_are_told_apart(host: FakeHost, submenu: bool) -> None:
    host.submenu = submenu
    for release in ("6.12.0-test2", "6.12.0-test.old", "6.12.0-tes"):
        host.add_kernel(release)
    host.update_grub()
    stage(host, release="6.12.0-test")
    assert host.reboot() == "fetchbpf-6.12.0-test"
    assert host.text("/proc/sys/kernel/osrelease") == "6.12.0-test\n"


def test_a_running_kernel_without_an_entry_is_refused(host: FakeHost) -> None:
    host.boot("6.1.0-57-cloud")
    with pytest.raises(FleetError, match="no entry that boots exactly the running kernel 6.1.0-57-cloud,"):
        stage(host)


def test_a_failed_trial_leaves_the_default_and_keeps_the_reason(host: FakeHost) -> None:
    stage(host)
    host.reboot()
    host.reboot()
    result = host.rollout().revert(NEW, "Kernel panic")
    assert (result.status, result.changed) == ("reverted", True)
    assert state(host)["failure"]["reason"] == "Kernel panic"
    assert state(host)["trial"] is None
    assert not host.at(confirm.TIMER).exists()
    assert "fetchbpf-6" not in host.text(MENU)
    assert host.reboot() == grub.KNOWN_GOOD_ID
    assert host.rollout().revert(NEW, "again").changed is False


def test_a_trial_that_still_runs_is_not_called_reverted(host: FakeHost) -> None:
    stage(host)
    host.reboot()
    with pytest.raises(FleetError, match="still runs; reboot"):
        host.rollout().revert(NEW, "x")


def test_the_run_after_a_failed_trial_repairs_it_without_installing_again(host: FakeHost) -> None:
    stage(host, "root=/dev/nope")
    host.boot(OLD)
    host.set_environment("next_entry", "")
    host.rollout().revert(NEW, "panic")
    host.log = []
    result = host.rollout().stage(host.wanted(), None, None, 300)
    assert result.status == "staged"
    assert not any("dpkg -i" in command for command in host.log)
    assert host.reboot() == f"fetchbpf-{NEW}"
    assert "nope" not in host.text("/proc/cmdline")
    assert host.rollout().promote(NEW).changed
    assert state(host)["failure"] is None


def test_a_changed_command_line_is_a_trial_that_falls_back_to_the_same_kernel_with_the_old_one(host: FakeHost) -> None:
    deploy(host, "nosmt")
    host.reboot()
    result = stage(host, "root=/dev/nope")
    assert result.reboot_required
    assert host.reboot() == f"fetchbpf-{NEW}"
    assert host.reboot() == grub.KNOWN_GOOD_ID
    assert host.text("/proc/cmdline").strip().endswith("nosmt")
    host.rollout().revert(NEW, "panic")
    assert host.reboot() == f"fetchbpf-{NEW}"
    assert host.text("/proc/cmdline").strip().endswith("nosmt")
    # The kernel of the distribution is still what a rollback goes to.
    assert state(host)["known_good"]["release"] == OLD


def test_the_boot_of_a_promoted_trial_is_not_taken_for_the_next_trial(host: FakeHost) -> None:
    deploy(host)
    stage(host, "root=/dev/nope")
    again = host.rollout().stage(host.wanted("root=/dev/nope"), None, None, 300)
    assert (again.status, again.reboot_required) == ("staged", True)
    with pytest.raises(FleetError, match="and not its trial"):
        host.rollout().promote(NEW)


def test_a_command_line_right_after_the_promotion_is_known_good_without_trial_words(host: FakeHost) -> None:
    deploy(host, "nosmt")
    stage(host, "mitigations=off")
    known_good = grub.parse_menu(host.text(MENU))[0]
    assert known_good.arguments[-1] == "nosmt"


def test_an_abandoned_trial_is_tried_again(host: FakeHost) -> None:
    stage(host)
    host.reboot()
    host.reboot()
    assert stage(host).changed
    assert host.reboot() == f"fetchbpf-{NEW}"


def test_a_trial_staged_from_another_trial_falls_back_to_the_kernel_before_both(host: FakeHost) -> None:
    stage(host)
    host.reboot()
    assert stage(host, release="6.12.118-fetchbpf-2").known_good == OLD


def test_a_second_kernel_falls_back_to_the_first(host: FakeHost) -> None:
    deploy(host)
    host.reboot()
    assert deploy(host, release="6.12.118-fetchbpf-2").known_good == NEW
    assert host.reboot() == "fetchbpf-6.12.118-fetchbpf-2"
    assert state(host)["baseline"]["release"] == OLD


def test_packages_that_differ_from_the_manifest_are_refused_before_anything_is_written(host: FakeHost) -> None:
    wanted, before = host.wanted(), host.snapshot()
    (host.artifact / wanted.files[0]["name"]).write_text("other")
    with pytest.raises(FleetError, match="linux-image-.*: sha256 is .*, the manifest says"):
        host.rollout().stage(wanted, str(host.artifact), PAYLOAD, 300)
    assert host.snapshot() == before


def test_a_kernel_of_somebody_else_is_not_overwritten(host: FakeHost) -> None:
    host.add_kernel(NEW)
    with pytest.raises(FleetError, match=f"/boot/vmlinuz-{NEW} exists and belongs to no package"):
        stage(host)


def test_a_failed_installation_leaves_the_host_as_it_was(host: FakeHost) -> None:
    before = host.snapshot()
    host.answers["dpkg -i"] = (1, "", "dpkg: error processing archive: no space left on device")
    with pytest.raises(FleetError, match="no space left"):
        stage(host)
    assert host.snapshot() == before
    assert any("--purge" in command for command in host.log)


def test_a_failed_installation_leaves_the_promoted_kernel_the_default(host: FakeHost) -> None:
    deploy(host)
    host.reboot()
    host.answers["dpkg -i"] = (1, "", "boom")
    with pytest.raises(FleetError, match="boom"):
        stage(host, release="6.12.118-fetchbpf-2")
    assert host.reboot() == f"fetchbpf-{NEW}"


def test_the_first_failure_is_told_and_not_the_one_of_cleaning_up(host: FakeHost) -> None:
    host.answers["dpkg -i"] = (1, "", "dpkg: error: no space left on device")
    host.put("/boot/grub/grub.cfg", host.text("/boot/grub/grub.cfg") + grub.SOURCE_MARK)
    host.answers["update-grub"] = (1, "", "cannot write")
    with pytest.raises(FleetError, match="no space left"):
        stage(host)


def test_a_half_installed_kernel_that_stays_is_not_booted(host: FakeHost) -> None:
    def spy(argv: Any) -> Any:
        if "-i" in argv:
            FakeHost.run(host, argv)
            return 1, "", "initramfs failed"
        return (1, "", "purge failed") if "--purge" in argv else FakeHost.run(host, argv)

    wanted = host.wanted()
    rollout = host.rollout()
    rollout.target.run = spy
    with pytest.raises(FleetError, match="initramfs failed"):
        rollout.stage(wanted, str(host.artifact), PAYLOAD, 300)
    assert host.text(f"/boot/vmlinuz-{NEW}")
    assert host.reboot() == grub.KNOWN_GOOD_ID


def test_a_menu_that_grub_cannot_read_never_becomes_the_menu(host: FakeHost) -> None:
    host.answers["grub-script-check"] = (1, "", "syntax error")
    with pytest.raises(FleetError, match="checking .*fetchbpf.cfg failed"):
        stage(host)
    assert "Trial" not in host.text(MENU)
    assert host.text(f"{MENU}.new") == ""
    assert host.reboot() == grub.KNOWN_GOOD_ID


def test_a_held_dpkg_lock_is_waited_for(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.answers["dpkg -i"] = (2, "", "dpkg: error: dpkg frontend lock was locked by another process with pid 7")
    monkeypatch.setattr("time.sleep", lambda _seconds: host.answers.clear())
    assert stage(host).status == "staged"


def test_the_menu_is_restored_when_somebody_took_it_away(host: FakeHost) -> None:
    deploy(host)
    host.reboot()
    menu = host.text(MENU)
    host.at(MENU).unlink()
    host.at("/etc/grub.d/06_fetchbpf").unlink()
    host.update_grub()
    result = host.rollout().stage(host.wanted(), None, None, 300)
    assert (result.status, result.changed) == ("promoted", True)
    assert len(result.actions) == 3
    assert host.text(MENU) == menu
    assert host.reboot() == f"fetchbpf-{NEW}"


def test_arguments_that_the_admin_changes_for_all_kernels_reach_the_promoted_one(host: FakeHost) -> None:
    deploy(host)
    host.put("/boot/grub/grub.cfg", host.text("/boot/grub/grub.cfg").replace("ro quiet", "ro quiet audit=1"))
    assert host.rollout().stage(host.wanted(), None, None, 300).changed
    host.reboot()
    assert "audit=1" in host.text("/proc/cmdline")


def test_an_uninstalled_known_good_kernel_is_replaced_by_another_of_the_distribution(host: FakeHost) -> None:
    deploy(host)
    host.reboot()
    host.at(f"/boot/vmlinuz-{OLD}").unlink()
    host.add_kernel("6.1.0-58-cloud-amd64")
    host.update_grub()
    result = host.rollout().stage(host.wanted(), None, None, 300)
    assert (result.status, result.changed, result.known_good) == ("promoted", True, "6.1.0-58-cloud-amd64")
    assert grub.parse_menu(host.text(MENU))[0].release == "6.1.0-58-cloud-amd64"
    assert host.reboot() == f"fetchbpf-{NEW}"
    assert host.rollout().stage(host.wanted(), None, None, 300).changed is False


def test_a_kernel_that_is_not_on_trial_is_not_promoted(host: FakeHost) -> None:
    with pytest.raises(FleetError, match="is not on trial"):
        host.rollout().promote(NEW)
    stage(host)
    with pytest.raises(FleetError, match=f"cannot be promoted, the host runs {OLD}"):
        host.rollout().promote(NEW)


def test_promoting_twice_is_promoting_once(host: FakeHost) -> None:
    deploy(host)
    assert host.rollout().promote(NEW).changed is False


def test_a_kernel_that_was_not_installed_by_us_is_not_removed(host: FakeHost) -> None:
    deploy(host)
    before = host.snapshot()
    with pytest.raises(FleetError, match=f"kernel {OLD} was not installed by this collection.*ours: {NEW}"):
        host.rollout().remove(OLD)
    assert host.snapshot() == before


@pytest.mark.parametrize("release", [None, NEW])
def test_a_rollback_boots_the_old_kernel_first_and_leaves_nothing(host: FakeHost, release: str | None) -> None:
    before = host.snapshot()
    deploy(host)
    first = host.rollout().remove(release)
    assert (first.reboot_required, first.known_good, first.changed) == (True, OLD, True)
    assert host.packages
    again = host.rollout().remove(release)
    assert (again.reboot_required, again.changed) == (True, False)
    assert host.reboot() == grub.KNOWN_GOOD_ID
    assert host.rollout().remove(release).reboot_required is False
    assert host.snapshot() == before
    assert not host.packages
    assert not host.at("/var/lib/fetchbpf").exists()
    assert host.rollout().remove(None).changed is False


def test_a_rollback_in_check_mode_changes_nothing(host: FakeHost) -> None:
    deploy(host)
    before = host.snapshot()
    result = host.rollout(check=True).remove(None)
    assert result.changed
    assert host.snapshot() == before


def test_rolling_back_the_second_kernel_makes_the_first_the_default_again(host: FakeHost) -> None:
    second = "6.12.118-fetchbpf-2"
    deploy(host, "nosmt")
    host.reboot()
    deploy(host, release=second)
    assert host.rollout().remove(second).known_good == NEW
    host.reboot()
    host.rollout().remove(second)
    assert list(host.packages) == [f"linux-image-{NEW}"]
    assert host.reboot() == f"fetchbpf-{NEW}" or host.text("/proc/sys/kernel/osrelease") == f"{NEW}\n"
    assert "nosmt" in host.text("/proc/cmdline")
    assert host.rollout().stage(host.wanted("nosmt"), None, None, 300).changed is False


def test_removing_the_known_good_of_ours_makes_the_distributions_kernel_known_good(host: FakeHost) -> None:
    second = "6.12.118-fetchbpf-2"
    deploy(host)
    host.reboot()
    deploy(host, release=second)
    host.reboot()
    result = host.rollout().remove(NEW)
    assert (result.reboot_required, result.known_good) == (False, OLD)
    assert grub.parse_menu(host.text(MENU))[0].release == OLD
    assert host.reboot() == f"fetchbpf-{second}"


def test_a_rollback_without_a_kernel_to_go_back_to_is_refused(host: FakeHost) -> None:
    deploy(host)
    host.at(f"/boot/vmlinuz-{OLD}").unlink()
    with pytest.raises(FleetError, match=f"/boot/vmlinuz-{OLD} is missing"):
        host.rollout().remove(None)


def test_removing_a_kernel_that_failed_its_trial_needs_no_reboot(host: FakeHost) -> None:
    before = host.snapshot()
    stage(host)
    host.reboot()
    host.reboot()
    host.rollout().revert(NEW, "panic")
    result = host.rollout().remove(None)
    assert (result.reboot_required, result.changed) == (False, True)
    assert host.snapshot() == before


def test_another_run_is_kept_away_while_a_lease_lasts(host: FakeHost) -> None:
    mine = {"run": "a/1/1", "controller": "a", "pid": 1}
    rollout = host.rollout()
    rollout.state.take_lease(mine, 60)
    rollout.state.save()
    host.rollout().state.check_lease(mine)
    host.rollout().state.check_lease({"run": "b/2/2"}, take_over="a/1/1")
    with pytest.raises(FleetError, match="another run holds this host's kernels: process 1 on a") as caught:
        host.rollout().state.check_lease({"run": "b/2/2"})
    assert caught.value.details["busy"]["run"] == "a/1/1"
    rollout.state.take_lease(mine, -1)
    rollout.state.save()
    host.rollout().state.check_lease({"run": "b/2/2"})


def test_two_modules_at_once_exclude_each_other(host: FakeHost) -> None:
    target = Target(host.run, str(host.root))
    with exclusive(target):
        refused = pytest.raises(FleetError, match="another run is changing this host's kernels right now")
        with refused, exclusive(target):
            pass
    with exclusive(target):
        pass


def test_a_state_file_that_is_not_ours_to_understand_is_named(host: FakeHost) -> None:
    host.put(STATE_FILE, "{")
    with pytest.raises(FleetError, match=f"{STATE_FILE}: not JSON"):
        host.rollout()
    host.put(STATE_FILE, '{"schema": 2}')
    with pytest.raises(FleetError, match=f"{STATE_FILE}: schema 2"):
        host.rollout()


def test_a_menu_that_defeats_the_pin_is_refused_before_the_packages(host: FakeHost) -> None:
    early = "### BEGIN /etc/grub.d/04_local ###\n" + menu_entry("6.0", "advanced")
    host.put("/boot/grub/grub.cfg", early + grub_cfg([OLD]))
    before = host.snapshot()
    with pytest.raises(FleetError, match="would come before the entries"):
        stage(host)
    host.put("/boot/grub/grub.cfg", before["boot/grub/grub.cfg"].replace(early, ""))
    host.put("/boot/grub/custom.cfg", "set default=2\n")
    with pytest.raises(FleetError, match="custom.cfg line 1: sets default"):
        stage(host)
    assert not host.packages


def test_the_timer_is_armed_by_the_trials_word_and_stopped_by_the_promotion(host: FakeHost) -> None:
    stage(host)
    assert "OnActiveSec=300\n" in host.text(confirm.TIMER)
    assert "ConditionKernelCommandLine=fetchbpf.trial\n" in host.text(confirm.TIMER)
    assert host.at(confirm.LINK).is_symlink()
    host.reboot()
    host.rollout().promote(NEW)
    assert "systemctl stop fetchbpf-confirm.timer" in host.log
    assert not host.at(confirm.LINK).is_symlink()


def test_a_timer_that_cannot_be_stopped_keeps_the_kernel_from_being_promoted(host: FakeHost) -> None:
    stage(host)
    host.reboot()
    host.answers["systemctl stop"] = (1, "", "Failed to stop: timed out")
    with pytest.raises(FleetError, match="stopping the timer that leaves the trial kernel failed"):
        host.rollout().promote(NEW)
    assert state(host)["default"] is None
    assert host.reboot() == grub.KNOWN_GOOD_ID


def test_a_state_directory_with_files_of_others_stays(host: FakeHost) -> None:
    deploy(host)
    host.reboot()
    host.put("/var/lib/fetchbpf/probes.json", "{}")
    host.rollout().remove(None)
    host.reboot()
    host.rollout().remove(None)
    assert [path.name for path in host.at("/var/lib/fetchbpf").iterdir()] == ["probes.json"]


def test_units_that_fail_already_are_remembered(host: FakeHost) -> None:
    host.failed_units = ["b.service", "a.service"]
    stage(host)
    assert state(host)["trial"]["failed_units"] == ["a.service", "b.service"]
