# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kconfig_tree import KconfigTree

from tests.unit.fakes import FAKELINUX

BASE = {"CONFIG_X86": "y", "CONFIG_GENERIC_THING": "y", "CONFIG_KERNEL_XZ": "y", "CONFIG_NET": "y"}


@pytest.fixture(scope="module")
def kconfig() -> KconfigTree:
    return KconfigTree(FAKELINUX, "x86")


@pytest.mark.parametrize(
    ("symbol", "asked", "values", "reason"),
    [
        # The field case: the dependency is off.
        ("NETFILTER_XT_MATCH_OWNER", "y", {}, "unmet dependency: NETFILTER_ADVANCED=n [net/Kconfig:11]"),
        ("NETFILTER_XT_MATCH_OWNER", "y", {"CONFIG_NET": "n"}, "unmet dependency: NET=n, NETFILTER_ADVANCED=n [net"),
        ("KPROBES", "y", {"CONFIG_X86": "n"}, "unmet dependency: MODULES=n, (X86 || HAVE_FAST) (X86=n, HAVE_FAST=n) ["),
        ("FAST_THING", "y", {}, "unmet dependency: HAVE_FAST=n ["),
        ("ODD_M", "y", {"CONFIG_NET": "n"}, "unmet dependency: NET != n (NET=n) ["),
        ("ODD_M", "m", {}, "it can be y or n, not m"),
        ("KERNEL_GZIP", "y", {}, "its choice has CONFIG_KERNEL_XZ=y"),
        ("GENERIC_THING", "n", {}, "it is selected by CONFIG_X86"),
        ("HAVE_FAST", "y", {}, "it cannot be set by hand"),
        ("LOG_SHIFT", "y", {}, "it is of type int"),
        ("NETFILTER_ADVANCE", "y", {}, "no such symbol for this architecture (near: CONFIG_NETFILTER_ADVANCED)"),
        ("NOT_A_SYMBOL", "y", {}, "no such symbol"),
        (
            "NETFILTER_XT_MATCH_OWNER",
            "m",
            {"CONFIG_NETFILTER_ADVANCED": "y"},
            "unmet dependency: MODULES=n",
        ),
    ],
)
def test_the_reason_names_what_is_in_the_way(
    kconfig: KconfigTree, symbol: str, asked: str, values: dict[str, str], reason: str
) -> None:
    assert reason in kconfig.why(f"CONFIG_{symbol}", asked, {**BASE, **values})


def test_a_dependency_on_a_module_limits_a_tristate_to_m(kconfig: KconfigTree) -> None:
    values = {**BASE, "CONFIG_NETFILTER_ADVANCED": "m", "CONFIG_MODULES": "y"}
    assert "NETFILTER_ADVANCED=m" in kconfig.why("CONFIG_NETFILTER_XT_MATCH_OWNER", "y", values)


def test_help_texts_and_sourced_files_are_read_right(kconfig: KconfigTree) -> None:
    assert {"X86", "NET", "FAST_THING", "ODD_M"} <= kconfig.symbols.keys()
    assert "NOT_A_SYMBOL" not in kconfig.symbols
    assert kconfig.symbols["KPROBES"].definitions[0].depends == ("MODULES && (X86 || HAVE_FAST)",)
