"""Rows that come from an index as a coded table, as if they had been read from a file."""

from __future__ import annotations

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
