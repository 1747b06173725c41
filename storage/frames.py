"""Byte maps of the journal, and finding out how much of one can be believed.

    0        4096
    ├ header ┼ frame ┼ frame ┼ … ┼ seal ┼ zeros
    frame:  ├ checksum 8 ┼ magic 4 ┼ records 4 ┼ first seq 8 ┼ body bytes 4 ┼ 0 4 ┼ (length 4, bytes)* ┼ zeros to 8 ┤
A frame is what one sync made durable: one checksum, all of it or nothing. The next frame is written only after the one
before was synced, and replaces the seal: a frame without records, written (not synced) behind each synced frame.

Invariant: whatever is valid behind a bad frame proves that the bad frame was once durable. So a bad end is a torn
write that nobody was promised, and is cut; a bad frame with a valid frame or seal behind it is damage, and is reported
(P3, P5). The checksums are seeded with the header's salt: bytes of an older journal are never valid in this one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from rtree_anon.errors import CorruptionError, StorageError
from rtree_anon.storage.checksum import checksum
from rtree_anon.storage.files import File, explained, read_available
from rtree_anon.storage.layout import BLOCK_BYTES

JOURNAL_VERSION: Final = 1
MAX_BODY_BYTES: Final = 16 << 20
MAX_SEQ: Final = 1 << 62
_HEADER: Final = struct.Struct("<Q8sII16sQQQ")
_HEADER_MAGIC: Final = b"RTANJRNL"
_FRAME: Final = struct.Struct("<QIIQII")
_FRAME_BEHIND_CHECKSUM: Final = struct.Struct("<IIQII")
_CHECKSUM: Final = struct.Struct("<Q")
_FRAME_MAGIC: Final = 0x4D524654
_LENGTH: Final = struct.Struct("<I")
_ALIGNMENT: Final = 8


@dataclass(frozen=True)
class JournalHeader:
    """Written once, when the journal is made."""

    store_id: bytes
    salt: int
    first_seq: int  # the number of the first record in this file
    durable_commit: int  # a commit that was durable when this journal was made: the store may never fall behind it (P6)


class Frame(NamedTuple):
    """Where a frame is and which records it has; ``n_records`` 0 is a seal."""

    offset: int
    n_records: int
    first_seq: int
    body_bytes: int

    @property
    def end(self) -> int:
        return self.offset + _FRAME.size + self.body_bytes


@dataclass(frozen=True)
class Scan:
    """The believable part of a journal."""

    header: JournalHeader
    frames: tuple[Frame, ...]
    end: int  # where the next frame belongs
    n_torn_bytes: int  # bytes behind the end that are no frame: the rest of a write that was never acknowledged
    n_file_bytes: int  # its length, zeros in reserve included

    @property
    def next_seq(self) -> int:
        return self.header.first_seq + sum(frame.n_records for frame in self.frames)


def frame_at(offset: int, n_records: int, first_seq: int, n_encoded: int) -> Frame:
    """The place of a frame that `encode_frame` made."""
    return Frame(offset, n_records, first_seq, n_encoded - _FRAME.size)


def encode_journal_header(header: JournalHeader) -> bytes:
    """One block."""
    block = bytearray(BLOCK_BYTES)
    fields = (header.store_id, header.salt, header.first_seq, header.durable_commit)
    _HEADER.pack_into(block, 0, 0, _HEADER_MAGIC, JOURNAL_VERSION, 0, *fields)
    struct.pack_into("<Q", block, 0, checksum(memoryview(block)[8:]))
    return bytes(block)


def read_journal_header(file: File, store_id: bytes | None = None) -> JournalHeader:
    """The header, or what is wrong with it. It is never torn: a journal gets its name after it was synced."""
    block = bytearray(BLOCK_BYTES)
    with explained("read the journal", file.path):
        n_read = read_available(file, memoryview(block), 0)
    found, magic, version, reserved, owner, salt, first_seq, durable_commit = _HEADER.unpack_from(block)
    if n_read < BLOCK_BYTES or magic != _HEADER_MAGIC or found != checksum(memoryview(block)[8:]):
        raise CorruptionError(f"{file.path}: the header of the journal is damaged. Restore the index from a copy.")
    if version != JOURNAL_VERSION or reserved:
        raise StorageError(f"{file.path}: journal version {version} is not known here. Use a newer release.")
    if not 0 < first_seq < MAX_SEQ or not 0 <= durable_commit < MAX_SEQ:
        raise CorruptionError(f"{file.path}: the header of the journal has impossible numbers in it.")
    if store_id is not None and owner != store_id:
        raise CorruptionError(f"{file.path}: this journal belongs to another index.")
    return JournalHeader(owner, salt, first_seq, durable_commit)


def encode_frame(records: Sequence[bytes], first_seq: int, salt: int) -> bytes:
    """A frame of these records; of none: a seal."""
    pieces = [piece for record in records for piece in (_LENGTH.pack(len(record)), record)]
    body = b"".join(pieces)
    n_padding = -len(body) % _ALIGNMENT
    header = _FRAME_BEHIND_CHECKSUM.pack(_FRAME_MAGIC, len(records), first_seq, len(body) + n_padding, 0)
    rest = header + body + bytes(n_padding)
    return _CHECKSUM.pack(checksum(rest, salt)) + rest


def scan_journal(file: File, header: JournalHeader) -> Scan:
    """Read all frames; CorruptionError when a frame in the middle is bad."""
    frames: list[Frame] = []
    at, next_seq = BLOCK_BYTES, header.first_seq
    with explained("read the journal", file.path):
        n_file_bytes = file.size()
        while True:
            frame = _read_frame(file, header, at, n_file_bytes)
            if frame is None or frame.n_records == 0 or frame.first_seq != next_seq:
                break
            frames.append(frame)
            at, next_seq = frame.end, next_seq + frame.n_records
        seal = frame is not None and frame.n_records == 0 and frame.first_seq == next_seq
        n_torn_bytes = 0 if seal else _require_nothing_valid_behind(file, header, at, n_file_bytes)
    return Scan(header, tuple(frames), at, n_torn_bytes, n_file_bytes)


def read_records(file: File, header: JournalHeader, frame: Frame) -> Iterator[tuple[int, bytes]]:
    """The records of a frame with their sequence numbers; the frame is checked again as it is read."""
    with explained("read the journal", file.path):
        body = _read_body(file, header, frame)
    at = 0
    for seq in range(frame.first_seq, frame.first_seq + frame.n_records):
        n_record = _LENGTH.unpack_from(body, at)[0] if at + _LENGTH.size <= len(body) else len(body)
        at += _LENGTH.size
        if at + n_record > len(body):
            raise CorruptionError(f"{file.path}: journal record {seq} is longer than the frame that holds it.")
        yield seq, body[at : at + n_record]
        at += n_record


def _read_frame(file: File, header: JournalHeader, offset: int, n_file_bytes: int) -> Frame | None:
    fields = bytearray(_FRAME.size)
    if read_available(file, memoryview(fields), offset) < _FRAME.size:
        return None
    _, magic, n_records, first_seq, n_body, reserved = _FRAME.unpack(fields)
    frame = Frame(offset, n_records, first_seq, n_body)
    possible = (
        magic == _FRAME_MAGIC
        and not reserved
        and n_body <= MAX_BODY_BYTES
        and n_body % _ALIGNMENT == 0
        and n_records * _LENGTH.size <= n_body  # so that the count alone cannot ask for memory
        and frame.end <= n_file_bytes
        and first_seq < MAX_SEQ
    )
    if not possible or _whole_frame(file, header, frame) is None:
        return None
    return frame


def _read_body(file: File, header: JournalHeader, frame: Frame) -> bytes:
    whole = _whole_frame(file, header, frame)
    if whole is None:
        raise CorruptionError(
            f"{file.path}: journal record {frame.first_seq} changed while it was read, or is damaged."
        )
    return bytes(whole[_FRAME.size :])


def _whole_frame(file: File, header: JournalHeader, frame: Frame) -> memoryview | None:
    whole = memoryview(bytearray(_FRAME.size + frame.body_bytes))
    n_read = read_available(file, whole, frame.offset)
    found: int = struct.unpack_from("<Q", whole)[0]
    return whole if n_read == len(whole) and found == checksum(whole[8:], header.salt) else None


def _require_nothing_valid_behind(file: File, header: JournalHeader, bad_at: int, n_file_bytes: int) -> int:
    """CorruptionError if there is; otherwise how many bytes are there up to the last one that is not zero."""
    # One frame is at most this long, so a valid frame behind a single bad one begins within the window.
    window = bytearray(max(min(n_file_bytes - bad_at, 2 * MAX_BODY_BYTES), 0))
    read_available(file, memoryview(window), bad_at)
    words = np.frombuffer(window, "<u4", len(window) // _ALIGNMENT * 2)
    # The magic is the third 32-bit word of a frame, and frames begin at multiples of eight bytes.
    for word in np.flatnonzero(words[2::2] == _FRAME_MAGIC).tolist():
        offset = bad_at + word * _ALIGNMENT
        frame = _read_frame(file, header, offset, n_file_bytes) if word else None
        if frame is not None:
            raise CorruptionError(
                f"{file.path}: the journal is damaged at byte {bad_at}: a durable record is unreadable, but a later one"
                f" (at byte {offset}) is not. Nothing was changed; restore the index from a copy."
            )
    return len(window.rstrip(b"\0"))
