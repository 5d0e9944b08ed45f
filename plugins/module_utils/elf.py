# Copyright: (c) 2026, The fetchbpf.fleet authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where in an ELF file a function's code is, for uprobes. Standard library only."""

from __future__ import annotations

import difflib
import os
import struct
from typing import Any

from .errors import FleetError

_SYMBOL_TABLES = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM
_FUNCTIONS = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_EXECUTABLE = 1


class Elf:
    """The symbols and executable segments of one file; ``pin`` is its (device, inode)."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as handle:
                status = os.fstat(handle.fileno())
                self._data = handle.read()
        except OSError as exc:
            raise FleetError(f"{path}: {exc.strerror}") from exc
        self.pin = (status.st_dev, status.st_ino)
        if self._data[:4] != b"\x7fELF" or len(self._data) < 64:
            raise FleetError(f"{path} is no ELF file")
        try:
            self._read()
        except (struct.error, IndexError) as exc:
            raise FleetError(f"{path} is a damaged ELF file") from exc

    def _read(self) -> None:
        wide, order = self._data[4] == 2, "<" if self._data[5] == 1 else ">"
        header = struct.unpack_from(order + ("16xHHIQQQIHHHHHH" if wide else "16xHHIIIIIHHHHHH"), self._data)
        program, sections, entry, count = header[4], header[5], header[8], header[9]
        section_entry, section_count = header[10], header[11]
        self._segments = []
        for number in range(count):
            at = program + number * entry
            if wide:
                kind, flags, offset, address, _physical, size = struct.unpack_from(order + "IIQQQQ", self._data, at)
            else:
                kind, offset, address, _physical, size, _memory, flags = struct.unpack_from(
                    order + "IIIIIII", self._data, at
                )
            if kind == 1 and flags & _EXECUTABLE:
                self._segments.append((address, offset, size))
        tables: list[tuple[Any, ...]] = []
        for number in range(section_count):
            at = sections + number * section_entry
            form = "IIQQQQIIQQ" if wide else "IIIIIIIIII"
            tables.append(struct.unpack_from(order + form, self._data, at))
        self.functions: dict[str, list[int]] = {}
        for table in tables:
            if table[1] in _SYMBOL_TABLES:
                names = tables[table[6]]
                self._read_symbols(order, wide, table[4], table[5], names[4])

    def _read_symbols(self, order: str, wide: bool, start: int, size: int, names: int) -> None:
        entry = struct.Struct(order + ("IBBHQQ" if wide else "IIIBBH"))
        for fields in entry.iter_unpack(self._data[start : start + size - size % entry.size]):
            if wide:
                name, info, _other, section, value, _size = fields
            else:
                name, value, _size, info, _other, section = fields
            if info & 15 in _FUNCTIONS and section and value:
                begin = names + name
                text = self._data[begin : self._data.index(b"\0", begin)].decode(errors="replace")
                addresses = self.functions.setdefault(text, [])
                if value not in addresses:
                    addresses.append(value)

    def offset_of(self, symbol: str) -> int:
        """Return the file offset of a function; FleetError says why there is none."""
        addresses = self.functions.get(symbol, [])
        if not addresses:
            near = difflib.get_close_matches(symbol, self.functions, 3)
            hint = f"; near names: {', '.join(near)}" if near else ""
            stripped = "" if self.functions else " (it has no symbols: stripped)"
            raise FleetError(f"{self.path} has no function {symbol}{stripped}{hint}")
        if len(addresses) > 1:
            places = ", ".join(f"0x{self.file_offset(address):x}" for address in addresses)
            raise FleetError(f"{self.path} has {len(addresses)} functions {symbol}; give one of the offsets {places}")
        return self.file_offset(addresses[0])

    def file_offset(self, address: int) -> int:
        """Return where in the file the code at a virtual address is."""
        for start, offset, size in self._segments:
            if start <= address < start + size:
                return address - start + offset
        raise FleetError(f"{self.path}: address 0x{address:x} is in no executable segment")

    def has_code_at(self, offset: int) -> bool:
        """Return whether a file offset lies in an executable segment."""
        return any(begin <= offset < begin + size for _start, begin, size in self._segments)
