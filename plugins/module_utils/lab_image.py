# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base images of the lab: what is in them, how they are made, when they go.

An image is named by a hash of its recipe, so a changed recipe is another
image and one that exists is never made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import lab_booted, lab_disk, process, workspace
from .apt_sources import ARCHIVE_KEYRING
from .errors import FleetError

# Raise it when the way an image is made changes without its recipe changing.
FORMAT = 1
# How long to wait for another run that makes the same image.
_WAIT_SECONDS = 1800

_PACKAGES = (
    "linux-image-cloud-amd64",
    "initramfs-tools",
    "zstd",
    "systemd",
    "systemd-sysv",
    "dbus",
    "udev",
    "kmod",
    "iproute2",
    "procps",
    "openssh-server",
    "python3",
    "python3-apt",
)
_GRUB_PACKAGES = {"bios": ("grub-pc",), "uefi": ("grub-efi-amd64",)}
_GRUB_TARGET = {"bios": "i386-pc", "uefi": "x86_64-efi"}
_GRUB_CORE = {"bios": "core.img", "uefi": "core.efi"}
_GRUB_MODULES = {"bios": "biosdisk part_msdos ext2 search_fs_uuid", "uefi": "part_msdos ext2 search_fs_uuid"}
# In UEFI the firmware's console is the serial line already; both would print everything twice.
_GRUB_TERMINAL = {"bios": "console serial", "uefi": "console"}

# Units that cost boot time in an emulated guest, or fail without hardware that a lab guest has not.
_MASKED_UNITS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "modprobe@configfs.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "systemd-binfmt.service",
    "systemd-hibernate-clear.service",
    "systemd-network-generator.service",
    "systemd-networkd-wait-online.service",
    "systemd-pcrmachine.service",
    "systemd-pcrphase.service",
    "systemd-pcrphase-initrd.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pstore.service",
    "systemd-tpm2-setup.service",
    "systemd-tpm2-setup-early.service",
    "systemd-udev-load-credentials.service",
)
_MASKED_GENERATORS = (
    "systemd-cryptsetup-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-integritysetup-generator",
    "systemd-rc-local-generator",
    "systemd-ssh-generator",
    "systemd-system-update-generator",
    "systemd-tpm2-generator",
    "systemd-veritysetup-generator",
)

_FILES = {
    "etc/systemd/network/10-fetchbpf-lab.network": (
        "[Match]\nType=ether\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n\n"
        "[DHCPv4]\nUseHostname=no\nClientIdentifier=mac\n"
    ),
    "etc/systemd/system.conf.d/fetchbpf-lab.conf": "[Manager]\nDefaultTimeoutStopSec=10s\n",
    "etc/systemd/journald.conf.d/fetchbpf-lab.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=64M\n",
    "etc/ssh/sshd_config.d/fetchbpf-lab.conf": (
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        "UseDNS no\nMaxStartups 50\nMaxSessions 50\n"
    ),
    "etc/initramfs-tools/conf.d/fetchbpf-lab": "COMPRESS=zstd\nCOMPRESSLEVEL=1\nRESUME=none\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    # Not the name of the machine that makes the image.
    "etc/hostname": "fetchbpf-lab\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
}

