# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel will show of a declaration, as far as that can be foretold."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probe_lines import as_declared, foretold
from ansible_collections.fetchbpf.fleet.plugins.module_utils.probes import Event, Limits, parse_event


def event(definition: str, **item: Any) -> Event:
    return parse_event({"definition": definition, **item}, "g", Limits(13, 63))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("r:g/e f", "r:g/e f"),
        ("r7:g/e f", "r7:g/e f"),
        ("p:g/e f%return", "r:g/e f"),
        ("p:g/e f+0", "p:g/e f"),
        ("p:g/e f+0x4", "p:g/e f+4"),
        ("p:g/e mod:f+0x10", "p:g/e mod:f+16"),
        ("p:g/e f %ax", "p:g/e f arg1=%ax"),
        ("p:g/e f a=$arg1 +0(%ax):u8", "p:g/e f a=$arg1 arg2=+0(%ax):u8"),
        ("p:g/e f count", "p:g/e f count=count"),
        ("f:g/e f $retval", "f:g/e f%return arg1=$retval"),
        ("e:g/e a/b c=$d", "e:g/e a.b c=$d"),
        ("p:g/e /bin/sh:4096", "p:g/e /bin/sh:0x0000000000001000"),
        ("p:g/e /bin/sh:0x1000(0x20)", "p:g/e /bin/sh:0x0000000000001000(0x20)"),
        ("p:g/e   f  a=%ax # c", "p:g/e f a=%ax"),
        # Only the kernel knows.
        ("p:g/e 0xffffffff81000000", None),
        ("p:g/e f $arg1", None),
        ("p:g/e f $arg*", None),
        ("p:g/e f x=$arg1:%pD", None),
        ("e:g/e a/b c=$d if c > 1", None),
    ],
)
def test_foretold(written: str, shown: str | None) -> None:
    assert foretold("g/e", event(written).probes[0]) == shown


def test_a_default_maxactive_may_be_any() -> None:
    assert as_declared(event("r:g/e f"), ("r10:g/e f",))
    assert not as_declared(event("r7:g/e f"), ("r10:g/e f",))


def test_a_uprobes_file_cannot_be_seen_in_its_line() -> None:
    assert not as_declared(event("p:g/e /bin/sh:0x1"), ("p:g/e /bin/sh:0x0000000000000001",))
