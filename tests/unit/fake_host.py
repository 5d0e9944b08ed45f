# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian host in a directory: its files, and what dpkg, GRUB's tools and systemctl do to them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.fetchbpf.fleet.plugins.module_utils import grub
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_rollout import Rollout, Wanted
from ansible_collections.fetchbpf.fleet.plugins.module_utils.target import Target

OLD = "6.1.0-57-cloud-amd64"
NEW = "6.12.117-fetchbpf-0a1b2c3d"
ROOT = "root=UUID=43e8168a ro quiet"


def menu_entry(release: str, kind: str, args: str = ROOT, indent: str = "") -> str:
    """Return one menuentry as 10_linux writes it."""
    title = "Debian GNU/Linux" if kind == "simple" else f"Debian GNU/Linux, with Linux {release}"
    ident = "gnulinux-simple-43e8168a" if kind == "simple" else f"gnulinux-{release}-{kind}-43e8168a"
    if kind == "recovery":
        title, args = f"{title} (recovery mode)", f"{args} single"
    lines = [
        f"menuentry '{title}' --class debian --class os $menuentry_id_option '{ident}' {{",
        "\tload_video",
        "\tif [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi",
        "\tif [ x$feature_platform_search_hint = xy ]; then",
        "\t  search --no-floppy --fs-uuid --set=root --hint=hd0,msdos1 43e8168a",
        "\tfi",
        f"\techo\t'Loading Linux {release} ...'",
        f"\tlinux\t/boot/vmlinuz-{release} {args}",
        f"\tinitrd\t/boot/initrd.img-{release}",
        "}",
    ]
    return "".join(f"{indent}{line}\n" for line in lines)


def grub_cfg(releases: Sequence[str], ours: bool = False, submenu: bool = True, timeout: int = 1) -> str:
    """Return a grub.cfg like that of Debian's update-grub: newest first, all but the first in a submenu."""
    parts = [
        "### BEGIN /etc/grub.d/00_header ###",
        "if [ -s $prefix/grubenv ]; then\n  set have_grubenv=true\n  load_env\nfi",
        'if [ "${next_entry}" ] ; then\n   set default="${next_entry}"\n   set next_entry=\n   save_env next_entry',
        '   set boot_once=true\nelse\n   set default="0"\nfi',
        'function savedefault {\n  if [ -z "${boot_once}" ]; then\n    save_env saved_entry\n  fi\n}',
        f"if [ x$feature_timeout_style = xy ] ; then\n  set timeout_style=menu\n  set timeout={timeout}\nfi",
        "### END /etc/grub.d/00_header ###",
    ]
    if ours:
        source = grub.MENU_SCRIPT.split("<< 'EOF'\n")[1].split("EOF")[0]
        parts += ["### BEGIN /etc/grub.d/06_fetchbpf ###", source, "### END /etc/grub.d/06_fetchbpf ###"]
    parts.append("### BEGIN /etc/grub.d/10_linux ###")
    if releases and submenu:
        parts.append(menu_entry(releases[0], "simple"))
        parts.append("submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced' {")
    for release in releases:
        indent = "\t" if submenu else ""
        parts += [menu_entry(release, kind, indent=indent) for kind in ("advanced", "recovery")]
    if releases and submenu:
        parts.append("}")
    parts += ["### END /etc/grub.d/10_linux ###", "### BEGIN /etc/grub.d/41_custom ###"]
    parts += ["if [ -f  ${config_directory}/custom.cfg ]; then\n  source ${config_directory}/custom.cfg\nfi"]
    return "\n".join(parts) + "\n### END /etc/grub.d/41_custom ###\n"


