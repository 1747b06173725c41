"""The journal: logical records, durable before they are acknowledged, until a commit contains them.

`append` only collects; `flush` writes everything collected as one frame and syncs once, so many records (or many
threads: the second one waits for the first one's sync and mostly finds its record in the next) share a sync. `rotate`
replaces the file by a fresh one that names the newest durable commit; it is the only way in which a journal ever gets
shorter, and it is atomic. Zeros are written in reserve behind the end, so that most frames change neither the length
of the file nor where its blocks are: then a sync has nothing to write but the frame (a quarter faster on ext4).

Invariant: the records of the files that ever had the name ``journal`` form one sequence without holes, of which a
commit contains a prefix. An I/O error ends the journal: what a failed sync left on disk is unknown, and only a fresh
look at the file (reopening) may decide. Byte maps are in `frames`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final

from rtree_anon.errors import CorruptionError, StorageError, UsageError
from rtree_anon.storage.files import Access, File, FileSystem, explained, write_fully
from rtree_anon.storage.frames import (
    MAX_BODY_BYTES,
    JournalHeader,
    Scan,
    encode_frame,
    encode_journal_header,
    frame_at,
    read_journal_header,
    read_records,
    scan_journal,
)

JOURNAL: Final = "journal"
NEW_JOURNAL: Final = "journal.new"
MAX_RECORD_BYTES: Final = MAX_BODY_BYTES - 64
_OVERHEAD_BYTES: Final = 4
_RESERVE_BYTES: Final = 16 << 10


class Journal:
    """The open journal of the one writer. `append` and `flush` may be called from many threads."""

    def __init__(self, fs: FileSystem, directory: str, file: File, scan: Scan) -> None:
        self._fs, self._directory, self._file = fs, directory, file
        self._adopt(scan)
        self._waiting: list[bytes] = []
        self._collecting = threading.Lock()  # guards what waits
        self._writing = threading.Lock()  # guards the file; taken first
        self._ended: str | None = None

    @classmethod
    def create(cls, fs: FileSystem, directory: str, store_id: bytes, durable_commit: int) -> Journal:
        """Make the journal of a new store. The caller syncs the directory."""
        header = JournalHeader(store_id, _salt(fs), 1, durable_commit)
        file, scan = _write_new(fs, f"{directory}/{JOURNAL}", header, [])
        return cls(fs, directory, file, scan)

    @classmethod
    def open(cls, fs: FileSystem, directory: str, store_id: bytes) -> Journal:
        """Look at the existing journal; `rotate` must follow before anything is appended."""
        file = open_journal_file(fs, directory)
        try:
            return cls(fs, directory, file, scan_journal(file, read_journal_header(file, store_id)))
        except BaseException:
            file.close()
            raise

    @property
    def header(self) -> JournalHeader:
        return self._header

    @property
    def durable_seq(self) -> int:
        """The last record that survives a power cut (0: none ever)."""
        return self._durable_seq

    @property
    def last_seq(self) -> int:
        """The last record appended, durable or not."""
        with self._collecting:
            return self._durable_seq + len(self._waiting)

    def append(self, records: Sequence[bytes]) -> int:
        """Collect records; the sequence number of the last one. They are durable after the next `flush`."""
        self._require_alive()
        for record in records:
            if len(record) > MAX_RECORD_BYTES:
                raise UsageError(
                    f"A journal record of {len(record)} bytes is too long; {MAX_RECORD_BYTES} is the limit."
                )
        with self._collecting:
            self._waiting.extend(records)
            return self._durable_seq + len(self._waiting)

    def flush(self, seq: int | None = None) -> int:
        """Make everything collected (at least up to `seq`) durable; the last durable sequence number."""
        with self._writing:
            self._require_alive()
            if seq is not None and seq <= self._durable_seq:
                return self._durable_seq  # another thread's sync carried it
            with self._collecting:
                records = self._waiting[:]
            try:
                for group in _frames_of(records):
                    self._write_frame(group)
            except BaseException as error:
                self._ended = f"{self._directory}: the journal ended with an error ({error}). Reopen the index."
                raise
            return self._durable_seq

    def replay(self, after_seq: int) -> Iterator[tuple[int, bytes]]:
        """Durable records behind `after_seq`, in order."""
        for frame in self._frames:
            if frame.first_seq + frame.n_records - 1 > after_seq:
                for seq, record in read_records(self._file, self._header, frame):
                    if seq > after_seq:
                        yield seq, record

    def rotate(self, durable_commit: int, applied_seq: int, *, discard: bool = False) -> None:
        """Replace the journal by one that names `durable_commit` and keeps only the records behind `applied_seq`.

        Only to be called when that commit is durable: the records it drops are nowhere else. With `discard` nothing is
        kept (the caller accepted to lose it), and numbering goes on behind `applied_seq`.
        """
        with self._writing:
            self._require_alive()
            try:
                keep = [] if discard else [record for _, record in self.replay(applied_seq)]
                header = JournalHeader(self.header.store_id, _salt(self._fs), applied_seq + 1, durable_commit)
                new, scan = _write_new(self._fs, f"{self._directory}/{NEW_JOURNAL}", header, keep)
                try:
                    with explained("put the new journal in place", self._directory):
                        self._fs.rename(f"{self._directory}/{NEW_JOURNAL}", f"{self._directory}/{JOURNAL}")
                        self._fs.sync_directory(self._directory)
                except BaseException:
                    new.close()
                    raise
            except BaseException as error:
                self._ended = f"{self._directory}: the journal could not be replaced ({error}). Reopen the index."
                raise
            self._file.close()
            new.path = f"{self._directory}/{JOURNAL}"
            self._file = new
            self._adopt(scan)

    def close(self) -> None:
        """Close the file. What was appended and not flushed is gone, as it would be in a crash."""
        with self._writing:  # another thread may be about to write
            self._ended = self._ended or f"{self._directory}: the journal is closed."
            self._file.close()

    def _adopt(self, scan: Scan) -> None:
        self._header, self._frames, self._end = scan.header, list(scan.frames), scan.end
        self._n_file_bytes, self._durable_seq = scan.n_file_bytes, scan.next_seq - 1

    def _write_frame(self, records: list[bytes]) -> None:
        file, at, salt = self._file, self._end, self._header.salt
        first_seq, n_records = self._durable_seq + 1, len(records)
        frame = encode_frame(records, first_seq, salt)
        seal = encode_frame((), first_seq + n_records, salt)  # now: behind the sync the processor's caches are cold
        with explained("write to the journal", file.path):
            is_in_reserve = at + len(frame) + len(seal) <= self._n_file_bytes
            n_reserve = 0 if is_in_reserve or len(frame) > _RESERVE_BYTES // 8 else _RESERVE_BYTES
            write_fully(file, frame + bytes(n_reserve), at)
            file.sync()
            self._n_file_bytes = max(self._n_file_bytes, at + len(frame) + n_reserve)
            # Not synced: it costs next to nothing, and lets recovery tell damage to the last frame from a torn write.
            write_fully(file, seal, at + len(frame))
        self._frames.append(frame_at(at, n_records, first_seq, len(frame)))
        self._end = at + len(frame)
        with self._collecting:
            del self._waiting[:n_records]
            self._durable_seq += n_records

    def _require_alive(self) -> None:
        if self._ended is not None:
            raise StorageError(self._ended)


def open_journal_file(fs: FileSystem, directory: str) -> File:
    """The journal for reading; its absence is damage, because only it knows which commit was durable (P6)."""
    path = f"{directory}/{JOURNAL}"
    with explained("open the journal", path):
        try:
            return fs.open(path, Access.READ)
        except FileNotFoundError:
            raise CorruptionError(f"{directory}: the journal is missing. Restore the index from a copy.") from None


def _write_new(fs: FileSystem, path: str, header: JournalHeader, records: list[bytes]) -> tuple[File, Scan]:
    """Write a whole journal under a name that nobody looks at yet, and sync it."""
    with explained("write a new journal", path):
        if fs.exists(path):
            fs.remove(path)  # left behind by a crash
        file = fs.open(path, Access.CREATE)
        try:
            content = bytearray(encode_journal_header(header))
            frames, seq = [], header.first_seq
            for group in _frames_of(records):
                encoded = encode_frame(group, seq, header.salt)
                frames.append(frame_at(len(content), len(group), seq, len(encoded)))
                content += encoded
                seq += len(group)
            end = len(content)
            content += encode_frame([], seq, header.salt) + bytes(_RESERVE_BYTES)
            write_fully(file, content, 0)
            file.sync()
        except BaseException:
            file.close()
            raise
    return file, Scan(header, tuple(frames), end, 0, len(content))


def _frames_of(records: list[bytes]) -> list[list[bytes]]:
    """Records in groups that fit into one frame each."""
    if not records or sum(map(len, records)) + _OVERHEAD_BYTES * len(records) <= MAX_RECORD_BYTES:
        return [records] if records else []
    groups: list[list[bytes]] = [[]]
    n_group = 0
    for record in records:
        n_record = len(record) + _OVERHEAD_BYTES
        if groups[-1] and n_group + n_record > MAX_RECORD_BYTES:
            groups.append([])
            n_group = 0
        groups[-1].append(record)
        n_group += n_record
    return groups


def _salt(fs: FileSystem) -> int:
    return int.from_bytes(fs.random_bytes(8), "little")
