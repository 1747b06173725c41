"""P9: no index file, however hostile, crashes, hangs or over-allocates; the day-one list of other stores' mistakes by
name.
"""

from __future__ import annotations

import struct

import pytest

from rtree_anon.errors import CorruptionError, LockedError, StorageError
from rtree_anon.storage import create_store, open_snapshot, open_store, verify_store
from tests.storage.deep import accumulate
from tests.storage.disk import SimulatedDisk
from tests.storage.hostile import PAGE, Pristine, disk_with, exercise, hostile_pin, mutate, place, pristine, repair

N_QUICK = 5_000


@pytest.fixture(scope="module")
def honest() -> Pristine:
    return pristine()


def changed(honest: Pristine, change) -> SimulatedDisk:
    """The honest index after `change(data, journal)`, with repaired checksums."""
    data, journal = bytearray(honest.data), bytearray(honest.journal)
    change(data, journal)
    repair(honest, data, journal)
    return disk_with({"data": data, "journal": journal, "writer.lock": bytearray()})


def fuzz(honest: Pristine, seeds: range) -> int:
    n_refused = 0
    for seed in seeds:
        try:
            n_refused += exercise(mutate(honest, seed), measure_memory=seed % 50 == 0) > 0
        except AssertionError as violation:
            raise AssertionError(
                f"{violation} -- repeat: tests.storage.hostile.exercise(mutate(pristine(), {seed}))"
            ) from violation
    return n_refused


def test_the_honest_file_is_accepted(honest):
    disk = changed(honest, lambda data, journal: None)
    assert exercise(disk) == 0
    assert verify_store("index", fs=disk).ok


def test_repairing_only_what_was_changed_is_repairing(honest):
    for seed in range(400):
        quick, slow = mutate(honest, seed), mutate(honest, seed, quickly=False)
        for name in ("data", "journal"):
            assert quick.content(f"index/{name}") == slow.content(f"index/{name}"), f"{name} of seed {seed}"


def test_thousands_of_hostile_files(honest, tally):
    n_refused = fuzz(honest, range(N_QUICK))
    assert N_QUICK // 4 < n_refused < N_QUICK  # both kinds were met
    tally("hostile files", N_QUICK)


@pytest.mark.deep
def test_a_million_hostile_files(honest, tally):
    def step(seed: int) -> int:
        fuzz(honest, range(seed * 2_000, (seed + 1) * 2_000))
        return 2_000

    n_now, total = accumulate("hostile files", 1_000_000, step)
    tally("hostile files", n_now)
    tally("hostile files, all deep runs of this code", total)


def point(parent: int, number: int, target: int):
    """Let an entry of a map page name another physical page."""
    return lambda data, journal: struct.pack_into("<Q", data, place(parent) + 32 + 16 * number, target)


def refused(disk: SimulatedDisk, match: str) -> None:
    with pytest.raises(CorruptionError, match=match):
        open_snapshot("index", fs=disk)
    with pytest.raises(CorruptionError, match=match):
        open_store("index", fs=disk)
    assert not verify_store("index", fs=disk).ok
    assert disk.n_open == 0


def test_a_map_page_that_links_to_itself_is_refused(honest):
    root = honest.levels[-1][0]
    refused(changed(honest, point(root, 0, root)), "damaged")


def test_a_map_page_that_links_to_its_parent_is_refused(honest):
    (root,), parent = honest.levels[-1], honest.levels[1][0]
    refused(changed(honest, point(parent, 3, root)), "twice")


def test_two_pages_in_one_place_are_refused(honest):
    refused(changed(honest, point(honest.levels[1][0], 3, honest.levels[0][5])), "twice")


def test_a_page_number_that_asks_for_terabytes_is_refused(honest):
    refused(changed(honest, point(honest.levels[1][0], 3, 1 << 39)), "points to page")
    refused(changed(honest, point(honest.levels[-1][0], 1, 1 << 39)), "end of the file")


def test_a_hole_in_the_page_map_itself_is_refused(honest):
    refused(changed(honest, point(honest.levels[-1][0], 1, (1 << 64) - 1)), "lost one of its own pages")


