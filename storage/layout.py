"""Byte maps of the data file: the header, the two commit slots, the page header, and the geometry that joins them.

    0        4096       8192       12288      16384            16384 + page_bytes
    ├ header ┼ slot 0   ┼ slot 1   ┼ zeros    ┼ page 0         ┼ page 1 …
All integers are little-endian and unsigned. Header and slots are one 4096-byte block each, so that writing one never
touches another. FORMAT.md explains every field.

Invariant: nothing leaves `decode_*` unless its checksum is right and every integer in it is inside the bounds that the
rest of the store relies on; a hostile file with repaired checksums gets no further than a CorruptionError.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from rtree_anon.errors import CorruptionError, StorageError
from rtree_anon.storage.checksum import KNOWN_ALGORITHMS, XXH3_64, checksum
from rtree_anon.storage.metadata import pack_metadata, unpack_metadata

FORMAT_VERSION: Final = 1
BLOCK_BYTES: Final = 4096
PROLOGUE_BYTES: Final = 4 * BLOCK_BYTES
MIN_PAGE_BYTES: Final = 512  # below 4096 only makes sense in tests, where small pages make deep trees
MAX_PAGE_BYTES: Final = 1 << 20
DEFAULT_PAGE_BYTES: Final = 32 * 1024  # measured in bench/results/store.json
MAX_PAGES: Final = 1 << 40
NO_PAGE: Final = (1 << 64) - 1  # "physical page" of a logical page that does not exist
ENTRY_BYTES: Final = 16  # physical page, checksum

PAGE_HEADER: Final = np.dtype(
    [
        ("checksum", "<u8"),
        ("magic", "<u2"),
        ("kind", "u1"),
        ("level", "u1"),
        ("payload_bytes", "<u4"),
        ("page_id", "<u8"),
        ("commit_id", "<u8"),
    ]
)
PAGE_HEADER_BYTES: Final = PAGE_HEADER.itemsize
PAGE_MAGIC: Final = 0x5052
KIND_MAP: Final = 1
FIRST_USER_KIND: Final = 16  # kinds below are the store's own

_HEADER: Final = struct.Struct("<Q8sIIII16s16s")
_HEADER_MAGIC: Final = b"RTANPAGE"
_SLOT: Final = struct.Struct("<Q8sQQQQQQQII16s")
_SLOT_MAGIC: Final = b"RTANCMIT"
MAX_METADATA_BYTES: Final = BLOCK_BYTES - _SLOT.size


@dataclass(frozen=True)
class Header:
    """What never changes in a data file."""

    page_bytes: int
    store_id: bytes  # the same for ever, shared with the journal
    file_id: bytes  # new for every file that replaces another (compaction), so that pins name the right file

    @property
    def payload_bytes(self) -> int:
        return self.page_bytes - PAGE_HEADER_BYTES

    @property
    def fanout(self) -> int:
        """Entries in one page of the page map."""
        return self.payload_bytes // ENTRY_BYTES

    def offset(self, physical: int) -> int:
        """Where a physical page begins in the file."""
        return PROLOGUE_BYTES + physical * self.page_bytes


@dataclass(frozen=True)
class Commit:
    """The content of a commit slot: one version of the store."""

    commit_id: int
    n_pages: int  # physical pages below this number may hold something; the file may be longer
    n_logical: int  # logical page ids are 0 … n_logical-1; some of them may be free
    root_physical: int  # the top page of the page map, NO_PAGE when n_logical is 0
    root_checksum: int
    previous_checksum: int  # checksum of the slot of the commit before: a chain
    journal_seq: int  # journal records up to this one are contained in the pages
    file_id: bytes
    metadata: dict[str, Any]


def level_sizes(n_logical: int, fanout: int) -> list[int]:
    """Entries per level of the page map: 0 has one per logical page, the last is the root's single entry."""
    sizes = [n_logical]
    while sizes[-1] > 1 or len(sizes) == 1:
        sizes.append(-(-sizes[-1] // fanout))
        if sizes[-1] == 0:
            return []
    return sizes


def encode_header(header: Header) -> bytes:
    """One block."""
    fields = _HEADER.pack(
        0, _HEADER_MAGIC, FORMAT_VERSION, XXH3_64, header.page_bytes, 0, header.store_id, header.file_id
    )
    return _with_checksum(fields)


def decode_header(block: bytes, path: str) -> Header:
    """The header, or an error of its own for each way in which it can be wrong."""
    if len(block) < BLOCK_BYTES:
        raise CorruptionError(f"{path}: the file ends inside its header; it is damaged or was never an index.")
    found, magic, version, algorithm, page_bytes, reserved, store_id, file_id = _HEADER.unpack_from(block)
    if magic != _HEADER_MAGIC:
        raise CorruptionError(f"{path}: this is not a page file of rtree-anon, or its first bytes are damaged.")
    if found != checksum(block[8:BLOCK_BYTES]):
        raise CorruptionError(f"{path}: the checksum of the file header is wrong. Restore the index from a copy.")
    if version != FORMAT_VERSION:
        raise StorageError(
            f"{path}: format version {version} is not known here (only {FORMAT_VERSION}). Use a newer release."
        )
    if algorithm not in KNOWN_ALGORITHMS:
        raise StorageError(f"{path}: checksum algorithm {algorithm} is not known here. Use a newer release.")
    if not is_page_size(page_bytes) or reserved:
        raise CorruptionError(f"{path}: the file header names an impossible page size of {page_bytes} bytes.")
    return Header(page_bytes, store_id, file_id)


def is_page_size(page_bytes: int) -> bool:
    """Whether the format allows this page size: a power of two within bounds."""
    return MIN_PAGE_BYTES <= page_bytes <= MAX_PAGE_BYTES and page_bytes & (page_bytes - 1) == 0


def slot_offset(commit_id: int) -> int:
    """Commits alternate between the two slots."""
    return BLOCK_BYTES * (1 + commit_id % 2)


def encode_commit(commit: Commit, fanout: int) -> bytes:
    """One block. Raises UsageError when the metadata is not plain or too large."""
    packed = pack_metadata(commit.metadata, MAX_METADATA_BYTES)
    n_levels = len(level_sizes(commit.n_logical, fanout))
    fields = _SLOT.pack(
        0,
        _SLOT_MAGIC,
        commit.commit_id,
        commit.n_pages,
        commit.n_logical,
        commit.root_physical,
        commit.root_checksum,
        commit.previous_checksum,
        commit.journal_seq,
        n_levels,
        len(packed),
        commit.file_id,
    )
    return _with_checksum(fields + packed)


def decode_commit(block: bytes, header: Header, path: str) -> Commit | None:
    """The commit in a slot, or None when the slot is empty, torn or damaged.

    A slot with a right checksum and impossible content cannot come from a crash, so that is an error.
    """
    if len(block) < BLOCK_BYTES:
        return None
    unpacked = _SLOT.unpack_from(block)
    (
        found,
        magic,
        commit_id,
        n_pages,
        n_logical,
        root_physical,
        root_checksum,
        previous,
        seq,
        n_levels,
        n_meta,
        file_id,
    ) = unpacked
    if magic != _SLOT_MAGIC or found != checksum(block[8:BLOCK_BYTES]):
        return None
    sizes = level_sizes(n_logical, header.fanout) if n_logical <= MAX_PAGES else None
    possible = (
        0 < commit_id < 1 << 63
        and seq < 1 << 63
        and n_pages <= MAX_PAGES
        and sizes is not None
        and n_levels == len(sizes)
        and sum(sizes[1:]) <= n_pages  # every page of the map is in the file
        and (root_physical < n_pages if n_logical else root_physical == NO_PAGE)
        and n_meta <= MAX_METADATA_BYTES
        and file_id == header.file_id
    )
    if not possible:
        raise CorruptionError(f"{path}: the commit record of version {commit_id} has impossible numbers in it.")
    metadata = unpack_metadata(block[_SLOT.size : _SLOT.size + n_meta], path)
    return Commit(commit_id, n_pages, n_logical, root_physical, root_checksum, previous, seq, file_id, metadata)


def commit_checksum(block: bytes) -> int:
    """The stored checksum of an encoded commit, for the chain."""
    value: int = struct.unpack_from("<Q", block)[0]
    return value


def commit_file_id(block: bytes | bytearray) -> bytes:
    """Which data file an encoded commit belongs to, whether or not the rest of it is right."""
    return bytes(block[_SLOT.size - 16 : _SLOT.size])


def without_metadata(commit: Commit) -> Commit:
    """What a reader's registration keeps: enough to find the pages, nothing that tells about rows."""
    return replace(commit, metadata={})


def _with_checksum(fields: bytes) -> bytes:
    block = bytearray(BLOCK_BYTES)
    block[: len(fields)] = fields
    struct.pack_into("<Q", block, 0, checksum(memoryview(block)[8:]))
    return bytes(block)
