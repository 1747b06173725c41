"""Releases put together by hand, so that tests know every group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rtree_anon.release import IntervalColumn, LabelColumn, Release, Rows, SetColumn
from rtree_anon.release.columns import GroupColumn

STATES = {"none": 0, "some": 1, "all": 2}


def states(*names: str) -> Any:
    return np.array([STATES[name] for name in names], np.uint8)


def interval(
    name: str, ends: Sequence[tuple[Any, Any]], domain: float = 1.0, missing: Any = None, **kind: Any
) -> IntervalColumn:
    """Intervals of whole numbers; of another type without a share of the domain, and with values without number."""
    lo, hi = (pa.array([pair[end] for pair in ends], **kind) for end in (0, 1))
    numbers = all(isinstance(end, int | float) for pair in ends for end in pair)
    widths = np.array([float(pair[1]) - float(pair[0]) for pair in ends]) if numbers else np.zeros(len(ends))
    steps = widths + 1 if numbers else np.full(len(ends), np.inf)
    return IntervalColumn(name, missing, lo, hi, lambda: (widths / domain, steps))


def category_sets(name: str, domain: Sequence[Any], sets: Sequence[Sequence[int]], missing: Any = None) -> SetColumn:
    offsets = np.concatenate(([0], np.cumsum([len(members) for members in sets]))).astype(np.int64)
    members = np.array([member for some in sets for member in some], np.int32)
    return SetColumn(name, missing, pa.array(domain), np.arange(len(sets), dtype=np.int32), offsets, members)


def labels(
    name: str, leaves: Sequence[str], nodes: Sequence[tuple[str, int, int]], index: Sequence[int], missing: Any = None
) -> LabelColumn:
    return LabelColumn(
        name,
        missing,
        pa.array([node[0] for node in nodes], pa.string()),
        np.array(index, np.int32),
        pa.array(leaves, pa.string()),
        np.array([node[1] for node in nodes]),
        np.array([node[2] for node in nodes]),
    )


def release_of(columns: Sequence[GroupColumn], sizes: Sequence[int], k: int = 2, **options: Any) -> Release:
    numbers = np.arange(sum(sizes), dtype=np.int64)
    rows = options.pop("rows", Rows(pa.table({}), numbers))
    return Release(tuple(columns), np.array(sizes, np.int64), rows, k=k, **options)
