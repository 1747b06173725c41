"""How fast is the page store, as a ratio to the bare system calls on the same bytes in the same run?

    python bench/store.py [--megabytes 512] [--repeat 5] [--directory DIR] [--page-bytes 8192,16384,32768,65536]

Questions: sequential page writing with checksums against `os.write` with the same syncs; reading cold (the file
dropped from the page cache) and warm against `os.preadv` into the same buffer; durable journal appends, single and in
groups of 256, against bare write + fdatasync. Store and rival write in turns, piece by piece (4 MB, or one append), so
that both meet the same disk and the same neighbours on the machine. Two ratios are given: of the sums, median over the
repetitions, as a user of this machine would see it at this moment; and of the best time of each piece, summed, which a
busy machine (where the longer of two turns is the one that is interrupted) disturbs less. Raw numbers and the
environment go to bench/results/store.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rtree_anon.storage import create_store, open_snapshot
from rtree_anon.storage.page import empty_run, payloads

RESULTS = Path(__file__).with_name("results") / "store.json"
CHUNK_BYTES = 4 << 20
N_APPENDS, GROUP, RECORD_BYTES = 300, 256, 100


class Turns:
    """Seconds per contestant and turn."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def take(self, who: str, action: Callable[[], object]) -> None:
        start = time.perf_counter()
        action()
        self.seconds.setdefault(who, []).append(time.perf_counter() - start)


Round = dict[str, list[float]]


def median_sum(rounds: list[Round], who: str) -> float:
    return statistics.median(sum(one[who]) for one in rounds)


def best_sum(rounds: list[Round], who: str) -> float:
    return sum(min(times) for times in zip(*(one[who] for one in rounds), strict=True))


def ratio(rounds: list[Round], who: str) -> dict[str, float]:
    """How much of the bare speed the contestant has."""
    return {
        "median": statistics.median(sum(one["bare"]) / sum(one[who]) for one in rounds),
        "best": best_sum(rounds, "bare") / best_sum(rounds, who),
    }