# Runs in the chroot, as root, when all packages are installed.
_CUSTOMISE = r"""set -eu
root_uuid=@UUID@
target=@TARGET@

systemctl enable systemd-networkd.service ssh.service
mkdir -p /etc/systemd/system-generators
for unit in @UNITS@; do ln -sf /dev/null "/etc/systemd/system/$unit"; done
for generator in @GENERATORS@; do ln -sf /dev/null "/etc/systemd/system-generators/$generator"; done
# A shell over ssh waits for every message of the day; nobody reads them here.
sed -i '/pam_motd/s/^/#/' /etc/pam.d/sshd
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -C fetchbpf-lab -f /etc/ssh/ssh_host_ed25519_key
: > /etc/machine-id
rm -f /var/lib/dbus/machine-id
echo "UUID=$root_uuid / ext4 noatime,errors=remount-ro 0 0" > /etc/fstab
mkdir -p /var/log/journal

sed -i -e 's/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/' \
    -e 's/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX="console=ttyS0"/' /etc/default/grub
cat >> /etc/default/grub <<'EOF'
GRUB_TERMINAL="@TERMINAL@"
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
EOF

boot=/boot/grub/$target
mkdir -p "$boot"
cp /usr/lib/grub/"$target"/*.mod /usr/lib/grub/"$target"/*.lst "$boot"/
[ ! -e /usr/lib/grub/"$target"/boot.img ] || cp /usr/lib/grub/"$target"/boot.img "$boot"/
printf 'search.fs_uuid %s root\nset prefix=($root)/boot/grub\n' "$root_uuid" > "$boot"/load.cfg
grub-mkimage -O "$target" -p /boot/grub -c "$boot"/load.cfg -o "$boot"/@CORE@ @MODULES@
grub-editenv /boot/grub/grubenv create

# There is no disk yet to probe: a stand-in gives update-grub the answers that the guest's own will give.
mv /usr/sbin/grub-probe /usr/sbin/grub-probe.real
cat > /usr/sbin/grub-probe <<EOF
#!/bin/sh
while [ \$# -gt 0 ]; do
    case \$1 in
        --target=*) wanted=\${1#--target=} ;;
        -t | --target) shift; wanted=\$1 ;;
    esac
    shift
done
case \$wanted in
    device) echo /dev/vda1 ;;
    disk) echo /dev/vda ;;
    fs_uuid) echo $root_uuid ;;
    fs) echo ext2 ;;
    partmap) echo msdos ;;
    compatibility_hint | drive) echo hd0,msdos1 ;;
    hints_string) echo --hint=hd0,msdos1 ;;
esac
EOF
chmod 755 /usr/sbin/grub-probe
mkdir -p /dev/disk/by-uuid
: > "/dev/disk/by-uuid/$root_uuid"
update-grub
rm -r /dev/disk
mv /usr/sbin/grub-probe.real /usr/sbin/grub-probe
grep -q "root=UUID=$root_uuid " /boot/grub/grub.cfg

rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/log/*.log /var/log/apt
rm -f /fetchbpf-customise
# Nothing is left for the first boot to bring up to date.
touch /etc/.updated /var/.updated
"""


