# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target
from ansible_collections.fetchbpf.fleet.plugins.modules import kernel_install
from fake_host import NEW, OLD, FakeHost

OWNER = {"run": "a/1/1", "controller": "a", "pid": 1}


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path / "host", tmp_path / "artifact")


def run(host: FakeHost, check: bool = False, **params: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "state": "staged",
        "manifest": host.make_artifact(),
        "release": None,
        "cmdline": "",
        "confirm_timeout": 300,
        "reboot_follows": True,
        "lease_timeout": 60,
        "reason": "",
        "packages_dir": str(host.artifact),
        "payload": None,
        "owner": OWNER,
        "take_over": "",
        "progress_file": None,
    }
    module: Any = SimpleNamespace(params={**defaults, **params}, check_mode=check)
    return kernel_install.run(module, Target(host.run, str(host.root)))


def test_staging_says_all_that_the_next_steps_need(host: FakeHost) -> None:
    result = run(host)
    assert (result["release"], result["running"], result["known_good"]) == (NEW, OLD, OLD)
    assert (result["status"], result["changed"], result["reboot_required"]) == ("staged", True, True)
    assert result["requested"] == {"CONFIG_KPROBES": "y"}
    assert result["diff"][0]["before"] == ""


def test_a_run_that_reboots_holds_the_host_until_its_trial_is_over(host: FakeHost) -> None:
    run(host)
    other = {"run": "b/2/2", "controller": "b", "pid": 2}
    with pytest.raises(FleetError, match="another run holds"):
        run(host, owner=other)
    with pytest.raises(FleetError, match="another run holds"):
        run(host, owner=other, state="absent")
    host.reboot()
    run(host, state="promoted", release=NEW)
    assert run(host, owner=other)["changed"] is False


def test_a_run_that_does_not_reboot_holds_nothing(host: FakeHost) -> None:
    run(host, reboot_follows=False)
    assert run(host, reboot_follows=False, owner={"run": "b/2/2", "controller": "b", "pid": 2})["changed"] is False


def test_check_mode_takes_no_lease(host: FakeHost) -> None:
    before = host.snapshot()
    assert run(host, check=True, packages_dir=None)["changed"]
    assert host.snapshot() == before


def test_a_failed_trial_is_closed_with_what_its_timer_left(host: FakeHost) -> None:
    run(host)
    host.reboot()
    host.put("/var/lib/fetchbpf/confirm-expired", f"{NEW}\nslow.service\n")
    host.reboot()
    result = run(host, state="reverted", release=NEW, reason="x")
    assert (result["status"], result["timer"]) == ("reverted", f"{NEW}\nslow.service")
    assert not host.at("/var/lib/fetchbpf/confirm-expired").exists()
