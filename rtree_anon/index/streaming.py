"""Streaming changes into an index: journal first, then memory, then pages in batches (DESIGN, section 5).

    insert, delete, update ─► checked and coded ─► journal (durable before it is acknowledged) ─► pending
    checkpoint, release, full memory ─► pending rows into the tree (updating.py) ─► one commit: a new version

Readers see committed versions only. After a crash the journal is replayed: the same operations in the same order, so
ids, codes and dictionaries come out the same (P1-P3).

Invariant: what is pending is what the journal holds behind the newest commit. A call that fails changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import InputError, UsageError
from rtree_anon.index.applying import apply_pending
from rtree_anon.index.carried import read_columns
from rtree_anon.index.catalog import read_directory
from rtree_anon.index.existing import moved_codes
from rtree_anon.index.keys import KNOWN_ALREADY, SharedIdError, refuse, require_distinct, stored_keys
from rtree_anon.index.loading import Resources
from rtree_anon.index.operations import Kind, Operation, operations
from rtree_anon.index.pending import Block, Pending, waiting
from rtree_anon.index.reading import BundleReader
from rtree_anon.index.sorting import is_distinct, ordered
from rtree_anon.index.view import View
from rtree_anon.io.coding import RowCoder
from rtree_anon.io.known_rows import known_codes, one_batch
from rtree_anon.io.loading import CodedRows, prepare_load
from rtree_anon.io.row_bytes import RowBatch, in_pieces, packed, unpacked
from rtree_anon.io.stored_columns import ID_RANGE, StoredColumns
from rtree_anon.release.in_threads import in_order
from rtree_anon.schema import Schema
from rtree_anon.storage.protocol import PageStore

_PENDING_SHARE = 0.8  # of the memory but for that: what a checkpoint may take for what waits
_WORK_BYTES = 24 << 20  # for the rows of the tree that a checkpoint is busy with
_TREES = 4  # that a checkpoint has: the one before, its parts, the one after, and that one as it is written
_DICTIONARY_SHARE = 0.25
_RECORD_ROWS = 1 << 16  # at most, so that a record fits the journal
_RECORD_BYTES = 8 << 20

Ids = NDArray[np.int64]
Codes = NDArray[np.int64]  # [column, row]


class NeedsLoadError(Exception):
    """Rows that change what codes or ids of others mean: they have to be loaded, not inserted."""

    def __init__(self, rows: Any) -> None:
        """The rows, which may have been a stream."""
        super().__init__("these rows have to be loaded")
        self.rows = rows


@dataclass(frozen=True, eq=False)
class _Coded:
    """An operation with its rows coded, in parts, and their keys where ids come from keys."""

    operation: Operation
    parts: list[Codes | Block]
    keys: Codes | None


class Streaming:
    """The writer's changes that are not in a version yet. Safe to use from many threads."""

    def __init__(self, store: PageStore, view: View, resources: Resources, refresh: Callable[[], View]) -> None:
        """`refresh` is called after every commit and gives the new version. Replays the journal."""
        self._store, self._resources, self._refresh = store, resources, refresh
        self._lock = threading.RLock()
        self._last_seq = store.journal_seq
        self._unsynced = False
        self._coder: tuple[Schema, RowCoder] | None = None  # of the newest schema that rows came for
        self._begin(view)
        replayed = store.replay()
        for operation in operations(record for _, record in replayed):
            self._take(operation)
        if replayed:
            self._last_seq = replayed[-1][0]

    @property
    def n_rows(self) -> int:
        """Rows of the index, with everything that was acknowledged."""
        with self._lock:
            self._see_newest()
            return self._view.catalog.n_rows + self._pending.n_rows - self._pending.n_gone

    @property
    def has_changes(self) -> bool:
        """Whether there is anything that the newest version does not have."""
        return bool(self._pending) or self._last_seq > self._store.journal_seq

    def insert(self, rows: Any, durable: bool) -> NDArray[Any]:
        """Insert rows; their ids, or the keys that name them."""
        with self._lock:
            self._make_room()
            coded = self._coded(Kind.INSERT, rows, None)
            names = self._names(coded)
            if not len(coded.operation.ids):
                return names
            self._accept(coded.operation, coded.parts)
        self._acknowledge(durable)
        return names

    def update(self, ids: Any, rows: Any, durable: bool) -> None:
        """Give rows other values."""
        with self._lock:
            self._make_room()
            wanted, keys = self._known_rows(ids)
            coded = self._coded(Kind.UPDATE, rows, wanted, keys)
            if not len(wanted):
                return
            self._accept(coded.operation, coded.parts)
        self._acknowledge(durable)

    def delete(self, ids: Any, durable: bool) -> None:
        """Delete rows."""
        with self._lock:
            self._make_room()
            wanted, _ = self._known_rows(ids)
            if not len(wanted):
                return
            self._accept(Operation(Kind.DELETE, wanted), ())
        self._acknowledge(durable)

    def flush(self) -> None:
        """Make everything durable that was acknowledged."""
        self._unsynced = False
        self._store.flush()

    def close(self) -> None:
        """Closing is no crash: what was acknowledged is made durable."""
        if self._unsynced:
            self.flush()

    def checkpoint(self) -> int:
        """Put everything into pages; the version that has it."""
        with self._lock:
            self._see_newest()
            if self.has_changes:
                apply_pending(
                    self._store,
                    self._view,
                    self._pending,
                    schema=self._schema,
                    stored=self._stored,
                    directory=read_directory(self._store, self._view.catalog),
                    next_id=self._next_id,
                    journal_seq=self._last_seq,
                    threads=self._resources.threads,
                    memory_bytes=self._resources.memory_bytes,
                )
                self._see_newest()
            return self._view.version

    def begin_again(self, view: View) -> None:
        """Something else made a new version."""
        with self._lock:
            self._begin(view)

    def _see_newest(self) -> None:
        """After every commit, even if looking at the new version failed at first: what it has is pending no more."""
        if self._view.version != self._store.commit_id:
            self._begin(self._refresh())

    def _begin(self, view: View) -> None:
        catalog = view.catalog
        directory = read_directory(view.pages, catalog)  # first, as it can fail: all of what follows, or nothing
        self._view, self._schema, self._next_id = view, catalog.schema, catalog.next_id
        self._is_bound = catalog.directory is not None  # there are rows, or were
        self._columns: StoredColumns | None = None
        self._directory = directory
        self._pending = Pending()

    @property
    def _stored(self) -> StoredColumns | None:
        """The carried columns with their dictionaries, which are read when the first rows come."""
        if self._columns is None and self._is_bound:
            limit = int(self._resources.memory_bytes * _DICTIONARY_SHARE)
            self._columns = read_columns(self._view.pages, self._view.catalog, limit)
        return self._columns

    def _make_room(self) -> None:
        """Before an operation, so that one that fails has changed nothing."""
        self._see_newest()
        memory_bytes = self._resources.memory_bytes
        room = max(memory_bytes - _WORK_BYTES, memory_bytes // 2) - _TREES * self._view.tree.n_bytes
        if self._pending.n_checkpoint_bytes > max(room, memory_bytes // 4) * _PENDING_SHARE:
            self.checkpoint()

    def _coded(self, kind: Kind, rows: Any, ids: Ids | None, keys: NDArray[np.int64] | None = None) -> _Coded:
        """Code rows. Schema and dictionaries grow; an error leaves them as they were.

        An update names rows by `ids`, and by the `keys` that these come from.
        """
        known = self._stored
        sizes = {} if known is None else known.sizes()
        if known is not None and self._is_bound:
            try:
                coded = self._coded_as_known(kind, rows, ids, known)
            except BaseException:
                known.cut_back(sizes)
                raise
            if coded is not None:
                return coded
            known.cut_back(sizes)
        batches: list[RowBatch] = []
        parts: list[Codes | Block] = []
        named: list[Ids] = []
        named_by: list[Codes] = []
        n = 0
        try:
            with prepare_load(
                rows,
                self._schema,
                known,
                directory=self._resources.directory,
                dictionary_bytes=int(self._resources.memory_bytes * _DICTIONARY_SHARE),
                sample_rows=0,
            ) as prepared:
                has_room = known is None or len(known.ranges) == len(prepared.stored.ranges)
                if self._is_bound and not (has_room and _codes_stay(RowCoder(self._schema), prepared.coder)):
                    raise NeedsLoadError(prepared.rows_again(rows))
                stored = prepared.stored
                threads = self._resources.threads if prepared.n_rows > _RECORD_ROWS else 1
                work = partial(_as_they_wait, stored)
                for pieces, part, own_ids, own_codes in in_order(prepared.coded_rows(_RECORD_ROWS), work, threads):
                    batches += pieces
                    parts.append(part)
                    n += sum(piece.num_rows for piece in pieces)
                    if own_ids is not None:
                        named.append(own_ids)
                    if own_codes is not None:
                        named_by.append(own_codes)
                schema = prepared.schema
            own = np.concatenate([np.empty(0, np.int64), *named]) if stored.has_own_ids else None
            own_keys = None
            if stored.key_column is not None:
                own_keys = np.concatenate([np.empty((len(stored.key_column.ranges), 0), np.int64), *named_by], axis=1)
            try:
                found = self._ids(n, own, own_keys, stored, ids, keys)
            except SharedIdError:
                raise NeedsLoadError([unpacked(batch) for batch in batches]) from None
            except InputError as wrong:  # which file it was is not known there
                raise InputError(wrong.problem, source=prepared.name, row=wrong.row, column=wrong.column) from None
        except BaseException:
            if known is not None:
                known.cut_back(sizes)
            raise
        self._schema, self._columns, self._is_bound = schema, stored, True
        return _Coded(Operation(kind, found, batches), parts, own_keys)

    def _coded_as_known(self, kind: Kind, rows: Any, ids: Ids | None, known: StoredColumns) -> _Coded | None:
        """The same for a few rows that schema and columns need not grow for; None where they might have to."""
        batch = one_batch(rows, list(self._schema.column_names), _RECORD_ROWS)
        if batch is None:
            return None
        if self._coder is None or self._coder[0] is not self._schema:
            self._coder = self._schema, RowCoder(self._schema)
        codes = known_codes(self._coder[1], known, batch)
        if codes is None:
            return None
        found = self._ids(batch.num_rows, None, None, known, ids, None)
        return _Coded(Operation(kind, found, in_pieces(packed(batch), _RECORD_BYTES)), [waiting(codes)], None)

    def _ids(
        self,
        n: int,
        own: Ids | None,
        own_keys: Codes | None,
        stored: StoredColumns,
        ids: Ids | None,
        keys: Codes | None,
    ) -> Ids:
        """The ids of n rows: `own` ones, which come from their `own_keys`, those of an update, or new ones."""
        if ids is not None and len(ids) != n:
            raise UsageError(f"{len(ids)} ids were given for {n} rows; an update needs one row for every id.")
        if own is None:
            return np.arange(self._next_id, self._next_id + n) if ids is None else ids
        if ids is not None:
            if not np.array_equal(ids, own) or not (keys is None or own_keys is None or np.array_equal(keys, own_keys)):
                named = stored.key_type[0] if stored.key_type else "id"
                raise UsageError(f"The rows of an update must have the keys that are named, column {named!r}.")
            return own
        if own_keys is not None:
            self._require_new_keys(stored, own_keys, own)
            return own
        assert stored.key is not None
        ascending, order = ordered(own)
        taken = np.sort(order[1:][ascending[1:] == ascending[:-1]])
        known = not len(taken)
        taken = np.flatnonzero(self._is_known(own)) if known else taken
        if len(taken):
            first = int(taken[0])
            problem = f"the key {own[first]} names more than one row{KNOWN_ALREADY if known else ''}"
            raise InputError(problem, row=first + 1, column=stored.key[0])
        return own

    def _require_new_keys(self, stored: StoredColumns, keys: NDArray[np.int64], ids: Ids) -> None:
        """None of these keys names a row; SharedIdError where the id of one does."""
        require_distinct(stored, keys, ids)
        known = self._is_known(ids)
        if known.any():
            same = (self._keys_of(stored, ids[known]) == keys[:, known]).all(axis=0)
            refuse(stored, keys, np.flatnonzero(known)[same], KNOWN_ALREADY)
            raise SharedIdError

    def _keys_of(self, stored: StoredColumns, ids: Ids) -> NDArray[np.int64]:
        """The keys of rows that there are, as codes [column, row]."""
        assert stored.key_column is not None
        keys = np.empty((len(stored.key_column.ranges), len(ids)), np.int64)
        places = self._pending.find(ids)
        waits = places >= 0
        if waits.any():
            keys[:, waits] = stored.key_codes(self._pending.rows_at(places[waits]))
        view, rest = self._view, ids[~waits]
        if len(rest):
            reader = BundleReader(view.pages, view.tree, view.space, len(stored.ranges))
            keys[:, ~waits] = stored_keys(reader, stored, rest, self._directory.find(rest))
        return keys

    def _names(self, coded: _Coded) -> NDArray[Any]:
        """What rows that were just coded are named by."""
        stored = self._columns
        if stored is None or stored.key_column is None or coded.keys is None:
            return coded.operation.ids
        return stored.key_names(coded.keys)

    def _known_rows(self, names: Any) -> tuple[Ids, NDArray[np.int64] | None]:
        """The ids of rows that a user names, all of which there are; and their keys, where ids come from keys."""
        stored = self._stored
        if stored is None or stored.key_column is None:
            ids = _distinct_ids(names)
            self._require_known(ids, self._is_known(ids))
            return ids, None
        keys = stored.key_column.named(names)
        ids = stored.key_column.ids(keys)
        known = self._is_known(ids)
        known[known] = (self._keys_of(stored, ids[known]) == keys[:, known]).all(axis=0)
        self._require_known(stored.key_names(keys), known)
        if not is_distinct(ids):
            raise UsageError("A row is named twice in one call.")
        return ids, keys

    def _accept(self, operation: Operation, parts: Sequence[Codes | Block]) -> None:
        """An operation that was found to be right: to the journal, then to what is pending."""
        self._last_seq = self._store.append(operation.records(), durable=False)
        self._unsynced = True
        self._work_in(operation, parts)

    def _take(self, operation: Operation) -> None:
        """An operation from the journal."""
        parts: Sequence[Codes | Block] = ()
        if operation.kind != Kind.DELETE:
            ids = operation.ids if operation.kind == Kind.UPDATE else None
            coded = self._coded(operation.kind, list(operation.batches), ids)
            operation, parts = coded.operation, coded.parts
        self._work_in(operation, parts)

    def _work_in(self, operation: Operation, parts: Sequence[Codes | Block]) -> None:
        ids = operation.ids
        if operation.kind != Kind.INSERT:
            places = self._pending.find(ids)
            self._pending.drop(places[places >= 0])
            self._pending.remove(ids[(places < 0)])
        if operation.kind != Kind.DELETE:
            self._pending.add(parts, ids)
        if operation.kind == Kind.INSERT and self._columns is not None:
            self._next_id = self._next_id + len(ids) if not self._columns.has_own_ids else ID_RANGE[1] + 1

    def _is_known(self, ids: Ids) -> NDArray[np.bool_]:
        waits = self._pending.find(ids) >= 0
        return waits | ((self._directory.find(ids) >= 0) & ~self._pending.is_gone(ids))

    def _require_known(self, names: NDArray[Any], known: NDArray[np.bool_]) -> None:
        unknown = names[~known]
        if len(unknown):
            more = f" (and {len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
            raise InputError(f"there is no row {unknown[:1].tolist()[0]!r:.80}{more}; nothing was changed")

    def _acknowledge(self, durable: bool) -> None:
        """Outside the lock: calls from many threads share a sync."""
        if durable:
            self.flush()


def _as_they_wait(
    stored: StoredColumns, coded: Callable[[], CodedRows]
) -> tuple[list[RowBatch], Codes | Block, Ids | None, Codes | None]:
    """Rows as the journal takes them, and as they wait; the ids that they come with, and the keys of these."""
    batch, numbered, codes = coded()
    ids = codes[-1] if stored.has_own_ids else None
    codes = codes if ids is None else codes[:-1]
    keys = None if stored.key_column is None else stored.key_codes(codes)
    return in_pieces(packed(batch, numbered), _RECORD_BYTES), waiting(codes), ids, keys


def _codes_stay(before: RowCoder, after: RowCoder) -> bool:
    """Whether codes mean what they meant, and are measured as they were: an axis of sets can have too many values."""
    kinds = [[axis.kind for axis in coder.space.axes] for coder in (before, after)]
    return kinds[0] == kinds[1] and not moved_codes(before, after)


def _distinct_ids(ids: Any) -> Ids:
    found = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids) if hasattr(ids, "__iter__") else [ids])
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise UsageError("Rows are named by ids: whole numbers, as `insert` returned them, or the schema's key.")
    found = found.astype(np.int64)
    if not is_distinct(found):
        raise UsageError("A row is named twice in one call.")
    return found
