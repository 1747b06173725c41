"""Boxes of eight axes at a time: loops over vectors of floats, written for LLVM because it does not find them itself.

The innermost loop of every exact search runs along sorted rows and keeps the box around all rows so far. With eight
axes side by side that is one vector minimum and one maximum per row; the compiler makes sixteen comparisons of plain
code. LLVM breaks the vectors down to what the processor has, so this is not tied to one.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 8


@intrinsic
def sweep_boxes(typing_context, points, order, begin, end, step, widths):
    """Add to widths[i] the width of the box around points[order[begin]], ..., points[order[i]].

    For i = begin, begin + step, ... before `end`, at least once. points: float32 (rows, LANES), C-contiguous; order:
    uint32; widths: float64. Nothing is checked.
    """
    signature = types.void(points, order, types.int64, types.int64, types.int64, widths)

    def generate(context, builder, signature, arguments):
        points, order, begin, end, step, widths = (
            _data(context, builder, kind, value) for kind, value in zip(signature.args, arguments, strict=True)
        )

        def keep(i, lo, hi):
            at = builder.gep(widths, [i])
            width = builder.fpext(_sum(builder, builder.fsub(hi, lo)), ir.DoubleType())
            builder.store(builder.fadd(builder.load(at), width), at)

        _loop_over_boxes(builder, points, order, begin, end, step, keep)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def box_sides(typing_context, points, order, begin, end, sides):
    """sides[lane] becomes the width of points[order[begin]], ..., points[order[end - 1]] (at least one) on each axis.

    points: float32 (rows, LANES), C-contiguous; order: uint32; sides: float32 [LANES]. Nothing is checked.
    """
    signature = types.void(points, order, types.int64, types.int64, sides)

    def generate(context, builder, signature, arguments):
        points, order, begin, end, sides = (
            _data(context, builder, kind, value) for kind, value in zip(signature.args, arguments, strict=True)
        )
        one = ir.Constant(ir.IntType(64), 1)
        lo, hi = _loop_over_boxes(builder, points, order, begin, end, one, lambda i, lo, hi: None)
        builder.store(builder.fsub(hi, lo), builder.bitcast(sides, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def box_of_rows(typing_context, rows, begin, end, first, lo, hi, box):
    """lo[box] and hi[box], from column `first` on, become the least and most of LANES columns of rows[begin:end].

    There is at least one row. rows, lo, hi: int32, with contiguous rows. Nothing is checked.
    """
    signature = types.void(rows, types.int64, types.int64, types.int64, lo, hi, types.int64)

    def generate(context, builder, signature, arguments):
        kinds, (rows, begin, end, first, lo, hi, box) = signature.args, arguments

        def vector(kind, array, row):
            made = context.make_array(kind)(context, builder, array)
            step = builder.extract_value(made.strides, 0)
            bytes_ = builder.gep(builder.bitcast(made.data, _BYTES), [builder.mul(row, step)])
            at = builder.gep(builder.bitcast(bytes_, ir.IntType(32).as_pointer()), [first])
            return builder.bitcast(at, _WHOLE.as_pointer())

        def row(i):
            return builder.load(vector(kinds[0], rows, i), align=4)

        before, loop, after = (builder.append_basic_block(name) for name in ("before_rows", "rows", "after_rows"))
        builder.branch(before)
        builder.position_at_end(before)
        least_of_all = row(begin)
        builder.branch(loop)
        builder.position_at_end(loop)
        i, least, most = builder.phi(begin.type), builder.phi(_WHOLE), builder.phi(_WHOLE)
        here = row(i)
        lower = builder.select(builder.icmp_signed("<", here, least), here, least)
        upper = builder.select(builder.icmp_signed(">", here, most), here, most)
        following = builder.add(i, ir.Constant(begin.type, 1))
        for phi, at_first, then in ((i, begin, following), (least, least_of_all, lower), (most, least_of_all, upper)):
            phi.add_incoming(at_first, before)
            phi.add_incoming(then, loop)
        builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
        builder.position_at_end(after)
        builder.store(lower, vector(kinds[4], lo, box), align=4)
        builder.store(upper, vector(kinds[5], hi, box), align=4)
        return context.get_dummy_value()

    return signature, generate


_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_WHOLE = ir.VectorType(ir.IntType(32), LANES)
_BYTES = ir.IntType(8).as_pointer()


def _data(context, builder, kind, value):
    """The address of an array's elements; other arguments as they are."""
    return context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value


def _loop_over_boxes(builder, points, order, begin, end, step, body):
    """A loop over i that calls body(i, lo, hi) with the box around the points so far; the box around all of them."""
    vectors = builder.bitcast(points, _VECTOR.as_pointer())

    def point(i):
        row = builder.zext(builder.load(builder.gep(order, [i])), ir.IntType(64))
        return builder.load(builder.gep(vectors, [row]), align=4)

    before = builder.append_basic_block("before_boxes")
    loop = builder.append_basic_block("boxes")
    after = builder.append_basic_block("after_boxes")
    builder.branch(before)
    builder.position_at_end(before)
    first = point(begin)
    builder.branch(loop)
    builder.position_at_end(loop)
    i, lo, hi = builder.phi(begin.type), builder.phi(_VECTOR), builder.phi(_VECTOR)
    here = point(i)
    lower = builder.select(builder.fcmp_ordered("<", here, lo), here, lo)
    upper = builder.select(builder.fcmp_ordered(">", here, hi), here, hi)
    body(i, lower, upper)
    following = builder.add(i, step)
    for phi, at_first, then in ((i, begin, following), (lo, first, lower), (hi, first, upper)):
        phi.add_incoming(at_first, before)
        phi.add_incoming(then, loop)
    forward = builder.icmp_signed(">", step, ir.Constant(step.type, 0))
    builder.cbranch(
        builder.select(forward, builder.icmp_signed("<", following, end), builder.icmp_signed(">", following, end)),
        loop,
        after,
    )
    builder.position_at_end(after)
    return lower, upper


def _sum(builder, vector):
    """The sum of a vector's lanes, halved again and again."""
    n = vector.type.count
    while n > 1:
        n //= 2
        nothing = ir.Constant(vector.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(vector, nothing, ir.Constant(ir.VectorType(ir.IntType(32), n), list(lanes)))
            for lanes in (range(n), range(n, 2 * n))
        )
        vector = builder.fadd(low, high)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))
