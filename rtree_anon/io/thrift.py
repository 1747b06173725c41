"""Thrift's compact protocol, as far as the metadata of Parquet files needs it: structs to bytes and back.

A struct is a dictionary of its fields by number, a field is a pair of its type and its value; a list is a pair too, of
the type of its items and the items. So whatever a footer says can be read, changed in one place and written again
without knowing the rest of it. Where a struct is a value, it can also be given as the bytes that it becomes.
"""

from __future__ import annotations

from typing import Any, Final

from rtree_anon.errors import InputError

TRUE: Final = 1
FALSE: Final = 2
I8: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

Struct = dict[int, tuple[int, Any]]
_WHOLE_NUMBERS = (I16, I32, I64)
_SHORT_LIST = 15
_DOUBLE_BYTES = 8


def to_bytes(struct: Struct) -> bytes:
    """A struct in the compact protocol."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


def from_bytes(content: bytes, at: int = 0) -> tuple[Struct, int]:
    """The struct that begins at a byte, and the byte behind it."""
    reader = _Reader(content, at)
    try:
        return reader.struct(), reader.at
    except IndexError as error:
        raise InputError("the metadata of a Parquet file ends too early") from error


def _put_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for number in sorted(struct):
        kind, value = struct[number]
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        if 0 < number - last <= _SHORT_LIST:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _put_varint(out, _zigzag(number))
        last = number
        if kind in _WHOLE_NUMBERS:  # most fields: no further call for them
            _put_varint(out, value << 1 if value >= 0 else ~(value << 1))
        elif kind not in (TRUE, FALSE):
            _put_value(out, kind, value)
    out.append(0)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _WHOLE_NUMBERS:
        _put_varint(out, _zigzag(value))
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        if isinstance(value, bytes):
            out += value
        else:
            _put_struct(out, value)
    elif kind == LIST:
        item_kind, items = value
        if len(items) < _SHORT_LIST:
            out.append(len(items) << 4 | item_kind)
        else:
            out.append(_SHORT_LIST << 4 | item_kind)
            _put_varint(out, len(items))
        for item in items:
            _put_value(out, item_kind, item)
    elif kind in (TRUE, FALSE, I8):  # of a list, where a boolean is a byte
        out.append(value & 0xFF)
    else:
        out += value  # a double, as its bytes


def _put_varint(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else ~(number << 1)


class _Reader:
    def __init__(self, content: bytes, at: int) -> None:
        self._content, self.at = content, at

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._whole_number()
            found[number] = (kind, kind == TRUE) if kind in (TRUE, FALSE) else (kind, self._value(kind))
        return found

    def _value(self, kind: int) -> Any:
        if kind in _WHOLE_NUMBERS:
            return self._whole_number()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct()
        if kind == LIST:
            head = self._byte()
            n, item_kind = head >> 4, head & 15
            n = self._varint() if n == _SHORT_LIST else n
            return item_kind, [self._value(item_kind) for _ in range(n)]
        if kind == DOUBLE:
            return self._bytes(_DOUBLE_BYTES)
        if kind in (TRUE, FALSE, I8):
            return self._byte()
        raise InputError(f"the metadata of a Parquet file has a field of the unknown type {kind}")

    def _bytes(self, n: int) -> bytes:
        if self.at + n > len(self._content):
            raise IndexError
        self.at += n
        return self._content[self.at - n : self.at]

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _whole_number(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)
