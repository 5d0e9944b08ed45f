# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import qemu
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "kvm").write_text("")
    (tmp_path / "plain").write_text("processor: 0\nflags\t\t: fpu sse2 vmxnet\n")
    (tmp_path / "vmx").write_text("processor: 0\nflags\t\t: fpu vmx sse2\n")
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "kvm", "cpu", "got"),
    [
        ("auto", "kvm", "vmx", "kvm"),
        ("auto", "kvm", "plain", "tcg"),
        ("auto", "none", "vmx", "tcg"),
        ("kvm", "kvm", "vmx", "kvm"),
        ("tcg", "kvm", "vmx", "tcg"),
    ],
)
def test_kvm_needs_the_device_and_the_cpu_s_flag(host: Path, wanted: str, kvm: str, cpu: str, got: str) -> None:
    assert qemu.pick_accel(wanted, str(host / kvm), str(host / cpu)) == got


def test_kvm_that_was_asked_for_but_is_not_there(host: Path) -> None:
    with pytest.raises(FleetError, match="neither vmx nor svm"):
        qemu.pick_accel("kvm", str(host / "kvm"), str(host / "plain"))
    with pytest.raises(FleetError, match="cannot be opened"):
        qemu.pick_accel("kvm", str(host / "none"), str(host / "vmx"))


def test_command_line(tmp_path: Path) -> None:
    line = qemu.command(qemu.Machine("web", 2222, memory=768, cpus=3), tmp_path / "a,b")
    text = " ".join(line)
    assert f"file={tmp_path}/a,,b/disk.qcow2,if=none" in text
    assert "hostfwd=tcp:127.0.0.1:2222-:22" in text
    assert "-smp 3 -m 768" in text
    assert "-accel tcg,thread=single" in text
    assert "-icount" not in line
    assert "pflash" not in text


def test_counting_instructions_takes_one_cpu_and_no_kvm(tmp_path: Path) -> None:
    text = " ".join(qemu.command(qemu.Machine("web", 2222, accel="kvm", icount=True), tmp_path))
    assert "-icount shift=0,sleep=on" in text
    assert "-smp 1 " in text
    assert "-accel tcg,thread=single" in text


def test_uefi_has_variables_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "ovmf", lambda: ("/fw/code", "/fw/vars"))
    line = qemu.command(qemu.Machine("web", 2222, boot="uefi"), tmp_path)
    assert "if=pflash,unit=0,format=raw,readonly=on,file=/fw/code" in line
    assert f"if=pflash,unit=1,format=raw,file={tmp_path}/vars.fd" in line


def test_a_process_is_found_by_its_disk_and_only_if_it_is_qemu(tmp_path: Path) -> None:
    guest = tmp_path / "lab" / "web"
    proc = tmp_path / "proc"
    words = {
        "10": ["less", f"file={guest}/disk.qcow2,if=none"],
        "11": ["/usr/bin/qemu-system-x86_64", "-drive", f"file={guest}2/disk.qcow2,if=none"],
        "12": ["/usr/bin/qemu-system-x86_64", "-drive", f"file={guest}/disk.qcow2,if=none"],
        "self": ["/usr/bin/qemu-system-x86_64", "-drive", f"file={guest}/disk.qcow2,if=none"],
    }
    for pid, command in words.items():
        (proc / pid).mkdir(parents=True)
        (proc / pid / "cmdline").write_text("\0".join(command) + "\0")
    (proc / "13").mkdir()
    assert qemu.find(guest, str(proc)) == 12
    assert qemu.find(tmp_path / "lab" / "we", str(proc)) is None


def test_missing_tools_are_named_by_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "which", lambda tool: None if tool in ("mmdebstrap", "fakeroot", "qemu-img") else tool)
    tools = ["mmdebstrap", "fakeroot", "qemu-img", "mke2fs"]
    assert qemu.missing_packages(tools, root=False) == ["fakeroot", "mmdebstrap", "qemu-utils"]
    assert qemu.missing_packages(tools, root=True) == ["mmdebstrap", "qemu-utils"]
    monkeypatch.setattr(qemu, "_OVMF", ())
    assert qemu.missing_packages([], uefi=True) == ["ovmf"]
    with pytest.raises(FleetError, match="Debian package ovmf"):
        qemu.ovmf()