@dataclass(frozen=True)
class Recipe:
    """Everything an image is made from. Equal recipes give one image."""

    suite: str
    boot: str
    sources: tuple[str, ...]
    authorized_key: str
    apt_options: tuple[str, ...] = ()
    extra_packages: tuple[str, ...] = ()
    root_size: int = 4096 * lab_disk.MIB
    packages: tuple[str, ...] = _PACKAGES
    files: tuple[tuple[str, str], ...] = field(default=tuple(sorted(_FILES.items())))
    script: str = _CUSTOMISE
    masked_units: tuple[str, ...] = _MASKED_UNITS
    masked_generators: tuple[str, ...] = _MASKED_GENERATORS
    format: int = FORMAT

    @property
    def digest(self) -> str:
        """The sha256 of the recipe, in hex."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def family(self) -> str:
        """What the image is for: all its versions share it."""
        return f"{self.suite}-{self.boot}"

    @property
    def file_name(self) -> str:
        return f"{self.family}-{self.digest[:12]}.qcow2"

    @property
    def root_uuid(self) -> str:
        return str(uuid.UUID(self.digest[:32], version=4))

    def package_list(self) -> list[str]:
        return [*self.packages, *_GRUB_PACKAGES[self.boot], *self.extra_packages]

    def customise_script(self) -> str:
        values = {
            "UUID": self.root_uuid,
            "TARGET": _GRUB_TARGET[self.boot],
            "CORE": _GRUB_CORE[self.boot],
            "MODULES": _GRUB_MODULES[self.boot],
            "TERMINAL": _GRUB_TERMINAL[self.boot],
            "UNITS": " ".join(self.masked_units),
            "GENERATORS": " ".join(self.masked_generators),
        }
        return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], self.script)

    def overlay_tar(self) -> bytes:
        """Return a tar of the files that are in place before the packages are installed."""
        files = dict(self.files)
        files["root/.ssh/authorized_keys"] = f"{self.authorized_key.strip()}\n"
        files["fetchbpf-customise"] = self.customise_script()
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            # sshd refuses keys in a folder that others can write to.
            folder = tarfile.TarInfo("root/.ssh")
            folder.type, folder.mode = tarfile.DIRTYPE, 0o700
            tar.addfile(folder)
            for path, text in sorted(files.items()):
                entry = tarfile.TarInfo(path)
                content = text.encode()
                entry.size, entry.mode = len(content), 0o600 if path.startswith("root/") else 0o644
                tar.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()


def parse_family(family: str) -> tuple[str, str]:
    """Return (suite, firmware) of a name like `bookworm-bios`; FleetError if it is none."""
    suite, _hyphen, boot = family.rpartition("-")
    if boot not in _GRUB_TARGET or not re.fullmatch(r"[a-z][a-z0-9-]*", suite):
        raise FleetError(f"image {family!r}: not SUITE-bios or SUITE-uefi, such as bookworm-bios")
    return suite, boot


def image_path(recipe: Recipe, image_dir: Path) -> Path:
    return image_dir / recipe.file_name


def mmdebstrap_command(recipe: Recipe, work: Path) -> list[str]:
    """Return the command that writes ``work``/root.tar and takes GRUB's images out to ``work``."""
    boot = f"/boot/grub/{_GRUB_TARGET[recipe.boot]}"
    taken = [_GRUB_CORE[recipe.boot], *(["boot.img"] if recipe.boot == "bios" else [])]
    return [
        "mmdebstrap",
        "--mode=auto",
        "--variant=minbase",
        "--format=tar",
        "--architectures=amd64",
        f"--keyring={ARCHIVE_KEYRING}",
        '--aptopt=Acquire::Languages "none"',
        *(f"--aptopt={option}" for option in recipe.apt_options),
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "man", "locale", "info")),
        "--dpkgopt=path-include=/usr/share/locale/locale.alias",
        f"--include={','.join(recipe.package_list())}",
        f"--essential-hook=tar-in {work}/overlay.tar /",
        '--customize-hook=chroot "$1" sh /fetchbpf-customise',
        *(f"--customize-hook=download {boot}/{name} {work}/{name}" for name in taken),
        recipe.suite,
        str(work / "root.tar"),
        *recipe.sources,
    ]


def build(recipe: Recipe, image_dir: Path, report: Callable[[str], None]) -> Path:
    """Make the image unless it is there, and return its path. ``report`` gets one line a step.

    Only one process makes an image at a time; another waits for it. The image
    appears under its name when it is complete.
    """
    path = image_path(recipe, image_dir)
    lock = image_dir / f".{recipe.family}.lock"
    with workspace.locked(lock, f"the image {recipe.family}", wait_seconds=_WAIT_SECONDS, tick=report):
        if path.exists():
            return path
        work = image_dir / f".{recipe.family}.work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            _bootstrap(recipe, work, report)
            report("making the disk")
            disk = _assemble(recipe, work)
            ready = work / "disk.qcow2"
            lab_disk.run(["qemu-img", "convert", "-O", "qcow2", str(disk), str(ready)], "making the image")
            record = {"root_uuid": recipe.root_uuid, "created": int(time.time()), "recipe": asdict(recipe)}
            workspace.write_json(path.with_suffix(".json"), record)
            os.replace(ready, path)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return path


