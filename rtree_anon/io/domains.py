"""Domains: the values at both ends of an attribute, as people write them, and the units that codes are made of.

Whole numbers stay int, floats float, decimals Decimal, dates datetime.date; points in time are ISO text (exact to the
nanosecond) and durations whole numbers of their unit.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from rtree_anon.errors import SchemaError
from rtree_anon.io.types import UNITS_PER_SECOND
from rtree_anon.schema import Attribute, Boolean, Categorical, Numeric

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = datetime.date.min.toordinal() - _EPOCH, datetime.date.max.toordinal() - _EPOCH
_SECONDS_PER_DAY = 86_400


def domain_units(attribute: Attribute, data_type: pa.DataType) -> tuple[int, int]:
    """Smallest and largest unit of a linear attribute; (1, 0) where no value is known."""
    if isinstance(attribute, Categorical):
        raise TypeError("categories have no units")
    if isinstance(attribute, Boolean):
        return 0, 1
    if attribute.domain is None:
        return 1, 0
    decimals = attribute.decimals if isinstance(attribute, Numeric) else None
    lo, hi = (value_to_unit(end, data_type, decimals, attribute.name) for end in attribute.domain)
    return lo, hi


def value_to_unit(value: Any, data_type: pa.DataType, decimals: int | None, name: str) -> int:
    """The unit of one value of a domain."""
    if pa.types.is_date(data_type):
        return int(value.toordinal()) - _EPOCH
    if pa.types.is_timestamp(data_type) or pa.types.is_time(data_type):
        return _moment_to_unit(str(value), data_type, name)
    if pa.types.is_floating(data_type):
        return _float_to_unit(float(value), np.dtype(f"float{data_type.bit_width}").type, decimals or 0, name)
    scale = 0
    if pa.types.is_decimal(data_type):
        scale = data_type.scale if decimals is None else decimals
    units = Decimal(str(value)).scaleb(scale) if isinstance(value, float) else Decimal(value).scaleb(scale)
    if units != units.to_integral_value():
        raise SchemaError(f"attribute {name!r}: the domain's end {value} does not fit its type {data_type}")
    return int(units)


def _float_to_unit(value: float, own: Any, decimals: int, name: str) -> int:
    unit = round(value * 10.0**decimals)
    if own(unit / 10.0**decimals) != own(value):  # the float that stands for the decimal number
        raise SchemaError(f"attribute {name!r}: the domain's end {value} has more than {decimals} decimals")
    return unit


def unit_to_value(unit: int, data_type: pa.DataType, decimals: int | None) -> Any:
    """The value of one unit, as a domain holds it."""
    if pa.types.is_date(data_type):
        return datetime.date.fromordinal(unit + _EPOCH)
    if pa.types.is_timestamp(data_type) or pa.types.is_time(data_type):
        return _unit_to_moment(unit, data_type)
    if pa.types.is_floating(data_type):
        return unit / 10 ** (decimals or 0)
    if pa.types.is_decimal(data_type):
        return Decimal(unit).scaleb(-(data_type.scale if decimals is None else decimals))
    return unit


def unit_limits(data_type: pa.DataType) -> tuple[int, int] | None:
    """The units that a date or a point in time can have: years 1 to 9999. None where there is no such limit."""
    if pa.types.is_date(data_type):
        return _FIRST_DAY, _LAST_DAY
    if pa.types.is_timestamp(data_type):
        per_day = _SECONDS_PER_DAY * UNITS_PER_SECOND[data_type.unit]
        return _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1
    return None


def _moment_to_unit(text: str, data_type: pa.DataType, name: str) -> int:
    per_second = UNITS_PER_SECOND[data_type.unit]
    is_time = pa.types.is_time(data_type)
    has_zone = not is_time and data_type.tz is not None
    date, separator, clock = text.removesuffix("Z").rpartition("T")
    if bool(separator) is is_time or text.endswith("Z") is not has_zone:
        form = "12:00:00" if is_time else "2024-05-31T12:00:00" + ("Z" if has_zone else "")
        raise SchemaError(f"attribute {name!r}: the domain's end {text!r} must be of the form {form}")
    day = 0 if is_time else datetime.date.fromisoformat(date).toordinal() - _EPOCH
    clock, _, fraction = clock.partition(".")
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    parts, rest = divmod(int((fraction or "0").ljust(9, "0")) * per_second, 10**9)
    if rest:
        raise SchemaError(f"attribute {name!r}: the domain's end {text!r} is finer than its unit {data_type.unit}")
    return (day * _SECONDS_PER_DAY + hours * 3600 + minutes * 60 + seconds) * per_second + parts


def _unit_to_moment(unit: int, data_type: pa.DataType) -> str:
    per_second = UNITS_PER_SECOND[data_type.unit]
    seconds, parts = divmod(unit, per_second)
    day, seconds = divmod(seconds, _SECONDS_PER_DAY)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if parts:
        clock += "." + str(parts * (10**9 // per_second)).zfill(9).rstrip("0")
    if pa.types.is_time(data_type):
        return clock
    date = datetime.date.fromordinal(day + _EPOCH).isoformat()
    return f"{date}T{clock}{'Z' if data_type.tz is not None else ''}"
