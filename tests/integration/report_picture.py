#!/usr/bin/env python3
# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes a picture of a report: report_picture.py REPORT.html PICTURE.png [WIDTHxHEIGHT] [light|dark] [#ANCHOR]"""

from __future__ import annotations

import sys
from pathlib import Path

import browser


def main() -> None:
    """Entry point."""
    report, target = (Path(argument) for argument in sys.argv[1:3])
    width, height = (int(part) for part in (sys.argv[3] if len(sys.argv) > 3 else "1000x1250").split("x"))
    with browser.open_page(report, (width, height)) as page:
        browser.prefer(page, sys.argv[4] if len(sys.argv) > 4 else "light")
        if len(sys.argv) > 5:
            page.execute_script("document.querySelector(arguments[0]).scrollIntoView()", sys.argv[5])
        target.write_bytes(browser.picture(page))


if __name__ == "__main__":
    main()
