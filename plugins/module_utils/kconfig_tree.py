# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a kernel configuration symbol did not get its value: reads the Kconfig files of a tree.

Only what an explanation needs is read: definitions, dependencies, choices,
selects. Macros of the build, ``$(…)``, are not evaluated.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import NamedTuple

_TOKEN = re.compile(r'\s*(\$\((?:[^()]|\([^()]*\))*\)|"[^"]*"|\'[^\']*\'|&&|\|\||!=|<=|>=|[!=<>()]|[\w./-]+)')
_TYPES = ("bool", "tristate", "string", "int", "hex", "def_bool", "def_tristate")
_LEVEL = {"n": 0, "m": 1, "y": 2}
_SHOWN = 4


class Definition(NamedTuple):
    """One place that defines a symbol; ``depends`` are all conditions that hold there."""

    place: str
    kind: str
    prompt: bool
    depends: tuple[str, ...]
    choice: int


class Symbol:
    """All that is known of a symbol, without the CONFIG_ prefix."""

    def __init__(self) -> None:
        self.definitions: list[Definition] = []
        self.selected_by: list[str] = []

    @property
    def kind(self) -> str:
        """Return bool, tristate, string, int, hex or nothing."""
        return next((definition.kind for definition in self.definitions if definition.kind), "")


class _Block:
    """An open if, menu or choice, or the config entry being read."""

    def __init__(self, word: str, depends: list[str] | None = None, choice: int = 0) -> None:
        self.word = word
        self.depends = depends or []
        self.choice = choice
        self.name = ""
        self.place = ""
        self.kind = ""
        self.prompt = False


class KconfigTree:
    """The Kconfig files of ``tree`` for the architecture directory ``srcarch``."""

    def __init__(self, tree: str | Path, srcarch: str) -> None:
        self.symbols: dict[str, Symbol] = {}
        self._tree = Path(tree)
        self._variables = {"SRCARCH": srcarch, "ARCH": srcarch, "KERNELVERSION": ""}
        self._blocks: list[_Block] = []
        self._entry: _Block | None = None
        self._choices = 0
        self._read("Kconfig")
        self._close()

    def _read(self, path: str) -> None:
        """Read one Kconfig file and those it sources."""
        if not os.path.isfile(self._tree / path):
            return
        lines = (self._tree / path).read_text(encoding="utf-8", errors="replace").split("\n")
        number = 0
        while number < len(lines):
            start, line = number + 1, lines[number]
            number += 1
            while line.endswith("\\") and number < len(lines):
                line = line[:-1] + " " + lines[number].strip()
                number += 1
            text = line.strip()
            if text in ("help", "---help---"):
                number = _after_help(lines, number)
            elif text and not text.startswith("#"):
                self._line(text, f"{path}:{start}")

    def _line(self, text: str, place: str) -> None:
        word, _unused, rest = text.partition(" ")
        word, rest = word.strip(), re.sub(r"\s#.*", "", rest).strip()
        if "\t" in word:
            word, _unused, more = word.partition("\t")
            rest = f"{more} {rest}".strip()
        if word in ("config", "menuconfig"):
            self._close()
            self._entry = _Block(word)
            self._entry.name, self._entry.place = rest, place
        elif word in ("if", "menu", "choice"):
            self._close()
            if word == "choice":
                self._choices += 1
            self._blocks.append(_Block(word, [rest] if word == "if" else [], self._choices if word == "choice" else 0))
        elif word in ("endif", "endmenu", "endchoice"):
            self._close()
            if self._blocks:
                self._blocks.pop()
        elif word in ("source", "comment", "mainmenu"):
            self._close()
            if word == "source":
                self._read(self._expand(rest.strip("\"'")))
            elif word == "comment":
                self._entry = _Block(word)
        elif word == "depends" and rest.startswith("on "):
            target = self._entry or (self._blocks[-1] if self._blocks else None)
            if target:
                target.depends.append(rest[3:].strip())
        elif self._entry:
            self._property(self._entry, word, rest)

    def _property(self, entry: _Block, word: str, rest: str) -> None:
        if word in _TYPES:
            entry.kind = word.replace("def_", "")
        if word in ("bool", "tristate", "string", "int", "hex", "prompt") and rest[:1] in "\"'" and rest:
            entry.prompt = True
            condition = re.match(r"(?:\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])*')\s+if\s+(.+)", rest)
            if condition:
                entry.depends.append(condition[1])
        elif word == "select":
            name = rest.split()[0]
            self.symbols.setdefault(name, Symbol()).selected_by.append(entry.name)

    def _close(self) -> None:
        """End the open config entry."""
        entry, self._entry = self._entry, None
        if entry is None or entry.word == "comment":
            return
        depends = [condition for block in self._blocks for condition in block.depends] + entry.depends
        choice = next((block.choice for block in reversed(self._blocks) if block.choice), 0)
        definition = Definition(entry.place, entry.kind, entry.prompt, tuple(depends), choice)
        self.symbols.setdefault(entry.name, Symbol()).definitions.append(definition)

    def _expand(self, text: str) -> str:
        return re.sub(r"\$\((\w+)\)", lambda match: self._variables.get(match[1], ""), text)

    def why(self, config_symbol: str, asked: str, values: dict[str, str]) -> str:
        """Return why ``config_symbol`` cannot be ``asked`` in a configuration with ``values``."""
        name = config_symbol[len("CONFIG_") :]
        symbol = self.symbols.get(name)
        if symbol is None or not symbol.definitions:
            near = difflib.get_close_matches(name, self.symbols, 2, 0.8)
            hint = f" (near: {', '.join(f'CONFIG_{other}' for other in near)})" if near else ""
            return f"this kernel has no such symbol for this architecture{hint}"
        if asked == "n":
            return self._why_on(name, symbol, values)
        if asked in _LEVEL and symbol.kind not in ("bool", "tristate"):
            return f"it is of type {symbol.kind}"
        if asked == "m" and symbol.kind == "bool":
            return "it can be y or n, not m"
        wanted = 1 if asked == "m" else 2
        need = min(wanted, 1) if symbol.kind == "bool" or asked not in _LEVEL else wanted
        reasons = [self._unmet(definition, need, values) for definition in symbol.definitions]
        if all(reasons):
            return "unmet dependency: " + " or ".join(reasons)
        return self._why_met(name, symbol, asked, values)

    def _why_on(self, name: str, symbol: Symbol, values: dict[str, str]) -> str:
        selecting = [other for other in symbol.selected_by if values.get(f"CONFIG_{other}") in ("y", "m")]
        if selecting:
            shown = ", ".join(f"CONFIG_{other}" for other in sorted(set(selecting))[:_SHOWN])
            return f"it is selected by {shown}"
        if not any(definition.prompt for definition in symbol.definitions):
            return "it cannot be set by hand; its value follows from other symbols"
        return f"CONFIG_{name} is forced on by a condition of its own"

    def _why_met(self, name: str, symbol: Symbol, asked: str, values: dict[str, str]) -> str:
        """Return the reason when all dependencies are met."""
        if not any(definition.prompt for definition in symbol.definitions):
            by = ", ".join(f"CONFIG_{other}" for other in sorted(set(symbol.selected_by))[:_SHOWN])
            return f"it cannot be set by hand{f', only selected by {by}' if by else ''}"
        choice = symbol.definitions[0].choice
        for other, candidate in self.symbols.items():
            in_choice = choice and any(definition.choice == choice for definition in candidate.definitions)
            if in_choice and other != name and values.get(f"CONFIG_{other}") == "y":
                return f"its choice has CONFIG_{other}=y"
        if asked == "m" and values.get("CONFIG_MODULES") != "y":
            return "unmet dependency: MODULES=n"
        if asked == "m":
            return self._why_on(name, symbol, values)
        return f"see {symbol.definitions[0].place}"

    def _unmet(self, definition: Definition, need: int, values: dict[str, str]) -> str:
        """Return the conditions of a definition that are below ``need``, or nothing."""
        parts = []
        for condition in definition.depends:
            for term in _conjuncts(condition):
                if _Expression(term, values).level() < need and term not in parts:
                    parts.append(term)
        if not parts:
            return ""
        shown = []
        for term in parts:
            names = [
                token
                for token in dict.fromkeys(_tokens(term))
                if re.fullmatch(r"[A-Z0-9a-z_]*[A-Z][A-Za-z0-9_]*", token)
            ]
            states = [f"{token}={values.get(f'CONFIG_{token}', 'n')}" for token in names]
            shown.append(states[0] if term in names else f"{term} ({', '.join(states)})" if states else term)
        return f"{', '.join(shown)} [{definition.place}]"


