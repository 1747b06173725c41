"""Rows of a stretch of the index on their way: from bundles to packed rows, to their leaves, and to new bundles.

A stretch is a few neighbouring bundles. Its old rows come as packed words (rowwords.py) in leaf order, rows that are to
be added in any order; together they are numbered 0 .. n-1, the old ones first. Nothing here decides anything: which
leaves are kept, merged or cut again is said in upkeep.py.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment, call-arg, unreachable"

from __future__ import annotations

import numpy as np

from rtree_anon.kernels.bundles import (
    CONSECUTIVE,
    HEADER_WORDS,
    MISSING_IS_ZERO,
    TREE_VECTORS,
    get_vector,
    vector_words,
)
from rtree_anon.kernels.jit import kernel
from rtree_anon.kernels.lines import expect_rows
from rtree_anon.kernels.rowwords import limit_mask
from rtree_anon.kernels.vectors import expect_write

_MISSING = np.iinfo(np.int64).min
SOUND, WRONG_SHAPE, WRONG_VALUE = 0, 1, 2
_AHEAD_ROWS = 16  # that are asked for while others are gathered
_BLOCK_ROWS = 256  # whose origins are counted together
_SPREAD = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: Knuth's multiplicative hashing


@kernel
def bundle_is_sound(bundle, n_columns, n_rows, n_leaves):
    """Whether words that were read can be a bundle with these counts; everything else relies on it."""
    n_vectors = n_columns + TREE_VECTORS
    if bundle.shape[0] < HEADER_WORDS + 2 * n_vectors or not 1 <= n_leaves <= n_rows:
        return False
    if bundle[0] != np.uint64(n_rows) | (np.uint64(n_leaves) << np.uint64(32)) or bundle[1] != np.uint64(n_columns):
        return False
    needed = HEADER_WORDS + 2 * n_vectors
    for v in range(n_vectors):
        about = bundle[HEADER_WORDS + 2 * v + 1]
        bits = np.int64(about & np.uint64(0xFF))
        if bits > 64 or about >> np.uint64(8) > CONSECUTIVE:
            return False
        n = n_rows
        if v >= n_columns:
            n = n_leaves if v == n_columns else n_leaves - 1
        needed += vector_words(n, bits)
    return needed == bundle.shape[0]


@kernel
def _add_column(bundle, at, n, bits, gap, offset, limit, shift, word):
    """Add a column of n entries of `bits` bits, from word `at` on, to word[:n]; False where one exceeds the limit.

    An entry is stored as entry + offset; with `gap` an entry of 0 stays 0.
    """
    mask = ~np.uint64(0) >> np.uint64(64 - bits)
    # Up to here every entry may look at the word behind its own, which needs no branch.
    n_free = min(n, ((bundle.shape[0] - 1 - at) << 6) // bits)
    most = np.uint64(0)
    if gap:
        for i in range(n_free):
            position = np.uint64(i) * np.uint64(bits)
            place = np.uint64(at) + (position >> np.uint64(6))
            low = position & np.uint64(63)
            high = (bundle[place + np.uint64(1)] << np.uint64(1)) << (np.uint64(63) - low)
            entry = ((bundle[place] >> low) | high) & mask
            stored = np.uint64(0) if entry == np.uint64(0) else entry + offset
            most = max(most, stored)
            word[i] |= stored << shift
    else:
        for i in range(n_free):
            position = np.uint64(i) * np.uint64(bits)
            place = np.uint64(at) + (position >> np.uint64(6))
            low = position & np.uint64(63)
            high = (bundle[place + np.uint64(1)] << np.uint64(1)) << (np.uint64(63) - low)
            stored = (((bundle[place] >> low) | high) & mask) + offset
            most = max(most, stored)
            word[i] |= stored << shift
    for i in range(n_free, n):
        position = i * bits
        place = at + (position >> 6)
        low = position & 63
        entry = bundle[place] >> np.uint64(low)
        if low + bits > 64:
            entry |= bundle[place + 1] << np.uint64(64 - low)
        entry &= mask
        stored = np.uint64(0) if gap and entry == np.uint64(0) else entry + offset
        most = max(most, stored)
        word[i] |= stored << shift
    return most <= limit


@kernel
def read_bundle(bundle, n_rows, n_leaves, layout, scratch, words, sizes, cuts):
    """Read a bundle: rows to words[:n_rows], sizes of leaves to sizes[:n_leaves], cuts to cuts[:, :n_leaves-1].

    SOUND, or what is wrong with it. The layout has all columns of the bundle; `scratch` has room for n_rows words.
    """
    n_columns = layout.word.shape[0]
    if not bundle_is_sound(bundle, n_columns, n_rows, n_leaves):
        return WRONG_SHAPE
    fits = True
    for w in range(words.shape[1]):
        scratch[:n_rows] = np.uint64(0)
        at = np.int64(HEADER_WORDS + 2 * (n_columns + TREE_VECTORS))
        for c in range(n_columns):
            base = bundle[HEADER_WORDS + 2 * c]
            about = bundle[HEADER_WORDS + 2 * c + 1]
            bits = np.int64(about & np.uint64(0xFF))
            if layout.word[c] != w:
                at += vector_words(n_rows, bits)
                continue
            gap = about >> np.uint64(8) == MISSING_IS_ZERO
            offset = base - np.uint64(layout.below[c])  # modulo 2**64; an entry that is too small becomes too large
            limit = layout.limit[c]
            shift = layout.shift[c]
            if about >> np.uint64(8) == CONSECUTIVE:
                fits &= offset <= limit and offset + np.uint64(n_rows - 1) <= limit and offset > np.uint64(0)
                for i in range(n_rows):
                    scratch[i] |= (offset + np.uint64(i)) << shift
            elif bits == 0:
                if not gap:
                    fits &= np.uint64(0) < offset <= limit
                    for i in range(n_rows):
                        scratch[i] |= offset << shift
            else:
                if not gap:
                    fits &= np.uint64(0) < offset <= limit
                fits &= _add_column(bundle, at, n_rows, bits, gap, offset, limit, shift, scratch)
            at += vector_words(n_rows, bits)
        for i in range(n_rows):
            words[i, w] = scratch[i]
    if not fits:
        return WRONG_VALUE
    get_vector(bundle, n_columns, n_leaves, np.int64(_MISSING), sizes)
    total = np.int64(0)
    for i in range(n_leaves):
        if not 1 <= sizes[i] <= n_rows:
            return WRONG_SHAPE
        total += sizes[i]
    for v in range(TREE_VECTORS - 1):
        get_vector(bundle, n_columns + 1 + v, n_leaves - 1, np.int64(_MISSING), cuts[v])
    return SOUND if total == n_rows else WRONG_SHAPE


@kernel
def read_bundles(content, begins, ends, n_rows, n_leaves, hangs, layout, scratch, words, sizes, cuts):
    """Read bundles, bundle b from content[begins[b]:ends[b]], one behind the other; see `read_bundle`.

    hangs[b] is added to the depth of its cuts. Between two bundles one cut is left out.
    """
    row = np.int64(0)
    leaf = np.int64(0)
    for b in range(n_rows.shape[0]):
        problem = read_bundle(
            content[begins[b] : ends[b]],
            n_rows[b],
            n_leaves[b],
            layout,
            scratch,
            words[row : row + n_rows[b]],
            sizes[leaf : leaf + n_leaves[b]],
            cuts[:, leaf : leaf + n_leaves[b] - 1],
        )
        if problem != SOUND:
            return problem
        for i in range(leaf, leaf + n_leaves[b] - 1):
            cuts[0, i] += hangs[b]
        row += n_rows[b]
        leaf += n_leaves[b]
    return SOUND


@kernel
def roots_of_bundles(depth, ends, roots):
    """roots[b] becomes the node above all leaves from ends[b-1] to ends[b]-1, a whole subtree; ~leaf for a single one.

    depth[i] is that of the cut between leaf i and leaf i + 1.
    """
    begin = np.int64(0)
    for b in range(ends.shape[0]):
        root = begin
        for i in range(begin, ends[b] - 1):
            if depth[i] < depth[root]:
                root = i
        roots[b] = root if ends[b] - begin > 1 else ~begin
        begin = ends[b]


@kernel
def leaf_of_rows(sizes, leaf):
    """Rows leaf by leaf: the leaf of each."""
    at = 0
    for i in range(sizes.shape[0]):
        for _ in range(sizes[i]):
            leaf[at] = i
            at += 1


@kernel
def mark_deleted(words, layout, ends, gone, gone_ends, leaf):
    """leaf[i] becomes -1 for the rows whose id, the last column, is in `gone`; how many there are.

    Bundle b has the rows up to ends[b], of which those up to gone_ends[b] go. Ids are not negative. Those of a bundle
    are looked up in a table of at least twice as many places, which stays in the nearest cache.
    """
    c = layout.word.shape[0] - 1
    w, shift, below = layout.word[c], layout.shift[c], layout.below[c]
    mask = limit_mask(layout.limit[c])
    most = np.int64(0)
    for b in range(ends.shape[0]):
        most = max(most, gone_ends[b] - (gone_ends[b - 1] if b > 0 else np.int64(0)))
    bits = 1
    while 1 << bits < 2 * most:
        bits += 1
    table = np.empty(1 << bits, np.int64)
    n = np.int64(0)
    row = np.int64(0)
    first = np.int64(0)
    for b in range(ends.shape[0]):
        bits = 1
        while 1 << bits < 2 * (gone_ends[b] - first):
            bits += 1
        last = (1 << bits) - 1
        down = np.uint64(64 - bits)
        table[: last + 1] = -1
        for i in range(first, gone_ends[b]):
            place = np.int64((np.uint64(gone[i]) * np.uint64(_SPREAD)) >> down)
            while table[place] >= 0:
                place = (place + 1) & last
            table[place] = gone[i]
        if first < gone_ends[b]:
            for i in range(row, ends[b]):
                id_ = np.int64((words[i, w] >> shift) & mask) + below
                place = np.int64((np.uint64(id_) * np.uint64(_SPREAD)) >> down)
                while table[place] >= 0 and table[place] != id_:
                    place = (place + 1) & last
                goes = table[place] == id_
                leaf[i] = np.int32(-1) if goes else leaf[i]
                n += goes
        row, first = ends[b], gone_ends[b]
    return n


@kernel
def count_leaves(leaf, counts):
    """counts[l] becomes the number of rows in leaf l; rows of leaf -1 are left out. The smallest count."""
    n_leaves = counts.shape[0]
    found = np.zeros(n_leaves + 1, np.int64)  # those that go are counted behind: no processor could guess which do
    for i in range(leaf.shape[0]):
        found[leaf[i] if leaf[i] >= 0 else n_leaves] += 1
    counts[:] = found[:n_leaves]
    return counts.min()


@kernel
def renumber_leaves(leaf, orphan, number, homeless):
    """Rows of leaf l are in leaf number[l] now; those of an orphan are listed in `homeless`, how many they are."""
    n = 0
    for i in range(leaf.shape[0]):
        here = leaf[i]
        if here >= 0:
            homeless[n] = i
            n += orphan[here]
            leaf[i] = number[here]
    return n


@kernel
def sort_by_leaf(leaf, n_leaves, starts, source):
    """Rows by leaf, stably: leaf i has rows source[starts[i]:starts[i+1]]. Rows of leaf -1 are listed behind all."""
    at = np.zeros(n_leaves + 1, np.int64)
    for i in range(leaf.shape[0]):
        at[leaf[i] if leaf[i] >= 0 else n_leaves] += 1
    starts[0] = 0
    for i in range(n_leaves):
        starts[i + 1] = starts[i] + at[i]
        at[i] = starts[i]
    at[n_leaves] = starts[n_leaves]
    for i in range(leaf.shape[0]):
        own = leaf[i] if leaf[i] >= 0 else n_leaves
        source[at[own]] = i
        at[own] += 1


@kernel
def gather_words(old, added, order, out):
    """Rows in a new order, row by row."""
    n_old = old.shape[0]
    n = order.shape[0]
    for first in range(0, n, _AHEAD_ROWS):
        behind = min(first + _AHEAD_ROWS, n)
        expect_rows(old, added, order, behind, min(behind + _AHEAD_ROWS, n))
        for i in range(first, behind):
            p = order[i]
            for w in range(out.shape[1]):
                out[i, w] = old[p, w] if p < n_old else added[p - n_old, w]


@kernel
def gather_by_word(old, added, order, out):
    """Rows in a new order, out[word, row]: columns of one word are made into bundles many rows at a time."""
    n_old = np.uint64(old.shape[0])
    n_words = old.shape[1]
    for i in range(order.shape[0]):
        p = np.uint64(order[i])
        if p < n_old:
            for w in range(n_words):
                out[w, i] = old[p, w]
        else:
            for w in range(n_words):
                out[w, i] = added[p - n_old, w]


@kernel
def count_origins(order, old_ends, new_ends, shared):
    """shared[b, o] becomes the number of rows of new bundle b that come from old bundle o (zeros before)."""
    n_old = old_ends[-1]
    begin = np.int64(0)
    o = 0
    for b in range(new_ends.shape[0]):
        rows = order[begin : new_ends[b]]
        begin = new_ends[b]
        at = 0
        while at < rows.shape[0]:  # block by block: mostly all old rows of one are from the same bundle
            block = rows[at : at + _BLOCK_ROWS]
            at += _BLOCK_ROWS
            low = old_ends[o - 1] if o > 0 else np.int64(0)
            size = np.uint64(old_ends[o] - low)
            n_own, n_added = np.int64(0), np.int64(0)
            for i in range(block.shape[0]):
                n_own += np.uint64(block[i] - low) < size
                n_added += block[i] >= n_old
            if n_own + n_added == block.shape[0]:
                shared[b, o] += n_own
                continue
            for i in range(block.shape[0]):
                if block[i] >= n_old:
                    continue
                while block[i] >= old_ends[o]:
                    o += 1
                while o > 0 and block[i] < old_ends[o - 1]:
                    o -= 1
                shared[b, o] += 1


@kernel
def successors(shared, kept):
    """kept[b] becomes the old bundle whose place new bundle b takes; the number of rows that stay with it, of all.

    That is the one that it has most rows of (shared[b, o] of bundle o), unless another bundle has more of its rows, or
    came first; then it is -1.
    """
    n_new, n_old = shared.shape
    best = np.empty(n_new, np.int64)
    most = np.empty(n_new, np.int64)
    for b in range(n_new):
        best[b] = 0
        for o in range(n_old):
            if shared[b, o] > shared[b, best[b]]:
                best[b] = o
        most[b] = shared[b, best[b]]
    taken = np.zeros(n_old, np.bool_)
    n_stay = np.int64(0)
    for b in np.argsort(-most, kind="mergesort"):
        kept[b] = -1
        if most[b] > 0 and not taken[best[b]]:
            taken[best[b]] = True
            kept[b] = best[b]
            n_stay += most[b]
    return n_stay


@kernel
def moved_rows(words, layout, order, old_ends, new_ends, kept, ids, bundles):
    """Ids of rows whose new bundle b is not what became of their old one, kept[b], and b; their number.

    Rows are words[word, row], those of the bundles one after the other. There is room for one row more: every row is
    written, and counts only if it moved, which no processor could guess.
    """
    c = layout.word.shape[0] - 1
    w, shift, below = layout.word[c], layout.shift[c], layout.below[c]
    mask = limit_mask(layout.limit[c])
    n = np.uint64(0)
    begin = np.int64(0)
    for b in range(new_ends.shape[0]):
        low = high = np.int64(0)  # rows of the bundle that it takes the place of
        if kept[b] >= 0:
            high = old_ends[kept[b]]
            low = old_ends[kept[b] - 1] if kept[b] > 0 else np.int64(0)
        column, places = words[w, begin : new_ends[b]], order[begin : new_ends[b]]
        for i in range(places.shape[0]):
            ids[n] = np.int64((column[i] >> shift) & mask) + below
            bundles[n] = b
            n += np.uint64((places[i] < low) | (places[i] >= high))
        begin = new_ends[b]
    return np.int64(n)


@kernel
def tell_apart(ids, bundles, names, first, fresh, old_ids, old_names):
    """Rows of ids are in bundles with these names now: those from `first` on in fresh[id - first]; how many others.

    The others, also ids that there is no room for in `fresh`, are listed in old_ids and old_names, which have room for
    all of them and one more.
    """
    n = np.uint64(0)
    n_fresh = np.uint64(fresh.shape[0])
    nowhere = np.empty(1, fresh.dtype)  # where an id of the others would be, so that no processor has to guess
    for i in range(ids.shape[0]):
        id_, name = np.int64(ids[i]), names[bundles[i]]
        ahead = ids[min(i + _AHEAD_ROWS, ids.shape[0] - 1)]
        expect_write(fresh, min(np.uint64(np.int64(ahead) - first), n_fresh))
        place = np.uint64(id_ - first)  # below `first`: beyond all
        is_fresh = place < n_fresh
        old_ids[n] = id_
        old_names[n] = name
        n += np.uint64(not is_fresh)
        own, at = (fresh, place) if is_fresh else (nowhere, np.uint64(0))
        own[at] = name
    return np.int64(n)


@kernel
def merge_by_leaf(sizes, leaf, starts, source):
    """Rows by leaf: old ones, leaf by leaf, and added ones, of which row i goes to leaf[i], behind those of its leaf.

    Leaf l has rows source[starts[l]:starts[l+1]]; added rows are numbered behind the old ones, and keep their order.
    What `sort_by_leaf` gives, where no row goes.
    """
    n_leaves = sizes.shape[0]
    at = np.zeros(n_leaves + 1, np.int64)  # the number of added rows by leaf, then where the next one goes
    for i in range(leaf.shape[0]):
        at[leaf[i]] += 1
    row = np.int64(0)
    starts[0] = 0
    for here in range(n_leaves):
        begin = starts[here]
        starts[here + 1] = begin + sizes[here] + at[here]
        at[here] = begin + sizes[here]
        for i in range(sizes[here]):
            source[begin + i] = row + i
        row += sizes[here]
    for i in range(leaf.shape[0]):
        source[at[leaf[i]]] = row + i
        at[leaf[i]] += 1
