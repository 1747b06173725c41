"""Segments of an index: whole subtrees of about as many rows, in leaf order, as releases take them.

Seams are where the tree has its cuts, and depend on the tree alone: every k up to 1024 gets the same ones, so a release
is the same whether it is made alone or in one pass with others. Larger k have larger segments. A part that is too small
to stand alone goes with its neighbour; so does one that breaks the privacy model of a release (judging.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.cuts import Cuts, checked
from rtree_anon.index.reading import LeafRows
from rtree_anon.index.regions import divided, joined_regions, whole_domain, with_own_ends
from rtree_anon.index.view import View
from rtree_anon.io.stored_rows import stored_table
from rtree_anon.models import Model
from rtree_anon.release.bounds import Regions
from rtree_anon.release.guarantee import Guarantee
from rtree_anon.release.segments import Segment, UnreadSegment

_SEGMENT_ROWS = 65_536
_ROWS_PER_K = 64
_LEAST_SHARE = 4  # a segment has at least this part of the rows that are aimed at


def segment_rows_for(k: int) -> int:
    """How many rows a segment is to have for a release at k."""
    rows = _SEGMENT_ROWS
    while rows < _ROWS_PER_K * k:
        rows *= 2
    return rows


def ends_for(view: View, k: int, model: Model | None) -> list[int]:
    """Where the segments of a release end."""
    least = max([k, *(int(demand.bound) for demand in _row_demands(model))])
    ends = segment_ends(view.tree.cuts, view.tree.n_rows, segment_rows_for(least))
    return ends if model is None else view.judging.ends_under(model, ends, view.path)


def _row_demands(model: Model | None) -> list[Any]:
    return [] if model is None else [demand for demand in model.demands() if demand.quantity in ("rows", "people")]


def segment_ends(cuts: Cuts, n_rows: NDArray[np.int64], aim: int) -> list[int]:
    """Where segments of about `aim` rows end: each number is the first bundle behind a segment."""
    if not len(n_rows):
        return []
    sums = np.concatenate(([0], np.cumsum(n_rows)))
    first, second, root = cuts.links
    ends = []
    todo = [(root, 0, len(n_rows))]
    while todo:
        node, begin, end = todo.pop()
        if node < 0 or sums[end] - sums[begin] <= aim:
            ends.append(end)
        else:
            todo += [(int(second[node]), node + 1, end), (int(first[node]), begin, node + 1)]
    return _large_enough(ends, sums, aim // _LEAST_SHARE)


def _large_enough(ends: Sequence[int], sums: NDArray[np.int64], least: int) -> list[int]:
    """The ends that leave enough rows on both sides; what is left over at the end goes with the last segment."""
    kept: list[int] = []
    before = 0
    for end in ends:
        if sums[end] - sums[before] >= least:
            kept.append(end)
            before = end
    if not kept or before != ends[-1]:
        kept[-1:] = [ends[-1]]
    return kept


class IndexSegments:
    """The segments of one version; every call begins a pass over them (`release.segments.SegmentGiver`)."""

    def __init__(
        self, view: View, ends: Sequence[int], *, with_regions: bool = False, with_depths: bool = False
    ) -> None:
        """`with_regions` for uncompacted releases, `with_depths` for the hierarchical algorithm."""
        self.view, self._with_regions, self._with_depths = view, with_regions, with_depths
        self.ends = list(ends)

    def __call__(self) -> Iterator[UnreadSegment]:
        n_rows = self.view.tree.n_rows
        for begin, end in zip([0, *self.ends], self.ends, strict=False):
            yield UnreadSegment(int(n_rows[begin:end].sum()), partial(self.segment, begin, end))

    def segment(self, begin: int, end: int) -> Segment:
        """Bundles begin .. end-1 as a segment."""
        view = self.view
        rows = view.reader.rows(begin, end, view.coder.dtype)
        table = stored_table(
            rows.codes,
            rows.carried,
            rows.ids if view.carried.key is not None else None,
            space=view.space,
            coder=view.coder,
            columns=view.carried,
            schema=view.catalog.schema,
            name=view.path,
        )
        regions = self._regions(begin, rows) if self._with_regions else None
        depths = view.reader.cuts(begin, rows.bundles).depth if self._with_depths else None
        return Segment(table, rows.starts, view.catalog.k, regions, depths, partial(self._guarantee, rows.carried))

    def _guarantee(self, carried: NDArray[np.int64], model: Model) -> Guarantee:
        """What a model asks of these rows."""
        stored = self.view.judging.stored(model)
        constraint = stored.constraint(len(carried), lambda place: carried[:, place])
        return Guarantee(model, self.view.catalog.leaf_model, constraint, stored.table_values())

    @cached_property
    def _bundle_regions(self) -> Regions:
        view = self.view
        return divided(whole_domain(view.space, view.coder.dtype), view.tree.cuts)

    def _regions(self, begin: int, rows: LeafRows) -> Regions:
        of_bundles, space = self._bundle_regions, self.view.space
        parts = []
        for number, bundle in enumerate(rows.bundles, begin):
            here = slice(number, number + 1)
            whole = Regions(of_bundles.lo[here], of_bundles.hi[here], of_bundles.mask[here])
            parts.append(divided(whole, checked(bundle.cuts, space)))
        return with_own_ends(joined_regions(parts), space, self.view.coder.coders)
