"""The directory against a dictionary: whatever moves, every id is found where it was put last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtree_anon.errors import CorruptionError
from rtree_anon.index import directory as directory_module
from rtree_anon.index.directory import Directory
from rtree_anon.storage.memory import MemoryStore

NONE = np.empty(0, np.int64)
IDS = st.one_of(st.integers(0, 300), st.integers(2**61, 2**61 + 40))
RUN = st.tuples(IDS, st.integers(1, 60), st.integers(-1, 4))  # consecutive ids that go to one bundle, or away


@pytest.fixture(params=[50, 1 << 20])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes all at once, or in slices of ids."""
    monkeypatch.setattr(directory_module, "_CHANGES_AT_ONCE", request.param)


@pytest.mark.usefixtures("at_once")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(RUN, min_size=1, max_size=8), min_size=1, max_size=8))
def test_it_is_a_dictionary(batches: list[list[tuple[int, int, int]]]) -> None:
    store = MemoryStore(512)  # 29 ranges or some 1,200 ids a page
    directory, expected = Directory(store, NONE, NONE), dict[int, int]()
    for batch in batches:
        changes = {id_: page for first, n, page in batch for id_ in range(first, first + n)}
        ids, pages = np.array(list(changes), np.int64), np.array(list(changes.values()), np.int64)
        directory.change(store, [(ids, pages)], threads=1 + len(batch) % 2)
        expected.update(changes)
        asked = np.array(sorted({*expected, 0, 299, 2**62}), np.int64)
        again = Directory.from_bytes(store, directory.to_bytes())
        for each in (directory, again):
            assert each.find(asked).tolist() == [expected.get(id_, -1) for id_ in asked.tolist()]
        assert sorted(directory.pages.tolist()) == store.page_ids().tolist()
    last = np.int64(-1)
    for ranges in directory.ranges():
        assert np.all(ranges.first[1:] >= ranges.end[:-1]) and ranges.first[0] > last
        last = ranges.end[-1] - 1


def test_a_bulk_load_takes_one_range_for_each_bundle() -> None:
    store = MemoryStore(4096)
    n_rows = np.full(200, 3000)
    directory = Directory(store, NONE, NONE)
    directory.change(store, [(np.arange(600_000), np.repeat(np.arange(200), n_rows))])
    assert len(directory.pages) == 1
    assert directory.find(np.array([0, 2999, 3000, 599_999, 600_000])).tolist() == [0, 0, 1, 199, -1]


def test_only_the_pages_of_the_ids_are_touched() -> None:
    store = MemoryStore(512)
    directory = Directory(store, NONE, NONE)
    ids = np.arange(0, 400_000, 200)
    directory.change(store, [(ids, ids // 200 % 7)])
    before = {page: store.read(int(page)).tobytes() for page in directory.pages}
    assert len(before) > 50
    directory.change(store, [(np.array([200, 399_800]), np.array([99, -1]))])
    changed = [page for page, content in before.items() if store.read(int(page)).tobytes() != content]
    assert len(changed) == 2
    assert directory.find(np.array([200, 399_800, 399_600])).tolist() == [99, -1, 1998 % 7]


def test_inserted_rows_take_a_few_bits_each() -> None:
    """Consecutive ids all over the tree: a range of their own each would be 16 bytes."""
    store = MemoryStore(4096)
    directory = Directory(store, NONE, NONE)
    directory.change(store, [(np.arange(10_000), np.repeat(np.arange(10), 1000))])
    names = np.random.default_rng(1).integers(0, 500, 100_000)
    directory.change(store, [(np.arange(10_000, 110_000), names)])
    assert len(directory.pages) * 4096 < 1.45 * 100_000  # nine bits, one more for none, one to spare
    names[::1000] = -1
    directory.change(store, [(np.arange(10_000, 110_000, 1000), names[::1000])])
    assert directory.find(np.arange(10_000, 110_000)).tolist() == names.tolist()


def test_moved_rows_are_changed_in_place() -> None:
    """Rows that came by inserts and move to other bundles, of which there are twice as many meanwhile."""
    store = MemoryStore(4096)
    directory = Directory(store, NONE, NONE)
    generator = np.random.default_rng(2)
    names = np.concatenate((np.repeat(np.arange(10), 1000), generator.integers(0, 900, 50_000)))
    directory.change(store, [(np.arange(10_000), names[:10_000])])
    directory.change(store, [(np.arange(10_000, 60_000), names[10_000:])])
    before = directory.to_bytes()
    moved = np.sort(generator.permutation(60_000)[:20_000])
    moved = moved[moved > 10_000 + 3000]
    names[moved] = generator.integers(-1, 2000, len(moved))
    gone = np.isin(np.arange(60_000), [*directory._first.tolist(), *(directory._first - 1).tolist(), 59_999])
    names[gone] = np.maximum(names[gone], 0)
    directory.change(store, [(moved, names[moved])])
    assert directory.to_bytes() == before
    assert directory.find(np.arange(60_000)).tolist() == names.tolist()
    assert Directory.from_bytes(store, before).find(np.arange(60_000)).tolist() == names.tolist()


def test_new_ids_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "_CHANGES_AT_ONCE", 1000)
    store = MemoryStore(512)
    directory = Directory(store, NONE, NONE)
    directory.extend(store, 0, NONE.astype(np.int32))
    expected = np.full(9000, -1)
    for first, n in ((0, 500), (700, 4000), (4800, 4000)):
        names = np.random.default_rng(first).integers(-1, 40, n).astype(np.int32)
        names[n // 4 : n // 2] = -1  # a slice of nobody, too
        directory.extend(store, first, names, threads=2)
        expected[first : first + n] = names
    assert directory.find(np.arange(9000)).tolist() == expected.tolist()
    gone = np.arange(300, 8500, 3)
    directory.remove(store, gone, threads=2)
    expected[gone] = -1
    assert directory.find(np.arange(9000)).tolist() == expected.tolist()


@pytest.mark.parametrize("damage", [b"x", b"\xff" * 16, np.array([5, 5, 0, 1]).tobytes()])
def test_a_damaged_top(damage: bytes) -> None:
    with pytest.raises(CorruptionError):
        Directory.from_bytes(MemoryStore(512), damage)


def test_a_damaged_page() -> None:
    store = MemoryStore(512)
    directory = Directory(store, NONE, NONE)
    directory.change(store, [(np.arange(5), np.zeros(5, np.int64))])
    store.write(int(directory.pages[0]), b"\x09" * 40, 18)
    with pytest.raises(CorruptionError):
        Directory.from_bytes(store, directory.to_bytes()).find(np.array([1]))
