"""Changes that the journal has and the pages have not yet: rows that wait in memory, and ids of rows that are to go.

Rows wait in the order in which they came, packed in blocks to a few words each (kernels/rowwords.py): the more of them
fit into memory, the more are worked into the tree at once, and the less each of them costs. The last few are loose
codes. A row that is deleted while it waits is only marked.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.id_runs import IdRuns, IdSet
from rtree_anon.index.rowlayout import RowLayout, layout_of
from rtree_anon.kernels.rowwords import pack_columns, range_of_columns, repack_rows, unpack_column
from rtree_anon.space import missing_code

LOOSE_ROWS = 4096
_CHECKPOINT_ROW_BYTES = 10  # for each row: where it goes, its entry in the directory, and a little more
_CHECKPOINT_GONE_BYTES = 18  # for each row that is to go: its bundle, its place, and its id by bundle
_ID_RANGE = (0, 1 << 40)  # of ids that rows are packed with then, if they have none of their own
_MISSING = np.int64(missing_code(np.int64))

Ids = NDArray[np.int64]
Codes = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Block:
    """Packed rows, without ids, and which columns have missing values among them."""

    words: Words
    layout: RowLayout
    has_missing: NDArray[np.bool_]

    @classmethod
    def of(cls, codes: Codes) -> Block:
        n_columns, n = codes.shape
        lo, hi = np.empty((2, n_columns), np.int64)
        has_missing = np.empty(n_columns, np.bool_)
        range_of_columns(codes, _MISSING, lo, hi, has_missing)
        layout = layout_of(list(zip(lo.tolist(), hi.tolist(), strict=True)))
        words = layout.empty(n)
        pack_columns(codes, 0, n, _MISSING, layout.words, words)
        return cls(words, layout, has_missing)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def n_id_bytes(self) -> int:
        """How many more bytes its rows take with their ids."""
        n_more_words = layout_of([*self.layout.ranges, _ID_RANGE]).n_words - self.layout.n_words
        return self.words.itemsize * len(self) * n_more_words

    def column(self, number: int, places: Ids | slice) -> NDArray[np.int64]:
        words = self.words[places]
        codes = np.empty(len(words), np.int64)
        unpack_column(words, self.layout.words, number, _MISSING, codes)
        return codes


class Pending:
    """What waits. Codes are [column, row], without ids."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._loose: list[Codes] = []  # behind the blocks
        self._n_loose = self._n = self._n_dead = 0
        self._n_row_bytes = 0  # of blocks and of what is loose
        self._n_id_bytes = 0  # that ids of blocks will take
        self._alive: NDArray[np.bool_] | None = None  # where a row was dropped
        self._places = IdRuns()
        self._gone = IdSet()  # rows of the tree that are to go

    @property
    def n_rows(self) -> int:
        """Rows that wait."""
        return self._n - self._n_dead

    @property
    def n_gone(self) -> int:
        """Rows of the tree that are to go."""
        return len(self._gone)

    @property
    def n_bytes(self) -> int:
        """About how much memory that takes."""
        n_alive_bytes = 0 if self._alive is None else len(self._alive)
        return self._n_row_bytes + n_alive_bytes + self._places.n_bytes + self._gone.n_bytes

    @property
    def n_checkpoint_bytes(self) -> int:
        """About how much memory a checkpoint of it takes, with itself, but for the rows of the tree."""
        n_copied = self._n_row_bytes if self._n_dead else 0
        n_for_each = _CHECKPOINT_ROW_BYTES * self._n + _CHECKPOINT_GONE_BYTES * self.n_gone
        return self.n_bytes + n_copied + self._n_id_bytes + n_for_each

    def __bool__(self) -> bool:
        return bool(self._n or self.n_gone)

    def add(self, rows: Sequence[Codes | Block], ids: Ids) -> None:
        """More rows, in parts; none of their ids may wait already."""
        n = len(ids)
        if self._alive is not None and self._n + n > len(self._alive):
            room = max(self._n + n, len(self._alive) * 5 // 4, 1024) - len(self._alive)
            self._alive = np.concatenate((self._alive, np.ones(room, np.bool_)))
        self._places.add(ids, np.arange(self._n, self._n + n, dtype=np.int32))
        self._n += n
        for part in rows:
            if isinstance(part, Block):
                self._tie()
                self._blocks.append(part)
                self._n_row_bytes += part.words.nbytes
                self._n_id_bytes += part.n_id_bytes
                continue
            self._loose.append(part)
            self._n_row_bytes += part.nbytes
            self._n_loose += part.shape[1]
            if self._n_loose >= LOOSE_ROWS:
                self._tie()

    def find(self, ids: Ids) -> Ids:
        """Where rows with these ids wait; -1 for ids that do not."""
        places = self._places.find(ids).astype(np.int64)
        if self._alive is not None:
            places[places >= 0] = np.where(self._alive[places[places >= 0]], places[places >= 0], -1)
        return places

    def rows_at(self, places: Ids) -> Codes:
        """Rows that wait at the places that `find` gave."""
        parts = list(self._all_blocks())
        starts = np.cumsum([0, *(len(block) for block in parts)])
        n_columns = len(parts[0].has_missing) if parts else 0
        codes = np.empty((n_columns, len(places)), np.int64)
        number = np.searchsorted(starts, places, "right") - 1
        for block in np.unique(number).tolist():
            here = np.flatnonzero(number == block)
            for column in range(n_columns):
                codes[column, here] = parts[block].column(column, places[here] - starts[block])
        return codes

    def drop(self, places: Ids) -> None:
        """Rows that wait are not to come after all."""
        if not len(places):
            return
        if self._alive is None:
            self._alive = np.ones(self._n, np.bool_)
        self._alive[places] = False
        self._n_dead += len(places)

    def is_gone(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these rows of the tree are to go."""
        return self._gone.has(ids)

    def remove(self, ids: Ids) -> None:
        """Rows of the tree are to go."""
        self._gone.add(ids)

    def gone(self) -> Ids:
        """The rows of the tree that are to go, ascending."""
        return self._gone.ids()

    def missing(self, n_columns: int) -> NDArray[np.bool_]:
        """Which of the first columns have missing values among the rows that came."""
        found = np.zeros(n_columns, np.bool_)
        for block in self._all_blocks():
            found |= block.has_missing[:n_columns]
        return found

    def column(self, number: int) -> NDArray[np.int64]:
        """One column of the rows that wait."""
        parts = [block.column(number, slice(None)) for block in self._all_blocks()]
        every = np.concatenate([np.empty(0, np.int64), *parts])
        return every if self._alive is None else every[self._alive[: self._n]]

    def packed(self, layout: RowLayout, threads: int = 1) -> Words:
        """The rows that wait, in the order in which they came, in a layout that has their ids as its last column.

        If none was dropped, they wait in that form from now on: there is no room for all of them twice.
        """
        self._tie()
        words = layout.empty(self.n_rows)
        begins = np.cumsum([0, *(len(block) for block in self._blocks)]).tolist()
        n_alive = [b - a if self._alive is None else int(self._alive[a:b].sum()) for a, b in pairwise(begins)]
        places = np.cumsum([0, *n_alive]).tolist()
        ids = self._places.by_number()

        def fits(number: int) -> bool:
            block, (begin, end) = self._blocks[number], (begins[number], begins[number + 1])
            own, named = block.words, ids(begin, end)
            if self._alive is not None:
                own, named = own[self._alive[begin:end]], named[self._alive[begin:end]]
            out = words[places[number] : places[number + 1]]
            if not repack_rows(own, block.layout.words, named, layout.words, out):
                return False
            if self._alive is None:
                self._blocks[number] = replace(block, words=out, layout=layout)
            return True

        with ThreadPoolExecutor(threads) as pool:
            if not all(list(pool.map(fits, range(len(self._blocks))))):
                raise CorruptionError("A row has a value outside its column's domain; this should not be possible.")
        self._n_row_bytes = sum(block.words.nbytes for block in self._blocks)
        return words

    def _all_blocks(self) -> Iterator[Block]:
        yield from self._blocks
        if self._n_loose:
            yield Block.of(np.concatenate(self._loose, axis=1))

    def _tie(self) -> None:
        """Make a block of what is loose."""
        if not self._n_loose:
            return
        block = Block.of(np.concatenate(self._loose, axis=1))
        self._n_row_bytes += block.words.nbytes - sum(part.nbytes for part in self._loose)
        self._n_id_bytes += block.n_id_bytes
        self._blocks.append(block)
        self._loose, self._n_loose = [], 0


def waiting(codes: Codes) -> Codes | Block:
    """Rows as they are to wait: packed where they are many."""
    return Block.of(codes) if codes.shape[1] >= LOOSE_ROWS else codes