def in_slot(honest: Pristine, offset: int, value: int):
    return lambda data, journal: struct.pack_into("<Q", data, honest.slot_at + offset, value)


@pytest.mark.parametrize("value", [1 << 40, (1 << 64) - 1, 1 << 33, 5_000])
def test_more_logical_pages_than_can_be_are_refused(honest, value):
    refused(changed(honest, in_slot(honest, 32, value)), "impossible numbers")


def test_more_pages_than_the_file_holds_are_refused(honest):
    refused(changed(honest, in_slot(honest, 24, 1 << 30)), "cut off")


def test_a_commit_in_the_wrong_slot_is_refused(honest):
    (commit_id,) = struct.unpack_from("<Q", honest.data, honest.slot_at + 16)
    refused(changed(honest, in_slot(honest, 16, commit_id + 1)), "wrong slot")


def test_a_commit_that_jumps_ahead_of_the_journal_is_refused(honest):
    (commit_id,) = struct.unpack_from("<Q", honest.data, honest.slot_at + 16)
    refused(changed(honest, in_slot(honest, 16, commit_id + 2)), "not of one moment")


def test_a_metadata_bomb_is_refused(honest):
    def bomb(data: bytearray, journal: bytearray) -> None:
        data[honest.slot_at + 96 : honest.slot_at + 101] = b"\xdf\xff\xff\xff\xff"  # a map of four billion entries

    refused(changed(honest, bomb), "metadata of a commit cannot be decoded")


def test_metadata_nested_too_deep_or_of_a_strange_type_is_refused(honest):
    def deep(data: bytearray, journal: bytearray) -> None:
        struct.pack_into("<I", data, honest.slot_at + 76, 3_000)
        data[honest.slot_at + 96 : honest.slot_at + 96 + 3_000] = b"\x81\xa1x" + b"\x91" * 2_996 + b"\xc0"

    def timestamp(data: bytearray, journal: bytearray) -> None:
        packed = b"\x81\xa1x\xd6\xff\0\0\0\0"
        struct.pack_into("<I", data, honest.slot_at + 76, len(packed))
        data[honest.slot_at + 96 : honest.slot_at + 96 + len(packed)] = packed

    def extension(data: bytearray, journal: bytearray) -> None:
        packed = b"\x81\xa1x\xd6\x05\0\0\0\0"
        struct.pack_into("<I", data, honest.slot_at + 76, len(packed))
        data[honest.slot_at + 96 : honest.slot_at + 96 + len(packed)] = packed

    def a_list(data: bytearray, journal: bytearray) -> None:
        struct.pack_into("<I", data, honest.slot_at + 76, 1)
        data[honest.slot_at + 96] = 0x90

    for change in (deep, timestamp, extension, a_list):
        refused(changed(honest, change), "metadata of a commit cannot be decoded")


def test_a_payload_longer_than_its_page_is_refused(honest):
    def longer(data: bytearray, journal: bytearray) -> None:
        struct.pack_into("<I", data, place(honest.levels[0][20]) + 12, PAGE)

    disk = changed(honest, longer)
    with open_snapshot("index", fs=disk) as snapshot, pytest.raises(CorruptionError, match="header is impossible"):
        snapshot.read(20)


def test_a_map_page_with_a_wrong_number_of_entries_is_refused(honest):
    def fewer(data: bytearray, journal: bytearray) -> None:
        struct.pack_into("<I", data, place(honest.levels[1][0]) + 12, 29 * 16)

    refused(changed(honest, fewer), "wrong number of entries")


@pytest.mark.parametrize(
    ("offset", "value", "match"),
    [
        (16, 2, "format version 2"),
        (20, 9, "algorithm 9"),
        (24, 500, "impossible page size"),
        (24, 1 << 30, "impossible page size"),
        (28, 1, "impossible page size"),
        (8, 0, "not a page file"),
    ],
)
def test_a_file_header_of_another_kind_has_its_own_message(honest, offset, value, match):
    disk = changed(honest, lambda data, journal: struct.pack_into("<I", data, offset, value))
    with pytest.raises(StorageError, match=match):
        open_snapshot("index", fs=disk)


