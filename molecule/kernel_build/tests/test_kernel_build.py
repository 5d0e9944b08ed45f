# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The artifact that a build on another host brought home, and the builds that must be refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plays import Play
from testinfra.host import Host

HERE = Path(__file__).resolve().parents[1]
HOME = Path(os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY", ".")) / "artifacts"
THERE = "/root/.cache/fetchbpf/artifacts"


def manifests() -> dict[str, dict[str, Any]]:
    """Return the manifests of the controller's artifacts, by their key."""
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in HOME.glob("*/manifest.json")}


def converged() -> tuple[str, dict[str, Any]]:
    """Return key and manifest of the artifact that converge built."""
    found = manifests().items()
    return next(item for item in found if "CONFIG_LOG_SHIFT" not in item[1]["config"]["requested"])


def contents(path: Path) -> str:
    """Return the file list of a package."""
    return subprocess.run(["dpkg-deb", "--contents", path], capture_output=True, text=True, check=True).stdout


def test_the_artifact_is_whole_on_the_controller_and_the_same_on_the_build_host(host: Host) -> None:
    key, manifest = converged()
    assert manifest["key"] == key
    assert manifest["series"]["patches"] == ["0001.patch", "0002.patch"]
    assert manifest["config"]["requested"]["CONFIG_MODULES"] == "y"
    assert {item["name"] for item in manifest["files"]} >= {f"config-{manifest['release']}"}
    for item in manifest["files"]:
        assert hashlib.sha256((HOME / key / item["name"]).read_bytes()).hexdigest() == item["sha256"]
        assert host.file(f"{THERE}/{key}/{item['name']}").sha256sum == item["sha256"]


def test_its_packages_hold_the_kernel_and_the_benchmark() -> None:
    key, manifest = converged()
    (image,) = (HOME / key).glob("linux-image-*.deb")
    (tools,) = (HOME / key).glob("fetchbpf-tools-*.deb")
    assert f"./boot/vmlinuz-{manifest['release']}" in contents(image)
    assert f"./lib/modules/{manifest['release']}/kernel/net/fake.ko" in contents(image)
    assert f"./usr/lib/fetchbpf/{manifest['release']}/fetchbpf-bench\n" in contents(tools)


def test_a_setting_that_cannot_be_is_named_before_anything_is_compiled(playbook: Callable[..., Play]) -> None:
    before = manifests()
    play = playbook(HERE / "converge.yml", fragment="unmet")
    assert play.failed
    assert "CONFIG_NETFILTER_XT_MATCH_OWNER: asked y (unmet.config:2), got n; unmet dependency" in play.flat
    assert "NETFILTER_ADVANCED" in play.flat
    assert manifests() == before


def test_another_setting_is_another_artifact_beside_the_first(playbook: Callable[..., Play]) -> None:
    before = manifests()
    play = playbook(HERE / "converge.yml", fragment="other")
    assert not play.failed, play.output
    after = manifests()
    assert len(after) == len(before) + 1
    assert {key: after[key] for key in before} == before
    again = playbook(HERE / "converge.yml")
    assert (again.recap["failed"], manifests()) == (0, after)


def test_a_file_of_the_artifact_that_is_damaged_is_built_again(host: Host, playbook: Callable[..., Play]) -> None:
    key, _manifest = converged()
    image = host.check_output(f"ls {THERE}/{key}/linux-image-*.deb")
    whole = host.file(image).sha256sum
    host.check_output(f"truncate -s 100 {image}")
    play = playbook(HERE / "converge.yml")
    assert not play.failed, play.output
    assert host.file(image).sha256sum == whole
