"""Seeded bugs: patches of the store, each a small change of text in one function, that the tests must catch.

A patch is (module, function, old text, new text). If the old text is no longer there the patch does not apply and the
test fails, so patches cannot rot. `applied` puts the changed function into every module that uses it, and takes it out
again.
"""
# ruff: noqa: E501 -- patches stand on as few lines as they need

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One seeded bug, and the test that should find it (others are tried as well)."""

    name: str
    module: str
    function: str
    old: str
    new: str
    hint: str


MUTANTS = [
    Mutant("pages are not synced before the commit record", "store", "DiskStore.commit",
           "            edit.data.sync()\n            slot_checksum", "            slot_checksum", "crash: commits with splits"),
    Mutant("the commit record is not synced", "store", "DiskStore.commit",
           "edit.data.write_commit(record)\n            edit.data.sync()", "edit.data.write_commit(record)", "crash: deletes with merges"),
    Mutant("the commit record is written before the pages are synced", "store", "DiskStore.commit",
           "            edit.data.sync()\n            slot_checksum = edit.data.write_commit(record)\n",
           "            slot_checksum = edit.data.write_commit(record)\n            edit.data.sync()\n", "crash: commits with splits"),
    Mutant("the journal is rotated before the commit record is durable", "store", "DiskStore.commit",
           "            edit.data.sync()\n            slot_checksum",
           "            self._journal.rotate(record.commit_id, journal_seq)\n            edit.data.sync()\n            slot_checksum",
           "crash: journal rotation"),
    Mutant("the journal is not rotated, so it names an old commit", "store", "DiskStore.commit",
           "self._journal.rotate(record.commit_id, journal_seq)", "pass", "rollback: damaged newest record"),
    Mutant("the store goes on after an error inside a commit", "store", "DiskStore.commit",
           'self._end(f"the commit failed ({error})")', "pass", "faults: failed sync"),
    Mutant("always the same commit slot", "store", "DiskStore.commit",
           "self._next_commit_id = record.commit_id + 1", "self._next_commit_id = record.commit_id + 2", "crash: deletes with merges"),
    Mutant("a commit record is believed without its checksum", "layout", "decode_commit",
           "if magic != _SLOT_MAGIC or found != checksum(block[8:BLOCK_BYTES]):", "if magic != _SLOT_MAGIC:", "tear: commit record"),
    Mutant("pages of the commit in the other slot are reused", "store", "DiskStore._free_space",
           "[self._pages] if self._other is None else [self._pages, self._other[1]]", "[self._pages]", "crash: deletes with merges"),
    Mutant("pages of registered readers are reused", "store", "DiskStore._free_space",
           "pinned = pinned_commits(self._fs, self._directory, self._data.header)", "pinned = []", "readers: pinned"),
    Mutant("a reader does not look again after registering", "opening", "_try_snapshot",
           "if not data.read_slots().holds(commit):", "if False:", "readers: registering"),
    Mutant("an unreadable registration is ignored", "readers", "pinned_commits",
           "            if commit is None:\n                return None\n            pinned.append(commit)",
           "            if commit is not None:\n                pinned.append(commit)", "hostile: absurd pin"),
    Mutant("dead readers count as living", "readers", "pinned_commits",
           "if file.try_lock():", "if False:", "readers: file growth"),
    Mutant("a second writer is let in", "readers", "lock_writer", "if not lock.try_lock():", "if lock.try_lock() is None:", "readers: second writer"),
    Mutant("the checksum of a page is not compared", "page", "check_run",
           'right = (header["checksum"] == _checksums(run)) & (header["checksum"] == expected)',
           'right = header["checksum"] == expected', "flips: pages"),
    Mutant("the checksum in the page map is not compared", "page", "check_run",
           '(header["checksum"] == _checksums(run)) & (header["checksum"] == expected)',
           '(header["checksum"] == _checksums(run))', "rollback: stale page"),
    Mutant("payload lengths from disk are not checked", "page", "check_run",
           "(lengths <= run.shape[1] - PAGE_HEADER_BYTES)", "(lengths >= 0)", "hostile: long payload"),
    Mutant("what is behind payloads of one length is not zeroed", "page", "seal_run",
           "run[:, PAGE_HEADER_BYTES + lengths :] = 0", "pass", "scrub: buffers"),
    Mutant("what is behind a short payload is not zeroed", "page", "seal_run",
           "run[row, PAGE_HEADER_BYTES + int(lengths[row]) :] = 0", "pass", "scrub: buffers"),
    Mutant("two pages may be in one place", "pagemap", "_require_sound",
           "if bool((ordered[1:] == ordered[:-1]).any()):", "if False:", "hostile: one page twice"),
    Mutant("page numbers behind the end are not refused", "pagemap", "_require_sound",
           "if int(ordered[-1]) >= n_pages:", "if False:", "hostile: terabytes"),
    Mutant("a map page that grew is not written again", "pagemap", "write_map",
           "changed |= {n_here - 1, min(max(n_before - 1, 0) // fanout, n_here - 1)}", "pass", "conformance: gaps"),
    Mutant("a page freed in its own transaction is given out twice", "edit", "Edit.free",
           "self._space.give_back(self._entries[fresh, 0])",
           "self._space.give_back(np.concatenate([self._entries[fresh, 0]] * 2))", "conformance: freed places"),
    Mutant("pages of the committed version are given back as free", "edit", "Edit.free",
           "fresh = page_ids[state == _FRESH]",
           "fresh = page_ids[self._entries[page_ids, 0] != NO_PAGE]", "crash: deletes with merges"),
    Mutant("a journal record is acknowledged without a sync", "journal", "Journal._write_frame",
           "            file.sync()\n", "", "crash: journal rotation"),
    Mutant("a new journal is not synced before it gets its name", "journal", "_write_new",
           "            file.sync()\n", "", "crash: journal rotation"),
    Mutant("the directory is not synced after the journal was replaced", "journal", "Journal.rotate",
           "                        self._fs.sync_directory(self._directory)\n", "", "crash: journal rotation"),
    Mutant("rotation drops records that no commit contains", "journal", "Journal.rotate",
           "keep = [] if discard else", "keep = [] if True else", "crash: journal rotation"),
    Mutant("a frame is believed without its checksum", "frames", "_whole_frame",
           "n_read == len(whole) and found == checksum(whole[8:], header.salt)", "n_read == len(whole)", "tear: journal record"),
    Mutant("a damaged record in the middle quietly ends the journal", "frames", "scan_journal",
           "_require_nothing_valid_behind(file, header, at, n_file_bytes)", "0", "flips: journal"),
    Mutant("no seal behind the last frame", "journal", "Journal._write_frame",
           "write_fully(file, seal, at + len(frame))", "pass", "flips: journal"),
    Mutant("an error of syncing ahead does not end the store", "store", "DiskStore.sync_ahead",
           'self._end(f"syncing ahead failed ({error})")\n', "pass\n", "syncing ahead: error"),
    Mutant("a failed sync is forgotten by the next one", "datafile", "DataFile._sync",
           "self._sync_failed = True", "pass", "syncing ahead: commit"),
    Mutant("a file is closed under a sync", "datafile", "DataFile.close",
           "        with self._syncing:\n            self._is_open = False\n            self._file.close()\n",
           "        self._is_open = False\n        self._file.close()\n", "syncing ahead: close"),
    Mutant("an id in use is allocated again", "edit", "Edit.free",
           "self._lowest_free = min(self._lowest_free, int(page_ids.min()))", "self._lowest_free = 1 << 40", "conformance: ids"),
    Mutant("room that was freed is not found", "edit", "Edit.free",
           "self._too_long = MAX_PAGES + 1", "pass", "conformance: ids"),
    Mutant("the journal goes on after a failed sync", "store", "DiskStore._flush",
           'self._end(f"the journal failed ({error})")\n', "self._journal._ended = None\n", "faults: failed journal sync"),
    Mutant("an older version is silently taken", "opening", "_newest",
           "if commit.commit_id < durable and not allow_rollback:", "if False:", "rollback: damaged newest record"),
    Mutant("what was found unacknowledged is not written again", "opening", "open_store",
           "            data.write_commit(commit)\n", "            pass\n", "faults: all"),
    Mutant("a new file is not made durable before it replaces the old one", "store", "DiskStore._install",
           "            self._fs.sync_directory(self._directory)\n", "", "crash: bulk load"),
    Mutant("a new index gets its name before its files are synced", "opening", "create_store",
           "                data.sync()\n", "", "crash: create"),
    Mutant("the names in a new index are not synced", "opening", "create_store",
           "            fs.sync_directory(making)\n", "", "crash: create"),
    Mutant("the name of a new index is not synced", "opening", "create_store",
           "        fs.sync_directory(parent)\n", "", "crash: create"),
    Mutant("published files are not synced", "publish", "_write_file", "            file.sync()\n", "", "crash: publish"),
    Mutant("the names of published files are not synced", "publish", "Publication.finish",
           "            fs.sync_directory(self._making)\n", "", "crash: publish"),
    Mutant("the name of a published directory is not synced", "publish", "Publication.finish",
           "            fs.sync_directory(self._parent)\n", "", "crash: publish"),
    Mutant("a manifest is believed without its digest", "publish", "_decode",
           "or _canonical(_with_digest(manifest)) != content", "", "flips: manifest"),
    Mutant("a short write counts as a whole one", "files", "write_fully",
           "view, offset = view[n_written:], offset + n_written", "break", "faults: short writes"),
    Mutant("a registration keeps the metadata", "layout", "without_metadata", "return replace(commit, metadata={})", "return commit", "scrub: deleted"),
    Mutant("numbers in a commit record are not checked", "layout", "decode_commit", "if not possible:", "if False:", "hostile: logical pages"),
]  # fmt: skip


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The store with this bug in it."""
    module = importlib.import_module(f"rtree_anon.storage.{mutant.module}")
    owner_name, _, name = mutant.function.rpartition(".")
    owner = getattr(module, owner_name) if owner_name else module
    original = inspect.getattr_static(owner, name)
    plain = original.__func__ if isinstance(original, classmethod | staticmethod) else original
    source = textwrap.dedent(inspect.getsource(plain))
    indent = len(inspect.getsource(plain)) - len(inspect.getsource(plain).lstrip())
    old, new = (_dedent_by(text, indent) for text in (mutant.old, mutant.new))
    assert source.count(old) == 1, (
        f"the patch {mutant.name!r} does not apply to {mutant.function}: {source.count(old)} places"
    )
    scope: dict[str, object] = {}
    changed = compile("from __future__ import annotations\n" + source.replace(old, new), f"<{mutant.name}>", "exec")
    exec(changed, module.__dict__, scope)
    replacement = scope[name]
    if isinstance(original, classmethod | staticmethod):
        replacement = type(original)(replacement)
    users = [owner] if owner_name else [m for m in _modules() if getattr(m, name, None) is original]
    for user in users:
        setattr(user, name, replacement)
    try:
        yield
    finally:
        for user in users:
            setattr(user, name, original)


def _dedent_by(text: str, indent: int) -> str:
    """The patch is written as it stands in the file; methods are compared without their class's indentation."""
    lines = text.split("\n")
    return "\n".join(line[indent:] if line.startswith(" " * indent) else line for line in lines)


def _modules() -> list[object]:
    """Every module that may hold the function under its name: the store's and the tests'."""
    return [m for name, m in list(sys.modules.items()) if name.startswith(("rtree_anon.storage", "tests.storage"))]
