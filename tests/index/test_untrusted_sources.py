"""Loads of sources that say something untrue: a clear error, and the index is what it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rtree_anon.errors import InputError
from rtree_anon.index.index import Index
from rtree_anon.schema import Schema
from tests.io.test_parquet_statistics import lying_file

SCHEMA = Schema(["x", "y"], keep=["z"])


def table(n_rows: int, **columns: pa.Array) -> pa.Table:
    random = np.random.default_rng(0)
    made = {name: pa.array(random.integers(0, 100, n_rows), pa.int32()) for name in ("x", "y", "z")}
    return pa.table(made | columns)


@pytest.mark.parametrize("column", ["x", "y", "z"])
def test_statistics_that_are_wrong(column: str, tmp_path: Path) -> None:
    """The value is found where codes are packed: a quasi-identifier outside its domain, a carried one likewise."""
    wrong = table(2000)[column].combine_chunks().to_numpy().copy()
    wrong[1234] = 500
    lying_file(tmp_path / "liar.parquet", table(2000, **{column: pa.array(wrong)}), table(2000))
    with Index.create(tmp_path / "x.idx", SCHEMA, k=5, memory="64MB") as index:
        with pytest.raises(InputError, match="statistics: they are wrong") as caught:
            index.load(tmp_path / "liar.parquet")
        assert caught.value.source == str(tmp_path / "liar.parquet")
        assert (caught.value.row, caught.value.column) == (1235, column)
        assert len(index) == 0
        pq.write_table(table(2000), tmp_path / "fine.parquet")
        index.load(tmp_path / "fine.parquet")
        index.verify()
        assert len(index) == 2000
