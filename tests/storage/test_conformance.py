"""What every `PageStore` does, held against all of them: the store on a simulated disk, on the real one, and in
memory.
"""

from __future__ import annotations

import numpy as np
import pytest

from rtree_anon.errors import AnonError, CorruptionError, StorageError, UsageError
from rtree_anon.storage import MemoryStore, create_store
from rtree_anon.storage.blob import blob_pages, read_blob, write_blob
from rtree_anon.storage.page import empty_run, payloads
from tests.storage.disk import SimulatedDisk

KIND = 16


@pytest.fixture(params=["memory", "simulated disk", "real disk"])
def store(request, tmp_path):
    if request.param == "memory":
        made = MemoryStore(page_bytes=512)
    elif request.param == "simulated disk":
        made = create_store("index", page_bytes=512, fs=SimulatedDisk())
    else:
        made = create_store(tmp_path / "index", page_bytes=512)
    with made as store:
        yield store


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def contents(reader) -> dict[int, bytes]:
    return {page_id: bytes(reader.read(page_id)) for page_id in reader.page_ids().tolist()}


def test_a_new_store_is_empty_and_at_version_one(store):
    assert (store.commit_id, store.journal_seq, store.metadata) == (1, 0, {})
    assert (store.page_bytes, store.payload_bytes) == (512, 480)
    assert contents(store) == {}
    with store.snapshot() as snapshot:
        assert (snapshot.commit_id, snapshot.journal_seq, snapshot.metadata) == (1, 0, {})
        assert (snapshot.page_bytes, snapshot.payload_bytes) == (512, 480)
        assert contents(snapshot) == {}


def test_pages_are_read_back_in_the_transaction_and_after_it(store):
    first = store.allocate(3)
    store.write(first, b"a", KIND)
    store.write(first + 1, b"", KIND)
    store.write(first + 2, np.full(480, 7, np.uint8), KIND + 1)
    expected = {first: b"a", first + 1: b"", first + 2: bytes([7]) * 480}
    assert contents(store) == expected
    assert store.commit({"x": [1, None, "y", b"z", 2.5, True]}) == 2
    assert contents(store) == expected
    with store.snapshot() as snapshot:
        assert contents(snapshot) == expected
        assert snapshot.metadata == {"x": [1, None, "y", b"z", 2.5, True]}


def test_a_page_that_was_never_written_does_not_exist(store):
    store.allocate(5)
    store.write(3, b"here", KIND)
    store.commit()
    assert contents(store) == {3: b"here"}
    with pytest.raises(CorruptionError, match="age 1 was asked for"):
        store.read(1)
    with pytest.raises(CorruptionError, match="99"):
        store.read(99)


def test_syncing_ahead_changes_nothing(store):
    store.sync_ahead()
    store.write(store.allocate(), b"a", KIND)
    store.sync_ahead()
    with store.snapshot() as snapshot:
        assert len(snapshot.page_ids()) == 0
    store.abort()
    assert contents(store) == {}
    store.rebuild()
    store.write(store.allocate(), b"b", KIND)
    store.sync_ahead()
    store.commit()
    assert contents(store) == {0: b"b"}


def check_gap_of_unwritten_ids(store) -> None:
    """30 entries fit into a page of the page map here: the first one grows from 25 to 30 although none of them is
    written.
    """
    store.allocate(25)
    store.write_run(np.arange(25, dtype=np.uint64), empty_run(25, 512), KIND, 3)
    store.commit()
    first = store.allocate(10)
    store.write(first + 8, b"behind the gap", KIND)
    store.commit()
    with store.snapshot() as snapshot:
        assert snapshot.page_ids().tolist() == [*range(25), 33]
        assert bytes(snapshot.read(33)) == b"behind the gap"


def test_a_gap_of_unwritten_ids_is_no_hole_in_the_map(store):
    check_gap_of_unwritten_ids(store)


