"""Peak memory of a load, a release and a stream, in a process of its own:

    python -m tests.index.measuring SMALL LARGE MEMORY

SMALL and LARGE are Parquet files; all is done with the small one first, so that the baseline is a process whose imports
are done and whose kernels are compiled (P10). Prints the peaks above it, in bytes, as JSON. Where the files have a
column `person`, it is the identity, and the index has a privacy model about the column `illness`.
Indexes and releases go beside the files.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rtree_anon as ra


def peak_bytes() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def baseline() -> int:
    """What is resident once everything that is not needed any more is given back; the peak begins anew from there."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peaks(source: Path, memory: str, quality: str) -> dict[str, int]:
    """Peak of loading a file into a new index and of releasing it, above what is resident before."""
    names = pq.read_schema(source).names
    schema, model = ra.Schema(names), None
    if "person" in names:
        schema = ra.Schema(names[:-2], sensitive=["illness"], identity="person")
        model = ra.DistinctLDiversity(3, on="illness") & ra.TCloseness(0.6, on="illness")
    before = baseline()
    with ra.Index.create(source.with_suffix(".idx"), schema, k=5, model=model, quality=quality, memory=memory) as index:
        index.load(source)
        load = peak_bytes() - before
        before = baseline()
        index.release(10).write(source.with_suffix(".k10.parquet"))
        release, n_rows = peak_bytes() - before, len(index)
        before = baseline()
        if model is None:
            stream(index)
        return {"load": load, "release": release, "stream": peak_bytes() - before, "rows": n_rows}


def stream(index: ra.Index) -> None:
    """As many rows again, but at most two million, come in batches, and then again, when every seventh goes at once;
    then those that came first go. Made here: a file's reader takes memory. Their ids are consecutive: kept, they would
    take memory that is not the index's.
    """
    n_batches = min(len(index), 2_000_000) // 20_000
    first = len(index)
    for number in range(n_batches):
        index.insert(ra.generate("agrawal", 20_000, seed=number))
    index.checkpoint()
    for number in range(n_batches):
        index.delete(index.insert(ra.generate("agrawal", 20_000, seed=number))[::7])
    index.checkpoint()
    for begin in range(first, first + n_batches * 20_000, 20_000):
        index.delete(np.arange(begin, begin + 20_000))
    index.checkpoint()


def main() -> None:
    small, large, memory = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    quality = sys.argv[4] if len(sys.argv) > 4 else "fast"
    peaks(small, memory, quality)
    print(json.dumps(peaks(large, memory, quality)))


if __name__ == "__main__":
    main()
