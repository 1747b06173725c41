"""Columns of any type as whole numbers: equal values get equal codes, different values different ones, exactly.

Codes come from subtraction (whole numbers in a narrow range) or from Arrow's dictionary encoding, which compares values
and does not trust hashes. Where values are missing, their code is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import InputError

_NARROW = 1 << 20  # a range of values as wide as this, or as the column is long, needs no dictionary

_TEXT_LIMIT = 1 << 31  # bytes of text that one array of 32-bit offsets can hold


@dataclass(frozen=True, eq=False)
class Coded:
    """One column as codes from 0 to n_codes - 1; not every code has to occur."""

    codes: NDArray[np.int64]
    n_codes: int


def code_column(column: pa.ChunkedArray, name: str) -> Coded:
    """Codes that are equal where the values are; in no particular order."""
    column = plain_column(column, name)
    if pa.types.is_integer(column.type) and column.type != pa.uint64() and column.null_count < len(column):
        bounds = pc.min_max(column).as_py()
        width = bounds["max"] - bounds["min"] + 1
        if width <= max(_NARROW, len(column)):
            present = column.fill_null(bounds["min"]) if column.null_count else column
            steps = np.subtract(present.to_numpy(), bounds["min"], dtype=np.int64)
            if not column.null_count:
                return Coded(steps, width)
            return Coded(np.where(column.is_null().to_numpy(), 0, steps + 1), width + 1)
    codes, values = _dictionary(column)
    return Coded(codes, len(values) + 1)


def code_in_order(column: pa.ChunkedArray, name: str) -> Coded:
    """Codes in the order of the values, every code used: missing first, numbers, dates and texts by value, NaN last.

    Texts that are all numbers are in the order of the numbers (a column of a text file, say).
    """
    column = plain_column(column, name)
    codes, values = _dictionary(column)
    if pa.types.is_floating(column.type):
        values = values.view(column.type)
    order = pc.sort_indices(pa.table(_sort_keys(values)), [(key, "ascending") for key in _sort_keys(values)]).to_numpy()
    rank = np.empty(len(values) + 1, dtype=np.int64)
    rank[0] = 0
    rank[order + 1] = np.arange(1, len(values) + 1)
    if column.null_count == 0:
        return Coded(rank[codes] - 1, len(values))
    return Coded(rank[codes], len(values) + 1)


def take_rows(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.ChunkedArray:
    """The values of a column at some rows, in the column's own type (texts may get a plainer one)."""
    return _without_views(column).take(pa.array(rows))


def plain_column(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The column in a type that subtraction and dictionaries understand, its values unchanged."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], type=column.type.storage_type)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain_column(column.cast(kind.value_type), name)
    if pa.types.is_nested(kind):
        raise InputError(f"has the type {kind}; give it as a text, a number or a date", column=name)
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32())
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return column.cast(pa.int64())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:  # Arrow cannot number the values of the narrow ones
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return _without_views(column)


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as offsets into one buffer: Arrow can neither number nor take texts of the newer view type (polars)."""
    if column.type == pa.string_view():
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if column.type == pa.binary_view() else column


def _dictionary(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Per row 0 (missing) or 1 + the number of its value; the values in the order of their first appearance.

    The values of floats are their bits, as whole numbers.
    """
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int64), pa.array([], pa.null())
    if pa.types.is_floating(column.type):
        column = _float_bits(column)
    if column.nbytes >= _TEXT_LIMIT and column.type in (pa.string(), pa.binary()):
        column = column.cast(pa.large_string() if column.type == pa.string() else pa.large_binary())
    # One array, then one dictionary: to unify those of 36 chunks with many texts took 7 to 10 times as long.
    encoded = column.combine_chunks().dictionary_encode()
    indices = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy()
    return indices + 1, encoded.dictionary


def _float_bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as their bits, with one zero and one NaN."""
    as_float, as_bits = (np.float32, np.int32) if column.type == pa.float32() else (np.float64, np.int64)
    present = column.fill_null(0.0).to_numpy()
    canonical = np.where(np.isnan(present), np.array(np.nan, as_float), present + as_float(0.0))  # -0.0 + 0.0 is 0.0
    return pa.chunked_array([pa.array(canonical.view(as_bits), mask=column.is_null().to_numpy())])


def _sort_keys(values: pa.Array) -> dict[str, Any]:
    """What to sort values by, most important first."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        try:
            return {"number": pc.cast(values, pa.float64()), "text": values}
        except pa.ArrowInvalid:
            return {"text": values}
    return {"value": values}
