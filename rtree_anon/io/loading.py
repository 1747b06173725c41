"""From anything that users hand in to batches of coded rows, for a bulk load.

    source ─► prepare_load ─► schema (bound, or grown), stored columns, number of rows
                  │
                  ├─► sample(n)            coded rows for the first cuts
                  └─► batches(batch_rows)  read by the caller's thread; coded by whichever thread calls `codes`

Binding costs no pass over Parquet files whose statistics say what has to be known, and one pass over everything else.
A stream is spooled to a temporary file during that pass. The sample of such sources is drawn from the same pass.

Invariant: the batches have every row of the source once, in order. Codes do not depend on the size of batches, nor on
the threads that code them: dictionaries grow while a batch is read, before it is handed out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import InputError
from rtree_anon.io.cells import CellError, Origin, located
from rtree_anon.io.coded_batch import WRONG_STATISTICS, CodedBatch
from rtree_anon.io.coding import RowCoder
from rtree_anon.io.column_codings import DictionaryColumn, Range, coded_numbers, stored_form
from rtree_anon.io.column_types import typed
from rtree_anon.io.files import ParquetFile
from rtree_anon.io.parquet_statistics import ParquetStatistics
from rtree_anon.io.planning import LoadPlan
from rtree_anon.io.sampling import Reservoir, parquet_rows
from rtree_anon.io.sources import FileSource, Piece, Source, open_source, resized
from rtree_anon.io.stored_columns import ID_RANGE, StoredColumns
from rtree_anon.io.stream_spool import StreamSpool
from rtree_anon.io.values import null_mask
from rtree_anon.schema import Schema
from rtree_anon.space import Space, missing_code

_SAMPLE_ROWS = 1 << 18
_DICTIONARY_BYTES = 1 << 28


def prepare_load(
    source: Any,
    schema: Schema,
    stored: StoredColumns | None = None,
    *,
    directory: str,
    dictionary_bytes: int = _DICTIONARY_BYTES,
    sample_rows: int = _SAMPLE_ROWS,
    seed: int = 0,
) -> PreparedLoad:
    """Open a source and learn what coding its rows needs.

    `schema` is bound by the first load and grown by later ones; `stored` are the carried columns of an index that has
    rows already. `directory` is for temporary files, `dictionary_bytes` limits the dictionaries of carried columns (of
    a first load) and the values of each category, and `sample_rows` is the most that `sample` will be asked for:
    0 where it is not going to be.
    """
    opened = open_source(source)
    plan = LoadPlan(opened, schema, stored, dictionary_bytes)
    statistics = _statistics(opened, schema)
    reservoir = None if statistics or not sample_rows else Reservoir(sample_rows, schema.quasi_names, seed)
    spool = None if opened.repeatable else StreamSpool(opened.name, directory)
    again: Source = opened if spool is None else spool
    try:
        if statistics is not None:
            plan.use_statistics(statistics)
        n_rows = plan.learn(reservoir, spool)
        if statistics is not None:
            n_rows = statistics.n_rows
        if not n_rows and stored is None:
            raise InputError("there are no rows", source=opened.name)
        plan.learn_again(again)
        bound = plan.bound_schema()
        if stored is None:
            types = plan.carried_types()
            stored = StoredColumns.for_types(schema, types, opened.name, dictionary_bytes, plan.longest_key)
        elif stored.key_column is not None:
            with located(Origin(opened.name), stored.key_column.name):
                stored = stored.with_key(stored.key_column.with_room_for(plan.longest_key))
    except BaseException:
        if spool is not None:
            spool.close()
        raise
    may_have_missing = tuple(plan.may_have_missing(statistics))
    parsed = plan.parsed_types()
    return PreparedLoad(
        opened.name, n_rows, bound, stored, may_have_missing, again, parsed, statistics, reservoir, spool, seed
    )


class CodedRows(NamedTuple):
    """Rows as they would have to be handed in again, and as codes."""

    batch: pa.RecordBatch
    numbered: dict[str, pa.Array]  # columns of text that are categories, as dictionaries
    codes: NDArray[np.int64]  # [column, row]


@dataclass(frozen=True, eq=False)
class PreparedLoad:
    """A source whose rows can be coded. A context manager; closing it gives the space of a spooled stream back."""

    name: str
    n_rows: int
    schema: Schema
    stored: StoredColumns
    may_have_missing: tuple[bool, ...]  # by quasi-identifier
    _source: Source
    _parsed: dict[str, pa.DataType]
    _statistics: ParquetStatistics | None
    _reservoir: Reservoir | None
    _spool: StreamSpool | None
    _seed: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closing twice is harmless."""
        if self._spool is not None:
            self._spool.close()

    @cached_property
    def coder(self) -> RowCoder:
        """The coder of the quasi-identifiers."""
        return RowCoder(self.schema)

    @property
    def space(self) -> Space:
        """The axes of the bound schema, which know where values may be missing."""
        axes = zip(self.coder.space.axes, self.may_have_missing, strict=True)
        return Space(tuple(replace(axis, has_missing=missing) for axis, missing in axes))

    @property
    def key_is_id(self) -> bool:
        """Whether rows come with ids: those of the schema's key."""
        return self.stored.has_own_ids

    def with_hashed_people(self, known: StoredColumns) -> PreparedLoad:
        """The same for rows that come from an index with these columns: it has hashes of people, not their names."""
        return replace(self, stored=self.stored.with_hashed_people(known))

    def with_other_ids(self) -> PreparedLoad:
        """The same rows; other ids for keys that are no whole numbers (two of which can have one id)."""
        column = self.stored.key_column
        assert column is not None
        return replace(self, stored=self.stored.with_key(column.with_salt(secrets.randbits(64))))

    def ranges(self, *, with_ids: bool = False, own_rows_only: bool = False) -> list[Range]:
        """The ranges of the columns of codes, in their order: quasi-identifiers, carried columns, ids.

        Those of carried columns are as wide as their types, or as narrow as is known of this load's own rows.
        """
        quasi = [(axis.lo, axis.hi) if axis.lo <= axis.hi else (0, -1) for axis in self.space.axes]
        ids = [ID_RANGE] if with_ids or self.key_is_id else []
        return [*quasi, *(self._own_ranges() if own_rows_only else self.stored.ranges), *ids]

    def sample(self, n_rows: int) -> NDArray[Any]:
        """About so many coded rows (n, quasi-identifiers), in random order; fewer where there are not so many."""
        names = list(self.schema.quasi_names)
        if self._statistics is not None:
            pieces = list(parquet_rows(self._statistics, names, n_rows, self._seed)) if self._statistics.groups else []
            coded = [self._coded_quasi(piece) for piece in pieces]
            if not coded:
                return self._no_rows
            rows = np.concatenate(coded)
            order = np.random.default_rng(self._seed).permutation(len(rows))
            return np.ascontiguousarray(rows[order])
        assert self._reservoir is not None
        batch = self._reservoir.rows(n_rows)
        if batch is None:
            return self._no_rows
        try:
            return self._coded_quasi(Piece(batch, Origin(self.name)))
        except InputError:
            return self._no_rows  # reading the batches in order will say which row it is

    def batches(self, batch_rows: int, *, first_id: int | None = None) -> Iterator[CodedBatch]:
        """All rows; with `first_id` they get consecutive ids, as the last column of codes."""
        names = list(self.schema.column_names)
        columns = self._column_names(with_ids=first_id is not None)
        next_id = first_id
        for piece in resized(self._source.pieces(names, batch_rows), batch_rows):
            numbers = self._numbers(piece)
            codes = partial(self._typed_codes, piece, numbers, next_id)
            yield CodedBatch(piece.batch.num_rows, codes, piece.origin.name, piece.origin.first_row, columns)
            if next_id is not None:
                next_id += piece.batch.num_rows

    def coded_rows(self, batch_rows: int) -> Iterator[Callable[[], CodedRows]]:
        """All rows, to be coded by any thread. Ids are among the codes only where they are the rows' keys."""

        def coded(piece: Piece, numbers: dict[str, NDArray[np.int32]]) -> CodedRows:
            piece = typed(piece, self._parsed)
            numbered = self.coder.numbered_texts(piece.batch)
            columns = [
                numbered.get(name, column)
                for name, column in zip(piece.batch.schema.names, piece.batch.columns, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(columns, piece.batch.schema.names)
            codes = self._codes(Piece(batch, piece.origin), numbers, None)
            wide = codes.astype(np.int64)
            if codes.dtype != np.int64:
                wide[codes == missing_code(codes.dtype)] = missing_code(np.int64)
            return CodedRows(piece.batch, numbered, wide)

        names = list(self.schema.column_names)
        for piece in resized(self._source.pieces(names, batch_rows), batch_rows):
            yield partial(coded, piece, self._numbers(piece))

    def rows_again(self, given: Any) -> Any:
        """What can be handed in once more: `given`, or where that was a stream, what it held."""
        if self._spool is None:
            return given
        return [piece.batch for piece in self._source.pieces(list(self.schema.column_names))]

    @property
    def _no_rows(self) -> NDArray[Any]:
        return np.empty((0, len(self.coder.coders)), self.coder.dtype)

    def _own_ranges(self) -> list[Range]:
        """The ranges of the carried columns of this load: by statistics, and by how many new values there can be."""
        ranges: list[Range] = []
        for column in self.stored.columns:
            ends = None
            if self._statistics is not None and self._source.fields([column.name]).field(0).type == column.data_type:
                ends = self._statistics.ends(column.name)
            ranges += column.ranges_of(self.n_rows, None if ends is None else (ends.lo, ends.hi))
        return ranges

    def _column_names(self, *, with_ids: bool) -> list[str]:
        names = list(self.schema.quasi_names)
        for column in self.stored.columns:
            names += [column.name] * len(column.ranges)
        return names + (["id"] if with_ids or self.key_is_id else [])

    def _coded_quasi(self, piece: Piece) -> NDArray[Any]:
        piece = typed(piece, self._parsed)
        return self.coder.encode(piece.batch, piece.origin)

    def _numbers(self, piece: Piece) -> dict[str, NDArray[np.int32]]:
        """Numbers of the columns with dictionaries, which grow here."""
        numbers = {}
        for column in self.stored.columns:
            if isinstance(column, DictionaryColumn):
                with located(piece.origin, column.name):
                    numbers[column.name] = column.number(stored_form(piece.batch.column(column.name), column))
        return numbers

    def _typed_codes(self, piece: Piece, numbers: dict[str, NDArray[np.int32]], first_id: int | None) -> NDArray[Any]:
        return self._codes(typed(piece, self._parsed), numbers, first_id)

    def _codes(self, piece: Piece, numbers: dict[str, NDArray[np.int32]], first_id: int | None) -> NDArray[Any]:
        """codes[column, row] of a batch whose columns are of their types."""
        batch, origin = piece.batch, piece.origin
        self._check_missing(piece)
        with_ids = first_id is not None or self.key_is_id
        dtype = np.dtype(np.int64) if with_ids else self._dtype
        codes = np.empty((self._n_columns + with_ids, batch.num_rows), dtype)
        at = 0
        for at, column in enumerate(self.coder.columns(batch, origin, dtype), 1):
            codes[at - 1] = column
        for stored in self.stored.columns:
            if stored.name in numbers:
                parts = [coded_numbers(numbers[stored.name], dtype)]
            else:
                with located(origin, stored.name):
                    parts = stored.encode(stored_form(batch.column(stored.name), stored), dtype)
            for part in parts:
                codes[at] = part
                at += 1
        if self.key_is_id:
            codes[-1] = self.stored.ids(batch, origin, codes[len(self.coder.coders) : -1])
        elif first_id is not None:
            codes[-1] = np.arange(first_id, first_id + batch.num_rows)
        return codes

    def _check_missing(self, piece: Piece) -> None:
        """Values are missing only where they may be."""
        for name, may_be in zip(self.schema.quasi_names, self.may_have_missing, strict=True):
            if not may_be and (mask := null_mask(piece.batch.column(name))) is not None:
                with located(piece.origin, name):
                    raise CellError(int(np.argmax(mask)), f"the value is missing, which {WRONG_STATISTICS}")

    @cached_property
    def _n_columns(self) -> int:
        return len(self.coder.coders) + len(self.stored.ranges)

    @cached_property
    def _dtype(self) -> Any:
        """int32 where that holds every code (ids need more)."""
        least, most = missing_code(np.int32) + 1, int(np.iinfo(np.int32).max)
        narrow = self.coder.dtype == np.int32 and all(least <= lo and hi <= most for lo, hi in self.stored.ranges)
        return np.dtype(np.int32 if narrow else np.int64)


def _statistics(source: Source, schema: Schema) -> ParquetStatistics | None:
    """The statistics of a source that is nothing but Parquet files."""
    if not isinstance(source, FileSource):
        return None
    files = [file for file in source.files if isinstance(file, ParquetFile)]
    return ParquetStatistics(files, schema.column_names) if len(files) == len(source.files) else None
