"""Hierarchies chosen from the values alone, so that nobody has to write one to start.

Numbers get intervals whose widths grow 5, 10, 50, 100, … over their range; dates get month, year and decade; codes of
one length (postcodes) are masked from the right down to their common prefix; other text is cut to shorter and shorter
prefixes; a handful of categories is only suppressed. At most `MAX_STEPS` steps: each one multiplies the size of the
lattice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from rtree_anon.errors import InputError
from rtree_anon.hierarchy.rules import (
    Dates,
    Digits,
    Intervals,
    Levels,
    Prefixes,
    Rule,
    Suppress,
    parse_date,
    parse_number,
)

Parsed = TypeVar("Parsed")

MAX_STEPS = 5
FEW_CATEGORIES = 8  # so few values have no useful level between the value and `*`


@dataclass(frozen=True)
class Automatic:
    """Looks at the values when it is bound and picks the rule that fits them."""

    text: bool = False  # the column is text: digits are a code (a postcode), not a quantity

    def levels(self, values: Sequence[str]) -> Levels:
        return choose_rule(values, text=self.text).levels(values)


def choose_rule(values: Sequence[str], *, text: bool) -> Rule:
    """The rule that fits all `values`."""
    if len(values) <= 2:
        return Suppress()
    if not text and not any(_has_leading_zero(value) for value in values):
        numbers = _all_parsed(values, parse_number)
        if numbers is not None:
            return Intervals(_widths(numbers))
    if _all_parsed(values, parse_date) is not None:
        return Dates(("month", "year", "decade"))
    shared = _shared_prefix_length(values)
    lengths = {len(value) for value in values}
    if len(lengths) == 1 and min(lengths) - shared <= MAX_STEPS:
        return Digits(min(lengths) - shared)
    if len(values) <= FEW_CATEGORIES:
        return Suppress()
    return Prefixes(_prefix_lengths(values, shared))


def _widths(numbers: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """Widths from the series … 0.5, 1, 5, 10, 50 … that merge neighbours and stay below the range of the numbers."""
    ordered = sorted(set(numbers))
    span = ordered[-1] - ordered[0]
    gap = span / (len(ordered) - 1)  # the mean distance of neighbours: narrower intervals would hold about one value
    width = Decimal(10) ** gap.adjusted()
    factor = 5
    widths: list[Decimal] = []
    while width < span:
        if width > gap:
            widths.append(width)
        width, factor = width * factor, 7 - factor  # times 5, times 2, times 5, …
    while len(widths) > MAX_STEPS - 1:
        widths = widths[::-2][::-1]  # every other one, the coarsest kept: still multiples of each other
    return tuple(widths)


def _prefix_lengths(values: Sequence[str], shared: int) -> tuple[int, ...]:
    """Lengths at which the number of distinct prefixes has at least halved since the level below."""
    lengths: list[int] = []
    n_below = len(values)
    for length in range(max(map(len, values)) - 1, shared, -1):
        n_prefixes = len({value[:length] for value in values})
        if 2 * n_prefixes <= n_below:
            lengths.append(length)
            n_below = n_prefixes
    return tuple(lengths[-(MAX_STEPS - 1) :])


def _shared_prefix_length(values: Sequence[str]) -> int:
    first, last = min(values), max(values)  # the two that differ earliest
    differs = (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return next(differs, min(len(first), len(last)))


def _has_leading_zero(value: str) -> bool:
    digits = value.lstrip("-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()


def _all_parsed(values: Sequence[str], parse: Callable[[str], Parsed]) -> list[Parsed] | None:
    try:
        return [parse(value) for value in values]
    except InputError:
        return None
