"""From the groups of a tree to a release: generalized columns from the groups' boxes, and the rows in group order.

What a group covers (`bounds`) is in codes; here it becomes values again. On a SET axis the mask is the released set.
Where there are too many categories for a mask, the set is collected from the group's rows; uncompacted it is the range
of the region. On a TREE axis the lowest common ancestor of the range of codes is that of the set, since codes are in
depth-first order.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.io.coding import CategoryCoder, Coder, LinearCoder
from rtree_anon.io.table import CodedTable
from rtree_anon.kernels import gauge as g
from rtree_anon.kernels.widths import weigh_widths
from rtree_anon.release.bounds import MISSING_BIT, Bounds, Regions, region_bounds, tight_bounds, tree_regions
from rtree_anon.release.columns import ALL, NONE, SOME, GroupColumn, IntervalColumn, LabelColumn, SetColumn
from rtree_anon.release.guarantee import Guarantee
from rtree_anon.release.release import Release, Rows
from rtree_anon.release.texts import range_text
from rtree_anon.release.verifying import VerifiedLeaves, verify_groups, verify_model
from rtree_anon.schema import Boolean
from rtree_anon.space import Axis, Kind
from rtree_anon.tree.build import Grouping, LeafTree
from rtree_anon.tree.grid import Codes, axis_positions


def release_tree(
    table: CodedTable,
    tree: LeafTree,
    k: int,
    *,
    method: str = "optimal",
    compact: bool = True,
    name: str = "R+-tree",
    regions: Regions | None = None,
    guarantee: Guarantee | None = None,
    verified: VerifiedLeaves | None = None,
) -> Release:
    """A release at k of a tree over the table: groups of whole leaves, verified before anybody sees them.

    `guarantee` is what groups satisfy where that is more than k rows; k then counts what it says, rows or people.
    `regions` are those of the leaves, where the tree does not know them; only uncompacted releases need them.
    `verified` are the `verified_leaves` of the same table and tree, which several releases can share.
    """
    if k < tree.k:
        raise UsageError(f"k={k} is below the tree's own k={tree.k}; build it with a smaller base_k.")
    if table.n_rows < k:
        raise too_few_rows(table.name, table.n_rows, k)
    grouping = tree.group(k, method, None if guarantee is None else guarantee.constraint)
    sizes = np.diff(np.cumsum(tree.sizes[grouping.order])[grouping.ends - 1], prepend=0)
    # Rows in group order: the leaves of a group one after the other.
    places, row_numbers = tree.places(grouping.order), tree.numbers(grouping.order)
    if compact:
        bounds = tight_bounds(tree, tree.group_boxes(grouping), places, sizes)
    else:
        bounds = region_bounds(tree.grid, regions or tree_regions(tree, table.coders), grouping)
    columns = tuple(
        _column(coder, tree, axis, bounds[axis], places, sizes, compact) for axis, coder in enumerate(table.coders)
    )
    schema = table.schema
    release = Release(
        columns,
        sizes,
        Rows(table.payload, row_numbers, schema.sensitive, schema.keep, schema.identity, schema.key),
        k=k,
        base_k=tree.k,
        model=None if guarantee is None else str(guarantee.model),
        safe_together_at=None if guarantee is None else str(guarantee.base_model),
        demands=() if guarantee is None else guarantee.model.demands(),
        method=method,
        compact=compact,
        algorithm=name,
        weights=tuple(schema.weight(column.name) for column in columns),
        log_multiplicity=lambda: tree.log_multiplicity,
        source=table.name,
    )
    verify_groups(table, bounds, row_numbers, sizes, k, verified)
    if guarantee is not None:
        verify_model(table, guarantee.model, row_numbers, sizes, guarantee.table_values)
    return release


def verified_leaves(table: CodedTable, tree: LeafTree) -> VerifiedLeaves:
    """The tight bounds of the leaves in scan order, after a look at all rows."""
    order = tree.order
    leaves = tree.group_boxes(Grouping(order, np.arange(1, tree.n_leaves + 1)))
    sizes = tree.sizes[order]
    bounds = tight_bounds(tree, leaves, tree.places(order), sizes)
    return VerifiedLeaves.of(table, bounds, tree.numbers(order), sizes)


def too_few_rows(name: str, n_rows: int, k: int) -> PrivacyError:
    """The error for a table that no group of k rows can be made of."""
    return PrivacyError(
        f"{name}: {n_rows} rows cannot be released at k={k}: every group needs at least {k} rows. Use a smaller k or "
        "more rows."
    )


def _column(
    coder: Coder,
    tree: LeafTree,
    axis_number: int,
    bounds: Bounds,
    in_order: NDArray[np.int64],
    sizes: NDArray[np.int64],
    compact: bool,
) -> GroupColumn:
    """One quasi-identifier of the release; `in_order` are the places of the tree's rows, group after group."""
    grid = tree.grid
    axis, state = grid.space.axes[axis_number], bounds.missing
    if bounds.mask is not None:
        return _mask_set(coder, axis.has_missing, bounds.mask)
    if axis.kind == Kind.SPAN and compact:
        return _collected_set(coder, state, tree.rows[:, grid.column_of_axis[axis_number]][in_order], sizes)
    first, last = bounds.first, bounds.last
    if state is not None:  # a group of missing values only shows nothing here; any value will do
        first, last = (np.where(state == ALL, axis.lo, ends) for ends in (first, last))
    if axis.kind == Kind.TREE:
        return _tree_label(coder, state, first, last)
    if axis.kind == Kind.SPAN:
        return _category_range(coder, state, first, last)
    if isinstance(coder, LinearCoder) and isinstance(coder.attribute, Boolean):
        return _boolean_set(coder, state, first, last)

    def weighed(n_rows: NDArray[np.float64], cells: NDArray[np.float64]) -> tuple[float, float]:
        total, most = weigh_widths(first, last, n_rows, cells)
        return total / max(axis.hi - axis.lo, 1), most

    return IntervalColumn(
        axis.name,
        state,
        coder.decode(first),
        coder.decode(last),
        lambda: _shares_and_steps(axis, grid.ranks[axis_number], state, first, last),
        weighed if axis.kind != Kind.FLOAT and state is None and first.dtype == last.dtype == np.int32 else None,
    )


