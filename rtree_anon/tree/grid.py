"""From coded rows to what the kernels work on: an int32 matrix with its gauge, and back from kernel codes to codes.

The kernels want one type (int32), columns grouped by kind, and no gaps in categories. So columns are put in the order
LINEAR, MASK, rest; codes that do not fit in 32 bits, and floats, are replaced by the ranks of the values that occur
(exact, since a rank names a value); missing values on a MASK axis get the category 63. `Grid` remembers how to undo all
of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels import gauge as g
from rtree_anon.space import Axis, Kind, Space, missing_code

Codes = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Grid:
    """A space as the kernels see it."""

    space: Space
    gauge: g.Gauge
    axis_of_column: tuple[int, ...]  # kernel column -> axis of the space
    column_of_axis: tuple[int, ...]
    ranks: tuple[NDArray[np.int64] | None, ...]  # by axis: the codes that the ranks stand for, where ranks are used
    missing: int  # the code of a missing value in the space's own matrix

    @property
    def n_masks(self) -> int:
        return self.gauge.n_masked - self.gauge.n_linear

    def codes_of(self, axis: int, kernel_codes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Codes of the space for kernel codes of one axis (not a MASK axis)."""
        codes = kernel_codes.astype(np.int64)
        missing = kernel_codes == g.MISSING
        ranks = self.ranks[axis]
        if ranks is not None:
            codes = ranks[np.where(missing, 0, codes)] if len(ranks) else codes
        codes[missing] = self.missing
        return codes

    def lowest_code(self, axis: int) -> int:
        """The kernel code of the lowest value on an axis that is not a MASK."""
        return self.space.axes[axis].lo if self.ranks[axis] is None else 0

    def domain(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]:
        """The box of the whole domain, in kernel codes: where the regions of the tree begin."""
        d = len(self.space)
        lo, hi = np.zeros(d, np.int32), np.zeros(d, np.int32)
        mask = np.zeros(self.n_masks, np.uint64)
        for column, axis_number in enumerate(self.axis_of_column):
            axis, ranks = self.space.axes[axis_number], self.ranks[axis_number]
            if self.gauge.kind[column] == g.MASK:
                bits = (1 << axis.n_categories) - 1
                mask[column - self.gauge.n_linear] = bits | (1 << 63 if axis.has_missing else 0)
                continue
            last = axis.hi if ranks is None else len(ranks) - 1
            hi[column] = last if axis.lo <= axis.hi else g.MISSING  # no value at all: everything is missing
            lo[column] = g.MISSING if axis.has_missing else self.lowest_code(axis_number)
        return lo, hi, mask


def make_grid(codes: Codes, space: Space) -> tuple[Grid, NDArray[np.int32]]:
    """The grid of a coded table and its matrix for the kernels: (n, axes + 1), the last column numbering the rows."""
    n, d = codes.shape
    missing = missing_code(codes.dtype)
    ranks: list[NDArray[np.int64] | None] = [
        _distinct(codes[:, a], missing) if needs_ranks(axis) else None for a, axis in enumerate(space.axes)
    ]
    kinds = [_kernel_kind(axis, ranks[a] is not None) for a, axis in enumerate(space.axes)]
    by_kind = {g.LINEAR: 0, g.MASK: 1}
    axis_of_column = sorted(range(d), key=lambda a: (by_kind.get(kinds[a], 2), a))
    grid = Grid(
        space,
        _make_gauge(space, kinds, ranks, axis_of_column),
        tuple(axis_of_column),
        tuple(axis_of_column.index(a) for a in range(d)),
        tuple(ranks),
        missing,
    )
    rows = np.empty((n, d + 1), np.int32)
    for column, a in enumerate(axis_of_column):
        rows[:, column] = _kernel_codes(codes[:, a], space.axes[a], kinds[a], ranks[a], missing)
    rows[:, d] = np.arange(n, dtype=np.int32)
    return grid, rows


def needs_ranks(axis: Axis) -> bool:
    """Whether the kernels see ranks instead of the codes of this axis."""
    wide = axis.lo <= -(2**31) or axis.hi >= 2**31
    return axis.kind == Kind.FLOAT or (axis.kind in (Kind.LINEAR, Kind.SPAN) and wide)


def _kernel_kind(axis: Axis, ranked: bool) -> int:
    if axis.kind == Kind.SET:
        return g.MASK
    if axis.kind == Kind.TREE:
        return g.TREE
    if ranked:
        return g.TABLE
    return g.GAPPED if axis.has_missing else g.LINEAR


