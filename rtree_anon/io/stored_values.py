"""The values of a stored column, as keys by which they can be compared without being decoded.

A privacy model asks whether two rows have the same value. Codes of carried columns (stored_columns.py) answer that, but
for floats: 0.0 and -0.0 are one value, and so is NaN however it is stored. A missing value is a value of its own.

Invariant: two rows have equal keys, and are both missing or both not, if and only if the checker finds their values
equal; people whose text is hashed are the exception: two of them may share a key, so that they count as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.io.column_codings import StoredColumn
from rtree_anon.io.ranking import ranked_values
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.space import missing_code

_MISSING = missing_code(np.int64)
_LOW_HALF = 0xFFFFFFFF

Keys = NDArray[np.int64]
CarriedCodes = Callable[[int], Keys]
"""Gives the codes of one of the carried columns of codes, by its number, for all rows; missing: the smallest int64."""


@dataclass(frozen=True, eq=False)
class Values:
    """The keys of rows. Those of missing values mean nothing."""

    keys: Keys
    is_missing: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.keys)

    def only(self, rows: NDArray[np.int64]) -> Values:
        """Those of some rows."""
        return Values(self.keys[rows], self.is_missing[rows])


@dataclass(frozen=True, eq=False)
class ValueColumn:
    """A stored column that is looked at by value."""

    column: StoredColumn
    first: int  # the number of its first column of codes

    @classmethod
    def named(cls, stored: StoredColumns, name: str) -> ValueColumn:
        """The column of this name, which must be there."""
        first = 0
        for column in stored.columns:
            if column.name == name:
                return cls(column, first)
            first += len(column.ranges)
        raise KeyError(name)

    def values(self, carried: CarriedCodes) -> Values:
        """The values of rows."""
        keys = carried(self.first)
        is_missing = keys == _MISSING
        if len(self.column.ranges) == 2:
            keys = (keys << 32) | (carried(self.first + 1) & _LOW_HALF)
        if is_missing.any():
            keys = np.where(is_missing, 0, keys)
        if pa.types.is_floating(self.column.data_type):
            keys = _one_zero_one_nan(keys, self.column.data_type.bit_width)
        return Values(keys, is_missing)

    def decoded(self, keys: Keys) -> pa.Array:
        """The values that keys stand for."""
        if len(self.column.ranges) == 2:
            return self.column.decode(np.stack((keys >> 32, keys & _LOW_HALF), axis=1))
        return self.column.decode(keys[:, None])

    def decoded_column(self, carried: CarriedCodes) -> pa.ChunkedArray:
        """The values of rows, as they came."""
        places = range(self.first, self.first + len(self.column.ranges))
        return pa.chunked_array([self.column.decode(np.stack([carried(place) for place in places], axis=1))])

    def with_missing(self, keys: Keys, has_missing: bool) -> pa.ChunkedArray:
        """The values that keys stand for, and behind them a missing one where asked for."""
        values = self.decoded(keys)
        return pa.chunked_array([values, pa.nulls(1, values.type)] if has_missing else [values], values.type)

    def ranks(self, keys: Keys, has_missing: bool) -> NDArray[np.int32]:
        """The ranks of different values in their order; the last is that of a missing one where there is one."""
        return ranked_values(self.with_missing(keys, has_missing))[0]


def _one_zero_one_nan(bits: Keys, width: int) -> Keys:
    kinds: dict[int, tuple[Any, Any]] = {16: (np.uint16, np.float16), 32: (np.int32, np.float32)}
    as_bits, as_float = kinds.get(width, (np.int64, np.float64))
    floats = bits.astype(as_bits).view(as_float)
    canonical = np.where(np.isnan(floats), as_float(np.nan), floats + as_float(0.0)).astype(as_float)
    keys: Keys = canonical.view(as_bits).astype(np.int64)
    return keys
