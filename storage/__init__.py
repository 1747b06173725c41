"""The disk under the index: bytes, pages and files. It does not know rows, boxes or k.

    files ◄─ datafile ◄─ pagemap ◄─ snapshot ◄─ edit ◄─ store          journal, readers, publish ─► files
                                                  (one commit function)  verify reads all of them and changes nothing

Only `files` calls the operating system. FORMAT.md holds the byte maps, the argument that commit and recovery are
right, and the assumptions about the disk. Thread rules: a `Snapshot` and a `BufferPool` may be used from many threads;
a `DiskStore` belongs to one thread at a time, except that many threads may append to its journal.
"""

from rtree_anon.storage.budget import MemoryBudget, Reservation
from rtree_anon.storage.memory import MemoryStore
from rtree_anon.storage.opening import create_store, open_snapshot, open_store
from rtree_anon.storage.pool import BufferPool, PinnedPage
from rtree_anon.storage.protocol import PageReader, PageStore
from rtree_anon.storage.publish import Publication, publish_file, read_publication
from rtree_anon.storage.snapshot import Snapshot
from rtree_anon.storage.store import DiskStore
from rtree_anon.storage.verify import VerifyReport, verify_store

__all__ = [
    "BufferPool",
    "DiskStore",
    "MemoryBudget",
    "MemoryStore",
    "PageReader",
    "PageStore",
    "PinnedPage",
    "Publication",
    "Reservation",
    "Snapshot",
    "VerifyReport",
    "create_store",
    "open_snapshot",
    "open_store",
    "publish_file",
    "read_publication",
    "verify_store",
]
