"""The directory: which bundle a row is in, by its id, without looking at the rows (DESIGN, section 5).

Which bundle each id is in, on pages of their own; which page begins with which id is in memory:

    top:   first id, page          one entry for each directory page
    page:  ranges of ids, or a small number for each id (the byte map is in kernels/idpages.py)

After a bulk load ids are consecutive in leaf order, so a bundle is one range and the directory of ten million rows is a
page or two. Rows that are inserted, or move to another bundle, take a byte or two each. A batch reads and writes only
the pages that its ids are on, many at a time; where there is an entry for each id, only those of its ids are changed.

Invariant: ids are ascending, within a page and from page to page; an id that is on none has no row.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.index.sorting import Part, ordered, sorted_slices
from rtree_anon.kernels.idpages import (
    DENSE_WORDS,
    count_ranges,
    entries_fit,
    fill_dense_pages,
    fill_pages,
    find_on_page,
    merge_changes,
    most_ranges,
    page_end,
    page_is_sound,
    page_ranges,
    put_entries,
    spread_page,
)
from rtree_anon.storage.page import empty_run, payloads
from rtree_anon.storage.protocol import PageReader, PageStore

DIRECTORY_KIND = 18  # of pages
_CACHED_BYTES = 16 << 20
_PAGES_AT_ONCE = 32
_GROUPS_AHEAD = 4  # of so many pages that are being made
_FILL = 0.75  # of a page of ranges that is written anew: room for ranges that will be divided
_NOWHERE = -1
_SPREAD_IDS = 1 << 19  # on a page that is changed as a bundle for every id, 4 bytes each; a page of more as ranges
_GROUP_IDS = 1 << 17  # on pages that are changed so together: what takes half a megabyte is mostly memory used before
_RANGE_BITS = 128
_SPARE_BITS = 1  # of an entry, so that it can be changed in place until there are at least twice as many bundles
_CHANGES_AT_ONCE = 1 << 18

Ids = NDArray[np.int64]
Page = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ids first[i] .. end[i]-1 are in the bundle name[i]."""

    first: Ids
    end: Ids
    name: Ids

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def of(cls, ids: Ids, names: Ids) -> Ranges:
        """Ranges for ascending ids: neighbours in one bundle are one range."""
        return cls.room(0).changed(ids, names)

    @classmethod
    def room(cls, n: int) -> Ranges:
        """Room for so many ranges."""
        return cls(*np.empty((3, n), np.int64))

    def changed(self, ids: Ids, names: Ids) -> Ranges:
        """These ranges after changes: row ids[i] (ascending) is in names[i] now, or nowhere (-1)."""
        new = Ranges.room(len(self) + 2 * len(ids))
        n = merge_changes(self.first, self.end, self.name, len(self), ids, names, new.first, new.end, new.name)
        return Ranges(new.first[:n], new.end[:n], new.name[:n])


