"""Carried columns come back from their codes as they were: every Arrow type, bit by bit, whatever the batches are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.io.cells import Origin
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.schema import Schema
from rtree_anon.space import missing_code

from .arrays import any_arrays

ORIGIN = Origin("later.parquet", first_row=101)
MANY_BYTES = 1 << 24


def stored_for(array: pa.Array, *, role: str = "keep", limit: int = MANY_BYTES) -> StoredColumns:
    schema = Schema(["q"], **{role: "x" if role == "key" else ["x"]})  # type: ignore[arg-type]
    return StoredColumns.for_types(schema, {"x": array.type}, "file", limit)


def encoded(stored: StoredColumns, array: pa.Array, dtype: Any = np.int64) -> Any:
    columns = stored.encode(pa.record_batch({"x": array}), ORIGIN, dtype)
    for codes, (lo, hi) in zip(columns, stored.ranges, strict=True):
        present = codes[codes != missing_code(dtype)]
        assert codes.dtype == dtype and ((present >= lo) & (present <= hi)).all()
    return np.stack(columns, axis=1)


def plain(array: pa.Array) -> pa.Array:
    if pa.types.is_run_end_encoded(array.type):
        array = pa.compute.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    if pa.types.is_large_binary(array.type) or pa.types.is_binary_view(array.type):
        return array.cast(pa.binary())
    return array


def bits(array: pa.Array) -> list[Any]:
    """Values that can be compared: floats by their bits, so that NaN is equal to itself and -0.0 not to 0.0."""
    assert array.validate(full=True) is None
    if pa.types.is_floating(array.type):
        array = array.view(getattr(pa, f"uint{array.type.bit_width}")())
    elif pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type) or pa.types.is_time64(array.type):
        array = array.cast(pa.int64())
    return list(array.to_pylist())


def binary_arrays() -> st.SearchStrategy[pa.Array]:
    values = st.lists(st.one_of(st.binary(max_size=5), st.none()), max_size=12)
    types = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])
    fixed = st.lists(st.one_of(st.binary(min_size=3, max_size=3), st.none()), max_size=12)
    return st.one_of(st.builds(pa.array, values, types), fixed.map(lambda v: pa.array(v, pa.binary(3))))


@settings(deadline=None)
@given(array=st.one_of(any_arrays(), binary_arrays()), cut=st.integers(0, 12), data=st.data())
def test_every_type_comes_back(array: pa.Array, cut: int, data: st.DataObject) -> None:
    stored = stored_for(array)
    role_type = plain(array).type
    codes = np.concatenate([encoded(stored, array[:cut]), encoded(stored, array[cut:])])
    back = stored.decode(codes)["x"]
    assert back.type == role_type and bits(back) == bits(plain(array))
    order = np.array(data.draw(st.permutations(range(len(array)))), int)
    assert bits(stored.decode(codes[order])["x"]) == [bits(plain(array))[i] for i in order]
    again = reopened(stored)
    assert bits(again.decode(codes)["x"]) == bits(plain(array))
    assert np.array_equal(encoded(again, array), codes), "codes stay when the index is opened again"


def reopened(stored: StoredColumns) -> StoredColumns:
    again = StoredColumns.from_description(stored.description, MANY_BYTES)
    for name, dictionary in stored.dictionaries.items():
        again.dictionaries[name].add_bytes(dictionary.to_bytes())
    return again


def test_float_bits_survive() -> None:
    nan = np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001, 0x8000000000000000], np.uint64).view(np.float64)
    for array in (pa.array(nan), pa.array(nan.view(np.uint32).view(np.float32)), pa.array(nan.view(np.float16))):
        stored = stored_for(array)
        assert bits(stored.decode(encoded(stored, array))["x"]) == bits(array)
