"""What a published table must drop and add to become the release of now, when it was the release of an earlier version.

Releases are made segment by segment, and a segment whose bundles have not been renewed gives the same groups as before:
only the others are compared (release/changes.py). Groups that hold the same rows in both versions cancel out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.segments import IndexSegments, ends_for
from rtree_anon.index.view import View
from rtree_anon.release.changes import PAIR, Changes, GroupRows, Hashes, compared, joined_groups, shown_values
from rtree_anon.release.release import Release
from rtree_anon.release.segments import Segment

_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def changes_between(before: View, now: View, *, k: int, method: str, compact: bool, allow_small: bool) -> Changes:
    """Compare two versions of one index."""
    # The model is that of the index, which is the same for all of its versions.
    model = None if now.catalog.is_plain else now.catalog.release_model(k)
    parts = [
        IndexSegments(view, ends_for(view, k, model), with_regions=not compact, with_depths=method == "hierarchical")
        for view in (before, now)
    ]
    same = before.space_key == now.space_key
    pages = [_segment_pages(part) for part in parts]
    # A region can change though nothing in it does: when a cut beside it is dropped.
    unchanged = set(pages[0]) & set(pages[1]) if same and compact else set()
    old, new = (
        _groups(
            part,
            [(a, b) for (a, b), own in zip(_spans(part), names, strict=True) if own not in unchanged],
            lambda segment: segment.release(k, method, compact, model),
        )
        for part, names in zip(parts, pages, strict=True)
    )
    about = {"since": before.version, "version": now.version, "k": k}
    return compared(old, new, **about, allow_small=allow_small, same_form=same)


def _spans(segments: IndexSegments) -> list[tuple[int, int]]:
    return list(zip([0, *segments.ends], segments.ends, strict=False))


def _segment_pages(segments: IndexSegments) -> list[bytes]:
    """What names the content of every segment: pages are never written twice while a version has them."""
    page = segments.view.tree.page
    return [page[begin:end].tobytes() for begin, end in _spans(segments)]


def _groups(segments: IndexSegments, spans: list[tuple[int, int]], released: Callable[[Segment], Release]) -> GroupRows:
    made = list(_made(segments, spans, released))
    if made:
        return joined_groups(made)
    begin, end = _spans(segments)[0]
    empty = released(segments.segment(begin, end)).to_arrow().slice(0, 0)
    return GroupRows(empty, np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, PAIR))


def _made(
    segments: IndexSegments, spans: list[tuple[int, int]], released: Callable[[Segment], Release]
) -> Iterator[GroupRows]:
    reader = segments.view.reader
    for begin, end in spans:
        release = released(segments.segment(begin, end))
        rows = reader.rows(begin, end, np.int64)
        names = _hashed(np.column_stack((rows.codes, rows.carried, rows.ids)), _MIX[0])[release.row_numbers]
        others = _hashed(np.column_stack((rows.ids, rows.codes, rows.carried)), _MIX[1])[release.row_numbers]
        sizes = release.group_sizes
        starts = np.cumsum(sizes) - sizes
        groups = np.empty(len(sizes), PAIR)
        groups["a"], groups["b"] = np.add.reduceat(names, starts), np.add.reduceat(others, starts)
        table = release.to_arrow()
        if not release.compact:
            groups["b"] += shown_values(table, starts, segments.view.catalog.schema.payload_names)
        yield GroupRows(table, sizes, names, groups)


def _hashed(rows: NDArray[np.int64], mix: int) -> Hashes:
    """A number for every row that no other row has, but for a chance of one in 2**64."""
    found = np.full(len(rows), mix, np.uint64)
    for column in rows.T.view(np.uint64) if rows.flags.f_contiguous else np.ascontiguousarray(rows.T).view(np.uint64):
        found = (found ^ column) * np.uint64(mix)
        found ^= found >> np.uint64(29)
    return found
