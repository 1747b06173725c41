"""The store in memory: what `PageStore` means, in its shortest form. For tests, and for indexes that need no disk.

A version is a dictionary of payloads; a commit is an assignment. Nothing here can be torn, so whatever the disk store
does differently (apart from surviving) is a mistake of the disk store: both run the same conformance suite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError, StorageError, UsageError
from rtree_anon.storage.layout import (
    DEFAULT_PAGE_BYTES,
    FIRST_USER_KIND,
    MAX_METADATA_BYTES,
    PAGE_HEADER_BYTES,
    is_page_size,
)
from rtree_anon.storage.metadata import pack_metadata, unpack_metadata
from rtree_anon.storage.page import Ids, Run, payloads, run_lengths


@dataclass(frozen=True)
class _Version:
    commit_id: int
    journal_seq: int
    metadata: dict[str, Any]
    pages: dict[int, bytes]


class MemoryReader:
    """A version of a `MemoryStore`."""

    def __init__(self, version: _Version, page_bytes: int) -> None:
        self._version, self.page_bytes, self._closed = version, page_bytes, False
        self.payload_bytes = page_bytes - PAGE_HEADER_BYTES

    @property
    def commit_id(self) -> int:
        return self._version.commit_id

    @property
    def metadata(self) -> dict[str, Any]:
        return self._version.metadata

    @property
    def journal_seq(self) -> int:
        return self._version.journal_seq

    def page_ids(self) -> Ids:
        return np.array(sorted(self._version.pages), np.uint64)

    def read(self, page_id: int) -> NDArray[np.uint8]:
        out = np.empty((1, self.page_bytes), np.uint8)
        length = self.read_run(np.array([page_id], np.uint64), out)[0]
        return payloads(out)[0, : int(length)]

    def read_run(self, page_ids: Ids, out: Run) -> NDArray[np.uint32]:
        if self._closed:
            raise UsageError("This snapshot is closed.")
        return _read_run(self._version.pages, page_ids, out)

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class MemoryStore:
    """The twin of `DiskStore`."""

    def __init__(self, page_bytes: int = DEFAULT_PAGE_BYTES) -> None:
        if not is_page_size(page_bytes):
            raise UsageError(f"A page size of {page_bytes} bytes is not possible.")
        self.page_bytes, self.payload_bytes = page_bytes, page_bytes - PAGE_HEADER_BYTES
        self._version = _Version(1, 0, {}, {})
        self._pages: dict[int, bytes] = {}
        self._reserved: set[int] = set()
        self._records: list[bytes] = []  # all ever appended; number i+1 is at i
        self._closed = False

    @property
    def commit_id(self) -> int:
        return self._version.commit_id

    @property
    def metadata(self) -> dict[str, Any]:
        return self._version.metadata

    @property
    def journal_seq(self) -> int:
        return self._version.journal_seq

    def allocate(self, n_pages: int = 1) -> int:
        self._require_alive()
        if n_pages < 1:
            raise UsageError(f"{n_pages} pages cannot be allocated; at least one can.")
        taken = self._pages.keys() | self._reserved
        first = 0
        while any(page_id in taken for page_id in range(first, first + n_pages)):
            first += 1
        self._reserved.update(range(first, first + n_pages))
        return first

    def write(self, page_id: int, payload: bytes | bytearray | memoryview | NDArray[np.uint8], kind: int) -> None:
        content = bytes(payload)
        run_lengths(len(content), 1, self.payload_bytes)
        self._require_known([page_id], kind)
        self._pages[page_id] = content
        self._reserved.discard(page_id)

    def write_run(self, page_ids: Ids, run: Run, kind: int, lengths: NDArray[np.uint32] | int | None = None) -> None:
        if run.shape != (len(page_ids), self.page_bytes) or not run.flags.c_contiguous or run.dtype != np.uint8:
            raise UsageError(
                f"{len(page_ids)} pages were named, but the buffer has shape {run.shape} and type {run.dtype}."
            )
        used = np.broadcast_to(run_lengths(lengths, len(page_ids), self.payload_bytes), len(page_ids))
        self._require_known(page_ids.tolist(), kind)
        for row, page_id in enumerate(page_ids.tolist()):
            self.write(page_id, payloads(run)[row, : int(used[row])].tobytes(), kind)

    def free(self, page_ids: Ids) -> None:
        self._require_known(page_ids.tolist(), FIRST_USER_KIND)
        for page_id in page_ids.tolist():
            self._pages.pop(page_id, None)
            self._reserved.discard(page_id)

    def read(self, page_id: int) -> NDArray[np.uint8]:
        out = np.empty((1, self.page_bytes), np.uint8)
        length = self.read_run(np.array([page_id], np.uint64), out)[0]
        return payloads(out)[0, : int(length)]

    def read_run(self, page_ids: Ids, out: Run) -> NDArray[np.uint32]:
        self._require_alive()
        return _read_run(self._pages, page_ids, out)

    def page_ids(self) -> Ids:
        self._require_alive()
        return np.array(sorted(self._pages), np.uint64)

    def sync_ahead(self) -> None:
        self._require_alive()

    def commit(self, metadata: dict[str, Any] | None = None, journal_seq: int | None = None) -> int:
        self._require_alive()
        metadata = self.metadata if metadata is None else metadata
        journal_seq = self.journal_seq if journal_seq is None else journal_seq
        packed = pack_metadata(metadata, MAX_METADATA_BYTES)
        if not self.journal_seq <= journal_seq <= len(self._records):
            raise UsageError(
                f"The journal position {journal_seq} is not between {self.journal_seq} and {len(self._records)}."
            )
        own = unpack_metadata(packed, "memory")
        self._version = _Version(self.commit_id + 1, journal_seq, own, dict(self._pages))
        self._reserved.clear()
        return self.commit_id

    def abort(self) -> None:
        self._require_alive()
        self._pages = dict(self._version.pages)
        self._reserved.clear()

    def rebuild(self) -> None:
        self._require_alive()
        if self._reserved or self._pages != self._version.pages:
            raise UsageError("A rebuild begins between transactions; commit or abort the one that is open.")
        self._pages = {}

    def compact(self, *, scrub: bool = False) -> int:
        if scrub and len(self._records) > self.journal_seq:
            raise UsageError("The journal holds records that no commit contains yet; commit them, then scrub.")
        self.rebuild()
        self.abort()
        return self.commit()

    def snapshot(self) -> MemoryReader:
        self._require_alive()
        return MemoryReader(self._version, self.page_bytes)

    def append(self, records: list[bytes], *, durable: bool = True) -> int:
        self._require_alive()
        self._records.extend(records)
        return len(self._records)

    def flush(self) -> int:
        self._require_alive()
        return len(self._records)

    def replay(self) -> list[tuple[int, bytes]]:
        self._require_alive()
        return [(seq, self._records[seq - 1]) for seq in range(self.journal_seq + 1, len(self._records) + 1)]

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _require_alive(self) -> None:
        if self._closed:
            raise StorageError("The store is closed.")

    def _require_known(self, page_ids: list[int], kind: int) -> None:
        self._require_alive()
        if not FIRST_USER_KIND <= kind <= 255:
            raise UsageError(f"Page kind {kind} is not allowed; {FIRST_USER_KIND} to 255 are.")
        for page_id in page_ids:
            if page_id not in self._pages and page_id not in self._reserved:
                raise UsageError(f"Page {page_id} was not allocated.")
        if len(set(page_ids)) != len(page_ids):
            raise UsageError("A page is named twice in one call.")


def _read_run(pages: dict[int, bytes], page_ids: Ids, out: Run) -> NDArray[np.uint32]:
    lengths = np.zeros(len(page_ids), np.uint32)
    for row, page_id in enumerate(page_ids.tolist()):
        if page_id not in pages:
            raise CorruptionError(f"Page {page_id} was asked for, but this version has no such page.")
        content = np.frombuffer(pages[page_id], np.uint8) if pages[page_id] else np.empty(0, np.uint8)
        out[row] = 0
        payloads(out)[row, : len(content)] = content
        lengths[row] = len(content)
    return lengths
