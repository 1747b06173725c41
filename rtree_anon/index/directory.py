"""The directory: which bundle a row is in, by its id, without looking at the rows (DESIGN, section 5).

Sorted ranges of ids that are in one bundle, on pages of their own; which page begins with which id is in memory:

    top:   first id, page          one entry for each directory page
    page:  entries (u64), then first id (i64), number of ids (u32), name of the bundle (u32) of every range

After a bulk load ids are consecutive in leaf order, so a bundle is one range and the directory of ten million rows is a
page or two. A row that is inserted, or that moves to another bundle, is a range of its own unless its neighbours went
with it. A batch reads and writes only the pages that its ids are on.

Invariant: ranges are disjoint and ascending, within a page and from page to page; an id that is in none has no row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.storage.page import empty_run, payloads
from rtree_anon.storage.protocol import PageReader, PageStore

DIRECTORY_KIND = 18  # of pages
_ENTRY_BYTES = 16
_HEADER_BYTES = 8
_CACHED_PAGES = 256
_FILL = 0.75  # of a page that is written anew: room for ranges that will be divided
_NOWHERE = -1

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ids first[i] .. end[i]-1 are in the bundle name[i]."""

    first: Ids
    end: Ids
    name: Ids

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, which: slice | NDArray[np.bool_]) -> Ranges:
        return Ranges(self.first[which], self.end[which], self.name[which])

    @classmethod
    def of(cls, ids: Ids, names: Ids) -> Ranges:
        """Ranges for ascending ids: neighbours in one bundle are one range."""
        if not len(ids):
            return cls(ids, ids, names)
        breaks = np.flatnonzero((np.diff(ids) != 1) | (np.diff(names) != 0)) + 1
        begin, end = np.concatenate(([0], breaks)), np.concatenate((breaks, [len(ids)]))
        return cls(ids[begin], ids[end - 1] + 1, names[begin])

    def find(self, ids: Ids) -> Ids:
        """The name of each id's bundle, -1 for ids that have none."""
        if not len(self):
            return np.full(len(ids), _NOWHERE)
        at = np.maximum(np.searchsorted(self.first, ids, "right") - 1, 0)
        found = (self.first[at] <= ids) & (ids < self.end[at])
        return np.where(found, self.name[at], _NOWHERE)

    def overlaid(self, changes: Ranges) -> Ranges:
        """These ranges, changed where `changes` (name -1: no row any more) says something else."""
        points = np.unique(np.concatenate((self.first, self.end, changes.first, changes.end)))
        changed = _covering(changes, points)
        name = np.where(changed >= 0, changes.name[changed], self.find(points))
        following = np.concatenate((points[1:], points[-1:]))
        keep = name != _NOWHERE
        return Ranges(points[keep], following[keep], name[keep]).joined()

    def joined(self) -> Ranges:
        """Neighbours in one bundle as one range."""
        if not len(self):
            return self
        begins = np.concatenate(([True], (self.first[1:] != self.end[:-1]) | (self.name[1:] != self.name[:-1])))
        ends = np.concatenate((begins[1:], [True]))
        return Ranges(self.first[begins], self.end[ends], self.name[begins])


