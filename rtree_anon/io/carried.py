"""Columns that travel with the rows: read again when they are needed, or kept where a source can be read only once.

Text columns of a CSV file are given the type of their values, decided from all rows, as when a table is read whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rtree_anon.io.cells import located
from rtree_anon.io.conforming import conform
from rtree_anon.io.sources import Piece, Source
from rtree_anon.io.text_types import Purpose, TextColumn
from rtree_anon.io.types import decoded


class CarriedColumns:
    """The carried columns of a source, in input order."""

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._source = source
        self._kept: list[Piece] | None = None if source.repeatable else []

    def observe(self, piece: Piece) -> None:
        """See a piece of the one pass over the source; kept only where there is no other pass."""
        if self._kept is not None and self.names:
            self._kept.append(Piece(piece.batch.select(list(self.names)), piece.origin))

    @property
    def must_be_read_along(self) -> bool:
        """Whether the columns have to be part of the one pass over the source."""
        return self._kept is not None

    def table(self) -> pa.Table:
        """All carried columns, without dictionaries: those may hold values that no row has."""
        if not self.names:
            return pa.table({})
        pieces = list(self._source.pieces(self.names)) if self._kept is None else self._kept
        columns = {name: self._column(name, pieces) for name in self.names}
        return pa.table(columns)

    def _column(self, name: str, pieces: Sequence[Piece]) -> pa.ChunkedArray:
        arrays = [decoded(piece.batch.column(name)) for piece in pieces]
        if self._source.untyped:
            text = TextColumn(name)
            for array, piece in zip(arrays, pieces, strict=True):
                text.observe(array.cast(pa.string()), piece.origin)
            data_type = text.decide(Purpose.CARRIED)
            for i, piece in enumerate(pieces):
                with located(piece.origin, name):
                    arrays[i] = conform(arrays[i], data_type)
        return pa.chunked_array(arrays)
