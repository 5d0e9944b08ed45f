# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timer in the host that reboots a trial kernel nobody confirmed.

It covers what ``panic=`` does not: user space that hangs, or runs without a
network. It starts before the basic system and only with the trial's word on
the kernel command line.
"""

from __future__ import annotations

import os

from ansible_collections.fetchbpf.fleet.plugins.module_utils.grub import TRIAL_WORD
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target

TIMER = "/etc/systemd/system/fetchbpf-confirm.timer"
SERVICE = "/etc/systemd/system/fetchbpf-confirm.service"
LINK = "/etc/systemd/system/sysinit.target.wants/fetchbpf-confirm.timer"
# Left behind by the timer, so that the next run can say why the host went back.
EXPIRED = "/var/lib/fetchbpf/confirm-expired"
# Seconds that an orderly forced reboot gets before the kernel is told to reboot at once.
FORCE_AFTER = 30

TIMER_TEXT = """# Written by the Ansible collection fetchbpf.fleet for one trial boot.
[Unit]
Description=Reboot unless the trial kernel is confirmed within {seconds} s
DefaultDependencies=no
IgnoreOnIsolate=yes
ConditionKernelCommandLine={word}

[Timer]
OnActiveSec={seconds}
AccuracySec=1

[Install]
WantedBy=sysinit.target
"""

SERVICE_TEXT = """# Written by the Ansible collection fetchbpf.fleet for one trial boot.
[Unit]
Description=Go back to the known-good kernel
DefaultDependencies=no
IgnoreOnIsolate=yes
ConditionKernelCommandLine={word}

[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardOutput=journal+console
ExecStart=-/bin/sh -c 'echo "fetchbpf: trial kernel not confirmed within {seconds} s, rebooting"; \
uname -r > {expired}; systemctl list-jobs --no-legend >> {expired}; sync'
ExecStart=-/bin/sh -c 'systemctl --force reboot; sleep {force_after}; systemctl --force --force reboot'
"""


def install(target: Target, seconds: int) -> bool:
    """Put the timer in place for the next boot; return whether that changed anything."""
    values = {"seconds": seconds, "word": TRIAL_WORD, "expired": EXPIRED, "force_after": FORCE_AFTER}
    changed = target.write(SERVICE, SERVICE_TEXT.format(**values))
    changed |= target.write(TIMER, TIMER_TEXT.format(**values))
    link = target.path(LINK)
    if not os.path.islink(link):
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(TIMER, link)
        changed = True
    return changed


def remove(target: Target) -> bool:
    """Stop the timer of this boot and delete it; return whether it was there.

    Raises FleetError if it cannot be stopped: a kernel must not be promoted on a host that is about to reboot.
    """
    target.remove(EXPIRED)
    if not target.exists(TIMER) and not os.path.islink(target.path(LINK)):
        return False
    if target.argument(TRIAL_WORD):
        target.check(["systemctl", "stop", "fetchbpf-confirm.timer"], "stopping the timer that leaves the trial kernel")
    for path in (LINK, TIMER, SERVICE):
        target.remove(path)
    # Only tidies what systemd remembers of the files that are gone.
    target.run(["systemctl", "daemon-reload"])
    return True


def expired(target: Target) -> str:
    """Return what the timer left when it rebooted the host, empty if it did not."""
    return target.read(EXPIRED).strip()
