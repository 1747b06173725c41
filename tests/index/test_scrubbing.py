"""What `compact(scrub=True)` leaves of deleted rows in the files: nothing, the earlier versions included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra

SECRET = np.int64(0x5EC2E7_5EC2E7)  # no byte of it is zero


def test_scrubbing_forgets_deleted_rows_and_earlier_versions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.integers(0, 100, 500), "ward": rng.integers(0, 9, 500)})
    marked = pa.table({"age": np.full(20, 50), "ward": np.full(20, SECRET)})
    with ra.Index.create(tmp_path / "index", ra.Schema(quasi=["age"], keep=["ward"]), k=5) as index:
        index.load(table)
        ids = index.insert(marked)
        first = index.checkpoint()
        index.delete(ids)
        index.checkpoint()
        index.compact()
        assert index.changes(since=first, k=5, allow_small=True) is not None  # the version is still there
        index.compact(scrub=True)
        index.verify()
        assert len(index) == 500
        with pytest.raises(ra.UsageError):
            index.changes(since=first, k=5)
        assert sorted(index.release(k=5).to_arrow()["ward"].to_pylist()) == sorted(table["ward"].to_pylist())
    half = int(SECRET).to_bytes(8, "little")[:4]
    for file in (tmp_path / "index").iterdir():
        assert half not in file.read_bytes()
