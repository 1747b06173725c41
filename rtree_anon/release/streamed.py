"""A release straight from an index: one pass over its segments for every use, in bounded memory.

    segments ─► read, group, box, decode, verify, sort, encode (threads) ─► record batches or row groups in order

Each segment is released by the same code as a table in memory, so everything that holds there holds here: groups are
whole leaves of at least k rows, verified before anybody sees them, their rows sorted. What is summed on the way
(`Sums`) gives the figures of quality as soon as one pass is complete. Several releases can share one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.io.run_batches import RunBatch
from rtree_anon.models import KAnonymity, Model
from rtree_anon.release.from_tree import too_few_rows
from rtree_anon.release.in_threads import in_order
from rtree_anon.release.pseudonyms import Pseudonyms
from rtree_anon.release.quality import Sums
from rtree_anon.release.release import Release, require_distinct_names
from rtree_anon.release.released import GROUP, ReleasedTable, check_form
from rtree_anon.release.segments import Segment, SegmentGiver, UnreadSegment
from rtree_anon.schema import Schema

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


class StreamedRelease(ReleasedTable):
    """One anonymized table at one k, made from the segments of an index whenever it is used.

    It has the methods of `Release`. Figures that need the whole table (`n_groups`, `quality()`, …) cost a pass over the
    index, unless one was completed before, by `write` for instance.
    """

    def __init__(
        self,
        segments: SegmentGiver,
        schema: Schema,
        *,
        k: int,
        base_k: int,
        method: str = "optimal",
        compact: bool = True,
        model: Model | None = None,
        base_model: Model | None = None,
        algorithm: str = "R+-tree",
        source: str = "",
        version: int | None = None,
        threads: int | None = None,
        rows_at_once: int | None = None,
    ) -> None:
        """`segments` begins a new pass at every call, over one and the same version of the index.

        Releases that are given the same `segments` object share a pass where they are used together. `model` is what
        every group satisfies and `base_model` what every leaf does, where that is more than k rows. A thread works on
        about `rows_at_once` rows at most, but always on a whole segment.
        """
        if k < base_k:
            raise UsageError(f"k={k} is below the index's own k={base_k}; build it with a smaller k.")
        require_distinct_names(schema.quasi_names, (*schema.sensitive, *schema.keep, schema.identity, schema.key))
        self.segments, self.schema, self.threads, self.rows_at_once = segments, schema, threads, rows_at_once
        self.k, self.base_k, self.version = k, base_k, version
        self._model, self.demands = model, () if model is None else model.demands()
        self.model, self.safe_together_at = str(model or KAnonymity(k)), str(base_model or KAnonymity(base_k))
        self.method, self.compact, self.algorithm, self.source = method, compact, algorithm, source
        self._sums: Sums | None = None

    def __repr__(self) -> str:
        if self._sums is None:  # no pass over an index for that
            return f"<Release k={self.k} of {self.source or 'an index'}: {', '.join(self.quasi)}>"
        return super().__repr__()

    @property
    def n_rows(self) -> int:
        return self.sums.n_rows

    @property
    def n_groups(self) -> int:
        return self.sums.n_groups

    @property
    def smallest_group(self) -> int:
        return self.sums.smallest_group or 0

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """The number of rows of every group. One pass over the index, and eight bytes for every group."""
        return np.concatenate(list(self.over_segments(lambda segment: self.of_segment(segment).group_sizes)))

    @property
    def quasi(self) -> tuple[str, ...]:
        return self.schema.quasi_names

    @property
    def sums(self) -> Sums:
        """What the figures of quality are made of."""
        if self._sums is None:
            self._sums = sum(self.over_segments(lambda segment: self.of_segment(segment).sums), Sums())
        return self._sums

    def quality(self) -> dict[str, float]:
        """Certainty (0: exact, 1: nothing is said), discernibility, average class size and KL divergence.

        As for a release in memory, except that the divergence counts the values of continuous floats by segment.
        """
        weights = [self.schema.weight(name) for name in self.quasi]
        return self.sums.measures(weights, self.k)

    def count(self, *, estimate: str = "intersect", **conditions: Any) -> float:
        """COUNT(*) of a query, answered from the release alone; see `Release.count`."""

        def of_part(segment: Segment) -> float:
            return self.of_segment(segment).count(estimate=estimate, **conditions)

        return sum(self.over_segments(of_part))

    def batches(
        self,
        style: str = "interval",
        layout: str = "rows",
        *,
        group_id: bool = False,
        key: bool = False,
        identity: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The released table in record batches, in one pass over the index."""
        extra = {"group_id": group_id, "key": key, "identity": identity}
        return (batch for _, batch in batches_together([self], style, layout, **extra))

    def runs(
        self, style: str = "interval", *, group_id: bool = False, key: bool = False, identity: bool = False
    ) -> Iterator[RunBatch]:
        """The rows group by group, in one pass over the index."""
        extra = {"group_id": group_id, "key": key, "identity": identity}
        return (batch for _, batch in runs_together([self], style, **extra))

    def of_segment(self, segment: Segment) -> Release:
        """The part of the release that one segment gives."""
        return segment.release(self.k, self.method, self.compact, self._model)

    def over_segments(self, work: Callable[[Segment], _Result]) -> Iterator[_Result]:
        """work(segment) for every segment, in one pass; there must be one."""
        return (result for (result,) in self.over_portions(lambda portion: [work(one.read()) for one in portion], 1))

    def over_portions(self, work: Callable[[Sequence[UnreadSegment]], _Result], least_rows: int) -> Iterator[_Result]:
        """work(portion) for all segments, as many at a time as have `least_rows` rows, but for the last ones."""
        empty = True
        least_rows = min(least_rows, self.rows_at_once or least_rows)
        for result in in_order(_portions(self.segments(), least_rows), work, self.threads):
            empty = False
            yield result
        if empty:
            raise too_few_rows(self.source, 0, self.k)

    def completed(self, sums: Sums) -> None:
        """Remember what a complete pass has summed."""
        self._sums = sums


