"""From the groups of a tree to a release: generalized columns from the groups' boxes, and the rows in group order.

A group's box is in kernel codes; here it becomes values again. On a MASK axis the mask is the released set. Where
there are too many categories for a mask, the set is collected from the group's rows; uncompacted it is the range of
the region. On a TREE axis the lowest common ancestor of the range of codes is that of the set, since codes are in
depth-first order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.io.coding import CategoryCoder, Coder
from rtree_anon.io.table import CodedTable
from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.multiplicity import log_multiplicities
from rtree_anon.release.columns import ALL, NONE, SOME, GroupColumn, IntervalColumn, LabelColumn, SetColumn
from rtree_anon.release.release import Release, Rows
from rtree_anon.release.verifying import verify_groups
from rtree_anon.space import Kind
from rtree_anon.tree.build import Boxes, LeafTree
from rtree_anon.tree.grid import axis_positions


def release_tree(
    table: CodedTable, tree: LeafTree, k: int, *, method: str = "optimal", compact: bool = True, name: str = "R+-tree"
) -> Release:
    """A release at k of a tree over the table: groups of whole leaves, verified before anybody sees them."""
    if k < tree.k:
        raise UsageError(f"k={k} is below the tree's own k={tree.k}; build it with a smaller base_k.")
    if table.n_rows < k:
        raise PrivacyError(
            f"{table.name}: {table.n_rows} rows cannot be released at k={k}: every group needs at least {k} rows. "
            "Use a smaller k or more rows."
        )
    grouping = tree.group(k, method)
    boxes = tree.group_boxes(grouping, compact)
    # Rows in group order: the leaves of a group one after the other.
    leaf_sizes = tree.sizes[grouping.order]
    leaf_ends = np.cumsum(leaf_sizes)
    sizes = np.diff(leaf_ends[grouping.ends - 1], prepend=0)
    places = np.repeat(tree.starts[grouping.order] - (leaf_ends - leaf_sizes), leaf_sizes) + np.arange(table.n_rows)
    in_order = tree.rows[places]
    row_numbers = in_order[:, -1].astype(np.int64)
    columns = tuple(
        _column(coder, tree, boxes, axis, in_order, sizes, compact, table.codes.dtype)
        for axis, coder in enumerate(table.coders)
    )
    schema = table.schema
    release = Release(
        columns,
        sizes,
        Rows(table.payload, row_numbers, schema.sensitive, schema.keep, schema.identity, schema.key),
        k=k,
        base_k=tree.k,
        method=method,
        compact=compact,
        algorithm=name,
        weights=tuple(schema.weight(column.name) for column in columns),
        log_multiplicity=lambda: float(log_multiplicities(tree.rows, tree.starts)),  # type: ignore[no-untyped-call]
        source=table.name,
    )
    verify_groups(table, tree.grid, boxes, row_numbers, sizes, k)
    return release


def _column(
    coder: Coder,
    tree: LeafTree,
    boxes: Boxes,
    axis_number: int,
    rows: NDArray[np.int32],
    sizes: NDArray[np.int64],
    compact: bool,
    table_type: np.dtype[Any],
) -> GroupColumn:
    grid = tree.grid
    axis = grid.space.axes[axis_number]
    column = grid.column_of_axis[axis_number]
    if axis.kind == Kind.SET:
        return _mask_set(coder, axis.has_missing, boxes.mask[:, column - grid.gauge.n_linear])
    lo, hi = boxes.lo[:, column], boxes.hi[:, column]
    state = None
    if axis.has_missing:
        if compact:
            lowest = _lowest_present(rows[:, column], sizes, lo)
        else:
            lowest = np.maximum(lo, np.int32(grid.lowest_code(axis_number)))
            hi = np.where(hi < lowest, g.MISSING, hi)  # a region below all values: missing ones only
        state = np.where(hi == g.MISSING, ALL, np.where(lo == g.MISSING, SOME, NONE)).astype(np.uint8)
        lo = np.where(state == ALL, g.MISSING, lowest)
    first, last = grid.codes_of(axis_number, lo), grid.codes_of(axis_number, hi)
    if axis.kind == Kind.TREE:
        return _tree_label(coder, state, first, last)
    if axis.kind == Kind.SPAN and compact:
        return _collected_set(coder, state, rows[:, column], sizes)
    blank = last == grid.missing
    where = np.where(blank, axis.lo, first), np.where(blank, axis.lo, last)
    shares = (
        (axis_positions(axis, where[1]) - axis_positions(axis, where[0])) if axis.lo <= axis.hi else np.zeros(len(lo))
    )
    if axis.kind == Kind.SPAN:
        shares = (where[1] - where[0]) / max(axis.n_categories - 1, 1)
    steps = (hi.astype(np.int64) - lo + 1).astype(np.float64)
    # The code of a missing value is that of the table's own type.
    lo_values, hi_values = (coder.decode(codes.astype(table_type)) for codes in (first, last))
    if pa.types.is_boolean(lo_values.type):
        return _boolean_set(coder, state, where[0], where[1])
    ranges_of_text = axis.kind == Kind.SPAN
    return IntervalColumn(axis.name, state, lo_values, hi_values, shares, np.where(blank, 1.0, steps), ranges_of_text)


def _lowest_present(codes: NDArray[np.int32], sizes: NDArray[np.int64], lo: NDArray[np.int32]) -> NDArray[np.int32]:
    """Per group the lowest code that is not MISSING (MISSING where there is none)."""
    if not (lo == g.MISSING).any():
        return lo
    highest = np.int32(2**31 - 1)
    lifted = np.where(codes == g.MISSING, highest, codes)
    lowest = np.minimum.reduceat(lifted, np.cumsum(sizes) - sizes)
    mixed: NDArray[np.int32] = np.where((lo == g.MISSING) & (lowest != highest), lowest, lo)
    return mixed


def _mask_set(coder: Coder, has_missing: bool, masks: NDArray[np.uint64]) -> SetColumn:
    assert isinstance(coder, CategoryCoder)
    missing_bit = np.uint64(1 << 63)
    present = masks & ~missing_bit
    state = None
    if has_missing:
        some = (masks & missing_bit) != 0
        state = np.where(some, np.where(present == 0, ALL, SOME), NONE).astype(np.uint8)
    distinct, index = np.unique(present, return_inverse=True)
    bits = (distinct[:, None] >> np.arange(63, dtype=np.uint64)) & np.uint64(1)
    members = np.nonzero(bits)[1].astype(np.int32)
    offsets = np.concatenate(([0], np.cumsum(bits.sum(axis=1)))).astype(np.int64)
    return SetColumn(coder.name, state, coder.values, index.astype(np.int32), offsets, members)


def _collected_set(
    coder: Coder, state: NDArray[np.uint8] | None, codes: NDArray[np.int32], sizes: NDArray[np.int64]
) -> SetColumn:
    """The distinct categories of every group's rows."""
    assert isinstance(coder, CategoryCoder)
    n_groups = len(sizes)
    group = np.repeat(np.arange(n_groups, dtype=np.int64), sizes)
    present = codes != g.MISSING
    width = max(len(coder.labels), 1)
    pairs = np.unique(group[present] * width + codes[present])
    offsets = np.searchsorted(pairs, np.arange(n_groups + 1, dtype=np.int64) * width)
    index = np.arange(n_groups, dtype=np.int32)
    return SetColumn(coder.name, state, coder.values, index, offsets, (pairs % width).astype(np.int32))


