"""Arrow arrays as whole numbers ("units") and back, without a copy where Arrow's memory already is what is needed.

The unit of a type: 1 for integers and booleans, a day for dates, the type's own unit for times, 10**-decimals for
decimals and for floats with few digits. Continuous floats have no unit: `float_bits` maps them to int64 so that the
order is kept.

Invariant: every function here is exact; what cannot be represented raises `CellError` and is never rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.io.cells import CellError, first_failing, shown_at

MS_PER_DAY = 86_400_000
MAX_FLOAT_DECIMALS = 9  # more digits than that are treated as a continuous value
MAX_DIGITS = 18  # of a decimal: its units must fit 64 bits
_EXACT_FLOAT = 2.0**53  # whole numbers below this are exact in float64
_WORDS = {32: np.int32, 64: np.int64}

IntArray = NDArray[Any]


def null_mask(array: pa.Array) -> NDArray[np.bool_] | None:
    """True where a value is missing; None where none is."""
    if array.null_count == 0:
        return None
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def raw_values(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """Arrow's own memory of a fixed-width array; whatever stands where a value is missing is arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, count=array.offset + len(array))[array.offset :]


def integer_dtype(data_type: pa.DataType) -> Any:
    """The numpy type of the numbers that Arrow stores for this type."""
    if pa.types.is_integer(data_type):
        return np.dtype(str(data_type))
    if pa.types.is_date32(data_type) or pa.types.is_time32(data_type):
        return np.dtype(np.int32)
    return np.dtype(np.int64)


def to_units(array: pa.Array, decimals: int | None) -> tuple[IntArray, NDArray[np.bool_] | None]:
    """The units of an array of a plain, linear type, and where values are missing; the units there are arbitrary."""
    data_type = array.type
    if pa.types.is_floating(data_type):
        return _float_units(array, decimals or 0)
    mask = null_mask(array)
    if pa.types.is_boolean(data_type):
        return raw_values(array.cast(pa.uint8()), np.uint8), mask
    if pa.types.is_decimal(data_type):
        return _decimal_units(array, data_type.scale if decimals is None else decimals), mask
    raw = raw_values(array, integer_dtype(data_type))
    if pa.types.is_date64(data_type):
        days, rest = np.divmod(raw, MS_PER_DAY)
        _refuse(rest != 0, array, "is not a whole day")
        return days, mask
    return raw, mask


def from_units(
    units: IntArray, mask: NDArray[np.bool_] | None, data_type: pa.DataType, decimals: int | None
) -> pa.Array:
    """The inverse of `to_units`, with the masked values missing."""
    if pa.types.is_floating(data_type):
        return _float_array(units / 10.0 ** (decimals or 0), mask, data_type)
    if pa.types.is_decimal(data_type):
        return _decimal_array(units, mask, data_type, data_type.scale if decimals is None else decimals)
    if pa.types.is_boolean(data_type):
        return pa.array(units != 0, mask=mask)
    if pa.types.is_date64(data_type):
        units = units.astype(np.int64) * MS_PER_DAY
    stored = pa.array(units.astype(integer_dtype(data_type), copy=False), mask=mask)
    return stored if stored.type == data_type else stored.view(data_type)


