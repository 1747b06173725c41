"""Arrow types and what they mean here: which attribute a column is by default, and its type as plain text.

The text form (``int32``, ``decimal128(10, 2)``, ``timestamp[us, tz=Europe/Paris]``) is what a schema stores. Types that
only differ in how Arrow lays them out (large_string, string_view, dictionaries, run-end encoding) are one type here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rtree_anon.errors import InputError, SchemaError
from rtree_anon.schema.attributes import Attribute, Boolean, Categorical, Date, Numeric, Timestamp

_SIMPLE: dict[str, pa.DataType] = {
    **{f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": getattr(pa, f"float{bits}")() for bits in (16, 32, 64)},
    "bool": pa.bool_(),
    "string": pa.string(),
    "null": pa.null(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    **{f"time32[{unit}]": pa.time32(unit) for unit in ("s", "ms")},
    **{f"time64[{unit}]": pa.time64(unit) for unit in ("us", "ns")},
    **{f"duration[{unit}]": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
}
_TEXT_OF = {data_type: text for text, data_type in _SIMPLE.items()}
_DECIMAL = re.compile(r"(decimal(?:32|64|128|256))\((\d{1,2}), ?(-?\d{1,2})\)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def is_text(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)
    )


def type_text(data_type: pa.DataType) -> str:
    """The text that a schema stores for a plain type (see `plain_type`)."""
    if data_type in _TEXT_OF:
        return _TEXT_OF[data_type]
    if pa.types.is_decimal(data_type):
        return f"decimal{data_type.bit_width}({data_type.precision}, {data_type.scale})"
    if pa.types.is_timestamp(data_type):
        return str(data_type)
    raise TypeError(f"no text for the type {data_type}")


def type_from_text(text: str) -> pa.DataType:
    """The Arrow type that a schema's text means."""
    if text in _SIMPLE:
        return _SIMPLE[text]
    try:
        if match := _DECIMAL.fullmatch(text):
            return getattr(pa, match[1])(int(match[2]), int(match[3]))
        if match := _TIMESTAMP.fullmatch(text):
            return pa.timestamp(match[1], tz=match[2])
    except (pa.ArrowException, ValueError) as error:
        raise SchemaError(f"the type {text!r} is not valid: {error}") from None
    raise SchemaError(f"the type {text!r} is not known; types are such as int64, float64, string, date32")


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type of the values, whatever the layout; raises TypeError with a reason for types that cannot be used."""
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if is_text(data_type):
        return pa.string()
    if pa.types.is_nested(data_type):
        raise TypeError(f"nested values ({data_type}); unnest the column or leave it out")
    if data_type in _TEXT_OF or pa.types.is_decimal(data_type) or pa.types.is_timestamp(data_type):
        return data_type
    raise TypeError(f"values of the type {data_type}, which is not supported; convert the column to text")


def is_dictionary_of(data_type: pa.DataType, values: pa.DataType) -> bool:
    """Whether a type is that of dictionaries, without an order, of such values."""
    return bool(pa.types.is_dictionary(data_type) and not data_type.ordered and data_type.value_type == values)


def plain_array(array: pa.Array) -> pa.Array:
    """The array without extension or run-end layout; dictionaries stay."""
    if isinstance(array.type, pa.BaseExtensionType):
        return plain_array(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return plain_array(pc.run_end_decode(array))
    return array


def decoded(array: pa.Array) -> pa.Array:
    """The array without a dictionary: a dictionary may hold values that no row has."""
    array = plain_array(array)
    return without_views(array.dictionary).take(array.indices) if pa.types.is_dictionary(array.type) else array


def without_views(array: pa.Array) -> pa.Array:
    """The array in a layout that Arrow can take values from, which it cannot from views."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array


def category_type(plain: pa.DataType) -> pa.DataType:
    """The type of a column's categories: its own for numbers and truth values, text for everything else.

    Arrow cannot read back every date or time from its text, nor hash half floats.
    """
    if pa.types.is_float16(plain):
        return pa.float32()
    if pa.types.is_decimal(plain) and plain.precision <= 38:
        return pa.decimal128(plain.precision, plain.scale)
    keeps = pa.types.is_integer(plain) or pa.types.is_boolean(plain) or pa.types.is_floating(plain)
    return plain if keeps else pa.string()


def checked_plain_type(data_type: pa.DataType, source: str, column: str) -> pa.DataType:
    """`plain_type`, as an error that users understand."""
    try:
        return plain_type(data_type)
    except TypeError as reason:
        raise InputError(f"the column holds {reason}", source=source, column=column) from None


_IsType = Callable[[Any], bool]
_NUMBERS: tuple[_IsType, ...] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_duration,
)
_ACCEPTED: dict[type[Any], tuple[_IsType, ...]] = {
    Numeric: (*_NUMBERS, pa.types.is_string, pa.types.is_null),
    Date: (pa.types.is_date, pa.types.is_timestamp, pa.types.is_string, pa.types.is_null),
    Timestamp: (pa.types.is_timestamp, pa.types.is_time, pa.types.is_date, pa.types.is_string, pa.types.is_null),
    Boolean: (pa.types.is_boolean, pa.types.is_integer, pa.types.is_string, pa.types.is_null),
}


def default_attribute(name: str, data_type: pa.DataType) -> Attribute:
    """What a bare name in a schema means for a column of this Arrow type."""
    if pa.types.is_dictionary(data_type):
        return Categorical(name)
    plain = plain_type(data_type)
    if any(check(plain) for check in _NUMBERS):
        return Numeric(name)
    if pa.types.is_boolean(plain):
        return Boolean(name)
    if pa.types.is_date(plain):
        return Date(name)
    if pa.types.is_timestamp(plain) or pa.types.is_time(plain):
        return Timestamp(name)
    return Categorical(name)


def accepts(attribute: Attribute, plain: pa.DataType) -> bool:
    """Whether a column of this type can be read as this attribute."""
    return isinstance(attribute, Categorical) or any(check(plain) for check in _ACCEPTED[type(attribute)])


def checked_own_type(attribute: Attribute, text: str) -> pa.DataType:
    """The type that an attribute says it has; a SchemaError unless it can have it."""
    own = type_from_text(text)
    is_continuous = isinstance(attribute, Numeric) and attribute.continuous is True
    if (
        not accepts(attribute, own)
        or (pa.types.is_string(own) and not isinstance(attribute, Categorical))
        or (is_continuous and not pa.types.is_floating(own))
    ):
        raise SchemaError(f"attribute {attribute.name!r}: the type {text} does not fit {type(attribute).__name__}")
    return own
