"""The type of each column that a schema names, as the source says it or, for columns of text, as its values do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import Any

import pyarrow as pa

from rtree_anon.io.cells import located
from rtree_anon.io.conforming import conform
from rtree_anon.io.sources import Piece, Source
from rtree_anon.io.text_types import Purpose, TextColumn
from rtree_anon.io.types import checked_plain_type, decoded, is_dictionary_of, type_from_text
from rtree_anon.schema import Boolean, Categorical, Date, Numeric, Schema, Timestamp

_PURPOSES: dict[type[Any], Purpose] = {
    Numeric: Purpose.NUMBER,
    Date: Purpose.DATE,
    Timestamp: Purpose.MOMENT,
    Boolean: Purpose.TRUTH,
}


def column_types(source: Source, schema: Schema, pieces: Iterable[Piece]) -> dict[str, pa.DataType]:
    """The type of each column; columns of text that have to be read as something else are looked at in full."""
    types, wanted = stated_types(source, schema, schema.column_names)
    if wanted:
        found = {name: TextColumn(name) for name in wanted}
        for piece in pieces:
            for name, column in found.items():
                column.observe(texts_of(piece.batch.column(name)), piece.origin)
        types.update({name: column.decide(wanted[name]) for name, column in found.items()})
    return types


def stated_types(
    source: Source, schema: Schema, names: Iterable[str]
) -> tuple[dict[str, pa.DataType], dict[str, Purpose]]:
    """What is known before the data is looked at: types, and the purposes of text columns whose values decide."""
    types = {field.name: field.type for field in source.fields(list(names))}
    attributes = dict(zip(schema.quasi_names, schema.quasi, strict=True))
    wanted: dict[str, Purpose] = {}
    for name, data_type in types.items():
        plain = checked_plain_type(data_type, source.name, name)
        attribute = attributes.get(name)
        if not isinstance(attribute, str | NoneType) and attribute.type is not None:
            if pa.types.is_string(plain):  # parsed once, to what the attribute says
                types[name] = type_from_text(attribute.type)
            continue
        if isinstance(attribute, Categorical) or not pa.types.is_string(plain):
            continue
        if not isinstance(attribute, str | NoneType):
            wanted[name] = _PURPOSES[type(attribute)]
        elif source.untyped:
            wanted[name] = Purpose.CARRIED if attribute is None else Purpose.QUASI
    return types, wanted


def typed_pieces(pieces: Iterable[Piece], types: Mapping[str, pa.DataType]) -> Iterator[Piece]:
    """The pieces with text columns parsed to their types."""
    for piece in pieces:
        yield typed(piece, types)


def typed(piece: Piece, types: Mapping[str, pa.DataType]) -> Piece:
    """A piece with the columns that `types` names in these types; in most cases text is parsed."""
    if not types:
        return piece
    columns = []
    for name, column in zip(piece.batch.schema.names, piece.batch.columns, strict=True):
        if name in types and column.type != types[name] and not is_dictionary_of(column.type, types[name]):
            with located(piece.origin, name):
                column = conform(column, types[name])
        columns.append(column)
    return Piece(pa.RecordBatch.from_arrays(columns, names=piece.batch.schema.names), piece.origin)


def texts_of(column: pa.Array) -> pa.Array:
    """A column of text in any layout as plain text."""
    return decoded(column).cast(pa.string())
