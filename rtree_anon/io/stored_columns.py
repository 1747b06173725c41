"""Carried columns (sensitive, keep, identity, key) as columns of whole numbers, and back to their types without loss.

    truth values, whole numbers and floats of up to 32 bits, days, times of day    one column: the number, or the bits
    everything of 64 bits: whole numbers, floats, points in time, durations        two: the high and the low 32 bits
    text, binary, decimals; keys that are no whole numbers; columns without values one: a number in a dictionary

Whole-number keys are not among them: such a key is the row's id. A missing value is missing in all its columns.
Floats are stored bit by bit, so NaN payloads and -0.0 come back as they were.

Invariant: what a code means never changes. The types are fixed by the first load; a later file may hold a column in
another type as long as every value can be converted without loss. Dictionaries only grow, in reading order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError, SchemaError
from rtree_anon.io.cells import CellError, Origin, located, shown_at
from rtree_anon.io.conforming import conform
from rtree_anon.io.dictionaries import MAX_VALUES, MISSING_NUMBER, GrowingDictionary
from rtree_anon.io.types import checked_plain_type, decoded, plain_type, type_from_text, type_text
from rtree_anon.io.values import null_mask, raw_values
from rtree_anon.schema import Schema
from rtree_anon.space import missing_code
from rtree_anon.storage.budget import MemoryBudget

ID_RANGE = (0, 2**62)
_KEY_MISSING = "the key is missing; every row needs one"

_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,  # of no bytes at all
)

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

    def encode(self, column: pa.Array, dtype: Any) -> list[Codes]:
        bits, mask = raw_values(column, np.int64), null_mask(column)
        low = (bits & np.int64(0xFFFFFFFF)) if np.dtype(dtype) == np.int64 else bits.view(np.uint64).astype(np.uint32)
        return [_with_missing(bits >> 32, mask, dtype), _with_missing(low, mask, dtype)]

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
    is_key: bool = False  # every row must have a value

    @property
    def data_type(self) -> pa.DataType:
        return self.dictionary.data_type

    @property
    def ranges(self) -> tuple[Range, ...]:
        return ((0, MAX_VALUES),)

    def encode(self, column: pa.Array, dtype: Any) -> list[Codes]:
        return [coded_numbers(self.number(column), dtype)]

    def number(self, column: pa.Array) -> NDArray[np.int32]:
        """The values' numbers. New values are added: call it in reading order, from one thread at a time."""
        numbers = self.dictionary.number(column)
        if self.is_key and len(numbers) and int(numbers.min()) == MISSING_NUMBER:
            raise CellError(int(np.argmin(numbers)), _KEY_MISSING)
        return numbers

    def decode(self, codes: Codes) -> pa.Array:
        mask = codes[:, 0] == missing_code(codes.dtype)
        return self.dictionary.take(_within(codes[:, 0], mask, 0, len(self.dictionary) - 1, self.name), mask)


def coded_numbers(numbers: NDArray[np.int32], dtype: Any) -> Codes:
    """Numbers of a dictionary as codes."""
    return _with_missing(numbers, numbers == MISSING_NUMBER, dtype)


class StoredColumns:
    """All carried columns of an index, in the order of `Schema.payload_names`, but for a key that is the row's id."""

    def __init__(self, columns: Sequence[StoredColumn], key: tuple[str, pa.DataType] | None = None) -> None:
        self.columns = tuple(columns)
        self.key = key  # name and type of a key that is the row's id

    @classmethod
    def for_types(
        cls, schema: Schema, types: Mapping[str, pa.DataType], source: str, limit_bytes: int
    ) -> StoredColumns:
        """The columns of a first load. `limit_bytes` is for all dictionaries together."""
        columns: list[StoredColumn] = []
        budget = MemoryBudget(limit_bytes)
        key = None
        for name in schema.payload_names:
            data_type = stored_type(types[name], source, name)
            if name == schema.key and pa.types.is_integer(data_type):
                key = name, data_type
                continue
            columns.append(_column(name, data_type, _coding(data_type, is_key=name == schema.key), budget))
        return cls(columns, key)

    @classmethod
    def from_description(cls, description: Any, limit_bytes: int) -> StoredColumns:
        """The inverse of `description`; the dictionaries are empty until their parts are added."""
        budget = MemoryBudget(limit_bytes)
        columns: list[StoredColumn] = []
        key = None
        try:
            for name, text, coding in description:
                data_type = _type_from_text(text)
                if coding == "id" and isinstance(name, str) and pa.types.is_integer(data_type) and key is None:
                    key = name, data_type
                else:
                    columns.append(_column(name, data_type, coding, budget))
        except (TypeError, ValueError, SchemaError):
            raise CorruptionError("The description of the carried columns is damaged.") from None
        return cls(columns, key)

    @property
    def description(self) -> list[list[str]]:
        """Names, types and codings, as an index keeps them."""
        listed = [[column.name, _type_text(column.data_type), _coding_of(column)] for column in self.columns]
        return listed + ([[self.key[0], _type_text(self.key[1]), "id"]] if self.key else [])

    @property
    def ranges(self) -> list[Range]:
        """The ranges of all columns of codes, ids not among them."""
        return [limits for column in self.columns for limits in column.ranges]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Columns and the types that they are stored in; the key is among them even where it is the id."""
        types = {column.name: column.data_type for column in self.columns}
        return types | ({self.key[0]: self.key[1]} if self.key else {})

    @property
    def dictionaries(self) -> dict[str, GrowingDictionary]:
        """The dictionaries by column."""
        return {column.name: column.dictionary for column in self.columns if isinstance(column, DictionaryColumn)}

    def sizes(self) -> dict[str, int]:
        """How many values each dictionary has."""
        return {name: len(dictionary) for name, dictionary in self.dictionaries.items()}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Forget what dictionaries have grown by since `sizes` was taken."""
        for name, dictionary in self.dictionaries.items():
            dictionary.cut_back(sizes[name])

    def encode(self, batch: pa.RecordBatch, origin: Origin, dtype: Any = np.int64) -> list[Codes]:
        """All columns of codes of a batch, ids not among them. New values enter the dictionaries."""
        codes: list[Codes] = []
        for column in self.columns:
            with located(origin, column.name):
                codes += column.encode(stored_form(batch.column(column.name), column), dtype)
        return codes

    def decode(self, codes: Codes) -> dict[str, pa.Array]:
        """Columns by name, from codes (n, columns of codes)."""
        columns, at = {}, 0
        for column in self.columns:
            width = len(column.ranges)
            columns[column.name] = column.decode(codes[:, at : at + width])
            at += width
        return columns

    def ids(self, batch: pa.RecordBatch, origin: Origin) -> NDArray[np.int64]:
        """The key's values as ids."""
        assert self.key is not None
        name, data_type = self.key
        with located(origin, name):
            return _checked_ids(conform(batch.column(name), data_type))

    def decode_ids(self, ids: NDArray[np.int64]) -> pa.Array:
        """Ids as the key's values."""
        assert self.key is not None
        return pa.array(ids).cast(self.key[1])