def _shares_and_steps(
    axis: Axis, ranks: NDArray[np.int64] | None, state: NDArray[np.uint8] | None, first: Codes, last: Codes
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The shares of the domain that lie between two codes (0 where it is a single value), and the numbers of values."""
    if first.dtype == np.int32:
        width = np.subtract(last, first, dtype=np.float64)
    else:
        width = (last - first).view(np.uint64).astype(np.float64)  # exact, where the difference needs 64 bits
    steps = width + 1.0
    if axis.kind == Kind.FLOAT and ranks is not None:
        n_values = np.searchsorted(ranks, last, "right") - np.searchsorted(ranks, first)
        steps = n_values.astype(np.float64)
    if state is not None:
        steps = np.where(state == ALL, 1.0, steps)
    if axis.lo >= axis.hi:
        return np.zeros(len(first)), steps
    if axis.kind == Kind.FLOAT:
        return axis_positions(axis, last.astype(np.int64)) - axis_positions(axis, first.astype(np.int64)), steps
    return width / float(axis.hi - axis.lo), steps


def _mask_set(coder: Coder, has_missing: bool, masks: NDArray[np.uint64]) -> SetColumn:
    assert isinstance(coder, CategoryCoder)
    present = masks & ~MISSING_BIT
    state = None
    if has_missing:
        some = (masks & MISSING_BIT) != 0
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


def _boolean_set(coder: Coder, state: NDArray[np.uint8] | None, lo: Codes, hi: Codes) -> SetColumn:
    """Booleans are shown as a set of one or two values."""
    index = np.where(lo == hi, lo, 2).astype(np.int32)
    domain = pa.array([False, True])
    return SetColumn(coder.name, state, domain, index, np.array([0, 1, 2, 4]), np.array([0, 1, 0, 1], np.int32))


def _category_range(coder: Coder, state: NDArray[np.uint8] | None, first: Codes, last: Codes) -> LabelColumn:
    """All categories from first to last of every group, in the order of the categories."""
    assert isinstance(coder, CategoryCoder)
    n = len(coder.labels)
    distinct, index = np.unique(first.astype(np.int64) * n + last, return_inverse=True)
    begins, ends = np.divmod(distinct, n)
    labels = coder.values.cast(pa.string())
    texts = range_text(labels.take(pa.array(begins)), labels.take(pa.array(ends)))
    return LabelColumn(coder.name, state, texts, index.astype(np.int32), coder.values, begins, ends + 1)


def _tree_label(coder: Coder, state: NDArray[np.uint8] | None, first: Codes, last: Codes) -> LabelColumn:
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
