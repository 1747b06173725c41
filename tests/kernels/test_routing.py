"""Routing: every row follows the cuts as a person would follow them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.index.cuts import Cuts, joined, walked
from rtree_anon.index.regions import divided, whole_domain
from rtree_anon.kernels.routing import route_batch
from rtree_anon.space import Kind, missing_code
from rtree_anon.tree import build_tree
from tests.tables import Table, tables


def naive_route(cuts: Cuts, row: list[int], missing: int) -> int:
    """Follow the cuts from the least deep one down; the thing that the row belongs to."""
    begin, end = 0, len(cuts)  # cuts that are still to be looked at
    while begin < end:
        cut = begin + int(np.argmin(cuts.depth[begin:end]))
        code = row[cuts.axis[cut]]
        if cuts.is_set[cut]:
            left = bool(int(cuts.left_set[cut]) >> (63 if code == missing else code) & 1)
        else:
            left = code < int(cuts.threshold[cut])
        if left != bool(cuts.flipped[cut]):
            end = cut
        else:
            begin = cut + 1
    return begin


def cuts_of(table: Table, k: int, seed: int = 0) -> Cuts:
    tree = build_tree(table.codes, table.space, k, threads=1, seed=seed)
    return walked(tree, None)[1]


@settings(max_examples=60, deadline=None)
@given(tables(max_rows=80), st.integers(1, 6))
def test_rows_follow_the_cuts(table: Table, k: int) -> None:
    cuts = cuts_of(table, k)
    codes = np.ascontiguousarray(table.codes.T)
    bucket = np.empty(len(table.codes), np.uint32)
    counts = np.zeros(len(cuts) + 1, np.int64)
    route_batch(codes, np.int64(table.missing), cuts.route_table, bucket, counts)
    assert bucket.tolist() == [naive_route(cuts, list(row), table.missing) for row in table.rows]
    assert counts.tolist() == np.bincount(bucket, minlength=len(counts)).tolist()
    assert counts.min() >= min(k, len(table.codes))


@settings(max_examples=40, deadline=None)
@given(tables(max_rows=80, min_rows=4), st.integers(1, 3))
def test_trees_can_be_joined(table: Table, k: int) -> None:
    """Cutting what an upper tree leaves, and joining: the same as routing twice."""
    upper = cuts_of(table, 3 * k)
    places = np.array([naive_route(upper, list(row), table.missing) for row in table.rows])
    lower = [cuts_of(Table(table.codes[places == place], table.space), k, place) for place in range(len(upper) + 1)]
    whole = joined(lower, upper)
    firsts = np.cumsum([0, *(len(part) + 1 for part in lower)])
    for row, place in zip(table.rows, places.tolist(), strict=True):
        expected = firsts[place] + naive_route(lower[place], list(row), table.missing)
        assert naive_route(whole, list(row), table.missing) == expected


@settings(max_examples=60, deadline=None)
@given(tables(max_rows=80), st.integers(1, 6))
def test_regions_hold_their_rows_and_nothing_is_in_two(table: Table, k: int) -> None:
    cuts = cuts_of(table, k)
    regions = divided(whole_domain(table.space, table.codes.dtype), cuts)
    for row in table.rows:
        inside = []
        for thing in range(len(cuts) + 1):
            contained = True
            for number, axis in enumerate(table.space.axes):
                code = row[number]
                if axis.kind == Kind.SET:
                    contained &= bool(int(regions.mask[thing, number]) >> (63 if code == table.missing else code) & 1)
                else:
                    contained &= int(regions.lo[thing, number]) <= code <= int(regions.hi[thing, number])
            if contained:
                inside.append(thing)
        assert inside == [naive_route(cuts, list(row), table.missing)]


def test_a_single_thing_takes_every_row() -> None:
    bucket, counts = np.empty(3, np.uint32), np.zeros(1, np.int64)
    codes = np.array([[1, 2, missing_code(np.int32)]], np.int32)
    route_batch(codes, np.int64(missing_code(np.int32)), Cuts.none().route_table, bucket, counts)
    assert bucket.tolist() == [0, 0, 0] and counts.tolist() == [3]


@pytest.mark.parametrize("n_rows", [511, 512, 513, 1025])
def test_blocks_of_rows_do_not_show(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    cuts = Cuts.from_vectors(*(np.array([value]) for value in (0, 0, 50, 0)))
    codes = rng.integers(0, 100, (1, n_rows)).astype(np.int32)
    bucket, counts = np.empty(n_rows, np.uint32), np.zeros(2, np.int64)
    route_batch(codes, np.int64(missing_code(np.int32)), cuts.route_table, bucket, counts)
    assert np.array_equal(bucket, codes[0] >= 50)
