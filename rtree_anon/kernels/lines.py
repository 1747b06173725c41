"""Packed rows as lines: the quasi-identifiers of a row side by side as the kernels want them, eight columns at a time.

A line is int32 (axes + 1), in the kernels' own order of columns; the last entry names the row. The words of a row hold
its columns at different shifts (rowwords.py), so a vector shifts and masks eight of them at once; the compiler takes
several instructions for each.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, unreachable"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rtree_anon.kernels.jit import lean_inlined
from rtree_anon.kernels.vectors import I64, addresses, loop, row_address, splat, vector_at

LANES = 8


class LineLayout(NamedTuple):
    """Where the columns of a line are in the words of a row: arrays with one entry per column of the line."""

    word: NDArray[np.int64]
    shift: NDArray[np.uint64]
    mask: NDArray[np.uint64]
    below: NDArray[np.int64]
    missing: NDArray[np.int64]  # what the kernels take for a missing value


@lean_inlined
def load_lines(old, added, numbers, begin, end, layout, lines):
    """lines[i] becomes the row numbers[begin + i]: one of `old`, or of `added`, which are numbered behind those."""
    for i in range(end - begin):
        number = numbers[begin + i]
        if number < old.shape[0]:
            _load_line(old, number, layout, lines, np.int64(i))
        else:
            _load_line(added, number - old.shape[0], layout, lines, np.int64(i))
        lines[i, lines.shape[1] - 1] = number


@lean_inlined
def _load_line(words, row, layout, lines, i):
    word, shift, mask, below, missing = layout
    d = word.shape[0]
    if d >= LANES:  # the last vector overlaps with the one before it
        for first in range(0, d - LANES, LANES):
            _load_lanes(words, row, word, shift, mask, below, missing, np.int64(first), lines, i)
        _load_lanes(words, row, word, shift, mask, below, missing, np.int64(d - LANES), lines, i)
        return
    for c in range(d):
        stored = (words[row, word[c]] >> shift[c]) & mask[c]
        lines[i, c] = missing[c] if stored == np.uint64(0) else np.int64(stored) + below[c]


@intrinsic
def _load_lanes(typing_context, words, row, word, shift, mask, below, missing, first, lines, i):
    """lines[i, first:first+LANES] becomes these columns of words[row]. Nothing is checked."""
    signature = types.void(words, types.int64, word, shift, mask, below, missing, types.int64, lines, types.int64)

    def generate(context, builder, signature, arguments):
        _, row, *layout, first, _, i = addresses(context, builder, signature, arguments)
        word, shift, mask, below, missing = (
            builder.load(vector_at(builder, each, first, _WIDE), align=8) for each in layout
        )
        kinds = signature.args
        n_words = builder.extract_value(context.make_array(kinds[0])(context, builder, arguments[0]).shape, 1)
        own = row_address(context, builder, kinds[0], arguments[0], row)

        def take(w, taken):
            here = splat(builder, builder.load(builder.gep(own, [w])), _WIDE)
            return (builder.select(builder.icmp_signed("==", word, splat(builder, w, _WIDE)), here, taken),)

        (taken,) = loop(builder, I64(0), n_words, 1, (ir.Constant(_WIDE, [0] * LANES),), take)
        stored = builder.and_(builder.lshr(taken, shift), mask)
        gap = builder.icmp_signed("==", stored, ir.Constant(_WIDE, [0] * LANES))
        code = builder.select(gap, missing, builder.add(stored, below))
        line = row_address(context, builder, kinds[8], arguments[8], i)
        builder.store(builder.trunc(code, _LINE), vector_at(builder, line, first, _LINE), align=4)
        return context.get_dummy_value()

    return signature, generate


_WIDE, _LINE = ir.VectorType(ir.IntType(64), LANES), ir.VectorType(ir.IntType(32), LANES)
