"""What the index sees of the disk: `PageReader` for one version, `PageStore` for the one writer.

Two things implement them, under one conformance suite: the store on disk (`Snapshot`, `DiskStore`) and its twin in
memory (`MemoryStore`), which is the specification in its shortest form.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rtree_anon.storage.page import Ids, Run


class PageReader(Protocol):
    """One committed version: the same bytes for as long as it is open, whatever the writer does."""

    @property
    def commit_id(self) -> int:
        """The version: grows with every commit."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What the commit was given; do not change it."""

    @property
    def journal_seq(self) -> int:
        """Journal records up to this one are contained in this version."""

    @property
    def page_bytes(self) -> int:
        """Length of a page on disk."""

    @property
    def payload_bytes(self) -> int:
        """How much of it the caller may use."""

    def page_ids(self) -> Ids:
        """Pages that exist, ascending."""

    def read(self, page_id: int) -> NDArray[np.uint8]:
        """The payload of one page."""

    def read_run(self, page_ids: Ids, out: Run) -> NDArray[np.uint32]:
        """Read whole pages into ``out[:len(page_ids)]``; their payload lengths. Neighbours are one system call."""

    def close(self) -> None:
        """Let the writer reuse what only this version needed."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class PageStore(Protocol):
    """The one writer. Changes are invisible until `commit`, and gone after `abort` or a crash."""

    @property
    def commit_id(self) -> int:
        """The newest committed version."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata."""

    @property
    def journal_seq(self) -> int:
        """Its journal position."""

    @property
    def page_bytes(self) -> int:
        """Length of a page on disk."""

    @property
    def payload_bytes(self) -> int:
        """How much of it the caller may use."""

    def allocate(self, n_pages: int = 1) -> int:
        """The first of `n_pages` consecutive page ids that are not in use. A page never written does not exist."""

    def write(self, page_id: int, payload: bytes | bytearray | memoryview | NDArray[np.uint8], kind: int) -> None:
        """Give a page a new content."""

    def write_run(self, page_ids: Ids, run: Run, kind: int, lengths: NDArray[np.uint32] | int | None = None) -> None:
        """Give many pages new contents from whole pages whose headers are filled in in place (see `page.empty_run`)."""

    def free(self, page_ids: Ids) -> None:
        """Let pages go."""

    def read(self, page_id: int) -> NDArray[np.uint8]:
        """The payload of a page, changes of this transaction included."""

    def read_run(self, page_ids: Ids, out: Run) -> NDArray[np.uint32]:
        """As for a `PageReader`, changes of this transaction included."""

    def page_ids(self) -> Ids:
        """Pages that exist, ascending, changes of this transaction included."""

    def sync_ahead(self) -> None:
        """Begin to make the open transaction durable, so that `commit` is quick. The one call for another thread."""

    def commit(self, metadata: dict[str, Any] | None = None, journal_seq: int | None = None) -> int:
        """Make the changes durable and visible, all or nothing; the new version. None keeps what the last one had."""

    def abort(self) -> None:
        """Forget the changes since the last commit."""

    def rebuild(self) -> None:
        """Begin anew without any page: what is written until `commit` becomes the whole store, in a fresh file."""

    def compact(self, *, scrub: bool = False) -> int:
        """Rewrite the file without free space; with `scrub` nothing of what was deleted is left in the files."""

    def snapshot(self) -> PageReader:
        """The newest version, to read from while this store goes on."""

    def append(self, records: list[bytes], *, durable: bool = True) -> int:
        """Write to the journal; the last record's number. Not `durable`: with the next `flush` or `commit`."""

    def flush(self) -> int:
        """Make all appended records durable; the number of the last one."""

    def replay(self) -> list[tuple[int, bytes]]:
        """Durable records that the newest version does not contain yet."""

    def close(self) -> None:
        """Give the lock back. Uncommitted changes are gone."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...
