# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reboot a host into a kernel, see what really came up, check it, promote it or take it back."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fetchbpf.fleet.plugins.module_utils import console
from ansible_collections.fetchbpf.fleet.plugins.module_utils.boot_options import BOOT_OPTIONS
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.grub import TRIAL_WORD
from ansible_collections.fetchbpf.fleet.plugins.plugin_utils.controller_run import current_run

display = Display()

INSTALL = "fetchbpf.fleet.kernel_install"
LOOK = "cat /proc/sys/kernel/random/boot_id && uname -r && cat /proc/cmdline"
# Seconds between two looks at a host that is down, between two lines for the user, for a command on the controller.
POLL = 2.0
# Seconds a host that is coming up gets to answer one look; a hanging one must not eat the boot timeout.
LOOK_TIMEOUT = 15
REPORT = 15.0
COMMAND_TIMEOUT = 60
CHECKS = ("release", "trial", "requested", "health_commands", "health_timeout", "degraded_ok")


class Boot(NamedTuple):
    """One boot of the host, as the host itself tells."""

    boot_id: str
    release: str
    trial: str | None


class ActionModule(ActionBase):
    """The steps of one trial, each announced on the screen."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        self._vars = task_vars or {}
        _validated, args = self.validate_argument_spec(argument_spec=BOOT_OPTIONS)
        self._args = args
        if self._task.check_mode:
            return {"changed": True, "msg": f"would reboot the host into {args['release']} and check it there"}
        try:
            return self._boot_and_check()
        except FleetError as exc:
            return {"failed": True, "msg": str(exc), **exc.details}

    def _boot_and_check(self) -> dict[str, Any]:
        start = time.monotonic()
        before = self._look()
        if before is None:
            raise FleetError("the host does not answer, so it was not rebooted")
        self._console_before = self._console()
        if self._is_wanted(before):
            self._say(f"{before.release} runs already, not rebooted")
            now = before
        else:
            now = self._reboot(before)
            self._verify(before, now, start)
        problems = self._check_health(now)
        result = {"changed": True, "release": now.release, "boot_seconds": round(time.monotonic() - start, 1)}
        if not problems:
            self._say(f"{now.release} is healthy" + (" and the default now" if self._args["trial"] else ""))
            return result
        reason = "; ".join(problems)
        if not self._args["trial"]:
            raise FleetError(f"{now.release} runs but is not healthy: {reason}", problems=problems)
        self._say(f"{now.release} is not healthy, going back: {reason}")
        back = self._look() or now
        if back.boot_id == now.boot_id:
            back = self._reboot(now)
        if back.trial == self._args["trial"]:
            raise FleetError(
                f"trial kernel {now.release} is not healthy ({reason}) and the host still runs it", problems=problems
            )
        self._revert(reason)
        raise FleetError(
            f"kernel {now.release} booted but failed its checks: {reason}. "
            f"The host is back on {back.release}; its default boot entry was never changed.",
            problems=problems,
            running=back.release,
        )

    def _is_wanted(self, boot: Boot) -> bool:
        # A boot from the default entry is no trial, whatever trial came before it.
        return boot.release == self._args["release"] and boot.trial == (self._args["trial"] or None)

    def _verify(self, before: Boot, now: Boot, start: float) -> None:
        """Fail with the reason unless ``now`` is a boot of exactly the kernel that was asked for."""
        wanted = self._args["release"]
        if self._is_wanted(now):
            self._say(f"{now.release} is up after {time.monotonic() - start:.0f} s")
            return
        seconds = round(time.monotonic() - start)
        if not self._args["trial"]:
            raise FleetError(
                f"the host came up on {now.release} instead of {wanted} after {seconds} s", running=now.release
            )
        seen = console.excerpt(console.new_text(self._console_before, self._console()))
        left = self._revert(seen if seen else "boot failed")
        reasons = []
        if left.get("timer"):
            reasons.append("it was up but nobody could confirm it in time, so its timer rebooted the host")
        if seen:
            reasons.append(f"console:\n{seen}")
        if left.get("evidence"):
            reasons.append(left["evidence"])
        reason = "\n".join(reasons) or "unknown: no console_command, no pstore record and no persistent journal"
        raise FleetError(
            f"kernel {wanted} failed its trial boot: the host is back on {now.release} after {seconds} s. "
            f"Reason: {reason}",
            running=now.release,
            reason=reason,
        )

    def _reboot(self, before: Boot) -> Boot:
        """Reboot and return the next boot, whichever kernel that has; FleetError if the host stays away."""
        self._say(f"rebooting from {before.release}")
        try:
            result = self._low_level_execute_command("systemctl reboot")
            # 255 is ssh's own status: the host went down under it, which is what was asked.
            if result["rc"] not in (0, 255):
                raise FleetError(f"systemctl reboot failed: {result['stderr'].strip() or result['stdout'].strip()}")
        except AnsibleConnectionFailure:
            pass
        boot = self._wait(before)
        if boot is None and self._args["rescue_command"]:
            self._say(f"not back after {self._args['boot_timeout']} s, running the rescue command")
            self._on_controller(self._args["rescue_command"], "rescue_command")
            boot = self._wait(before)
        if boot is None:
            rescued = "even after its rescue command" if self._args["rescue_command"] else "and has no rescue_command"
            seen = console.excerpt(console.new_text(self._console_before, self._console()))
            raise FleetError(
                f"the host did not come back within {self._args['boot_timeout']} s {rescued}. "
                "The trial entry is used up: a reset starts the known-good kernel."
                + (f" Console:\n{seen}" if seen else "")
            )
        return boot

    def _wait(self, before: Boot) -> Boot | None:
        """Return the first boot that is not ``before``, None if there is none in time."""
        start = time.monotonic()
        reported = start
        # Not every connection plugin has a timeout to set.
        with contextlib.suppress(AnsibleError, KeyError):
            self._connection.set_option("timeout", LOOK_TIMEOUT)
        while time.monotonic() - start < self._args["boot_timeout"]:
            time.sleep(POLL)
            boot = self._look(fresh=True)
            if boot and boot.boot_id != before.boot_id:
                return boot
            if time.monotonic() - reported >= REPORT:
                reported = time.monotonic()
                state = f"still up on {boot.release}" if boot else "down or booting"
                self._say(f"{reported - start:.0f} s: {state}")
        return None

    def _look(self, fresh: bool = False) -> Boot | None:
        """Ask the host for its boot; None if it does not answer. ``fresh`` trusts no open connection."""
        try:
            if fresh:
                self._connection.reset()
            result = self._low_level_execute_command(LOOK)
        except AnsibleConnectionFailure:
            return None
        lines = result["stdout"].strip().splitlines()
        if result["rc"] != 0 or len(lines) < 3:
            return None
        boot_id, release, cmdline = lines[-3:]
        trials = [word.partition("=")[2] for word in cmdline.split() if word.startswith(f"{TRIAL_WORD}=")]
        return Boot(boot_id, release, trials[-1] if trials else None)

    def _check_health(self, boot: Boot) -> list[str]:
        """Run the checks on the host; the module promotes a healthy trial at once. Return what is wrong."""
        self._say(f"checking {boot.release}")
        arguments = dict({name: self._args[name] for name in CHECKS}, boot_id=boot.boot_id, owner=current_run())
        try:
            result = self._execute_module(module_args=arguments, task_vars=self._vars)
        except AnsibleConnectionFailure as exc:
            return [f"the host went away during its checks: {exc.message}"]
        if result.get("unreachable") or "problems" not in result:
            return [f"the checks could not be run: {result.get('msg')}"]
        return result["problems"]

    def _revert(self, reason: str) -> dict[str, Any]:
        """Close the trial on the host; a failure of this is added to what the user reads anyway."""
        arguments = {"state": "reverted", "release": self._args["release"], "reason": reason, "owner": current_run()}
        try:
            result = self._execute_module(module_name=INSTALL, module_args=arguments, task_vars=self._vars)
        except AnsibleConnectionFailure as exc:
            result = {"failed": True, "msg": exc.message}
        if result.get("failed"):
            display.warning(f"{self._host}: closing the trial failed: {result.get('msg')}")
        return result

    def _console(self) -> str:
        """Return what the console command prints, empty without one or if it fails."""
        if not self._args["console_command"]:
            return ""
        try:
            return self._on_controller(self._args["console_command"], "console_command")
        except FleetError as exc:
            display.warning(f"{self._host}: {exc}")
            return ""

    @staticmethod
    def _on_controller(command: str | Sequence[str], what: str) -> str:
        argv = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=COMMAND_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise FleetError(f"{what}: {exc}") from exc
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()
            raise FleetError(f"{what} {' '.join(argv)}: exit status {done.returncode}: {said}")
        return done.stdout.decode(errors="replace")

    @property
    def _host(self) -> str:
        return self._vars.get("inventory_hostname", "?")

    def _say(self, text: str) -> None:
        display.display(f"{self._host}: kernel_boot: {text}")