def stored_form(column: pa.Array, stored: StoredColumn) -> pa.Array:
    """A column in the type that it is stored in. A dictionary that fits is kept: its values are looked at once."""
    data_type, own = stored.data_type, _value_type(column.type)
    if isinstance(stored, DictionaryColumn):
        if pa.types.is_null(data_type) or pa.types.is_null(column.type) or own == data_type:
            return column
        if pa.types.is_binary(data_type) and pa.types.is_string(own):
            return decoded(column).cast(data_type)
    return conform(column, data_type)


def stored_type(data_type: pa.DataType, source: str, column: str) -> pa.DataType:
    """The type that a column is stored in: the layout is not kept. Refuses nested types."""
    value_type = _value_type(data_type)
    return value_type if value_type is not None else checked_plain_type(data_type, source, column)


def _value_type(data_type: pa.DataType) -> pa.DataType | None:
    """The type without its layout; None where it is not supported."""
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return _value_type(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return _value_type(data_type.storage_type)
    if pa.types.is_fixed_size_binary(data_type) and data_type.byte_width:
        return data_type
    if any(is_binary(data_type) for is_binary in _BINARY):
        return pa.binary()
    try:
        return plain_type(data_type)
    except TypeError:
        return None


def _coding_of(column: StoredColumn) -> str:
    if isinstance(column, DictionaryColumn):
        return "key" if column.is_key else "dictionary"
    return "whole" if isinstance(column, WholeColumn) else "halves"


def _coding(data_type: pa.DataType, *, is_key: bool) -> str:
    if is_key:
        return "key"
    if pa.types.is_null(data_type) or pa.types.is_decimal(data_type):
        return "dictionary"
    if pa.types.is_fixed_size_binary(data_type) or pa.types.is_binary(data_type) or pa.types.is_string(data_type):
        return "dictionary"
    return "whole" if data_type.bit_width <= 32 else "halves"


def _column(name: Any, data_type: pa.DataType, coding: str, budget: MemoryBudget) -> StoredColumn:
    if not isinstance(name, str):
        raise ValueError("a column's name must be text")
    if coding in ("dictionary", "key"):
        return DictionaryColumn(name, GrowingDictionary(name, data_type, budget), coding == "key")
    if coding != _coding(data_type, is_key=False):
        raise ValueError("the coding does not fit the type")
    return WholeColumn(name, data_type) if coding == "whole" else HalvesColumn(name, data_type)


def _type_text(data_type: pa.DataType) -> str:
    if pa.types.is_fixed_size_binary(data_type):
        return f"binary[{data_type.byte_width}]"
    return "binary" if pa.types.is_binary(data_type) else type_text(data_type)


def _type_from_text(text: str) -> pa.DataType:
    if text == "binary":
        return pa.binary()
    if text.startswith("binary["):
        return pa.binary(int(text[7:-1]))
    return type_from_text(text)


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


def _from_bits(bits: Codes, mask: NDArray[np.bool_], data_type: pa.DataType) -> pa.Array:
    validity = pa.array(~mask).buffers()[1] if mask.any() else None
    return pa.Array.from_buffers(data_type, len(bits), [validity, pa.py_buffer(np.ascontiguousarray(bits))])


def _checked_ids(keys: pa.Array) -> NDArray[np.int64]:
    """A key that is an id must be there, and be neither negative nor too large."""
    numbers = raw_values(keys, np.dtype(str(keys.type)))
    mask = null_mask(keys)
    if mask is not None:
        raise CellError(int(np.argmax(mask)), _KEY_MISSING)
    lo, hi = ID_RANGE
    wrong = (numbers < lo) | (numbers > hi)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise CellError(index, f"the key {shown_at(keys, index)} is not from 0 to 2**62; use text for such keys")
    return numbers.astype(np.int64)
