# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB's menu as data: read grub.cfg, find an entry exactly, write our own menu.

Everything here is text in, text out; nothing touches the host.

The menu we write is sourced by grub.cfg before any other entry. Its first
entry is always the known-good kernel, so a numeric ``fallback=0`` reaches it
(GRUB 2.06 does not resolve an id there), and so does an unknown default.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import NamedTuple

from ansible_collections.fetchbpf.fleet.plugins.module_utils.errors import FleetError

KNOWN_GOOD_ID = "fetchbpf-known-good"
TRIAL_WORD = "fetchbpf.trial"
# Seconds after a panic until the machine restarts by itself; on the trial entry only.
PANIC_WORD = "panic=5"
SOURCE_MARK = "fetchbpf.cfg"
SCRIPT_NAME = "06_fetchbpf"

MENU_SCRIPT = """#!/bin/sh
# Written by the Ansible collection fetchbpf.fleet; removed by its rollback.
# Numbered before 10_linux: the entries of fetchbpf.cfg must be the first of the menu.
cat << 'EOF'
if [ -f ${config_directory}/fetchbpf.cfg ]; then
  source ${config_directory}/fetchbpf.cfg
elif [ -f ${prefix}/fetchbpf.cfg ]; then
  source ${prefix}/fetchbpf.cfg
fi
EOF
"""

LINUX_COMMANDS = ("linux", "linux16", "linuxefi")
KERNEL_PREFIXES = ("vmlinuz-", "vmlinux-", "kernel-")
SIGNED_SUFFIX = ".efi.signed"


class Token(NamedTuple):
    """A piece of GRUB script: ``kind`` is word, open, close or end (of a command)."""

    kind: str
    value: str
    start: int
    end: int


@dataclass(frozen=True)
class Entry:
    """One menuentry: ``head`` are its options except title and id, ``body`` what is in its braces.

    Both are source text, so that a copy is exact. ``path`` are the titles of the submenus around it.
    """

    title: str
    ident: str
    head: str
    body: str
    path: tuple[str, ...] = ()

    @property
    def kernel_files(self) -> list[str]:
        """File name, without directory, of each kernel the entry may load."""
        return [os.path.basename(words[1].value) for words in linux_commands(self.body) if len(words) > 1]

    @property
    def release(self) -> str | None:
        """Kernel release the entry boots, None if it boots none or may boot several."""
        releases = {release_of_file(name) for name in self.kernel_files}
        return releases.pop() if len(releases) == 1 else None

    @property
    def arguments(self) -> list[str]:
        """Words of the kernel command line, without those GRUB fills in from variables."""
        for words in linux_commands(self.body):
            return [word.value for word in words[2:] if not word.value.startswith("$")]
        return []

    @property
    def is_recovery(self) -> bool:
        """Whether the entry starts a rescue system instead of the host's services."""
        return "-recovery-" in self.ident or bool({"single", "recovery", "rescue", "emergency"} & set(self.arguments))

    def as_dict(self) -> dict:
        """Return the fields for JSON; ``Entry.from_dict`` takes them back."""
        return dict(asdict(self), path=list(self.path))

    @classmethod
    def from_dict(cls, fields: dict) -> Entry:
        """Return the entry that ``as_dict`` described."""
        return cls(**dict(fields, path=tuple(fields["path"])))


def release_of_file(name: str) -> str | None:
    """Return the release in a kernel's file name, None if there is none.

    >>> release_of_file("vmlinuz-6.12.0-test2")
    '6.12.0-test2'
    """
    if name.endswith(SIGNED_SUFFIX):
        name = name[: -len(SIGNED_SUFFIX)]
    for prefix in KERNEL_PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :] or None
    return None


def tokenize(text: str) -> Iterator[Token]:
    """Split GRUB script into tokens; quotes are removed from a word's value, variables stay as written."""
    position, length = 0, len(text)
    while position < length:
        char = text[position]
        if char in " \t\r":
            position += 1
        elif text.startswith("\\\n", position):
            position += 2
        elif char == "#":
            newline = text.find("\n", position)
            position = length if newline < 0 else newline
        elif char in "\n;&|":
            yield Token("end", char, position, position + 1)
            position += 1
        elif char in "{}":
            yield Token("open" if char == "{" else "close", char, position, position + 1)
            position += 1
        else:
            value, after = _word(text, position)
            yield Token("word", value, position, after)
            position = after


