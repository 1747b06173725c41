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

FEW = 128  # for more numbers, merging is faster
LANES = 16
ROOM = LANES - 1  # behind the numbers: whole vectors are read and written, whatever is there
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
        codes, n, counts = _addresses(context, builder, signature, arguments)

        def tile(first):
            own = _load(builder, codes, first)
            smaller = _count(builder, codes, _I64(0), n, _NONE, lambda j, code: builder.icmp_signed("<", code, own))
            _store(builder, smaller, counts, first)

        _loop(builder, _I64(0), n, LANES, (), lambda first: tile(first) or ())
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def rank_all(typing_context, codes, n, ranks):
    """ranks[i] becomes the place of codes[i] among codes[:n] in ascending order; equal codes keep their order.

    codes, ranks: int32, C-contiguous, with ROOM behind the n numbers. Nothing is checked.
    """
    signature = types.void(codes, types.int64, ranks)

    def generate(context, builder, signature, arguments):
        codes, n, ranks = _addresses(context, builder, signature, arguments)
        lanes = ir.Constant(_VECTOR, list(range(LANES)))

        def tile(first):
            own = _load(builder, codes, first)
            end = builder.add(first, _I64(LANES))
            end = builder.select(builder.icmp_signed("<", end, n), end, n)

            def comes_before(j, code):  # among the tile's own codes
                earlier = builder.icmp_signed("<", _splat(builder, builder.trunc(builder.sub(j, first), _I32)), lanes)
                equal = builder.and_(builder.icmp_signed("==", code, own), earlier)
                return builder.or_(builder.icmp_signed("<", code, own), equal)

            rank = _count(builder, codes, _I64(0), first, _NONE, lambda j, code: builder.icmp_signed("<=", code, own))
            rank = _count(builder, codes, first, end, rank, comes_before)
            rank = _count(builder, codes, end, n, rank, lambda j, code: builder.icmp_signed("<", code, own))
            _store(builder, rank, ranks, first)

        _loop(builder, _I64(0), n, LANES, (), lambda first: tile(first) or ())
        return context.get_dummy_value()

    return signature, generate


_I32, _I64 = ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_I32, LANES)
_NONE = ir.Constant(_VECTOR, [0] * LANES)


def _addresses(context, builder, signature, arguments):
    """The addresses of the arrays' elements; other arguments as they are."""
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, arguments, strict=True)
    ]


def _loop(builder, begin, end, step, carried, body):
    """A loop over i = begin, begin + step, ... before `end`, maybe none; body(i, *carried) returns the next `carried`.

    Returns what is carried behind the loop.
    """
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "inside", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    i = builder.phi(_I64)
    values = [builder.phi(value.type) for value in carried]
    builder.cbranch(builder.icmp_signed("<", i, end), inside, after)
    builder.position_at_end(inside)
    following = body(i, *values)
    i.add_incoming(begin, before)
    i.add_incoming(builder.add(i, _I64(step)), builder.block)
    for phi, first, then in zip(values, carried, following, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(then, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return values


def _count(builder, codes, begin, end, counts, counted):
    """Add to `counts`, lane by lane, for how many j of begin .. end-1 the lanes of counted(j, codes[j]) are true."""

    def body(j, counts):
        code = _splat(builder, builder.load(builder.gep(codes, [j])))
        return (builder.add(counts, builder.zext(counted(j, code), _VECTOR)),)

    return _loop(builder, begin, end, 1, (counts,), body)[0]


def _splat(builder, value):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, _I32(0))
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), _NONE)


def _load(builder, array, at):
    return builder.load(builder.bitcast(builder.gep(array, [at]), _VECTOR.as_pointer()), align=4)


def _store(builder, vector, array, at):
    builder.store(vector, builder.bitcast(builder.gep(array, [at]), _VECTOR.as_pointer()), align=4)
