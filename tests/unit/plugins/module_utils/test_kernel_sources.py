# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import http.server
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fetchbpf.fleet.plugins.module_utils import kernel_sources
from ansible_collections.fetchbpf.fleet.plugins.module_utils.apt_isolated import Candidate
from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError
from ansible_collections.fetchbpf.fleet.plugins.module_utils.kernel_sources import Request, SourceCache, kernel_version
from ansible_collections.fetchbpf.fleet.plugins.module_utils.patched_tree import list_files
from ansible_collections.fetchbpf.fleet.plugins.module_utils.workspace import digest_file

from tests.unit.fakes import make_tree


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    make_tree(tmp_path / "made" / "linux-6.12.1")
    path = tmp_path / "web" / "linux-6.12.1.tar.xz"
    path.parent.mkdir()
    with tarfile.open(path, "w:xz") as archive:
        archive.add(tmp_path / "made" / "linux-6.12.1", "linux-6.12.1")
    return path


class Web(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; the half of each file when ``cut``."""

    cut = False
    requests = 0

    def copyfile(self, source, outputfile) -> None:  # type: ignore[no-untyped-def]
        Web.requests += 1
        data = source.read()
        outputfile.write(data[: len(data) // 2] if Web.cut else data)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def web(tarball: Path) -> Iterator[str]:
    Web.cut, Web.requests = False, 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Web, directory=str(tarball.parent)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{tarball.name}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path) -> SourceCache:
    return SourceCache(tmp_path / "cache")


def left_over(tmp_path: Path) -> list[str]:
    """Return what of a failed run is in the cache: no tree, no download."""
    return sorted(
        path.name for path in (tmp_path / "cache/sources").rglob("*") if path.name not in ("lock", "downloads")
    )


def test_a_local_tarball_becomes_a_pristine_tree(cache: SourceCache, tarball: Path, tmp_path: Path) -> None:
    request = Request("tarball", path=str(tarball), sha256=digest_file(tarball))
    assert cache.pinned(request) is None
    source = cache.fetch(request)
    assert source.source_id == f"tarball:sha256:{request.sha256}"
    assert (source.name, source.version) == ("linux-6.12.1", "6.12.1")
    assert (Path(source.pristine) / "kernel/fork.c").is_file()
    # The second run needs neither tarball nor network.
    tarball.unlink()
    assert cache.pinned(request) == source


def test_a_wrong_sha256_is_refused_and_the_next_run_starts_clean(
    cache: SourceCache, tarball: Path, web: str, tmp_path: Path
) -> None:
    with pytest.raises(FleetError, match=f"wrong sha256 of {web}: 0000.* expected, {digest_file(tarball)} found"):
        cache.fetch(Request("tarball", url=web, sha256="0" * 64))
    assert left_over(tmp_path) == []
    source = cache.fetch(Request("tarball", url=web, sha256=digest_file(tarball)))
    assert source.version == "6.12.1"


def test_a_download_cut_in_the_middle_is_refused_and_the_next_run_starts_clean(
    cache: SourceCache, tarball: Path, web: str, tmp_path: Path
) -> None:
    request = Request("tarball", url=web, sha256=digest_file(tarball))
    Web.cut = True
    with pytest.raises(FleetError, match="cut off|IncompleteRead|incomplete"):
        cache.fetch(request)
    assert left_over(tmp_path) == []
    Web.cut = False
    assert cache.fetch(request).version == "6.12.1"
    assert Web.requests == 2


def test_a_damaged_tarball_leaves_no_tree(cache: SourceCache, tarball: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(tarball.read_bytes()[:2000])
    with pytest.raises(FleetError, match="cannot unpack"):
        cache.fetch(Request("tarball", path=str(cut), sha256=digest_file(cut)))
    assert cache.fetch(Request("tarball", path=str(tarball), sha256=digest_file(tarball))).version == "6.12.1"
    assert not list((tmp_path / "cache/sources").glob(".*"))


def test_a_tarball_of_something_else_is_named(cache: SourceCache, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "Makefile").write_text("all:\n")
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "x", "x")
    with pytest.raises(FleetError, match=r"not a Linux kernel source tree \(Kconfig is missing\)"):
        cache.fetch(Request("tarball", path=str(path), sha256=digest_file(path)))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("svn"), "unknown kind of kernel source: svn"),
        (Request("debian", suites=("host",)), "kind debian needs package"),
        (Request("git", url="https://example.org/x.git"), "kind git needs ref"),
        (Request("tarball", url="https://example.org/x.tar.xz"), "kind tarball needs sha256"),
        (Request("tarball", sha256="0" * 64), "needs either url or path"),
        (Request("tarball", url="x", sha256="abc"), "must be 64 hexadecimal digits: abc"),
        (Request("tree"), "kind tree needs path"),
        (Request("tree", path="/no/such/tree"), "no such directory: /no/such/tree"),
    ],
)
def test_a_wrong_request_names_the_argument(cache: SourceCache, request_: Request, message: str) -> None:
    with pytest.raises(FleetError, match=message):
        cache.fetch(request_)


def test_no_disk_space_is_said_with_both_numbers_before_anything(
    cache: SourceCache, tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_sources, "_SOURCE_MIB", 10**9)
    with pytest.raises(FleetError, match=r"kernel source: 1000000000 MiB needed, \d+ MiB free in "):
        cache.fetch(Request("tarball", path=str(tarball), sha256=digest_file(tarball)))
    assert left_over(tmp_path) == []


def test_a_local_tree_is_used_in_place_and_named_by_its_content(cache: SourceCache, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "linux")
    before = list_files(tree)
    request = Request("tree", path=str(tree))
    one = cache.pinned(request)
    assert one is not None
    assert one.pristine == str(tree)
    assert cache.fetch(request) == one
    assert list_files(tree) == before
    (tree / "init/main.c").write_text("int x;\n")
    two = cache.fetch(request)
    assert two.source_id != one.source_id
    # The same tree keeps its name, so a build of it stays incremental.
    assert two.name == one.name
    twin = cache.fetch(Request("tree", path=str(make_tree(tmp_path / "twin"))))
    assert twin.source_id == one.source_id


def test_a_tree_that_was_built_in_is_refused(cache: SourceCache, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "linux")
    (tree / ".config").write_text("")
    with pytest.raises(FleetError, match="mrproper"):
        cache.fetch(Request("tree", path=str(tree)))


@pytest.mark.parametrize("shallow", [True, False])
def test_git_is_pinned_to_a_commit_until_updated(
    cache: SourceCache, tmp_path: Path, shallow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
        monkeypatch.setenv(f"GIT_{name}_DATE", "1700000000 +0000")
    tree = make_tree(tmp_path / "linux")

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", tree, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    request = Request("git", url=f"file://{tree}", ref="main", shallow=shallow)
    one = cache.fetch(request)
    assert one.source_id == f"git:{git('rev-parse', 'HEAD')}"
    assert one.epoch == 1700000000
    assert not (Path(one.pristine) / ".git").exists()
    (tree / "init/extra.c").write_text("int x;\n")
    git("rm", "--quiet", "net/fake.c")
    git("add", ".")
    git("commit", "--quiet", "-m", "two")
    assert cache.pinned(request) == one
    two = cache.fetch(request)
    assert two.source_id == f"git:{git('rev-parse', 'HEAD')}"
    assert two.name == one.name == "linux"
    assert (Path(two.pristine) / "init/extra.c").is_file()
    assert not (Path(two.pristine) / "net/fake.c").exists()
    assert (Path(one.pristine) / "net/fake.c").is_file()
    with pytest.raises(FleetError, match="git fetch failed: .*no-such-ref"):
        cache.fetch(request._replace(ref="no-such-ref"))


class FakeApt:
    """An apt with one package; counts downloads."""

    downloads = 0

    def __init__(self, package: Path) -> None:
        self.package = package

    def download(self, candidate: Candidate, target: Path, meter: object) -> None:
        FakeApt.downloads += 1
        target.write_bytes(self.package.read_bytes())


def test_a_debian_package_is_unpacked_once_and_pinned(
    cache: SourceCache, tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr/src").mkdir(parents=True)
    (root / "usr/src/linux-source-6.12.tar.xz").write_bytes(tarball.read_bytes())
    control = (
        "Package: linux-source-6.12\nVersion: 6.12.1-1~deb12u1\nArchitecture: all\nMaintainer: a\nDescription: a\n"
    )
    (root / "DEBIAN/control").write_text(control)
    deb = tmp_path / "x.deb"
    subprocess.run(["dpkg-deb", "--build", root, deb], check=True, capture_output=True)
    found = Candidate("linux-source-6.12", "6.12.1-1~deb12u1", "host", digest_file(deb), deb.stat().st_size)
    monkeypatch.setattr(kernel_sources, "find_package", lambda *_args: (FakeApt(deb), found))
    request = Request("debian", package="linux-source-6.12", suites=("host",))
    source = cache.fetch(request)
    assert source.source_id == "debian:linux-source-6.12=6.12.1-1~deb12u1"
    assert (source.name, source.version) == ("linux-source-6.12", "6.12.1")
    assert "~" not in source.pristine
    assert cache.pinned(request) == source
    assert cache.fetch(request) == source
    assert FakeApt.downloads == 1


def test_kernel_version_is_that_of_make(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 0\nEXTRAVERSION = -rc7\nNAME = x\n")
    assert kernel_version(tmp_path) == "7.3.0-rc7"
    (tmp_path / "Makefile").write_text("all:\n")
    with pytest.raises(FleetError, match="no kernel version"):
        kernel_version(tmp_path)
