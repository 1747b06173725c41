"""Routing: which bucket of the upper tree each row of a batch belongs to, and the batch sorted by bucket.

The tree is flat: a node sends a row left or right, children are numbers of nodes, and a bucket is a node that leads to
itself, so that all rows take the same number of steps and the steps of different rows overlap in the processor.

Below a bucket paths differ in length, and a row that has found its leaf waits no more (`route_rows`).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.kernels.jit import kernel, lean_inlined
from rtree_anon.kernels.rowwords import limit_mask, pack_columns

_BLOCK_ROWS = 512
_WAITING_ROWS = 256  # that take their steps side by side where paths differ in length


class RouteTable(NamedTuple):
    """A tree of cuts. Buckets have both children equal to themselves."""

    n_steps: int  # length of the longest path
    column: NDArray[np.int32]
    threshold: NDArray[np.int64]  # rows with a smaller code go left
    left_set: NDArray[np.uint64]  # where the column is a set of categories: those that go left
    is_set: NDArray[np.bool_]
    child: NDArray[np.int32]  # (nodes, 2): where rows go that are not left, and that are
    bucket: NDArray[np.int32]  # number of the bucket, -1 for inner nodes


@kernel
def route_block(codes, first, n, missing, table, node):
    """node[i] becomes the last node on the path of row first + i."""
    node[:n] = 0
    any_set = table.is_set.any()
    block = codes[:, first : first + n]  # no index that numba has to suspect of being negative
    for _ in range(table.n_steps):
        if any_set:
            for i in range(n):
                at = node[i]
                code = np.int64(block[np.uint32(table.column[at]), i])
                if table.is_set[at]:
                    bit = np.uint64(63) if code == missing else np.uint64(code)
                    left = np.int64((table.left_set[at] >> bit) & np.uint64(1))
                else:
                    left = np.int64(code < table.threshold[at])
                node[i] = table.child[at, left]
        else:
            for i in range(n):
                at = node[i]
                left = np.uint64(block[np.uint32(table.column[at]), i] < table.threshold[at])
                node[i] = table.child[at, left]


@kernel
def route_batch(codes, missing, table, bucket, counts):
    """Fill bucket[i] (uint16 or uint32) for every row of codes[column, row], and add up counts[bucket]."""
    node = np.empty(_BLOCK_ROWS, np.uint32)
    n = codes.shape[1]
    for begin in range(0, n, _BLOCK_ROWS):
        m = min(_BLOCK_ROWS, n - begin)
        route_block(codes, begin, m, missing, table, node)
        here = bucket[begin : begin + m]
        for i in range(m):
            b = np.uint32(table.bucket[node[i]])
            here[i] = b
            counts[b] += 1


@kernel
def sort_packed(codes, missing, layout, bucket, starts, words):
    """Pack the rows and put them at their places: rows of bucket b at words[starts[b]:], in input order.

    `starts` is moved on: afterwards it holds the ends. False where a value does not fit the layout.
    """
    n = codes.shape[1]
    n_words = words.shape[1]
    by_word = np.empty((n_words, _BLOCK_ROWS), np.uint64)  # so that rows are packed by vectors
    fits = True
    for begin in range(0, n, _BLOCK_ROWS):
        m = min(_BLOCK_ROWS, n - begin)
        here = bucket[begin : begin + m]
        fits &= pack_columns(codes, begin, m, missing, layout, by_word.T)
        for i in range(m):
            b = here[i]
            place = np.uint64(starts[b])
            starts[b] += 1
            for w in range(n_words):
                words[place, w] = by_word[w, i]
    return fits


@kernel
def gather_buckets(words, first_row, starts, begin, end, out):
    """Copy the rows of buckets begin .. end-1 from all batches to `out`, bucket by bucket; the number of rows.

    Batch i lies at words[first_row[i]:] sorted by bucket; bucket b of it at starts[i, b]:starts[i, b+1] from there on.
    """
    at = 0
    for b in range(begin, end):
        for i in range(first_row.shape[0]):
            source = first_row[i] + starts[i, b]
            n = starts[i, b + 1] - starts[i, b]
            out[at : at + n] = words[source : source + n]
            at += n
    return at


@kernel
def route_rows(words, layout, ends, roots, first, second, axis, threshold, left_set, is_set, flipped, leaf):
    """leaf[i] becomes the leaf that row i belongs to, by the cuts of a tree (leaforder.py).

    Rows from ends[g-1] to ends[g]-1 are known to be below the node roots[g]. Rows take their steps side by side, block
    by block, so that the processor need not wait for one after the other.
    """
    steps = np.empty((first.shape[0], 9), np.uint64)  # all that a step looks at, side by side
    for node in range(first.shape[0]):
        a = axis[node]
        below = layout.below[a]
        steps[node, 0] = np.uint64(layout.word[a])
        steps[node, 1] = layout.shift[a]
        steps[node, 2] = limit_mask(layout.limit[a])
        above = np.uint64(threshold[node]) - np.uint64(below)  # modulo 2**64; a missing value, stored as 0, is below it
        steps[node, 3] = above if threshold[node] > below else np.uint64(1)
        steps[node, 4] = _stored_set(left_set[node], below) if is_set[node] else np.uint64(0)  # else no shift is sound
        steps[node, 5] = np.uint64(is_set[node])
        steps[node, 6] = np.uint64(flipped[node])
        steps[node, 7] = np.uint64(second[node])
        steps[node, 8] = np.uint64(first[node])
    waiting = np.empty(_WAITING_ROWS + 1, np.int64)  # rows that are not in a leaf yet
    begin = np.int64(0)
    for g in range(ends.shape[0]):
        while begin < ends[g]:
            end = min(begin + _WAITING_ROWS, ends[g])
            for i in range(begin, end):
                leaf[i] = roots[g]
                waiting[i - begin] = i
            n_waiting = end - begin if roots[g] >= 0 else np.int64(0)
            while n_waiting > 0:
                n = np.uint64(0)
                for j in range(n_waiting):  # without a branch: no processor could guess what comes
                    i = waiting[j]
                    step = steps[leaf[i]]
                    stored = (words[i, step[0]] >> step[1]) & step[2]
                    below_cut = np.uint64(stored < step[3])
                    in_set = step[4] >> (stored & np.uint64(63))
                    left = (below_cut ^ ((below_cut ^ in_set) & step[5]) ^ step[6]) & np.uint64(1)
                    child = np.int64(step[np.uint64(7) + left])
                    leaf[i] = child
                    waiting[n] = i
                    n += np.uint64(child >= 0)
                n_waiting = np.int64(n)
            for i in range(begin, end):
                leaf[i] = ~leaf[i]
            begin = end


@lean_inlined
def _stored_set(codes, below):
    """A set of categories, by the numbers that they are stored as: a missing value, bit 63 of `codes`, is bit 0."""
    missing = codes >> np.uint64(63)
    moved = codes << np.uint64(-below) if below <= 0 else codes >> np.uint64(below)
    return (moved & ~np.uint64(1)) | missing
