"""Rows that teach nothing: of the types that a bound schema has, with values that it knows.

Most inserts are such rows, and most of what a small one would cost is learning that. So their columns are coded as they
are, and a look at the codes tells whether every one lies in the domain that the schema has already. Wherever there is
any doubt (another type, a new value, an error) the answer is None, and the long way (loading.py) finds out.

Invariant: codes are those that the long way would give, and it would leave the schema as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import AnonError
from rtree_anon.io.cells import CellError, Origin
from rtree_anon.io.coding import CategoryCoder, Coder, LinearCoder, RowCoder
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.space import missing_code

_MISSING = missing_code(np.int64)

Codes = NDArray[np.int64]


def one_batch(rows: Any, names: list[str], most_rows: int) -> pa.RecordBatch | None:
    """Rows that are in memory as Arrow has them, as one batch of these columns."""
    if isinstance(rows, list) and len(rows) == 1:
        rows = rows[0]
    if not isinstance(rows, pa.RecordBatch | pa.Table) or not 0 < rows.num_rows <= most_rows:
        return None
    present = rows.schema.names
    if not all(present.count(name) == 1 for name in names):
        return None
    if isinstance(rows, pa.RecordBatch):
        return rows.select(names)
    batches = rows.select(names).to_batches()
    return batches[0] if len(batches) == 1 else None


def known_codes(coder: RowCoder, stored: StoredColumns, batch: pa.RecordBatch) -> Codes | None:
    """codes[column, row]: quasi-identifiers and carried columns; None where something may have to be learned first.

    Dictionaries of carried columns grow, even where the answer is None.
    """
    if stored.has_own_ids or any(batch.column(column.name).type != column.data_type for column in stored.columns):
        return None
    found = []
    for one in coder.coders:
        codes = _known(one, batch.column(one.name))
        if codes is None:
            return None
        found.append(codes)
    try:
        return np.stack([*found, *stored.encode(batch, Origin("rows"), np.dtype(np.int64))])
    except AnonError:
        return None


def _known(coder: Coder, column: pa.Array) -> Codes | None:
    if isinstance(coder, CategoryCoder):
        return _known_categories(coder, column)
    if not isinstance(coder, LinearCoder) or column.type != coder.data_type or column.null_count == len(column):
        return None
    try:
        codes: Codes = coder.encode(column, np.dtype(np.int64))
    except (CellError, AnonError):
        return None
    there = codes if not column.null_count else codes[codes != _MISSING]
    if not len(there):  # missing values of both kinds
        return None
    axis = coder.axis
    # A missing value of a float is no null: it has the smallest code of all, and the long way is taken.
    return codes if axis.lo <= int(there.min()) and int(there.max()) <= axis.hi else None


def _known_categories(coder: CategoryCoder, column: pa.Array) -> Codes | None:
    if column.type != coder.data_type or not pa.types.is_string(column.type):
        return None
    places = pc.index_in(column, value_set=coder.values)
    if places.null_count != column.null_count:
        return None  # a new one
    if not places.null_count:
        return np.asarray(places.to_numpy().astype(np.int64))
    codes: Codes = places.cast(pa.int64()).fill_null(_MISSING).to_numpy(zero_copy_only=False)
    return codes