def _distinct(column: Codes, missing: int) -> NDArray[np.int64]:
    values: NDArray[np.int64] = np.unique(column).astype(np.int64)
    present: NDArray[np.int64] = values[values != missing]
    return present


def _kernel_codes(
    column: Codes, axis: Axis, kind: int, ranks: NDArray[np.int64] | None, missing: int
) -> NDArray[np.int32]:
    if ranks is not None:
        result: NDArray[np.int32] = np.searchsorted(ranks, column).astype(np.int32)
    elif column.dtype == np.int32 and missing == g.MISSING and kind != g.MASK:
        return column  # type: ignore[return-value]
    else:
        result = column.astype(np.int32)
    if axis.has_missing:
        result = np.where(column == missing, np.int32(63) if kind == g.MASK else g.MISSING, result)
    return result


def decode_floats(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Values of FLOAT codes: the inverse of the order-preserving map from float64 to int64."""
    bits = np.where(codes < 0, codes ^ np.int64(2**63 - 1), codes)
    values: NDArray[np.float64] = bits.view(np.float64)
    return values


def axis_positions(axis: Axis, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Where codes (none missing) lie on an axis with an order, as shares of its domain: `axis.lo` at 0, `hi` at 1."""
    if axis.kind == Kind.FLOAT:
        lo, hi = decode_floats(np.array([axis.lo, axis.hi], np.int64))
        # Halved first: the range of the largest floats overflows.
        span = hi / 2 - lo / 2
        return (decode_floats(codes) / 2 - lo / 2) / span if span > 0 else np.zeros(len(codes))
    # Differences first, modulo 2**64, which is exact: large numbers that are close are one and the same as floats.
    steps = codes.view(np.uint64) - np.uint64(axis.lo % 2**64)
    return steps.astype(np.float64) / float(axis.hi - axis.lo) if axis.hi > axis.lo else np.zeros(len(codes))


def _make_gauge(
    space: Space, kinds: list[int], ranks: list[NDArray[np.int64] | None], axis_of_column: list[int]
) -> g.Gauge:
    d = len(space)
    kind, scale, full = np.zeros(d, np.uint8), np.zeros(d), np.zeros(d)
    offset, n_levels, n_leaves = np.zeros(d, np.int64), np.zeros(d, np.int64), np.zeros(d, np.int64)
    positions: list[NDArray[np.float64]] = []
    ancestors: list[NDArray[np.int32]] = []
    below: list[NDArray[np.float64]] = []
    total_weight = sum(axis.weight for axis in space.axes)
    for column, a in enumerate(axis_of_column):
        axis = space.axes[a]
        kind[column] = kinds[a]
        full[column] = axis.weight / total_weight
        steps = axis.n_categories - 1 if axis.kind in (Kind.SET, Kind.SPAN, Kind.TREE) else axis.hi - axis.lo
        scale[column] = full[column] / steps if steps > 0 else 0.0
        if kinds[a] == g.TABLE:
            offset[column] = sum(map(len, positions))
            values = ranks[a]
            assert values is not None
            scale[column] = full[column] / (len(values) - 1) if len(values) > 1 else 0.0
            positions.append(axis_positions(axis, values) * full[column])
        elif kinds[a] == g.TREE:
            assert axis.ancestors is not None
            offset[column] = sum(map(len, ancestors))
            n_levels[column], n_leaves[column] = axis.ancestors.shape
            ancestors.append(axis.ancestors.ravel().astype(np.int32))
            below.append((leaves_below(axis.ancestors).ravel() - 1) * scale[column])
    masked = sum(k == g.MASK for k in kinds)
    linear = sum(k == g.LINEAR for k in kinds)
    return g.Gauge(
        linear,
        linear + masked,
        kind,
        scale,
        full,
        offset,
        np.concatenate(positions) if positions else np.zeros(0),
        np.concatenate(ancestors) if ancestors else np.zeros(0, np.int32),
        np.concatenate(below) if below else np.zeros(0),
        n_levels,
        n_leaves,
    )


def leaves_below(ancestors: NDArray[np.int32]) -> NDArray[np.float64]:
    """For every level and leaf: how many leaves the leaf's ancestor at that level has below it."""
    counts = [np.bincount(level)[level] for level in ancestors]
    return np.asarray(counts, np.float64)