def check_place_is_given_out_once(store) -> None:
    """A page that was written and freed in one transaction gives its place back, once."""
    for page_id in range(store.allocate(6), 6):
        store.write(page_id, b"x", KIND)
    store.free(ids(1, 3))
    first = store.allocate(3)
    expected = {page_id: b"page %d" % page_id for page_id in (1, 3, 6)}
    assert (first, store.allocate(), store.allocate()) == (6, 1, 3)
    for page_id, content in expected.items():
        store.write(page_id, content, KIND)
    store.write(7, b"one more", KIND)
    store.write(8, b"and more", KIND)
    store.commit()
    with store.snapshot() as snapshot:
        found = contents(snapshot)
    assert {page_id: found[page_id] for page_id in expected} == expected
    assert len(found) == 9


def test_the_place_of_a_freed_page_is_given_out_once(store):
    check_place_is_given_out_once(store)


def test_uncommitted_changes_are_invisible_to_snapshots_and_gone_after_abort(store):
    store.write(store.allocate(), b"old", KIND)
    store.commit({"v": 1})
    store.write(0, b"new", KIND)
    store.write(store.allocate(), b"more", KIND)
    with store.snapshot() as snapshot:
        assert contents(snapshot) == {0: b"old"}
    store.abort()
    assert contents(store) == {0: b"old"}
    store.free(ids(0))
    assert contents(store) == {}
    store.abort()
    assert contents(store) == {0: b"old"}
    assert store.commit_id == 2


def test_a_snapshot_keeps_its_version(store):
    store.allocate(2)
    store.write(0, b"one", KIND)
    store.commit({"v": 1})
    snapshot = store.snapshot()
    store.write(0, b"two", KIND)
    store.write(store.allocate(), b"two", KIND)
    store.commit({"v": 2})
    store.free(ids(0))
    store.commit({"v": 3})
    assert contents(snapshot) == {0: b"one"}
    assert snapshot.metadata == {"v": 1}
    snapshot.close()
    with pytest.raises(UsageError, match="closed"):
        snapshot.read(0)


def test_metadata_and_journal_position_stay_when_not_given(store):
    store.commit({"a": 1}, journal_seq=store.append([b"r1", b"r2"]))
    store.commit()
    assert (store.metadata, store.journal_seq) == ({"a": 1}, 2)


def test_freed_ids_are_used_again_lowest_first_and_in_runs(store):
    store.allocate(10)
    for page_id in range(10):
        store.write(page_id, b"x", KIND)
    store.commit()
    store.free(ids(2, 5, 6, 7))
    assert store.allocate() == 2
    assert store.allocate(2) == 5
    assert store.allocate(3) == 10
    assert store.allocate() == 7
    assert store.allocate() == 13


def test_runs_are_written_and_read_whole(store):
    n = 75
    store.allocate(n)
    run = empty_run(n, 512)
    payloads(run)[:] = np.arange(n * 480, dtype=np.uint32).reshape(n, 480).astype(np.uint8)
    before = payloads(run).copy()
    lengths = (np.arange(n) * 7 % 481).astype(np.uint32)
    store.write_run(np.arange(n, dtype=np.uint64), run, KIND, lengths)
    store.commit()
    out = np.full((n + 3, 512), 255, np.uint8)
    chosen = ids(70, 3, 4, 5, 0, 74)
    read = store.read_run(chosen, out)
    assert read.tolist() == lengths[chosen].tolist()
    for row, page_id in enumerate(chosen.tolist()):
        n_used = int(lengths[page_id])
        assert out[row, 32 : 32 + n_used].tolist() == before[page_id, :n_used].tolist()
        assert not out[row, 32 + n_used :].any()  # zeros behind the payload, never what was in the buffer
    assert (out[6:] == 255).all()
    with store.snapshot() as snapshot:
        assert snapshot.read_run(chosen, out).tolist() == lengths[chosen].tolist()


def test_full_pages_are_the_default_length(store):
    store.allocate(2)
    store.write_run(ids(0, 1), empty_run(2, 512), KIND)
    store.commit()
    assert [len(page) for page in contents(store).values()] == [480, 480]
    store.write_run(ids(0), empty_run(1, 512), KIND, 5)
    assert len(store.read(0)) == 5


