"""One carried column as columns of whole numbers: as it is, in two halves, by a dictionary, or by hashes (see
stored_columns.py).

Invariant: `decode` of `encode` is the column, bit by bit (of hashes: the hashes), and a code that no value can have is
a CorruptionError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.io.conforming import conform
from rtree_anon.io.dictionaries import MAX_VALUES, MISSING_NUMBER, GrowingDictionary, as_bytes
from rtree_anon.io.key_column import KeyColumn
from rtree_anon.io.stored_types import value_type
from rtree_anon.io.types import decoded
from rtree_anon.io.values import null_mask, raw_values
from rtree_anon.space import missing_code
from rtree_anon.storage.budget import MemoryBudget

_LOW_HALF = 0xFFFFFFFF
_PERSON_KEY = np.uint64(0x5851F42D4C957F2D)  # the same always: the next load must find the same people

Codes = NDArray[Any]
Range = tuple[int, int]


class StoredColumn(Protocol):
    """One carried column."""

    @property
    def name(self) -> str: ...

    @property
    def data_type(self) -> pa.DataType: ...

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The smallest and the largest code of each of its columns of codes."""
        ...

    def ranges_of(self, n_rows: int, ends: tuple[int | None, int | None] | None) -> tuple[Range, ...]:
        """The ranges for `n_rows` further rows, of which the smallest and the largest number are perhaps known."""
        ...

    def encode(self, column: pa.Array, dtype: Any) -> list[Codes]:
        """Its columns of codes; `column` is of the stored type already."""
        ...

    def decode(self, codes: Codes) -> pa.Array:
        """The values of codes (n, columns)."""
        ...


@dataclass(frozen=True, eq=False)
class WholeColumn:
    """Values of up to 32 bits: one column."""

    name: str
    data_type: pa.DataType

    @property
    def ranges(self) -> tuple[Range, ...]:
        if pa.types.is_boolean(self.data_type):
            return ((0, 1),)
        limits = np.iinfo(_stored_dtype(self.data_type))
        return ((int(limits.min), int(limits.max)),)

    def ranges_of(self, n_rows: int, ends: tuple[int | None, int | None] | None) -> tuple[Range, ...]:
        return self.ranges if ends is None else (_between(*ends),)

    def encode(self, column: pa.Array, dtype: Any) -> list[Codes]:
        if pa.types.is_boolean(self.data_type):
            codes = raw_values(column.cast(pa.uint8()), np.uint8)
        else:
            codes = raw_values(column, _stored_dtype(self.data_type))
        return [_with_missing(codes, null_mask(column), dtype)]

    def decode(self, codes: Codes) -> pa.Array:
        mask = codes[:, 0] == missing_code(codes.dtype)
        numbers = _within(codes[:, 0], mask, *self.ranges[0], self.name)
        if pa.types.is_boolean(self.data_type):
            return pa.array(numbers != 0, mask=mask)
        return _from_bits(numbers.astype(_stored_dtype(self.data_type)), mask, self.data_type)


@dataclass(frozen=True, eq=False)
class HalvesColumn:
    """Values of 64 bits: the high and the low half."""

    name: str
    data_type: pa.DataType

    @property
    def ranges(self) -> tuple[Range, ...]:
        return (-(2**31), 2**31 - 1), (0, 2**32 - 1)

    def ranges_of(self, n_rows: int, ends: tuple[int | None, int | None] | None) -> tuple[Range, ...]:
        if ends is None or pa.types.is_uint64(self.data_type):
            return self.ranges
        lo, hi = _between(*ends)
        if lo > hi:
            return (lo, hi), (lo, hi)
        low = (lo & _LOW_HALF, hi & _LOW_HALF) if lo >> 32 == hi >> 32 else self.ranges[1]
        return (lo >> 32, hi >> 32), low

    def encode(self, column: pa.Array, dtype: Any) -> list[Codes]:
        bits, mask = raw_values(column, np.int64), null_mask(column)
        return [_with_missing(bits >> 32, mask, dtype), _with_missing(bits & _LOW_HALF, mask, dtype)]

    def decode(self, codes: Codes) -> pa.Array:
        missing = missing_code(codes.dtype)
        mask = codes[:, 0] == missing
        if not np.array_equal(mask, codes[:, 1] == missing):
            raise _damaged(self.name)
        high, low = (_within(codes[:, c], mask, *self.ranges[c], self.name).astype(np.int64) for c in (0, 1))
        return _from_bits((high << 32) | low, mask, self.data_type)


@dataclass(frozen=True, eq=False)
class DictionaryColumn:
    """Everything else: numbers in a dictionary."""

    name: str
    dictionary: GrowingDictionary

    @property
    def data_type(self) -> pa.DataType:
        return self.dictionary.data_type

    @property
    def ranges(self) -> tuple[Range, ...]:
        return ((0, MAX_VALUES),)

    def ranges_of(self, n_rows: int, ends: tuple[int | None, int | None] | None) -> tuple[Range, ...]:
        return ((0, min(len(self.dictionary) + n_rows, MAX_VALUES + 1) - 1),)

    def encode(self, column: pa.Array, dtype: Any) -> list[Codes]:
        return [coded_numbers(self.number(column), dtype)]

    def number(self, column: pa.Array) -> NDArray[np.int32]:
        """The values' numbers. New values are added: call it in reading order, from one thread at a time."""
        return self.dictionary.number(column)

    def decode(self, codes: Codes) -> pa.Array:
        mask = codes[:, 0] == missing_code(codes.dtype)
        return self.dictionary.take(_within(codes[:, 0], mask, 0, len(self.dictionary) - 1, self.name), mask)


