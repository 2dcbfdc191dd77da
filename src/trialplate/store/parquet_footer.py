"""A strict look at a Parquet file's footer and page headers, before any library reads it.

The library trusts what a footer declares: a forged one can make it allocate gigabytes or end the process. So every
offset, size and count is compared with the bytes that are there, and only the plain layout that
``trialplate.store`` writes is let through: row groups, data pages that are zstd or plain, nothing between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trialplate.errors import EvidenceError

MARK = b"PAR1"
_MAX_ITEMS = 1_000_000
_MAX_DEPTH = 12
_PLAIN, _ZSTD = 0, 6
_DATA_PAGE = 0
_MAX_PAGE_HEADER_BYTES = 256
_INTEGERS = frozenset((4, 5, 6))
Struct = dict[int, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a file declares, after every size was found to agree with its bytes."""

    rows: int
    column_bytes: tuple[int, ...]
    """What each column unpacks to, as declared and as the page headers say."""

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.column_bytes)

    @property
    def unpacked_bytes(self) -> int:
        """Sum over all columns."""
        return sum(self.column_bytes)


def look_at(data: bytes, *, max_rows: int, max_groups: int = 1) -> Shape:
    """Check the outer form of a Parquet file of 1 to ``max_groups`` row groups.

    Raises EvidenceError ``trace_malformed``.
    """
    if len(data) < 12 or data[:4] != MARK or data[-4:] != MARK:
        raise bad(f"{len(data)} bytes without the Parquet mark at both ends: cut short, or another format")
    size = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - size
    if start < 4:
        raise bad(f"a footer of {size} bytes in a file of {len(data)}")
    reader = _Reader(data, start, len(data) - 8)
    footer = reader.struct()
    if reader.place != reader.stop:
        raise bad(f"{reader.stop - reader.place} bytes behind the footer")
    if set(footer) & {8, 9}:
        raise bad("the file is encrypted")
    rows, groups = _integer(footer, 3, "num_rows"), _structs(footer, 4, "row groups")
    if not 1 <= rows <= max_rows:
        raise bad(f"{rows} rows declared, expected 1 to {max_rows}")
    if not 1 <= len(groups) <= max_groups or _rows_of(groups) != rows:
        expected = "one" if max_groups == 1 else f"1 to {max_groups}"
        raise bad(f"{len(groups)} row groups, expected {expected}, holding all {rows} rows declared")
    place, unpacked = 4, [0] * len(_structs(groups[0], 1, "columns"))
    for group in groups:
        chunks = _structs(group, 1, "columns")
        if len(chunks) != len(unpacked):
            raise bad(f"row groups of {len(unpacked)} and of {len(chunks)} columns")
        for number, chunk in enumerate(chunks):
            place, size = _check_chunk(data, chunk, number, place=place, stop=start)
            unpacked[number] += size
    if place != start:
        raise bad(f"{start - place} bytes between the last column and the footer")
    return Shape(rows, tuple(unpacked))


def _rows_of(groups: list[Struct]) -> int:
    return sum(_integer(group, 3, "rows of the row group") for group in groups)


def _check_chunk(data: bytes, chunk: Struct, number: int, *, place: int, stop: int) -> tuple[int, int]:
    """Return (offset behind the column, bytes it unpacks to); it must start at ``place`` and hold data pages only."""
    name = f"column {number}"
    if set(chunk) - {2, 3} or not isinstance(chunk.get(3), dict):
        raise bad(f"{name}: expected plain column metadata, found the members {sorted(chunk)}")
    meta: Struct = chunk[3]
    codec = meta.get(4)
    if codec not in (_PLAIN, _ZSTD) or set(meta) & {10, 11, 14, 15}:
        raise bad(f"{name}: expected zstd or plain pages without dictionary, index or filter")
    if _integer(meta, 9, f"{name}: page offset") != place:
        raise bad(f"{name}: starts at {meta[9]}, expected {place}")
    packed, unpacked = _integer(meta, 7, f"{name}: size"), _integer(meta, 6, f"{name}: unpacked size")
    end = place + packed
    if end > stop:
        raise bad(f"{name}: {packed} bytes from {place}, past the footer at {stop}")
    seen_unpacked = seen_values = 0
    while place < end:
        reader = _Reader(data, place, min(end, place + _MAX_PAGE_HEADER_BYTES))
        header = reader.struct()
        if header.get(1) != _DATA_PAGE or set(header) - {1, 2, 3, 4, 5} or not isinstance(header.get(5), dict):
            raise bad(f"{name}: expected data pages, found a page with the members {sorted(header)}")
        seen_unpacked += _integer(header, 2, f"{name}: unpacked page") + reader.place - place
        seen_values += _integer(header[5], 1, f"{name}: values of a page")
        packed_page = _integer(header, 3, f"{name}: page")
        if codec == _PLAIN and packed_page != header[2]:
            raise bad(f"{name}: a plain page of {packed_page} bytes that unpacks to {header[2]}")
        place = reader.place + packed_page
    if place != end or seen_unpacked != unpacked or seen_values != _integer(meta, 5, f"{name}: values"):
        raise bad(f"{name}: its pages do not add up to the sizes that the footer declares")
    return end, unpacked


