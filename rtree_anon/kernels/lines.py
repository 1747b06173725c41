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
from rtree_anon.kernels.vectors import ASK_TO_READ, I64, addresses, ask_for, loop, row_address, splat, vector_at

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
    word, shift, mask, below, missing = layout
    d = word.shape[0]
    n = end - begin
    rows = numbers[begin:end]
    for i in range(n):
        lines[i, d] = rows[i]
    if d >= LANES:  # the last vector overlaps with the one before it
        for first in range(0, d - LANES, LANES):
            _load_lanes(old, added, rows, n, word, shift, mask, below, missing, np.int64(first), lines)
        _load_lanes(old, added, rows, n, word, shift, mask, below, missing, np.int64(d - LANES), lines)
        return
    for i in range(n):
        behind = rows[i] - old.shape[0]
        for c in range(d):
            stored = old[rows[i], word[c]] if behind < 0 else added[behind, word[c]]
            stored = (stored >> shift[c]) & mask[c]
            lines[i, c] = missing[c] if stored == np.uint64(0) else np.int64(stored) + below[c]


@intrinsic
def expect_rows(typing_context, old, added, numbers, begin, end):
    """Ask for the rows numbers[begin:end] of `old` or `added`, which are soon to be loaded, while others are worked on.

    They lie where no processor would look ahead. Nothing is checked, and nothing comes of it but time.
    """
    signature = types.void(old, added, numbers, types.int64, types.int64)

    def generate(context, builder, signature, arguments):
        _, _, numbers, begin, end = addresses(context, builder, signature, arguments)
        row_of = _rows(context, builder, signature.args[:2], arguments[:2])

        def expect(i):
            ask_for(builder, row_of(builder.load(builder.gep(numbers, [i]))), ASK_TO_READ)
            return ()

        loop(builder, begin, end, 1, (), expect)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _load_lanes(typing_context, old, added, rows, n, word, shift, mask, below, missing, first, lines):
    """lines[i, first:first+LANES] becomes these columns of the row rows[i], for i < n. Nothing is checked."""
    signature = types.void(old, added, rows, types.int64, word, shift, mask, below, missing, types.int64, lines)

    def generate(context, builder, signature, arguments):
        _, _, rows, n, *layout, first, _ = addresses(context, builder, signature, arguments)
        word, shift, mask, below, missing = (
            builder.load(vector_at(builder, each, first, _WIDE), align=8) for each in layout
        )
        kinds = signature.args
        n_words = builder.extract_value(context.make_array(kinds[0])(context, builder, arguments[0]).shape, 1)
        row_of = _rows(context, builder, kinds[:2], arguments[:2])

        def load(i):
            own = row_of(builder.load(builder.gep(rows, [i])))

            def take(w, taken):
                here = splat(builder, builder.load(builder.gep(own, [w])), _WIDE)
                return (builder.select(builder.icmp_signed("==", word, splat(builder, w, _WIDE)), here, taken),)

            first_word = splat(builder, builder.load(own), _WIDE)
            (taken,) = loop(builder, I64(1), n_words, 1, (first_word,), take)
            stored = builder.and_(builder.lshr(taken, shift), mask)
            gap = builder.icmp_signed("==", stored, ir.Constant(_WIDE, [0] * LANES))
            code = builder.select(gap, missing, builder.add(stored, below))
            line = row_address(context, builder, kinds[10], arguments[10], i)
            builder.store(builder.trunc(code, _LINE), vector_at(builder, line, first, _LINE), align=4)
            return ()

        loop(builder, I64(0), n, 1, (), load)
        return context.get_dummy_value()

    return signature, generate


def _rows(context, builder, kinds, arrays):
    """A function from the number of a row, of two arrays one behind the other, to its address."""
    n_first = builder.extract_value(context.make_array(kinds[0])(context, builder, arrays[0]).shape, 0)

    def row_of(number):
        number = number if number.type == I64 else builder.sext(number, I64)
        behind = builder.sub(number, n_first)
        return builder.select(  # which one it is cannot be guessed
            builder.icmp_signed("<", behind, I64(0)),
            row_address(context, builder, kinds[0], arrays[0], number),
            row_address(context, builder, kinds[1], arrays[1], behind),
        )

    return row_of


_WIDE, _LINE = ir.VectorType(ir.IntType(64), LANES), ir.VectorType(ir.IntType(32), LANES)
