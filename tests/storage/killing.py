"""Kills writing children with SIGKILL and looks at what they left: everything that they reported must be there.

Run as a program of its own (one thread, so that forking is safe):  python -m tests.storage.killing DIRECTORY LOOPS
SEED The child reports each acknowledgement as one line in a pipe *after* the call returned; prints the number of kills
at the end.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from rtree_anon.storage import create_store, open_store, verify_store

PAGE_BYTES = 4096


def content(commit: int, page_id: int) -> bytes:
    return (commit * 1_000_003 + page_id).to_bytes(8, "little") * (1 + (commit + page_id) % 60)


def write_for_ever(path: Path, report: int, seed: int) -> None:
    """Commit after commit, and journal records in between, until killed."""
    rng = random.Random(seed)
    with open_store(path) as store:
        commit, seq = int(store.metadata.get("commit", 0)), store.flush()
        while True:
            commit += 1
            ids = store.page_ids()
            if len(ids) < 16:
                first = store.allocate(4)
                ids = np.concatenate([ids, np.arange(first, first + 4, dtype=np.uint64)])
            for page_id in ids.tolist():
                store.write(page_id, content(commit, page_id), 16)
            for _ in range(rng.randrange(4)):
                seq = store.append([seq_record(seq + 1)])
                os.write(report, f"journal {seq}\n".encode())
            if rng.random() < 0.1:
                store.commit({"commit": commit}, journal_seq=seq)
                store.compact(scrub=True)
            else:
                store.commit({"commit": commit}, journal_seq=seq if rng.random() < 0.5 else None)
            os.write(report, f"commit {commit}\n".encode())


def seq_record(seq: int) -> bytes:
    return b"record %d" % seq


def kill_once(path: Path, seed: int) -> int:
    """One child, one kill some time after its first few acknowledgements (or before), one look; their number."""
    rng = random.Random(seed)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            write_for_ever(path, write_end, seed)
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        acknowledged = [pipe.readline() for _ in range(rng.randrange(8))]
        time.sleep(rng.random() * 0.02)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the child failed before it could be killed"
        acknowledged += pipe.read().splitlines()
    last = {"commit": 0, "journal": 0}
    for line in acknowledged:
        kind, number = line.decode().split()
        last[kind] = max(last[kind], int(number))
    look(path, last["commit"], last["journal"])
    return len(acknowledged)


def look(path: Path, n_commits: int, n_records: int) -> None:
    with open_store(path) as store:  # a LockedError here would be a lock that outlived its owner
        commit = store.metadata.get("commit", 0)
        assert n_commits <= commit, f"commit {n_commits} was acknowledged, {commit} is there"
        for page_id in store.page_ids().tolist():
            assert bytes(store.read(page_id)) == content(commit, page_id), f"page {page_id} is not of commit {commit}"
        replayed = store.replay()
        last = store.journal_seq + len(replayed)
        assert [seq for seq, _ in replayed] == list(range(store.journal_seq + 1, last + 1))
        assert all(record == seq_record(seq) for seq, record in replayed)
        assert last >= n_records, f"journal record {n_records} was acknowledged and is gone"
    report = verify_store(path)
    assert report.ok, report.problems


def main() -> None:
    directory, n_loops, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    path = directory / f"killed-{seed}.idx"
    create_store(path, page_bytes=PAGE_BYTES).close()
    n_acknowledged = 0
    for loop in range(n_loops):
        try:
            n_acknowledged += kill_once(path, seed * 100_000 + loop)
        except AssertionError as violation:
            again = f"python -m tests.storage.killing {directory} {n_loops} {seed}"
            sys.exit(f"{violation} -- loop {loop}; repeat with: {again}")
    if n_acknowledged < n_loops:
        sys.exit(f"only {n_acknowledged} acknowledgements in {n_loops} loops: the children do not get to write")
    print(n_loops)


if __name__ == "__main__":
    main()
