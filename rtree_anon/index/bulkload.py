"""Bulk loading: from coded batches of any number of rows to a tree on pages, inside a memory budget.

    1. scatter   rows to buckets by the cuts of a sample, spilled where they do not fit         (scatter.py, seed.py)
    2. settle    cuts that leave too few rows on a side are dropped (thinning.py); buckets that are too large are
                 scattered again by a sample of their own rows; buckets that break the privacy model are joined to
                 their neighbours (upholding.py)
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
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.bucket import Bundles, Cutter, set_first_ids
from rtree_anon.index.cuts import Cuts, joined
from rtree_anon.index.distributions import Counts, Distribution, TableCounter
from rtree_anon.index.scatter import Scatter, ScatteredRows, SpillFile, Words
from rtree_anon.index.seed import SAMPLE_PER_BUCKET, Seed, seed_from
from rtree_anon.index.thinning import thinned
from rtree_anon.index.upholding import upheld
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
_COUNTS_SHARE: Final = 0.05  # for what groups are compared with
_FIRST_LOOK_ROWS: Final = 1024  # of a bucket: most often they satisfy the model already
_MODEL_SAMPLE: Final = 16  # times as many rows of a sample where cuts have to know of the model
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
    """A bucket that is ready to be cut: its rows, and the box before it."""

    rows: ScatteredRows
    n_rows: int
    entry: Boxes | None


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
        refuse_as: str | None = None,
    ) -> None:
        """`on_progress` is called with the phase ("reading", "cutting"), the rows done, and all rows where known.

        Where not even all rows together satisfy the model, that is an error which names them `refuse_as`; without a
        name they become a single leaf.
        """
        self.store, self.cutter, self.threads = store, cutter, threads
        self.report = LoadReport()
        self._memory_bytes, self._on_progress, self._refuse_as = memory_bytes, on_progress, refuse_as
        self._counter: TableCounter | None = None
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

    def sample_rows_for(self, n_rows: int, more: int = 1) -> int:
        """How many rows of a sample that takes; a sample takes an eighth of the memory at most."""
        affordable = self._memory_bytes // 8 // (12 * len(self.cutter.space) + 16)
        return min(self.n_buckets_for(n_rows) * SAMPLE_PER_BUCKET * more, affordable, n_rows)

    def run(self, sample: NDArray[Any], batches: Iterable[CodedBatch], n_expected: int, first_id: int) -> UpperTree:
        """Load batches; `sample` has coded rows of them. Rows get ids from first_id on, unless they have their own."""
        try:
            with ThreadPoolExecutor(self.threads) as pool:
                begin = perf_counter()
                seed = self._first_seed(sample, n_expected)
                self.report.seconds["sampling"] = perf_counter() - begin
                begin = perf_counter()
                scatter = self._scatter(seed, self._counted(batches), n_expected, pool, "reading", keeps_last=True)
                self.report.n_rows = int(scatter.counts.sum())
                self._compare()
                buckets, cuts = self._upheld(*self._settled(scatter, seed, pool), pool)
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

    def _first_seed(self, sample: NDArray[Any], n_rows: int) -> Seed:
        cutter = self.cutter
        n_buckets = self.n_buckets_for(n_rows)
        return seed_from(sample, cutter.space, n_buckets, cutter.quality, self.threads, cutter.seed)

    def _seed(self, codes: NDArray[np.int64], n_rows: int, *, with_model: bool) -> Seed:
        """Cuts by a sample codes[column, row] of rows that were packed before."""
        cutter, d = self.cutter, len(self.cutter.space)
        constraint = None
        if with_model and cutter.model is not None and codes.shape[1]:
            # Numbers of rows and people say nothing in a sample; shares do.
            of_sample = cutter.model.demanding(cutter.model.model.with_k_at_most(1))
            constraint = of_sample.constraint(codes.shape[1], lambda place: codes[d + place])
        rows = np.ascontiguousarray(codes[:d].T)
        n_buckets = self.n_buckets_for(n_rows)
        return seed_from(rows, cutter.space, n_buckets, cutter.quality, self.threads, cutter.seed, constraint)

    def _scatter(
        self,
        seed: Seed,
        batches: Iterable[CodedBatch],
        n_expected: int,
        pool: ThreadPoolExecutor,
        phase: str,
        *,
        keeps_last: bool,
    ) -> Scatter:
        done = 0

        def on_rows(n: int) -> None:
            nonlocal done
            done += n
            self._on_progress(phase, done, n_expected)

        chunk_rows = self._chunk_rows(n_expected)
        scatter = Scatter(seed.cuts, self.cutter.layout, self._spill, chunk_rows, keeps_last=keeps_last)
        scatter.fill(batches, pool, self.threads, on_rows)
        return scatter

    def _counted(self, batches: Iterable[CodedBatch]) -> Iterable[CodedBatch]:
        """The same batches; what groups are compared with is counted as they pass by."""
        if self.cutter.model is None or not self.cutter.model.compared:
            return batches
        limit = int(self._memory_bytes * _COUNTS_SHARE)
        self._counter = TableCounter(self.cutter.model.compared, len(self.cutter.space), limit)
        return self._counter.counted(batches)

    def _compare(self) -> None:
        """All rows have been seen: the model can be consulted from here on."""
        model = self.cutter.model
        if model is not None and self._counter is not None:
            table = {name: self._counter.distribution(name) for name in model.compared}
            self.cutter = replace(self.cutter, model=model.compared_with(table))

    def _settled(self, scatter: Scatter, seed: Seed, pool: ThreadPoolExecutor) -> tuple[list[_Bucket], Cuts]:
        """Buckets that are small enough to be cut and have k rows, and the cuts between them."""
        sums = np.concatenate(([0], np.cumsum(scatter.counts)))
        fewest = self.cutter.k
        kept = thinned(scatter.cuts, scatter.counts, lambda begin, end: bool(sums[end] - sums[begin] >= fewest))
        extra = self._rerouted(scatter, kept.dissolved, kept.cuts)
        buckets: list[_Bucket] = []
        inner: list[Cuts] = []
        for number, members in enumerate(kept.members):
            rows = ScatteredRows(tuple((scatter, member) for member in members), tuple(extra.get(number, ())))
            bucket = _Bucket(rows, rows.n_rows, seed.box_before(members[0]))
            parts, cuts = self._divided(bucket, pool)
            buckets += parts
            inner.append(cuts)
        return buckets, joined(inner, kept.cuts)

    def _divided(self, bucket: _Bucket, pool: ThreadPoolExecutor) -> tuple[list[_Bucket], Cuts]:
        """A bucket, or several where it is too large to be cut at once."""
        if bucket.n_rows <= self._most_rows:
            return [bucket], Cuts.none()
        return self._resplit(bucket, pool)

    def _upheld(
        self, buckets: list[_Bucket], cuts: Cuts, pool: ThreadPoolExecutor, *, is_again: bool = False
    ) -> tuple[list[_Bucket], Cuts]:
        """Buckets that satisfy the privacy model, and the cuts between them."""
        if self.cutter.model is None:
            return buckets, cuts
        sizes = [bucket.n_rows for bucket in buckets]
        judged = in_order(pool, lambda i: self._satisfies(buckets[i]), sizes, 2 * self.threads, self._rows_at_once)
        valid = list(judged)
        if not all(valid) and not is_again:
            self._require_possible(buckets, with_people=False)  # one look at all rows, before many at some of them
        found = upheld(cuts, valid, lambda whole: self._satisfies(_together([buckets[i] for i in whole])))
        if not found.is_valid:
            self._require_possible(buckets, with_people=True)
        made: list[_Bucket] = []
        inner: list[Cuts] = []
        for members in found.members:
            bucket = _together([buckets[i] for i in members])
            parts, between = [bucket], Cuts.none()
            is_new = len(members) > 1 and not (is_again and len(members) == len(buckets))
            if bucket.n_rows > self._most_rows and is_new and found.is_valid:
                # Cuts that know of the model: those that did not have just failed.
                parts, between = self._upheld(*self._resplit(bucket, pool, with_model=True), pool, is_again=True)
            made += parts
            inner.append(between)
        return made, joined(inner, found.cuts)

    def _satisfies(self, bucket: _Bucket) -> bool:
        model, step = self.cutter.model, _FIRST_LOOK_ROWS
        assert model is not None
        pieces = (part for words in bucket.rows.pieces() for part in (words[:step], words[step:]) if len(part))
        return model.hold_together(map(self.cutter.counts, pieces))

    def _require_possible(self, buckets: list[_Bucket], *, with_people: bool) -> None:
        """Refuse rows that do not satisfy the model all together."""
        model = self.cutter.model
        if model is None or self._refuse_as is None:
            return
        columns = {name: column for name, column in model.columns.items() if with_people or name != model.people}
        total = Counts(0, {name: Distribution.none() for name in columns})
        for words in _together(buckets).rows.pieces():
            total += Counts.of(len(words), columns, self.cutter.carried(words))
        model.require_possible(total, self._refuse_as)

    def _rerouted(self, scatter: Scatter, dissolved: list[int], cuts: Cuts) -> dict[int, list[Words]]:
        """Rows of dissolved buckets by their new bucket."""
        if not dissolved:
            return {}
        words = np.concatenate([scatter.rows_of(bucket) for bucket in dissolved])
        codes = self._unpacked(words)
        bucket = np.empty(len(words), np.uint32)
        route_batch(codes, _MISSING, cuts.route_table, bucket, np.zeros(len(cuts) + 1, np.int64))
        return {number: [words[bucket == number]] for number in np.unique(bucket).tolist()}

    def _resplit(
        self, bucket: _Bucket, pool: ThreadPoolExecutor, *, with_model: bool = False
    ) -> tuple[list[_Bucket], Cuts]:
        """A bucket that is too large to be cut at once, scattered by a sample of its own rows."""
        self.report.n_resplit += 1
        generator = np.random.default_rng(self.cutter.seed)
        n_sample = self.sample_rows_for(bucket.n_rows, more=_MODEL_SAMPLE if with_model else 1)
        sample = [
            self._unpacked(words[generator.random(len(words)) < n_sample / bucket.n_rows])
            for words in bucket.rows.pieces()
        ]
        codes = np.concatenate(sample, axis=1)
        seed = self._seed(codes, bucket.n_rows, with_model=with_model)
        if not len(seed.cuts):  # nothing to cut by: equal rows, nearly all of them
            return [bucket], Cuts.none()
        batches = (CodedBatch(len(words), _deferred(self._unpacked, words), "rows") for words in bucket.rows.pieces())
        scatter = self._scatter(seed, batches, bucket.n_rows, pool, "splitting", keeps_last=False)
        if int(scatter.counts.max()) == bucket.n_rows:
            return [bucket], Cuts.none()
        return self._settled(scatter, seed, pool)

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
            return self.cutter.cut(buckets[number].rows.words(), number, buckets[number].entry)

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


def _together(buckets: Sequence[_Bucket]) -> _Bucket:
    """Neighbours as one bucket."""
    rows = ScatteredRows(
        tuple(part for bucket in buckets for part in bucket.rows.parts),
        tuple(words for bucket in buckets for words in bucket.rows.extra),
    )
    return _Bucket(rows, sum(bucket.n_rows for bucket in buckets), buckets[0].entry)


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
