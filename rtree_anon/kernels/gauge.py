"""The gauge: how kernels measure the width of a box, as flat arrays.

Kernels see every row as int32 codes, in an order of columns of their own: first the LINEAR axes, then the MASK axes,
then the rest, so that loops over one kind are plain loops. Widths are in units of the certainty penalty (Definition 4
of the R+-tree paper): 1/sum(weights) times weight times the share of the domain, so that a box over the whole domain
has width 1.

    LINEAR   (hi - lo) * scale
    MASK     (number of bits set - 1) * scale; bit 63 stands for "missing"
    GAPPED   LINEAR with missing values (code MISSING)
    TABLE    position[hi] - position[lo]: codes are ranks of values that are not evenly spaced; may have missing values
    TREE     width of the lowest common ancestor of lo and hi in a hierarchy; may have missing values

A box that mixes missing and present values on an axis has the axis's full width there.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment, call-arg, unreachable"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rtree_anon.kernels.jit import lean_inlined, lean_kernel

LINEAR, MASK, GAPPED, TABLE, TREE = 0, 1, 2, 3, 4
MISSING = np.int32(-(2**31))
MISSING_BIT = np.uint64(63)  # on a MASK axis a missing value has the code 63


class Gauge(NamedTuple):
    """Arrays of length d (axes) unless said otherwise; axis order is the kernels' own."""

    n_linear: int  # axes 0 .. n_linear-1 are LINEAR
    n_masked: int  # axes n_linear .. n_masked-1 are MASK; the rest are GAPPED, TABLE or TREE
    kind: NDArray[np.uint8]
    scale: NDArray[np.float64]  # width of one step (LINEAR, GAPPED) or of one more category (MASK)
    full: NDArray[np.float64]  # width of the whole axis
    offset: NDArray[np.int64]  # TABLE, TREE: where the axis begins in `position` or `ancestor`
    position: NDArray[np.float64]  # TABLE: rank -> value, in units of width; concatenated
    ancestor: NDArray[np.int32]  # TREE: (levels, categories) of each such axis, row-major; concatenated
    below: NDArray[np.float64]  # TREE: width of the ancestor at the same place of `ancestor`
    n_levels: NDArray[np.int64]  # TREE
    n_leaves: NDArray[np.int64]  # TREE


@intrinsic
def popcount(typing_context, bits):
    """Number of bits set, as one machine instruction."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def lowest_bit(typing_context, bits):
    """The number of the lowest bit that is set, of at least one."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@lean_inlined
def mask_width(gauge, a, mask):
    """Width of a set of categories: that of the whole axis if a value is missing beside others."""
    steps = np.int64(popcount(mask)) - 1
    gap = (mask >> MISSING_BIT != np.uint64(0)) & (steps > 0)
    return gauge.full[a] if gap else steps * gauge.scale[a]


@lean_kernel
def range_width(gauge, a, lo, hi):
    """Width of the codes lo..hi on an axis that is not a MASK."""
    if lo == hi:
        return 0.0
    kind = gauge.kind[a]
    if kind == LINEAR:
        return (np.int64(hi) - np.int64(lo)) * gauge.scale[a]
    if lo == MISSING:
        return gauge.full[a]
    if kind == GAPPED:
        return (np.int64(hi) - np.int64(lo)) * gauge.scale[a]
    base = gauge.offset[a]
    if kind == TABLE:
        return gauge.position[base + hi] - gauge.position[base + lo]
    leaves = gauge.n_leaves[a]
    for level in range(1, gauge.n_levels[a]):
        here = base + level * leaves
        if gauge.ancestor[here + lo] == gauge.ancestor[here + hi]:
            return gauge.below[here + lo]
    return gauge.full[a]


@lean_inlined
def box_width(gauge, lo, hi, mask):
    """Width of a box: `lo`, `hi` int32[d] (not read on MASK axes), `mask` uint64[number of MASK axes]."""
    width = 0.0
    for a in range(gauge.n_linear):
        width += (np.int64(hi[a]) - np.int64(lo[a])) * gauge.scale[a]
    for a in range(gauge.n_linear, gauge.n_masked):
        width += mask_width(gauge, a, mask[a - gauge.n_linear])
    for a in range(gauge.n_masked, gauge.kind.shape[0]):
        width += range_width(gauge, a, lo[a], hi[a])
    return width
