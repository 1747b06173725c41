"""What intrinsics that are written for LLVM share: addresses of arrays, rows of arrays, loops.

LLVM does not find the vectors in some innermost loops itself. Where that matters, such a loop is written down as LLVM
wants it (lanes.py, sides.py, ranks.py, lines.py); LLVM breaks the vectors down to what the processor has, so that
nothing is tied to one.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

I32, I64 = ir.IntType(32), ir.IntType(64)
ASK_TO_READ, ASK_TO_WRITE = 0, 1
_BYTES = ir.IntType(8).as_pointer()


def addresses(context, builder, signature, arguments):
    """The addresses of arrays' elements; other arguments as they are."""
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, arguments, strict=True)
    ]


def row_address(context, builder, kind, array, row):
    """Where a row of an array of two dimensions begins, whose rows are contiguous."""
    made = context.make_array(kind)(context, builder, array)
    step = builder.extract_value(made.strides, 0)
    bytes_ = builder.gep(builder.bitcast(made.data, _BYTES), [builder.mul(row, step)])
    return builder.bitcast(bytes_, made.data.type)


def vector_at(builder, data, first, vector):
    """The address of a vector that begins at element `first` of what is at the address `data`."""
    return builder.bitcast(builder.gep(data, [first]), vector.as_pointer())


def splat(builder, value, vector):
    """A vector with the same value in all lanes."""
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, value, I32(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(I32, vector.count), [0] * vector.count))


def picked(builder, one, other, lanes):
    """A vector of these lanes of two vectors; those of the second are numbered behind those of the first."""
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def loop(builder, begin, end, step, carried, body):
    """A loop over i = begin, begin + step, ... before `end`, maybe none; body(i, *carried) returns the next `carried`.

    Returns what is carried behind the loop.
    """
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "inside", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    i = builder.phi(I64)
    values = [builder.phi(value.type) for value in carried]
    builder.cbranch(builder.icmp_signed("<", i, end), inside, after)
    builder.position_at_end(inside)
    following = body(i, *values)
    i.add_incoming(begin, before)
    i.add_incoming(builder.add(i, I64(step)), builder.block)
    for phi, first, then in zip(values, carried, following, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(then, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return values


def ask_for(builder, address, purpose):
    """Ask for the memory at an address that is needed soon; nothing comes of it but time."""
    function_type = ir.FunctionType(ir.VoidType(), (_BYTES, I32, I32, I32))
    ask = builder.module.declare_intrinsic("llvm.prefetch", (_BYTES,), function_type)
    builder.call(ask, [builder.bitcast(address, _BYTES), I32(purpose), I32(3), I32(1)])  # to be kept close; data


@intrinsic
def expect_write(typing_context, array, place):
    """Ask for array[place], which is soon to be written. Nothing is checked, and nothing comes of it but time."""
    signature = types.void(array, place)

    def generate(context, builder, signature, arguments):
        data, place = addresses(context, builder, signature, arguments)
        ask_for(builder, builder.gep(data, [place]), ASK_TO_WRITE)
        return context.get_dummy_value()

    return signature, generate
