"""The directory of rows that have ids of their own, in any order: gathered from all bundles, in bounded memory.

Ids are counted in equal parts of their range first; then as many parts at a time as fit are collected and sorted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rtree_anon.index.directory import Ranges
from rtree_anon.index.reading import BundleReader

_PARTS = 4096
_ROWS_AT_ONCE = 1 << 22


def ranges_of_rows(reader: BundleReader) -> Iterator[Ranges]:
    """Ascending ranges of ids with the names of their bundles."""
    tree = reader.tree
    if not len(tree):
        return
    least, most = np.iinfo(np.int64).max, -1
    for bundle in reader.bundles(0, len(tree)):
        ids = bundle.ids
        least, most = min(least, int(ids.min())), max(most, int(ids.max()))
    width = max(-(-(most - least + 1) // _PARTS), 1)
    counts = np.zeros(_PARTS, np.int64)
    if int(tree.n_rows.sum()) <= _ROWS_AT_ONCE:
        counts[0] = int(tree.n_rows.sum())
        width = most - least + 1
    else:
        for bundle in reader.bundles(0, len(tree)):
            counts += np.bincount((bundle.ids - least) // width, minlength=_PARTS)
    part = 0
    while part < _PARTS:
        end = part + max(int(np.searchsorted(np.cumsum(counts[part:]), _ROWS_AT_ONCE, "right")), 1)
        if counts[part:end].any():
            yield _gathered(reader, least + part * width, least + end * width)
        part = end


def _gathered(reader: BundleReader, low: int, high: int) -> Ranges:
    found, names = [], []
    for number, bundle in enumerate(reader.bundles(0, len(reader.tree))):
        ids = bundle.ids
        ids = ids[(ids >= low) & (ids < high)]
        found.append(ids)
        names.append(np.full(len(ids), reader.tree.name[number]))
    ids, bundle_names = np.concatenate(found), np.concatenate(names)
    order = np.argsort(ids, kind="stable")
    return Ranges.of(ids[order], bundle_names[order])
