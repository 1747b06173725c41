"""What a text looks like: a number, a date, a truth value, a word for "missing", or anything else.

Patterns are exact enough that a text of a typed shape can be converted (no 30th of February, no float that overflows).
Work is done on the distinct values of a batch where many rows share a value.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.io.cells import first_row_with

MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "-NaN", "NULL", "null", "None", "none", "#N/A")
TRUE_WORDS, FALSE_WORDS = ("true", "True", "TRUE"), ("false", "False", "FALSE")

_SAMPLE_ROWS = 2000
_MANY_DISTINCT = 0.97  # of a sample: about 30,000 values in all


class Shape(IntEnum):
    """The shape of one text; they are tried in this order."""

    MISSING = 0
    WHOLE = 1
    FRACTION = 2
    INFINITE = 3
    PADDED = 4  # digits with a leading zero: an identifier, not a quantity
    DATE = 5
    MOMENT = 6
    MOMENT_WITH_ZONE = 7
    CLOCK = 8
    TRUTH = 9
    OTHER = 10


NUMBERS = frozenset({Shape.WHOLE, Shape.FRACTION, Shape.INFINITE})
TIMES = frozenset({Shape.DATE, Shape.MOMENT, Shape.MOMENT_WITH_ZONE})

_YEAR = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
_LEAP_YEAR = r"(\d\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_LONG_MONTH_DAY = r"(0[13578]|1[02])-(0[1-9]|[12]\d|3[01])"
_SHORT_MONTH_DAY = r"(0[469]|11)-(0[1-9]|[12]\d|30)"
_DATE = rf"({_YEAR}-({_LONG_MONTH_DAY}|{_SHORT_MONTH_DAY}|02-(0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
_EXPONENT = r"[eE][+-]?(\d\d?|[12]\d\d)"
_PATTERNS = {
    Shape.WHOLE: r"^[+-]?(0|[1-9]\d*)$",
    # the lengths keep every such number below the largest float
    Shape.FRACTION: rf"^[+-]?((0|[1-9]\d{{0,299}})\.\d*|\.\d+|((0|[1-9]\d{{0,7}})(\.\d*)?|\.\d+){_EXPONENT})$",
    Shape.INFINITE: r"^[+-]?(?i:inf|infinity)$",
    Shape.PADDED: r"^[+-]?0\d+(\.\d*)?$",
    Shape.DATE: f"^{_DATE}$",
    Shape.MOMENT: f"^{_DATE}[T ]{_CLOCK}$",
    Shape.MOMENT_WITH_ZONE: f"^{_DATE}[T ]{_CLOCK}" + r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)$",
    Shape.CLOCK: f"^{_CLOCK}$",
    Shape.TRUTH: "^(" + "|".join(TRUE_WORDS + FALSE_WORDS) + ")$",
}


class DistinctTexts:
    """The texts of a batch, each once where that saves work.

    `values` are trimmed of blanks. A row's value is `values[indices[row]]`, or `values[row]` where `indices` is None
    because hardly any value repeats and a dictionary would cost more than it saves.
    """

    def __init__(self, texts: pa.Array) -> None:
        sample = texts.slice(0, _SAMPLE_ROWS)
        self._texts, self.indices = texts, None
        if len(sample) < _SAMPLE_ROWS or len(sample.unique()) < _MANY_DISTINCT * len(sample):
            coded = texts.dictionary_encode()
            self._texts, self.indices = coded.dictionary, coded.indices
        self.values = pc.utf8_trim(self._texts, characters=" \t")

    def counts(self) -> NDArray[np.int64]:
        """How many rows have each value."""
        if self.indices is None:
            present: NDArray[np.int64] = self.values.is_valid().cast(pa.int64()).to_numpy()
            return present
        return np.bincount(self.indices.drop_null().to_numpy(), minlength=len(self.values))

    def rows_of(self, converted: pa.Array) -> pa.Array:
        """A row for each text, from what the values were converted to."""
        return converted if self.indices is None else converted.take(self.indices)

    def first_row(self, wanted: NDArray[np.bool_]) -> tuple[int, str]:
        """The first row whose value is wanted, and its text as it was given."""
        if self.indices is None:
            place = row = int(np.argmax(wanted & (self.counts() > 0)))
        else:
            row = first_row_with(self.indices, wanted)
            place = self.indices[row].as_py()
        return row, self._texts[place].as_py()


def shapes_of(values: pa.Array) -> NDArray[np.int8]:
    """The shape of each trimmed text; each pattern is only tried on what is left by those before it."""
    values = values.fill_null("")
    shapes = np.full(len(values), Shape.OTHER, np.int8)
    missing = pc.is_in(values, value_set=pa.array(MISSING_WORDS, values.type)).to_numpy(zero_copy_only=False)
    shapes[missing] = Shape.MISSING
    left = np.flatnonzero(~missing)
    plain = _shapes_of_plain_numbers(values.take(pa.array(left)))
    if plain is not None:
        shapes[left] = plain
        return shapes
    for shape, pattern in _PATTERNS.items():
        if not len(left):
            break
        matches = pc.match_substring_regex(values.take(pa.array(left)), pattern).to_numpy(zero_copy_only=False)
        shapes[left[matches]] = shape
        left = left[~matches]
    return shapes


def _shapes_of_plain_numbers(values: pa.Array) -> NDArray[np.int8] | None:
    """The shapes where all texts are numbers without an exponent; None where they are not.

    Converting is several times faster than matching patterns, and most columns are numbers throughout.
    """
    try:
        values[:_SAMPLE_ROWS].cast(pa.float64())  # Arrow is slow to refuse, because it goes on to the last value
        numbers = values.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    if not pc.all(pc.is_finite(numbers), min_count=0).as_py() or any_has(values, "e") or any_has(values, "E"):
        return None
    has_point = pc.match_substring(values, ".").to_numpy(zero_copy_only=False)
    shapes = np.where(has_point, Shape.FRACTION, Shape.WHOLE).astype(np.int8)
    first = pc.utf8_slice_codeunits(values, 0, 1)
    suspects = np.flatnonzero(pc.is_in(first, value_set=pa.array(["0", "+", "-"])).to_numpy(zero_copy_only=False))
    padded = pc.match_substring_regex(values.take(pa.array(suspects)), _PATTERNS[Shape.PADDED])
    shapes[suspects[padded.to_numpy(zero_copy_only=False)]] = Shape.PADDED
    return shapes


def any_has(values: pa.Array, letter: str) -> bool:
    """Whether a letter occurs in any of the texts."""
    return bool(pc.any(pc.match_substring(values, letter), min_count=0).as_py())
