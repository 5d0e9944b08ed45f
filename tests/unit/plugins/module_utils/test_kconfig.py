# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kconfig import (
    Fragment,
    check_localversion,
    config_hash,
    distro_keys,
    key_files,
    merge,
    not_honoured,
    parse_config,
    parse_fragments,
    refuse_bad_pairs,
)

DISTRO = """CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/debian-uefi-certs.pem"
CONFIG_SYSTEM_REVOCATION_KEYS="debian/certs/revoked.pem"
CONFIG_MODULE_SIG_KEY="certs/signing_key.pem"
"""


def test_settings_and_not_set_lines_are_read() -> None:
    text = '# comment\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="a=b # c"\nCONFIG_D=0x10\n'
    assert parse_config(text) == {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_C": '"a=b # c"', "CONFIG_D": "0x10"}


def test_a_later_fragment_overrides_and_keeps_its_place() -> None:
    asked = parse_fragments(
        [Fragment("a", "CONFIG_A=y\nCONFIG_B=m\n"), Fragment("b", "# why\n# CONFIG_A is not set\n")]
    )
    assert asked["CONFIG_A"] == ("n", "b:2")
    assert asked["CONFIG_B"] == ("m", "a:2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CONFIG_A=y\nHello\n", "f:2: neither CONFIG_X=value nor a comment: Hello"),
        ("CONFIG_A=y\nCONFIG_A=m\n", r"f:2: CONFIG_A=m contradicts f:1 \(y\)"),
        ('CONFIG_LOCALVERSION="-x"\n', "f:1: CONFIG_LOCALVERSION names the artifact"),
    ],
)
def test_a_wrong_fragment_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FleetError, match=message):
        parse_fragments([Fragment("f", text)])


def test_equals_n_is_the_same_as_not_set() -> None:
    asked = parse_fragments([Fragment("f", "CONFIG_A=n\n# CONFIG_B is not set\n")])
    assert not_honoured(asked, {}) == {}
    assert not_honoured(asked, {"CONFIG_A": "y", "CONFIG_B": "m"}) == {"CONFIG_A": "y", "CONFIG_B": "m"}


def test_asked_and_got_are_compared_exactly_but_for_the_case_of_hex() -> None:
    asked = parse_fragments([Fragment("f", 'CONFIG_A=y\nCONFIG_H=0xFF\nCONFIG_S="x"\nCONFIG_I=5\n')])
    assert not_honoured(asked, {"CONFIG_A": "m", "CONFIG_H": "0xff", "CONFIG_S": '"y"'}) == {
        "CONFIG_A": "m",
        "CONFIG_S": '"y"',
        "CONFIG_I": "n",
    }


def test_merge_replaces_in_both_forms_and_matches_whole_names() -> None:
    base = "# x\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_AB=y\n"
    assert merge(base, {"CONFIG_A": "n", "CONFIG_B": "y"}) == "# x\nCONFIG_AB=y\n# CONFIG_A is not set\nCONFIG_B=y\n"


@pytest.mark.parametrize("value", ["-Perf_Team1", "-a_b", "fetchbpf", "-A", "- a", ""])
def test_a_local_version_that_makes_no_package_is_refused(value: str) -> None:
    with pytest.raises(FleetError, match="Debian package name"):
        check_localversion(value)


def test_a_plain_local_version_is_fine() -> None:
    check_localversion("-perf-team1")


def test_key_files_of_a_distribution_are_cleared_unless_asked_for_or_there() -> None:
    values = parse_config(DISTRO)
    assert key_files(values) == {
        "debian/certs/debian-uefi-certs.pem",
        "debian/certs/revoked.pem",
        "certs/signing_key.pem",
    }
    assert distro_keys(values, {}, set()) == {
        "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
        "CONFIG_SYSTEM_REVOCATION_KEYS": '""',
    }
    asked = parse_fragments([Fragment("f", 'CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/debian-uefi-certs.pem"\n')])
    assert distro_keys(values, asked, {"debian/certs/revoked.pem"}) == {}


def test_the_hash_is_that_of_the_settings_without_the_local_version() -> None:
    one = config_hash('CONFIG_A=y\nCONFIG_LOCALVERSION="-x"\n# CONFIG_B is not set\n')
    assert one == config_hash('# text\n# CONFIG_B is not set\nCONFIG_LOCALVERSION="-y"\nCONFIG_A=y\n')
    assert one != config_hash('CONFIG_A=m\nCONFIG_LOCALVERSION="-x"\n# CONFIG_B is not set\n')


@pytest.mark.parametrize(
    ("size", "jumps", "gcc", "refused"),
    [
        ("y", "y", "120200", True),
        ("y", "y", "130300", True),
        ("y", "y", "140200", False),
        ("n", "y", "120200", False),
        ("y", "n", "120200", False),
        ("y", "y", "0", False),
    ],
)
def test_size_optimised_7_3_with_an_old_gcc_is_refused(size: str, jumps: str, gcc: str, refused: bool) -> None:
    values = {
        "CONFIG_CC_OPTIMIZE_FOR_SIZE": size,
        "CONFIG_DYNAMIC_FTRACE_WITH_JMP": jumps,
        "CONFIG_GCC_VERSION": gcc,
    }
    if refused:
        with pytest.raises(FleetError, match="CONFIG_CC_OPTIMIZE_FOR_SIZE=y with gcc 1[23] .*OPTIMIZE_FOR_PERFORMANCE"):
            refuse_bad_pairs(values)
    else:
        refuse_bad_pairs(values)
