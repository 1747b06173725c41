"""The last look at a release before anybody sees it. It shares no code with what made the groups.

From the original codes, the order of the rows and the groups' sizes alone it establishes that every row is released
exactly once, that every group has at least k rows, and that every row's values lie inside what its group's columns are
made of; from the carried columns, that every group satisfies the privacy model, as the independent checker measures it.
Plain NumPy on the original matrix, no kernels: each row is compared with the bounds of its group, in blocks and in
threads, so that the time does not depend on the number of groups.

Releases of one tree at several k can share the look at the rows (`VerifiedLeaves`): where every row lies inside the
bounds of its leaf, and these inside the bounds of its group, it lies inside those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.checking import check_groups
from rtree_anon.errors import PrivacyError
from rtree_anon.io.table import CodedTable
from rtree_anon.models import Model
from rtree_anon.release.bounds import Bounds
from rtree_anon.release.columns import ALL, NONE
from rtree_anon.space import missing_code

_BLOCK_ROWS = 1 << 16  # with fewer, threads wait for each other between the steps
_NOT_EVERY_ROW = "the groups do not hold every row exactly once"
_ROWS_PER_THREAD = 1 << 18  # fewer rows than that are not worth a second thread


@dataclass(frozen=True, eq=False)
class VerifiedLeaves:
    """Leaves whose rows, leaf after leaf in the order of `row_numbers`, were all seen to lie inside their bounds."""

    bounds: Sequence[Bounds]
    row_numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(
        cls, table: CodedTable, bounds: Sequence[Bounds], row_numbers: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> VerifiedLeaves:
        """Look at every row; `PrivacyError` where one lies outside."""
        verify_groups(table, bounds, row_numbers, sizes, 1)
        return cls(bounds, row_numbers, sizes)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """How many rows there are up to the end of each leaf."""
        return np.cumsum(self.sizes)


def verify_groups(
    table: CodedTable,
    bounds: Sequence[Bounds],
    row_numbers: NDArray[np.int64],
    sizes: NDArray[np.int64],
    k: int,
    leaves: VerifiedLeaves | None = None,
) -> None:
    """Raise `PrivacyError` unless the groups are a valid release at k; that would be a bug, and nothing is released.

    With `leaves`, rows that are in their order are not looked at again.
    """
    if len(sizes) == 0 or int(sizes.min()) < k:
        raise _refused(f"a group has fewer than k={k} rows")
    if leaves is not None and leaves.row_numbers is row_numbers:
        outside = _first_axis_outside_leaves(leaves, bounds, sizes)
        if outside is not None:
            raise _refused(f"a value of {table.space.axes[outside].name!r} lies outside its group's generalized value")
        return
    if len(row_numbers) != table.n_rows or int(sizes.sum()) != table.n_rows:
        raise _refused(_NOT_EVERY_ROW)
    limits = np.iinfo(table.codes.dtype)
    for axis, each in zip(table.space.axes, bounds, strict=True):
        if each.mask is not None or each.first.dtype == each.last.dtype == table.codes.dtype:
            continue
        if each.first.max() > limits.max or each.last.min() < limits.min:
            raise _refused(f"a generalized value of {axis.name!r} holds no value at all, so that one lies outside")
    inside = _Inside(table, bounds, row_numbers, sizes)
    starts = range(0, table.n_rows, _BLOCK_ROWS)
    if table.n_rows <= _ROWS_PER_THREAD:
        _require_every_row(row_numbers)
        outside = next((axis for axis in map(inside.first_axis_outside, starts) if axis is not None), None)
    else:
        with ThreadPoolExecutor() as pool:
            every_row = pool.submit(_require_every_row, row_numbers)
            found = pool.map(inside.first_axis_outside, starts, chunksize=1)
            every_row.result()  # before what looks at rows by their numbers
            outside = next((axis for axis in list(found) if axis is not None), None)
    if outside is not None:
        name = table.space.axes[outside].name
        raise _refused(f"a value of {name!r} lies outside its group's generalized value")


def _require_every_row(row_numbers: NDArray[np.int64]) -> None:
    n_rows = len(row_numbers)
    if int(row_numbers.min()) < 0 or not (np.bincount(row_numbers, minlength=n_rows) == 1).all():
        raise _refused(_NOT_EVERY_ROW)


def verify_model(
    table: CodedTable,
    model: Model,
    row_numbers: NDArray[np.int64],
    sizes: NDArray[np.int64],
    table_values: Mapping[str, tuple[pa.ChunkedArray, NDArray[np.int64]]],
) -> None:
    """Raise `PrivacyError` unless every group satisfies the model; that would be a bug, and nothing is released.

    `table_values` are those of the whole table (values, rows of each) where `table` is only a part of it.
    """
    group_of_row = np.empty(table.n_rows, np.int64)
    group_of_row[row_numbers] = np.repeat(np.arange(len(sizes)), sizes)
    identity = table.schema.identity
    columns = {name: table.payload.column(name) for name in model.columns}
    people = None if identity is None else table.payload.column(identity)
    unmet = first_unmet(model, group_of_row, len(sizes), columns, people, table_values)
    if unmet is not None:
        raise _refused(f"it does not satisfy {model}: {unmet}")


def first_unmet(
    model: Model,
    group_of_row: NDArray[np.int64],
    n_groups: int,
    columns: Mapping[str, pa.ChunkedArray],
    people: pa.ChunkedArray | None,
    table_values: Mapping[str, tuple[pa.ChunkedArray, NDArray[np.int64]]],
) -> str | None:
    """What some group lacks to satisfy a model, as the independent checker measures it; None where nothing does."""
    found = check_groups(group_of_row, n_groups, columns, people, table_values).unmet(model.demands())
    return found[0].rstrip(".") if found else None


def _first_axis_outside_leaves(
    leaves: VerifiedLeaves, bounds: Sequence[Bounds], sizes: NDArray[np.int64]
) -> int | None:
    """The number of an axis on which a leaf lies outside the bounds of its group; None if none does."""
    ends = np.cumsum(sizes)
    last_leaf = np.minimum(np.searchsorted(leaves.ends, ends), len(leaves.ends) - 1)
    if int(ends[-1]) != int(leaves.ends[-1]) or not (leaves.ends[last_leaf] == ends).all():
        raise _refused("the groups do not consist of whole leaves, which hold every row exactly once")
    n_leaves = np.diff(last_leaf, prepend=-1)
    for axis, (leaf, group) in enumerate(zip(leaves.bounds, bounds, strict=True)):
        if leaf.mask is not None or group.mask is not None:
            if leaf.mask is None or group.mask is None or (leaf.mask & ~np.repeat(group.mask, n_leaves)).any():
                return axis
            continue
        outside = (leaf.first < np.repeat(group.first, n_leaves)) | (leaf.last > np.repeat(group.last, n_leaves))
        if leaf.missing is not None and group.missing is not None:
            outside &= leaf.missing != ALL
            outside |= (leaf.missing != NONE) & np.repeat(group.missing == NONE, n_leaves)
        elif leaf.missing is not None:  # the group says that nothing is missing
            outside |= leaf.missing != NONE
        if outside.any():
            return axis
    return None


class _Inside:
    """Whether rows lie inside the bounds of their groups, for blocks of rows in group order."""

    def __init__(
        self, table: CodedTable, bounds: Sequence[Bounds], row_numbers: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> None:
        self._codes, self._bounds, self._row_numbers = table.codes, bounds, row_numbers
        self._in_input_order = bool((row_numbers == np.arange(len(row_numbers))).all())  # a segment of an index
        self._group_ends = np.cumsum(sizes)
        self._missing = missing_code(table.codes.dtype)

    def first_axis_outside(self, start: int) -> int | None:
        """The number of an axis on which a row of the block that begins here lies outside; None if none does."""
        stop = min(start + _BLOCK_ROWS, len(self._row_numbers))
        first_group, last_group = np.searchsorted(self._group_ends, (start, stop - 1), "right")
        groups = slice(int(first_group), int(last_group) + 1)
        sizes_here = np.diff(np.minimum(self._group_ends[groups], stop), prepend=start)
        group = np.repeat(np.arange(len(sizes_here)), sizes_here)
        lo, hi = self._corners(groups, len(sizes_here))
        # Whole rows at once: to fetch one column after the other by row number took four times as long.
        if self._in_input_order:
            rows = self._codes[start:stop]
        else:
            rows = self._codes.take(self._row_numbers[start:stop], axis=0)
        outside = (rows < lo.take(group, axis=0)) | (rows > hi.take(group, axis=0))
        for axis, each in enumerate(self._bounds):
            if each.mask is not None:
                codes = np.where(rows[:, axis] == self._missing, 63, rows[:, axis]).astype(np.uint64)
                outside[:, axis] = (each.mask[groups][group] >> codes) & np.uint64(1) == 0
            elif each.missing is not None:
                is_missing, first = rows[:, axis] == self._missing, each.first[groups][group]
                may_miss = each.missing[groups][group] != NONE
                outside[:, axis] |= np.where(is_missing, ~may_miss, rows[:, axis] < first)
        return int(outside.any(axis=0).argmax()) if outside.any() else None

    def _corners(self, groups: slice, n_groups: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Lowest and highest codes of some groups, one row each; no limits where the axis is looked at by itself."""
        dtype = self._codes.dtype
        lo = np.full((n_groups, len(self._bounds)), self._missing, dtype)
        hi = np.full((n_groups, len(self._bounds)), np.iinfo(dtype).max, dtype)
        for axis, each in enumerate(self._bounds):
            if each.mask is None:
                hi[:, axis] = each.last[groups]
                if each.missing is None:
                    lo[:, axis] = each.first[groups]
        return lo, hi


def _refused(what: str) -> PrivacyError:
    return PrivacyError(
        f"The release was checked before it was handed out, and {what}. Nothing was released. This is a bug in "
        "rtree-anon: please report it with the schema and the options that you used."
    )
