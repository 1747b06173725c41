"""Bulk loading: from coded batches of any number of rows to a tree on pages, inside a memory budget.

    1. scatter   rows to buckets by the cuts of a sample, spilled where they do not fit         (scatter.py, seed.py)
    2. settle    cuts that leave too few rows on a side are dropped (thinning.py); buckets that are too large are
                 scattered again by a sample of their own rows
    3. cut       every bucket into leaves and bundles, by all threads; written in leaf order    (bucket.py)

Each row is written twice at most (spill, page) and read once from the spill, unless the sample misled: the cost is that
of an external sort (R+-tree paper, sections 2.1 and 5.2; Arge 1995). Memory: the chunks of the scatter in step 1, the
last chunk and a few buckets in step 3.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.bucket import Bundles, Cutter, set_first_ids
from rtree_anon.index.cuts import Cuts, joined
from rtree_anon.index.scatter import Scatter, SpillFile, Words
from rtree_anon.index.seed import SAMPLE_PER_BUCKET, Seed, seed_from
from rtree_anon.index.thinning import thinned
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.io.coded_batch import CodedBatch
from rtree_anon.kernels.routing import route_batch
from rtree_anon.kernels.rowwords import unpack_rows
from rtree_anon.space import missing_code
from rtree_anon.storage.protocol import PageStore
from rtree_anon.tree.build import Boxes

BUNDLE_KIND: Final = 17  # of pages
_BUCKET_ROWS: Final = 24_000  # fits the processor's second cache, words and kernel codes together
_CHUNK_SHARE: Final = 0.3  # of the memory budget, for each of the two chunks of a scatter
_CUT_BYTES_PER_WORD_AND_AXIS: Final = (24, 28)  # what cutting needs per row: packed twice; kernel codes, boxes, record
_LEAST_CUT_ROWS: Final = 1024  # at a time, however little memory there is
_BUCKETS_AT_ONCE: Final = 6  # for which there is memory, even if they are as large as may be
_MOST_BUCKETS: Final = 60_000
_LEAST_RUN_BYTES: Final = 4096  # of a bucket in a chunk: shorter reads cost more than they bring
_MISSING: Final = np.int64(missing_code(np.int64))
_Result = TypeVar("_Result")


@dataclass
class LoadReport:
    """What a bulk load did, for progress, benchmarks and `stats`."""

    n_rows: int = 0
    n_buckets: int = 0
    n_resplit: int = 0
    spill_bytes: int = 0
    page_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Bucket:
    """A bucket that is ready to be cut: old buckets of a scatter, rows that came from elsewhere, the box before it."""

    scatter: Scatter
    members: list[int]
    n_rows: int
    entry: Boxes | None
    extra: list[Words] = field(default_factory=list)

    def rows(self) -> Words:
        parts = [self.scatter.rows_of(member) for member in self.members] + self.extra
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class BulkLoad:
    """One load. `run` leaves the pages in the store's open transaction and returns the tree over them."""

    def __init__(
        self,
        store: PageStore,
        cutter: Cutter,
        *,
        memory_bytes: int,
        threads: int,
        directory: str,
        on_progress: Callable[[str, int, int | None], None] = lambda phase, done, total: None,
    ) -> None:
        """`on_progress` is called with the phase ("reading", "cutting"), the rows done, and all rows where known."""
        self.store, self.cutter, self.threads = store, cutter, threads
        self.report = LoadReport()
        self._memory_bytes, self._on_progress = memory_bytes, on_progress
        self._spill = SpillFile(directory)
        per_word, per_axis = _CUT_BYTES_PER_WORD_AND_AXIS
        cut_bytes = per_word * cutter.layout.n_words + per_axis * len(cutter.space) + 32
        # A quarter of the memory for the buckets that are being cut or wait to be written. How large a bucket may be
        # does not depend on the threads, as the result must not; how many there are at a time does.
        self._rows_at_once = memory_bytes // 4 // cut_bytes
        self._most_rows = max(self._rows_at_once // _BUCKETS_AT_ONCE, 4 * cutter.k, _LEAST_CUT_ROWS)
        self._bucket_rows = min(_BUCKET_ROWS, self._most_rows // 2)

    def n_buckets_for(self, n_rows: int) -> int:
        """How many buckets rows are scattered over at first."""
        run_rows = max(_LEAST_RUN_BYTES // (8 * self.cutter.layout.n_words), 1)
        by_runs = max(self._chunk_rows(n_rows) // run_rows, 2)
        return int(min(max(n_rows // self._bucket_rows, 1), by_runs, _MOST_BUCKETS))

    def sample_rows_for(self, n_rows: int) -> int:
        """How many rows of a sample that takes; a sample takes an eighth of the memory at most."""
        affordable = self._memory_bytes // 8 // (12 * len(self.cutter.space) + 16)
        return min(self.n_buckets_for(n_rows) * SAMPLE_PER_BUCKET, affordable, n_rows)

    def run(self, sample: NDArray[Any], batches: Iterable[CodedBatch], n_expected: int, first_id: int) -> UpperTree:
        """Load batches; `sample` has coded rows of them. Rows get ids from first_id on, unless they have their own."""
        try:
            with ThreadPoolExecutor(self.threads) as pool:
                begin = perf_counter()
                seed = self._seed(sample, n_expected)
                self.report.seconds["sampling"] = perf_counter() - begin
                begin = perf_counter()
                scatter = self._scatter(seed, batches, n_expected, pool, "reading")
                self.report.n_rows = int(scatter.counts.sum())
                buckets, cuts = self._settled(scatter, seed, pool)
                self.report.n_buckets = len(buckets)
                self.report.seconds["scattering"] = perf_counter() - begin
                begin = perf_counter()
                tree = self._cut(buckets, cuts, first_id, pool)
                self.report.seconds["cutting"] = perf_counter() - begin
        finally:
            self.report.spill_bytes = self._spill.bytes_written
            self._spill.close()
        return tree

    def _chunk_rows(self, n_rows: int) -> int:
        return max(int(min(self._memory_bytes * _CHUNK_SHARE / (8 * self.cutter.layout.n_words), n_rows)), 1)

    def _seed(self, sample: NDArray[Any], n_rows: int) -> Seed:
        cutter = self.cutter
        n_buckets = self.n_buckets_for(n_rows)
        return seed_from(sample, cutter.space, n_buckets, cutter.quality, self.threads, cutter.seed)

    def _scatter(
        self, seed: Seed, batches: Iterable[CodedBatch], n_expected: int, pool: ThreadPoolExecutor, phase: str
    ) -> Scatter:
        done = 0

        def on_rows(n: int) -> None:
            nonlocal done
            done += n
            self._on_progress(phase, done, n_expected)

        scatter = Scatter(seed.cuts, self.cutter.layout, self._spill, self._chunk_rows(n_expected))
        scatter.fill(batches, pool, self.threads, on_rows)
        return scatter

    def _settled(self, scatter: Scatter, seed: Seed, pool: ThreadPoolExecutor) -> tuple[list[_Bucket], Cuts]:
        """Buckets that can be cut, and the cuts between them."""
        sums = np.concatenate(([0], np.cumsum(scatter.counts)))
        fewest = self.cutter.k
        kept = thinned(scatter.cuts, scatter.counts, lambda begin, end: bool(sums[end] - sums[begin] >= fewest))
        extra = self._rerouted(scatter, kept.dissolved, kept.cuts)
        buckets: list[_Bucket] = []
        inner: list[Cuts] = []
        for number, members in enumerate(kept.members):
            more = extra.get(number, [])
            n_rows = int(scatter.counts[members].sum()) + sum(map(len, more))
            bucket = _Bucket(scatter, members, n_rows, seed.box_before(members[0]), more)
            if n_rows <= self._most_rows:
                buckets.append(bucket)
                inner.append(Cuts.none())
                continue
            parts, cuts = self._resplit(bucket, pool)
            buckets += parts
            inner.append(cuts)
        return buckets, joined(inner, kept.cuts)

    def _rerouted(self, scatter: Scatter, dissolved: list[int], cuts: Cuts) -> dict[int, list[Words]]:
        """Rows of dissolved buckets by their new bucket."""
        if not dissolved:
            return {}
        words = np.concatenate([scatter.rows_of(bucket) for bucket in dissolved])
        codes = self._unpacked(words)
        bucket = np.empty(len(words), np.uint32)
        route_batch(codes, _MISSING, cuts.route_table, bucket, np.zeros(len(cuts) + 1, np.int64))
        return {number: [words[bucket == number]] for number in np.unique(bucket).tolist()}

    def _resplit(self, bucket: _Bucket, pool: ThreadPoolExecutor) -> tuple[list[_Bucket], Cuts]:
        """A bucket that is too large to be cut at once, scattered by a sample of its own rows."""
        self.report.n_resplit += 1
        generator = np.random.default_rng(self.cutter.seed)
        n_sample = self.sample_rows_for(bucket.n_rows)
        sample = [
            self._unpacked(words[generator.random(len(words)) < n_sample / bucket.n_rows])
            for words in self._pieces(bucket)
        ]
        d = len(self.cutter.space)
        rows = np.ascontiguousarray(np.concatenate(sample, axis=1)[:d].T)
        seed = self._seed(rows, bucket.n_rows)
        if not len(seed.cuts):  # nothing to cut by: equal rows, nearly all of them
            return [bucket], Cuts.none()
        batches = (CodedBatch(len(words), _deferred(self._unpacked, words), "rows") for words in self._pieces(bucket))
        scatter = self._scatter(seed, batches, bucket.n_rows, pool, "splitting")
        if int(scatter.counts.max()) == bucket.n_rows:
            return [bucket], Cuts.none()
        return self._settled(scatter, seed, pool)

    def _pieces(self, bucket: _Bucket) -> Iterator[Words]:
        for member in bucket.members:
            yield from bucket.scatter.pieces_of(member)
        yield from bucket.extra

    def _unpacked(self, words: Words) -> NDArray[np.int64]:
        """codes[column, row] of packed rows."""
        n_columns = self.cutter.layout.n_columns
        codes = np.empty((n_columns, len(words)), np.int64)
        missing = np.full(n_columns, _MISSING, np.int64)
        unpack_rows(words, self.cutter.layout.words, 0, np.arange(n_columns), missing, codes.T)
        return codes

    def _cut(self, buckets: list[_Bucket], cuts: Cuts, first_id: int, pool: ThreadPoolExecutor) -> UpperTree:
        parts: list[Bundles] = []
        first_pages: list[int] = []
        next_id, done = first_id, 0
        has_ids = self.cutter.layout.n_columns == self.cutter.n_columns

        def cut(number: int) -> Bundles:
            return self.cutter.cut(buckets[number].rows(), number, buckets[number].entry)

        sizes = [bucket.n_rows for bucket in buckets]
        for part in in_order(pool, cut, sizes, 2 * self.threads, self._rows_at_once):
            if not has_ids:
                set_first_ids(part, next_id + np.cumsum(part.n_rows) - part.n_rows, self.cutter.n_columns)
            n_rows, n_pages = int(part.n_rows.sum()), len(part.pages)
            first = self.store.allocate(n_pages)
            page_ids = np.arange(first, first + n_pages, dtype=np.uint64)
            self.store.write_run(page_ids, part.pages, BUNDLE_KIND, part.lengths)
            self.report.page_bytes += part.pages.nbytes
            parts.append(part.without_pages())
            first_pages.append(first)
            next_id, done = next_id + n_rows, done + n_rows
            self._on_progress("cutting", done, self.report.n_rows)
        return UpperTree.over(parts, first_pages, cuts)


def _deferred(function: Callable[[Words], NDArray[np.int64]], words: Words) -> Callable[[], NDArray[np.int64]]:
    return lambda: function(words)


def in_order(
    pool: ThreadPoolExecutor, function: Callable[[int], _Result], sizes: Sequence[int], n_ahead: int, most: int
) -> Iterator[_Result]:
    """function(0), function(1), …, computed by the pool: at most n_ahead at a time, of at most `most` size together."""
    running: deque[tuple[Future[_Result], int]] = deque()
    total = 0
    try:
        for number, size in enumerate(sizes):
            while running and (len(running) >= n_ahead or total + size > most):
                future, done = running.popleft()
                total -= done
                yield future.result()
            running.append((pool.submit(function, number), size))
            total += size
        while running:
            yield running.popleft()[0].result()
    finally:
        for future, _ in running:
            future.cancel()
