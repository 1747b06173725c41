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
from rtree_anon.io.coding import CategoryCoder, Coder, ContinuousCoder, LinearCoder
from rtree_anon.io.table import CodedTable
from rtree_anon.io.values import float_bits
from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.multiplicity import log_multiplicities
from rtree_anon.release.columns import ALL, NONE, SOME, GroupColumn, IntervalColumn, LabelColumn, SetColumn
from rtree_anon.release.release import Release, Rows
from rtree_anon.release.texts import range_text
from rtree_anon.release.verifying import verify_groups
from rtree_anon.schema import Boolean
from rtree_anon.space import Axis, Kind
from rtree_anon.tree.build import Boxes, LeafTree
from rtree_anon.tree.grid import Grid, axis_positions


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
    row_numbers = tree.rows[:, -1][places].astype(np.int64)
    columns = tuple(
        _column(coder, tree, boxes, axis, places, sizes, compact, table.codes.dtype)
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
    in_order: NDArray[np.int64],
    sizes: NDArray[np.int64],
    compact: bool,
    table_type: np.dtype[Any],
) -> GroupColumn:
    """One quasi-identifier of the release; `in_order` are the places of the tree's rows, group after group."""
    grid = tree.grid
    axis = grid.space.axes[axis_number]
    column = grid.column_of_axis[axis_number]
    if axis.kind == Kind.SET:
        return _mask_set(coder, axis.has_missing, boxes.mask[:, column - grid.gauge.n_linear])
    lo, hi, state = boxes.lo[:, column], boxes.hi[:, column], None
    if axis.has_missing:
        if compact:
            lowest = _lowest_present(tree.rows[:, column], in_order, sizes, lo)
        else:
            lowest = np.maximum(lo, np.int32(grid.lowest_code(axis_number)))
            hi = np.where(hi < lowest, g.MISSING, hi)  # a region below all values: missing ones only
        state = np.where(hi == g.MISSING, ALL, np.where(lo == g.MISSING, SOME, NONE)).astype(np.uint8)
        lo = np.where(state == ALL, g.MISSING, lowest)
    if axis.kind == Kind.SPAN and compact:
        return _collected_set(coder, state, tree.rows[:, column][in_order], sizes)
    first, last = grid.codes_of(axis_number, lo), grid.codes_of(axis_number, hi)
    ranks = grid.ranks[axis_number]
    if not compact and ranks is not None and len(ranks):
        first, last = _ends_of_region(grid, axis_number, coder, lo, hi)
    blank = last == grid.missing
    # A group of missing values only shows nothing here; any value will do.
    present = np.where(blank, axis.lo, first), np.where(blank, axis.lo, last)
    if axis.kind == Kind.TREE:
        return _tree_label(coder, state, *present)
    if axis.kind == Kind.SPAN:
        return _category_range(coder, state, *present)
    if isinstance(coder, LinearCoder) and isinstance(coder.attribute, Boolean):
        return _boolean_set(coder, state, *present)
    # The code of a missing value is that of the table's own type.
    lo_values, hi_values = (coder.decode(codes.astype(table_type)) for codes in (first, last))
    width = (last - first).view(np.uint64).astype(np.float64)  # exact, where the difference needs 64 bits
    steps = hi - lo.astype(np.float64) if axis.kind == Kind.FLOAT else width
    return IntervalColumn(
        axis.name, state, lo_values, hi_values, _shares(axis, *present, width), np.where(blank, 1.0, steps + 1.0)
    )


def _shares(
    axis: Axis, first: NDArray[np.int64], last: NDArray[np.int64], width: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The share of the domain that lies between two codes; 0 where the domain is a single value."""
    if axis.lo >= axis.hi:
        return np.zeros(len(first))
    if axis.kind == Kind.FLOAT:
        return axis_positions(axis, last) - axis_positions(axis, first)
    return np.where(first == last, 0.0, width / float(axis.hi - axis.lo))


def _ends_of_region(
    grid: Grid, axis_number: int, coder: Coder, lo: NDArray[np.int32], hi: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes where regions begin and end on an axis of ranks: regions touch, and reach to the ends of the domain.

    A rank stands for all values from its own to just below the next one: cuts are made at values that occur, and a
    region that ended at such a value would tell more than the cut does.
    """
    axis, ranks = grid.space.axes[axis_number], grid.ranks[axis_number]
    assert ranks is not None
    begins = np.concatenate(([axis.lo], ranks[1:]))
    ends = np.concatenate((_codes_below(coder, ranks[1:]), [axis.hi]))
    missing = hi == g.MISSING
    first, last = begins[np.where(missing, 0, lo)], ends[np.where(missing, 0, hi)]
    return np.where(missing, grid.missing, first), np.where(missing, grid.missing, last)


def _codes_below(coder: Coder, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The codes of the values just below: of the floats of the attribute's own type, or of the next whole number."""
    if not isinstance(coder, ContinuousCoder):
        return codes - 1
    floats = coder.decode(codes).to_numpy(zero_copy_only=False)
    return float_bits(np.nextafter(floats, floats.dtype.type(-np.inf)).astype(np.float64))


def _lowest_present(
    codes: NDArray[np.int32], in_order: NDArray[np.int64], sizes: NDArray[np.int64], lo: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Per group the lowest code that is not MISSING (MISSING where there is none)."""
    if not (lo == g.MISSING).any():
        return lo
    highest = np.int32(2**31 - 1)
    codes = codes[in_order]
    lifted = np.where(codes == g.MISSING, highest, codes)
    lowest = np.minimum.reduceat(lifted, np.cumsum(sizes) - sizes)
    return np.where(lo == g.MISSING, lowest, lo)


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


def _category_range(
    coder: Coder, state: NDArray[np.uint8] | None, first: NDArray[np.int64], last: NDArray[np.int64]
) -> LabelColumn:
    """All categories from first to last of every group, in the order of the categories."""
    assert isinstance(coder, CategoryCoder)
    n = len(coder.labels)
    distinct, index = np.unique(first * n + last, return_inverse=True)
    begins, ends = np.divmod(distinct, n)
    labels = coder.values.cast(pa.string())
    texts = range_text(labels.take(pa.array(begins)), labels.take(pa.array(ends)))
    return LabelColumn(coder.name, state, texts, index.astype(np.int32), coder.values, begins, ends + 1)


def _tree_label(
    coder: Coder, state: NDArray[np.uint8] | None, first: NDArray[np.int64], last: NDArray[np.int64]
) -> LabelColumn:
    """The lowest common ancestor of the leaves first..last of every group."""
    assert isinstance(coder, CategoryCoder)
    bound = coder.tree
    assert bound is not None
    n_leaves = len(bound.leaves)
    level = np.full(len(first), -1)
    node = np.zeros(len(first), np.int64)
    for height, ancestors in enumerate(bound.ancestors):
        found = (level < 0) & (ancestors[first] == ancestors[last])
        level[found] = height
        node[found] = ancestors[first[found]]
    distinct, index = np.unique(level * n_leaves + node, return_inverse=True)
    heights, idents = np.divmod(distinct, n_leaves)
    labels = [bound.labels[height][ident] for height, ident in zip(heights, idents, strict=True)]
    ends = [
        np.searchsorted(bound.ancestors[height], [ident, ident + 1])
        for height, ident in zip(heights, idents, strict=True)
    ]
    begins, stops = np.array(ends, np.int64).T
    return LabelColumn(
        coder.name, state, pa.array(labels, pa.string()), index.astype(np.int32), coder.values, begins, stops
    )