def _bootstrap(recipe: Recipe, work: Path, report: Callable[[str], None]) -> None:
    (work / "overlay.tar").write_bytes(recipe.overlay_tar())
    # /tmp may be memory, and an unprivileged mmdebstrap needs a folder that other ids can enter.
    # The lock is this folder's, so the name is too: another folder's image may be in the making.
    prefix = f"fetchbpf-lab-{hashlib.sha256(str(work).encode()).hexdigest()[:8]}-"
    for stale in Path("/var/tmp").glob(f"{prefix}*"):
        shutil.rmtree(stale, ignore_errors=True)
    scratch = tempfile.mkdtemp(prefix=prefix, dir="/var/tmp")
    os.chmod(scratch, 0o755)
    lines: list[str] = []
    environment = dict(os.environ, TMPDIR=scratch, LC_ALL="C.UTF-8", DEBIAN_FRONTEND="noninteractive")
    environment["PATH"] = f"{environment.get('PATH', '')}:/usr/sbin:/sbin"
    try:
        with process.start(
            mmdebstrap_command(recipe, work),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
        ) as child:
            for line in child.stdout or ():
                lines.append(line.rstrip())
                if line.startswith("I: "):
                    report(line[3:].strip().rstrip("."))
        if child.returncode != 0:
            errors = [line for line in lines if re.match(r"(E|Err|W): ?|.*(error|fail|cannot)", line, re.IGNORECASE)]
            raise FleetError(
                f"mmdebstrap could not make a {recipe.suite} system (exit code {child.returncode}):\n"
                + "\n".join((errors or lines)[-15:])
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _assemble(recipe: Recipe, work: Path) -> Path:
    disk = work / "disk.raw"
    parts = [lab_disk.Partition(0x83, lab_disk.ROOT_START, recipe.root_size, active=True)]
    end = lab_disk.ROOT_START + recipe.root_size
    if recipe.boot == "uefi":
        parts.append(lab_disk.Partition(0xEF, end, lab_disk.ESP_SIZE))
        end += lab_disk.ESP_SIZE
    with disk.open("wb") as handle:
        handle.truncate(end)
    lab_disk.make_root_fs(disk, work / "root.tar", work, recipe.root_size, recipe.root_uuid)
    (work / "root.tar").unlink()
    core = (work / _GRUB_CORE[recipe.boot]).read_bytes()
    disk_id = int(recipe.digest[32:40], 16)
    if recipe.boot == "uefi":
        lab_disk.make_esp(disk, parts[1].start, {"/EFI/BOOT/BOOTX64.EFI": core}, work)
        with disk.open("r+b") as handle:
            handle.write(lab_disk.mbr(b"", parts, disk_id))
    else:
        lab_disk.embed_bios_grub(disk, (work / "boot.img").read_bytes(), core, parts, disk_id)
    return disk


def register_user(image: Path, disk: Path) -> None:
    """Note that ``disk`` lies on ``image``, so that the image is kept."""
    users = users_dir(image)
    users.mkdir(exist_ok=True)
    link = users / hashlib.sha256(str(disk).encode()).hexdigest()[:16]
    with contextlib.suppress(FileExistsError):
        link.symlink_to(disk)


def users_dir(image: Path) -> Path:
    return image.with_suffix(".users")


def prune(image_dir: Path, recipe: Recipe) -> list[str]:
    """Remove older images of the same family that no disk lies on; return their names."""
    removed = []
    for image in sorted(image_dir.glob(f"{recipe.family}-*.qcow2")):
        if image.name == recipe.file_name or _in_use(image):
            continue
        for path in (image, image.with_suffix(".json")):
            path.unlink(missing_ok=True)
        for beside in (users_dir(image), lab_booted.folder(image)):
            shutil.rmtree(beside, ignore_errors=True)
        removed.append(image.name)
    return removed


def _in_use(image: Path) -> bool:
    # A link whose disk is gone is the trace of a guest that is gone.
    return any(link.exists() for link in users_dir(image).glob("*"))
