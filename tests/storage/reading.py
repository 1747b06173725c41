"""One writer and readers in processes: repeatable reads, versions that never go back, a file that does not grow for
ever.

    python -m tests.storage.reading write PATH SECONDS           python -m tests.storage.reading read PATH SECONDS SEED
Every page of version v holds v; a reader that meets another number, or a damaged page, has seen the writer's hands.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import numpy as np

from rtree_anon.storage import Snapshot, open_snapshot, open_store

N_PAGES = 60


def stamp(version: int, page_id: int) -> bytes:
    return version.to_bytes(8, "little") * (20 + page_id % 50)


def write(path: Path, seconds: float) -> None:
    """Rewrite all pages in every version; now and then into a fresh file, or by a new writer."""
    rng, end = random.Random(1), time.monotonic() + seconds
    store = open_store(path)
    version = store.metadata.get("version", 0)
    n_commits = largest = 0
    while time.monotonic() < end:
        version += 1
        dice = rng.random()
        if dice < 0.02:
            store.close()
            store = open_store(path)
        elif dice < 0.03:
            store.compact()
        if len(store.page_ids()) == 0:
            store.allocate(N_PAGES)
        for page_id in rng.sample(range(N_PAGES), N_PAGES):
            store.write(page_id, stamp(version, page_id), 16)
        store.commit({"version": version})
        largest = max(largest, store.n_pages)
        n_commits += 1
        time.sleep(0.002)
    store.close()
    print(n_commits, largest)


def read(path: Path, seconds: float, seed: int) -> None:
    """Open, read the same pages several times, hold on for a while, close, open again."""
    rng, end, newest, n_snapshots = random.Random(seed), time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        with open_snapshot(path) as snapshot:
            n_snapshots += 1
            version = snapshot.metadata.get("version", 0)
            assert version >= newest, f"version {version} after {newest}"
            newest = version
            for _ in range(rng.randrange(1, 5)):
                check(snapshot, version, rng)
                time.sleep(rng.random() * 0.08)
    print(n_snapshots)


def check(snapshot: Snapshot, version: int, rng: random.Random) -> None:
    ids = snapshot.page_ids()
    assert len(ids) == (N_PAGES if version else 0)
    run = np.empty((len(ids), snapshot.page_bytes), np.uint8)
    lengths = snapshot.read_run(ids, run)
    for page_id in ids.tolist():
        assert run[page_id, 32 : 32 + int(lengths[page_id])].tobytes() == stamp(version, page_id)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        read(Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
