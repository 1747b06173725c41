"""Both sides of every cut of a sorted node, eight cuts at a time: their widths, and the cheapest of them.

A cut i has the rows order[:i] on its left and order[i:m] on its right, with at least k of them on both sides. Widths of
sides are arrays by i. They are filled for whole vectors of cuts from k on, so there is room for LANES more behind the
last one, and what is there means nothing. Eight boxes are measured together, and small nodes of different sizes take
the same turns through a loop, so that the processor guesses right where it ends. The loops are written for LLVM, as
those of lanes.py.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rtree_anon.kernels.vectors import I32, I64, addresses, loop, picked, row_address, splat, vector_at

LANES = 8
SETS = 2  # axes of categories whose sets are united by one instruction
ROOM = LANES  # behind the members in sorted order, their keys, and the widths of the two sides


@intrinsic
def sweep_sides(typing_context, points, order, m, k, more, left, right):
    """left[i] and right[i] become the widths of the boxes around the points of both sides, on LANES axes.

    If `more`, the widths are added to those that are there. points: float32 (rows, LANES), C-contiguous; order: uint32;
    left, right: float64. Nothing is checked. The room behind `order` is overwritten.
    """
    signature = types.void(points, order, types.int64, types.int64, types.boolean, left, right)

    def generate(context, builder, signature, arguments):
        points, order, m, k, more, left, right = addresses(context, builder, signature, arguments)
        points = builder.bitcast(points, _POINT.as_pointer())
        _fill_room(builder, order, m)

        def row(i):
            number = builder.zext(builder.load(builder.gep(order, [i])), I64)
            return builder.load(builder.gep(points, [number]), align=4)

        def grown(i, lo, hi):
            here = row(i)
            lower = builder.select(builder.fcmp_ordered("<", here, lo), here, lo)
            return lower, builder.select(builder.fcmp_ordered(">", here, hi), here, hi)

        def block(first, right_first, left_lo, left_hi, right_lo, right_hi):
            one, other = [], []
            for lane in range(LANES):
                left_lo, left_hi = grown(builder.add(first, I64(lane - 1)), left_lo, left_hi)
                right_lo, right_hi = grown(builder.add(right_first, I64(LANES - 1 - lane)), right_lo, right_hi)
                one.append(builder.fsub(left_hi, left_lo))
                other.append(builder.fsub(right_hi, right_lo))
            for widths, array, place in ((one, left, first), (other[::-1], right, right_first)):
                at = vector_at(builder, array, place, _DOUBLE)
                before = builder.select(more, builder.load(at, align=8), _NO_WIDTH)
                builder.store(builder.fadd(before, builder.fpext(_sums(builder, widths), _DOUBLE)), at, align=8)
            return left_lo, left_hi, right_lo, right_hi

        _loop_over_sides(builder, m, k, lambda i: (row(i),) * 2, grown, block)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def sweep_set_sides(typing_context, bits, order, m, k, axis, n_axes, scale, full, left, right):
    """Add to left[i] and right[i] the widths of the sets of categories of both sides, on SETS axes from `axis` on.

    Axes count if they are below n_axes. bits: uint64 (rows, SETS), C-contiguous, a row's category as a bit; order,
    left and right as for `sweep_sides`; scale, full: float64, as a gauge has them (gauge.py). Nothing is checked.
    """
    signature = types.void(bits, order, types.int64, types.int64, types.int64, types.int64, scale, full, left, right)

    def generate(context, builder, signature, arguments):
        bits, order, m, k, axis, n_axes, scale, full, left, right = addresses(context, builder, signature, arguments)
        bits = builder.bitcast(bits, _SETS.as_pointer())
        scale, full = (_of_sets(builder, array, axis, n_axes) for array in (scale, full))
        _fill_room(builder, order, m)

        def row(i):
            number = builder.zext(builder.load(builder.gep(order, [i])), I64)
            return builder.load(builder.gep(bits, [number]), align=8)

        def block(first, right_first, left_set, right_set):
            widths = []
            for lane in range(LANES):
                left_set = builder.or_(left_set, row(builder.add(first, I64(lane - 1))))
                right_set = builder.or_(right_set, row(builder.add(right_first, I64(LANES - 1 - lane))))
                both = picked(builder, left_set, right_set, range(2 * SETS))
                widths.append(_set_widths(builder, both, scale, full))
            by_axis = _transposed(builder, widths)
            for array, place, sides in (
                (left, first, by_axis[:SETS]),
                (right, right_first, [picked(builder, side, side, range(LANES)[::-1]) for side in by_axis[SETS:]]),
            ):
                at = vector_at(builder, array, place, _DOUBLE)
                total = builder.load(at, align=8)
                for side in sides:
                    total = builder.fadd(total, side)
                builder.store(total, at, align=8)
            return left_set, right_set

        def grown(i, united):
            return (builder.or_(united, row(i)),)

        _loop_over_sides(builder, m, k, lambda i: (row(i),), grown, block)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def cheapest_cut(typing_context, left, right, keys, worth, m, k, spare):
    """The cheapest cut between members with different keys, the first one of equals, and its price; -1 if none is.

    left, right: widths, float64; keys: int64; worth: float64 (3, ...), a part of `worth_table` in search.py. At most
    `spare` rows beyond a multiple of k are on the left. Nothing is checked.
    """
    signature = types.Tuple((types.int64, types.float64))(
        left, right, keys, worth, types.int64, types.int64, types.int64
    )

    def generate(context, builder, signature, arguments):
        left, right, keys, _, m, k, spare = addresses(context, builder, signature, arguments)
        rows = [row_address(context, builder, signature.args[3], arguments[3], I64(row)) for row in range(3)]
        length = builder.extract_value(context.make_array(signature.args[3])(context, builder, arguments[3]).shape, 1)
        turned = builder.sub(builder.sub(length, I64(ROOM + 1)), m)  # where a cut's right side is in the second row
        last = splat(builder, builder.sub(m, k), _LONG)
        most = splat(builder, builder.sitofp(spare, ir.DoubleType()), _DOUBLE)

        def load(array, place, vector=_DOUBLE):
            return builder.load(vector_at(builder, array, place, vector), align=8)

        def block(i, cheapest, where):
            cuts = builder.add(splat(builder, i, _LONG), _COUNTED)
            price = builder.fadd(
                builder.fmul(load(rows[0], i), load(left, i)),
                builder.fmul(load(rows[1], builder.add(turned, i)), load(right, i)),
            )
            differ = builder.icmp_signed("!=", load(keys, i, _LONG), load(keys, builder.sub(i, I64(1)), _LONG))
            allowed = builder.and_(differ, builder.icmp_signed("<=", cuts, last))
            allowed = builder.and_(allowed, builder.fcmp_ordered("<=", load(rows[2], i), most))
            better = builder.and_(allowed, builder.fcmp_ordered("<", price, cheapest))
            return builder.select(better, price, cheapest), builder.select(better, cuts, where)

        end = builder.add(builder.sub(m, k), I64(1))
        price, at = _least(builder, *loop(builder, k, end, LANES, (_DEAREST, _NOWHERE), block))
        return context.make_tuple(builder, signature.return_type, (at, price))

    return signature, generate


@intrinsic
def widest_axis(typing_context, widths, n):
    """Which one of the first n of `widths` is the largest, the first one of equals; -1 where none is above 0.

    widths: float64, with zeros up to a whole vector. Nothing is checked.
    """
    signature = types.int64(widths, types.int64)

    def generate(context, builder, signature, arguments):
        widths, n = addresses(context, builder, signature, arguments)

        def block(first, least, where):
            axes = builder.add(splat(builder, first, _LONG), _COUNTED)
            here = builder.fsub(_NO_WIDTH, builder.load(vector_at(builder, widths, first, _DOUBLE), align=8))
            wider = builder.fcmp_ordered("<", here, least)
            return builder.select(wider, here, least), builder.select(wider, axes, where)

        return _least(builder, *loop(builder, I64(0), n, LANES, (_NO_WIDTH, _NOWHERE), block))[1]

    return signature, generate


@intrinsic
def unite_sets(typing_context, bits, order, begin, end, united):
    """united[lane] becomes the union of bits[order[begin]], ..., bits[order[end - 1]] (at least one) on SETS axes.

    bits: uint64 (rows, SETS), C-contiguous; order: uint32; united: uint64 [SETS]. Nothing is checked.
    """
    signature = types.void(bits, order, types.int64, types.int64, united)

    def generate(context, builder, signature, arguments):
        bits, order, begin, end, united = addresses(context, builder, signature, arguments)
        bits = builder.bitcast(bits, _SETS.as_pointer())

        def unite(i, so_far):
            number = builder.zext(builder.load(builder.gep(order, [i])), I64)
            return (builder.or_(so_far, builder.load(builder.gep(bits, [number]), align=8)),)

        (found,) = loop(builder, begin, end, 1, (ir.Constant(_SETS, [0] * SETS),), unite)
        builder.store(found, builder.bitcast(united, _SETS.as_pointer()), align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def sets_of_members(typing_context, rows, members, begin, end, first, mask, run, place):
    """mask[run, place:place+SETS] becomes the sets of SETS columns from `first` on of rows[members[begin:end]].

    rows: int32, with contiguous rows of categories; members: uint32; mask: uint64. Nothing is checked.
    """
    signature = types.void(rows, members, types.int64, types.int64, types.int64, mask, types.int64, types.int64)

    def generate(context, builder, signature, arguments):
        _, members, begin, end, first, _, run, place = addresses(context, builder, signature, arguments)
        kinds, codes, one = signature.args, ir.VectorType(I32, SETS), ir.Constant(_SETS, [1] * SETS)

        def unite(i, so_far):
            number = builder.zext(builder.load(builder.gep(members, [i])), I64)
            row = row_address(context, builder, kinds[0], arguments[0], number)
            categories = builder.zext(builder.load(vector_at(builder, row, first, codes), align=4), _SETS)
            return (builder.or_(so_far, builder.shl(one, categories)),)

        (found,) = loop(builder, begin, end, 1, (ir.Constant(_SETS, [0] * SETS),), unite)
        row = row_address(context, builder, kinds[5], arguments[5], run)
        builder.store(found, vector_at(builder, row, place, _SETS), align=8)
        return context.get_dummy_value()

    return signature, generate


_POINT = ir.VectorType(ir.FloatType(), LANES)
_DOUBLE = ir.VectorType(ir.DoubleType(), LANES)
_LONG = ir.VectorType(I64, LANES)
_SETS = ir.VectorType(I64, SETS)
_BOTH = ir.VectorType(I64, 2 * SETS)
_BOTH_WIDE = ir.VectorType(ir.DoubleType(), 2 * SETS)
_NO_WIDTH = ir.Constant(_DOUBLE, [0.0] * LANES)
_DEAREST = ir.Constant(_DOUBLE, [float("inf")] * LANES)
_NOWHERE = ir.Constant(_LONG, [-1] * LANES)
_COUNTED = ir.Constant(_LONG, list(range(LANES)))


def _fill_room(builder, order, m):
    """The last member again in the room behind: it is in every right side, and so changes none."""
    last = builder.load(builder.gep(order, [builder.sub(m, I64(1))]))
    vector = ir.VectorType(I32, ROOM)
    builder.store(splat(builder, last, vector), vector_at(builder, order, m, vector), align=4)


def _loop_over_sides(builder, m, k, first, grown, block):
    """Vectors of cuts: those of the left side from k on, and at the same time those of the right side from behind.

    first(i) is what is carried for the row i alone, grown(i, *carried) with the row i; block(left cut, right cut,
    *carried for the left, *carried for the right) goes on through the rows of one vector for each side.
    """
    one = I64(1)
    n_blocks = builder.sdiv(builder.add(builder.sub(m, builder.add(k, k)), I64(LANES)), I64(LANES))
    length = builder.mul(n_blocks, I64(LANES))
    on_left = loop(builder, one, builder.sub(k, one), 1, first(I64(0)), grown)
    on_right = loop(builder, builder.add(k, length), m, 1, first(builder.sub(m, one)), grown)
    behind = builder.sub(builder.add(builder.add(k, k), length), I64(LANES))  # the sum of both sides' cuts

    def step(at, *carried):
        return block(at, builder.sub(behind, at), *carried)

    loop(builder, k, builder.add(k, length), LANES, (*on_left, *on_right), step)


def _sums(builder, vectors):
    """The sums of the lanes of LANES vectors as one vector: lanes 4 apart are added, then 2 apart, then neighbours."""
    halves = []
    for one, other in zip(vectors[:4], vectors[4:], strict=True):
        low = picked(builder, one, other, [0, 1, 2, 3, 8, 9, 10, 11])
        high = picked(builder, one, other, [4, 5, 6, 7, 12, 13, 14, 15])
        halves.append(builder.fadd(low, high))
    quarters = []
    for one, other in (halves[:2], halves[2:]):
        low = picked(builder, one, other, [0, 1, 8, 9, 4, 5, 12, 13])
        high = picked(builder, one, other, [2, 3, 10, 11, 6, 7, 14, 15])
        quarters.append(builder.fadd(low, high))
    even = picked(builder, *quarters, [0, 2, 8, 10, 4, 6, 12, 14])
    odd = picked(builder, *quarters, [1, 3, 9, 11, 5, 7, 13, 15])
    return builder.fadd(even, odd)


def _set_widths(builder, sets, scale, full):
    """The widths of sets of categories, as by `mask_width` in gauge.py: the bit of a missing value is the sign."""
    function_type = ir.FunctionType(_BOTH, [_BOTH])
    count = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.ctpop.v{2 * SETS}i64")
    steps = builder.sub(builder.call(count, [sets]), ir.Constant(_BOTH, [1] * (2 * SETS)))
    nothing = ir.Constant(_BOTH, [0] * (2 * SETS))
    widths = builder.fmul(builder.sitofp(steps, _BOTH_WIDE), scale)
    gap = builder.and_(builder.icmp_signed("<", sets, nothing), builder.icmp_signed(">", steps, nothing))
    return builder.select(gap, full, widths)


def _of_sets(builder, array, axis, n_axes):
    """array[axis + lane] for the SETS axes of both sides; 0 for axes that do not count."""
    vector = ir.Constant(_BOTH_WIDE, [0.0] * (2 * SETS))
    for lane in range(SETS):
        counted = builder.icmp_signed("<", builder.add(axis, I64(lane)), n_axes)
        place = builder.select(counted, builder.add(axis, I64(lane)), axis)
        value = builder.load(builder.gep(array, [place]))
        value = builder.select(counted, value, ir.Constant(ir.DoubleType(), 0.0))
        for side in range(2):
            vector = builder.insert_element(vector, value, I32(side * SETS + lane))
    return vector


def _transposed(builder, vectors):
    """LANES vectors of 2 * SETS lanes as 2 * SETS vectors of LANES lanes."""
    pairs = [picked(builder, *vectors[i : i + 2], range(4 * SETS)) for i in range(0, LANES, 2)]
    sides = []
    for first in (0, SETS):
        lanes = [lane for axis in (first, first + 1) for lane in (axis, axis + 4, axis + 8, axis + 12)]
        halves = [picked(builder, *pairs[i : i + 2], lanes) for i in (0, 2)]
        sides += [picked(builder, *halves, [*range(at, at + 4), *range(8 + at, 12 + at)]) for at in (0, 4)]
    return sides


def _least(builder, values, where):
    """The least lane of `values`, and the first `where` of the lanes that are as small."""
    least = values
    for distance in (4, 2, 1):
        moved = picked(builder, least, least, [lane ^ distance for lane in range(LANES)])
        least = builder.select(builder.fcmp_ordered("<", moved, least), moved, least)
    among = builder.select(builder.fcmp_ordered("==", values, least), where, ir.Constant(_LONG, [2**63 - 1] * LANES))
    for distance in (4, 2, 1):
        moved = picked(builder, among, among, [lane ^ distance for lane in range(LANES)])
        among = builder.select(builder.icmp_signed("<", moved, among), moved, among)
    return builder.extract_element(least, I32(0)), builder.extract_element(among, I32(0))
