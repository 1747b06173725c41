"""What waits for a checkpoint, against a list of rows; ids in runs, against a dictionary; sorting, against Python's."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.errors import CorruptionError
from rtree_anon.index import id_runs, sorting
from rtree_anon.index import pending as module
from rtree_anon.index.id_runs import IdRuns, IdSet
from rtree_anon.index.pending import Pending, waiting
from rtree_anon.index.rowlayout import RowLayout, layout_of
from rtree_anon.index.sorting import is_distinct, ordered, sorted_pairs
from rtree_anon.kernels.radix import sort_by_bits, sort_in_place
from rtree_anon.kernels.rowwords import unpack_rows
from rtree_anon.space import missing_code

MISSING = missing_code(np.int64)
CODES = st.one_of(st.integers(-5, 5), st.integers(-(2**40), 2**40), st.just(MISSING))
IDS = st.one_of(st.integers(0, 30), st.integers(2**61, 2**61 + 9))
WIDE = layout_of([(-(2**41), 2**41)] * 3 + [(0, 2**62)])


def unpacked(words: np.ndarray, layout: RowLayout) -> list[list[int]]:
    n = layout.n_columns
    codes = np.empty((len(words), n), np.int64)
    unpack_rows(words, layout.words, 0, np.arange(n), np.full(n, MISSING, np.int64), codes)
    return codes.tolist()


class Twin:
    """Rows by id, in the order in which they came, and ids of the tree that are to go."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.gone: set[int] = set()


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([1, 3, 8]))
def test_what_waits_is_what_came(data: st.DataObject, loose: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "LOOSE_ROWS", loose)
        patched.setattr(id_runs, "_SPAN_IDS", 2)
        pending, twin = Pending(), Twin()
        for _ in range(data.draw(st.integers(1, 8))):
            if twin.rows and data.draw(st.booleans()):
                leave = data.draw(st.lists(st.sampled_from(sorted(twin.rows)), unique=True))
                pending.drop(pending.find(np.array(leave, np.int64)))
                for id_ in leave:
                    del twin.rows[id_]
            gone = data.draw(st.lists(IDS.filter(lambda id_: id_ not in twin.gone), unique=True, max_size=3))
            pending.remove(np.array(gone, np.int64))
            twin.gone.update(gone)
            new = data.draw(st.lists(IDS.filter(lambda id_: id_ not in twin.rows), unique=True, max_size=9))
            if new and data.draw(st.booleans()):  # as the index gives them out
                new = [id_ for id_ in range(new[0], new[0] + len(new)) if id_ not in twin.rows]
            rows = [data.draw(st.lists(CODES, min_size=3, max_size=3)) for _ in new]
            cut = data.draw(st.integers(0, len(new)))
            parts = [np.array(part, np.int64).reshape(-1, 3).T for part in (rows[:cut], rows[cut:]) if part]
            pending.add([waiting(part) for part in parts], np.array(new, np.int64))
            twin.rows.update(zip(new, rows, strict=True))
        asked = np.array(sorted({*twin.rows, *twin.gone, 0, 31, 2**61}), np.int64)
        places = pending.find(asked)
        assert [place >= 0 for place in places] == [id_ in twin.rows for id_ in asked.tolist()]
        there = asked[places >= 0].tolist()
        assert pending.rows_at(places[places >= 0]).T.tolist() == [twin.rows[id_] for id_ in there]
        assert pending.is_gone(asked).tolist() == [id_ in twin.gone for id_ in asked.tolist()]
        assert pending.gone().tolist() == sorted(twin.gone)
        assert (pending.n_rows, pending.n_gone) == (len(twin.rows), len(twin.gone))
        for threads in (1, 2):  # the second time they wait in that form already, if none was dropped
            expected = [[*row, id_] for id_, row in twin.rows.items()]
            assert unpacked(pending.packed(WIDE, threads), WIDE) == expected
            assert pending.rows_at(places[places >= 0]).T.tolist() == [twin.rows[id_] for id_ in there]
        for column in range(3 if pending else 0):
            assert pending.column(column).tolist() == [row[column] for row in twin.rows.values()]
        has_missing = [any(row[column] == MISSING for row in twin.rows.values()) for column in range(3)]
        assert all(pending.missing(3).tolist()[c] for c in range(3) if has_missing[c])


def test_a_value_outside_the_domain_is_never_packed() -> None:
    pending = Pending()
    pending.add([np.array([[1, 7], [0, 0]])], np.array([5, 6]))
    assert len(pending.packed(layout_of([(1, 7), (0, 0), (0, 9)]))) == 2
    for ranges in ([(2, 7), (0, 0), (0, 9)], [(1, 6), (0, 0), (0, 9)], [(1, 7), (0, 0), (6, 9)]):
        with pytest.raises(CorruptionError, match="outside its column's domain"):
            pending.packed(layout_of(ranges))


def test_many_rows_take_little_memory() -> None:
    """Ten columns of small numbers: less than half of the 80 bytes that codes alone would be."""
    codes = np.random.default_rng(1).integers(0, 4096, (10, 200_000))
    pending = Pending()
    for begin in range(0, 200_000, 20_000):
        pending.add([waiting(codes[:, begin : begin + 20_000])], np.arange(begin, begin + 20_000))
    assert pending.n_bytes < 40 * 200_000
    assert (
        pending.rows_at(np.array([0, 19_999, 20_000, 199_999])).tolist() == codes[:, [0, 19_999, 20_000, -1]].tolist()
    )