def _word(text: str, position: int) -> tuple[str, int]:
    """Return the value of the word that starts at ``position`` and the position after it."""
    value = []
    while position < len(text) and text[position] not in " \t\r\n;&|{}":
        char = text[position]
        if char == "\\":
            following = text[position + 1 : position + 2]
            value.append("" if following == "\n" else following)
            position += 2
        elif char == "'":
            closing = _closing(text, position, "'")
            value.append(text[position + 1 : closing])
            position = closing + 1
        elif char == '"':
            closing = _closing(text, position, '"')
            value.append(re.sub(r'\\(["\\$])', r"\1", text[position + 1 : closing]))
            position = closing + 1
        elif text.startswith("${", position):
            closing = _closing(text, position, "}")
            value.append(text[position : closing + 1])
            position = closing + 1
        else:
            value.append(char)
            position += 1
    return "".join(value), position


def _closing(text: str, position: int, mark: str) -> int:
    """Return where what is opened at ``position`` is closed by ``mark``."""
    at = position + 1
    while at < len(text) and text[at] != mark:
        # Only double quotes know escapes.
        at += 2 if mark == '"' and text[at] == "\\" else 1
    if at >= len(text):
        raise FleetError(f"GRUB menu line {_line(text, position)}: {text[position]} is never closed by {mark}")
    return at


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _commands(text: str) -> Iterator[list[Token]]:
    """Return the words of each command in ``text``."""
    words: list[Token] = []
    for token in tokenize(text):
        if token.kind == "word":
            words.append(token)
            continue
        if words:
            yield words
        words = []
    if words:
        yield words


def linux_commands(body: str) -> Iterator[list[Token]]:
    """Return the words of every command in ``body`` that loads a kernel."""
    for words in _commands(body):
        if words[0].value in LINUX_COMMANDS:
            yield words


def parse_menu(text: str) -> list[Entry]:
    """Return the entries of a grub.cfg in the order of the file, submenus flattened.

    Raises FleetError with the line number if braces or quotes do not match.
    """
    entries: list[Entry] = []
    # One item for each open brace: the words before it and where its inside begins.
    blocks: list[tuple[list[Token], int]] = []
    words: list[Token] = []
    for token in tokenize(text):
        if token.kind == "word":
            words.append(token)
            continue
        if token.kind == "open":
            blocks.append((words, token.end))
        elif token.kind == "close":
            if not blocks:
                raise FleetError(f"GRUB menu line {_line(text, token.start)}: a }} closes nothing")
            head, start = blocks.pop()
            if _first(head) == "menuentry":
                path = tuple(_title(outer) for outer, _start in blocks if _first(outer) == "submenu")
                entries.append(_entry(text, head, text[start : token.start], path))
        words = []
    if blocks:
        raise FleetError(f"GRUB menu line {_line(text, blocks[-1][1])}: a {{ is never closed")
    return entries


def _first(head: list[Token]) -> str:
    return head[0].value if head else ""


def _title(head: list[Token]) -> str:
    return head[1].value if len(head) > 1 else ""


def _entry(text: str, head: list[Token], body: str, path: tuple[str, ...]) -> Entry:
    """Build an Entry from the words before its brace."""
    title = _title(head)
    ident = title
    options = []
    rest = iter(head[2:])
    for word in rest:
        if word.value in ("--id", "$menuentry_id_option", "${menuentry_id_option}"):
            following = next(rest, None)
            ident = following.value if following else ident
        elif word.value.startswith("--id="):
            ident = word.value[len("--id=") :]
        else:
            options.append(text[word.start : word.end])
    return Entry(title, ident, " ".join(options), body, path)


def find_entry(entries: Iterable[Entry], release: str, cmdline: str = "") -> Entry | None:
    """Return the entry that boots exactly ``release`` into its normal system, or None.

    Among several the one whose arguments are those of ``cmdline`` (text of /proc/cmdline) is taken,
    then one that names no init of its own, then the first.
    """
    candidates = [entry for entry in entries if entry.release == release and not entry.is_recovery]
    words = [word for word in cmdline.split() if not word.startswith("BOOT_IMAGE=")]
    if any(word.startswith(f"{TRIAL_WORD}=") for word in words):
        # The same kernel's entry after its promotion.
        words = [word for word in words if word != PANIC_WORD and not word.startswith(f"{TRIAL_WORD}=")]
    running = sorted(words)

    def rank(entry: Entry) -> tuple[bool, bool]:
        return sorted(entry.arguments) != running, any(word.startswith("init=") for word in entry.arguments)

    return min(candidates, key=rank, default=None)