def batches_together(
    releases: Sequence[StreamedRelease], style: str = "interval", layout: str = "rows", **extra: bool
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The record batches of several releases of one index, in one pass: (number of the release, batch).

    Rows are read, decoded and looked at by the verification once, and boxes of leaves made once. Batches of one release
    come in the order of its rows.
    """
    check_form(style, layout)
    for number, n_before, batch in _together(
        releases, lambda part: list(part.batches(style, layout, **extra)), _as_they_are, 1
    ):
        yield number, _renumbered(batch, n_before) if extra.get("group_id") else batch


def runs_together(
    releases: Sequence[StreamedRelease], style: str = "interval", **extra: bool
) -> Iterator[tuple[int, RunBatch]]:
    """The rows of several releases of one index, group by group, in one pass: (number of the release, batch)."""
    check_form(style, "rows")
    for number, n_before, batch in _together(releases, lambda part: list(part.runs(style, **extra)), _as_they_are, 1):
        if extra.get("group_id"):
            numbers = {GROUP: _raised(batch.repeated[GROUP], n_before)}
            batch = RunBatch(batch.lengths, {**batch.repeated, **numbers}, batch.single)
        yield number, batch


def encoded_together(
    releases: Sequence[StreamedRelease],
    encode: Callable[[int, list[RunBatch]], _Result],
    least_rows: int,
    style: str = "interval",
    **extra: bool,
) -> Iterator[tuple[int, _Result]]:
    """encode(number of the release, runs) for `least_rows` rows at a time, by the thread that has made these runs.

    So a thread does all of the work on some rows, and none waits for the others. Groups cannot be numbered here: how
    many come before is not known yet.
    """
    check_form(style, "rows")
    assert not extra.get("group_id")

    for number, _, result in _together(
        releases,
        lambda part: list(part.runs(style, **extra)),
        lambda number, batches: [encode(number, batches)],
        least_rows,
    ):
        yield number, result


def _as_they_are(number: int, batches: list[_Batch]) -> list[_Batch]:
    return batches


def _together(
    releases: Sequence[StreamedRelease],
    batches_of: Callable[[Release], list[_Batch]],
    finished: Callable[[int, list[_Batch]], list[_Result]],
    least_rows: int,
) -> Iterator[tuple[int, int, _Result]]:
    """(number of the release, groups before, result) for all that is made of every portion, in one pass.

    A portion is segments with `least_rows` rows; `finished` is given all of its batches.
    """
    if any(release.segments is not releases[0].segments for release in releases):
        raise UsageError("Releases can share a pass only where they come from the same index and version.")
    pseudonyms = [Pseudonyms() for _ in releases]

    def made_of(portion: Sequence[UnreadSegment]) -> list[tuple[list[_Result], list[Sums]]]:
        batches: list[list[_Batch]] = [[] for _ in releases]
        sums: list[list[Sums]] = [[] for _ in releases]
        for unread in portion:
            segment = replace(unread.read(), shared=len(releases) > 1)
            for number, release in enumerate(releases):
                part = release.of_segment(segment)
                part.number_people(pseudonyms[number])
                batches[number] += batches_of(part)
                sums[number].append(part.sums)
        return [(finished(number, each), sums[number]) for number, each in enumerate(batches)]

    totals = [Sums() for _ in releases]
    for made in releases[0].over_portions(made_of, least_rows):
        for number, (results, sums_of_portion) in enumerate(made):
            for result in results:
                yield number, totals[number].n_groups, result
            totals[number] = sum(sums_of_portion, totals[number])
    for release, total in zip(releases, totals, strict=True):
        release.completed(total)


def _portions(segments: Iterator[UnreadSegment], least_rows: int) -> Iterator[list[UnreadSegment]]:
    """Segments one after the other, as many together as have `least_rows` rows; what is left over comes last."""
    portion: list[UnreadSegment] = []
    try:
        for segment in segments:
            portion.append(segment)
            if sum(each.n_rows for each in portion) >= least_rows:
                yield portion
                portion = []
        if portion:
            yield portion
    finally:
        if isinstance(segments, Generator):
            segments.close()


def _renumbered(batch: pa.RecordBatch, n_before: int) -> pa.RecordBatch:
    """The groups of a segment are numbered from 0; those of the release go on where the segment before ended."""
    place = batch.schema.get_field_index(GROUP)
    return batch.set_column(place, GROUP, _raised(batch.column(place), n_before))


def _raised(numbers: pa.Array, by: int) -> pa.Array:
    return pc.add(numbers, pa.scalar(by, numbers.type))
