"""What groups cover, axis by axis, in the codes of the space: the step between boxes of the tree and released values.

A tight box comes from the kernels and is translated here. A region is what cuts leave of the domain, and comes from the
tree in memory or, leaf by leaf, from an index. Missing values are told apart here: bounds speak of the values that are
present, and of whether some or all are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.io.coding import Coder, ContinuousCoder
from rtree_anon.io.values import float_bits
from rtree_anon.kernels import gauge as g
from rtree_anon.release.columns import ALL, NONE, SOME
from rtree_anon.space import Kind
from rtree_anon.tree.build import Boxes, Grouping, LeafTree
from rtree_anon.tree.grid import Codes, Grid

MISSING_BIT = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class Bounds:
    """What groups cover on one axis, one entry per group.

    On a SET axis `mask` has a bit per category, and the last one for missing values. On others `first` and `last` are
    codes of the space (both `missing_code` where all values are missing), and `missing` is NONE, SOME or ALL; it is
    None where the axis has no missing values at all.
    """

    first: Codes
    last: Codes
    missing: NDArray[np.uint8] | None = None
    mask: NDArray[np.uint64] | None = None


@dataclass(frozen=True, eq=False)
class Regions:
    """The regions of leaves in codes of the space: (n_leaves, axes), ends inclusive.

    A region that takes in missing values begins with their code; one of missing values alone also ends with it. On a
    SET axis `mask` counts, one column per axis of the space (as in `Bounds`), and `lo` and `hi` do not.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    mask: NDArray[np.uint64]


def tight_bounds(
    tree: LeafTree, boxes: Boxes, in_order: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[Bounds, ...]:
    """The bounds of groups from their tight boxes; `in_order` are the places of the tree's rows, group after group."""
    grid = tree.grid
    found = []
    for number, axis in enumerate(grid.space.axes):
        column = grid.column_of_axis[number]
        if axis.kind == Kind.SET:
            found.append(_of_masks(boxes.mask[:, column - grid.gauge.n_linear]))
            continue
        lo, hi, missing = boxes.lo[:, column], boxes.hi[:, column], None
        if axis.has_missing:
            missing = np.where(hi == g.MISSING, ALL, np.where(lo == g.MISSING, SOME, NONE)).astype(np.uint8)
            lo = _lowest_present(tree.rows[:, column], in_order, sizes, lo, hi)
        if grid.ranks[number] is None and grid.missing == g.MISSING:  # kernel codes are the codes of the space
            found.append(Bounds(lo, hi, missing))
        else:
            found.append(Bounds(grid.codes_of(number, lo), grid.codes_of(number, hi), missing))
    return tuple(found)


def region_bounds(grid: Grid, regions: Regions, grouping: Grouping) -> tuple[Bounds, ...]:
    """The bounds of groups from the regions of their leaves."""
    begins = np.concatenate(([0], grouping.ends[:-1]))
    found = []
    for number, axis in enumerate(grid.space.axes):
        if axis.kind == Kind.SET:
            found.append(_of_masks(np.bitwise_or.reduceat(regions.mask[grouping.order, number], begins)))
            continue
        lo = np.minimum.reduceat(regions.lo[grouping.order, number], begins)
        hi = np.maximum.reduceat(regions.hi[grouping.order, number], begins)
        if not axis.has_missing:
            found.append(Bounds(lo, hi))
            continue
        lowest = np.maximum(lo, axis.lo)
        only_missing = hi < lowest  # a region below all values
        state = np.where(only_missing, ALL, np.where(lo == grid.missing, SOME, NONE)).astype(np.uint8)
        first, last = (np.where(only_missing, grid.missing, ends) for ends in (lowest, hi))
        found.append(Bounds(first, last, state))
    return tuple(found)


def tree_regions(tree: LeafTree, coders: Sequence[Coder]) -> Regions:
    """The regions of the leaves of a tree in memory.

    On an axis of ranks a rank stands for all values from its own to just below the next one: cuts are made at values
    that occur, and a region that ended at such a value would tell more than the cut does.
    """
    grid, boxes = tree.grid, tree.regions
    shape = tree.n_leaves, len(grid.space)
    regions = Regions(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.uint64))
    for number, axis in enumerate(grid.space.axes):
        column = grid.column_of_axis[number]
        if axis.kind == Kind.SET:
            regions.mask[:, number] = boxes.mask[:, column - grid.gauge.n_linear]
            continue
        lo, hi, ranks = boxes.lo[:, column], boxes.hi[:, column], grid.ranks[number]
        if ranks is not None and len(ranks):
            regions.lo[:, number], regions.hi[:, number] = _ends_of_ranks(grid, number, coders[number], lo, hi)
        else:
            regions.lo[:, number], regions.hi[:, number] = grid.codes_of(number, lo), grid.codes_of(number, hi)
    return regions


def _of_masks(mask: NDArray[np.uint64]) -> Bounds:
    unused = np.zeros(len(mask), np.int64)
    return Bounds(unused, unused, None, mask)


def _lowest_present(
    codes: NDArray[np.int32],
    in_order: NDArray[np.int64],
    sizes: NDArray[np.int64],
    lo: NDArray[np.int32],
    hi: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Per group the lowest code that is not MISSING (MISSING where there is none)."""
    mixed = (lo == g.MISSING) & (hi != g.MISSING)
    if not mixed.any():
        return lo
    found = codes[in_order[np.repeat(mixed, sizes)]]
    lifted = np.where(found == g.MISSING, np.int32(2**31 - 1), found)
    lowest = lo.copy()
    lowest[mixed] = np.minimum.reduceat(lifted, np.cumsum(sizes[mixed]) - sizes[mixed])
    return lowest


def _ends_of_ranks(
    grid: Grid, number: int, coder: Coder, lo: NDArray[np.int32], hi: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes where regions of ranks begin and end: regions touch, and reach to the ends of the domain."""
    axis, ranks = grid.space.axes[number], grid.ranks[number]
    assert ranks is not None
    begins = np.concatenate(([axis.lo], ranks[1:]))
    ends = np.concatenate((codes_below(coder, ranks[1:]), [axis.hi]))
    # Below rank 0 there are missing values only.
    first = np.where(lo < 0, grid.missing, begins[np.maximum(lo, 0)])
    return first, np.where(hi < 0, grid.missing, ends[np.maximum(hi, 0)])


def codes_below(coder: Coder, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The codes of the values just below: of the floats of the attribute's own type, or of the next whole number."""
    if not isinstance(coder, ContinuousCoder):
        return codes - 1
    floats = coder.decode(codes).to_numpy(zero_copy_only=False)
    return float_bits(np.nextafter(floats, floats.dtype.type(-np.inf)).astype(np.float64))
