"""P6: going back to an older version, or past missing journal records, is an error unless the caller asks for it."""

from __future__ import annotations

import pytest

from rtree_anon.errors import CorruptionError
from rtree_anon.storage import create_store, open_snapshot, open_store, verify_store
from tests.storage.disk import SimulatedDisk

KIND = 16


def three_versions() -> SimulatedDisk:
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store:
        store.allocate()
        for version in range(3):
            store.append([b"record %d" % version])
            store.write(0, b"version %d" % version, KIND)
            store.commit({"version": version}, journal_seq=store.flush())
        store.append([b"record 3"])
    return disk


def newest_slot(disk: SimulatedDisk) -> int:
    return 4096 if int.from_bytes(disk.content("index/data")[4112:4120], "little") == 4 else 8192


def test_a_damaged_newest_commit_record_is_not_silently_replaced_by_the_older_one():
    disk = three_versions()
    disk.content("index/data")[newest_slot(disk) + 200] ^= 1
    for open_it in (open_store, open_snapshot):
        with pytest.raises(CorruptionError, match="version 4 was durable, but its commit record is damaged"):
            open_it("index", fs=disk)
    assert not verify_store("index", fs=disk).ok
    assert disk.n_open == 0


def test_going_back_on_request_gives_the_older_version_and_drops_what_came_after_it():
    disk = three_versions()
    disk.content("index/data")[newest_slot(disk) + 200] ^= 1
    with open_snapshot("index", allow_rollback=True, fs=disk) as snapshot:
        assert snapshot.metadata == {"version": 1}
    with open_store("index", allow_rollback=True, fs=disk) as store:
        assert (store.commit_id, store.metadata, bytes(store.read(0))) == (3, {"version": 1}, b"version 1")
        assert store.replay() == []  # record 3 was written behind version 2's record: without that one it is a hole
        assert store.commit() > 4  # never a number that was used before
        assert store.append([b"again"]) == 3
    with open_store("index", fs=disk) as store:  # and all is well from then on
        assert store.replay() == [(3, b"again")]
        store.commit()
    assert verify_store("index", fs=disk).ok


def test_two_damaged_commit_records_leave_nothing_to_open():
    disk = three_versions()
    for slot in (4096, 8192):
        disk.content("index/data")[slot + 9] ^= 1
    for open_it in (open_store, open_snapshot):
        with pytest.raises(CorruptionError, match="neither commit record can be read"):
            open_it("index", allow_rollback=True, fs=disk)
    assert "neither commit record" in " ".join(verify_store("index", fs=disk).problems)


def test_an_older_data_file_put_back_is_found():
    disk = three_versions()
    before = bytes(disk.content("index/data"))
    with open_store("index", fs=disk) as store:
        store.write(0, b"later", KIND)
        store.commit()
    disk.content("index/data")[:] = before
    with pytest.raises(CorruptionError, match="was durable"):
        open_store("index", fs=disk)


def test_an_older_journal_put_back_is_found():
    disk = three_versions()
    before = bytes(disk.content("index/journal"))
    with open_store("index", fs=disk) as store:
        for _ in range(3):
            store.commit()
    disk.content("index/journal")[:] = before
    with pytest.raises(CorruptionError, match="not of one moment"):
        open_store("index", fs=disk)
    with open_store("index", allow_rollback=True, fs=disk) as store:
        assert store.commit_id == 7


def test_a_broken_chain_of_commits_is_found_by_verify():
    """Two valid records, of which the newer was not made after the older: slots of different histories."""
    disk, other = three_versions(), three_versions()
    with open_store("index", fs=disk) as store:
        store.commit({"version": 99})
        store.commit({"version": 100})
    with open_store("index", fs=other) as store:
        store.commit({"version": 1})
        store.commit({"version": 2})
    newest = max((4096, 8192), key=lambda at: int.from_bytes(disk.content("index/data")[at + 16 : at + 24], "little"))
    disk.content("index/data")[12288 - newest : 12288 - newest + 4096] = other.content("index/data")[
        12288 - newest : 12288 - newest + 4096
    ]
    assert "not of one chain" in " ".join(verify_store("index", fs=disk).problems)


@pytest.mark.parametrize("what", ["stale", "misdirected"])
def test_a_page_that_is_intact_but_not_the_right_one_is_found(what):
    """A lost write leaves an older version of the page, a misdirected one another page: both have right checksums."""
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store:
        store.allocate(2)
        for version in range(4):
            for page_id in range(2):
                store.write(page_id, b"page %d version %d" % (page_id, version), KIND)
            store.commit()
    with open_snapshot("index", fs=disk) as snapshot:
        content = disk.content("index/data")
        places = {page_id: 16384 + 512 * int(snapshot.locate(snapshot.page_ids())[page_id, 0]) for page_id in (0, 1)}
        wanted = b"page 0 version 2" if what == "stale" else b"page 1 version 3"
        source = next(
            at for at in range(16384, len(content), 512) if content[at + 32 : at + 32 + len(wanted)] == wanted
        )
        content[places[0] : places[0] + 512] = content[source : source + 512]
        expected = "another version of it" if what == "stale" else "page 1 is in its place"
        with pytest.raises(CorruptionError, match=expected):
            snapshot.read(0)
    problems = " ".join(verify_store("index", fs=disk).problems)
    assert expected in problems