def _integer(struct: Struct, member: int, name: str) -> int:
    value = struct.get(member)
    if type(value) is not int or value < 0:
        raise bad(f"{name}: expected an integer from 0, found {value!r}")
    return value


def _structs(struct: Struct, member: int, name: str) -> list[Struct]:
    value = struct.get(member)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise bad(f"{name}: expected a list of structures")
    return value


def bad(message: str) -> EvidenceError:
    """Return the error of a malformed trace, to be raised."""
    return EvidenceError(f"trace_malformed: {message}", code="trace_malformed")


class _Reader:
    """Reads Thrift's compact protocol between two offsets; nothing is allocated for what cannot be there."""

    def __init__(self, data: bytes, place: int, stop: int) -> None:
        self._data, self.place, self.stop = data, place, stop
        self._items = 0

    def struct(self, depth: int = 0) -> Struct:
        """Return member number -> value."""
        if depth > _MAX_DEPTH:
            raise bad("the footer is nested too deeply")
        data, stop, place = self._data, self.stop, self.place
        members: Struct = {}
        number = 0
        while place < stop:
            header = data[place]
            place += 1
            if not header:
                self.place = place
                return members
            kind, self.place = header & 15, place
            number = number + (header >> 4) if header >> 4 else self._signed()
            if number in members:
                raise bad(f"member {number} stands twice")
            place = self.place
            if kind in _INTEGERS and place < stop and (byte := data[place]) < 128:  # most are small integers
                place += 1
                members[number] = (byte >> 1) ^ -(byte & 1)
            elif kind == 12:
                members[number] = self.struct(depth + 1)
                place = self.place
            elif kind in (1, 2):
                members[number] = kind == 1
            else:
                members[number] = self._value(kind, depth)
                place = self.place
        raise bad("the footer or a page header ends too early")

    def _value(self, kind: int, depth: int) -> Any:
        self._count(1)
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (9, 10):
            return self._list(depth)
        if kind == 12:
            return self.struct(depth + 1)
        if kind in (1, 2, 3):
            return self._byte()
        if kind == 7:
            return self._bytes(8)
        raise bad(f"type {kind} does not occur in a footer")

    def _list(self, depth: int) -> list[Any]:
        if depth > _MAX_DEPTH:
            raise bad("the footer is nested too deeply")
        header = self._byte()
        count = header >> 4 if header >> 4 != 15 else self._unsigned()
        if count > self.stop - self.place:
            raise bad(f"a list of {count} items in {self.stop - self.place} bytes")
        kind = header & 15
        if kind == 12:
            self._count(count)
            return [self.struct(depth + 2) for _ in range(count)]
        here = self._data[self.place : self.place + count]
        if kind in _INTEGERS and here.isascii():  # each is one byte
            self._count(count)
            self.place += count
            return [(byte >> 1) ^ -(byte & 1) for byte in here]
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _count(self, more: int) -> None:
        self._items += more
        if self._items > _MAX_ITEMS:
            raise bad(f"more than {_MAX_ITEMS} items in the footer")

    def _byte(self) -> int:
        if self.place >= self.stop:
            raise bad("the footer or a page header ends too early")
        self.place += 1
        return self._data[self.place - 1]

    def _bytes(self, count: int) -> bytes:
        if count > self.stop - self.place:
            raise bad(f"a text of {count} bytes in {self.stop - self.place}")
        self.place += count
        return self._data[self.place - count : self.place]

    def _unsigned(self) -> int:
        value, data, stop = 0, self._data, self.stop
        if self.place < stop and data[self.place] < 128:
            self.place += 1
            return data[self.place - 1]
        for shift in range(0, 70, 7):
            if self.place >= stop:
                break
            byte = data[self.place]
            self.place += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        else:
            raise bad("an integer of more than ten bytes")
        raise bad("the footer or a page header ends too early")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
