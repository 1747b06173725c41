"""Loads: whatever the source, the batches have all rows once and in order, and decode to what was handed in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtree_anon.io.loading import PreparedLoad, prepare_load
from rtree_anon.io.table import bind_schema
from rtree_anon.schema import Schema

from .test_sources import FLAT, SCHEMA, SOURCES


def load(source: Any, schema: Schema, folder: Path, batch_rows: int = 4, **options: Any) -> tuple[PreparedLoad, Any]:
    """A prepared load and all its codes (rows, columns)."""
    prepared = prepare_load(source, schema, options.pop("stored", None), directory=str(folder))
    batches = list(prepared.batches(batch_rows, **options))
    assert all(1 <= batch.n_rows <= max(batch_rows, 6) for batch in batches)
    codes = [batch.codes() for batch in reversed(batches)][::-1]  # in any order
    n_columns = len(prepared.ranges(with_ids="first_id" in options))
    return prepared, np.concatenate([*codes, np.empty((n_columns, 0), np.int32)], axis=1).T


def decoded(prepared: PreparedLoad, codes: Any) -> dict[str, list[Any]]:
    columns = {}
    for place, coder in enumerate(prepared.coder.coders):
        columns[coder.name] = coder.decode(np.ascontiguousarray(codes[:, place])).to_pylist()
    carried = codes[:, len(columns) :]
    return columns | {name: column.to_pylist() for name, column in prepared.stored.decode(carried).items()}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("batch_rows", [1, 4, 1000])
def test_every_source_gives_the_same_rows(name: str, batch_rows: int, tmp_path: Path) -> None:
    with load(SOURCES[name](tmp_path), SCHEMA, tmp_path, batch_rows)[0] as prepared:
        assert prepared.schema == bind_schema(SOURCES[name](tmp_path), SCHEMA)
    prepared, codes = load(SOURCES[name](tmp_path), SCHEMA, tmp_path, batch_rows)
    with prepared:
        assert prepared.n_rows == 6
        assert decoded(prepared, codes) == {column: FLAT[column].to_pylist() for column in SCHEMA.column_names}
        sample = prepared.sample(100)
        assert sorted(sample.tolist()) == sorted(codes[:, :3].tolist())
