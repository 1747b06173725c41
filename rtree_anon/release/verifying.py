"""The last look at a release before anybody sees it. It shares no code with what made the groups.

From the original codes, the order of the rows and the groups' sizes alone it establishes that every row is released
exactly once, that every group has at least k rows, and that every row's values lie inside its group's box. Plain NumPy
on the original matrix, no kernels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError
from rtree_anon.io.table import CodedTable
from rtree_anon.space import Kind
from rtree_anon.tree.build import Boxes
from rtree_anon.tree.grid import Grid


def verify_groups(
    table: CodedTable, grid: Grid, boxes: Boxes, row_numbers: NDArray[np.int64], sizes: NDArray[np.int64], k: int
) -> None:
    """Raise `PrivacyError` unless the groups are a valid release at k; that would be a bug, and nothing is released."""
    if len(sizes) == 0 or int(sizes.min()) < k:
        raise _refused(f"a group has fewer than k={k} rows")
    if int(sizes.sum()) != table.n_rows or not (np.bincount(row_numbers, minlength=table.n_rows) == 1).all():
        raise _refused("the groups do not hold every row exactly once")
    begins = np.cumsum(sizes) - sizes
    # Whole rows at once: to fetch one column after the other by row number took four times as long.
    rows = table.codes.take(row_numbers, axis=0)
    lowest, highest = np.minimum.reduceat(rows, begins, axis=0), np.maximum.reduceat(rows, begins, axis=0)
    for number, axis in enumerate(grid.space.axes):
        if axis.kind == Kind.SET:
            codes = rows[:, number]
            bits = np.uint64(1) << np.where(codes == grid.missing, 63, codes).astype(np.uint64)
            occurring = np.bitwise_or.reduceat(bits, begins)
            masks = boxes.mask[:, grid.column_of_axis[number] - grid.gauge.n_linear]
            outside = (occurring & ~masks) != 0
        else:
            column = grid.column_of_axis[number]
            lo, hi = grid.codes_of(number, boxes.lo[:, column]), grid.codes_of(number, boxes.hi[:, column])
            outside = (lowest[:, number] < lo) | (highest[:, number] > hi)
        if outside.any():
            raise _refused(f"a value of {axis.name!r} lies outside its group's generalized value")


def _refused(what: str) -> PrivacyError:
    return PrivacyError(
        f"The release was checked before it was handed out, and {what}. Nothing was released. This is a bug in "
        "rtree-anon: please report it with the schema and the options that you used."
    )
