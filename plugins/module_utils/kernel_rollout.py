# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a kernel on trial, promote it, take it back, remove it.

Order of every step: first what keeps the host safe (the default entry pinned
to the known-good kernel), then what may fail, then what lets the new kernel
boot. So a host that loses power anywhere in here starts its known-good kernel.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import time
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils import confirm, grub, preflight
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_state import STATE_FILE, KernelState, remembered
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
    known_good: str | None = None
    trial: str = ""
    diff: dict[str, str] = field(default_factory=dict)

    def act(self, text: str) -> None:
        """Note a change."""
        self.changed = True
        self.actions.append(text)


class Rollout:
    """The kernels of one host. ``check`` changes nothing and only tells."""

    def __init__(self, target: Target, check: bool = False, progress: Progress | None = None) -> None:
        self.target = target
        self.check = check
        self.progress = progress or Progress(None)
        self.state = KernelState(target)

    # -- facts ---------------------------------------------------------------------------------

    @property
    def on_trial(self) -> str | None:
        """Id of the trial that this boot is, or was before its promotion; None in any other boot."""
        return self.target.argument(grub.TRIAL_WORD)

    def entries(self) -> list[grub.Entry]:
        """All menu entries of the host, ours last."""
        return [entry for path in (GRUB_CFG, MENU) for entry in grub.parse_menu(self.target.read(path))]

    def installed(self, packages: dict[str, str]) -> bool:
        """Whether dpkg has exactly these versions, configured."""
        argv = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", *packages]
        _status, out, _err = self.target.run(argv)
        return set(out.splitlines()) == {f"{name} {version} installed" for name, version in packages.items()}

    def next_entry(self) -> str:
        """Id of the entry that GRUB boots once, empty without one."""
        return grub.parse_environment(self.target.read(GRUB_ENV)).get("next_entry", "")

    # -- ready ---------------------------------------------------------------------------------

    def ready(self) -> Result:
        """See that a kernel can be put on trial here, whichever it is."""
        preflight.check_platform(self.target)
        preflight.check_environment_block(self.target)
        return Result("ready", "")

    # -- staged --------------------------------------------------------------------------------

    def stage(
        self, wanted: Wanted, packages_dir: str | None, payload: dict[str, Any] | None, confirm_timeout: int
    ) -> Result:
        """Make ``wanted`` the kernel that is booted once, unless it is the promoted one already.

        Without ``packages_dir`` nothing is installed: ``needed_files`` of the result names what is missing.
        ``payload`` is {"boot_bytes", "installed_bytes", "signed"} of the packages.
        """
        extra = grub.split_cmdline(wanted.cmdline)
        state, target = self.state, self.target
        packages = wanted.manifest["packages"]
        complete = self.installed(packages) and target.exists(f"/boot/vmlinuz-{wanted.release}")
        if complete and self._is(state.default, wanted) and target.release == wanted.release and not state.trial:
            return self._keep(wanted)
        preflight.check_platform(target)
        trial = state.trial if self._is(state.trial, wanted) else None
        if complete and trial and trial["phase"] == "staged":
            known = {"trial": trial["id"], "known_good": trial["known_good"]["release"]}
            if self.on_trial == trial["id"] and target.release == wanted.release:
                return Result("trial", wanted.release, **known)
            if self.next_entry() == grub.entry_id(wanted.release) and trial["boot_id"] == target.boot_id:
                return Result("staged", wanted.release, reboot_required=True, **known)
        preflight.check_architecture(target, os.uname().machine, wanted.manifest["arch"])
        preflight.check_environment_block(target)
        known_good = self._running_entry()
        grub.check_menu(target.read(GRUB_CFG), GRUB_CFG)
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
        arguments = " ".join([*extra, grub.PANIC_WORD])
        result.act(f"boot {wanted.release} once, with {arguments}, and go back to {known_good['release']} if it fails")
        if self.check or result.needed_files:
            result.changed = self.check
            if self.check:
                self._begin(wanted, known_good)
                self._note_menu(self._menu(), result)
            return result
        self._install(wanted, known_good, None if complete else packages_dir, result)
        result.trial = self._arm(wanted, confirm_timeout, result)
        return result

    @staticmethod
    def _is(kernel: dict[str, Any] | None, wanted: Wanted) -> bool:
        return kernel is not None and {name: kernel[name] for name in wanted.identity} == wanted.identity

    def _keep(self, wanted: Wanted) -> Result:
        """Repair what someone took away from under a promoted kernel that runs."""
        result = Result("promoted", wanted.release)
        if self.state.known_good and self._missing_file(self.state.known_good):
            self._replace_known_good(result)
        result.known_good = (self.state.known_good or {}).get("release", "")
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
            self.state.save()
        return result

    def _missing_file(self, kernel: dict[str, Any]) -> str | None:
        """Return a kernel file that the remembered entry loads and that is not in /boot."""
        names = grub.Entry.from_dict(kernel["entry"]).kernel_files
        return next((f"/boot/{name}" for name in names if not self.target.exists(f"/boot/{name}")), None)

    def _replace_known_good(self, result: Result) -> None:
        """Fall back to the distribution's newest kernel when the known-good one was uninstalled."""
        for entry in grub.parse_menu(self.target.read(GRUB_CFG)):
            release = entry.release
            if release and release not in self.state.kernels and not entry.is_recovery:
                self.state.known_good = self.state.baseline = remembered(release, entry)
                result.act(f"fall back to {release} from now on, the known-good kernel was uninstalled")
                return

    def _running_entry(self) -> dict[str, Any]:
        """Return the known-good kernel: the running one and its menu entry, exactly."""
        state = self.state
        if self.on_trial and not (state.default and state.default["trial"] == self.on_trial):
            if not state.trial or self.on_trial not in (state.trial["id"], state.trial["staged_from"]):
                raise FleetError(f"trial kernel {self.on_trial} runs, but {STATE_FILE} does not know it; reboot first")
            return state.trial["known_good"]
        release = self.target.release
        entry = grub.find_entry(self.entries(), release, self.target.cmdline)
        if entry is None:
            raise FleetError(
                f"{GRUB_CFG} has no entry that boots exactly the running kernel {release}, "
                "so there would be nothing to go back to; run update-grub and see that its vmlinuz is in /boot"
            )
        known_good = remembered(release, entry)
        missing = self._missing_file(known_good)
        if missing:
            raise FleetError(f"{missing} of the running kernel is missing, so there is nothing to go back to")
        return known_good

    def _check_files(self, wanted: Wanted) -> None:
        """Refuse to overwrite a kernel of the same release that no package of ours owns."""
        image = f"/boot/vmlinuz-{wanted.release}"
        if not self.target.exists(image) or wanted.release in self.state.kernels or self._is(self.state.trial, wanted):
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

    def _install(self, wanted: Wanted, known_good: dict[str, Any], packages_dir: str | None, result: Result) -> None:
        """Pin the known-good kernel, then install the packages; on failure the host is as before."""
        state, target = self.state, self.target
        before = (state.trial, state.baseline)
        self._begin(wanted, known_good)
        state.save()
        self._write_menu(result)
        target.write(MENU_SCRIPT, grub.MENU_SCRIPT, 0o755)
        if packages_dir is None:
            # Of ours even where this state is younger than the packages.
            self._record(wanted)
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
            # As long as the half-installed kernel is in /boot, the menu could boot it: the pin stays.
            if not (fresh and target.exists(f"/boot/vmlinuz-{wanted.release}")):
                state.trial, state.baseline = before
                with contextlib.suppress(FleetError):
                    self._settle()
            raise
        self._record(wanted)

    def _record(self, wanted: Wanted) -> None:
        """Remember the kernel as one that this collection installed."""
        self.state.kernels[wanted.release] = {
            "key": wanted.manifest["key"],
            "packages": wanted.manifest["packages"],
            "cmdline": wanted.cmdline,
        }
        self.state.save()

    def _begin(self, wanted: Wanted, known_good: dict[str, Any]) -> None:
        """Record the trial; the menu that follows from it pins the known-good kernel."""
        listing = self.target.run(["systemctl", "list-units", "--state=failed", "--plain", "--no-legend"])[1]
        self.state.trial = {
            **wanted.identity,
            # Another one each time: what a promoted trial still has on its command line must not be taken for the next.
            "id": f"{wanted.release}/{secrets.token_hex(4)}",
            "staged_from": self.on_trial,
            "phase": "installing",
            "boot_id": self.target.boot_id,
            "known_good": known_good,
            "failed_units": sorted(line.split()[0] for line in listing.splitlines() if line.strip()),
        }
        if known_good["release"] not in self.state.kernels:
            self.state.baseline = known_good

    def _arm(self, wanted: Wanted, confirm_timeout: int, result: Result) -> str:
        """Add the trial's entry and let GRUB boot it once; return the trial's id."""
        state, target = self.state, self.target
        if not state.trial:
            raise RuntimeError("a trial is armed that was never begun")
        # The package's own hook has usually done it.
        if self._new_entry(wanted.release) is None or grub.SOURCE_MARK not in target.read(GRUB_CFG):
            self._update_grub()
        grub.check_menu(target.read(GRUB_CFG), GRUB_CFG)
        if grub.SOURCE_MARK not in target.read(GRUB_CFG):
            raise FleetError(f"{GRUB_CFG} does not read {MENU} after update-grub, although {MENU_SCRIPT} asks for it")
        if self._new_entry(wanted.release) is None:
            raise FleetError(f"{GRUB_CFG} has no entry that boots exactly {wanted.release} after update-grub")
        target.remove(confirm.EXPIRED)
        confirm.install(target, confirm_timeout)
        state.trial.update(phase="staged", boot_id=target.boot_id)
        state.save()
        # Beside, so that GRUB never reads a menu that was not checked.
        target.write(f"{MENU}.new", self._menu(), 0o600)
        try:
            target.check(["grub-script-check", target.path(f"{MENU}.new")], f"checking {MENU}")
        finally:
            target.remove(f"{MENU}.new")
        self._write_menu(result)
        if not target.exists(GRUB_ENV):
            target.check(["grub-editenv", target.path(GRUB_ENV), "create"], f"creating {GRUB_ENV}")
        self._set_next_entry(grub.entry_id(wanted.release))
        # A reset right after this must find all of it on the disk.
        os.sync()
        return state.trial["id"]

    def _new_entry(self, release: str) -> grub.Entry | None:
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
        safe = grub.Entry.from_dict(known_good["entry"])
        blocks = [grub.render_entry(safe, grub.KNOWN_GOOD_ID, f"Known good: Linux {known_good['release']}")]
        default_id = grub.KNOWN_GOOD_ID
        trial, default = state.trial, state.default
        if trial and trial["phase"] == "staged":
            words = [grub.PANIC_WORD, f"{grub.TRIAL_WORD}={trial['id']}"]
            entry = self._new_entry(trial["release"])
            if entry is None:
                raise FleetError(f"{GRUB_CFG} has no entry that boots exactly {trial['release']}; run update-grub")
            blocks.append(self._own_entry(entry, trial, f"Trial: Linux {trial['release']}", words))
        promoted = self._new_entry(default["release"]) if default else None
        # Without an entry someone removed the package: the known-good kernel is the default then.
        if default and promoted and not (trial and trial["release"] == default["release"]):
            blocks.append(self._own_entry(promoted, default, f"Linux {default['release']}", []))
            if not trial:
                default_id = grub.entry_id(default["release"])
        return grub.render_menu(blocks, default_id)

    @staticmethod
    def _own_entry(entry: grub.Entry, kernel: dict[str, Any], title: str, words: list[str]) -> str:
        """Return the menu entry of a kernel that we installed, made from the distribution's one."""
        # Ours last: of two equal words the kernel takes the second, and a trial that panics must come back.
        extra = grub.split_cmdline(kernel["cmdline"]) + words
        return grub.render_entry(entry, grub.entry_id(kernel["release"]), title, extra)

    def _write_menu(self, result: Result) -> None:
        text = self._menu()
        self._note_menu(text, result)
        if text:
            self.target.write(MENU, text, 0o600)
        else:
            self.target.remove(MENU)

    def _note_menu(self, text: str, result: Result) -> None:
        """Put the change of the menu into the result's diff, from what it was before the first change."""
        before = self.target.read(MENU)
        if before != text:
            before = result.diff.get("before", before)
            result.diff = {"before": before, "after": text, "before_header": MENU, "after_header": MENU}

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
        variables = grub.parse_environment(self.target.read(GRUB_ENV))
        # After a one-shot boot GRUB itself leaves the variable behind, empty.
        if "next_entry" in variables and (not variables["next_entry"] or self.next_entry().startswith("fetchbpf-")):
            self._set_next_entry("")
        if grub.SOURCE_MARK in self.target.read(GRUB_CFG):
            self._update_grub()
        self.target.remove(MENU)
        self.state.save()
        # Other roles may keep files there; then it stays.
        with contextlib.suppress(OSError):
            os.rmdir(self.target.path(os.path.dirname(STATE_FILE)))

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
        if target.release != release or self.on_trial != trial["id"]:
            raise FleetError(f"{release} cannot be promoted, the host runs {target.release} and not its trial")
        result.known_good = trial["known_good"]["release"]
        result.act(f"make {release} the default boot entry")
        if self.check:
            return result
        # The timer first: once it is stopped, the host stays up for the rest.
        confirm.remove(target)
        state.default = {**{name: trial[name] for name in ("release", "cmdline", "key")}, "trial": trial["id"]}
        state.kernels[release]["cmdline"] = trial["cmdline"]
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
        if self.on_trial == trial["id"]:
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

    def remove(self, release: str | None) -> Result:
        """Remove one kernel that we installed, or all of them.

        If one of them runs, the default goes back to the kernel to keep and ``reboot_required`` says
        that the host has to boot it (``known_good``) before the packages can go.
        """
        state, target = self.state, self.target
        if release is not None and release not in state.kernels:
            ours = ", ".join(sorted(state.kernels)) or "none"
            raise FleetError(f"kernel {release} was not installed by this collection and is not removed (ours: {ours})")
        going = [release] if release else sorted(state.kernels)
        result = Result("absent", release or "all")
        if not going:
            if not self.check and (target.exists(MENU_SCRIPT) or target.exists(MENU)):
                self._settle()
                result.act("remove the boot menu drop-in")
            return result
        keep = self._kernel_to_keep(going)
        result.known_good = keep["release"]
        used = (state.default, state.known_good, state.trial)
        if target.release in going or any(kernel and kernel["release"] in going for kernel in used):
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
                missing = self._missing_file(kernel)
                if missing:
                    raise FleetError(f"{missing} is missing, it is the kernel to go back to; install it again")
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
            kernel = state.kernels[keep["release"]]
            state.default = {
                "release": keep["release"],
                "cmdline": kernel["cmdline"],
                "key": kernel["key"],
                "trial": None,
            }
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
        for leftover in self._boot_files(release):
            target.remove(leftover)
        shutil.rmtree(target.path(f"/lib/modules/{release}"), ignore_errors=True)
        del state.kernels[release]
        if state.failure and state.failure["release"] == release:
            state.failure = None
        self._settle()