def test_an_empty_run_is_nothing(store):
    store.write_run(ids(), empty_run(0, 512), KIND)
    store.free(ids())
    store.commit()
    assert store.read_run(ids(), empty_run(0, 512)).tolist() == []


@pytest.mark.parametrize(
    ("act", "match"),
    [
        (lambda s: s.allocate(0), "at least one"),
        (lambda s: s.write(50, b"", KIND), "50 was not allocated"),
        (lambda s: s.write(0, b"", 3), "kind 3 is not allowed"),
        (lambda s: s.write(0, b"", 256), "kind 256 is not allowed"),
        (lambda s: s.write(0, bytes(481), KIND), "481 bytes does not fit"),
        (lambda s: s.write_run(ids(0, 1), empty_run(1, 512), KIND), "buffer has shape"),
        (lambda s: s.write_run(ids(0), empty_run(1, 256), KIND), "buffer has shape"),
        (lambda s: s.write_run(ids(0), empty_run(1, 512).astype(np.int8), KIND), "buffer has shape"),
        (lambda s: s.write_run(ids(0, 0), empty_run(2, 512), KIND), "named twice"),
        (lambda s: s.write_run(ids(0), empty_run(1, 512), KIND, np.array([1, 2])), "lengths were given"),
        (lambda s: s.write_run(ids(0), empty_run(1, 512), KIND, 500), "does not fit"),
        (lambda s: s.write_run(ids(0), empty_run(1, 512), KIND, -1), "does not fit"),
        (lambda s: s.free(ids(2)), "2 was not allocated"),
        (lambda s: s.free(ids(0, 0)), "named twice"),
        (lambda s: s.commit({"x": object()}), "only plain values"),
        (lambda s: s.commit({1: 2}), "keys are text"),
        (lambda s: s.commit({"x": 1 << 70}), "cannot be stored"),
        (lambda s: s.commit({"x": "y" * 5000}), "Put what is large into pages"),
        (lambda s: s.commit({}, journal_seq=1), "journal position 1"),
        (lambda s: s.commit({}, journal_seq=-1), "journal position -1"),
        (lambda s: s.rebuild(), "between transactions"),
        (lambda s: s.compact(), "between transactions"),
    ],
)
def test_wrong_usage_is_refused_and_changes_nothing(store, act, match):
    store.allocate(2)
    store.write(0, b"kept", KIND)
    with pytest.raises(UsageError, match=match):
        act(store)
    store.commit()
    assert contents(store) == {0: b"kept"}


def test_metadata_nested_too_deep_is_refused(store):
    nested: list[object] = []
    for _ in range(30):
        nested = [nested]
    with pytest.raises(UsageError, match="nested more than"):
        store.commit({"x": nested})


def test_a_rebuild_replaces_everything_at_commit_and_nothing_before(store):
    store.allocate(3)
    for page_id in range(3):
        store.write(page_id, b"old", KIND)
    store.commit({"v": 1})
    store.rebuild()
    assert contents(store) == {}
    first = store.allocate(2)
    store.write(first + 1, b"new", KIND)
    with store.snapshot() as snapshot:
        assert len(contents(snapshot)) == 3
    store.abort()
    assert len(contents(store)) == 3
    store.rebuild()
    store.write(store.allocate(), b"newer", KIND)
    store.commit({"v": 2})
    assert contents(store) == {0: b"newer"}
    with store.snapshot() as snapshot:
        assert (contents(snapshot), snapshot.metadata) == ({0: b"newer"}, {"v": 2})


def test_compaction_keeps_pages_ids_and_metadata(store):
    store.allocate(60)
    for page_id in range(60):
        store.write(page_id, bytes([page_id]) * (page_id * 8), KIND + page_id % 3)
    store.commit({"v": 1})
    store.free(ids(*range(0, 60, 2)))
    store.commit()
    expected = contents(store)
    assert store.compact() == 4
    assert (contents(store), store.metadata) == (expected, {"v": 1})
    store.write(1, b"goes on", KIND)
    store.commit()
    assert bytes(store.read(1)) == b"goes on"


