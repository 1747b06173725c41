"""Boxes of eight axes at a time: loops over vectors of floats, written for LLVM because it does not find them itself.

With eight axes side by side a box grows by one vector minimum and one maximum per row; the compiler makes sixteen
comparisons of plain code. LLVM breaks the vectors down to what the processor has, so this is not tied to one.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtree_anon.kernels.vectors import addresses, loop, picked, row_address, splat, vector_at

LANES = 8


@intrinsic
def box_sides(typing_context, points, order, begin, end, sides):
    """sides[lane] becomes the width of points[order[begin]], ..., points[order[end - 1]] (at least one) on each axis.

    points: float32 (rows, LANES), C-contiguous; order: uint32; sides: float32 [LANES]. Nothing is checked.
    """
    signature = types.void(points, order, types.int64, types.int64, sides)

    def generate(context, builder, signature, arguments):
        points, order, begin, end, sides = addresses(context, builder, signature, arguments)
        points = builder.bitcast(points, _VECTOR.as_pointer())

        def row(i):
            number = builder.zext(builder.load(builder.gep(order, [i])), ir.IntType(64))
            return builder.load(builder.gep(points, [number]), align=4)

        def grow(i, lo, hi):
            here = row(i)
            lower = builder.select(builder.fcmp_ordered("<", here, lo), here, lo)
            return lower, builder.select(builder.fcmp_ordered(">", here, hi), here, hi)

        first = row(begin)
        lo, hi = loop(builder, begin, end, 1, (first, first), grow)
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
        given = kinds[0], rows, begin, end, first, (kinds[4], lo), (kinds[5], hi), box
        return _generate_box(context, builder, lambda i: i, *given)

    return signature, generate


@intrinsic
def box_of_members(typing_context, rows, members, begin, end, first, lo, hi, box):
    """As `box_of_rows`, of rows[members[begin]], ..., rows[members[end - 1]]; members: uint32."""
    signature = types.void(rows, members, types.int64, types.int64, types.int64, lo, hi, types.int64)

    def generate(context, builder, signature, arguments):
        kinds, (rows, members, begin, end, first, lo, hi, box) = signature.args, arguments
        numbers = context.make_array(kinds[1])(context, builder, members).data
        given = kinds[0], rows, begin, end, first, (kinds[5], lo), (kinds[6], hi), box

        def member(i):
            return builder.zext(builder.load(builder.gep(numbers, [i])), ir.IntType(64))

        return _generate_box(context, builder, member, *given)

    return signature, generate


@intrinsic
def points_of_rows(typing_context, rows, n, first, n_axes, scale, points):
    """points[i] becomes the axes from `first` on of rows[i], relative to rows[0], times their scale; i < n.

    Lanes of axes that are not below n_axes become 0. rows: int32, with contiguous rows; points: float32 (rows, LANES);
    scale: float64. Nothing is checked.
    """
    signature = types.void(rows, types.int64, types.int64, types.int64, scale, points)

    def generate(context, builder, signature, arguments):
        _, n, first, n_axes, scale, points = addresses(context, builder, signature, arguments)
        points = builder.bitcast(points, _VECTOR.as_pointer())
        factors = builder.load(vector_at(builder, scale, first, _DOUBLE), align=8)
        factors = builder.select(_lanes_below(builder, first, n_axes), factors, _NO_WIDTH)

        def row(i):
            address = row_address(context, builder, signature.args[0], arguments[0], i)
            return builder.sext(builder.load(vector_at(builder, address, first, _WHOLE), align=4), _LONG)

        origin = row(ir.Constant(ir.IntType(64), 0))

        def keep(i):
            steps = builder.sitofp(builder.sub(row(i), origin), _DOUBLE)
            point = builder.fptrunc(builder.fmul(steps, factors), _VECTOR)
            builder.store(point, builder.gep(points, [i]), align=4)
            return ()

        loop(builder, ir.Constant(ir.IntType(64), 0), n, 1, (), keep)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def union_of_lanes(typing_context, lo, hi, other_lo, other_hi, first, union_lo, union_hi):
    """The union of two boxes on LANES axes from `first` on; boxes are int32 [axes], contiguous. Nothing is checked."""
    signature = types.void(lo, hi, other_lo, other_hi, types.int64, union_lo, union_hi)

    def generate(context, builder, signature, arguments):
        *boxes, first, union_lo, union_hi = addresses(context, builder, signature, arguments)
        lower, upper = _union(builder, boxes, first)
        for side, array in ((lower, union_lo), (upper, union_hi)):
            builder.store(side, vector_at(builder, array, first, _WHOLE), align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def union_width_of_lanes(typing_context, lo, hi, other_lo, other_hi, first, n_axes, scale):
    """The width of the union of two boxes on LANES axes from `first` on, of which those below n_axes count.

    Boxes are int32 [axes], scale is float64 [axes], all contiguous. Nothing is checked.
    """
    signature = types.float64(lo, hi, other_lo, other_hi, types.int64, types.int64, scale)

    def generate(context, builder, signature, arguments):
        *boxes, first, n_axes, scale = addresses(context, builder, signature, arguments)
        lower, upper = (builder.sext(side, _LONG) for side in _union(builder, boxes, first))
        steps = builder.sitofp(builder.sub(upper, lower), _DOUBLE)
        widths = builder.fmul(steps, builder.load(vector_at(builder, scale, first, _DOUBLE), align=8))
        widths = builder.select(_lanes_below(builder, first, n_axes), widths, _NO_WIDTH)
        n = LANES
        while n > 1:
            n //= 2
            halves = [picked(builder, widths, widths, range(begin, begin + n)) for begin in (0, n)]
            widths = builder.fadd(*halves)
        return builder.extract_element(widths, ir.Constant(ir.IntType(32), 0))

    return signature, generate


def _lanes_below(builder, first, n_axes):
    """Which lanes, counted from `first` on, are axes below n_axes."""
    lanes = builder.add(splat(builder, first, _LONG), ir.Constant(_LONG, list(range(LANES))))
    return builder.icmp_signed("<", lanes, splat(builder, n_axes, _LONG))


def _union(builder, boxes, first):
    """lo and hi of the union of two boxes, at the addresses lo, hi, other lo, other hi, on LANES axes."""
    lo, hi, other_lo, other_hi = (builder.load(vector_at(builder, side, first, _WHOLE), align=4) for side in boxes)
    lower = builder.select(builder.icmp_signed("<", other_lo, lo), other_lo, lo)
    upper = builder.select(builder.icmp_signed(">", other_hi, hi), other_hi, hi)
    return lower, upper


def _generate_box(context, builder, number, kind, rows, begin, end, first, lo, hi, box):
    """The box of the rows number(begin), ..., number(end - 1), from column `first` on."""

    def vector(kind, array, row):
        return vector_at(builder, row_address(context, builder, kind, array, row), first, _WHOLE)

    def row(i):
        return builder.load(vector(kind, rows, number(i)), align=4)

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
    for side, (kind, array) in ((lower, lo), (upper, hi)):
        builder.store(side, vector(kind, array, box), align=4)
    return context.get_dummy_value()


_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_WHOLE = ir.VectorType(ir.IntType(32), LANES)
_LONG = ir.VectorType(ir.IntType(64), LANES)
_DOUBLE = ir.VectorType(ir.DoubleType(), LANES)
_NO_WIDTH = ir.Constant(_DOUBLE, [0.0] * LANES)
