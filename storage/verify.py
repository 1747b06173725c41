"""Checking a whole index, and looking at one page of it. Reads everything, changes nothing.

`verify_store` checks the header, both commit records and their chain, the page map and every page of both versions,
the journal, and how they fit together; every physical page is then reachable or free, never both (`PageMap` refuses a
page that is used twice). It goes on after the first problem, so that the report shows the extent of the damage. Only a
reader's registration is written (a `reader-…` file, so that a living writer leaves the pages alone); where that is not
allowed, it does without.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Final

import numpy as np

from rtree_anon.errors import AnonError, CorruptionError, StorageError
from rtree_anon.storage.datafile import DataFile, Slots
from rtree_anon.storage.files import OPERATING_SYSTEM, Access, File, FileSystem
from rtree_anon.storage.frames import JournalHeader, Scan, read_journal_header, read_records, scan_journal
from rtree_anon.storage.journal import open_journal_file
from rtree_anon.storage.layout import PAGE_HEADER, PAGE_HEADER_BYTES, Commit
from rtree_anon.storage.opening import open_snapshot
from rtree_anon.storage.page import describe_damage, empty_run
from rtree_anon.storage.pagemap import PageMap, load_map
from rtree_anon.storage.snapshot import Snapshot
from rtree_anon.storage.store import DATA

_STEP_BYTES: Final = 4 << 20
_ATTEMPTS: Final = 3  # to catch a moment between two commits of a living writer
_JOURNAL_PAUSE_SECONDS: Final = 0.01


@dataclass
class VerifyReport:
    """What was found. ``ok`` is False if anything that was durable cannot be trusted; notes are harmless."""

    path: str
    commit_id: int | None = None
    page_bytes: int | None = None
    n_pages: int = 0  # physical pages of the newest version
    n_live: int = 0  # logical pages that exist in it
    n_map: int = 0  # pages of its page map
    n_kept: int = 0  # pages that only the version in the other slot needs
    n_free: int = 0  # pages that nothing reaches
    n_journal_records: int = 0
    overtaken: bool = False  # a living writer replaced a version while it was being checked
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def verify_store(path: str | PathLike[str], *, fs: FileSystem = OPERATING_SYSTEM) -> VerifyReport:
    """Check everything in an index directory; damage is in the report, it is not raised."""
    directory = fspath(path)
    if not fs.is_directory(directory):
        raise StorageError(f"{directory}: there is no index here (an index is a directory).")
    report = _verify_once(fs, directory)
    for _ in range(_ATTEMPTS - 1):
        if not report.overtaken:
            break
        report = _verify_once(fs, directory)
    return report


def inspect_page(path: str | PathLike[str], physical: int, *, fs: FileSystem = OPERATING_SYSTEM) -> dict[str, Any]:
    """The raw page at a physical place: its header as it stands, what it is to the two versions, and its bytes."""
    directory = fspath(path)
    data = DataFile.open(fs, f"{directory}/{DATA}", Access.READ)
    try:
        n_whole = data.n_whole_pages()
        if not 0 <= physical < n_whole:
            raise StorageError(f"{data.path}: there is no page {physical}; the file has {n_whole}.")
        run = empty_run(1, data.header.page_bytes)
        data.read_pages(np.array([physical], np.uint64), run)
        header = run[0, :PAGE_HEADER_BYTES].view(PAGE_HEADER)[0]
        stored = int(header["checksum"])
        uses = [use for commit in data.read_slots().valid() for use in _uses_of(data, commit, physical)]
        return {
            "physical": physical,
            "offset": data.header.offset(physical),
            "state": "; ".join(uses) or "free",
            "header": {name: int(header[name]) for name in PAGE_HEADER.names or ()},
            "damage": _damage(run, int(header["page_id"]), stored),
            "bytes": run[0].tobytes(),
        }
    finally:
        data.close()


def inspect_store(path: str | PathLike[str], *, fs: FileSystem = OPERATING_SYSTEM) -> dict[str, Any]:
    """Header, commit records and journal of an index, as they stand."""
    directory = fspath(path)
    facts: dict[str, Any] = {"path": directory}
    data = DataFile.open(fs, f"{directory}/{DATA}", Access.READ)
    try:
        facts["page_bytes"] = data.header.page_bytes
        facts["store_id"], facts["file_id"] = data.header.store_id.hex(), data.header.file_id.hex()
        facts["pages_in_file"] = data.n_whole_pages()
        slots = data.read_slots()
        facts["slots"] = [_slot_facts(slots, parity) for parity in (0, 1)]
    finally:
        data.close()
    journal = open_journal_file(fs, directory)
    try:
        header = read_journal_header(journal)
        scan = _scan_patiently(fs, journal, header)
        facts["journal"] = {
            "durable_commit": header.durable_commit,
            "first_seq": header.first_seq,
            "next_seq": scan.next_seq,
            "frames": len(scan.frames),
            "torn_bytes": scan.n_torn_bytes,
        }
    finally:
        journal.close()
    return facts


def _verify_once(fs: FileSystem, directory: str) -> VerifyReport:
    report = VerifyReport(directory)
    snapshot: Snapshot | None = None
    try:
        try:
            snapshot = open_snapshot(directory, fs=fs)
        except CorruptionError as error:
            report.problems.append(str(error))
        except StorageError as error:
            report.notes.append(f"not registered as a reader, so only right while nobody writes: {error}")
        _verify_journal(fs, directory, report)
        _verify_pages(fs, directory, report, None if snapshot is None else snapshot.commit_id)
    except StorageError as error:
        report.problems.append(str(error))
    finally:
        if snapshot is not None:
            snapshot.close()
    report.problems = list(dict.fromkeys(report.problems))
    return report


def _verify_journal(fs: FileSystem, directory: str, report: VerifyReport) -> None:
    try:
        journal = open_journal_file(fs, directory)
    except StorageError as error:
        report.problems.append(str(error))
        return
    try:
        header = read_journal_header(journal)
        scan = _scan_patiently(fs, journal, header)
        for frame in scan.frames:
            report.n_journal_records += sum(1 for _ in read_records(journal, header, frame))
        if scan.n_torn_bytes:
            report.notes.append(f"{scan.n_torn_bytes} bytes at the end of the journal are an unfinished write")
    except StorageError as error:
        report.problems.append(str(error))
    finally:
        journal.close()


def _scan_patiently(fs: FileSystem, journal: File, header: JournalHeader) -> Scan:
    """A record that a living writer was just writing may look damaged for a moment; what is damaged stays so."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return scan_journal(journal, header)
        except CorruptionError:
            fs.pause(_JOURNAL_PAUSE_SECONDS)
    return scan_journal(journal, header)