def quote(word: str) -> str:
    """Return ``word`` quoted for GRUB's shell.

    >>> quote("dyndbg=file x.c +p")
    "'dyndbg=file x.c +p'"
    """
    if re.fullmatch(r"[A-Za-z0-9_.,:/=@%+-]+", word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def split_cmdline(text: str) -> list[str]:
    """Return the words of a kernel command line given by a user; FleetError if it cannot be one."""
    if any(ord(char) < 32 and char != "\t" for char in text):
        raise FleetError("cmdline: must be one line without control characters")
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise FleetError(f"cmdline: {exc}: {text!r}") from exc
    for word in words:
        if word.partition("=")[0] == TRIAL_WORD:
            raise FleetError(f"cmdline: {TRIAL_WORD} is set by the collection itself")
    return words


def entry_id(release: str) -> str:
    """Return the id of our menu entry for ``release``."""
    return f"fetchbpf-{release}"


def render_entry(entry: Entry, ident: str, title: str, extra: Iterable[str] = ()) -> str:
    """Return a menuentry that is a copy of ``entry`` with another id and title and more kernel arguments."""
    insertion = "".join(f" {quote(word)}" for word in extra)
    body = entry.body
    # From the end to the beginning, so that earlier positions stay valid.
    for words in reversed(list(_commands(entry.body))):
        if words[0].value in LINUX_COMMANDS:
            # What follows a lone "--" goes to init, not to the kernel.
            before = [word for word in words if word.start < _separator(words)]
            body = body[: before[-1].end] + insertion + body[before[-1].end :]
        elif words[0].value == "savedefault":
            # The admin's saved choice is not ours to change.
            body = body[: words[0].start] + "true" + body[words[-1].end :]
    options = f"{entry.head} " if entry.head else ""
    return f"menuentry {quote(title)} {options}$menuentry_id_option {quote(ident)} {{{body}}}\n"


def _separator(words: list[Token]) -> int:
    """Return where the arguments for init start in a linux command."""
    return next((word.start for word in words if word.value == "--"), words[-1].end)


def render_menu(entries: Iterable[str], default_id: str) -> str:
    """Return fetchbpf.cfg: the entries (the first one is the known-good), the fallback and the default."""
    return (
        "# Written by the Ansible collection fetchbpf.fleet; changes are overwritten.\n"
        "# The first entry is the known-good kernel: fallback=0 reaches it.\n"
        + "".join(entries)
        + "set fallback=0\n"
        + 'if [ "${boot_once}" != "true" ]; then\n'
        + f"  set default={quote(default_id)}\n"
        + "fi\n"
    )


def check_menu(text: str, path: str) -> None:
    """Raise FleetError if ``text`` of grub.cfg defeats what our menu relies on, be it in there already or not."""
    # Each script of /etc/grub.d announces its part of the file.
    parts = re.finditer(r"^### BEGIN /etc/grub.d/(\S+) ###$", text, re.MULTILINE)
    mark = next((part.start() for part in parts if part.group(1) >= SCRIPT_NAME), len(text))
    for words in _commands(text[:mark]):
        if words[0].value in ("menuentry", "submenu"):
            raise FleetError(
                f"{path} line {_line(text, words[0].start)}: {_title(words)!r} would come before the entries of "
                f"{SOURCE_MARK}, so fallback=0 would not reach the known-good kernel; "
                f"number its script in /etc/grub.d after {SCRIPT_NAME[:2]}"
            )
    check_overrides(text[mark:], path, text.count("\n", 0, mark))
    check_timeout(text, path)


def check_overrides(text: str, path: str, lines_before: int = 0) -> None:
    """Raise FleetError if ``text``, which GRUB reads after our menu, sets the default or fallback again."""
    match = re.search(r"^[ \t]*set[ \t]+(default|fallback)=", text, re.MULTILINE)
    if match:
        raise FleetError(
            f"{path} line {lines_before + _line(text, match.start())}: sets {match.group(1)} after {SOURCE_MARK} "
            "was read, so a trial kernel could not be kept from becoming the default"
        )


def check_timeout(text: str, path: str) -> None:
    """Raise FleetError if GRUB waits for a person, so that no reboot ends by itself."""
    match = re.search(r"^[ \t]*set[ \t]+timeout=-1[ \t]*$", text, re.MULTILINE)
    if match:
        raise FleetError(
            f"{path} line {_line(text, match.start())}: timeout=-1 makes GRUB wait for a key at every boot; "
            "set GRUB_TIMEOUT to 0 or more in /etc/default/grub and run update-grub"
        )


def parse_environment(text: str) -> dict[str, str]:
    """Return the variables of a grubenv block."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines if "=" in line)
