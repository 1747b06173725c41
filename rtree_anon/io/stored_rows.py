"""Rows that come from an index as a coded table, or as a stream of values, as if they had been read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.io.coding import RowCoder
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.io.table import CodedTable
from rtree_anon.schema import Schema
from rtree_anon.space import Space


def stored_table(
    codes: NDArray[Any],
    carried: NDArray[np.int64],
    ids: NDArray[np.int64] | None,
    *,
    space: Space,
    coder: RowCoder,
    columns: StoredColumns,
    schema: Schema,
    name: str,
) -> CodedTable:
    """Codes (n, quasi-identifiers), columns of codes of the carried columns, and ids where the key is the id."""
    payload = columns.decode(carried)
    if columns.key is not None and ids is not None:
        payload[columns.key[0]] = columns.decode_ids(ids)
    return CodedTable(codes, space, coder.coders, pa.table(payload), schema, name)


def stored_stream(
    parts: Iterable[tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]],
    *,
    coder: RowCoder,
    columns: StoredColumns,
    schema: Schema,
    id_name: str | None,
) -> Iterator[pa.RecordBatch]:
    """Rows (codes, columns of codes of the carried columns, ids) as values; ids as a column if `id_name` is given."""
    for codes, carried, ids in parts:
        values = {
            quasi: one.decode(np.ascontiguousarray(codes[:, place]))
            for place, (quasi, one) in enumerate(zip(schema.quasi_names, coder.coders, strict=True))
        }
        values |= columns.decode(carried)
        if columns.key is not None:
            values[columns.key[0]] = columns.decode_ids(ids)
        if id_name is not None:
            values[id_name] = pa.array(ids)
        yield pa.RecordBatch.from_pydict(values)
