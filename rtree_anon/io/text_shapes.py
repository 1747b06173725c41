"""What a text looks like: a number, a date, a truth value, a word for "missing", or anything else.

Patterns are exact enough that a text of a typed shape can be converted (no 30th of February, no float that overflows).
Work is done on the distinct values of a batch, so that no row is looked at by Python.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "-NaN", "NULL", "null", "None", "none", "#N/A")
TRUE_WORDS, FALSE_WORDS = ("true", "True", "TRUE"), ("false", "False", "FALSE")


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


def trimmed(values: pa.Array) -> pa.Array:
    """The texts without blanks around them."""
    return pc.utf8_trim(values, characters=" \t")


def shapes_of(values: pa.Array) -> NDArray[np.int8]:
    """The shape of each trimmed text; each pattern is only tried on what is left by those before it."""
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