@dataclass(frozen=True, eq=False)
class PersonColumn:
    """People who are named by texts or the like: a hash of 64 bits in two halves, whose value is that number.

    Nobody ever asks an index for the name, only whether two rows are one person's; a dictionary of a hundred million
    people would not fit into memory. Two people with one hash count as one, which is on the safe side for every model.
    """

    name: str
    data_type: pa.DataType
    from_hashes: bool = False  # whether it is given hashes that `decode` gave, and not names

    @property
    def ranges(self) -> tuple[Range, ...]:
        return (-(2**31), 2**31 - 1), (0, _LOW_HALF)

    def ranges_of(self, n_rows: int, ends: tuple[int | None, int | None] | None) -> tuple[Range, ...]:
        return self.ranges

    def encode(self, column: pa.Array, dtype: Any) -> list[Codes]:
        from rtree_anon.kernels.interning import hash_values

        if self.from_hashes:
            return HalvesColumn(self.name, pa.int64()).encode(column, dtype)
        hashes = np.zeros(len(column), np.uint64)
        if not pa.types.is_null(column.type):
            hash_values(*as_bytes(column), _PERSON_KEY, hashes)  # type: ignore[no-untyped-call]
        bits, mask = hashes.view(np.int64), null_mask(column)
        return [_with_missing(bits >> 32, mask, dtype), _with_missing(bits & _LOW_HALF, mask, dtype)]

    def decode(self, codes: Codes) -> pa.Array:
        return HalvesColumn(self.name, pa.int64()).decode(codes)


def coded_numbers(numbers: NDArray[np.int32], dtype: Any) -> Codes:
    """Numbers of a dictionary as codes."""
    return _with_missing(numbers, numbers == MISSING_NUMBER, dtype)


def stored_form(column: pa.Array, stored: StoredColumn) -> pa.Array:
    """A column in the type that it is stored in. A dictionary that fits is kept: its values are looked at once."""
    data_type, own = stored.data_type, value_type(column.type)
    if isinstance(stored, DictionaryColumn):
        if pa.types.is_null(data_type) or pa.types.is_null(column.type) or own == data_type:
            return column
        if pa.types.is_binary(data_type) and pa.types.is_string(own):
            return decoded(column).cast(data_type)
    if isinstance(stored, PersonColumn) and (own == data_type or stored.from_hashes):
        return decoded(column)  # in whatever layout: only the bytes of the values are looked at
    return conform(column, data_type)


def coding_of(column: StoredColumn) -> str:
    if isinstance(column, KeyColumn):
        return column.coding
    if isinstance(column, DictionaryColumn):
        return "dictionary"
    if isinstance(column, PersonColumn):
        return "person"
    return "whole" if isinstance(column, WholeColumn) else "halves"


def coding_for(data_type: pa.DataType, *, is_person: bool = False) -> str:
    if is_person and not pa.types.is_null(data_type) and coding_for(data_type) == "dictionary":
        return "person"
    if pa.types.is_null(data_type) or pa.types.is_decimal(data_type):
        return "dictionary"
    if pa.types.is_fixed_size_binary(data_type) or pa.types.is_binary(data_type) or pa.types.is_string(data_type):
        return "dictionary"
    return "whole" if data_type.bit_width <= 32 else "halves"


def make_column(name: Any, data_type: pa.DataType, coding: str, budget: MemoryBudget) -> StoredColumn:
    if not isinstance(name, str):
        raise ValueError("a column's name must be text")
    if coding.startswith("key:"):
        return KeyColumn.from_coding(name, data_type, coding)
    if coding == "dictionary":
        return DictionaryColumn(name, GrowingDictionary(name, data_type, budget))
    if coding == coding_for(data_type, is_person=True) == "person":
        return PersonColumn(name, data_type)
    if coding != coding_for(data_type):
        raise ValueError("the coding does not fit the type")
    return WholeColumn(name, data_type) if coding == "whole" else HalvesColumn(name, data_type)


def _stored_dtype(data_type: pa.DataType) -> Any:
    """The whole numbers that a type of up to 32 bits is stored as: its own, or its bits."""
    if pa.types.is_integer(data_type):
        return np.dtype(str(data_type))
    return np.dtype(np.uint16 if pa.types.is_float16(data_type) else np.int32)


def _with_missing(numbers: Codes, mask: NDArray[np.bool_] | None, dtype: Any) -> Codes:
    codes = numbers.astype(dtype)
    if mask is not None:
        codes[mask] = missing_code(dtype)
    return codes


def _within(codes: Codes, mask: NDArray[np.bool_], lo: int, hi: int, name: str) -> Codes:
    """The codes, 0 where missing; a code outside its range can only come from a damaged index."""
    if np.any(((codes < lo) | (codes > hi)) & ~mask):
        raise _damaged(name)
    return np.where(mask, 0, codes)


def _damaged(name: str) -> CorruptionError:
    return CorruptionError(f"The index holds a value of column {name!r} that cannot be; it is damaged.")


def _between(lo: int | None, hi: int | None) -> Range:
    """A range of codes; an empty one where there are none."""
    return (0, -1) if lo is None or hi is None else (lo, hi)


def _from_bits(bits: Codes, mask: NDArray[np.bool_], data_type: pa.DataType) -> pa.Array:
    validity = pa.array(~mask).buffers()[1] if mask.any() else None
    return pa.Array.from_buffers(data_type, len(bits), [validity, pa.py_buffer(np.ascontiguousarray(bits))])
