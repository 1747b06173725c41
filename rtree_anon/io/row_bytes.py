"""Rows as bytes, for a journal: Arrow IPC streams of one batch each, with their types.

Many rows are packed first, so that there is less to copy, to write and to sync: whole numbers and days as what they are
above the smallest of their batch, in one, two or four bytes, where none is missing; text with few different values as
numbers of these, where somebody has numbered them already. (To number them only for this would take longer than their
bytes take to be written.) A packed column says in its field's metadata what it was; other metadata is dropped:

    rtree_anon.packed  of the schema: the form of what follows, 1
    rtree_anon.was     of a field: the type, one of `_NUMBERS` or `_TEXTS`
    rtree_anon.above   of a field of numbers: what has to be added to each
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

RowBatch: TypeAlias = pa.RecordBatch

_FORM = {b"rtree_anon.packed": b"1"}
_WAS, _ABOVE = b"rtree_anon.was", b"rtree_anon.above"
_NUMBERS = {
    str(kind): kind for kind in (pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint32(), pa.uint64(), pa.date32())
}
_WIDTHS: dict[pa.DataType, Any] = {pa.uint8(): np.uint8, pa.uint16(): np.uint16, pa.uint32(): np.uint32}
_TEXTS = {str(kind): kind for kind in (pa.string(), pa.large_string())}
_NUMBERED = pa.dictionary(pa.uint8(), pa.large_string())
_MOST_TEXTS, _MOST_TEXT_BYTES = 256, 1 << 16  # that are numbered: every record has all of them
_FEW_ROWS = 1024  # are not worth the trouble


def packed(batch: RowBatch, numbered: Mapping[str, pa.Array] | None = None) -> RowBatch:
    """The same rows in fewer bytes, for `rows_to_bytes`. `numbered` has columns of text as dictionaries, by name."""
    numbered = {} if numbered is None else numbered
    packed_pairs = [
        _packed(column, numbered.get(field.name), field.remove_metadata(), batch.num_rows)
        for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    columns, fields = [column for column, _ in packed_pairs], [field for _, field in packed_pairs]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, _FORM))


def unpacked(batch: RowBatch) -> RowBatch:
    """What `packed` was given; ValueError for a batch that it cannot have made."""
    if batch.schema.metadata != _FORM:
        raise ValueError("its rows are in a form that is not known here")
    pairs = [_unpacked(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]
    return pa.RecordBatch.from_arrays([column for column, _ in pairs], schema=pa.schema([field for _, field in pairs]))


def rows_to_bytes(batch: RowBatch, before: bytes = b"") -> bytes:
    """A batch, packed or to be packed, as bytes, behind those that come before it."""
    batch = batch if batch.schema.metadata == _FORM else packed(batch)
    sink = pa.BufferOutputStream()
    sink.write(before)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def rows_from_bytes(content: bytes | memoryview) -> list[RowBatch]:
    """The rows that `rows_to_bytes` was given, not packed any more; ValueError for anything else."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            return [unpacked(batch) for batch in reader]
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error).split("\n")[0]) from None


def in_pieces(batch: RowBatch, most_bytes: int) -> list[RowBatch]:
    """A batch in halves, quarters, … until each has at most so many bytes, or one row."""
    if batch.nbytes <= most_bytes or batch.num_rows < 2:
        return [batch]
    half = batch.num_rows // 2
    return in_pieces(batch.slice(0, half), most_bytes) + in_pieces(batch.slice(half), most_bytes)


def _packed(column: pa.Array, numbered: pa.Array | None, field: pa.Field, n_rows: int) -> tuple[pa.Array, pa.Field]:
    if n_rows < _FEW_ROWS:
        return column, field
    if numbered is not None and str(column.type) in _TEXTS:
        texts = numbered.dictionary
        if len(texts) > _MOST_TEXTS or texts.nbytes > _MOST_TEXT_BYTES:
            return column, field
        narrow = pa.DictionaryArray.from_arrays(numbered.indices.cast(pa.uint8()), texts.cast(pa.large_string()))
        return narrow, pa.field(field.name, narrow.type, field.nullable, {_WAS: str(column.type).encode()})
    if column.null_count or str(column.type) not in _NUMBERS:
        return column, field
    numbers = _numbers(column)
    least, most = int(numbers.min()), int(numbers.max())
    width = next((kind for kind in _WIDTHS.values() if most - least <= np.iinfo(kind).max), None)
    if width is None or np.dtype(width).itemsize >= numbers.dtype.itemsize:
        return column, field
    above = pa.array((numbers - numbers.dtype.type(least)).astype(width))  # the difference fits, as it fits `width`
    about = {_WAS: str(column.type).encode(), _ABOVE: str(least).encode()}
    return above, pa.field(field.name, above.type, field.nullable, about)


def _unpacked(column: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Field]:
    about = field.metadata or {}
    plain = field.remove_metadata()
    if _WAS not in about:
        return column, field
    was = about[_WAS].decode()
    if was in _TEXTS and set(about) == {_WAS} and column.type == _NUMBERED:
        column.validate(full=True)  # a number of a text that is not there would be looked up in any memory
        return column.cast(pa.large_string()).cast(_TEXTS[was]), plain.with_type(_TEXTS[was])
    kind = _NUMBERS.get(was)
    if kind is None or set(about) != {_WAS, _ABOVE} or column.null_count or column.type not in _WIDTHS:
        raise ValueError(f"column {field.name!r} says that it was {was!r:.40}, which it cannot have been")
    return _unpacked_numbers(column, int(about[_ABOVE]), kind), plain.with_type(kind)


def _unpacked_numbers(column: pa.Array, least: int, kind: pa.DataType) -> pa.Array:
    own: Any = np.dtype(np.int32 if pa.types.is_date(kind) else str(kind))
    above = column.to_numpy()
    limits = np.iinfo(own)
    if not limits.min <= least <= limits.max or (len(above) and least + int(above.max()) > limits.max):
        raise ValueError(f"a column of {kind} has a number that is too large")
    return pa.array(above.astype(own) + own.type(least)).view(kind)


def _numbers(column: pa.Array) -> NDArray[Any]:
    plain = column.view(pa.int32()) if pa.types.is_date(column.type) else column
    numbers: NDArray[Any] = plain.to_numpy()
    return numbers
