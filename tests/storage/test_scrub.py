"""P4: after `compact(scrub=True)` the bytes of what was deleted are in no file of the index."""

from __future__ import annotations

import numpy as np

from rtree_anon.storage import create_store
from tests.storage.disk import Directory, Node, SimulatedDisk

SECRET = b"\x05ecret-of-a-deleted-row"
KEPT = b"a row that stays"


def files_with(disk: SimulatedDisk, needle: bytes) -> list[str]:
    index = disk.root.cached["index"]
    assert isinstance(index, Directory)
    return [name for name, node in index.cached.items() if isinstance(node, Node) and needle in node.cached]


def test_nothing_of_a_deleted_page_record_or_metadata_is_left_after_a_scrub():
    disk = SimulatedDisk()
    with create_store("index", page_bytes=512, fs=disk) as store:
        store.allocate(3)
        store.write(0, SECRET, 16)
        store.write(1, KEPT + SECRET, 16)
        store.write(2, KEPT, 17)
        store.append([SECRET])
        store.commit({"dictionary": SECRET}, journal_seq=1)
        with store.snapshot():  # leaves a registration behind
            assert set(files_with(disk, SECRET)) == {"data"}
            store.append([SECRET + b" again"])
        assert set(files_with(disk, SECRET)) == {"data", "journal"}
        store.free(np.array([0], np.uint64))
        store.write(1, KEPT, 16)
        store.commit({"dictionary": b""}, journal_seq=2)
        assert files_with(disk, SECRET)  # a commit alone leaves it in free pages and the older commit record
        store.compact(scrub=True)
        assert files_with(disk, SECRET) == []
        assert files_with(disk, KEPT) == ["data"]
        assert [bytes(store.read(page_id)) for page_id in (1, 2)] == [KEPT, KEPT]


def test_a_reused_buffer_leaks_nothing_behind_a_short_payload():
    for lengths in (20, np.array([20], np.uint32)):
        disk = SimulatedDisk()
        with create_store("index", page_bytes=512, fs=disk) as store:
            run = np.zeros((1, 512), np.uint8)
            run[0, 200 : 200 + len(SECRET)] = np.frombuffer(SECRET, np.uint8)
            store.allocate()
            store.write_run(np.array([0], np.uint64), run, 16, lengths)
            store.commit()
        assert files_with(disk, SECRET) == []
