# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pristine kernel trees in the cache, from a Debian package, git, a tarball or a local tree.

``sources/<name>/`` is a tree, ``sources/<name>.json`` says what it is;
``sources/pins/`` remembers what a request was resolved to, so that only the
first run needs the network.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from ansible.module_utils.urls import ConnectionError as UrlsConnectionError
from ansible.module_utils.urls import open_url

from .apt_isolated import find_package
from .errors import FleetError
from .patched_tree import list_files
from .process import run, start
from .workspace import (
    digest,
    digest_file,
    locked,
    read_json,
    remove,
    require_space,
    slug,
    write_json,
)

_CHUNK = 1 << 20
_SOURCE_MIB = 2500
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STREAM_FLAGS = {".xz": "--xz", ".gz": "--gzip", ".tgz": "--gzip", ".bz2": "--bzip2", ".zst": "--zstd", ".tar": ""}


class Request(NamedTuple):
    """What the user asked for; which fields count depends on ``kind``."""

    kind: str
    package: str = ""
    version: str = ""
    suites: tuple[str, ...] = ()
    mirror: str = ""
    url: str = ""
    path: str = ""
    sha256: str = ""
    ref: str = ""
    shallow: bool = True

    def pin(self) -> str:
        """Return the name under which the answer is remembered."""
        return digest(json.dumps(self._asdict(), sort_keys=True))[:16]

    def check(self) -> None:
        """Raise FleetError that names the first argument that is missing or wrong."""
        needs = {"debian": ("package", "suites"), "git": ("url", "ref"), "tarball": ("sha256",), "tree": ("path",)}
        if self.kind not in needs:
            raise FleetError(f"unknown kind of kernel source: {self.kind} (one of {', '.join(sorted(needs))})")
        for name in needs[self.kind]:
            if not getattr(self, name):
                raise FleetError(f"a kernel source of kind {self.kind} needs {name}")
        if self.kind == "tarball":
            if bool(self.url) == bool(self.path):
                raise FleetError("a kernel source of kind tarball needs either url or path")
            if not _SHA256.fullmatch(self.sha256):
                raise FleetError(f"sha256 of the tarball must be 64 hexadecimal digits: {self.sha256}")


class Source(NamedTuple):
    """A pristine tree. ``name`` is stable over versions of the same thing; ``epoch`` is its date in seconds."""

    source_id: str
    pristine: str
    name: str
    version: str
    epoch: int