def _verify_pages(fs: FileSystem, directory: str, report: VerifyReport, pinned_id: int | None) -> None:
    data = DataFile.open(fs, f"{directory}/{DATA}", Access.READ)
    try:
        report.page_bytes = data.header.page_bytes
        slots = data.read_slots()
        valid = slots.valid()
        if not valid:
            report.problems.append(f"{data.path}: neither commit record can be read.")
            return
        for parity, commit in enumerate(slots.by_parity):
            if commit is None and not slots.blank[parity]:
                report.notes.append(f"commit slot {parity} holds no valid record: an interrupted commit")
        if len(valid) == 2 and not _is_chained(slots, valid):
            report.problems.append(
                f"{data.path}: versions {valid[1].commit_id} and {valid[0].commit_id} are not of one chain."
            )
        newest = valid[0]
        report.commit_id, report.n_pages = newest.commit_id, newest.n_pages
        is_used = np.zeros(data.n_whole_pages(), np.bool_)
        for commit in valid:
            pages, problems = _verify_version(data, commit)
            if problems and commit.commit_id != pinned_id and not data.read_slots().holds(commit):
                report.overtaken = True  # its pages were reused, as they may be
                report.notes.append(f"version {commit.commit_id} was replaced while it was being checked")
                continue
            report.problems += problems
            if pages is None:
                continue
            reach = pages.reachable()
            if commit is newest:
                report.n_live = len(pages.page_ids())
                report.n_map = len(reach) - report.n_live
            is_used[reach] = True
        report.n_kept = int(is_used.sum()) - report.n_live - report.n_map
        report.n_free = newest.n_pages - int(is_used[: newest.n_pages].sum())
    finally:
        data.close()


def _verify_version(data: DataFile, commit: Commit) -> tuple[PageMap | None, list[str]]:
    """The page map of a version, if it can be read, and everything that is wrong with it and its pages."""
    problems: list[str] = []
    try:
        pages = load_map(data, commit)
    except CorruptionError as error:
        return None, [str(error)]
    version = Snapshot(data, commit, pages, None)
    ids = pages.page_ids()
    step = max(1, _STEP_BYTES // data.header.page_bytes)
    buffer = empty_run(min(step, len(ids)), data.header.page_bytes)
    for start in range(0, len(ids), step):
        some = ids[start : start + step]
        try:
            version.read_run(some, buffer)
        except StorageError:
            for page_id in some.tolist():  # once more, one by one, to name every page that is damaged
                try:
                    version.read(page_id)
                except AnonError as error:
                    problems.append(str(error))
    return pages, problems


def _is_chained(slots: Slots, valid: list[Commit]) -> bool:
    newer, older = valid
    return newer.commit_id != older.commit_id + 1 or newer.previous_checksum == slots.checksum_of(older)


def _uses_of(data: DataFile, commit: Commit, physical: int) -> list[str]:
    try:
        pages = load_map(data, commit)
    except CorruptionError as error:
        return [f"version {commit.commit_id} cannot be followed: {error}"]
    return [
        f"version {commit.commit_id}: "
        + (f"page {number}" if level == 0 else f"page map, level {level}, page {number}")
        for level, entries in enumerate(pages.levels)
        for number in np.flatnonzero(entries[:, 0] == physical).tolist()
    ]


def _damage(run: np.ndarray[Any, np.dtype[np.uint8]], page_id: int, stored: int) -> str | None:
    words = describe_damage(run[0], page_id, stored)
    return None if words == "its header is impossible" else words


def _slot_facts(slots: Slots, parity: int) -> dict[str, Any]:
    commit = slots.by_parity[parity]
    if commit is None:
        return {"state": "empty" if slots.blank[parity] else "not valid"}
    return {
        "state": "valid",
        "commit_id": commit.commit_id,
        "n_pages": commit.n_pages,
        "n_logical": commit.n_logical,
        "root_physical": commit.root_physical if commit.n_logical else None,
        "journal_seq": commit.journal_seq,
        "metadata": commit.metadata,
    }