def to_floats(array: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    """The values as float64 and where they are missing (null or NaN); 0.0 stands in for them. Refuses infinity."""
    values = raw_values(array, np.dtype(f"float{array.type.bit_width}")).astype(np.float64)
    missing = np.isnan(values)
    if (nulls := null_mask(array)) is not None:
        missing |= nulls
    mask = missing if missing.any() else None
    if mask is not None:
        values[mask] = 0.0
    infinite = np.isinf(values)
    if infinite.any():
        raise CellError(int(np.argmax(infinite)), "the value is infinite; give a finite number or leave it missing")
    values += 0.0  # -0.0 becomes 0.0
    return values, mask


def float_bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Finite floats as int64 in the same order; its own inverse on bits (see `bits_to_floats`)."""
    return _flip_negative(values.view(np.int64))


def bits_to_floats(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    return _flip_negative(codes).view(np.float64)


def needed_decimals(values: NDArray[np.float64], data_type: pa.DataType, start: int) -> int | None:
    """The smallest number of decimals >= start that gives back every value exactly, None if there is none."""
    largest = float(np.abs(values).max(initial=0.0))
    own = np.dtype(f"float{data_type.bit_width}")
    sample = values[:: max(1, len(values) // 1024)]
    for decimals in range(start, MAX_FLOAT_DECIMALS + 1):
        if largest * 10.0**decimals >= _EXACT_FLOAT:
            return None
        if _gives_back(sample, decimals, own).all() and _gives_back(values, decimals, own).all():
            return decimals
    return None


def needed_scale(values: pa.Array, start: int) -> int:
    """The smallest number of decimals >= start that holds all decimal values exactly."""
    for decimals in range(start, values.type.scale):
        if not _loses_digits(values, decimals):
            return decimals
    return max(start, int(values.type.scale))


def _flip_negative(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    return bits ^ ((bits >> 63) & np.int64(np.iinfo(np.int64).max))


def _gives_back(values: NDArray[np.float64], decimals: int, own: Any) -> NDArray[np.bool_]:
    """Whether value -> units -> value is the identity; a division is used because it rounds correctly."""
    with np.errstate(over="ignore"):  # a float16 that overflows is not given back
        again = (np.rint(values * 10.0**decimals) / 10.0**decimals).astype(own)
    same: NDArray[np.bool_] = again.astype(np.float64) == values
    return same


def _float_units(array: pa.Array, decimals: int) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    values, mask = to_floats(array)
    exact = _gives_back(values, decimals, np.dtype(f"float{array.type.bit_width}"))
    exact &= np.abs(values) < _EXACT_FLOAT / 10.0**decimals
    digits = (
        f"does not fit the {decimals} decimals of this column; declare it continuous" if decimals else "is not whole"
    )
    _refuse(~exact, array, digits)
    return np.rint(values * 10.0**decimals).astype(np.int64), mask


def _float_array(values: NDArray[np.float64], mask: NDArray[np.bool_] | None, data_type: pa.DataType) -> pa.Array:
    return pa.array(values.astype(np.dtype(f"float{data_type.bit_width}")), mask=mask, type=data_type)


def _decimal_units(array: pa.Array, decimals: int) -> NDArray[np.int64]:
    if array.type.scale != decimals:
        array = _rescaled(array, decimals)
    width = array.type.bit_width
    if width in _WORDS:
        return raw_values(array, _WORDS[width]).astype(np.int64)
    n_words = width // 64
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), np.int64)
    words = np.frombuffer(buffer, np.int64, count=(array.offset + len(array)) * n_words).reshape(-1, n_words)
    words = words[array.offset :]
    low = words[:, 0]
    fits = (words[:, 1:] == (low >> 63)[:, None]).all(axis=1)
    _refuse(~fits, array, "has too many digits; at most 18 can be used")
    return np.ascontiguousarray(low)


def _rescaled(array: pa.Array, decimals: int) -> pa.Array:
    if not _loses_digits(array, decimals):
        return pc.cast(array, _scaled_type(array.type, decimals))
    index = first_failing(array, lambda part: _loses_digits(part, decimals))
    problem = f"{array[index]} has more than the {decimals} decimals of this column, or too many digits"
    raise CellError(index, problem)


def _loses_digits(array: pa.Array, decimals: int) -> bool:
    try:
        pc.cast(array, _scaled_type(array.type, decimals))
    except pa.ArrowInvalid:
        return True
    return False


def _scaled_type(data_type: pa.DataType, decimals: int) -> pa.DataType:
    return pa.decimal256(76, decimals) if data_type.bit_width == 256 else pa.decimal128(38, decimals)


def _decimal_array(units: IntArray, mask: NDArray[np.bool_] | None, data_type: pa.DataType, decimals: int) -> pa.Array:
    units = units.astype(np.int64, copy=False)
    words = np.stack([units, units >> 63], axis=1)
    validity = pa.array(np.ones(len(units), bool), mask=mask).buffers()[0]
    exact = pa.Array.from_buffers(pa.decimal128(38, decimals), len(units), [validity, pa.py_buffer(words)])
    return exact.cast(data_type)


def _refuse(wrong: NDArray[np.bool_], array: pa.Array, problem: str) -> None:
    """Raises for the first value that is wrong and present."""
    if not wrong.any():
        return
    if (nulls := null_mask(array)) is not None:
        wrong = wrong & ~nulls
    if wrong.any():
        index = int(np.argmax(wrong))
        raise CellError(index, f"{shown_at(array, index)} {problem}")
