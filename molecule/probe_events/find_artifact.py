# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the path of the newest kernel package of a series: find_artifact.py ARTIFACTS SERIES."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Entry point."""
    folder, series = Path(sys.argv[1]), sys.argv[2]
    manifests = [
        path
        for path in folder.glob("*/manifest.json")
        if json.loads(path.read_text(encoding="utf-8"))["series"]["name"] == series
    ]
    if not manifests:
        sys.exit(
            f"no {series} artifact in {folder}: run make deploy ARGS='-e kernel_series={series} --tags build' first"
        )
    newest = max(manifests, key=lambda path: path.stat().st_mtime)
    print(next(newest.parent.glob("linux-image-*.deb")))


if __name__ == "__main__":
    main()
