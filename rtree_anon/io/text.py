"""Columns of text that may hold numbers, dates or truth values: what they are, and reading them as such.

CSV has no types, so they are decided from *all* rows of a column (`TextColumn` folds over batches), never from the
first block alone. Digits with a leading zero (02139) are text. A column that is mostly numbers or dates with some
other text in it is an error that names the first such row, because quietly calling it a category would ruin the
release; so is infinity. An empty field is a missing value; in columns that are not text, the usual words for it (NA,
NaN, null, ...) are too.

Work is done on the distinct values of a batch (a dictionary), so no row is looked at by Python.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.io.cells import CellError, Origin, first_failing, located, shown

MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "-NaN", "NULL", "null", "None", "none", "#N/A")
_TRUE, _FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")


class Shape(IntEnum):
    """What one text looks like; tested in this order."""

    MISSING = 0
    WHOLE = 1
    FRACTION = 2
    INFINITE = 3
    PADDED = 4  # digits with a leading zero: an identifier, not a quantity
    DATE = 5
    MOMENT = 6
    MOMENT_WITH_ZONE = 7
    TRUTH = 8
    OTHER = 9


_CLOCK = r"[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?"
_PATTERNS = {
    Shape.WHOLE: r"^[+-]?(0|[1-9]\d*)$",
    Shape.FRACTION: r"^[+-]?((0|[1-9]\d*)?\.\d+|(0|[1-9]\d*)\.?)([eE][+-]?\d{1,3})?$",
    Shape.INFINITE: r"^[+-]?(?i:inf|infinity)$",
    Shape.PADDED: r"^[+-]?0\d+(\.\d*)?$",
    Shape.DATE: r"^\d{4}-\d\d-\d\d$",
    Shape.MOMENT: rf"^\d{{4}}-\d\d-\d\d{_CLOCK}$",
    Shape.MOMENT_WITH_ZONE: rf"^\d{{4}}-\d\d-\d\d{_CLOCK}(Z|[+-]\d\d(:?\d\d)?)$",
    Shape.TRUTH: "^(" + "|".join(_TRUE[:-1] + _FALSE[:-1]) + ")$",
}
_NUMBERS = frozenset({Shape.WHOLE, Shape.FRACTION, Shape.INFINITE})
_TIMES = frozenset({Shape.DATE, Shape.MOMENT, Shape.MOMENT_WITH_ZONE})
_MAX_DECIMAL_DIGITS = 38


class Kind(Enum):
    """What a text column is wanted for."""

    QUASI = "a quasi-identifier of which only the name is given"
    CARRIED = "carried through, so anything that is not typed throughout stays text"
    NUMBER = "declared Numeric"
    DATE = "declared Date"
    MOMENT = "declared Timestamp"
    TRUTH = "declared Boolean"


_EXPECTED: dict[Kind, tuple[frozenset[Shape], str]] = {
    Kind.NUMBER: (frozenset({Shape.WHOLE, Shape.FRACTION, Shape.PADDED}), "a number"),
    Kind.DATE: (frozenset({Shape.DATE}), "a date such as 2024-05-31"),
    Kind.MOMENT: (_TIMES, "a time such as 2024-05-31T12:00:00"),
    Kind.TRUTH: (frozenset({Shape.TRUTH, Shape.WHOLE}), "true or false"),
}


@dataclass
class TextColumn:
    """What is known about a text column after the batches seen so far."""

    name: str
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Shape), np.int64))
    longest_whole: int = 0  # characters of the longest whole number
    whole_fits_int64: bool = True
    first_seen: dict[Shape, tuple[Origin, int, str]] = field(default_factory=dict)

    def observe(self, texts: pa.Array, origin: Origin) -> None:
        coded = texts.dictionary_encode()
        values = _trimmed(coded.dictionary)
        indices = coded.indices.drop_null().to_numpy()
        shapes = shapes_of(values)
        per_value = np.bincount(indices, minlength=len(values))
        self.counts += np.bincount(shapes, weights=per_value, minlength=len(Shape)).astype(np.int64)
        wholes = values.filter(pa.array((shapes == Shape.WHOLE) | (shapes == Shape.PADDED)))
        if len(wholes):
            self.longest_whole = max(self.longest_whole, pc.max(pc.binary_length(wholes)).as_py())
            self.whole_fits_int64 &= self.longest_whole <= 18 or _all_int64(wholes)
        for shape in set(shapes.tolist()) - set(self.first_seen):
            rows = coded.indices.to_numpy(zero_copy_only=False)
            of_shape = np.flatnonzero(shapes == shape)
            index = int(np.flatnonzero(np.isin(rows, of_shape))[0])
            self.first_seen[Shape(shape)] = (origin, index, coded.dictionary[int(rows[index])].as_py())

    def decide(self, kind: Kind) -> pa.DataType:
        """The column's type. What does not fit the kind that is asked for raises an `InputError` for its first row."""
        seen = {shape for shape in Shape if self.counts[shape]} - {Shape.MISSING}
        if not seen:
            return pa.null()
        if kind in _EXPECTED:
            shapes, called = _EXPECTED[kind]
            if not seen <= shapes | {Shape.INFINITE}:
                self._refuse(seen - shapes, f"is not {called}")
        elif kind is Kind.QUASI:
            self._refuse_mostly(seen, _NUMBERS, "is not a number")
            self._refuse_mostly(seen, _TIMES, "is not a date or time such as 2024-05-31")
        if Shape.INFINITE in seen and seen <= _NUMBERS | {Shape.PADDED} and kind is not Kind.CARRIED:
            self._refuse({Shape.INFINITE}, "is infinite; give a finite number or leave it empty")
        if seen <= _NUMBERS or kind is Kind.NUMBER:
            return self._number_type(seen)
        if seen <= _TIMES:
            return self._time_type(seen, strict=kind is not Kind.CARRIED)
        return pa.bool_() if seen == {Shape.TRUTH} or kind is Kind.TRUTH else pa.string()

    def _number_type(self, seen: set[Shape]) -> pa.DataType:
        if not seen <= {Shape.WHOLE, Shape.PADDED}:
            return pa.float64()
        if self.whole_fits_int64:
            return pa.int64()
        # exact decimals up to 38 digits, then text; never a rounded float
        return pa.decimal128(38, 0) if self.longest_whole <= _MAX_DECIMAL_DIGITS else pa.string()

    def _time_type(self, seen: set[Shape], *, strict: bool) -> pa.DataType:
        if Shape.MOMENT_WITH_ZONE not in seen:
            return pa.date32() if seen == {Shape.DATE} else pa.timestamp("us")
        if seen == {Shape.MOMENT_WITH_ZONE}:
            return pa.timestamp("us", tz="UTC")
        if strict:
            self._refuse(seen - {Shape.MOMENT_WITH_ZONE}, "has no time zone, though other values have one")
        return pa.string()

    def _refuse_mostly(self, seen: set[Shape], expected: frozenset[Shape], problem: str) -> None:
        if seen <= expected or (Shape.PADDED in seen and expected is _NUMBERS):
            return  # padded digits are identifiers such as postcodes
        present = self.counts[1:].sum()
        fitting = sum(int(self.counts[shape]) for shape in expected)
        if fitting * 2 > present:
            advice = (
                "though most values of the column are; correct it, leave it empty, or declare the column Categorical"
            )
            self._refuse(seen - expected, f"{problem}, {advice}")

    def _refuse(self, shapes: set[Shape], problem: str) -> None:
        first = min((self.first_seen[shape] for shape in shapes if shape in self.first_seen), key=_position)
        origin, index, text = first
        with located(origin, self.name):
            raise CellError(index, f"{shown(text)} {problem}")


