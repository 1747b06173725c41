"""Text as values of a type: numbers, dates, times, truth values. Strict: what does not fit raises for its first row.

Each distinct text of a batch is converted once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.io.cells import CellError, first_failing, shown
from rtree_anon.io.text_shapes import FALSE_WORDS, TRUE_WORDS, DistinctTexts, Shape, any_has, shapes_of

_MANY_FAILURES = 16  # texts that Arrow refuses though their shape is right; looking for more is not worth it


def parse(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Texts as values of a type; raises `CellError` for the first text that is not one."""
    if pa.types.is_string(data_type):
        return texts.cast(pa.string())
    distinct = DistinctTexts(texts.cast(pa.string()))
    values = distinct.values
    if _is_plainly_cast(values, data_type):
        try:  # most often every text is a plain value, which Arrow finds out much faster than any pattern
            return distinct.rows_of(_cast_texts(values, data_type))
        except pa.ArrowInvalid:
            pass
    shapes = shapes_of(values)
    fits = np.isin(shapes, _accepted_shapes(data_type))
    parsed, failed = _converted(pc.if_else(pa.array(fits), values, pa.scalar(None, pa.string())), data_type)
    wrong = (~fits & (shapes != Shape.MISSING)) | failed
    if wrong.any():
        index, text = distinct.first_row(wrong)
        if shapes_of(pa.array([text.strip()]))[0] == Shape.INFINITE:
            raise CellError(index, f"{shown(text)} is infinite; give a finite number or leave it empty")
        raise CellError(index, f"{shown(text)} is not {_called(data_type)}")
    return distinct.rows_of(parsed)


def _is_plainly_cast(values: pa.Array, data_type: pa.DataType) -> bool:
    """Whether Arrow's own conversion accepts no text that we do not."""
    if pa.types.is_integer(data_type):  # it would read 0x10 as a number
        return not any_has(values, "x") and not any_has(values, "X")
    return bool(pa.types.is_floating(data_type) or pa.types.is_date(data_type))


def _accepted_shapes(data_type: pa.DataType) -> list[int]:
    if pa.types.is_boolean(data_type):
        return [Shape.TRUTH, Shape.WHOLE]
    if pa.types.is_date(data_type):
        return [Shape.DATE]
    if pa.types.is_timestamp(data_type):
        return [Shape.MOMENT_WITH_ZONE] if data_type.tz else [Shape.DATE, Shape.MOMENT]
    if pa.types.is_time(data_type):
        return [Shape.CLOCK]
    if pa.types.is_integer(data_type) or pa.types.is_duration(data_type):
        return [Shape.WHOLE, Shape.PADDED]
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        return [Shape.WHOLE, Shape.FRACTION, Shape.PADDED]
    return []


def _converted(values: pa.Array, data_type: pa.DataType) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The converted values, and which of them Arrow refused (a number too large for the type, a time too fine)."""
    failed = np.zeros(len(values), bool)
    values = pc.utf8_ltrim(values, characters="+")
    while True:
        try:
            return _cast_texts(values, data_type), failed
        except pa.ArrowInvalid:
            failed[first_failing(values, lambda part: _is_refused(part, data_type))] = True
            values = pc.if_else(pa.array(failed), pa.scalar(None, values.type), values)
            if failed.sum() >= _MANY_FAILURES:
                return pa.nulls(len(values), data_type), failed


def _is_refused(values: pa.Array, data_type: pa.DataType) -> bool:
    try:
        _cast_texts(values, data_type)
    except pa.ArrowInvalid:
        return True
    return False


def _cast_texts(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_null(data_type):
        return pa.nulls(len(values))
    if pa.types.is_boolean(data_type):
        return _truth_values(values)
    if pa.types.is_floating(data_type):
        numbers = values.cast(pa.float64()).cast(data_type, safe=False)
        if not pc.all(pc.is_finite(numbers.cast(pa.float64())), min_count=0).as_py():
            raise pa.ArrowInvalid("too large")
        return numbers
    if pa.types.is_time(data_type):  # Arrow reads times of day only as part of a timestamp
        moments = pc.binary_join_element_wise(pa.scalar("1970-01-01T"), values, "")
        return moments.cast(pa.timestamp(data_type.unit)).cast(data_type)
    if pa.types.is_duration(data_type):
        return values.cast(pa.int64()).cast(data_type)
    return values.cast(data_type)


def _truth_values(values: pa.Array) -> pa.Array:
    is_true = pc.is_in(values, value_set=pa.array([*TRUE_WORDS, "1"]))
    is_false = pc.is_in(values, value_set=pa.array([*FALSE_WORDS, "0"]))
    if not pc.all(pc.or_(pc.or_(is_true, is_false), values.is_null()), min_count=0).as_py():
        raise pa.ArrowInvalid("a whole number other than 0 and 1")
    return pc.if_else(values.is_valid(), is_true, pa.scalar(None, pa.bool_()))


def _called(data_type: pa.DataType) -> str:
    """What an error says that a text should have been."""
    if pa.types.is_integer(data_type):
        return f"a whole number ({data_type})"
    if pa.types.is_floating(data_type):
        return "a number"
    if pa.types.is_decimal(data_type):
        return f"a number that fits {data_type}"
    if pa.types.is_boolean(data_type):
        return "true or false"
    if pa.types.is_date(data_type):
        return "a date such as 2024-05-31"
    if pa.types.is_timestamp(data_type):
        return "a time such as 2024-05-31T12:00:00Z" if data_type.tz else "a time such as 2024-05-31T12:00:00"
    return f"a value of the type {data_type}"
