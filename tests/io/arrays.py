"""Hypothesis strategies: Arrow arrays of every type that a quasi-identifier can have, with missing values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

_YEAR_1, _YEAR_9999 = -719_162, 2_932_896  # days from 1970
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
ZONES = (None, "UTC", "Europe/Paris", "+05:30")


@st.composite
def integer_arrays(draw: st.DrawFn) -> pa.Array:
    bits, signed = draw(st.sampled_from([8, 16, 32, 64])), draw(st.booleans())
    lo, hi = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    if draw(st.booleans()):  # a narrow band somewhere, which needs a base
        lo = draw(st.integers(lo, hi))
        hi = min(hi, lo + draw(st.sampled_from([0, 1, 1000, 2**32 - 4])))
    elif bits == 64:  # 2**64 values and "missing" do not fit together; see test_coding for the refusal
        lo, hi = lo + 2, hi - 2
    values = draw(_with_missing(st.integers(lo, hi)))
    return pa.array(values, getattr(pa, f"{'' if signed else 'u'}int{bits}")())


@st.composite
def float_arrays(draw: st.DrawFn) -> pa.Array:
    bits = draw(st.sampled_from([16, 32, 64]))
    any_float = st.floats(width=bits, allow_infinity=False)
    few_digits = st.integers(-(10**6), 10**6).map(lambda n: n / 10**draw_digits)
    draw_digits = draw(st.integers(0, 6))
    values = draw(_with_missing(draw(st.sampled_from([any_float, few_digits]))))
    own = np.dtype(f"float{bits}")
    with np.errstate(over="ignore"):
        numbers = [None if v is None else own.type(v) for v in values]
    numbers = [None if v is None or np.isinf(v) else v for v in numbers]
    return pa.array(numbers, getattr(pa, f"float{bits}")(), from_pandas=False)


@st.composite
def decimal_arrays(draw: st.DrawFn) -> pa.Array:
    make, most, widest = draw(
        st.sampled_from(
            [(pa.decimal32, 9, 9), (pa.decimal64, 18, 18), (pa.decimal128, 18, 38), (pa.decimal256, 18, 76)]
        )
    )
    digits = draw(st.integers(1, most))
    scale = draw(st.integers(0, digits))
    units = draw(_with_missing(st.integers(-(10**digits) + 1, 10**digits - 1)))
    spare = draw(st.sampled_from([0, widest - digits]))  # decimal128(38, 22) with few digits in use
    data_type = make(digits + spare, scale + draw(st.sampled_from([0, spare])))
    return pa.array([None if u is None else Decimal(u).scaleb(-scale) for u in units], data_type)


@st.composite
def date_arrays(draw: st.DrawFn) -> pa.Array:
    values = draw(_with_missing(st.dates()))
    return pa.array(values, draw(st.sampled_from([pa.date32(), pa.date64()])))


@st.composite
def timestamp_arrays(draw: st.DrawFn) -> pa.Array:
    unit, zone = draw(st.sampled_from(["s", "ms", "us", "ns"])), draw(st.sampled_from(ZONES))
    lo, hi = _YEAR_1 * _PER_DAY[unit], (_YEAR_9999 + 1) * _PER_DAY[unit] - 1
    lo, hi = max(lo, -(2**63)), min(hi, 2**63 - 1)
    if draw(st.booleans()):
        lo = draw(st.integers(lo, hi))
        hi = min(hi, lo + 2**20)
    values = draw(_with_missing(st.integers(lo, hi)))
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, tz=zone))


@st.composite
def time_arrays(draw: st.DrawFn) -> pa.Array:
    data_type = draw(st.sampled_from([pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]))
    values = draw(_with_missing(st.integers(0, _PER_DAY[data_type.unit] - 1)))
    return pa.array(values, pa.int32() if data_type.bit_width == 32 else pa.int64()).cast(data_type)


@st.composite
def duration_arrays(draw: st.DrawFn) -> pa.Array:
    unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    return pa.array(draw(_with_missing(st.integers(-(2**62), 2**62))), pa.int64()).cast(pa.duration(unit))


def boolean_arrays() -> st.SearchStrategy[pa.Array]:
    return _with_missing(st.booleans()).map(lambda values: pa.array(values, pa.bool_()))


@st.composite
def text_arrays(draw: st.DrawFn) -> pa.Array:
    text = st.one_of(st.text(max_size=6), st.sampled_from(["a", "b", "c", "02139", "NaN", "", "5"]))
    values = pa.array(draw(_with_missing(text)), pa.string())
    layout = draw(st.sampled_from(["string", "large_string", "string_view", "dictionary", "run_end"]))
    if layout == "dictionary":
        return values.dictionary_encode()
    if layout == "run_end":
        return pa.compute.run_end_encode(values)
    return values.cast(getattr(pa, layout)())


def any_arrays() -> st.SearchStrategy[pa.Array]:
    return st.one_of(
        integer_arrays(),
        float_arrays(),
        decimal_arrays(),
        date_arrays(),
        timestamp_arrays(),
        time_arrays(),
        duration_arrays(),
        boolean_arrays(),
        text_arrays(),
    )


def _with_missing(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(values, values, st.none()), min_size=1, max_size=12)


def same_values(one: pa.Array, other: pa.Array) -> bool:
    """Equality as a quasi-identifier sees it: NaN is missing, -0.0 is 0.0, layouts do not matter."""
    return comparable(one) == comparable(other)


def comparable(array: pa.Array) -> list[Any]:
    if pa.types.is_run_end_encoded(array.type):
        array = pa.compute.run_end_decode(array)
    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type) or pa.types.is_time64(array.type):
        array = array.cast(pa.int64())  # Python's own times stop at microseconds
    if pa.types.is_floating(array.type):
        numbers = [None if v is None else float(v) for v in array.to_pylist()]
        return [None if v is None or v != v else v + 0.0 for v in numbers]
    if pa.types.is_date(array.type):
        return [v.date() if isinstance(v, datetime.datetime) else v for v in array.to_pylist()]
    return list(array.to_pylist())
