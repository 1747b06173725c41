"""Carried columns (sensitive, keep, identity, key) as columns of whole numbers, and back to their types without loss.

    truth values, whole numbers and floats of up to 32 bits, days, times of day    one column: the number, or the bits
    everything of 64 bits: whole numbers, floats, points in time, durations        two: the high and the low 32 bits
    text, binary, decimals; columns without values                                 one: a number in a dictionary
    people who are text, binary or decimals                                        two: halves of a hash
    keys that are no whole numbers                                                 their bytes (key_column.py)

Whole-number keys are not among them: such a key is the row's id. Other keys come last, and the id is made from them. A
missing value is missing in all its columns.
Floats are stored bit by bit, so NaN payloads and -0.0 come back as they were.

Invariant: what a code means never changes. The types are fixed by the first load; a later file may hold a column in
another type as long as every value can be converted without loss. Dictionaries only grow, in reading order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError, SchemaError
from rtree_anon.io.cells import CellError, Origin, located, shown_at
from rtree_anon.io.column_codings import (
    Codes,
    DictionaryColumn,
    PersonColumn,
    Range,
    StoredColumn,
    coding_for,
    coding_of,
    make_column,
    stored_form,
)
from rtree_anon.io.conforming import conform
from rtree_anon.io.dictionaries import GrowingDictionary
from rtree_anon.io.key_column import KEY_MISSING, KeyColumn
from rtree_anon.io.stored_types import stored_type, stored_type_from_text, stored_type_text
from rtree_anon.io.values import null_mask, raw_values
from rtree_anon.schema import Schema
from rtree_anon.storage.budget import MemoryBudget

__all__ = ["ID_RANGE", "DictionaryColumn", "StoredColumns"]

ID_RANGE = (0, 2**62)


class StoredColumns:
    """All carried columns of an index, in the order of `Schema.payload_names`, but for a key that is the row's id."""

    def __init__(self, columns: Sequence[StoredColumn], key: tuple[str, pa.DataType] | None = None) -> None:
        self.columns = tuple(columns)
        self.key = key  # name and type of a key that is the row's id

    @classmethod
    def for_types(
        cls, schema: Schema, types: Mapping[str, pa.DataType], source: str, limit_bytes: int, longest_key: int = 0
    ) -> StoredColumns:
        """The columns of a first load. `limit_bytes` is for all dictionaries together."""
        columns: list[StoredColumn] = []
        budget = MemoryBudget(limit_bytes)
        key = None
        for name in schema.payload_names:
            data_type = stored_type(types[name], source, name)
            if name != schema.key:
                coding = coding_for(data_type, is_person=name == schema.identity)
                columns.append(make_column(name, data_type, coding, budget))
            elif pa.types.is_integer(data_type):
                key = name, data_type
            else:
                with located(Origin(source), name):
                    columns.append(KeyColumn.for_length(name, data_type, longest_key))
        return cls(columns, key)

    @classmethod
    def from_description(cls, description: Any, limit_bytes: int) -> StoredColumns:
        """The inverse of `description`; the dictionaries are empty until their parts are added."""
        budget = MemoryBudget(limit_bytes)
        columns: list[StoredColumn] = []
        key = None
        try:
            for name, text, coding in description:
                data_type = stored_type_from_text(text)
                if coding == "id" and isinstance(name, str) and pa.types.is_integer(data_type) and key is None:
                    key = name, data_type
                else:
                    columns.append(make_column(name, data_type, coding, budget))
            if any(isinstance(column, KeyColumn) for column in (columns[:-1] if key is None else columns)):
                raise ValueError("the key is not the last column, or not the only key")
        except (TypeError, ValueError, AttributeError, SchemaError):
            raise CorruptionError("The description of the carried columns is damaged.") from None
        return cls(columns, key)

    @property
    def key_column(self) -> KeyColumn | None:
        """The key, where it is stored beside the row's other values and the id is made from it; the last column."""
        last = self.columns[-1] if self.columns else None
        return last if isinstance(last, KeyColumn) else None

    @property
    def has_own_ids(self) -> bool:
        """Whether rows come with their ids: those of a key."""
        return self.key is not None or self.key_column is not None

    @property
    def key_type(self) -> tuple[str, pa.DataType] | None:
        """Name and type of the key, whichever kind it is."""
        column = self.key_column
        return self.key if column is None else (column.name, column.data_type)

    def with_key(self, key_column: KeyColumn) -> StoredColumns:
        """The same columns (and dictionaries) with more room for keys, or other ids for them."""
        assert self.key_column is not None
        return StoredColumns((*self.columns[:-1], key_column))

    def with_hashed_people(self, known: StoredColumns) -> StoredColumns:
        """The same columns, for rows that come from columns like `known`, which has people as hashes."""
        hashed = {c.name: replace(c, from_hashes=True) for c in known.columns if isinstance(c, PersonColumn)}
        return StoredColumns([hashed.get(column.name, column) for column in self.columns], self.key)

    @property
    def description(self) -> list[list[str]]:
        """Names, types and codings, as an index keeps them."""
        listed = [[column.name, stored_type_text(column.data_type), coding_of(column)] for column in self.columns]
        return listed + ([[self.key[0], stored_type_text(self.key[1]), "id"]] if self.key else [])

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

    def key_codes(self, carried: Codes) -> Codes:
        """The key's part of the codes [column, row] of all carried columns."""
        assert self.key_column is not None
        return carried[len(carried) - len(self.key_column.ranges) :]

    def key_names(self, carried: Codes) -> NDArray[Any]:
        """The keys, as Python's values, of the codes [column, row] of all carried columns, or of the key alone."""
        assert self.key_column is not None
        names: NDArray[Any] = self.key_column.decode(self.key_codes(carried).T).to_numpy(zero_copy_only=False)
        return names

    def ids(self, batch: pa.RecordBatch, origin: Origin, carried: Codes) -> NDArray[np.int64]:
        """The rows' ids by their key; `carried` are the codes [column, row] of all carried columns."""
        if self.key_column is not None:
            return self.key_column.ids(self.key_codes(carried))
        assert self.key is not None
        name, data_type = self.key
        with located(origin, name):
            return _checked_ids(conform(batch.column(name), data_type))

    def decode_ids(self, ids: NDArray[np.int64]) -> pa.Array:
        """Ids as the key's values."""
        assert self.key is not None
        return pa.array(ids).cast(self.key[1])


def _checked_ids(keys: pa.Array) -> NDArray[np.int64]:
    """A key that is an id must be there, and be neither negative nor too large."""
    numbers = raw_values(keys, np.dtype(str(keys.type)))
    mask = null_mask(keys)
    if mask is not None:
        raise CellError(int(np.argmax(mask)), KEY_MISSING)
    lo, hi = ID_RANGE
    wrong = (numbers < lo) | (numbers > hi)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise CellError(index, f"the key {shown_at(keys, index)} is not from 0 to 2**62; use text for such keys")
    return numbers.astype(np.int64)
