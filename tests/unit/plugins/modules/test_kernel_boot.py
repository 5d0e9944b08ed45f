# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target
from ansible_collections.fetchbpf.fleet.plugins.modules import kernel_boot
from fake_host import NEW, FakeHost


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    host = FakeHost(tmp_path / "host", tmp_path / "artifact")
    host.answers["is-system-running"] = (0, "running\n", "")
    host.rollout().stage(host.wanted(), str(host.artifact), None, 300)
    host.reboot()
    return host


def check(host: FakeHost, **params: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "release": NEW,
        "trial": "x",
        "requested": {},
        "health_commands": [],
        "health_timeout": 10,
        "degraded_ok": False,
        "boot_id": "",
        "owner": None,
    }
    return kernel_boot.run({**defaults, **params}, Target(host.run, str(host.root)))


def test_a_healthy_trial_is_promoted_at_once(host: FakeHost) -> None:
    assert check(host) == {"changed": True, "problems": []}
    assert host.rollout().state.default is not None


def test_a_sick_trial_is_not_promoted_and_all_its_problems_are_told(host: FakeHost) -> None:
    host.answers["nope"] = (1, "", "")
    host.put("/proc/sys/kernel/tainted", "128\n")
    result = check(host, requested={"CONFIG_BPF": "y"}, health_commands=[["nope"]])
    assert len(result["problems"]) == 3
    assert host.rollout().state.default is None


def test_another_boot_than_the_one_asked_about_is_not_checked(host: FakeHost) -> None:
    assert "was rebooted under its checks" in check(host, boot_id="other")["problems"][0]
    host.reboot()
    assert "was rebooted under its checks" in check(host)["problems"][0]


def test_a_boot_that_is_no_trial_is_checked_only(host: FakeHost) -> None:
    check(host)
    assert check(host, trial="") == {"changed": False, "problems": []}
