# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headless Chromium, Debian's own, driven by Selenium: for the test of the report and for its picture."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

_DRIVER = "/usr/bin/chromedriver"


@contextlib.contextmanager
def open_page(path: Path, size: tuple[int, int]) -> Iterator[Chrome]:
    """Open a file in a window of ``size`` CSS pixels; nothing but this file can be reached."""
    options = ChromeOptions()
    # The sandbox needs user namespaces, which root in a container does not have.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(_DRIVER))
    try:
        driver.set_page_load_timeout(300)
        driver.set_script_timeout(300)
        resize(driver, size)
        driver.get(path.resolve().as_uri())
        yield driver
    finally:
        driver.quit()


def resize(driver: Chrome, size: tuple[int, int]) -> None:
    """Make the page ``size`` CSS pixels large, smaller than a window can be if need be."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(driver: Chrome, scheme: str) -> None:
    """Let the reader prefer the colour scheme V(light) or V(dark)."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def picture(driver: Chrome) -> bytes:
    """Return what the window shows as PNG."""
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])
