"""The buffer pool: a fixed arena of page frames inside the memory budget, with pinning and second-chance eviction.

    key (data file, physical page, checksum) ─► frame in one uint8 array of shape (n_frames, page_bytes)
The key names a page's content for ever (a page that is written again has another checksum), so nothing in the pool is
ever stale, and snapshots of different versions share what did not change. Pages are checked when they are loaded,
once.

Invariant: a frame that is pinned is neither evicted nor written; views of it are read-only NumPy arrays without
copies, valid until the pin is released. Eviction is the clock algorithm (Corbató, "A Paging Experiment with the
Multics System", 1968).
"""

from __future__ import annotations

import threading
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import BudgetError, UsageError
from rtree_anon.storage.budget import MemoryBudget
from rtree_anon.storage.layout import PAGE_HEADER_BYTES
from rtree_anon.storage.snapshot import Snapshot

_Key = tuple[bytes, int, int]


class PinnedPage:
    """A page that stays where it is until it is released; a context manager."""

    def __init__(self, pool: BufferPool, frame: int, payload: NDArray[np.uint8]) -> None:
        self._pool, self._frame, self.payload = pool, frame, payload
        self._released = False

    def release(self) -> None:
        """Let the pool reuse the frame; the payload must not be looked at any more. Releasing twice is harmless."""
        if not self._released:
            self._released = True
            self._pool._unpin(self._frame)

    def __enter__(self) -> NDArray[np.uint8]:
        return self.payload

    def __exit__(self, *exception: object) -> None:
        self.release()


class BufferPool:
    """Pages of any number of snapshots with one page size, in `n_frames` frames. May be used from many threads."""

    def __init__(self, budget: MemoryBudget, n_frames: int, page_bytes: int) -> None:
        if n_frames < 1:
            raise UsageError(f"A buffer pool of {n_frames} pages is not possible; give at least one.")
        self._reservation = budget.reserve(n_frames * page_bytes, "the buffer pool")
        self._arena = np.empty((n_frames, page_bytes), np.uint8)
        self._lengths = np.zeros(n_frames, np.uint32)
        self._keys: list[_Key | None] = [None] * n_frames
        self._pins = [0] * n_frames
        self._used_lately = [False] * n_frames
        self._frames: dict[_Key, int] = {}
        self._hand = 0
        self._lock = threading.Lock()
        self.n_hits = self.n_misses = 0

    def pin(self, snapshot: Snapshot, page_id: int) -> PinnedPage:
        """The page, loaded and checked if it was not here. BudgetError when every frame is pinned."""
        ids = np.array([page_id], np.uint64)
        physical, expected = snapshot.locate(ids)[0].tolist()
        key = (snapshot.file_id, physical, expected)
        with self._lock:
            frame = self._frames.get(key)
            if frame is None:
                self.n_misses += 1
                frame = self._load(snapshot, ids, key)
            else:
                self.n_hits += 1
            self._pins[frame] += 1
            self._used_lately[frame] = True
            payload = self._arena[frame, PAGE_HEADER_BYTES : PAGE_HEADER_BYTES + int(self._lengths[frame])]
        payload.flags.writeable = False
        return PinnedPage(self, frame, payload)

    @property
    def n_pinned(self) -> int:
        """Frames that are pinned now."""
        with self._lock:
            return sum(count > 0 for count in self._pins)

    def close(self) -> None:
        """Give the memory back to the budget; nothing may be pinned any more."""
        if self.n_pinned:
            raise UsageError(f"{self.n_pinned} pages are still pinned; release them before the pool is closed.")
        self._frames.clear()
        self._arena = np.empty((0, 0), np.uint8)
        self._reservation.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _load(self, snapshot: Snapshot, ids: NDArray[np.uint64], key: _Key) -> int:
        frame = self._victim()
        old = self._keys[frame]
        if old is not None:
            del self._frames[old]
            self._keys[frame] = None  # should reading fail, the frame is empty and not half of two pages
        self._lengths[frame] = snapshot.read_run(ids, self._arena[frame : frame + 1])[0]
        self._keys[frame] = key
        self._frames[key] = frame
        return frame

    def _victim(self) -> int:
        n_frames = len(self._keys)
        for _ in range(2 * n_frames):  # the first round may only take second chances away
            frame, self._hand = self._hand, (self._hand + 1) % n_frames
            if self._pins[frame]:
                continue
            if self._keys[frame] is None or not self._used_lately[frame]:
                return frame
            self._used_lately[frame] = False
        raise BudgetError(f"All {n_frames} pages of the buffer pool are pinned. Release some, or give more memory.")

    def _unpin(self, frame: int) -> None:
        with self._lock:
            self._pins[frame] -= 1
