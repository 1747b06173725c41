"""Which type a column of text has, decided from *all* of its rows (`TextColumn` folds over batches).

CSV has no types, and a type that is taken from the first block alone is wrong or fails later. The rules:

- digits with a leading zero (02139) are text, and so is the whole column;
- a quasi-identifier that is mostly numbers or dates but has other text in it is an error that names the first such row,
  because quietly calling it a category would ruin the release; so is infinity;
- an empty field is missing; in columns that are not text, the usual words for it (NA, NaN, null, ...) are too;
- a column that is only carried through is typed where that changes no value, and stays text otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.io.cells import CellError, Origin, located, shown
from rtree_anon.io.text_shapes import NUMBERS, TIMES, DistinctTexts, Shape, shapes_of

_INT64_LENGTH = 18  # any number of so many characters fits
_MAX_DECIMAL_DIGITS = 38
_EXACT_FLOAT_LENGTH = 16  # a point and 15 digits, which a float64 keeps
_ADVICE = "though most values of the column are; correct it, leave it empty, or declare the column Categorical"


class Purpose(Enum):
    """What a text column is wanted for."""

    QUASI = "a quasi-identifier of which only the name is given"
    CARRIED = "carried through"
    NUMBER = "declared Numeric"
    DATE = "declared Date"
    MOMENT = "declared Timestamp"
    TRUTH = "declared Boolean"


_EXPECTED: dict[Purpose, tuple[frozenset[Shape], str]] = {
    Purpose.NUMBER: (NUMBERS | {Shape.PADDED}, "a number"),
    Purpose.DATE: (frozenset({Shape.DATE}), "a date such as 2024-05-31"),
    Purpose.MOMENT: (TIMES | {Shape.CLOCK}, "a time such as 2024-05-31T12:00:00"),
    Purpose.TRUTH: (frozenset({Shape.TRUTH, Shape.WHOLE}), "true or false"),
}


@dataclass(frozen=True)
class _Sighting:
    """The first row of a shape."""

    order: int  # among all rows of the source
    origin: Origin
    index: int
    text: str


@dataclass
class TextColumn:
    """What is known about a text column after the batches seen so far."""

    name: str
    n_rows: int = 0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Shape), np.int64))
    longest: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Shape), np.int64))  # in bytes
    whole_fits_int64: bool = True
    finer_than_microseconds: bool = False
    first_seen: dict[Shape, _Sighting] = field(default_factory=dict)

    def observe(self, texts: pa.Array, origin: Origin) -> None:
        """Takes one batch of the column into account."""
        distinct = DistinctTexts(texts)
        shapes, per_value = shapes_of(distinct.values), distinct.counts()
        self.counts += np.bincount(shapes, weights=per_value, minlength=len(Shape)).astype(np.int64)
        for shape in map(Shape, np.unique(shapes[per_value > 0])):
            self._observe_shape(shape, distinct.values.filter(pa.array(shapes == shape)))
            if shape not in self.first_seen:
                index, text = distinct.first_row(shapes == shape)
                self.first_seen[shape] = _Sighting(self.n_rows + index, origin, index, text)
        self.n_rows += len(texts)

    def decide(self, purpose: Purpose) -> pa.DataType:
        """The column's type. What does not fit its purpose raises an `InputError` for the first such row."""
        seen = {shape for shape in Shape if self.counts[shape]}
        if purpose is Purpose.CARRIED:
            return self._carried_type(seen)
        seen.discard(Shape.MISSING)
        if not seen:
            return pa.null()
        if purpose in _EXPECTED:
            shapes, called = _EXPECTED[purpose]
            self._refuse(seen - shapes, f"is not {called}")
        else:
            self._refuse_mostly(seen, NUMBERS, "is not a number")
            self._refuse_mostly(seen, TIMES, "is not a date or time such as 2024-05-31")
        if seen <= NUMBERS or purpose is Purpose.NUMBER:
            self._refuse(seen & {Shape.INFINITE}, "is infinite; give a finite number or leave it empty")
            return self._number_type(seen)
        if Shape.MOMENT_WITH_ZONE in seen and seen <= TIMES:
            self._refuse(seen - {Shape.MOMENT_WITH_ZONE}, "has no time zone, though other values have one")
        if purpose is Purpose.MOMENT and Shape.CLOCK in seen:
            self._refuse(seen - {Shape.CLOCK}, "is not a time of day, though other values are")
        return pa.bool_() if purpose is Purpose.TRUTH else self._time_or_other_type(seen)

    def _observe_shape(self, shape: Shape, values: pa.Array) -> None:
        self.longest[shape] = max(int(self.longest[shape]), pc.max(pc.binary_length(values)).as_py())
        if shape in (Shape.WHOLE, Shape.PADDED):
            self.whole_fits_int64 &= bool(self.longest[shape] <= _INT64_LENGTH) or _all_int64(values)
        elif shape in (Shape.MOMENT, Shape.MOMENT_WITH_ZONE, Shape.CLOCK) and not self.finer_than_microseconds:
            finer = pc.match_substring_regex(values, r"\.\d{7,}")
            self.finer_than_microseconds = bool(pc.any(finer).as_py())

    def _carried_type(self, seen: set[Shape]) -> pa.DataType:
        if seen == {Shape.WHOLE} and self.whole_fits_int64:
            return pa.int64()
        if seen <= {Shape.WHOLE, Shape.FRACTION} and max(self.longest[list(seen)], default=0) <= _EXACT_FLOAT_LENGTH:
            return pa.float64() if seen else pa.null()
        return pa.string() if seen & NUMBERS else self._time_or_other_type(seen)

    def _number_type(self, seen: set[Shape]) -> pa.DataType:
        if not seen <= {Shape.WHOLE, Shape.PADDED}:
            return pa.float64()
        if self.whole_fits_int64:
            return pa.int64()
        # exact decimals up to 38 digits, then text; never a rounded float
        return pa.decimal128(38, 0) if self.longest[Shape.WHOLE] <= _MAX_DECIMAL_DIGITS else pa.string()

    def _time_or_other_type(self, seen: set[Shape]) -> pa.DataType:
        unit = "ns" if self.finer_than_microseconds else "us"
        if seen == {Shape.DATE}:
            return pa.date32()
        if seen and seen <= {Shape.DATE, Shape.MOMENT}:
            return pa.timestamp(unit)
        if seen == {Shape.MOMENT_WITH_ZONE}:
            return pa.timestamp(unit, tz="UTC")
        if seen == {Shape.CLOCK}:
            return pa.time64(unit)
        return pa.bool_() if seen == {Shape.TRUTH} else pa.string()

    def _refuse_mostly(self, seen: set[Shape], expected: frozenset[Shape], problem: str) -> None:
        if Shape.PADDED in seen and expected is NUMBERS:
            return  # identifiers such as postcodes
        n_present = int(self.counts.sum() - self.counts[Shape.MISSING])
        n_expected = sum(int(self.counts[shape]) for shape in expected)
        if n_expected and n_expected * 2 >= n_present:
            self._refuse(seen - expected, f"{problem}, {_ADVICE}")

    def _refuse(self, shapes: set[Shape], problem: str) -> None:
        """Raises for the first row of these shapes, if there is one."""
        if not shapes:
            return
        first = min((self.first_seen[shape] for shape in shapes), key=lambda sighting: sighting.order)
        with located(first.origin, self.name):
            raise CellError(first.index, f"{shown(first.text)} {problem}")


def _all_int64(wholes: pa.Array) -> bool:
    try:
        pc.utf8_ltrim(wholes, characters="+").cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True
