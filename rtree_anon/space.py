"""The space that rows live in: one axis per quasi-identifier, each coded to ordered whole numbers.

The tree, the releases and the quality measures see rows only as points of this space. An axis says how the width of a
range of codes is measured (Definition 4 of the R+-tree paper: the range of a number as a share of its domain, the
number of values of a category set, the leaves below a hierarchy's node), which is what splitting minimizes. Nothing
here knows about Arrow, files or text: `rtree_anon.io.coding` turns columns into codes and back.

Missing values have a code of their own, the smallest number of the matrix's type, so that they sort before every value
and a cut can separate them. A range that mixes missing and present values counts as fully generalized (width 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_SET_CATEGORIES = 63  # one bit of a 64-bit mask each; the last bit stands for "missing"


class Kind(IntEnum):
    """How an axis measures the width of what is released."""

    LINEAR = 0  # whole-number codes, affine in the value: integers, decimals, dates, timestamps, booleans
    FLOAT = 1  # float64 as order-preserving int64 bits; width is measured on the decoded values
    SET = 2  # categories released as a set, at most MAX_SET_CATEGORIES of them; width = distinct values
    SPAN = 3  # categories released as a set, but too many for a mask: splitting measures the span of codes
    TREE = 4  # categories released as the lowest common ancestor of a hierarchy; codes in depth-first order


@dataclass(frozen=True, eq=False)
class Axis:
    """One quasi-identifier as an axis.

    `lo` and `hi` are the smallest and the largest code of a value that is present (lo > hi where there is none).
    """

    name: str
    kind: Kind
    lo: int
    hi: int
    weight: float = 1.0
    has_missing: bool = False
    n_categories: int = 0  # SET, SPAN, TREE
    ordered: bool = False  # the order of the categories was given and means something
    ancestors: NDArray[np.int32] | None = None  # TREE: (levels, n_categories), level 0 is the identity


@dataclass(frozen=True, eq=False)
class Space:
    """The axes in the order of the matrix's columns."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return len(self.axes)


def missing_code(dtype: Any) -> int:
    """The code of a missing value in a matrix of this type."""
    return int(np.iinfo(dtype).min)
