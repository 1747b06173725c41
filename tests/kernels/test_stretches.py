"""Stretches: what is read from bundles is what was packed, rows find their leaves, and moved rows are told."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.index.bundle import Bundle
from rtree_anon.index.cuts import Cuts
from rtree_anon.kernels.bundles import TREE_VECTORS
from rtree_anon.kernels.routing import route_rows
from rtree_anon.kernels.rowwords import pack_columns
from rtree_anon.kernels.stretches import (
    SOUND,
    WRONG_SHAPE,
    WRONG_VALUE,
    count_origins,
    gather_by_word,
    gather_words,
    mark_deleted,
    merge_by_leaf,
    moved_rows,
    read_bundle,
    roots_of_bundles,
    sort_by_leaf,
    successors,
    tell_apart,
)
from rtree_anon.space import missing_code
from tests.kernels.test_bundles import contents, cut_to_bundles
from tests.kernels.test_routing import naive_route
from tests.tables import Table, tables

MISSING = missing_code(np.int64)


def read(bundle: Bundle, layout: object, n_words: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    words = np.zeros((bundle.n_rows, n_words), np.uint64)
    sizes = np.zeros(bundle.n_leaves, np.int64)
    cuts = np.zeros((TREE_VECTORS - 1, bundle.n_leaves - 1), np.int64)
    scratch = np.empty(bundle.n_rows, np.uint64)
    problem = read_bundle(bundle.words, bundle.n_rows, bundle.n_leaves, layout, scratch, words, sizes, cuts)
    return problem, words, sizes, cuts


@settings(max_examples=60, deadline=None)
@given(tables(max_rows=120), st.integers(1, 6), st.sampled_from([1024, 4096]), st.data())
def test_bundles_are_read_as_they_were_packed(table: Table, k: int, page_bytes: int, data: st.DataObject) -> None:
    """The twin reads column by column (`Bundle`) and packs again."""
    cutter, bundles, _ = cut_to_bundles(table, k, page_bytes, True)
    layout, d = cutter.layout, len(table.space)
    for bundle in contents(bundles, cutter.n_columns):
        problem, words, sizes, vectors = read(bundle, layout.words, layout.n_words)
        assert problem == SOUND
        codes = np.ascontiguousarray(bundle.columns(0, d + 1, np.int64).T)
        expected = layout.empty(bundle.n_rows)
        assert pack_columns(codes, 0, bundle.n_rows, np.int64(MISSING), layout.words, expected)
        assert np.array_equal(words, expected)
        assert np.array_equal(np.concatenate(([0], np.cumsum(sizes))), bundle.starts)
        cuts = Cuts.from_vectors(*vectors)
        assert all(np.array_equal(a, b) for a, b in zip(cuts.arrays, bundle.cuts.arrays, strict=True))
        leaf = np.empty(bundle.n_rows, np.int32)
        first, second, root = cuts.links
        about = first, second, cuts.axis, cuts.threshold, cuts.left_set, cuts.is_set, cuts.flipped
        route_rows(words, layout.words, np.array([bundle.n_rows]), np.array([root]), *about, leaf)
        expected_leaf = [naive_route(cuts, row, MISSING) for row in codes[:d].T.tolist()]
        assert leaf.tolist() == expected_leaf
        # Rows are in leaf order: those below each side of the topmost cut begin there.
        sides = np.array([root + 1, bundle.n_leaves] if root >= 0 else [bundle.n_leaves])
        roots = np.empty(len(sides), np.int64)
        roots_of_bundles(cuts.depth, sides, roots)
        assert roots.tolist() == ([first[root], second[root]] if root >= 0 else [-1])
        leaf[:] = 77
        route_rows(words, layout.words, bundle.starts[sides], roots, *about, leaf)
        assert leaf.tolist() == expected_leaf
        # As if they were three bundles, of which the first has no rows.
        ends = np.array([0, data.draw(st.integers(0, bundle.n_rows)), bundle.n_rows])
        gone = data.draw(st.lists(st.sampled_from(codes[d].tolist()), unique=True))
        in_second = np.isin(gone, codes[d, : ends[1]])
        by_bundle = np.concatenate((np.array(gone, np.int64)[in_second], np.array(gone, np.int64)[~in_second]))
        gone_ends = np.array([0, in_second.sum(), len(gone)])
        alive = np.zeros(bundle.n_rows, np.int32)
        assert mark_deleted(words, layout.words, ends, by_bundle, gone_ends, alive) == len(gone)
        assert np.array_equal(alive < 0, np.isin(codes[d], gone))


@settings(max_examples=60, deadline=None)
@given(tables(max_rows=60), st.integers(0, 2**32), st.integers(0, 63))
def test_damage_is_found_or_harmless(table: Table, place: int, bit: int) -> None:
    """Whatever bit is wrong: an answer or a problem. NUMBA_BOUNDSCHECK=1 shows that nothing outside is looked at."""
    cutter, bundles, _ = cut_to_bundles(table, 3, 1024, True)
    bundle = contents(bundles, cutter.n_columns)[0]
    whole = bundle.words
    words = whole.copy()
    words[place % len(words)] ^= np.uint64(1 << bit)
    bundle.words = words
    assert read(bundle, cutter.layout.words, cutter.layout.n_words)[0] in (SOUND, WRONG_SHAPE, WRONG_VALUE)
    bundle.words = whole[:-1]
    assert read(bundle, cutter.layout.words, cutter.layout.n_words)[0] == WRONG_SHAPE


@settings(max_examples=60, deadline=None)
@given(tables(max_rows=60), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32))
def test_moved_rows(table: Table, n_old: int, n_new: int, seed: int) -> None:
    cutter, bundles, _ = cut_to_bundles(table, 1, 4096, True)
    bundle = contents(bundles, cutter.n_columns)[0]
    _, words, _, _ = read(bundle, cutter.layout.words, cutter.layout.n_words)
    generator = np.random.default_rng(seed)
    n = len(words)
    old_ends = np.sort(generator.integers(0, n + 1, n_old))
    new_ends = np.append(np.sort(generator.integers(0, n + 1, n_new - 1)), n)
    order = generator.permutation(n)
    origin = [int(np.searchsorted(old_ends, row, "right")) for row in order]
    bundle_of = [int(np.searchsorted(new_ends, at, "right")) for at in range(n)]
    shared = np.zeros((n_new, n_old), np.int64)
    count_origins(order, old_ends, new_ends, shared)
    expected = np.zeros_like(shared)
    for b, o in zip(bundle_of, origin, strict=True):
        if o < n_old:
            expected[b, o] += 1
    assert np.array_equal(shared, expected)
    kept = np.array([generator.integers(-1, n_old) for _ in range(n_new)])
    ids, to = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    by_word = np.ascontiguousarray(words.T)
    n_moved = moved_rows(by_word, cutter.layout.words, order, old_ends, new_ends, kept, ids, to)
    own = bundle.ids
    moved = [(int(own[at]), b) for at, (b, o) in enumerate(zip(bundle_of, origin, strict=True)) if o != kept[b]]
    assert list(zip(ids[:n_moved].tolist(), to[:n_moved].tolist(), strict=True)) == moved


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 3), st.integers(0, 2**32))
def test_rows_are_gathered(n_old: int, n_added: int, n_words: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 2**63, (n_old + n_added, n_words), np.uint64)
    order = generator.permutation(n_old + n_added)[: generator.integers(0, n_old + n_added + 1)]
    out, by_word = np.empty((len(order), n_words), np.uint64), np.empty((n_words, len(order)), np.uint64)
    gather_words(rows[:n_old], rows[n_old:], order, out)
    gather_by_word(rows[:n_old], rows[n_old:], order, by_word)
    assert np.array_equal(out, rows[order]) and np.array_equal(by_word, rows[order].T)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_a_new_bundle_takes_the_place_of_the_one_it_has_most_rows_of(n_new: int, n_old: int, seed: int) -> None:
    shared = np.random.default_rng(seed).integers(0, 4, (n_new, n_old))
    kept = np.empty(n_new, np.int64)
    n_stay = successors(shared, kept)
    free, expected = set(range(n_old)), [-1] * n_new
    for b in sorted(range(n_new), key=lambda b: -shared[b].max()):
        best = shared[b].tolist().index(shared[b].max())
        if best in free and shared[b].max() > 0:
            free.remove(best)
            expected[b] = best
    assert kept.tolist() == expected
    assert n_stay == sum(shared[b, o] for b, o in enumerate(expected) if o >= 0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 20), st.integers(0, 2**32))
def test_added_rows_come_behind_those_of_their_leaves(sizes: list[int], n_added: int, seed: int) -> None:
    leaf = np.random.default_rng(seed).integers(0, len(sizes), n_added).astype(np.int32)
    every = np.concatenate((np.repeat(np.arange(len(sizes)), sizes), leaf)).astype(np.int32)
    starts, expected_starts = np.empty((2, len(sizes) + 1), np.int64)
    source, expected = np.empty((2, len(every)), np.int64)
    merge_by_leaf(np.array(sizes), leaf, starts, source)
    sort_by_leaf(every, len(sizes), expected_starts, expected)
    assert starts.tolist() == expected_starts.tolist() and source.tolist() == expected.tolist()
    assert source.tolist() == sorted(range(len(every)), key=lambda row: every[row])
    every[:: 1 + seed % 3] = -1
    sort_by_leaf(every, len(sizes), starts, source)
    left = [row for row in range(len(every)) if every[row] >= 0]
    assert source[: starts[-1]].tolist() == sorted(left, key=lambda row: every[row])
    assert np.diff(starts).tolist() == [int((every == here).sum()) for here in range(len(sizes))]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), unique=True), st.integers(0, 30), st.integers(0, 10), st.sampled_from("ilI"))
def test_new_ids_are_told_apart_from_others(ids: list[int], first: int, n_new: int, kind: str) -> None:
    names = np.array([70, 50, 60])
    bundles = np.arange(len(ids), dtype=np.int32) % 3
    expected = {id_: int(names[number % 3]) for number, id_ in enumerate(ids)}
    fresh = np.full(n_new, -1, np.int32)
    old_ids, old_names = np.empty(len(ids) + 1, kind), np.empty(len(ids) + 1, np.int32)
    n = tell_apart(np.array(ids, kind), bundles, names, first, fresh, old_ids, old_names)
    assert fresh.tolist() == [expected.get(first + i, -1) for i in range(n_new)]
    others = [(id_, name) for id_, name in expected.items() if not first <= id_ < first + n_new]
    assert list(zip(old_ids[:n].tolist(), old_names[:n].tolist(), strict=True)) == others
