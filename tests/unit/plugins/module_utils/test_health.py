# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import health
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target
from fake_host import OLD, FakeHost

CONFIG = 'CONFIG_KPROBES=y\nCONFIG_BPF=m\n# CONFIG_SMT is not set\nCONFIG_NAME="-x"\nCONFIG_HZ=250\n'


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path / "host", tmp_path / "artifact")


@pytest.fixture
def target(host: FakeHost) -> Target:
    return Target(host.run, str(host.root))


def test_symbols_are_compared_with_their_values() -> None:
    good = {"CONFIG_KPROBES": "y", "CONFIG_BPF": "m", "CONFIG_SMT": "n", "CONFIG_NAME": '"-x"', "CONFIG_HZ": "250"}
    assert health.check_config(CONFIG, good) == []
    bad = health.check_config(CONFIG, {"CONFIG_BPF": "y", "CONFIG_KPROBES": "n", "CONFIG_UPROBES": "y"})
    assert bad == [
        "CONFIG_BPF is m in the running kernel, asked was y",
        "CONFIG_KPROBES is y in the running kernel, asked was n",
        "CONFIG_UPROBES is n in the running kernel, asked was y",
    ]


def test_a_configuration_that_cannot_be_read_is_not_taken_for_good() -> None:
    assert health.check_config("", {}) == []
    assert "not readable" in health.check_config("", {"CONFIG_BPF": "y"})[0]


def test_the_kernels_own_word_goes_before_the_file(host: FakeHost, target: Target) -> None:
    host.put(f"/boot/config-{OLD}", "CONFIG_A=y\n")
    assert health.running_config(target) == "CONFIG_A=y\n"
    with gzip.open(host.at("/proc/config.gz"), "wt") as handle:
        handle.write("CONFIG_B=y\n")
    assert health.running_config(target) == "CONFIG_B=y\n"


def test_an_oops_is_reported_and_a_foreign_module_is_not(host: FakeHost, target: Target) -> None:
    host.put("/proc/sys/kernel/tainted", str(1 << 12))
    assert health.check_taint(target) == []
    host.put("/proc/sys/kernel/tainted", str(1 << 12 | 1 << 7))
    assert health.check_taint(target) == ["the kernel had an Oops or BUG since it booted (tainted 4224)"]


@pytest.mark.parametrize(
    ("degraded_ok", "before", "problems"),
    [
        (False, [], ["failed units that did not fail on the kernel before: a.service, b.service"]),
        (False, ["a.service"], ["failed units that did not fail on the kernel before: b.service"]),
        (False, ["a.service", "b.service"], []),
        (True, [], []),
    ],
)
def test_only_units_that_fail_anew_count(
    host: FakeHost, target: Target, degraded_ok: bool, before: list[str], problems: list[str]
) -> None:
    host.answers["is-system-running"] = (1, "degraded\n", "")
    host.failed_units = ["b.service", "a.service"]
    assert health.check_system(target, 10, degraded_ok, before) == problems


def test_a_boot_that_does_not_finish_names_what_it_waits_for(host: FakeHost, target: Target) -> None:
    host.answers["is-system-running"] = (124, "", "")
    host.answers["list-jobs"] = (0, "12 slow.service start running\n", "")
    assert health.check_system(target, 10, True, []) == [
        "the host did not finish booting within 10 s (waiting for slow.service)"
    ]


def test_maintenance_is_not_health(host: FakeHost, target: Target) -> None:
    host.answers["is-system-running"] = (1, "maintenance\n", "")
    assert health.check_system(target, 10, True, []) == ["systemctl is-system-running says 'maintenance'"]


def test_commands_are_run_as_given_and_reported_with_their_last_words(host: FakeHost, target: Target) -> None:
    host.answers["broken"] = (3, "", "one\ntwo\nthree\nfour\n")
    host.answers["slow"] = (124, "", "")
    problems = health.check_commands(target, ["true && true", ["broken", "a b"], "slow"], 7)
    assert problems == [
        "health command \"timeout -k 5 7 broken 'a b'\": exit status 3: two / three / four".replace(
            "timeout -k 5 7 ", ""
        ),
        "health command 'slow': took more than 7 s",
    ]
    assert host.log[0] == "timeout -k 5 7 /bin/sh -c true && true"


def test_the_newest_crash_record_is_the_evidence(host: FakeHost, target: Target) -> None:
    assert health.evidence(target) is None
    host.at("/var/log/journal").mkdir(parents=True)
    host.answers["journalctl -b -1"] = (0, "something failed\n", "")
    assert health.evidence(target) == "journal of the boot before: something failed"
    host.put("/var/lib/systemd/pstore/167/dmesg.txt", "a\nKernel panic - not syncing: Attempted to kill init!\n")
    assert health.evidence(target) == "pstore dmesg.txt: a\nKernel panic - not syncing: Attempted to kill init!"