class FakeHost:
    """The host, with a ``log`` of the commands that were run on it."""

    def __init__(self, root: Path, artifact: Path) -> None:
        self.root = root
        self.artifact = artifact
        self.log: list[str] = []
        self.packages: dict[str, str] = {}
        self.failed_units: list[str] = []
        self.answers: dict[str, tuple[int, str, str]] = {}
        self.file_system = "ext2"
        self.abstraction = ""
        self.submenu = True
        self.cmdline = ""
        self.put("/etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n')
        self.put("/usr/sbin/grub-mkconfig", "")
        self.put("/boot/grub/grubenv", "# GRUB Environment Block\n")
        self.put("/proc/sys/kernel/tainted", "0\n")
        for directory in ("/run/systemd/system", "/etc/grub.d", "/usr/lib", "/lib/modules"):
            self.at(directory).mkdir(parents=True)
        self.add_kernel(OLD)
        self.boot(OLD)
        self.update_grub()

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def put(self, path: str, text: str) -> None:
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_text(text)

    def text(self, path: str) -> str:
        return self.at(path).read_text() if self.at(path).exists() else ""

    def add_kernel(self, release: str) -> None:
        for name in ("vmlinuz", "initrd.img", "config"):
            self.put(f"/boot/{name}-{release}", "x" * 100)

    def boot(self, release: str, args: str = ROOT) -> None:
        """Be in another boot, of this kernel with these arguments."""
        boots = getattr(self, "boots", 0) + 1
        self.boots = boots
        self.put("/proc/sys/kernel/random/boot_id", f"boot-{boots}\n")
        self.put("/proc/sys/kernel/osrelease", f"{release}\n")
        self.put("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{release} {args}\n")

    def reboot(self) -> str:
        """Do what GRUB would do with the menu; return the id of the entry that was booted."""
        environment = grub.parse_environment(self.text("/boot/grub/grubenv"))
        menu = self.text("/boot/grub/fetchbpf.cfg") if "fetchbpf.cfg" in self.text("/boot/grub/grub.cfg") else ""
        entries = grub.parse_menu(menu + self.text("/boot/grub/grub.cfg"))
        pinned = re.search(r"set default=(\S+)", menu)
        wanted = environment.get("next_entry") or (pinned.group(1) if pinned else "")
        self.set_environment("next_entry", "")
        entry = next((entry for entry in entries if entry.ident == wanted), entries[0])
        if not all(self.at(f"/boot/{name}").exists() for name in entry.kernel_files):
            assert "set fallback=0" in menu
            entry = entries[0]
        assert entry.release
        self.boot(entry.release, " ".join(entry.arguments))
        return entry.ident

    def set_environment(self, name: str, value: str) -> None:
        values = grub.parse_environment(self.text("/boot/grub/grubenv"))
        values[name] = value
        lines = "".join(f"{key}={text}\n" for key, text in values.items() if text)
        self.put("/boot/grub/grubenv", "# GRUB Environment Block\n" + lines)

    def update_grub(self) -> None:
        releases = sorted((path.name[len("vmlinuz-") :] for path in self.at("/boot").glob("vmlinuz-*")), reverse=True)
        script = self.at("/etc/grub.d/06_fetchbpf")
        ours = script.exists() and os.access(script, os.X_OK)
        self.put("/boot/grub/grub.cfg", grub_cfg(releases, ours, self.submenu))

    def make_artifact(self, release: str = NEW, key: str = "0a1b2c3d00000000") -> dict[str, Any]:
        """Write an artifact of one package; return its manifest."""
        name = f"linux-image-{release}_1_amd64.deb"
        self.artifact.mkdir(parents=True, exist_ok=True)
        (self.artifact / name).write_text(release)
        digest = hashlib.sha256(release.encode()).hexdigest()
        manifest = {
            "schema": 1,
            "key": key,
            "release": release,
            "arch": os.uname().machine,
            "config": {"requested": {"CONFIG_KPROBES": "y"}},
            "files": [{"name": name, "sha256": digest, "size": len(release), "kind": "image"}],
            "packages": {f"linux-image-{release}": "1"},
        }
        (self.artifact / "manifest.json").write_text(json.dumps(manifest))
        return manifest

    def rollout(self, check: bool = False) -> Rollout:
        return Rollout(Target(self.run, str(self.root)), check)

    def wanted(self, cmdline: str = "", release: str = NEW) -> Wanted:
        return Wanted(self.make_artifact(release), cmdline)

    def snapshot(self) -> dict[str, str]:
        """Return every file of the host outside /proc with its content."""
        files = [path for path in self.root.rglob("*") if path.is_file() and "proc" not in path.parts]
        return {str(path.relative_to(self.root)): path.read_text() for path in files}

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """Stand in for AnsibleModule.run_command."""
        command = " ".join(argv)
        self.log.append(command)
        for pattern, answer in self.answers.items():
            if re.search(pattern, command):
                return answer
        words = [word for word in argv if word not in ("env", "DEBIAN_FRONTEND=noninteractive")]
        if words[:2] == ["dpkg", "--print-architecture"]:
            return 0, {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine] + "\n", ""
        if words[0] == "dpkg-query" and words[1] == "-W":
            found = [name for name in words[4:] if name in self.packages]
            return int(len(found) < len(words) - 4), "".join(f"{n} {self.packages[n]} installed\n" for n in found), ""
        if words[0] == "dpkg-query":
            return 1, "", f"dpkg-query: no path found matching pattern {words[2]}"
        if words[:2] == ["dpkg", "-i"]:
            for path in words[2:]:
                name, version, _arch = os.path.basename(path).split("_")
                self.packages[name] = version
                self.add_kernel(name[len("linux-image-") :])
            self.update_grub()
        elif words[:2] == ["dpkg", "--purge"]:
            for name in words[2:]:
                self.packages.pop(name, None)
                for path in self.at("/boot").glob(f"*-{name[len('linux-image-') :]}"):
                    path.unlink()
            self.update_grub()
        elif words[0] == "update-grub":
            self.update_grub()
        elif words[0] == "grub-editenv" and words[2] in ("set", "unset"):
            name, _equals, value = words[3].partition("=")
            self.set_environment(name, value)
        elif words[0] == "grub-probe":
            return 0, (self.file_system if "--target=fs" in words else self.abstraction) + "\n", ""
        elif words[:2] == ["systemctl", "list-units"]:
            return 0, "".join(f"{unit} loaded failed failed x\n" for unit in self.failed_units), ""
        return 0, "", ""
