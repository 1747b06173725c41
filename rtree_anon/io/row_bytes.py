"""Rows as bytes, for a journal: Arrow IPC streams of one batch each, with their types."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

RowBatch: TypeAlias = pa.RecordBatch


def rows_to_bytes(batch: RowBatch, before: bytes = b"") -> bytes:
    """A batch as bytes, behind those that come before it."""
    sink = pa.BufferOutputStream()
    sink.write(before)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def rows_from_bytes(content: bytes | memoryview) -> list[RowBatch]:
    """What `rows_to_bytes` was given; ValueError for anything else."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            return list(reader)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error).split("\n")[0]) from None


def in_pieces(batch: RowBatch, most_bytes: int) -> list[RowBatch]:
    """A batch in halves, quarters, … until each has at most so many bytes, or one row."""
    if batch.nbytes <= most_bytes or batch.num_rows < 2:
        return [batch]
    half = batch.num_rows // 2
    return in_pieces(batch.slice(0, half), most_bytes) + in_pieces(batch.slice(half), most_bytes)