def _all_int64(wholes: pa.Array) -> bool:
    try:
        _cast_texts(pc.utf8_ltrim(wholes, characters="+"), pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _position(seen: tuple[Origin, int, str]) -> int:
    return seen[0].first_row + seen[1]


def shapes_of(values: pa.Array) -> NDArray[np.int8]:
    """The shape of each text of a small array; each pattern is only tried on what is left by those before it."""
    shapes = np.full(len(values), Shape.OTHER, np.int8)
    missing = pc.is_in(values, value_set=pa.array(MISSING_WORDS, values.type)).to_numpy(zero_copy_only=False)
    shapes[missing] = Shape.MISSING
    left = np.flatnonzero(~missing)
    for shape, pattern in _PATTERNS.items():
        if not len(left):
            break
        matches = pc.match_substring_regex(values.take(pa.array(left)), pattern).to_numpy(zero_copy_only=False)
        shapes[left[matches]] = shape
        left = left[~matches]
    return shapes


def parse(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Texts as values of a type; raises `CellError` for the first text that is not one."""
    if pa.types.is_string(data_type):
        return texts.cast(pa.string())
    coded = texts.dictionary_encode()
    values = _trimmed(coded.dictionary.cast(pa.string()))
    shapes = shapes_of(values)
    fits = np.isin(shapes, _accepted_shapes(data_type))
    cleaned = pc.if_else(pa.array(fits), values, pa.scalar(None, pa.string()))
    parsed, failed = _converted(cleaned, data_type)
    wrong = (~fits & (shapes != Shape.MISSING)) | failed
    if wrong.any():
        _raise_first(coded, wrong, shapes, data_type)
    return parsed.take(coded.indices)


def _accepted_shapes(data_type: pa.DataType) -> list[int]:
    if pa.types.is_boolean(data_type):
        return [Shape.TRUTH, Shape.WHOLE]
    if pa.types.is_date(data_type):
        return [Shape.DATE]
    if pa.types.is_timestamp(data_type):
        return [Shape.MOMENT_WITH_ZONE] if data_type.tz else [Shape.DATE, Shape.MOMENT]
    if pa.types.is_integer(data_type):
        return [Shape.WHOLE, Shape.PADDED]
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        return [Shape.WHOLE, Shape.FRACTION, Shape.PADDED]
    return [shape for shape in Shape if shape is not Shape.MISSING]


def _converted(values: pa.Array, data_type: pa.DataType) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The converted values, and which of them Arrow refused (a 30th of February, a number too large)."""
    failed = np.zeros(len(values), bool)
    values = pc.utf8_ltrim(values, characters="+")
    while True:
        try:
            return _cast_texts(values, data_type), failed
        except pa.ArrowInvalid:
            index = _first_uncastable(values, data_type)
            failed[index] = True
            keep = np.ones(len(values), bool)
            keep[index] = False
            values = pc.if_else(pa.array(keep), values, pa.scalar(None, values.type))
            if failed.sum() >= 16:  # enough to report; the first of them in row order is near
                return pa.nulls(len(values), data_type), failed


def _cast_texts(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_floating(data_type):
        numbers = values.cast(pa.float64())
        finite = pc.is_finite(numbers)
        if not pc.all(finite, min_count=0).as_py():
            raise pa.ArrowInvalid("too large")
        return numbers.cast(data_type, safe=False)
    if pa.types.is_boolean(data_type):
        is_true = pc.is_in(values, value_set=pa.array(_TRUE))
        known = pc.is_in(values, value_set=pa.array([*_TRUE, *_FALSE, None]))
        if not pc.all(known, min_count=0).as_py():
            raise pa.ArrowInvalid("a whole number other than 0 and 1")
        return pc.if_else(values.is_valid(), is_true, pa.scalar(None, pa.bool_()))
    return values.cast(data_type)


def _first_uncastable(values: pa.Array, data_type: pa.DataType) -> int:
    def fails(part: pa.Array) -> bool:
        try:
            _cast_texts(part, data_type)
        except pa.ArrowInvalid:
            return True
        return False

    return first_failing(values, fails)


def _raise_first(coded: pa.Array, wrong: NDArray[np.bool_], shapes: NDArray[np.int8], data_type: pa.DataType) -> None:
    rows = coded.indices.fill_null(-1).to_numpy()
    index = int(np.flatnonzero(np.isin(rows, np.flatnonzero(wrong)))[0])
    value = int(rows[index])
    text = shown(coded.dictionary[value].as_py())
    if shapes[value] == Shape.INFINITE:
        raise CellError(index, f"{text} is infinite; give a finite number or leave it empty")
    raise CellError(index, f"{text} is not {_called(data_type)}")


def _called(data_type: pa.DataType) -> str:
    if pa.types.is_integer(data_type):
        return f"a whole number ({data_type})"
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        return "a number" if pa.types.is_floating(data_type) else f"a number that fits {data_type}"
    if pa.types.is_boolean(data_type):
        return "true or false"
    if pa.types.is_date(data_type):
        return "a date such as 2024-05-31"
    if pa.types.is_timestamp(data_type):
        return "a time such as 2024-05-31T12:00:00Z" if data_type.tz else "a time such as 2024-05-31T12:00:00"
    return f"a value of the type {data_type}"


def _trimmed(values: pa.Array) -> pa.Array:
    return pc.utf8_trim(values, characters=" \t")
