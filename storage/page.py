"""Pages in memory: filling in their headers, and checking them when they come back from the disk.

    0        8       10     11      12              16        24          32                        page_bytes
    ├ checksum ┼ magic ┼ kind ┼ level ┼ payload bytes ┼ page id ┼ commit id ┼ payload … zeros to the end ┤
The checksum covers everything behind itself, zeros included. It is also kept in the page map, beside the page's place,
so that a page that is intact but not the one that was written there (a lost or misdirected write) is found as well.

Pages travel in runs: one C-contiguous uint8 array of shape (n, page_bytes). Headers are written and checked for the
whole run at once; only the checksum is a call per page.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError, UsageError
from rtree_anon.storage.layout import FIRST_USER_KIND, PAGE_HEADER, PAGE_HEADER_BYTES, PAGE_MAGIC

Run = NDArray[np.uint8]
Ids = NDArray[np.uint64]
_BEHIND_CHECKSUM: Final = 8


def are_consecutive(numbers: Ids) -> bool:
    """Whether each number is the one before it plus one, without wrap-around."""
    is_rising = bool(np.logical_and.reduce(numbers[1:] - numbers[:-1] == 1))
    return is_rising and int(numbers[0]) <= int(numbers[-1])


def empty_run(n_pages: int, page_bytes: int) -> Run:
    """Zeroed pages to be filled through `payloads` and handed to a store's ``write_run``."""
    return np.zeros((n_pages, page_bytes), np.uint8)


def payloads(run: Run) -> Run:
    """The part of each page that belongs to the caller: a view, no copy."""
    return run[:, PAGE_HEADER_BYTES:]


def seal_run(
    run: Run, page_ids: Ids, kind: int, lengths: NDArray[np.uint32] | int, commit_id: int, level: int = 0
) -> Ids:
    """Fill in the headers of a run in place, zero what is behind each payload, and return the checksums.

    O(bytes). The zeros keep rows that were deleted from a reused buffer out of the file.
    """
    capacity = run.shape[1] - PAGE_HEADER_BYTES
    header = np.empty(len(run), PAGE_HEADER)  # in one piece: the same few bytes of many pages share few cache lines
    header["magic"], header["kind"], header["level"] = PAGE_MAGIC, kind, level
    header["payload_bytes"], header["page_id"], header["commit_id"] = lengths, page_ids, commit_id
    run[:, :PAGE_HEADER_BYTES] = header.view(np.uint8).reshape(-1, PAGE_HEADER_BYTES)
    if isinstance(lengths, int):
        run[:, PAGE_HEADER_BYTES + lengths :] = 0
    else:
        for row in np.flatnonzero(lengths < capacity).tolist():
            run[row, PAGE_HEADER_BYTES + int(lengths[row]) :] = 0
    checksums = _checksums(run)
    run[:, :_BEHIND_CHECKSUM] = checksums.view(np.uint8).reshape(-1, _BEHIND_CHECKSUM)
    return checksums


def check_run(
    run: Run, page_ids: Ids, expected: Ids, newest_commit: int, path: str, map_level: int | None = None
) -> NDArray[np.uint32]:
    """Payload lengths of a run that was read, or a CorruptionError that names the first page that is wrong."""
    header = _headers(run)
    lengths: NDArray[np.uint32] = header["payload_bytes"]
    own_kind = header["kind"] < FIRST_USER_KIND
    right = (header["checksum"] == _checksums(run)) & (header["checksum"] == expected)
    right &= (header["page_id"] == page_ids) & (header["magic"] == PAGE_MAGIC) & (header["commit_id"] <= newest_commit)
    right &= (lengths <= run.shape[1] - PAGE_HEADER_BYTES) & (own_kind == (map_level is not None))
    right &= header["level"] == (map_level or 0)
    if not right.all():
        bad = int(np.flatnonzero(~right)[0])
        what = "page" if map_level is None else f"page map (level {map_level}) page"
        page_id, damage = int(page_ids[bad]), describe_damage(run[bad], int(page_ids[bad]), int(expected[bad]))
        raise CorruptionError(
            f"{path}: {what} {page_id} is damaged: {damage}. Nothing was changed; `rtree-anon verify` lists all damage,"
            " a copy of the index repairs it."
        )
    return lengths


def describe_damage(page: Run, page_id: int, expected: int) -> str:
    """In words, why a page is not the page that it should be."""
    header = _headers(page.reshape(1, -1))[0]
    actual = int(_checksums(page.reshape(1, -1))[0])
    if int(header["magic"]) != PAGE_MAGIC:
        return "it does not begin like a page"
    if int(header["checksum"]) != actual:
        return "its checksum is wrong"
    if int(header["page_id"]) != page_id:
        return f"page {int(header['page_id'])} is in its place"
    if actual != expected:
        return f"another version of it (commit {int(header['commit_id'])}) is in its place"
    return "its header is impossible"


def run_lengths(lengths: NDArray[np.uint32] | int | None, n_pages: int, capacity: int) -> NDArray[np.uint32] | int:
    """The payload length of each page of a run, or of all of them, validated; None means full pages."""
    if lengths is None:
        return capacity
    chosen = np.asarray(lengths)
    if chosen.ndim > 1 or (chosen.ndim == 1 and len(chosen) != n_pages):
        raise UsageError(f"{chosen.shape} payload lengths were given for {n_pages} pages.")
    if n_pages and (int(chosen.min()) < 0 or int(chosen.max()) > capacity):
        raise UsageError(f"A payload of {int(chosen.max())} bytes does not fit into a page (0 to {capacity} bytes).")
    return chosen.astype(np.uint32) if chosen.ndim else int(chosen)


def _headers(run: Run) -> NDArray[Any]:
    """A copy, in one piece, of all headers."""
    return run[:, :PAGE_HEADER_BYTES].copy().view(PAGE_HEADER)[:, 0]


def _checksums(run: Run) -> Ids:
    if not len(run):
        return np.zeros(0, np.uint64)
    digest, page_bytes = xxhash.xxh3_64_intdigest, run.shape[1]
    view = run.data.cast("B")  # slices of one flat view: half the cost of row views
    starts = range(_BEHIND_CHECKSUM, len(view), page_bytes)
    n_covered = page_bytes - _BEHIND_CHECKSUM
    return np.fromiter((digest(view[start : start + n_covered]) for start in starts), np.uint64, run.shape[0])