class Directory:
    """The directory of one version; `change` writes to the store's open transaction."""

    def __init__(self, reader: PageReader | PageStore, first: Ids, page: Ids) -> None:
        """The top: the first id and the page of every directory page, ascending."""
        self._reader, self._first, self._page = reader, first, page
        self._cache: OrderedDict[int, Page] = OrderedDict()

    @classmethod
    def from_bytes(cls, reader: PageReader | PageStore, blob: bytes) -> Directory:
        """What `to_bytes` gave."""
        if len(blob) % 16:
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

    def find(self, ids: Ids) -> NDArray[np.int32]:
        """The name of the bundle of every row, -1 where there is no such row. Reads the pages of these ids."""
        if not len(self._first) or not len(ids):
            return np.full(len(ids), _NOWHERE, np.int32)
        is_ascending = bool((ids[1:] > ids[:-1]).all())  # then no memory is needed for their order
        ascending, order = (ids, None) if is_ascending else ordered(ids)
        names = np.empty(len(ids), np.int32)
        number, begin = self._pages_of(ascending)
        ends = [*begin[1:].tolist(), len(ids)]
        for at in range(0, len(number), _PAGES_AT_ONCE):
            here = slice(at, at + _PAGES_AT_ONCE)
            pages = self._read(number[here])
            for page, a, b in zip(pages, begin[here].tolist(), ends[here], strict=True):
                find_on_page(page, ascending[a:b], names[a:b])
        if order is None:
            return names
        found = np.empty(len(ids), np.int32)
        found[order] = names
        return found

    def ranges(self) -> Iterator[Ranges]:
        """All of it, page by page, for checks."""
        for number in range(len(self._page)):
            yield _ranges_of(self._read(np.array([number])))

    def change(self, store: PageStore, changes: list[Part], threads: int = 1) -> None:
        """Rows are in other bundles now, or nowhere (-1): ids and names, in parts that are used up. Each id once."""
        with ThreadPoolExecutor(threads) as pool:
            for some, their_names in sorted_slices(changes, _CHANGES_AT_ONCE):
                self._change(store, some, their_names, pool)

    def extend(self, store: PageStore, first: int, names: NDArray[np.int32], threads: int = 1) -> None:
        """Rows with the ids first, first + 1, … are in these bundles, or nowhere (-1)."""
        with ThreadPoolExecutor(threads) as pool:
            for begin in range(0, len(names), _CHANGES_AT_ONCE):
                some = names[begin : begin + _CHANGES_AT_ONCE]
                there = np.flatnonzero(some >= 0)
                if len(there):
                    self._change(store, there + (first + begin), some[there].astype(np.int64), pool)

    def remove(self, store: PageStore, ids: Ids, threads: int = 1) -> None:
        """Rows with these ids, which ascend, are nowhere now."""
        with ThreadPoolExecutor(threads) as pool:
            for begin in range(0, len(ids), _CHANGES_AT_ONCE):
                some = ids[begin : begin + _CHANGES_AT_ONCE]
                self._change(store, some, np.full(len(some), _NOWHERE, np.int64), pool)

    def _change(self, store: PageStore, ids: Ids, names: Ids, pool: ThreadPoolExecutor) -> None:
        """The same for ascending ids. The pool makes pages; here they are read, get their places and are written."""
        writer = _Writer(store)
        if not len(self._page):
            self._first, self._page = writer.placed(writer.ranges(Ranges.of(ids, names)))
            writer.flush()
            return
        first, page, at = [], [], 0
        touched, begin = self._pages_of(ids)
        begins = [*begin.tolist(), len(ids)]
        in_place = self._fits(touched, begins, ids, names)
        # Neighbouring pages are written anew together, as long as a bundle for every id of theirs fits into memory.
        changes_way = (np.diff(touched) != 1) | (np.diff(in_place) != 0)
        many_pages = np.arange(1, len(touched)) % _PAGES_AT_ONCE == 0
        many_ids = np.diff(self._first[touched] // _GROUP_IDS) != 0
        breaks = np.flatnonzero(changes_way | many_pages | many_ids) + 1
        groups = list(zip([0, *breaks.tolist()], [*breaks.tolist(), len(touched)], strict=True))

        def made(number: int) -> _Draft:
            a, b = groups[number]
            here = slice(begins[a], begins[b])
            low, pages = int(self._first[touched[a]]), waiting.pop(number)
            if in_place[a]:
                return _changed_in_place(
                    writer, pages, [x - begins[a] for x in begins[a : b + 1]], ids[here], names[here]
                )
            return _made_anew(writer, pages, low, ids[here], names[here])

        waiting: dict[int, list[Page]] = {}  # what was read for drafts that are not made yet
        drafts: deque[Future[_Draft]] = deque()
        for number, (a, b) in enumerate(groups):
            for ahead in range(number + len(drafts), min(number + _GROUPS_AHEAD, len(groups))):
                waiting[ahead] = self._read(touched[slice(*groups[ahead])])
                drafts.append(pool.submit(made, ahead))
            low, high = int(touched[a]), int(touched[b - 1]) + 1
            new_first, new_page = writer.placed(drafts.popleft().result(), self._page[low:high])
            for own in self._page[low:high].tolist():
                self._cache.pop(own, None)
            first += [self._first[at:low], self._first[low:high] if in_place[a] else new_first]
            page += [self._page[at:low], new_page]
            at = high
        writer.flush()
        self._first = np.concatenate((*first, self._first[at:]))
        self._page = np.concatenate((*page, self._page[at:]))

    def _fits(self, numbers: Ids, begins: list[int], ids: Ids, names: Ids) -> NDArray[np.bool_]:
        """Which pages can be changed entry by entry: most of those of rows that came by inserts."""
        found = np.empty(len(numbers), np.bool_)
        for at in range(0, len(numbers), _PAGES_AT_ONCE):
            for number, page in enumerate(self._read(numbers[at : at + _PAGES_AT_ONCE]), at):
                here = slice(begins[number], begins[number + 1])
                found[number] = entries_fit(page, ids[here], names[here])
        return found

    @classmethod
    def built(cls, store: PageStore, ranges: Iterable[Ranges]) -> Directory:
        """A new directory from ascending ranges, in parts."""
        writer = _Writer(store)
        tops = [writer.placed(writer.ranges(part)) for part in ranges]
        writer.flush()
        empty = np.empty(0, np.int64)
        return cls(
            store,
            np.concatenate([empty, *(first for first, _ in tops)]),
            np.concatenate([empty, *(page for _, page in tops)]),
        )

    def _pages_of(self, ascending: Ids) -> tuple[Ids, Ids]:
        """The directory pages (by number) that ascending ids would be on, and where the ids of each begin."""
        if len(ascending) < len(self._first):  # search for the few among the many
            number = np.maximum(np.searchsorted(self._first, ascending, "right") - 1, 0)
            begin = np.flatnonzero(np.diff(number, prepend=-1))
            return number[begin], begin
        ends = np.append(np.searchsorted(ascending, self._first[1:]), len(ascending))
        begin = np.append(0, ends[:-1])
        touched = np.flatnonzero(ends > begin)
        return touched, begin[touched]

    def _read(self, numbers: Ids) -> list[Page]:
        """Pages by number; those that are not remembered are read with one call."""
        ids = self._page[numbers]
        missing = [page for page in ids.tolist() if page not in self._cache]
        if missing:
            run = np.empty((len(missing), self._reader.page_bytes), np.uint8)
            lengths = self._reader.read_run(np.array(missing, np.uint64), run)
            for page, content, length in zip(missing, payloads(run), lengths.tolist(), strict=True):
                words = content[: length - length % 8].copy().view(np.uint64)
                if length % 8 or not page_is_sound(words):
                    raise _damaged()
                self._cache[page] = words
        found = [self._cache[page] for page in ids.tolist()]
        while len(self._cache) * self._reader.page_bytes > _CACHED_BYTES:
            self._cache.popitem(last=False)
        return found


class _Draft(NamedTuple):
    """Pages that have no place yet."""

    run: NDArray[np.uint8]
    lengths: NDArray[np.uint32]
    lowest: Ids  # the first id of each


class _Writer:
    """Makes pages (by any thread), finds places for them, and writes some dozens with one call of the store."""

    def __init__(self, store: PageStore) -> None:
        self._store = store
        self._page_bytes, self._n_words = store.page_bytes, store.payload_bytes // 8
        self._waiting: list[tuple[Ids, NDArray[np.uint8], NDArray[np.uint32]]] = []

    def ranges(self, ranges: Ranges) -> _Draft:
        """Pages for ranges."""
        fill = max(int((self._n_words - 1) // 2 * _FILL), 1)
        run, words, lengths, lowest = self._room(len(ranges) // fill + 1)
        n = fill_pages(ranges.first, ranges.end, ranges.name, len(ranges), fill, words, lengths, lowest)
        return _Draft(run[:n], lengths[:n], lowest[:n])

    def by_id(self, names: NDArray[np.int32], first: int, bits: int) -> _Draft:
        """Pages for ids first, first + 1, …, given by the bundle of each, in so many bits; -1 for none."""
        n_page = (self._n_words - DENSE_WORDS) * 64 // bits
        run, words, lengths, lowest = self._room(-(-len(names) // n_page))
        n = fill_dense_pages(names, first, bits, words, lengths, lowest)
        return _Draft(run[:n], lengths[:n], lowest[:n])

    def copies(self, pages: list[Page], change: Callable[[int, Page], None]) -> _Draft:
        """Copies of pages, after `change` was given the number and the words of each; their first ids stay."""
        run, words, lengths, lowest = self._room(len(pages))
        for number, page in enumerate(pages):
            words[number, : len(page)] = page
            lengths[number] = 8 * len(page)
            change(number, words[number])
        return _Draft(run, lengths, lowest)

    def _room(self, n_pages: int) -> tuple[NDArray[np.uint8], Page, NDArray[np.uint32], Ids]:
        """Empty pages, their words, and room for their lengths and first ids."""
        run = empty_run(n_pages, self._page_bytes)
        words = payloads(run)[:, : self._n_words * 8].view(np.uint64)
        return run, words, np.empty(n_pages, np.uint32), np.empty(n_pages, np.int64)

    def placed(self, draft: _Draft, own: Ids | None = None) -> tuple[Ids, Ids]:
        """Pages go to those that are `own` and to new ones, once `flush` was called; the entries of the top."""
        store, n = self._store, len(draft.run)
        own = np.empty(0, np.int64) if own is None else own
        if n < len(own):
            store.free(own[n:].astype(np.uint64))
        pages = own[:n]
        if n > len(own):
            fresh = store.allocate(n - len(own))
            pages = np.concatenate((own, np.arange(fresh, fresh + n - len(own))))
        self._waiting.append((pages, draft.run, draft.lengths))
        if sum(len(waiting) for waiting, _, _ in self._waiting) >= _PAGES_AT_ONCE:
            self.flush()
        return draft.lowest, pages

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            pages, run, lengths = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
            self._waiting = []
            if len(pages):
                self._store.write_run(pages.astype(np.uint64), run, DIRECTORY_KIND, lengths)


def _changed_in_place(writer: _Writer, pages: list[Page], begins: list[int], ids: Ids, names: Ids) -> _Draft:
    """Pages with some entries changed; those of pages[i] are begins[i] .. begins[i + 1]-1."""

    def change(number: int, words: Page) -> None:
        here = slice(begins[number], begins[number + 1])
        put_entries(words, ids[here], names[here])

    return writer.copies(pages, change)


def _made_anew(writer: _Writer, pages: list[Page], first: int, ids: Ids, names: Ids) -> _Draft:
    """What takes the place of neighbouring pages, the first of which begins with the id `first`, after changes."""
    lowest = min(first, int(ids[0]))
    n_ids = max(page_end(pages[-1]), int(ids[-1]) + 1) - lowest
    if n_ids <= _SPREAD_IDS:
        by_id = np.full(n_ids, _NOWHERE, np.int32)
        for page in pages:
            spread_page(page, lowest, by_id)
        by_id[ids - lowest] = names
        bits = (int(by_id.max()) + 1).bit_length() + _SPARE_BITS
        if count_ranges(by_id) * _RANGE_BITS > n_ids * bits:  # as most ids are that came with inserts
            return writer.by_id(by_id, lowest, bits)
    return writer.ranges(_ranges_of(pages).changed(ids, names))


def _ranges_of(pages: list[Page]) -> Ranges:
    """The ranges of neighbouring pages."""
    ranges = Ranges.room(sum(most_ranges(page) for page in pages))
    n = 0
    for page in pages:
        n = page_ranges(page, ranges.first, ranges.end, ranges.name, n)
    return Ranges(ranges.first[:n], ranges.end[:n], ranges.name[:n])


def _damaged() -> CorruptionError:
    return CorruptionError("The directory of the index is damaged. Restore the index from a copy.")
