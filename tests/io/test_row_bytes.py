"""Rows come back from bytes as they were, many of them in fewer bytes; bytes that nobody wrote are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.io.row_bytes import in_pieces, packed, rows_from_bytes, rows_to_bytes, unpacked

N = 2000
WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def come_back(batch: pa.RecordBatch) -> bytes:
    content = rows_to_bytes(batch, b"before")
    assert content[:6] == b"before" and content[6:] == rows_to_bytes(packed(batch))
    (found,) = rows_from_bytes(memoryview(content)[6:])
    assert found.schema.equals(batch.schema) and found.equals(batch)
    assert unpacked(packed(batch)).equals(batch)
    return content


@pytest.mark.parametrize("kind", WHOLE)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_whole_numbers(kind: str, data: st.DataObject) -> None:
    limits = np.iinfo(kind)
    lo, hi = sorted(data.draw(st.tuples(*[st.integers(int(limits.min), int(limits.max))] * 2)))
    width = data.draw(st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**64]))
    lo, hi = data.draw(st.sampled_from([(lo, min(lo + width, hi)), (max(hi - width, lo), hi)]))
    values = np.random.default_rng(1).integers(lo, hi, N, kind, endpoint=True)
    values[[0, -1]] = lo, hi
    come_back(pa.record_batch({"a": pa.array(values)}))
    come_back(pa.record_batch({"a": pa.array(values)}).slice(3, 1500))


def test_rows_take_few_bytes() -> None:
    numbers = np.arange(N, dtype=np.int32)
    batch = pa.record_batch(
        {
            "day": pa.array(12_000 + numbers % 300, pa.int32()).view(pa.date32()),
            "zip": pa.array(10_000 + numbers),
            "same": pa.array(np.full(N, -7, np.int64)),
        }
    )
    assert len(come_back(batch)) < N * (2 + 2 + 1) + 2000


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, 1, 2] * N, pa.int32()),
        pa.array([None, "a", "b"] * N),
        pa.array([f"text {i}" for i in range(N)]),
        pa.array(["a"] * N + [f"text {i}" for i in range(N)]),
        pa.array(["a", "b"] * N).dictionary_encode(),
        pa.array(["a", "b"] * N, pa.large_string()),
        pa.array([0.5, -0.0, float("inf")] * N),
        pa.array([True, False] * N),
        pa.array([1, 2] * N, pa.timestamp("us", "UTC")),
        pa.array(["", "ä"] * N),
    ],
    ids=lambda column: str(column.type),
)
def test_other_columns(column: pa.Array) -> None:
    come_back(pa.record_batch({"a": column}))
    come_back(pa.record_batch({"a": column.slice(0, 5)}))
    come_back(pa.record_batch({"a": column.slice(0, 0)}))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("values", [["a", "bc"], ["", None, "ä"], [f"text {i}" for i in range(256)]], ids=len)
def test_text_that_is_numbered_already(kind: pa.DataType, values: list[str | None]) -> None:
    column = pa.array(values * N, kind)
    numbered = {"a": column.cast(pa.large_string()).dictionary_encode()}
    batch = pa.record_batch({"a": column, "b": column})
    found = packed(batch, numbered)
    assert unpacked(found).equals(batch) and unpacked(found.slice(7, 9)).equals(batch.slice(7, 9))
    content = rows_to_bytes(found)
    (again,) = rows_from_bytes(content)
    assert again.schema.equals(batch.schema) and again.equals(batch)
    assert len(rows_to_bytes(packed(batch))) - len(content) > 2 * len(column)


@pytest.mark.parametrize("values", [[f"text {i}" for i in range(257)], ["a" * 40_000, "b" * 40_000]], ids=len)
def test_dictionaries_that_are_no_gain(values: list[str]) -> None:
    batch = pa.record_batch({"a": pa.array(values * 600)})
    numbered = {"a": batch.column(0).cast(pa.large_string()).dictionary_encode()}
    assert packed(batch, numbered).equals(packed(batch))


def test_what_users_say_of_columns_is_dropped() -> None:
    about = {b"rtree_anon.was": b"int64", b"rtree_anon.above": b"5"}
    for n in (3, N):
        field = pa.field("a", pa.uint8(), True, about)
        batch = pa.RecordBatch.from_arrays([pa.array([1] * n, pa.uint8())], schema=pa.schema([field], {b"x": b"y"}))
        (found,) = rows_from_bytes(rows_to_bytes(batch))
        assert found.column(0).to_pylist() == [1] * n and found.schema.field(0).type == pa.uint8()


def stream(column: pa.Array, about: dict[bytes, bytes], form: Any = b"1") -> bytes:
    schema = pa.schema(
        [pa.field("a", column.type, True, about)], None if form is None else {b"rtree_anon.packed": form}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column], schema=schema))
    return sink.getvalue().to_pybytes()


BYTES = pa.array([1, 255], pa.uint8())
TEXTS = pa.array(["a"], pa.large_string())
NUMBERED = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.uint8()), TEXTS)
WRONGLY_NUMBERED = pa.DictionaryArray.from_arrays(pa.array([0, 200], pa.uint8()), TEXTS, safe=False)


@pytest.mark.parametrize(
    ("column", "was", "above"),
    [
        (BYTES, b"int16", b"32600"),
        (BYTES, b"int16", b"-32769"),
        (BYTES, b"uint16", b"-1"),
        (BYTES, b"int64", str(2**63 - 10).encode()),
        (BYTES, b"int32", b""),
        (BYTES, b"int32", b"one"),
        (BYTES, b"int32", b"9" * 9999),
        (BYTES, b"int32", None),
        (BYTES, b"float64", b"1"),
        (BYTES, b"\xff", b"1"),
        (BYTES, b"string", None),
        (pa.array([1, None], pa.uint8()), b"int32", b"1"),
        (pa.array([1, 2], pa.int64()), b"int32", b"1"),
        (pa.array(["a"]), b"int32", b"1"),
        (pa.array(["a"]).dictionary_encode(), b"string", b"1"),
        (pa.array(["a"]).dictionary_encode(), b"string", None),
        (NUMBERED, b"string", b"1"),
        (NUMBERED, b"int32", b"1"),
        (NUMBERED, b"int32", None),
        (WRONGLY_NUMBERED, b"string", None),
        (WRONGLY_NUMBERED, b"large_string", None),
    ],
)
def test_packed_columns_that_nobody_packed(column: pa.Array, was: bytes, above: bytes | None) -> None:
    about = {b"rtree_anon.was": was} | ({} if above is None else {b"rtree_anon.above": above})
    with pytest.raises(ValueError):
        rows_from_bytes(stream(column, about))


@pytest.mark.parametrize("form", [None, b"2", b""])
def test_an_unknown_form(form: Any) -> None:
    assert rows_from_bytes(stream(BYTES, {}))[0].num_rows == 2
    with pytest.raises(ValueError, match="form"):
        rows_from_bytes(stream(BYTES, {}, form))


def test_pieces() -> None:
    batch = pa.record_batch({"a": pa.array(range(1000), pa.int64())})
    pieces = in_pieces(batch, 1000)
    assert max(piece.nbytes for piece in pieces) <= 1000
    assert pa.Table.from_batches(pieces).combine_chunks().to_batches()[0].equals(batch)
