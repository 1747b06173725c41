"""How many of a few numbers are smaller than each of them: sorting without branches, and medians without sorting.

Sixteen numbers at a time are compared with one number after the other, in vectors that are written for LLVM because it
does not find them itself (as in lanes.py). That takes n comparisons per number, but no guess of the processor can be
wrong: up to a hundred numbers or so nothing is faster (measured against insertion sort, merging and numba's quicksort).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, unreachable"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtree_anon.kernels.jit import lean_inlined
from rtree_anon.kernels.vectors import I32, I64, addresses, loop, splat

FEW = 128  # for more numbers, merging is faster
LANES = 16
ROOM = LANES  # behind the numbers: whole vectors are read and written, whatever is there
_INDEX_BITS = 20
_INDEX_MASK = (1 << _INDEX_BITS) - 1
_NOWHERE = np.int64(2**63 - 1)


@lean_inlined
def cut_few_near(codes, m, k, twice, counts):
    """The cut of codes[:m], a few, with k of them on both sides that is nearest to `twice` / 2 of them on the left.

    Returns how many are on the left, 0 where there is no cut, and the smallest code on the right; `counts` is scratch
    space. A cut before a code has all smaller codes on its left: nothing has to be sorted.
    """
    count_smaller(codes, m, counts)
    nearest = _NOWHERE
    for i in range(m):
        left = np.int64(counts[i])
        found = (abs(2 * left - twice) << 40) | (left << _INDEX_BITS) | i  # the smaller left side wins a tie
        nearest = min(nearest, found if k <= left <= m - k else _NOWHERE)
    if nearest == _NOWHERE:
        return np.int64(0), np.int32(0)
    return (nearest >> _INDEX_BITS) & _INDEX_MASK, codes[nearest & _INDEX_MASK]


@intrinsic
def count_smaller(typing_context, codes, n, counts):
    """counts[i] becomes the number of codes[:n] that are smaller than codes[i], for i < n.

    codes, counts: int32, C-contiguous, with ROOM behind the n numbers. Nothing is checked.
    """
    signature = types.void(codes, types.int64, counts)

    def generate(context, builder, signature, arguments):
        codes, n, counts = addresses(context, builder, signature, arguments)

        def tile(first):
            own = _load(builder, codes, first)
            smaller = _count(builder, codes, I64(0), n, _NONE, lambda j, code: builder.icmp_signed("<", code, own))
            _store(builder, smaller, counts, first)

        loop(builder, I64(0), n, LANES, (), lambda first: tile(first) or ())
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def rank_all(typing_context, codes, n, ranks):
    """ranks[i] becomes the place of codes[i] among codes[:n] in ascending order; equal codes keep their order.

    codes, ranks: int32, C-contiguous, with ROOM behind the n numbers, which is overwritten. Nothing is checked. Tiles
    are compared with whole tiles, so that no short loop ends where it was not guessed to end.
    """
    signature = types.void(codes, types.int64, ranks)

    def generate(context, builder, signature, arguments):
        codes, n, ranks = addresses(context, builder, signature, arguments)
        _store(builder, _LARGEST, codes, n)  # comes before nothing, being behind

        def compared(begin, rank, comes_before):
            for j in range(LANES):
                code = builder.load(builder.gep(codes, [builder.add(begin, I64(j))]))
                before = comes_before(j, splat(builder, code, _VECTOR))
                rank = builder.add(rank, builder.zext(before, _VECTOR))
            return (rank,)

        def tile(first):
            own = _load(builder, codes, first)

            def not_larger(begin, rank):
                return compared(begin, rank, lambda j, code: builder.icmp_signed("<=", code, own))

            def smaller(begin, rank):
                return compared(begin, rank, lambda j, code: builder.icmp_signed("<", code, own))

            def earlier(j, code):  # among the tile's own codes
                behind = ir.Constant(ir.VectorType(ir.IntType(1), LANES), [int(lane > j) for lane in range(LANES)])
                equal = builder.and_(builder.icmp_signed("==", code, own), behind)
                return builder.or_(builder.icmp_signed("<", code, own), equal)

            rank = loop(builder, I64(0), first, LANES, (_NONE,), not_larger)[0]
            rank = compared(first, rank, earlier)[0]
            rank = loop(builder, builder.add(first, I64(LANES)), n, LANES, (rank,), smaller)[0]
            _store(builder, rank, ranks, first)

        loop(builder, I64(0), n, LANES, (), lambda first: tile(first) or ())
        return context.get_dummy_value()

    return signature, generate


_VECTOR = ir.VectorType(I32, LANES)
_NONE = ir.Constant(_VECTOR, [0] * LANES)
_LARGEST = ir.Constant(_VECTOR, [2**31 - 1] * LANES)


def _count(builder, codes, begin, end, counts, counted):
    """Add to `counts`, lane by lane, for how many j of begin .. end-1 the lanes of counted(j, codes[j]) are true."""

    def body(j, counts):
        code = splat(builder, builder.load(builder.gep(codes, [j])), _VECTOR)
        return (builder.add(counts, builder.zext(counted(j, code), _VECTOR)),)

    return loop(builder, begin, end, 1, (counts,), body)[0]


def _load(builder, array, at):
    return builder.load(builder.bitcast(builder.gep(array, [at]), _VECTOR.as_pointer()), align=4)


def _store(builder, vector, array, at):
    builder.store(vector, builder.bitcast(builder.gep(array, [at]), _VECTOR.as_pointer()), align=4)
