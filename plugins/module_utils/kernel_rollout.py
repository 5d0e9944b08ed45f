# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a kernel on trial, promote it, take it back, remove it.

Order of every step: first what keeps the host safe (the default entry pinned
to the known-good kernel), then what may fail, then what lets the new kernel
boot. So a host that loses power anywhere in here starts its known-good kernel.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import time
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.fetchbpf.fleet.plugins.module_utils import confirm, grub, preflight
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_state import KernelState, remembered
from ansible_collections.fetchbpf.fleet.plugins.module_utils.preflight import GRUB_CFG, GRUB_ENV
from ansible_collections.fetchbpf.fleet.plugins.module_utils.progress import Progress
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target

MENU = "/boot/grub/fetchbpf.cfg"
MENU_SCRIPT = "/etc/grub.d/06_fetchbpf"
CUSTOM_CFG = "/boot/grub/custom.cfg"
# Kinds of artifact files that are packages to install.
INSTALLED_KINDS = ("image", "tools")
# Seconds to wait for another dpkg or apt on the host.
DPKG_WAIT = 300


@dataclass(frozen=True)
class Wanted:
    """The kernel that should run: the manifest of its artifact and more kernel arguments."""

    manifest: dict[str, Any]
    cmdline: str

    @property
    def release(self) -> str:
        return self.manifest["release"]

    @property
    def identity(self) -> dict[str, str]:
        """What must be equal for a kernel to count as the wanted one."""
        return {"release": self.release, "cmdline": self.cmdline, "key": self.manifest["key"]}

    @property
    def files(self) -> list[dict[str, Any]]:
        """The artifact's files that go to the host."""
        return [item for item in self.manifest["files"] if item["kind"] in INSTALLED_KINDS]


@dataclass
class Result:
    """What a step did or, in check mode, would do."""

    status: str
    release: str
    changed: bool = False
    reboot_required: bool = False
    needed_files: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    known_good: Optional[str] = None
    diff: dict[str, str] = field(default_factory=dict)

    def act(self, text: str) -> None:
        """Note a change."""
        self.changed = True
        self.actions.append(text)


