"""Carried columns of every type are sorted by value inside a group, missing values first, and come out unchanged."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rtree_anon as ra


@pytest.mark.parametrize(
    "column",
    [
        pa.array([-128, 127, 0] * 10, pa.int8()),
        pa.array(np.array([2**64 - 1, 2**64 - 5, 2**63] * 10, np.uint64)),
        pa.array([-(2**63), 2**63 - 1, None] * 10),
        pa.array(np.array([1.5, -2.0, 0.25] * 10, np.float16)),
        pa.array([1.5, None, -1e300] * 10),
        pa.array([Decimal("1.5"), Decimal("-2.5"), None] * 10, pa.decimal32(5, 1)),
        pa.array([Decimal("1.5"), Decimal("-2.5"), None] * 10, pa.decimal128(38, 1)),
        pa.array([5, 1, None] * 10, pa.duration("s")),
        pa.array([5, 1, None] * 10, pa.time32("s")),
        pa.array([5, -1, None] * 10, pa.date32()),
        pa.array([5, -1, None] * 10, pa.timestamp("ns", tz="UTC")),
        pa.array([True, None, False] * 10),
        pa.array(["b", "", None] * 10),
        pa.array(["b", "a", None] * 10).dictionary_encode(),
        pa.nulls(30),
        pa.nulls(30, pa.int32()),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_travels_in_order(column: pa.Array) -> None:
    table = pa.table({"x": np.arange(30) // 10, "s": column})
    released = ra.anonymize(table, k=10, quasi=["x"], sensitive=["s"]).to_arrow(group_id=True)
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    assert released.schema.field("s").type == plain.type
    keys = _sort_keys(released.column("s").combine_chunks())
    of_row = released.column("group").to_pylist()
    groups = [[key for key, group in zip(keys, of_row, strict=True) if group == number] for number in range(3)]
    assert all(group in _groups_of(_sort_keys(plain)) for group in groups)
    assert sorted(keys) == sorted(_sort_keys(plain))


def _sort_keys(column: pa.Array) -> list[tuple[bool, Any]]:
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    return [(value is not None, 0 if value is None else value) for value in column.to_pylist()]


def _groups_of(keys: list[tuple[bool, Any]]) -> list[list[tuple[bool, Any]]]:
    """The rows of each value of x, sorted: what the three groups have to be, in whatever order they are released."""
    return [sorted(keys[start : start + 10]) for start in (0, 10, 20)]
