"""Upkeep of leaves: which ones a batch of inserts and deletes makes too small or too large, and cutting those again.

A stretch of the index is a whole subtree: leaves in order, cuts between neighbours (kernels/leaforder.py), rows leaf by
leaf. A batch is worked in like this (R+-tree paper, section 2.2; DESIGN: no leaf below k at any moment):

    settle_leaves   a cut that leaves fewer than k rows on one side is dropped, and those rows go down the other side
    sort_by_leaf    old rows that stay and new ones, leaf by leaf
    choose_regions  subtrees that are cut again, because a leaf in them could be divided
    recut_regions   the cuts inside them, by the kernels of every other cut
    arrange_leaves  the leaves in their new order: regions walked from the leaf before them, everything else as it was
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.boxes import boxes_of_runs
from rtree_anon.kernels.bundles import get_vector
from rtree_anon.kernels.cutting import grow
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.leaforder import link_nodes, order_leaves

_MISSING = np.iinfo(np.int64).min


@kernel
def add_bundle_rows(bundle, n_rows, layout, scratch, words):
    """Pack the rows of a bundle into words[:n_rows]; False where a value does not fit the layout."""
    words[:n_rows] = np.uint64(0)
    fits = True
    for c in range(layout.word.shape[0]):
        get_vector(bundle, c, n_rows, np.int64(_MISSING), scratch)
        w = layout.word[c]
        shift = layout.shift[c]
        limit = layout.limit[c]
        below = layout.below[c]
        for i in range(n_rows):
            code = scratch[i]
            stored = np.uint64(0) if code == _MISSING else np.uint64(code - below)
            fits &= stored <= limit and (stored != np.uint64(0) or code == _MISSING)
            words[i, w] |= stored << shift
    return fits


@kernel
def mark_deleted(ids, gone, leaf):
    """leaf[i] becomes -1 for the rows whose id is in `gone` (ascending); how many there are."""
    n = 0
    for i in range(ids.shape[0]):
        at = np.searchsorted(gone, ids[i])
        if at < gone.shape[0] and gone[at] == ids[i]:
            leaf[i] = -1
            n += 1
    return n


@kernel
def node_spans(first, second, root, begin, end, visit):
    """Leaves begin[i] .. end[i]-1 are below inner node i; `visit` lists the inner nodes, parents first."""
    n_inner = first.shape[0]
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_visited = 0
    while top > 0:
        top -= 1
        node = todo[top]
        if node < 0:
            continue
        visit[n_visited] = node
        n_visited += 1
        todo[top] = first[node]
        todo[top + 1] = second[node]
        top += 2
    for v in range(n_visited - 1, -1, -1):
        node = visit[v]
        begin[node] = begin[first[node]] if first[node] >= 0 else ~first[node]
        end[node] = end[second[node]] if second[node] >= 0 else ~second[node] + 1


@kernel
def settle_leaves(first, second, root, counts, k, kept, orphan):
    """Which cuts are kept so that every leaf has k rows, and which leaves' rows have to find another; their number.

    Without an orphan, leaves that are no longer separated by a cut are one leaf now. A tree with fewer than k rows
    becomes a single leaf.
    """
    n_inner = first.shape[0]
    kept[:] = False
    orphan[:] = False
    begin = np.empty(n_inner, np.int64)
    end = np.empty(n_inner, np.int64)
    visit = np.empty(n_inner, np.int64)
    node_spans(first, second, root, begin, end, visit)
    sums = np.zeros(counts.shape[0] + 1, np.int64)
    for i in range(counts.shape[0]):
        sums[i + 1] = sums[i] + counts[i]
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_orphans = 0
    while top > 0:
        top -= 1
        node = todo[top]
        if node < 0:
            continue
        one, other = first[node], second[node]
        middle = end[one] if one >= 0 else ~one + 1
        enough_one = sums[middle] - sums[begin[node]] >= k
        enough_other = sums[end[node]] - sums[middle] >= k
        if enough_one and enough_other:
            kept[node] = True
            todo[top] = one
            todo[top + 1] = other
            top += 2
        elif enough_one or enough_other:
            weak_begin = middle if enough_one else begin[node]
            weak_end = end[node] if enough_one else middle
            for leaf in range(weak_begin, weak_end):
                orphan[leaf] = True
                n_orphans += 1
            todo[top] = one if enough_one else other
            top += 1
    return n_orphans


@kernel
def sort_by_leaf(leaf, n_leaves, starts, source):
    """Rows by leaf, stably: leaf i has rows source[starts[i]:starts[i+1]]. Rows of leaf -1 are left out."""
    starts[: n_leaves + 1] = 0
    for i in range(leaf.shape[0]):
        if leaf[i] >= 0:
            starts[leaf[i] + 1] += 1
    for i in range(n_leaves):
        starts[i + 1] += starts[i]
    at = starts[:n_leaves].copy()
    for i in range(leaf.shape[0]):
        if leaf[i] >= 0:
            source[at[leaf[i]]] = i
            at[leaf[i]] += 1


@kernel
def choose_regions(first, second, root, starts, changed, k, slack, most_rows, begin, end):
    """Subtrees to be cut again, as ranges of leaves in order; their number.

    A changed leaf with 2k rows or more is one. So is the smallest subtree around a changed leaf, of at most `most_rows`
    rows, whose rows are enough for one more leaf of k * slack rows: inserts fill leaves, and where neighbours have
    enough to spare, together they make one more, which is what a fresh tree would have.
    """
    n_inner = first.shape[0]
    n_leaves = n_inner + 1
    dirty = np.zeros(n_leaves + 1, np.int64)
    for i in range(n_leaves):
        dirty[i + 1] = dirty[i] + (1 if changed[i] else 0)
    if dirty[n_leaves] == 0:
        return 0
    span_begin = np.empty(n_inner, np.int64)
    span_end = np.empty(n_inner, np.int64)
    visit = np.empty(n_inner, np.int64)
    node_spans(first, second, root, span_begin, span_end, visit)
    leaves = np.ones(n_leaves, np.int64)  # expected, of every leaf's region
    node_leaves = np.empty(n_inner, np.int64)
    leaf_wants = np.zeros(n_leaves, np.bool_)
    node_wants = np.zeros(n_inner, np.bool_)
    for i in range(n_leaves):
        n = starts[i + 1] - starts[i]
        if changed[i] and n >= 2 * k:
            leaf_wants[i] = True
            leaves[i] = max(np.int64(n / (k * slack)), np.int64(2))
    for v in range(n_inner - 1, -1, -1):
        node = visit[v]
        one, other = first[node], second[node]
        n_expected = node_leaves[one] if one >= 0 else leaves[~one]
        n_expected += node_leaves[other] if other >= 0 else leaves[~other]
        a, b = span_begin[node], span_end[node]
        n = starts[b] - starts[a]
        if dirty[b] > dirty[a] and n <= most_rows and n >= (n_expected + 1) * k * slack:
            node_wants[node] = True
            n_expected = np.int64(n / (k * slack))
        node_leaves[node] = n_expected
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_regions = 0
    while top > 0:
        top -= 1
        node = todo[top]
        if (node >= 0 and node_wants[node]) or (node < 0 and leaf_wants[~node]):
            begin[n_regions] = span_begin[node] if node >= 0 else ~node
            end[n_regions] = span_end[node] if node >= 0 else ~node + 1
            n_regions += 1
        elif node >= 0:
            todo[top] = second[node]
            todo[top + 1] = first[node]
            top += 2
    return n_regions


@kernel
def recut_regions(
    rows, starts, begin, end, depth, k, gauge, preferred, effort, worth, seed, work, found, space, record
):
    """Cut every region down to leaves; depth[r] is where region r hangs."""
    for r in range(begin.shape[0]):
        first = starts[begin[r]]
        m = starts[end[r]] - first
        grow(
            rows,
            first,
            m,
            depth[r],
            k,
            gauge,
            preferred,
            effort,
            worth,
            seed,
            work,
            found,
            space,
            None,
            record,
        )


@kernel
def arrange_leaves(rows, starts, begin, end, record, gauge, leaf_first, leaf_size, cut_from, flipped, masks):
    """The leaves in order: leaf i is rows[leaf_first[i]:][:leaf_size[i]]; how many there are.

    cut_from[i], between leaf i and leaf i + 1, is the number of an old cut, or ~position of a new one in the record,
    whose right side comes first where flipped[i]. `masks` are the sets of categories in every leaf.
    """
    n_regions = begin.shape[0]
    d = gauge.kind.shape[0]
    n_masks = masks.shape[1]
    entry_starts = np.zeros(2, np.int64)
    n_out = 0
    leaf = 0
    region = 0
    while leaf < starts.shape[0] - 1:
        if n_out > 0:
            cut_from[n_out - 1] = leaf - 1
            flipped[n_out - 1] = False
        if region == n_regions or begin[region] != leaf:
            leaf_first[n_out] = starts[leaf]
            leaf_size[n_out] = starts[leaf + 1] - starts[leaf]
            n_out += 1
            leaf += 1
            continue
        row_begin, row_end = starts[leaf], starts[end[region]]
        n_cuts = 0
        for p in range(row_begin + 1, row_end):
            if record.depth[p] >= 0:
                n_cuts += 1
        part = np.empty(n_cuts + 2, np.int64)
        depth = np.empty(n_cuts, np.int32)
        part[0] = row_begin
        at = 0
        for p in range(row_begin + 1, row_end):
            if record.depth[p] >= 0:
                part[at + 1] = p
                depth[at] = record.depth[p]
                at += 1
        part[n_cuts + 1] = row_end
        left = np.empty(n_cuts, np.int64)
        right = np.empty(n_cuts, np.int64)
        root = link_nodes(depth, left, right)
        n_parts = n_cuts + 1
        lo = np.empty((n_parts + 1, d), np.int32)
        hi = np.empty((n_parts + 1, d), np.int32)
        mask = np.empty((n_parts + 1, n_masks), np.uint64)
        boxes_of_runs(rows, part, gauge, lo, hi, mask)
        entry = np.int64(-1)
        if n_out > 0:
            entry = np.int64(n_parts)
            entry_starts[0] = leaf_first[n_out - 1]
            entry_starts[1] = leaf_first[n_out - 1] + leaf_size[n_out - 1]
            boxes_of_runs(rows, entry_starts, gauge, lo[n_parts:], hi[n_parts:], mask[n_parts:])
        order = np.empty(n_parts, np.int64)
        between = np.empty(n_cuts, np.int64)
        turned = np.empty(n_cuts, np.bool_)
        order_leaves(left, right, root, gauge, lo, hi, mask, entry, order, between, turned)
        for i in range(n_parts):
            leaf_first[n_out] = part[order[i]]
            leaf_size[n_out] = part[order[i] + 1] - part[order[i]]
            if i < n_cuts:
                cut_from[n_out] = ~part[between[i] + 1]
                flipped[n_out] = turned[i]
            n_out += 1
        leaf = end[region]
        region += 1
    for i in range(n_out):
        for a in range(n_masks):
            masks[i, a] = np.uint64(0)
        for r in range(leaf_first[i], leaf_first[i] + leaf_size[i]):
            for a in range(n_masks):
                masks[i, a] |= np.uint64(1) << np.uint64(rows[r, gauge.n_linear + a])
    return n_out


@kernel
def gather_leaves(words, rows, leaf_first, leaf_size, source, out, out_source):
    """Packed rows and where they come from, leaf by leaf; the last column of `rows` is the row's number in both."""
    number = rows.shape[1] - 1
    at = 0
    for leaf in range(leaf_first.shape[0]):
        for r in range(leaf_first[leaf], leaf_first[leaf] + leaf_size[leaf]):
            i = rows[r, number]
            for w in range(words.shape[1]):
                out[at, w] = words[i, w]
            out_source[at] = source[i]
            at += 1