def _boolean_set(
    coder: Coder, state: NDArray[np.uint8] | None, lo: NDArray[np.int64], hi: NDArray[np.int64]
) -> SetColumn:
    """Booleans are shown as a set of one or two values."""
    index = np.where(lo == hi, lo, 2).astype(np.int32)
    domain = pa.array([False, True])
    return SetColumn(coder.name, state, domain, index, np.array([0, 1, 2, 4]), np.array([0, 1, 0, 1], np.int32))


def _tree_label(
    coder: Coder, state: NDArray[np.uint8] | None, first: NDArray[np.int64], last: NDArray[np.int64]
) -> LabelColumn:
    """The lowest common ancestor of the leaves first..last of every group."""
    assert isinstance(coder, CategoryCoder)
    hierarchy = coder.attribute.hierarchy
    assert hierarchy is not None
    bound = hierarchy.bind(coder.labels)
    n_leaves = len(bound.leaves)
    inside = (first >= 0) & (last >= 0)  # a group of missing values only shows no label; any will do
    lo, hi = np.where(inside, first, 0), np.where(inside, last, 0)
    level = np.full(len(lo), -1)
    node = np.zeros(len(lo), np.int64)
    for height, ancestors in enumerate(bound.ancestors):
        found = (level < 0) & (ancestors[lo] == ancestors[hi])
        level[found] = height
        node[found] = ancestors[lo[found]]
    distinct, index = np.unique(level * n_leaves + node, return_inverse=True)
    labels, begins, ends = [], [], []
    for code in distinct:
        height, ident = divmod(int(code), n_leaves)
        labels.append(bound.labels[height][ident])
        begins.append(int(np.searchsorted(bound.ancestors[height], ident, "left")))
        ends.append(int(np.searchsorted(bound.ancestors[height], ident, "right")))
    return LabelColumn(
        coder.name,
        state,
        pa.array(labels, pa.string()),
        index.astype(np.int32),
        pa.array(bound.leaves, pa.string()),
        np.array(begins, np.int64),
        np.array(ends, np.int64),
    )
