# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration step of the fake tree: like the real one it drops what it cannot have, and says nothing."""

import re
import sys
from pathlib import Path

DEPENDS = {"NETFILTER_XT_MATCH_OWNER": "NETFILTER_ADVANCED", "NETFILTER_ADVANCED": "NET", "KPROBES": "MODULES"}
TINY = 'CONFIG_LOCALVERSION=""\nCONFIG_LOCALVERSION_AUTO=y\nCONFIG_X86=y\nCONFIG_KERNEL_XZ=y\nCONFIG_LOG_SHIFT=17\n'

target, path = sys.argv[1], Path(sys.argv[2])
if target != "olddefconfig":
    path.write_text(TINY)
    sys.exit()
lines = path.read_text().splitlines()
for _round in DEPENDS:
    on = set(re.findall(r"^CONFIG_(\w+)=[ym]$", "\n".join(lines), re.MULTILINE))
    kept = []
    for line in lines:
        name = re.match(r"CONFIG_(\w+)=", line)
        unknown = name and name[1].startswith("NO_SUCH")
        if not unknown and not (name and name[1] in DEPENDS and DEPENDS[name[1]] not in on):
            kept.append(line)
    lines = kept
path.write_text("\n".join(lines) + "\n")
