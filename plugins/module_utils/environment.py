# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measurement was made on: it travels with every result."""

from __future__ import annotations

import glob
import os
import shutil
from typing import Any

from .process import run

_SYSCTLS = ("net.core.bpf_jit_enable", "net.core.bpf_jit_harden", "kernel.unprivileged_bpf_disabled")


def _read(path: str) -> str | None:
    """Return a file's stripped text, or None where the kernel has no such file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return None


def _cpu_model(cpuinfo: str) -> str | None:
    for line in cpuinfo.splitlines():
        if line.lower().startswith(("model name", "cpu model")):
            return line.partition(":")[2].strip()
    return None


def _virtualisation() -> str:
    """Return systemd's word for it: none, kvm, qemu (software emulation), …"""
    tool = shutil.which("systemd-detect-virt")
    if tool is None:
        return "unknown"
    return run([tool]).stdout.strip() or "unknown"


def describe_environment() -> dict[str, Any]:
    """Return kernel, CPU and the settings that change what a probe costs.

    Values are the kernel's own texts; None where this kernel has no such setting.
    """
    uname = os.uname()
    mitigations = {
        os.path.basename(path): _read(path) for path in sorted(glob.glob("/sys/devices/system/cpu/vulnerabilities/*"))
    }
    return {
        "kernel": uname.release,
        "kernel_build": uname.version,
        "architecture": uname.machine,
        "cpu": _cpu_model(_read("/proc/cpuinfo") or ""),
        "cpus": os.cpu_count(),
        "virtualisation": _virtualisation(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "smt": _read("/sys/devices/system/cpu/smt/control"),
        "mitigations": mitigations,
        "sysctl": {name: _read("/proc/sys/" + name.replace(".", "/")) for name in _SYSCTLS},
    }