RUNS = st.lists(st.tuples(IDS, st.integers(0, 99)), max_size=12, unique_by=lambda pair: pair[0])
SPANS = st.builds(
    lambda id_, number, n: [(id_ + i, number + i) for i in range(n)], IDS, st.integers(0, 99), st.integers(0, 12)
)


@settings(deadline=None)
@given(st.lists(st.one_of(RUNS, SPANS), max_size=9), st.sampled_from([1, 3, 1024]), st.randoms())
def test_runs_and_spans_are_a_dictionary(batches: list[list[tuple[int, int]]], span_ids: int, chance: Random) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(id_runs, "_SPAN_IDS", span_ids)
        patched.setattr(id_runs, "_MANY_IDS", 3)
        runs, expected, every = IdRuns(), dict[int, int](), list[int]()
        for batch in batches:
            runs.add(np.array([id_ for id_, _ in batch], np.int64), np.array([number for _, number in batch], np.int32))
            expected.update(batch)
            every += [id_ for id_, _ in batch]
        asked = np.array(chance.sample([*sorted(expected), 31, 2**62], len(expected) + 2), np.int64)
        assert runs.find(asked).tolist() == [expected.get(id_, -1) for id_ in asked.tolist()]
        assert len(runs) == len(every)


@settings(deadline=None)
@given(st.lists(st.lists(IDS, max_size=12), max_size=9), st.sampled_from([1, 4096]), st.data())
def test_runs_without_numbers_are_a_set(batches: list[list[int]], many: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(id_runs, "_MANY_IDS", many)
        patched.setattr(sorting, "_FEW", 2)
        found, expected = IdSet(), set[int]()
        for batch in batches:
            new = [id_ for id_ in dict.fromkeys(batch) if id_ not in expected]
            found.add(np.array(new, np.int64))
            expected.update(new)
            if data.draw(st.booleans()):
                assert found.ids().tolist() == sorted(expected)
            asked = data.draw(st.lists(st.one_of(IDS, st.sampled_from([0, *expected]))))
            assert found.has(np.array(asked, np.int64)).tolist() == [id_ in expected for id_ in asked]
            assert len(found) == len(expected) and found.n_bytes == 8 * len(expected)


def test_ids_that_the_index_gives_out_take_no_memory() -> None:
    runs = IdRuns()
    for begin in range(0, 50_000, 2_000):
        runs.add(np.arange(begin, begin + 2_000), np.arange(begin, begin + 2_000, dtype=np.int32))
        runs.add(np.array([10**9 - begin]), np.array([99], np.int32))  # such ids as keys are
    assert runs.n_bytes < 1000
    assert runs.find(np.array([0, 1_999, 2_000, 49_999, 50_000, 10**9])).tolist() == [0, 1_999, 2_000, 49_999, -1, 99]


def test_runs_stay_few() -> None:
    runs = IdRuns()
    for id_ in range(5000):
        runs.add(np.array([(id_ * 7919) % 5000]), np.array([id_], np.int32))
    assert len(runs._runs) <= 13
    assert runs.by_number()(0, 5000).tolist() == [(id_ * 7919) % 5000 for id_ in range(5000)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.one_of(IDS, st.integers(-9, 2**62)), st.integers(-1, 2**40))), st.sampled_from([0, 4096]))
def test_pairs_are_sorted_by_id(pairs: list[tuple[int, int]], few: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sorting, "_FEW", few)
        ids, others = np.array(pairs, np.int64).reshape(-1, 2).T
        found = sorted_pairs(ids, others)
        assert found[0].tolist() == sorted(ids.tolist())
        assert sorted(zip(*(each.tolist() for each in found), strict=True)) == sorted(pairs)
        parts = [(ids[: len(ids) // 3], others[: len(ids) // 3]), (ids[len(ids) // 3 :], others[len(ids) // 3 :])]
        slices = list(sorting.sorted_slices(parts, 5))
        assert not parts and all(len(some) <= 5 for some, _ in slices)
        assert [id_ for some, _ in slices for id_ in some.tolist()] == found[0].tolist()
        assert sorted(pair for each in slices for pair in zip(*(column.tolist() for column in each), strict=True)) == (
            sorted(pairs)
        )
        assert sorting.sorted_ids(ids).tolist() == found[0].tolist()
        ascending, places = ordered(ids)
        assert places.tolist() == sorted(range(len(pairs)), key=lambda i: pairs[i][0])
        assert np.array_equal(ids[places], ascending)
        assert is_distinct(ids) == (len(set(ids.tolist())) == len(pairs))


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.integers(0, 63), st.integers(0, 64))
def test_numbers_are_sorted_stably_by_some_of_their_bits(numbers: list[int], low: int, n_bits: int) -> None:
    high = min(low + n_bits, 64)
    found = sort_by_bits(np.array(numbers, np.uint64), np.empty(len(numbers), np.uint64), low, high)
    assert found.tolist() == sorted(numbers, key=lambda number: (number >> low) % (1 << (high - low)))
    keys = np.array(numbers, np.uint64)
    sort_in_place(keys, low, high)
    assert sorted(keys.tolist()) == sorted(numbers)
    by_bits = [(number >> low) % (1 << (high - low)) for number in keys.tolist()]
    assert by_bits == sorted(by_bits)
