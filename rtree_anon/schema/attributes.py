"""The kinds of quasi-identifiers: Numeric, Categorical, Date, Timestamp, Boolean.

Each is a frozen value. What users write is the name and what they know (an order, a hierarchy, a domain). The
keyword-only fields ``type``, ``base``, ``bits``, ``decimals``, ``continuous`` and ``values`` fix how values become
codes; they are filled in when the attribute is bound to data and are kept from then on, so that codes that were once
written to an index never change their meaning:

    Numeric, Date, Timestamp, Boolean      code = value in its unit - base, in `bits` bits
    Numeric with decimals=d                the unit is 10**-d
    Numeric with continuous=True           code = the bits of the float64, order kept
    Categorical                            code = position in `values`

Invariant: a domain only ever grows, and `values` only ever gets new values at its end.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from rtree_anon.errors import SchemaError

if TYPE_CHECKING:
    from rtree_anon.hierarchy import Hierarchy

Number: TypeAlias = "int | float | Decimal"


@dataclass(frozen=True)
class Numeric:
    """Whole numbers, floats, exact decimals or durations.

    `domain` is (smallest, largest) value; it grows with the data unless ``grow=False``, which makes a value outside an
    error. `decimals` says how many digits after the point are kept exactly; `continuous` codes floats by their bits.
    """

    name: str
    domain: tuple[Number, Number] | None = None
    grow: bool = True
    type: str | None = field(default=None, kw_only=True)
    decimals: int | None = field(default=None, kw_only=True)
    continuous: bool | None = field(default=None, kw_only=True)
    base: int | None = field(default=None, kw_only=True)
    bits: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_coding(self.name, self.base, self.bits)
        if self.decimals is not None and not 0 <= self.decimals <= 18:
            raise SchemaError(f"attribute {self.name!r}: decimals must be from 0 to 18, not {self.decimals}")
        if self.decimals is not None and self.continuous:
            raise SchemaError(f"attribute {self.name!r}: give decimals or continuous=True, not both")
        object.__setattr__(self, "domain", _checked_domain(self.name, self.domain, _as_number))

    @property
    def bound(self) -> bool:
        return self.type is not None and self.bits is not None


@dataclass(frozen=True)
class Categorical:
    """Text or other values that have no distance.

    `order` lists the values in an order that means something. `hierarchy` generalizes them to its labels. Without
    either, the values are taken from the data. A value that is not known is an error unless ``allow_new=True``.
    """

    name: str
    order: Sequence[str] | None = None
    hierarchy: Hierarchy | None = None
    allow_new: bool = False
    type: str | None = field(default=None, kw_only=True)
    values: Sequence[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.order is not None and self.hierarchy is not None:
            raise SchemaError(f"attribute {self.name!r}: give an order or a hierarchy, not both")
        for what in ("order", "values"):
            given = getattr(self, what)
            if given is not None:
                object.__setattr__(self, what, _checked_categories(self.name, what, given))
        if self.order and self.values is not None and tuple(self.values[: len(self.order)]) != self.order:
            raise SchemaError(f"attribute {self.name!r}: its values must begin with its order")

    @property
    def bound(self) -> bool:
        return self.type is not None and self.values is not None


@dataclass(frozen=True)
class Date:
    """Calendar days."""

    name: str
    domain: tuple[datetime.date, datetime.date] | None = None
    grow: bool = True
    type: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "domain", _checked_domain(self.name, self.domain, _as_date))

    @property
    def bound(self) -> bool:
        return self.type is not None


@dataclass(frozen=True)
class Timestamp:
    """Points in time, with or without a zone, and times of day.

    The domain is kept as ISO 8601 text, which is exact down to nanoseconds: ``2024-05-01T12:00:00.000000001`` without a
    zone, with a final ``Z`` (UTC) where the column has one, ``12:00:00`` for a time of day.
    """

    name: str
    domain: tuple[str, str] | None = None
    grow: bool = True
    type: str | None = field(default=None, kw_only=True)
    base: int | None = field(default=None, kw_only=True)
    bits: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_coding(self.name, self.base, self.bits)
        object.__setattr__(self, "domain", _checked_domain(self.name, self.domain, _as_moment))

    @property
    def bound(self) -> bool:
        return self.type is not None and self.bits is not None


@dataclass(frozen=True)
class Boolean:
    """True or false."""

    name: str
    type: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def bound(self) -> bool:
        return self.type is not None


Attribute: TypeAlias = Numeric | Categorical | Date | Timestamp | Boolean
ATTRIBUTE_KINDS: dict[str, type[Any]] = {
    "numeric": Numeric,
    "categorical": Categorical,
    "date": Date,
    "timestamp": Timestamp,
    "boolean": Boolean,
}


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a column's name must be text that is not empty, not {name!r}")


def _check_coding(name: str, base: int | None, bits: int | None) -> None:
    if bits not in (None, 32, 64):
        raise SchemaError(f"attribute {name!r}: bits must be 32 or 64, not {bits!r}")
    if base is not None and (isinstance(base, bool) or not isinstance(base, int)):
        raise SchemaError(f"attribute {name!r}: base must be a whole number, not {base!r}")


def _checked_categories(name: str, what: str, given: Iterable[object]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise SchemaError(f"attribute {name!r}: {what} must be a list of values, not one text")
    listed = tuple(given)
    plain = set(map(type, listed)) <= {str}  # most often; quicker than to look at each of a hundred thousand
    labels = tuple(cast(Iterable[str], listed)) if plain else tuple(map(_category_label, listed))
    if len(set(labels)) != len(labels):
        twice = next(label for label, count in Counter(labels).items() if count > 1)
        raise SchemaError(f"attribute {name!r}: the value {twice!r} is listed twice")
    return labels


def _category_label(value: object) -> str:
    """Categories are known by their text, as Arrow prints them: True is `true`, 3 is `3`."""
    if value is None:
        raise SchemaError("a missing value cannot be listed as a category; missing values are always allowed")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked_domain(name: str, domain: Any, convert: Any) -> Any:
    if domain is None:
        return None
    try:
        lo, hi = domain
    except (TypeError, ValueError):
        raise SchemaError(f"attribute {name!r}: a domain is a pair (smallest, largest), not {domain!r}") from None
    pair = (convert(name, lo), convert(name, hi))
    ends = [end.rstrip("Z") if isinstance(end, str) else end for end in pair]  # so that a text compares like its time
    if ends[0] > ends[1]:
        raise SchemaError(f"attribute {name!r}: the domain's smallest value {lo} is above its largest {hi}")
    return pair


def _as_number(name: str, value: object) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise SchemaError(f"attribute {name!r}: a domain's ends must be finite numbers, not {value!r}")
    return value


def _as_date(name: str, value: object) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        raise SchemaError(f"attribute {name!r}: {value!r} is not a date such as 2024-05-31") from None


_MOMENT = re.compile(
    r"(?:(?P<date>\d{4}-\d\d-\d\d)(?:[T ]|$))?(?P<time>\d\d:\d\d(?::\d\d)?)?(?:\.(?P<fraction>\d{1,9}))?(?P<utc>Z)?"
)


def _as_moment(name: str, value: object) -> str:
    """Canonical text, so that equal moments are equal strings and later ones compare greater."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"
        else:
            value = value.isoformat()
    elif isinstance(value, datetime.date | datetime.time):
        value = value.isoformat()
    match = _MOMENT.fullmatch(str(value))
    if match is None or not (match["date"] or match["time"]):
        raise SchemaError(f"attribute {name!r}: {value!r} is not a time such as 2024-05-31T12:00:00")
    try:
        datetime.date.fromisoformat(match["date"] or "2000-01-01")
        datetime.time.fromisoformat(match["time"] or "00:00")
    except ValueError as error:
        raise SchemaError(f"attribute {name!r}: {value!r} is not a time: {error}") from None
    clock = match["time"] or "00:00:00"
    clock += ":00" if len(clock) == 5 else ""
    date = f"{match['date']}T" if match["date"] else ""
    fraction = (match["fraction"] or "").rstrip("0")
    return f"{date}{clock}{'.' + fraction if fraction else ''}{match['utc'] or ''}"