class _Expression:
    """A Kconfig expression with the values of a configuration; level 0, 1 or 2 for n, m or y."""

    def __init__(self, text: str, values: dict[str, str]) -> None:
        self._rest = _tokens(text)
        self._values = values

    def level(self) -> int:
        """Return the value of the whole expression."""
        return self._or()

    def _peek(self) -> str:
        return self._rest[0] if self._rest else ""

    def _next(self) -> str:
        return self._rest.pop(0) if self._rest else ""

    def _or(self) -> int:
        value = self._and()
        while self._peek() == "||":
            self._next()
            value = max(value, self._and())
        return value

    def _and(self) -> int:
        value = self._not()
        while self._peek() == "&&":
            self._next()
            value = min(value, self._not())
        return value

    def _not(self) -> int:
        if self._peek() == "!":
            self._next()
            return 2 - self._not()
        if self._peek() == "(":
            self._next()
            value = self._or()
            self._next()
            return value
        return self._comparison()

    def _comparison(self) -> int:
        left = self._next()
        operator = self._peek()
        if operator not in ("=", "!=", "<", ">", "<=", ">="):
            # A macro's value is the build's own business: never named as the reason.
            return 2 if left.startswith("$(") else _LEVEL.get(self._value(left), 0)
        self._next()
        one, two = _number(self._value(left)), _number(self._value(self._next()))
        if isinstance(one, int) and isinstance(two, int):
            order = (one > two) - (one < two)
        else:
            order = (str(one) > str(two)) - (str(one) < str(two))
        holds = {"=": order == 0, "!=": order != 0, "<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}
        return 2 if holds[operator] else 0

    def _value(self, token: str) -> str:
        if token in _LEVEL or token[:1] in "\"'" or re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", token):
            return token.strip("\"'")
        return self._values.get(f"CONFIG_{token}", "n").strip('"')


def _number(text: str) -> int | str:
    try:
        return int(text, 0)
    except ValueError:
        return text


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _conjuncts(text: str) -> list[str]:
    """Return the parts of an expression joined by && outside of parentheses."""
    parts: list[list[str]] = [[]]
    depth = 0
    tokens = _tokens(text)
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if token == "||" and depth == 0:
            return [text]
        if token == "&&" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [re.sub(r"(?<=[(!]) | (?=\))", "", " ".join(part)) for part in parts]


def _after_help(lines: list[str], number: int) -> int:
    """Return the index of the first line after a help text that starts at ``number``."""
    indent = -1
    while number < len(lines):
        line = lines[number].expandtabs(8)
        if line.strip():
            width = len(line) - len(line.lstrip())
            if indent < 0:
                indent = width
            if width < indent or width == 0:
                break
        number += 1
    return number
