"""Reading a whole table into memory, coded: `read_table`, and `bind_schema` for the schema alone.

    source ─► pieces (needed columns only) ─► types of text columns ─► bound attributes ─► codes (n, d) + payload

Invariant: row i of the codes and row i of the payload are row i of the source, and no row is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import InputError
from rtree_anon.io.binding import Binder, make_binder
from rtree_anon.io.cells import Origin, located
from rtree_anon.io.coding import Coder, RowCoder, encoded_categories
from rtree_anon.io.column_types import column_types, typed_pieces
from rtree_anon.io.sources import Piece, Source, joined, open_source
from rtree_anon.io.types import decoded, default_attribute
from rtree_anon.schema import Attribute, Categorical, Schema
from rtree_anon.space import Space

_MERGED_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class CodedTable:
    """A table in memory: coded quasi-identifiers, and the columns that are carried through.

    `codes` is C-contiguous (n_rows, n_quasi), int32 or int64. `payload` has the sensitive, keep, identity and key
    columns, in input order. `schema` is bound: it can be saved, and codes other data the same way.
    """

    codes: NDArray[Any]
    space: Space
    coders: tuple[Coder, ...]
    payload: pa.Table
    schema: Schema
    name: str

    @property
    def n_rows(self) -> int:
        return len(self.codes)


def read_table(source: Any, schema: Schema) -> CodedTable:
    """Reads and codes a whole source. Names in the schema that have no attribute yet are inferred from the data."""
    opened = open_source(source)
    pieces = list(_merged(opened.pieces(schema.column_names)))
    if not sum(piece.batch.num_rows for piece in pieces):
        raise InputError("there are no rows", source=opened.name)
    types = column_types(opened, schema, pieces)
    pieces = [_with_dictionaries(piece, schema, types) for piece in typed_pieces(pieces, types)]
    binders = _bind(opened, schema, types, pieces)
    bound = _bound_schema(schema, binders)
    coder = RowCoder(bound)
    n_rows = sum(piece.batch.num_rows for piece in pieces)
    codes = np.empty((n_rows, len(coder.coders)), coder.dtype)
    row = 0
    for piece in pieces:
        stop = row + piece.batch.num_rows
        coder.encode(piece.batch, piece.origin, out=codes[row:stop])
        row = stop
    axes = zip(coder.space.axes, binders, strict=True)
    space = Space(tuple(replace(axis, has_missing=binder.has_missing) for axis, binder in axes))
    return CodedTable(codes, space, coder.coders, _payload(schema, types, pieces), bound, opened.name)


def bind_schema(source: Any, schema: Schema) -> Schema:
    """The schema with every attribute bound to the source's data, which is read batch by batch."""
    opened = open_source(source)
    pieces: Iterable[Piece] = _Passes(opened, schema.column_names)
    if not opened.repeatable:
        pieces = list(pieces)
    types = column_types(opened, schema, pieces)
    return _bound_schema(schema, _bind(opened, schema, types, typed_pieces(pieces, types)))


def grown_schema(schema: Schema, batch: pa.RecordBatch, origin: Origin) -> Schema:
    """A bound schema, grown by what a further batch brings: wider domains, new categories where they are allowed.

    Codes of values that were known before do not change (but where a rule such as intervals makes the hierarchy, new
    values take their place in its order). Values that the schema does not accept raise an `InputError`.
    """
    source = open_source(batch)
    types = column_types(source, schema, [Piece(batch, origin)])
    pieces = typed_pieces([Piece(batch.select(list(schema.column_names)), origin)], types)
    return _bound_schema(schema, _bind(source, schema, types, pieces))


class _Passes:
    """The pieces of a source that can be read again: each iteration is one more pass over it."""

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        self._source, self._columns = source, columns

    def __iter__(self) -> Iterator[Piece]:
        return self._source.pieces(self._columns)


def _with_dictionaries(piece: Piece, schema: Schema, types: dict[str, pa.DataType]) -> Piece:
    """The piece with categories as dictionaries, which both the binders and the coders need: made once."""
    batch = piece.batch
    for place, (name, column) in enumerate(zip(schema.quasi_names, schema.quasi, strict=True)):
        attribute = default_attribute(name, types[name]) if isinstance(column, str) else column
        if isinstance(attribute, Categorical):
            with located(piece.origin, name):
                batch = batch.set_column(place, name, encoded_categories(batch.column(name)))
    return Piece(batch, piece.origin)


def _merged(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Consecutive pieces of one file as one: the work per piece would cost more than the copy. None is empty."""
    waiting: list[Piece] = []
    n_bytes = 0
    for piece in pieces:
        if not piece.batch.num_rows:
            continue
        n_bytes += piece.batch.nbytes
        if waiting and (waiting[0].origin.name != piece.origin.name or n_bytes > _MERGED_BYTES):
            yield joined(waiting)
            waiting, n_bytes = [], piece.batch.nbytes
        waiting.append(piece)
    if waiting:
        yield joined(waiting)


def _bind(source: Source, schema: Schema, types: dict[str, pa.DataType], pieces: Iterable[Piece]) -> list[Binder]:
    binders = []
    for column, name in zip(schema.quasi, schema.quasi_names, strict=True):
        attribute: Attribute = default_attribute(name, types[name]) if isinstance(column, str) else column
        binders.append(make_binder(attribute, types[name], source.name))
    for piece in pieces:
        for name, binder in zip(schema.quasi_names, binders, strict=True):
            binder.observe(piece.batch.column(name), piece.origin)
    return binders


def _bound_schema(schema: Schema, binders: Sequence[Binder]) -> Schema:
    return replace(schema, quasi=tuple(binder.finish() for binder in binders))


def _payload(schema: Schema, types: dict[str, pa.DataType], pieces: Sequence[Piece]) -> pa.Table:
    """The carried columns, without dictionaries: those may hold values that no row has."""
    names = list(schema.payload_names)
    if not names:
        return pa.table({})
    columns = {name: pa.chunked_array([decoded(piece.batch.column(name)) for piece in pieces]) for name in names}
    return pa.table(columns)