def drop_cache(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def finish_bare(descriptor: int, directory: Path) -> None:
    """The syncs of a commit: the pages, one block, a new small file, its name."""
    os.fdatasync(descriptor)
    os.pwrite(descriptor, bytes(4096), 0)
    os.fdatasync(descriptor)
    small = os.open(directory / "small.new", os.O_RDWR | os.O_CREAT)
    os.write(small, bytes(4128))
    os.fdatasync(small)
    (directory / "small.new").rename(directory / "small")
    os.close(small)
    names = os.open(directory, os.O_RDONLY)
    os.fsync(names)
    os.close(names)


def measure_writing(directory: Path, run: np.ndarray, n_chunks: int) -> Round:
    turns = Turns()
    bare = os.open(directory / "bare", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    with create_store(directory / "index", page_bytes=run.shape[1]) as store:

        def write_chunk() -> None:
            first = store.allocate(len(run))
            store.write_run(np.arange(first, first + len(run), dtype=np.uint64), run, 16)

        for _ in range(n_chunks):
            turns.take("bare", lambda: os.write(bare, run))
            turns.take("store", write_chunk)
        turns.take("bare", lambda: finish_bare(bare, directory))
        turns.take("store", store.commit)
    os.close(bare)
    return turns.seconds


def measure_reading(directory: Path, run: np.ndarray, n_chunks: int, *, cold: bool, bare_first: bool) -> Round:
    turns = Turns()
    if cold:
        drop_cache(directory / "bare")
        drop_cache(directory / "index" / "data")

    def read_bare() -> None:
        bare = os.open(directory / "bare", os.O_RDONLY)
        for chunk in range(n_chunks):
            turns.take("bare", lambda at=chunk * run.nbytes: os.preadv(bare, [run], at))
        os.close(bare)

    def read_store() -> None:
        with open_snapshot(directory / "index") as snapshot:
            ids = snapshot.page_ids()
            for chunk in range(n_chunks):
                some = ids[chunk * len(run) : (chunk + 1) * len(run)]
                turns.take("store", lambda some=some: snapshot.read_run(some, run))

    # One after the other, not in turns: the kernel reads ahead for the one while the other computes. Each is the first
    # in every second round: a disk that lends speed and wants it back is slower for the second.
    for read in (read_bare, read_store) if bare_first else (read_store, read_bare):
        read()
    return turns.seconds


def measure_pages(directory: Path, page_bytes: int, n_bytes: int, n_repeat: int) -> dict[str, object]:
    run = empty_run(CHUNK_BYTES // page_bytes, page_bytes)
    payloads(run)[:] = np.random.default_rng(1).integers(0, 256, payloads(run).shape, np.uint8)
    n_chunks = n_bytes // CHUNK_BYTES
    rounds: dict[str, list[Round]] = {"write": [], "cold read": [], "warm read": []}
    for number in range(n_repeat):
        (directory / "bare").unlink(missing_ok=True)
        shutil.rmtree(directory / "index", ignore_errors=True)
        rounds["write"].append(measure_writing(directory, run, n_chunks))
        rounds["cold read"].append(measure_reading(directory, run, n_chunks, cold=True, bare_first=number % 2 == 0))
        rounds["warm read"].append(measure_reading(directory, run, n_chunks, cold=False, bare_first=number % 2 == 0))
    return {
        "page_bytes": page_bytes,
        "ratios": {what: ratio(rounds[what], "store") for what in rounds},
        "store_megabytes_per_second": {
            what: {
                "median": n_bytes / 1e6 / median_sum(rounds[what], "store"),
                "best": n_bytes / 1e6 / best_sum(rounds[what], "store"),
            }
            for what in rounds
        },
        "seconds": {what: [{who: sum(one[who]) for who in one} for one in rounds[what]] for what in rounds},
    }


def measure_journal(directory: Path, n_repeat: int) -> dict[str, object]:
    record, rounds = os.urandom(RECORD_BYTES), []
    for number in range(n_repeat):
        turns = Turns()
        bare = os.open(directory / "bare.log", os.O_RDWR | os.O_CREAT | os.O_TRUNC)

        def append_bare(descriptor: int = bare) -> None:
            os.write(descriptor, record)
            os.fdatasync(descriptor)

        with (
            create_store(directory / f"single{number}") as single,
            create_store(directory / f"grouped{number}") as grouped,
        ):
            for _ in range(N_APPENDS):
                turns.take("bare", append_bare)
                turns.take("single", lambda store=single: store.append([record]))
                turns.take("grouped", lambda store=grouped: store.append([record] * GROUP))
        os.close(bare)
        rounds.append(turns.seconds)
    ratios = {who: ratio(rounds, who) for who in ("single", "grouped")}
    ratios["grouped"] = {how: GROUP * value for how, value in ratios["grouped"].items()}
    return {
        "record_bytes": RECORD_BYTES,
        "group": GROUP,
        "ratios": ratios,
        "seconds": [{who: sum(one[who]) for who in one} for one in rounds],
        "median_microseconds": [{who: 1e6 * statistics.median(one[who]) for who in one} for one in rounds],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--directory", type=Path, default=None, help="on the disk to be measured (default: a temporary directory)"
    )
    parser.add_argument("--page-bytes", default="8192,16384,32768,65536")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-store-") as name:
        directory = Path(name)
        pages = [
            measure_pages(directory, int(size), options.megabytes << 20, options.repeat)
            for size in options.page_bytes.split(",")
        ]
        journal = measure_journal(directory, options.repeat)
    result = {
        "environment": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": platform.machine(),
            "system": platform.system(),
            "processors": os.cpu_count(),
            "load_average": os.getloadavg()[0],
        },
        "megabytes": options.megabytes,
        "repeat": options.repeat,
        "pages": pages,
        "journal": journal,
        "peak_rss_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print("ratio to the bare calls, by sums (by the best of each piece)")
    for entry in pages:
        words = [f"{what} {found['median']:.2f} ({found['best']:.2f})" for what, found in entry["ratios"].items()]
        print(f"{entry['page_bytes']:>6} byte pages: " + ", ".join(words))
    words = [f"{what} {found['median']:.2f} ({found['best']:.2f})" for what, found in journal["ratios"].items()]
    print("journal appends: " + ", ".join(words))


if __name__ == "__main__":
    main()
