"""Columns that privacy models look at, as codes: the rank of a row's value among the distinct values of the column.

Missing comes first and is a value of its own; numbers, dates and texts are in their order, texts that are all numbers
in that of the numbers; NaN, one value however it is stored, comes last. Codes are dense: every code occurs.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def ranked_values(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], int]:
    """The rank of every row's value, and how many distinct values there are."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int32), 1
    array = _comparable(column).combine_chunks()
    encoded = array.dictionary_encode()
    values = encoded.dictionary
    place = _sorted_places(values)
    has_missing = int(encoded.null_count > 0)
    rank = np.zeros(len(values) + 1, np.int32)  # the last entry stands for missing values
    rank[place] = np.arange(has_missing, len(values) + has_missing, dtype=np.int32)
    indices = encoded.indices.fill_null(len(values)).to_numpy()
    return rank[indices], len(values) + has_missing


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that Arrow can number and sort, with one zero and one NaN where there are floats."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32())
    if pa.types.is_temporal(kind):
        return column.cast(pa.int64())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_floating(kind):
        numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
        numbers = np.where(np.isnan(numbers), np.nan, numbers)
        return pa.chunked_array([pa.array(numbers, mask=column.is_null().to_numpy(), from_pandas=False)])
    return column


def _sorted_places(values: pa.Array) -> NDArray[np.int64]:
    """The places of values in ascending order; of texts that are all numbers, in that of the numbers."""
    keys = {"value": values}
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        with suppress(pa.ArrowInvalid):
            keys = {"number": pc.cast(values, pa.float64()), **keys}
    places: NDArray[np.int64] = pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys]).to_numpy()
    return places