class Directory:
    """The directory of one version; `change` writes to the store's open transaction."""

    def __init__(self, reader: PageReader | PageStore, first: Ids, page: Ids) -> None:
        """The top: the first id and the page of every directory page, ascending."""
        self._reader, self._first, self._page = reader, first, page
        self._cache: OrderedDict[int, Ranges] = OrderedDict()

    @classmethod
    def from_bytes(cls, reader: PageReader | PageStore, blob: bytes) -> Directory:
        """What `to_bytes` gave."""
        if len(blob) % _ENTRY_BYTES:
            raise _damaged()
        top = np.frombuffer(blob, np.int64).reshape(2, -1)
        if bool((np.diff(top[0]) <= 0).any()) or (top.size and int(top.min()) < 0):
            raise _damaged()
        return cls(reader, top[0], top[1])

    def to_bytes(self) -> bytes:
        """The top, for the catalog."""
        return np.stack((self._first, self._page)).tobytes()

    @property
    def pages(self) -> NDArray[np.uint64]:
        """The pages that it uses."""
        return self._page.astype(np.uint64)

    def find(self, ids: Ids) -> Ids:
        """The name of the bundle of every row, -1 where there is no such row. Reads the pages of these ids."""
        found = np.full(len(ids), _NOWHERE)
        if not len(self._first) or not len(ids):
            return found
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        for number, begin, end in self._by_page(ordered):
            found[order[begin:end]] = self._ranges(number).find(ordered[begin:end])
        return found

    def ranges(self) -> Iterator[Ranges]:
        """All of it, page by page, for checks."""
        for number in range(len(self._page)):
            yield self._ranges(number)

    def change(self, store: PageStore, ids: Ids, names: Ids) -> None:
        """Rows are in other bundles now, or nowhere (-1). Each id once, in any order."""
        order = np.argsort(ids, kind="stable")
        changes = Ranges.of(ids[order], names[order])
        if not len(self._page):
            changes = changes[changes.name != _NOWHERE]
            self._first, self._page = self._written(store, changes, [])
            return
        bounds = np.concatenate((self._first[1:], [np.iinfo(np.int64).max]))
        first, page, at = [], [], 0
        for number, part in _divided(changes, bounds):
            ranges = self._ranges(number).overlaid(part)
            own = int(self._page[number])
            self._cache.pop(own, None)
            first.append(self._first[at:number])
            page.append(self._page[at:number])
            new_first, new_page = self._written(store, ranges, [own])
            first.append(new_first)
            page.append(new_page)
            at = number + 1
        self._first = np.concatenate((*first, self._first[at:]))
        self._page = np.concatenate((*page, self._page[at:]))

    @classmethod
    def built(cls, store: PageStore, ranges: Iterable[Ranges]) -> Directory:
        """A new directory from ascending ranges, in parts."""
        directory = cls(store, np.empty(0, np.int64), np.empty(0, np.int64))
        tops = [directory._written(store, part, []) for part in ranges]
        empty = np.empty(0, np.int64)
        return cls(
            store,
            np.concatenate([empty, *(first for first, _ in tops)]),
            np.concatenate([empty, *(page for _, page in tops)]),
        )

    def _written(self, store: PageStore, ranges: Ranges, own: list[int]) -> tuple[Ids, Ids]:
        """Write ranges to the pages that are `own` and to new ones; the entries of the top."""
        capacity = (store.payload_bytes - _HEADER_BYTES) // _ENTRY_BYTES
        if not len(ranges):
            if own:
                store.free(np.array(own, np.uint64))
            return np.empty(0, np.int64), np.empty(0, np.int64)
        n_pages = 1 if len(ranges) <= capacity else -(-len(ranges) // max(int(capacity * _FILL), 1))
        n_new = n_pages - len(own)
        fresh = store.allocate(n_new) if n_new > 0 else 0
        pages = np.array([*own, *range(fresh, fresh + n_new)], np.int64)
        run = empty_run(n_pages, store.page_bytes)
        lengths = np.empty(n_pages, np.uint32)
        begins = np.linspace(0, len(ranges), n_pages + 1).astype(np.int64)
        for number, (begin, end) in enumerate(zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True)):
            content = _content(ranges[begin:end])
            payloads(run)[number, : len(content)] = content
            lengths[number] = len(content)
        store.write_run(pages.astype(np.uint64), run, DIRECTORY_KIND, lengths)
        return ranges.first[begins[:-1]], pages

    def _by_page(self, ordered: Ids) -> Iterator[tuple[int, int, int]]:
        """Ascending ids by the directory page that they would be on: (number, begin, end)."""
        number = np.maximum(np.searchsorted(self._first, ordered, "right") - 1, 0)
        breaks = np.flatnonzero(np.diff(number)) + 1
        for begin, end in zip([0, *breaks.tolist()], [*breaks.tolist(), len(ordered)], strict=True):
            yield int(number[begin]), begin, end

    def _ranges(self, number: int) -> Ranges:
        page = int(self._page[number])
        ranges = self._cache.get(page)
        if ranges is None:
            ranges = _parsed(self._reader.read(page))
            self._cache[page] = ranges
            if len(self._cache) > _CACHED_PAGES:
                self._cache.popitem(last=False)
        return ranges


def _divided(changes: Ranges, bounds: Ids) -> Iterator[tuple[int, Ranges]]:
    """Changes by directory page: page i has the ids below bounds[i] that no page before it has."""
    begin_page = np.searchsorted(bounds, changes.first, "right")
    end_page = np.searchsorted(bounds, changes.end - 1, "right")
    spans = {*zip(begin_page.tolist(), end_page.tolist(), strict=True)}
    touched = sorted({number for begin, end in spans for number in range(begin, end + 1)})
    for number in touched:
        low = bounds[number - 1] if number else np.iinfo(np.int64).min
        here = changes[(begin_page <= number) & (number <= end_page)]
        yield number, Ranges(np.maximum(here.first, low), np.minimum(here.end, bounds[number]), here.name)


def _covering(ranges: Ranges, points: Ids) -> Ids:
    """The number of the range that a point is in, -1 for none."""
    if not len(ranges):
        return np.full(len(points), -1)
    at = np.searchsorted(ranges.first, points, "right") - 1
    return np.where((at >= 0) & (points < ranges.end[np.maximum(at, 0)]), at, -1)


def _content(ranges: Ranges) -> NDArray[np.uint8]:
    counts = (ranges.end - ranges.first).astype(np.uint32), ranges.name.astype(np.uint32)
    parts = (np.array([len(ranges)], np.uint64), ranges.first, *counts)
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts])


def _parsed(content: NDArray[np.uint8]) -> Ranges:
    if len(content) < _HEADER_BYTES or (len(content) - _HEADER_BYTES) % _ENTRY_BYTES:
        raise _damaged()
    n = (len(content) - _HEADER_BYTES) // _ENTRY_BYTES
    if int(content[:_HEADER_BYTES].view(np.uint64)[0]) != n:
        raise _damaged()
    at = _HEADER_BYTES + 8 * n
    first = content[_HEADER_BYTES:at].view(np.int64)
    n_ids, name = content[at:].view(np.uint32).astype(np.int64).reshape(2, n)
    end = first + n_ids
    if n and (int(first[0]) < 0 or int(n_ids.min()) < 1 or bool((first[1:] < end[:-1]).any())):
        raise _damaged()
    return Ranges(first, end, name)


def _damaged() -> CorruptionError:
    return CorruptionError("The directory of the index is damaged. Restore the index from a copy.")
