"""The cheapest last group of a division, of all that begin in a window: eight beginnings at a time, in vectors.

This is the innermost loop of the optimal leaf scan. Written for LLVM as in lanes.py: the compiler itself keeps neither
the widths of eight unions nor the best of them in registers while it goes from axis to axis.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WINDOW_LANES = 8


@intrinsic
def cheapest_group(typing_context, ends, tail, extra, best, before, bottom, first, end, rows, k1):
    """The least cost of a group that begins with block bottom + i, for i from 8 * first to 8 * end - 1; and the block.

    Of n axes, union i spans ends[i // 8, a, i % 8] to -ends[i // 8, n + a, i % 8] on axis a, and the tail tail[0, a] to
    -tail[0, n + a]. Both together are a group, whose width is the sum over the axes and extra[i]; it has `rows` rows
    less those before its beginning. The cost is that of the best division before it and its rows times its width.
    Groups of fewer than k1 rows do not count; where several cost the same, the shortest is taken. The cost is infinite
    where there is none. Union i takes in union i + 1, and is as wide or wider.

    ends: float64 (chunks, 2 * n, 8); the others float64, with eight numbers to read from every bottom + 8 * i on.
    Nothing is checked.
    """
    floats = types.float64
    signature = types.Tuple((floats, types.int64))(
        ends, tail, extra, best, before, types.int64, types.int64, types.int64, floats, floats
    )
    return signature, _generate


_FLOATS = ir.VectorType(ir.DoubleType(), WINDOW_LANES)
_INTS = ir.VectorType(ir.IntType(64), WINDOW_LANES)
_FLAGS = ir.IntType(WINDOW_LANES)  # one bit per lane


def _generate(context, builder, signature, arguments):
    n_ends = builder.extract_value(context.make_array(signature.args[0])(context, builder, arguments[0]).shape, 1)
    n_axes = builder.lshr(n_ends, ir.Constant(n_ends.type, 1))
    ends, tail, extra, best, before, bottom, first, end, rows, k1 = (
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, arguments, strict=True)
    )
    ends = builder.bitcast(ends, _FLOATS.as_pointer())
    rows, k1 = _everywhere(builder, rows), _everywhere(builder, k1)
    step = ir.Constant(_INTS, list(range(WINDOW_LANES)))
    infinite = ir.Constant(ir.DoubleType(), float("inf"))
    # Variables that become registers.
    least = cgutils.alloca_once_value(builder, ir.Constant(_FLOATS, [float("inf")] * WINDOW_LANES))
    begin = cgutils.alloca_once_value(builder, ir.Constant(_INTS, [-1] * WINDOW_LANES))
    least_of_all = cgutils.alloca_once_value(builder, infinite)
    at_least = cgutils.alloca_once_value(builder, ir.Constant(ir.DoubleType(), 0.0))
    width = cgutils.alloca_once(builder, _FLOATS)
    with cgutils.for_range(builder, builder.sub(end, first)) as chunks:
        chunk = builder.sub(builder.sub(end, ir.Constant(end.type, 1)), chunks.index)
        offset = builder.mul(chunk, ir.Constant(chunk.type, WINDOW_LANES))
        block = builder.add(bottom, offset)
        best_here = _eight(builder, best, block)
        rows_here = builder.fsub(rows, _eight(builder, before, block))
        # A longer group is no narrower: where that alone makes all eight too dear, nothing else is looked at.
        bound = builder.fadd(best_here, builder.fmul(rows_here, _everywhere(builder, builder.load(at_least))))
        promising = builder.fcmp_ordered("<", bound, _everywhere(builder, builder.load(least_of_all)))
        some = builder.icmp_unsigned("!=", builder.bitcast(promising, _FLAGS), ir.Constant(_FLAGS, 0))
        with builder.if_then(some):
            builder.store(_eight(builder, extra, offset), width)
            with cgutils.for_range(builder, n_axes) as axes:
                sides = []
                for side in (axes.index, builder.add(axes.index, n_axes)):
                    here = builder.load(builder.gep(ends, [builder.add(builder.mul(chunk, n_ends), side)]), align=8)
                    behind = _everywhere(builder, builder.load(builder.gep(tail, [side])))
                    sides.append(builder.select(builder.fcmp_ordered("<", here, behind), here, behind))
                builder.store(builder.fsub(builder.load(width), builder.fadd(*sides)), width)
            cost = builder.fadd(best_here, builder.fmul(rows_here, builder.load(width)))
            better = builder.and_(
                builder.fcmp_ordered(">=", rows_here, k1), builder.fcmp_ordered("<", cost, builder.load(least))
            )
            builder.store(builder.select(better, cost, builder.load(least)), least)
            here = builder.add(_everywhere(builder, block), step)
            builder.store(builder.select(better, here, builder.load(begin)), begin)
            builder.store(_folded(builder, builder.load(least), _lower(builder)), least_of_all)
            builder.store(builder.extract_element(builder.load(width), ir.Constant(ir.IntType(32), 0)), at_least)
    least, begin, lowest = builder.load(least), builder.load(begin), builder.load(least_of_all)
    none = ir.Constant(_INTS, [-1] * WINDOW_LANES)
    among = builder.select(builder.fcmp_ordered("==", least, _everywhere(builder, lowest)), begin, none)
    latest = _folded(builder, among, lambda a, b: builder.select(builder.icmp_signed(">", a, b), a, b))
    return context.make_tuple(builder, signature.return_type, (lowest, latest))


def _eight(builder, data, at):
    """Eight numbers of an array, from number `at` on."""
    return builder.load(builder.bitcast(builder.gep(data, [at]), _FLOATS.as_pointer()), align=8)


def _everywhere(builder, value):
    """A vector with the same value in all lanes."""
    kind = ir.VectorType(value.type, WINDOW_LANES)
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WINDOW_LANES), [0] * WINDOW_LANES)
    return builder.shuffle_vector(one, nothing, zeros)


def _lower(builder):
    return lambda a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _folded(builder, vector, both):
    """All lanes folded into one value by both(a, b), half by half."""
    n = WINDOW_LANES
    while n > 1:
        n //= 2
        nothing = ir.Constant(vector.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(vector, nothing, ir.Constant(ir.VectorType(ir.IntType(32), n), list(lanes)))
            for lanes in (range(n), range(n, 2 * n))
        )
        vector = both(low, high)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))
