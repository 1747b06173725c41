"""Bringing a column to the type that its attribute is bound to: parsing text, widening numbers, never changing a value.

A file that is loaded later may hold the same attribute in another type (int32 for int64, CSV text for a date). What can
be converted without loss is; what cannot raises `CellError` for the first value.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rtree_anon.io.cells import CellError, first_failing, shown_at
from rtree_anon.io.text_parsing import parse
from rtree_anon.io.types import decoded, is_text, type_text


def conform(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The column as an array of `data_type`, value for value."""
    if column.type == data_type:
        return column
    column = decoded(column)
    if column.type == data_type:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), data_type)
    if is_text(column.type):
        return parse(column, data_type)
    try:
        return _exact_cast(column, data_type)
    except pa.ArrowNotImplementedError:
        raise CellError(0, f"a {column.type} cannot be read as {_name(data_type)}") from None
    except pa.ArrowInvalid:
        index = first_failing(column, lambda part: _fails(part, data_type))
        raise CellError(index, f"{shown_at(column, index)} does not fit {_name(data_type)}") from None


def _exact_cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Arrow's safe cast, stricter where that one cuts off the time of day, forgets a zone or calls any number true."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())  # Arrow computes little on half floats
    own = column.type
    if pa.types.is_floating(own):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, own), column)
    if pa.types.is_timestamp(own) and pa.types.is_timestamp(data_type) and (own.tz is None) != (data_type.tz is None):
        raise pa.ArrowNotImplementedError("one has a time zone and the other has not")
    result = pc.cast(column, data_type)
    if pa.types.is_string(data_type):
        return result
    narrowing = pa.types.is_boolean(data_type) or pa.types.is_date(data_type) or pa.types.is_floating(own)
    if narrowing and not pc.all(pc.equal(pc.cast(result, own, safe=False), column), min_count=0).as_py():
        raise pa.ArrowInvalid("the value would change")
    return result


def _fails(column: pa.Array, data_type: pa.DataType) -> bool:
    try:
        _exact_cast(column, data_type)
    except pa.ArrowInvalid:
        return True
    return False


def _name(data_type: pa.DataType) -> str:
    return f"the column's type {type_text(data_type)}"
