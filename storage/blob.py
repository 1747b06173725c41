"""Byte strings longer than a page: consecutive pages, named by a small reference that fits into the metadata.

Invariant: reading allocates no more than the pages that really exist hold, whatever the reference claims.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rtree_anon.errors import CorruptionError
from rtree_anon.storage.page import empty_run, payloads
from rtree_anon.storage.protocol import PageReader, PageStore


def write_blob(store: PageStore, content: bytes | bytearray | memoryview, kind: int) -> dict[str, int]:
    """Write `content` to new pages; the reference, ``{"first": page id, "bytes": length}``."""
    data = np.frombuffer(content, np.uint8) if len(content) else np.zeros(0, np.uint8)
    capacity = store.payload_bytes
    n_pages = max(1, -(-len(data) // capacity))
    first = store.allocate(n_pages)
    run = empty_run(n_pages, store.page_bytes)
    n_full = len(data) // capacity
    payloads(run)[:n_full] = data[: n_full * capacity].reshape(n_full, capacity)
    lengths = np.full(n_pages, capacity, np.uint32)
    if n_full < n_pages:
        payloads(run)[n_full, : len(data) - n_full * capacity] = data[n_full * capacity :]
        lengths[n_full] = len(data) - n_full * capacity
    store.write_run(np.arange(first, first + n_pages, dtype=np.uint64), run, kind, lengths)
    return {"first": first, "bytes": len(data)}


def blob_pages(reference: Any, payload_bytes: int, n_ids: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The pages of a blob, to free or to read; CorruptionError unless the reference can be one of ours."""
    first, n_bytes = (reference.get("first"), reference.get("bytes")) if isinstance(reference, dict) else (None, None)
    if type(first) is not int or type(n_bytes) is not int or first < 0 or n_bytes < 0:
        raise CorruptionError(f"{reference!r} is not a reference to a blob.")
    n_pages = max(1, -(-n_bytes // payload_bytes))
    if first + n_pages > n_ids:
        raise CorruptionError(f"A blob of {n_bytes} bytes from page {first} on does not fit into {n_ids} pages.")
    return np.arange(first, first + n_pages, dtype=np.uint64)


def read_blob(reader: PageReader | PageStore, reference: Any) -> bytes:
    """The bytes that `write_blob` was given."""
    existing = reader.page_ids()
    ids = blob_pages(reference, reader.payload_bytes, int(existing[-1]) + 1 if len(existing) else 0)
    if int(np.searchsorted(existing, ids[-1], "right") - np.searchsorted(existing, ids[0])) != len(ids):
        raise CorruptionError(f"The blob {reference!r} has pages that do not exist.")
    run = np.empty((len(ids), reader.page_bytes), np.uint8)
    lengths = reader.read_run(ids, run)
    if int(lengths.sum()) != reference["bytes"] or bool((lengths[:-1] != reader.payload_bytes).any()):
        raise CorruptionError(f"The blob {reference!r} has another length than its pages.")
    return payloads(run).tobytes()[: reference["bytes"]]