def test_an_empty_store_can_be_compacted(store):
    store.compact(scrub=True)
    assert contents(store) == {}


def test_the_journal_is_replayed_from_the_version_on(store):
    assert store.append([b"a", b"b"]) == 2
    assert store.append([b"c"], durable=False) == 3
    assert store.flush() == 3
    assert store.replay() == [(1, b"a"), (2, b"b"), (3, b"c")]
    store.commit(journal_seq=2)
    assert store.replay() == [(3, b"c")]
    assert store.append([b"d"]) == 4
    assert store.replay() == [(3, b"c"), (4, b"d")]
    with pytest.raises(UsageError, match="commit them, then scrub"):
        store.compact(scrub=True)
    store.compact()
    assert store.replay() == [(3, b"c"), (4, b"d")]
    store.commit(journal_seq=4)
    assert store.replay() == []


def test_records_that_are_not_flushed_are_made_durable_by_a_commit_that_contains_them(store):
    store.append([b"a", b"b"], durable=False)
    store.commit(journal_seq=1)
    assert store.replay() == [(2, b"b")]


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    for act in (
        store.allocate,
        store.page_ids,
        store.commit,
        store.abort,
        store.rebuild,
        store.compact,
        store.sync_ahead,
    ):
        with pytest.raises(StorageError, match="closed"):
            act()
    for act in (store.snapshot, store.flush, store.replay, lambda: store.append([b""]), lambda: store.read(0)):
        with pytest.raises(StorageError, match="closed"):
            act()


def test_blobs_of_all_lengths(store):
    lengths = [0, 1, 479, 480, 481, 960, 5000]
    content = {n: bytes(i % 251 for i in range(n)) for n in lengths}
    references = {n: write_blob(store, content[n], KIND) for n in lengths}
    assert all(read_blob(store, references[n]) == content[n] for n in lengths)
    store.commit({"blobs": list(references.values())})
    with store.snapshot() as snapshot:
        assert [read_blob(snapshot, reference) for reference in snapshot.metadata["blobs"]] == list(content.values())
    store.free(blob_pages(references[5000], store.payload_bytes, 1000))
    with pytest.raises(CorruptionError):
        read_blob(store, references[5000])


HOSTILE_REFERENCES = [
    *(None, 5, {}, {"first": "0", "bytes": 1}, {"first": True, "bytes": 1}, {"first": -1, "bytes": 1}),
    *({"first": 0, "bytes": n_bytes} for n_bytes in (-1, 1 << 60, 999, 481)),
    *({"first": 1 << 62, "bytes": 1}, {"first": 2, "bytes": 481}),
]


@pytest.mark.parametrize("reference", HOSTILE_REFERENCES)
def test_a_hostile_blob_reference_is_refused(store, reference):
    write_blob(store, bytes(1000), KIND)
    store.write(store.allocate(2) + 1, b"", KIND)
    with pytest.raises(CorruptionError):
        read_blob(store, reference)


def test_a_snapshot_on_disk_knows_its_file(tmp_path):
    with create_store(tmp_path / "index") as store, store.snapshot() as snapshot:
        assert snapshot.path == str(tmp_path / "index" / "data")
        assert len(snapshot.file_id) == 16


def test_a_buffer_that_does_not_fit_is_refused(tmp_path):
    with create_store(tmp_path / "index", page_bytes=512) as store:
        store.allocate(2)
        store.write_run(ids(0, 1), empty_run(2, 512), KIND)
        for out in (empty_run(1, 512), empty_run(2, 1024), np.zeros((2, 1024), np.uint8)[:, ::2]):
            with pytest.raises(UsageError, match="2 pages of 512 bytes are to be read"):
                store.read_run(ids(0, 1), out)


def test_errors_are_ours_and_what_a_caller_expects(store):
    with pytest.raises(ValueError, match="at least one") as usage:
        store.allocate(-1)
    assert isinstance(usage.value, AnonError)
    with pytest.raises(OSError, match="no such page") as damage:
        store.read(7)
    assert isinstance(damage.value, AnonError)
