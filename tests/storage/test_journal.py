"""The journal by itself: numbering, groups, rotation, threads, and what a damaged or foreign end means."""

from __future__ import annotations

import threading

import pytest

from rtree_anon.errors import CorruptionError, StorageError, UsageError
from rtree_anon.storage import frames, journal
from rtree_anon.storage.journal import Journal
from tests.storage.disk import SimulatedDisk
from tests.storage.hostile import frames_of

STORE = bytes(range(16))


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("d")
    return disk


def reopened(disk: SimulatedDisk) -> list[tuple[int, bytes]]:
    again = Journal.open(disk, "d", STORE)
    try:
        return list(again.replay(0))
    finally:
        again.close()


def test_records_come_back_in_order_with_their_numbers(disk):
    log = Journal.create(disk, "d", STORE, 1)
    assert (log.durable_seq, log.last_seq) == (0, 0)
    assert log.append([b"a", b"", b"c" * 1000]) == 3
    assert (log.durable_seq, log.last_seq) == (0, 3)
    assert reopened(disk) == []
    assert log.flush() == 3
    assert log.flush() == 3
    assert log.append([b"d"]) == 4
    assert log.flush(4) == 4
    assert log.flush(2) == 4
    assert reopened(disk) == [(1, b"a"), (2, b""), (3, b"c" * 1000), (4, b"d")]
    assert list(log.replay(2)) == [(3, b"c" * 1000), (4, b"d")]
    log.close()


def test_rotation_keeps_what_no_commit_contains_and_remembers_the_commit(disk):
    log = Journal.create(disk, "d", STORE, 1)
    log.append([b"a", b"b", b"c"])
    log.flush()
    log.rotate(7, 2)
    assert (log.header.durable_commit, log.header.first_seq, log.durable_seq) == (7, 3, 3)
    assert log.append([b"d"]) == 4
    log.flush()
    assert list(log.replay(0)) == reopened(disk) == [(3, b"c"), (4, b"d")]
    log.rotate(8, 4)
    assert reopened(disk) == []
    assert log.append([b"e"]) == 5
    log.close()


def test_a_group_longer_than_a_frame_becomes_several_frames(disk, monkeypatch):
    monkeypatch.setattr(journal, "MAX_RECORD_BYTES", 100)
    log = Journal.create(disk, "d", STORE, 1)
    records = [bytes([number]) * 40 for number in range(7)]
    log.append(records)
    log.flush()
    assert [record for _, record in reopened(disk)] == records
    log.rotate(2, 1)
    assert [record for _, record in reopened(disk)] == records[1:]
    with pytest.raises(UsageError, match="101 bytes is too long"):
        log.append([bytes(101)])
    log.close()


def test_a_closed_journal_says_so(disk):
    log = Journal.create(disk, "d", STORE, 1)
    log.close()
    for act in (lambda: log.append([b""]), log.flush, lambda: log.rotate(1, 0)):
        with pytest.raises(StorageError, match="closed"):
            act()


def test_threads_share_syncs_and_lose_nothing(disk):
    """Sixteen threads append and wait for durability; a slow disk makes them queue, and one sync serves many."""
    log = Journal.create(disk, "d", STORE, 1)
    n_syncs, gate = 0, threading.Barrier(16)

    def count(operation: str, path: str) -> None:
        nonlocal n_syncs
        n_syncs += operation == "sync"

    disk.before = count
    seen: list[int] = []

    def work(number: int) -> None:
        gate.wait()
        for turn in range(20):
            seq = log.append([b"%d/%d" % (number, turn)])
            assert log.flush(seq) >= seq
            seen.append(seq)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    records = reopened(disk)
    assert [seq for seq, _ in records] == list(range(1, 321))
    assert sorted(seen) == list(range(1, 321))
    assert len({record for _, record in records}) == 320
    assert n_syncs <= 320


def test_a_torn_end_is_cut_and_the_rest_is_kept(disk):
    log = Journal.create(disk, "d", STORE, 1)
    log.append([b"first"])
    log.flush()
    log.append([b"second" * 50])
    log.flush()
    log.close()
    seal_at = frames_of(disk.content("d/journal"))[-1]
    for n_kept in range(seal_at - 1, seal_at - 300, -7):  # without the seal, which was not synced
        for zeros in (0, 5, 100, 5000):
            image = disk.copy()
            image.content("d/journal")[n_kept:] = bytes(zeros)
            assert reopened(image) == [(1, b"first")]


def test_the_file_grows_by_a_reserve_and_not_with_every_record(disk):
    """Small frames find zeros where they are written; a large one needs no reserve; all of them are found again."""
    log = Journal.create(disk, "d", STORE, 1)
    records = [bytes([number % 251]) * 100 for number in range(400)] + [bytes(30_000), b"x", bytes(30_000), b"y"]
    lengths = []
    for record in records:
        log.append([record])
        log.flush()
        lengths.append(len(disk.content("d/journal")))
    log.close()
    n_small, n_used = len(set(lengths[:400])), 4096 + 400 * 136 + 2 * (30_000 + 40) + 2 * 40 + 32
    assert 3 <= n_small <= 6
    assert n_used <= lengths[-1] <= n_used + (16 << 10)
    assert [record for _, record in reopened(disk)] == records


def test_a_record_that_changes_between_two_readings_is_refused(disk):
    log = Journal.create(disk, "d", STORE, 1)
    log.append([b"first"])
    log.flush()
    disk.content("d/journal")[4096 + 40] ^= 1
    with pytest.raises(CorruptionError, match="changed while it was read"):
        list(log.replay(0))
    with pytest.raises(CorruptionError):
        log.rotate(2, 0)
    with pytest.raises(StorageError, match="could not be replaced"):
        log.append([b"second"])
    log.close()


def test_bytes_of_an_older_journal_are_never_valid_in_this_one(disk):
    """The same record at the same place, but salted differently."""
    log = Journal.create(disk, "d", STORE, 1)
    log.append([b"old"])
    log.flush()
    old = bytes(disk.content("d/journal")[4096:])
    log.rotate(2, 0)
    log.rotate(3, 1)
    log.close()
    disk.content("d/journal")[4096:] = old
    assert reopened(disk) == []


def test_a_journal_file_in_which_nothing_is_written_yet_is_damage(disk):
    Journal.create(disk, "d", STORE, 1).close()
    disk.content("d/journal")[:] = b""
    with pytest.raises(CorruptionError, match="header of the journal is damaged"):
        Journal.open(disk, "d", STORE)
    assert disk.n_open == 0


def test_the_window_in_which_a_later_record_is_looked_for_is_bounded(disk, monkeypatch):
    """A sparse file of any length must not be read whole; behind two frame lengths nothing of ours can begin."""
    monkeypatch.setattr(frames, "MAX_BODY_BYTES", 1 << 12)
    log = Journal.create(disk, "d", STORE, 1)
    log.append([b"x"])
    log.flush()
    log.close()
    content = disk.content("d/journal")
    content[4096 + 3] ^= 1
    del content[frames_of(content)[-1] :]
    content.extend(bytes(1 << 20))
    n_bytes = 0
    original = frames.read_available

    def counting(file, buffer, offset):
        nonlocal n_bytes
        n_bytes += len(buffer)
        return original(file, buffer, offset)

    monkeypatch.setattr(frames, "read_available", counting)
    assert reopened(disk) == []
    assert n_bytes < 64 << 10