class SourceCache:
    """The kernel sources below a cache root; ``read_only`` for check mode."""

    def __init__(
        self,
        cache_root: str | Path,
        show: Callable[[str, int, int], None] | None = None,
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        self._root = Path(cache_root) / "sources"
        self._apt = Path(cache_root) / "apt"
        self._show = show or (lambda step, done, total: None)

    def pinned(self, request: Request) -> Source | None:
        """Return the source of an earlier run of the same request, if it is still there. No network."""
        request.check()
        if request.kind == "tree":
            return self._tree(request)
        pin = read_json(self._pin_file(request))
        return self._stored(pin["source_id"], pin["name"]) if pin else None

    def fetch(self, request: Request) -> Source:
        """Resolve the request anew and return its source, fetched and unpacked if it is not there yet."""
        request.check()
        if request.kind == "tree":
            return self._tree(request)
        self._root.mkdir(parents=True, exist_ok=True)
        with locked(self._root / "lock", "the source cache", 3600, lambda line: self._show(line, 0, 0)):
            for stale in (*self._root.glob(".*.new"), *self._root.glob("downloads/.*.part")):
                remove(stale)
            source = {"debian": self._debian, "git": self._git, "tarball": self._tarball}[request.kind](request)
            self._pin_file(request).parent.mkdir(exist_ok=True)
            write_json(self._pin_file(request), {"source_id": source.source_id, "name": source.name})
        return source

    def _pin_file(self, request: Request) -> Path:
        return self._root / "pins" / f"{request.pin()}.json"

    def _folder(self, source_id: str) -> Path:
        return self._root / f"{slug(source_id)[:60]}-{digest(source_id)[:8]}"

    def _stored(self, source_id: str, name: str) -> Source | None:
        folder = self._folder(source_id)
        meta = read_json(folder.with_name(f"{folder.name}.json"))
        if not meta or meta["source_id"] != source_id or not folder.is_dir():
            return None
        return Source(source_id, str(folder), name, meta["version"], meta["epoch"])

    @contextlib.contextmanager
    def _new(self, source_id: str) -> Iterator[Path]:
        """Give an empty directory; what is in it afterwards becomes the pristine tree of ``source_id``."""
        folder = self._folder(source_id)
        require_space(self._root, _SOURCE_MIB, "the kernel source")
        new = folder.with_name(f".{folder.name}.new")
        remove(new)
        new.mkdir()
        yield new
        root = _top(new)
        meta = {
            "source_id": source_id,
            "version": kernel_version(root),
            "epoch": int((root / "Makefile").stat().st_mtime),
        }
        remove(folder)
        os.rename(root, folder)
        write_json(folder.with_name(f"{folder.name}.json"), meta)
        remove(new)

    def _debian(self, request: Request) -> Source:
        self._show(f"find {request.package}", 0, 0)
        apt, found = find_package(self._apt, list(request.suites), request.package, request.version, request.mirror)
        source_id = f"debian:{found.package}={found.version}"
        if not self._stored(source_id, request.package):
            package = self._root / "downloads" / f"{slug(f'{found.package}_{found.version}')}.deb"
            package.parent.mkdir(exist_ok=True)
            if not package.is_file() or digest_file(package) != found.sha256:
                require_space(self._root, _SOURCE_MIB + (found.size >> 20), f"the package {found.package}")
                apt.download(found, package, lambda done, total: self._show("download", done, total))
            with self._new(source_id) as new:
                self._unpack_package(package, new)
        return self._must(source_id, request.package)

    def _unpack_package(self, package: Path, new: Path) -> None:
        """Unpack the tarball inside a linux-source package without writing it to disk."""
        outer = start(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
        inner = start(
            ["tar", "-xO", "--wildcards", "./usr/src/linux-source-*.tar.*"],
            stdin=outer.stdout,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        # Only the next command holds the pipe, so that the first one is told when nobody reads on.
        cast("IO[bytes]", outer.stdout).close()
        stream = cast("IO[bytes]", inner.stdout)
        self._untar(stream, "--xz", new, package.stat().st_size, package)
        stream.close()
        if inner.wait() or outer.wait():
            raise FleetError(f"there is no kernel source in the package {package}")

    def _untar(self, stream: IO[bytes], flag: str, new: Path, size: int, origin: Path) -> None:
        command = ["tar", "-x", "--no-same-owner", *([flag] if flag else []), "-C", str(new)]
        tar = start(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ, LC_ALL="C"),
        )
        done, sink = 0, cast("IO[bytes]", tar.stdin)
        with contextlib.suppress(BrokenPipeError):
            while chunk := stream.read(_CHUNK):
                sink.write(chunk)
                done += len(chunk)
                self._show("unpack", done, size)
            sink.close()
        message = cast("IO[bytes]", tar.stderr).read().decode(errors="replace")
        if tar.wait():
            raise FleetError(f"cannot unpack {origin}: {message.strip()[:300]}")

    def _tarball(self, request: Request) -> Source:
        source_id = f"tarball:sha256:{request.sha256}"
        name = slug(re.sub(r"\.(tar\.)?\w+$", "", os.path.basename(request.url or request.path)))
        if not self._stored(source_id, name):
            tarball = self._download(request) if request.url else Path(request.path)
            if not tarball.is_file():
                raise FleetError(f"no such tarball: {tarball}")
            found = digest_file(tarball)
            if found != request.sha256:
                raise FleetError(f"wrong sha256 of {tarball}: {request.sha256} expected, {found} found")
            flag = _STREAM_FLAGS.get(os.path.splitext(request.url or request.path)[1])
            if flag is None:
                raise FleetError(f"not a tarball by its name (one of {', '.join(_STREAM_FLAGS)}): {tarball}")
            with self._new(source_id) as new, open(tarball, "rb") as stream:
                self._untar(stream, flag, new, tarball.stat().st_size, tarball)
        return self._must(source_id, name)

    def _download(self, request: Request) -> Path:
        """Download to the cache; the file is there only if it is whole and has the right sha256."""
        target = self._root / "downloads" / request.sha256
        if target.is_file() and digest_file(target) == request.sha256:
            return target
        require_space(self._root, _SOURCE_MIB, "the kernel source")
        target.parent.mkdir(exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        total = hashlib.sha256()
        try:
            with open_url(request.url, timeout=60) as answer, open(part, "wb") as handle:
                size = int(answer.headers.get("Content-Length") or 0)
                done = 0
                while chunk := answer.read(_CHUNK):
                    handle.write(chunk)
                    total.update(chunk)
                    done += len(chunk)
                    self._show("download", done, size)
            if size and done < size:
                raise FleetError(f"the download was cut off after {done} of {size} bytes: {request.url}")
            if total.hexdigest() != request.sha256:
                raise FleetError(
                    f"wrong sha256 of {request.url}: {request.sha256} expected, {total.hexdigest()} found; "
                    "it was removed"
                )
            os.replace(part, target)
        except (OSError, ValueError, HTTPException, UrlsConnectionError) as exc:
            raise FleetError(f"cannot download {request.url}: {exc}") from exc
        finally:
            remove(part)
        return target

    def _git(self, request: Request) -> Source:
        name = slug(re.sub(r"\.git$", "", request.url.rstrip("/").rpartition("/")[2]))
        repository = self._root / "git" / f"{name}-{digest(request.url)[:8]}.git"
        if not repository.is_dir():
            beside = repository.with_name(f".{repository.name}.new")
            remove(beside)
            self._run_git(["init", "--quiet", "--bare", str(beside)])
            os.rename(beside, repository)
        self._show(f"fetch {request.ref}", 0, 0)
        depth = ["--depth=1"] if request.shallow else []
        git = ["--git-dir", str(repository)]
        self._run_git([*git, "fetch", "--quiet", "--force", "--no-tags", *depth, "--", request.url, request.ref])
        commit = self._run_git([*git, "rev-parse", "--verify", "FETCH_HEAD^{commit}"])
        source_id = f"git:{commit}"
        if not self._stored(source_id, name):
            self._show("check out", 0, 0)
            with self._new(source_id) as new:
                remove(repository / "index")
                self._run_git(
                    [
                        *git,
                        "-c",
                        "core.autocrlf=false",
                        "--work-tree",
                        str(new),
                        "checkout",
                        "--quiet",
                        "--force",
                        commit,
                        "--",
                        ".",
                    ]
                )
                # The date of the source is its commit's, wherever and whenever it is checked out.
                epoch = int(self._run_git([*git, "show", "--no-patch", "--format=%ct", commit]))
                if (new / "Makefile").is_file():
                    os.utime(new / "Makefile", (epoch, epoch))
        return self._must(source_id, name)

    @staticmethod
    def _run_git(arguments: list[str]) -> str:
        environment = dict(os.environ, LC_ALL="C", GIT_TERMINAL_PROMPT="0")
        result = run(["git", *arguments], env=environment)
        if result.returncode:
            shown = next((word for word in arguments if word in ("init", "fetch", "rev-parse", "checkout", "show")), "")
            raise FleetError(f"git {shown} failed: {result.stderr.strip()[:500]}")
        return result.stdout.strip()

    def _must(self, source_id: str, name: str) -> Source:
        source = self._stored(source_id, name)
        if source is None:
            raise FleetError(f"the source {source_id} vanished from {self._root} during the run")
        return source

    def _tree(self, request: Request) -> Source:
        path = Path(request.path)
        version = kernel_version(_checked(path))
        for leftover in (".config", "include/config"):
            if (path / leftover).exists():
                raise FleetError(
                    f"{path} was built in ({leftover} exists), so it cannot be built out of tree; "
                    "run make mrproper there"
                )
        source_id = f"tree:sha256:{self._tree_hash(path)}"
        name = f"{slug(path.resolve().name)}-{digest(str(path.resolve()))[:8]}"
        return Source(source_id, str(path), name, version, int((path / "Makefile").stat().st_mtime))

    def _tree_hash(self, path: Path) -> str:
        """Return a hash over names, contents and executable bits; unchanged files are not read again."""
        memory_file = self._root / f"tree-{digest(str(path.resolve()))[:16]}.json"
        memory = read_json(memory_file) or {}
        files = list_files(path)
        fresh: dict[str, list[Any]] = {}
        for number, name in enumerate(sorted(files)):
            known = memory.get(name)
            if known and known[0] == files[name]:
                fresh[name] = known
                continue
            full = path / name
            if not number % 500:
                self._show("hash the tree", number, len(files))
            fresh[name] = [files[name], digest(os.readlink(full)) if full.is_symlink() else digest_file(full)]
        if fresh != memory and not self._read_only:
            self._root.mkdir(parents=True, exist_ok=True)
            write_json(memory_file, fresh)
        return digest("".join(f"{name}\0{value[0][2]}\0{value[1]}\n" for name, value in fresh.items()))


def _top(folder: Path) -> Path:
    """Return the kernel tree in ``folder``: itself, or its only directory."""
    if (folder / "Makefile").is_file():
        return _checked(folder)
    entries = [entry for entry in folder.iterdir() if stat.S_ISDIR(entry.lstat().st_mode)]
    return _checked(entries[0] if len(entries) == 1 else folder)


def _checked(path: Path) -> Path:
    if not path.is_dir():
        raise FleetError(f"no such directory: {path}")
    for name in ("Makefile", "Kconfig", "Kbuild", "arch"):
        if not (path / name).exists():
            raise FleetError(f"not a Linux kernel source tree ({name} is missing): {path}")
    return path


def kernel_version(tree: Path) -> str:
    """Return VERSION.PATCHLEVEL.SUBLEVEL with EXTRAVERSION of a kernel tree, as ``make kernelversion`` does."""
    text = (tree / "Makefile").read_text(encoding="utf-8", errors="replace")
    fields = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))
    if not {"VERSION", "PATCHLEVEL"} <= fields.keys():
        raise FleetError(f"no kernel version in {tree}/Makefile")
    numbers = ".".join(fields[name] for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL") if fields.get(name))
    return numbers + fields.get("EXTRAVERSION", "")
