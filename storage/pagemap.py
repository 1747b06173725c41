"""The page map: where each logical page is, and what its checksum must be. A tree of pages, copied on write.

    commit slot ─► root page ─► … ─► map pages (level 0) ─► pages
Each entry is (physical page, checksum), so the slot's one checksum vouches for every byte that can be reached from it.
Logical ids are stable: rewriting a page changes its entry and the few map pages above it, never the pages that refer
to it.

This is why there is no free list on disk: a physical page is free if and only if no entry of any version that must be
kept names it (`reachable`), which is computed, not stored, and therefore cannot be wrong on disk. (Merkle, "A Digital
Signature Based on a Conventional Encryption Function", CRYPTO '87, for the tree of checksums.)

A map page's header holds its level and number, so no page can stand in two places of the map, however hostile the file.

Invariant of a loaded map: all physical pages in it, map pages included, are different and below ``n_pages``; hence no
cycle, no page shared by two ids, and no more reads than the file has pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.storage.datafile import DataFile
from rtree_anon.storage.layout import ENTRY_BYTES, KIND_MAP, NO_PAGE, Commit, level_sizes
from rtree_anon.storage.page import Ids, check_run, empty_run, payloads, seal_run

Entries = NDArray[np.uint64]  # shape (n, 2): physical page, checksum
_READ_AT_ONCE = 64  # map pages per read: bounds the memory that a hostile file can ask for before it is checked


@dataclass(frozen=True)
class PageMap:
    """One version of the map, all levels in memory: 16 bytes per page, 5 MB for 100M rows in 32 KB pages."""

    levels: tuple[
        Entries, ...
    ]  # level 0: one entry per logical page; last: the root's entry; () when there are no pages

    @property
    def entries(self) -> Entries:
        """One row per logical page."""
        return self.levels[0] if self.levels else np.empty((0, 2), np.uint64)

    def page_ids(self) -> Ids:
        """Logical pages that exist, ascending."""
        return np.flatnonzero(self.entries[:, 0] != NO_PAGE).astype(np.uint64)

    def reachable(self) -> Ids:
        """Every physical page of this version, pages of the map included."""
        if not self.levels:
            return np.empty(0, np.uint64)
        physical: Ids = np.concatenate([level[:, 0] for level in self.levels])
        found: Ids = physical[physical != NO_PAGE]
        return found

    def locate(self, page_ids: Ids, path: str) -> Entries:
        """Entries of logical pages; CorruptionError for a page that this version does not have."""
        entries = self.entries
        if len(page_ids) and int(page_ids.max()) >= len(entries):
            raise _no_such_page(int(page_ids.max()), path)
        found: Entries = entries[page_ids]
        is_missing = found[:, 0] == NO_PAGE
        if is_missing.any():
            raise _no_such_page(int(page_ids[is_missing][0]), path)
        return found


EMPTY_MAP = PageMap(())


def load_map(data: DataFile, commit: Commit) -> PageMap:
    """Read and check the whole map of a commit, from the root down."""
    header = data.header
    sizes = level_sizes(commit.n_logical, header.fanout)
    if not sizes:
        return EMPTY_MAP
    levels = [np.array([[commit.root_physical, commit.root_checksum]], np.uint64)]
    for level in range(len(sizes) - 2, -1, -1):
        above, wanted = levels[-1], sizes[level]
        _require_in_file(above, commit.n_pages, data.path)
        parts = []
        for start in range(0, len(above), _READ_AT_ONCE):
            some = above[start : start + _READ_AT_ONCE]
            run = empty_run(len(some), header.page_bytes)
            data.read_pages(some[:, 0], run)
            ids = np.arange(start, start + len(some), dtype=np.uint64)
            lengths = check_run(run, ids, some[:, 1], commit.commit_id, data.path, map_level=level + 1)
            n_left = wanted - start * header.fanout
            n_expected = np.minimum(n_left - np.arange(len(some)) * header.fanout, header.fanout)
            if not np.array_equal(lengths, n_expected * ENTRY_BYTES):
                raise CorruptionError(f"{data.path}: a page of the page map has the wrong number of entries.")
            flat = payloads(run)[:, : header.fanout * ENTRY_BYTES]
            parts.append(
                np.ascontiguousarray(flat).view("<u8").reshape(-1, 2)[: min(n_left, len(some) * header.fanout)]
            )
        levels.append(np.concatenate(parts))
    loaded = PageMap(tuple(reversed(levels)))
    _require_sound(loaded.reachable(), commit.n_pages, data.path)
    return loaded


def write_map(
    data: DataFile, base: PageMap, entries: Entries, dirty: set[int], commit_id: int, take: Callable[[int], Ids]
) -> PageMap:
    """Write the map pages that changed against `base`, bottom up, to fresh places; the new version of the map.

    `dirty` holds the numbers of the level-0 map pages with changed entries; `take(n)` yields n free physical pages.
    """
    fanout = data.header.fanout
    sizes = level_sizes(len(entries), fanout)
    if not sizes:
        return EMPTY_MAP
    levels = [entries]
    for level in range(1, len(sizes)):
        below, n_here = levels[-1], sizes[level]
        old = base.levels[level] if level < len(base.levels) else np.empty((0, 2), np.uint64)
        n_kept = min(len(old), n_here)
        here = np.empty((n_here, 2), np.uint64)
        here[:n_kept] = old[:n_kept]
        changed = {number for number in dirty if number < n_here} | set(range(n_kept, n_here))
        n_before = len(base.levels[level - 1]) if level - 1 < len(base.levels) else 0
        if len(below) != n_before:  # the page where the level ended, or ends now, has another number of entries
            changed |= {n_here - 1, min(max(n_before - 1, 0) // fanout, n_here - 1)}
        numbers = np.array(sorted(changed), np.uint64)
        run = empty_run(len(numbers), data.header.page_bytes)
        lengths = np.empty(len(numbers), np.uint32)
        for row, number in enumerate(numbers.tolist()):
            chunk = np.ascontiguousarray(below[number * fanout : (number + 1) * fanout]).view(np.uint8).reshape(-1)
            payloads(run)[row, : len(chunk)] = chunk
            lengths[row] = len(chunk)
        physical = take(len(numbers))
        checksums = seal_run(run, numbers, KIND_MAP, lengths, commit_id, level)
        data.write_pages(physical, run)
        here[numbers, 0], here[numbers, 1] = physical, checksums
        levels.append(here)
        dirty = {number // fanout for number in changed}
    return PageMap(tuple(levels))


def _require_in_file(map_pages: Entries, n_pages: int, path: str) -> None:
    if int(map_pages[:, 0].max()) >= n_pages:  # a hole (NO_PAGE) is one of these
        raise CorruptionError(
            f"{path}: the page map has lost one of its own pages, or points behind the end of the file."
        )


def _require_sound(physical: Ids, n_pages: int, path: str) -> None:
    ordered = np.sort(physical)
    if int(ordered[-1]) >= n_pages:
        raise CorruptionError(f"{path}: the page map points to page {int(ordered[-1])}, but there are only {n_pages}.")
    if bool((ordered[1:] == ordered[:-1]).any()):
        raise CorruptionError(f"{path}: the page map uses one page twice; it is damaged.")


def _no_such_page(page_id: int, path: str) -> CorruptionError:
    return CorruptionError(f"{path}: page {page_id} was asked for, but this version has no such page.")
