"""Indexes for tests: small pages and little memory, so that a few hundred rows spill, split and make a deep tree."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import rtree_anon as ra
from rtree_anon.storage import create_store

PAGE_BYTES = 2048
MEMORY_BYTES = 1_000_000


@contextmanager
def tiny(page_bytes: int = PAGE_BYTES, memory_bytes: int = MEMORY_BYTES, bucket_rows: int = 60) -> Iterator[None]:
    """Inside, new indexes have small pages, and loads have memory for a few hundred rows and small buckets."""
    with (
        mock.patch("rtree_anon.index.creating.create_store", functools.partial(create_store, page_bytes=page_bytes)),
        mock.patch("rtree_anon.index.index.memory_bytes", lambda amount: memory_bytes),
        mock.patch("rtree_anon.index.bulkload._BUCKET_ROWS", bucket_rows),
        mock.patch("rtree_anon.index.bulkload._LEAST_RUN_BYTES", 64),
        mock.patch("rtree_anon.index.bulkload._CHUNK_SHARE", 0.008),
        mock.patch("rtree_anon.index.bulkload._LEAST_CUT_ROWS", 2 * bucket_rows),
        mock.patch("rtree_anon.index.loading._BATCH_ROWS", (16, 64)),
        mock.patch("rtree_anon.index.segments._SEGMENT_ROWS", 64),
        mock.patch("rtree_anon.index.segments._ROWS_PER_K", 8),
    ):
        yield


def pages_of(path: Path) -> dict[int, bytes]:
    """What every page of the newest version holds."""
    from rtree_anon.storage import open_snapshot

    with open_snapshot(path) as snapshot:
        return {page: snapshot.read(page).tobytes() for page in snapshot.page_ids().tolist()}


def rows_by_id(index: ra.Index) -> dict[int, tuple[Any, ...]]:
    """Every row of an index by its id: values of the quasi-identifiers, then of the carried columns."""
    view = index._current
    rows = view.reader.rows(0, len(view.tree), np.int64)
    columns = [coder.decode(rows.codes[:, place].copy()) for place, coder in enumerate(view.coder.coders)]
    columns += list(view.carried.decode(rows.carried).values())
    ids = rows.ids.tolist()
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, zip(*(column.to_pylist() for column in columns), strict=True), strict=True))


def rows_of(table: pa.Table, schema: ra.Schema) -> list[tuple[Any, ...]]:
    """The rows of a table as `rows_by_id` gives them."""
    names = [*schema.quasi_names, *(name for name in schema.payload_names if name != schema.key)]
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
