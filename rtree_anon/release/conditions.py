"""Conditions of a count query against generalized values: a value, a pair (lo, hi) of inclusive bounds, or a list.

Everything is compared by value, never by code. A bound that the attribute's type cannot hold is moved inwards to the
next value that it can (25.5 on whole numbers, a microsecond on whole seconds), so that no row that matches is missed.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import UsageError

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime.datetime(1970, 1, 1)
_DIGITS = Context(prec=200)
_LARGEST_DECIMAL = Decimal(10) ** 75


def alternatives(wanted: Any) -> list[tuple[Any, Any]]:
    """A condition as pairs of bounds, any of which a value may lie in."""
    if isinstance(wanted, tuple):
        if len(wanted) != 2:
            raise TypeError("a pair has two ends")
        return [(wanted[0], wanted[1])]
    if isinstance(wanted, Collection) and not isinstance(wanted, str | bytes):
        return [(value, value) for value in wanted]
    return [(wanted, wanted)]


def accepted_values(name: str, values: pa.Array, wanted: Any) -> Flags:
    """Which of the values a condition accepts."""
    accepted = np.zeros(len(values), np.bool_)
    try:
        for lo, hi in alternatives(wanted):
            first, last = _bound(lo, values.type, up=True), _bound(hi, values.type, up=False)
            accepted |= _at_most(first, values) & _at_least(last, values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _incomparable(name, values.type, wanted) from error
    return accepted


def matched_intervals(name: str, lo: pa.Array, hi: pa.Array, steps: Floats, wanted: Any) -> tuple[Flags, Floats]:
    """For each interval, whether a condition accepts any of its values, and the share of its values that it accepts.

    The share is that of the width (paper, section 2.3), but never less than one of the interval's `steps` values.
    """
    hits, share = np.zeros(len(lo), np.bool_), np.zeros(len(lo))
    # Halved, because the width of the widest intervals of floats overflows.
    low, high = _as_floats(lo) / 2, _as_floats(hi) / 2
    try:
        for pair in alternatives(wanted):
            first, last = _bound(pair[0], lo.type, up=True), _bound(pair[1], lo.type, up=False)
            if first > last:
                continue
            meets = _at_most(first, hi) & _at_least(last, lo)
            common = np.minimum(high, _as_float(last) / 2) - np.maximum(low, _as_float(first) / 2)
            covered = np.divide(common, high - low, out=np.ones(len(low)), where=high > low)
            hits |= meets
            share += np.where(meets, np.maximum(covered, 1 / steps), 0.0)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _incomparable(name, lo.type, wanted) from error
    return hits, np.minimum(share, 1.0)


def _incomparable(name: str, data_type: pa.DataType, wanted: Any) -> UsageError:
    return UsageError(
        f"{name!r} has values of type {data_type} and cannot be compared with {wanted!r}: a condition is a value, "
        "a pair (lo, hi) or a list of values of that type."
    )


def _at_most(bound: Any, values: pa.Array) -> Flags:
    """Where bound <= value."""
    return _compared("greater_equal", values, bound)


def _at_least(bound: Any, values: pa.Array) -> Flags:
    """Where bound >= value."""
    return _compared("less_equal", values, bound)


def _compared(comparison: str, values: pa.Array, bound: Any) -> Flags:
    data_type = values.type
    if pa.types.is_string(data_type) or pa.types.is_decimal(data_type):
        if pa.types.is_decimal(data_type):
            data_type = pa.decimal256(76, data_type.scale)
            values = values.cast(data_type)
        flags = pc.call_function(comparison, [values, pa.scalar(bound, data_type)])
        return flags.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    present = values.is_valid().to_numpy(zero_copy_only=False)
    # NumPy compares its whole numbers exactly with Python's, however large.
    result: Flags = getattr(np, comparison)(_as_numbers(values), bound) & present
    return result


def _bound(value: Any, data_type: pa.DataType, *, up: bool) -> Any:
    """A bound in the units in which values of this type are compared; moved up or down to the next that there is."""
    if pa.types.is_string(data_type):
        return _required(value, str)
    if pa.types.is_boolean(data_type):
        return int(_required(value, bool | np.bool_))
    if pa.types.is_timestamp(data_type):
        return _rounded(_microseconds(value, data_type), _PER_SECOND[data_type.unit], up)
    if pa.types.is_temporal(data_type):
        if isinstance(value, str):
            value = (datetime.time if pa.types.is_time(data_type) else datetime.date).fromisoformat(value)
        if isinstance(value, datetime.datetime) or value is None:
            raise TypeError("a point in time is no date or time of day")
        return _as_numbers(pa.array([value], data_type))[0].item()
    number = _required(value, int | float | Decimal | np.number)
    if isinstance(number, bool) or number != number:
        raise TypeError("not a number")
    if pa.types.is_floating(data_type):
        with np.errstate(over="ignore"):  # to the nearest of the column's own floats: 0.1 finds the float32 0.1
            return float(np.dtype(f"float{data_type.bit_width}").type(_as_float(number)))
    if pa.types.is_integer(data_type):
        if math.isinf(number):
            return number
        return math.ceil(number) if up else math.floor(number)
    exact = Decimal(str(number)) if isinstance(number, float | np.floating) else Decimal(number)
    largest = _LARGEST_DECIMAL.scaleb(-data_type.scale)  # beyond every value, and still a decimal256
    exact = min(max(exact, -largest), largest)
    return exact.quantize(Decimal(1).scaleb(-data_type.scale), ROUND_CEILING if up else ROUND_FLOOR, _DIGITS)


def _microseconds(value: Any, data_type: pa.DataType) -> int:
    """Microseconds since 1970. A bound has a zone if and only if the column has one: anything else would be a guess."""
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime.datetime) or (value.tzinfo is None) is not (data_type.tz is None):
        raise TypeError("a point in time with a zone where the column has one, and without where it has not")
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    since_epoch: datetime.timedelta = value - _EPOCH
    return since_epoch // datetime.timedelta(microseconds=1)


def _rounded(microseconds: int, per_second: int, up: bool) -> int:
    units = microseconds * per_second
    return -(-units // 10**6) if up else units // 10**6


def _required(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is of another type")
    return value


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _as_numbers(values: pa.Array) -> NDArray[Any]:
    """Numbers, truth values and times as NumPy numbers that compare like them; 0 where a value is missing."""
    if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    elif pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    numbers: NDArray[Any] = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return numbers


def _as_floats(values: pa.Array) -> Floats:
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    return _as_numbers(values).astype(np.float64)