@pytest.mark.parametrize(
    ("offset", "value", "match"),
    [
        (16, 7, "journal version 7"),
        (48, 0, "impossible numbers"),
        (56, 1 << 63, "impossible numbers"),
        (8, 0, "damaged"),
    ],
)
def test_a_journal_header_of_another_kind_has_its_own_message(honest, offset, value, match):
    disk = changed(
        honest, lambda data, journal: struct.pack_into("<Q" if offset > 40 else "<I", journal, offset, value)
    )
    with pytest.raises(StorageError, match=match):
        open_store("index", fs=disk)


def test_a_journal_of_another_index_is_refused(honest):
    refused(changed(honest, lambda data, journal: struct.pack_into("<Q", journal, 24, 1)), "belongs to another index")


def test_a_journal_record_longer_than_its_frame_is_refused(honest):
    def longer(data: bytearray, journal: bytearray) -> None:
        struct.pack_into("<I", journal, honest.frames[0] + 32, 1 << 31)

    disk = changed(honest, longer)
    with pytest.raises(CorruptionError, match="longer than the frame"):
        open_store("index", fs=disk)
    assert "longer than the frame" in str(verify_store("index", fs=disk).problems)


def test_a_hole_between_the_pages_and_the_journal_is_refused(honest):
    def later(data: bytearray, journal: bytearray) -> None:
        for at in (32, *honest.frames):  # the header's first number, and that of each frame, sixteen bytes further on
            struct.pack_into("<Q", journal, at + 16, struct.unpack_from("<Q", journal, at + 16)[0] + 4)

    disk = changed(honest, later)
    with pytest.raises(CorruptionError, match="some are missing"):
        open_store("index", fs=disk)
    with open_store("index", allow_rollback=True, fs=disk) as store:
        assert store.replay() == []


def test_missing_files_have_their_own_messages(honest):
    parts = {"data": bytearray(honest.data), "journal": bytearray(honest.journal), "writer.lock": bytearray()}
    for missing, match in (
        ("data", "could not open"),
        ("journal", "journal is missing"),
        ("writer.lock", "no index here"),
    ):
        disk = disk_with({name: bytearray(content) for name, content in parts.items() if name != missing})
        with pytest.raises(StorageError, match=match):
            open_store("index", fs=disk)
        assert disk.n_open == 0
    with pytest.raises(StorageError, match="register as a reader"):
        open_snapshot("nowhere", fs=SimulatedDisk())


def test_a_file_cut_off_anywhere_is_refused_or_whole(honest):
    for n_bytes in (0, 5, 100, 4095, 4096, 8192, 12287, 16384, 20000, len(honest.data) - 1):
        disk = disk_with(
            {"data": bytearray(honest.data[:n_bytes]), "journal": bytearray(honest.journal), "writer.lock": bytearray()}
        )
        with pytest.raises(CorruptionError):
            open_snapshot("index", fs=disk)
        assert not verify_store("index", fs=disk).ok


@pytest.mark.parametrize("content", [b"", b"x" * 96, b"\xff" * 4096])
def test_an_absurd_registration_of_a_living_reader_only_stops_reuse(content):
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store:
        header_file_id = bytes(disk.content("index/data")[48:64])
        hostile_pin(disk, content[:80] + header_file_id + content[96:] if content else b"")
        for step in range(5):
            for page_id in range(10):
                if step == 0:
                    store.allocate()
                store.write(page_id, bytes([step, page_id]), 16)
            store.commit()
        assert [bytes(store.read(page_id)) for page_id in range(10)] == [bytes([4, page_id]) for page_id in range(10)]
        # with an absurd pin nothing may be reused, so the file grows with every commit; without one it does not
        assert (store.n_pages > 45) == bool(content)


def test_too_many_readers_is_a_clear_error(monkeypatch):
    monkeypatch.setattr("rtree_anon.storage.readers.MAX_READERS", 2)
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store, store.snapshot(), store.snapshot():  # noqa: SIM117
        with pytest.raises(LockedError, match="2 readers are open already"):
            store.snapshot()
