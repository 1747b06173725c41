"""Rules that compute the levels of a hierarchy from the values themselves: intervals, masked characters, dates.

A rule is a small frozen dataclass with `levels(values)`: one list of labels per level, aligned with level 0, whose
order is the natural order of the values (numbers by size, dates by time, text alphabetically). Work is per distinct
value, never per row. Labels follow the text style of releases: inclusive ends, ``[20-24]``.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Protocol

from rtree_anon.errors import SchemaError
from rtree_anon.hierarchy.bound import SUPPRESSED, RejectedValueError, with_single_top

Levels = list[list[str]]


class Rule(Protocol):
    """What makes a hierarchy out of values."""

    def levels(self, values: Sequence[str]) -> Levels:
        """Labels of each level for the distinct `values`, level 0 first."""
        ...


@dataclass(frozen=True)
class Suppress:
    """Two levels: the value and `*`."""

    def levels(self, values: Sequence[str]) -> Levels:
        leaves = sorted(values)
        return [leaves, [SUPPRESSED] * len(leaves)]


@dataclass(frozen=True)
class Intervals:
    """Intervals of growing width, each starting at a multiple of its width; then `*`."""

    widths: tuple[Decimal, ...]

    def __post_init__(self) -> None:
        below = None
        for width in self.widths:
            if not width.is_finite() or width <= 0:
                raise SchemaError(f"interval width {width} is not a positive number")
            if below is not None and (width <= below or width % below):
                raise SchemaError(
                    f"interval width {width} is not a larger multiple of {below}, the width of the level below: "
                    "an interval of one level would straddle two of the next"
                )
            below = width

    def levels(self, values: Sequence[str]) -> Levels:
        numbers = {value: parse_number(value) for value in values}
        leaves = sorted(values, key=lambda value: (numbers[value], value))
        whole = all(number == number.to_integral_value() for number in numbers.values())
        levels = [leaves]
        for width in self.widths:
            inclusive = whole and width == width.to_integral_value()
            levels.append([_interval_label(numbers[leaf], width, inclusive=inclusive) for leaf in leaves])
        return [*levels, [SUPPRESSED] * len(leaves)]


@dataclass(frozen=True)
class Digits:
    """The last 1, 2, … n characters masked by `*`; a further level `*` where several values are left."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SchemaError(f"digits({self.n}) masks nothing; give the number of characters to mask, at least 1")

    def levels(self, values: Sequence[str]) -> Levels:
        leaves = sorted(values)
        masked = [
            [value[: max(len(value) - i, 0)] + "*" * min(i, len(value)) for value in leaves] for i in self._steps()
        ]
        return with_single_top([leaves, *masked])

    def _steps(self) -> range:
        return range(1, self.n + 1)


@dataclass(frozen=True)
class Prefixes:
    """The first characters only, in falling lengths, followed by `*`; then `*` alone."""

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(length < 1 for length in self.lengths) or list(self.lengths) != sorted(set(self.lengths), reverse=True):
            raise SchemaError(f"prefix lengths {list(self.lengths)} must fall from level to level and be at least 1")

    def levels(self, values: Sequence[str]) -> Levels:
        leaves = sorted(values)
        cut = [[value[:length] + "*" for value in leaves] for length in self.lengths]
        return [leaves, *cut, [SUPPRESSED] * len(leaves)]


@dataclass(frozen=True)
class Dates:
    """Parts of a date, each coarser than the one before; a further level `*` where several values are left."""

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise SchemaError(f"dates() needs at least one part; known are {', '.join(DATE_PARTS)} and '<n> years'")
        for part in self.parts:
            _date_labeller(part)

    def levels(self, values: Sequence[str]) -> Levels:
        dates = {value: parse_date(value) for value in values}
        leaves = sorted(values, key=lambda value: (dates[value], value))
        levels = [leaves]
        for part in self.parts:
            label = _date_labeller(part)
            levels.append([label(dates[leaf]) for leaf in leaves])
        return with_single_top(levels)


DATE_PARTS: dict[str, Callable[[datetime.date], str]] = {
    "day": lambda day: day.isoformat(),
    "week": lambda day: "{}-W{:02d}".format(*day.isocalendar()),
    "month": lambda day: f"{day.year:04d}-{day.month:02d}",
    "quarter": lambda day: f"{day.year:04d}-Q{(day.month + 2) // 3}",
    "year": lambda day: f"{day.year:04d}",
    "decade": lambda day: _year_span(day, 10),
    "century": lambda day: _year_span(day, 100),
}


def parse_number(value: str) -> Decimal:
    """The exact number that a text stands for."""
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise RejectedValueError(value, f"{value!r} is not a number, so it has no place in a hierarchy of intervals")
    return number


def parse_date(value: str) -> datetime.date:
    """The day of an ISO date or timestamp (2024-02-29, 2024-02-29 12:30:00)."""
    try:
        return datetime.date.fromisoformat(value) if len(value) <= 10 else datetime.datetime.fromisoformat(value).date()
    except ValueError:
        problem = f"{value!r} is not a date of the form 2024-02-29, so it has no place in a hierarchy of dates"
        raise RejectedValueError(value, problem) from None


def _interval_label(number: Decimal, width: Decimal, *, inclusive: bool) -> str:
    lo = (number / width).to_integral_value(rounding=ROUND_FLOOR) * width
    if not inclusive:
        return f"[{_plain(lo)}, {_plain(lo + width)})"
    return _plain(lo) if width == 1 else f"[{_plain(lo)}-{_plain(lo + width - 1)}]"


def _plain(number: Decimal) -> str:
    """Without exponent, trailing zeros or a negative zero."""
    return "0" if not number else f"{number.normalize():f}"


def _date_labeller(part: str) -> Callable[[datetime.date], str]:
    if part in DATE_PARTS:
        return DATE_PARTS[part]
    count, _, unit = part.partition(" ")
    if unit == "years" and count.isdecimal() and int(count) > 0:
        return lambda day: _year_span(day, int(count))
    raise SchemaError(f"{part!r} is not a part of a date; known are {', '.join(DATE_PARTS)} and '<n> years'")


def _year_span(day: datetime.date, n_years: int) -> str:
    first = day.year - day.year % n_years
    return f"[{first:04d}-{first + n_years - 1:04d}]"