@kernel
def choose_stretches(first, second, root, n_rows, touched, k, most_rows, begin, end):
    """Subtrees of bundles that are renewed together, as ranges of bundles in order; their number.

    All bundles of a stretch are touched; it has at least k rows, and at most `most_rows` unless it is one bundle. The
    tree is one that `settle_leaves` leaves: where a side has fewer than k rows, so has the other.
    """
    n_inner = first.shape[0]
    span_begin = np.empty(n_inner, np.int64)
    span_end = np.empty(n_inner, np.int64)
    visit = np.empty(n_inner, np.int64)
    node_spans(first, second, root, span_begin, span_end, visit)
    rows = np.zeros(n_inner + 2, np.int64)
    hits = np.zeros(n_inner + 2, np.int64)
    for i in range(n_inner + 1):
        rows[i + 1] = rows[i] + n_rows[i]
        hits[i + 1] = hits[i] + (1 if touched[i] else 0)
    todo = np.empty(n_inner + 2, np.int64)
    todo[0] = root
    top = 1
    n_stretches = 0
    while top > 0:
        top -= 1
        node = todo[top]
        a = span_begin[node] if node >= 0 else ~node
        b = span_end[node] if node >= 0 else ~node + 1
        if hits[b] == hits[a]:
            continue
        weak = node >= 0 and rows[span_end[first[node]] if first[node] >= 0 else ~first[node] + 1] - rows[a] < k
        if node < 0 or weak or (hits[b] - hits[a] == b - a and rows[b] - rows[a] <= most_rows):
            begin[n_stretches] = a
            end[n_stretches] = b
            n_stretches += 1
            continue
        todo[top] = second[node]
        todo[top + 1] = first[node]
        top += 2
    return n_stretches