class Rollout:
    """The kernels of one host. ``check`` changes nothing and only tells."""

    def __init__(self, target: Target, check: bool = False, progress: Optional[Progress] = None) -> None:
        self.target = target
        self.check = check
        self.progress = progress or Progress(None)
        self.state = KernelState(target)

    # -- facts ---------------------------------------------------------------------------------

    @property
    def on_trial(self) -> Optional[str]:
        """Release of the trial that is running, None in any other boot."""
        return self.target.argument(grub.TRIAL_WORD)

    def entries(self) -> list[grub.Entry]:
        """All menu entries of the host, ours first."""
        return [entry for path in (MENU, GRUB_CFG) for entry in grub.parse_menu(self.target.read(path))]

    def installed(self, packages: dict[str, str]) -> bool:
        """Whether dpkg has exactly these versions, configured."""
        argv = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", *packages]
        _status, out, _err = self.target.run(argv)
        return set(out.splitlines()) == {f"{name} {version} installed" for name, version in packages.items()}

    def next_entry(self) -> str:
        """Id of the entry that GRUB boots once, empty without one."""
        return grub.parse_environment(self.target.read(GRUB_ENV)).get("next_entry", "")

    # -- staged --------------------------------------------------------------------------------

    def stage(
        self, wanted: Wanted, packages_dir: Optional[str], payload: Optional[dict[str, Any]], confirm_timeout: int
    ) -> Result:
        """Make ``wanted`` the kernel that is booted once, unless it is the promoted one already.

        Without ``packages_dir`` nothing is installed: ``needed_files`` of the result names what is missing.
        ``payload`` is {"boot_bytes", "installed_bytes", "signed"} of the packages.
        """
        extra = grub.split_cmdline(wanted.cmdline)
        state, target = self.state, self.target
        packages = wanted.manifest["packages"]
        complete = self.installed(packages) and target.exists(f"/boot/vmlinuz-{wanted.release}")
        if complete and state.default == wanted.identity and target.release == wanted.release and not state.trial:
            return self._keep(wanted)
        preflight.check_platform(target)
        trial = state.trial if state.trial and self._is_trial_of(wanted) else None
        if complete and trial and trial["phase"] == "staged":
            if self.on_trial == wanted.release == target.release:
                return Result("trial", wanted.release, known_good=trial["known_good"]["release"])
            if self.next_entry() == grub.entry_id(wanted.release) and trial["boot_id"] == target.boot_id:
                return Result(
                    "staged", wanted.release, reboot_required=True, known_good=trial["known_good"]["release"]
                )
        preflight.check_architecture(target, os.uname().machine, wanted.manifest["arch"])
        preflight.check_environment_block(target)
        known_good = self._running_entry()
        grub.check_overrides(target.read(CUSTOM_CFG), CUSTOM_CFG)
        result = Result("staged", wanted.release, reboot_required=True, known_good=known_good["release"])
        if not complete:
            self._check_files(wanted)
            if payload:
                preflight.check_secure_boot(target, wanted.release, payload.get("signed"))
                preflight.check_space(target, target.release, payload, self._boot_files(wanted.release))
            if packages_dir is None:
                result.status = "needs_files"
                result.needed_files = [item["name"] for item in wanted.files]
            else:
                self._check_sums(wanted, packages_dir)
        result.act(f"pin the default boot entry to {known_good['release']}")
        if not complete:
            result.act("install " + ", ".join(f"{name} {version}" for name, version in sorted(packages.items())))
        arguments = " ".join([grub.PANIC_WORD, *extra])
        result.act(f"boot {wanted.release} once, with {arguments}, and go back to {known_good['release']} if it fails")
        if self.check or result.needed_files:
            result.changed = self.check
            return result
        self._install(wanted, known_good, None if complete else packages_dir, result)
        self._arm(wanted, confirm_timeout, result)
        return result

    def _is_trial_of(self, wanted: Wanted) -> bool:
        trial = self.state.trial or {}
        return {name: trial.get(name) for name in wanted.identity} == wanted.identity

    def _keep(self, wanted: Wanted) -> Result:
        """Repair what someone took away from under a promoted kernel that runs."""
        result = Result("promoted", wanted.release)
        assert self.state.known_good
        result.known_good = self.state.known_good["release"]
        script = self.target.read(MENU_SCRIPT)
        if script != grub.MENU_SCRIPT or not os.access(self.target.path(MENU_SCRIPT), os.X_OK):
            result.act(f"restore {MENU_SCRIPT}")
        stale = grub.SOURCE_MARK not in self.target.read(GRUB_CFG)
        if stale:
            result.act(f"make {GRUB_CFG} read {MENU}")
        if self.target.read(MENU) != self._menu():
            result.act(f"restore {MENU}")
        if result.changed and not self.check:
            self._write_menu(result)
            self.target.write(MENU_SCRIPT, grub.MENU_SCRIPT, 0o755)
            if stale:
                self._update_grub()
        return result

    def _running_entry(self) -> dict[str, Any]:
        """Return the known-good kernel: the running one and its menu entry, exactly."""
        if self.on_trial:
            if not self.state.trial:
                raise FleetError(
                    f"trial kernel {self.on_trial} runs, but {self.state_file} does not know what to go back to; reboot first"
                )
            return self.state.trial["known_good"]
        release = self.target.release
        entry = grub.find_entry(self.entries(), release, self.target.cmdline)
        if entry is None:
            raise FleetError(
                f"{GRUB_CFG} has no entry that boots exactly the running kernel {release}, "
                "so there would be nothing known good to go back to; run update-grub and see that its vmlinuz is in /boot"
            )
        missing = [name for name in entry.kernel_files if not self.target.exists(f"/boot/{name}")]
        if missing:
            raise FleetError(f"/boot/{missing[0]} of the running kernel is missing, so there is nothing to go back to")
        return remembered(release, entry)

    @property
    def state_file(self) -> str:
        return "/var/lib/fetchbpf/kernels.json"

    def _check_files(self, wanted: Wanted) -> None:
        """Refuse to overwrite a kernel of the same release that no package of ours owns."""
        image = f"/boot/vmlinuz-{wanted.release}"
        if not self.target.exists(image) or wanted.release in self.state.kernels or self._is_trial_of(wanted):
            return
        status, out, _err = self.target.run(["dpkg-query", "-S", image])
        owner = out.partition(":")[0]
        if status != 0 or owner not in wanted.manifest["packages"]:
            raise FleetError(f"{image} exists and belongs to {owner or 'no package'}; it is not overwritten")

    @staticmethod
    def _boot_files(release: str) -> list[str]:
        return [f"/boot/{name}-{release}" for name in ("vmlinuz", "System.map", "config", "initrd.img")]

    def _check_sums(self, wanted: Wanted, directory: str) -> None:
        """Compare the packages with the manifest."""
        for item in wanted.files:
            path = os.path.join(directory, item["name"])
            digest = hashlib.sha256()
            try:
                with open(path, "rb") as handle:
                    for block in iter(lambda: handle.read(1 << 20), b""):
                        digest.update(block)
            except OSError as exc:
                raise FleetError(f"{path}: {exc.strerror}") from exc
            if digest.hexdigest() != item["sha256"]:
                raise FleetError(f"{item['name']}: sha256 is {digest.hexdigest()}, the manifest says {item['sha256']}")

    def _install(self, wanted: Wanted, known_good: dict[str, Any], packages_dir: Optional[str], result: Result) -> None:
        """Pin the known-good kernel, then install the packages; on failure the host is as before."""
        state, target = self.state, self.target
        before = (state.trial, state.baseline)
        failed_units = target.run(["systemctl", "list-units", "--state=failed", "--plain", "--no-legend"])[1]
        state.trial = {
            **wanted.identity,
            "phase": "installing",
            "boot_id": target.boot_id,
            "known_good": known_good,
            "failed_units": sorted(line.split()[0] for line in failed_units.splitlines() if line.strip()),
        }
        if known_good["release"] not in state.kernels:
            state.baseline = known_good
        state.save()
        self._write_menu(result)
        target.write(MENU_SCRIPT, grub.MENU_SCRIPT, 0o755)
        if packages_dir is None:
            return
        fresh = not self.target.exists(f"/boot/vmlinuz-{wanted.release}")
        try:
            self.progress.update("install packages", detail="unpack, initramfs, boot menu")
            self._dpkg(["dpkg", "-i", *(os.path.join(packages_dir, item["name"]) for item in wanted.files)])
            if not self.installed(wanted.manifest["packages"]):
                raise FleetError(f"after dpkg -i not all of {', '.join(wanted.manifest['packages'])} are installed")
        except FleetError:
            if fresh:
                # Best effort: the message of the first failure is the one to show.
                target.run(["dpkg", "--purge", *wanted.manifest["packages"]])
            state.trial, state.baseline = before
            self._settle()
            raise
        state.kernels[wanted.release] = {"key": wanted.manifest["key"], "packages": wanted.manifest["packages"]}
        state.save()

    def _arm(self, wanted: Wanted, confirm_timeout: int, result: Result) -> None:
        """Add the trial's entry and let GRUB boot it once."""
        state, target = self.state, self.target
        assert state.trial
        # The package's own hook has usually done it.
        if self._new_entry(wanted.release) is None or grub.SOURCE_MARK not in target.read(GRUB_CFG):
            self._update_grub()
        grub.check_menu(target.read(GRUB_CFG), GRUB_CFG)
        if self._new_entry(wanted.release) is None:
            raise FleetError(f"{GRUB_CFG} has no entry that boots exactly {wanted.release} after update-grub")
        confirm.install(target, confirm_timeout)
        target.remove(confirm.EXPIRED)
        state.trial.update(phase="staged", boot_id=target.boot_id)
        state.save()
        self._write_menu(result)
        target.check(["grub-script-check", target.path(MENU)], f"checking {MENU}")
        if not target.exists(GRUB_ENV):
            target.check(["grub-editenv", target.path(GRUB_ENV), "create"], f"creating {GRUB_ENV}")
        self._set_next_entry(grub.entry_id(wanted.release))
        # A reset right after this must find all of it on the disk.
        os.sync()

    def _new_entry(self, release: str) -> Optional[grub.Entry]:
        return grub.find_entry(grub.parse_menu(self.target.read(GRUB_CFG)), release)

    def _set_next_entry(self, ident: str) -> None:
        change = ["set", f"next_entry={ident}"] if ident else ["unset", "next_entry"]
        self.target.check(["grub-editenv", self.target.path(GRUB_ENV), *change], f"writing {GRUB_ENV}")

    def _update_grub(self) -> None:
        self.progress.update("regenerate the boot menu")
        self.target.check(["update-grub"], "update-grub")

    def _dpkg(self, argv: list[str]) -> None:
        """Run dpkg, waiting while another package manager holds its lock."""
        deadline = time.monotonic() + DPKG_WAIT
        argv = ["env", "DEBIAN_FRONTEND=noninteractive", *argv]
        while True:
            status, out, err = self.target.run(argv)
            if status == 0:
                return
            if "lock" not in err or time.monotonic() > deadline:
                said = "\n".join((out + err).strip().splitlines()[-15:])
                raise FleetError(f"{' '.join(argv[2:4])} failed with exit status {status}: {said}")
            self.progress.update("wait for the package manager", detail="another process holds dpkg's lock")
            time.sleep(5)

    # -- the menu ------------------------------------------------------------------------------

    def _menu(self) -> str:
        """Return the text that fetchbpf.cfg should have, empty if it should not exist."""
        state = self.state
        known_good = state.effective_known_good
        if known_good is None:
            return ""
        entry = grub.Entry.from_dict(known_good["entry"])
        blocks = [grub.render_entry(entry, grub.KNOWN_GOOD_ID, f"Known good: Linux {known_good['release']}")]
        default_id = grub.KNOWN_GOOD_ID
        trial, default = state.trial, state.default
        if trial and trial["phase"] == "staged":
            words = [grub.PANIC_WORD, f"{grub.TRIAL_WORD}={trial['release']}"]
            blocks.append(self._own_entry(trial, f"Trial: Linux {trial['release']}", words))
        if default and not (trial and trial["release"] == default["release"]):
            blocks.append(self._own_entry(default, f"Linux {default['release']}", []))
            if not trial:
                default_id = grub.entry_id(default["release"])
        return grub.render_menu(blocks, default_id)

    def _own_entry(self, kernel: dict[str, Any], title: str, words: list[str]) -> str:
        """Return the menu entry of a kernel that we installed, made from the distribution's one."""
        entry = self._new_entry(kernel["release"])
        if entry is None:
            raise FleetError(f"{GRUB_CFG} has no entry that boots exactly {kernel['release']}; run update-grub")
        extra = words + grub.split_cmdline(kernel["cmdline"])
        return grub.render_entry(entry, grub.entry_id(kernel["release"]), title, extra)

    def _write_menu(self, result: Result) -> None:
        before, after = self.target.read(MENU), self._menu()
        if after:
            self.target.write(MENU, after, 0o600)
        else:
            self.target.remove(MENU)
        if before != after:
            result.diff = {"before": result.diff.get("before", before), "after": after, "before_header": MENU, "after_header": MENU}

    def _settle(self) -> None:
        """Write the menu and the state that follow from it; leave nothing of ours when there is nothing left."""
        result = Result("", "")
        if self.state.kernels or self.state.trial:
            self._write_menu(result)
            self.state.save()
            return
        self.state.default = self.state.known_good = self.state.baseline = None
        self.target.remove(MENU_SCRIPT)
        confirm.remove(self.target)
        if self.next_entry().startswith("fetchbpf-"):
            self._set_next_entry("")
        if grub.SOURCE_MARK in self.target.read(GRUB_CFG):
            self._update_grub()
        self.target.remove(MENU)
        self.state.save()

    # -- after the trial boot ------------------------------------------------------------------

    def promote(self, release: str) -> Result:
        """Make the trial kernel that runs the default one."""
        state, target = self.state, self.target
        result = Result("promoted", release)
        if state.default and state.default["release"] == release and not state.trial:
            result.known_good = state.known_good["release"] if state.known_good else None
            return result
        trial = state.trial
        if not trial or trial["release"] != release or trial["phase"] != "staged":
            raise FleetError(f"{release} is not on trial on this host, so it cannot be promoted")
        if target.release != release or self.on_trial != release:
            raise FleetError(f"{release} cannot be promoted, the host runs {target.release}")
        result.known_good = trial["known_good"]["release"]
        result.act(f"make {release} the default boot entry")
        if self.check:
            return result
        # The timer first: once it is stopped, the host stays up for the rest.
        confirm.remove(target)
        state.default = {name: trial[name] for name in ("release", "cmdline", "key")}
        if trial["known_good"]["release"] != release or state.known_good is None:
            state.known_good = trial["known_good"]
        state.trial = state.failure = state.lease = None
        self._write_menu(result)
        state.save()
        os.sync()
        return result

    def revert(self, release: str, reason: str) -> Result:
        """Close a failed trial: the default stays what it was, the reason is kept."""
        state = self.state
        result = Result("reverted", release)
        trial = state.trial
        if not trial or trial["release"] != release:
            return result
        if self.on_trial == release:
            raise FleetError(f"the failed trial kernel {release} still runs; reboot the host first")
        result.known_good = trial["known_good"]["release"]
        result.act(f"end the trial of {release}")
        if self.check:
            return result
        if self.next_entry() == grub.entry_id(release):
            self._set_next_entry("")
        confirm.remove(self.target)
        if state.known_good is None:
            state.known_good = trial["known_good"]
        state.trial = state.lease = None
        state.failure = {"release": release, "reason": reason, "time": int(time.time())}
        self._write_menu(result)
        state.save()
        return result

    # -- absent --------------------------------------------------------------------------------

    def remove(self, release: Optional[str]) -> Result:
        """Remove one kernel that we installed, or all of them.

        If one of them runs, the default goes back to the kernel to keep and ``reboot_required`` says
        that the host has to boot it (``known_good``) before the packages can go.
        """
        state, target = self.state, self.target
        if release is not None and release not in state.kernels:
            ours = ", ".join(sorted(state.kernels)) or "none"
            raise FleetError(f"kernel {release} was not installed by this collection, so it is not removed (ours: {ours})")
        going = [release] if release else sorted(state.kernels)
        result = Result("absent", release or "all")
        if not going:
            if not self.check and (target.exists(MENU_SCRIPT) or target.exists(MENU)):
                self._settle()
                result.act("remove the boot menu drop-in")
            return result
        keep = self._kernel_to_keep(going)
        result.known_good = keep["release"]
        if target.release in going or state.default and state.default["release"] in going or self.on_trial in going:
            self._back_to(keep, going, result)
        if target.release in going:
            result.reboot_required = True
            result.act(f"boot {keep['release']}, then remove {', '.join(going)}")
            # Asked a second time before the reboot, nothing is left to change.
            result.changed = bool(result.diff) or self.check
            return result
        for name in going:
            self._purge(name, result)
        return result

    def _kernel_to_keep(self, going: list[str]) -> dict[str, Any]:
        for kernel in (self.state.known_good, self.state.baseline):
            if kernel and kernel["release"] not in going:
                entry = grub.Entry.from_dict(kernel["entry"])
                missing = [name for name in entry.kernel_files if not self.target.exists(f"/boot/{name}")]
                if missing:
                    raise FleetError(f"/boot/{missing[0]} is missing, so there is no kernel to go back to; install it again first")
                return kernel
        if self.target.release not in going:
            return self._running_entry()
        raise FleetError(f"no kernel is recorded to go back to from {self.target.release}")

    def _back_to(self, keep: dict[str, Any], going: list[str], result: Result) -> None:
        state = self.state
        result.act(f"make {keep['release']} the default boot entry")
        if self.check:
            return
        state.known_good = keep
        if state.default and state.default["release"] in going:
            state.default = None
        if state.trial and state.trial["release"] in going:
            state.trial = None
        if keep["release"] in state.kernels and not state.default:
            state.default = {"release": keep["release"], "cmdline": "", "key": state.kernels[keep["release"]]["key"]}
        if self.next_entry().startswith("fetchbpf-"):
            self._set_next_entry("")
        self._write_menu(result)
        state.save()
        os.sync()

    def _purge(self, release: str, result: Result) -> None:
        state, target = self.state, self.target
        packages = sorted(state.kernels[release]["packages"])
        result.act(f"remove {', '.join(packages)}")
        if self.check:
            return
        last = set(state.kernels) == {release}
        if last:
            # The package's hook then writes a menu without ours; until it has, the old one is pinned.
            target.remove(MENU_SCRIPT)
        self.progress.update("remove packages", detail=release)
        self._dpkg(["dpkg", "--purge", *packages])
        for leftover in [f"/lib/modules/{release}", *(path for path in self._boot_files(release))]:
            for name in glob.glob(glob.escape(target.path(leftover))):
                shutil.rmtree(name, ignore_errors=True) if os.path.isdir(name) else os.unlink(name)
        del state.kernels[release]
        if state.failure and state.failure["release"] == release:
            state.failure = None
        self._settle()


def text_diff(result: Result) -> list[dict[str, str]]:
    """Return what Ansible shows with --diff, empty without a change of the menu."""
    return [result.diff] if result.diff else []
