"""Samples stand for the whole source, also for a sorted one; they depend on the seed and on nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from rtree_anon.io.loading import prepare_load
from rtree_anon.io.sampling import Reservoir
from rtree_anon.schema import Schema

N_ROWS = 40_000
SCHEMA = Schema(["sorted", "mixed"])


def table() -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table({"sorted": np.arange(N_ROWS), "mixed": random.integers(0, 1000, N_ROWS)})


def parquet(row_group_size: int) -> Any:
    def write(folder: Path) -> Path:
        pq.write_table(table(), folder / "x.parquet", row_group_size=row_group_size)
        return folder / "x.parquet"

    return write


def csv(folder: Path) -> Path:
    pa_csv.write_csv(table(), folder / "x.csv")
    return folder / "x.csv"


def arrow(folder: Path) -> Path:
    feather.write_feather(table(), str(folder / "x.feather"), chunksize=1000)
    return folder / "x.feather"


def many_parquets(folder: Path) -> str:
    for i in range(20):
        pq.write_table(table().slice(i * 2000, 2000), folder / f"{i:02}.parquet")
    return str(folder / "*.parquet")


SORTED = {
    "parquet, one row group": parquet(N_ROWS),
    "parquet, ten row groups": parquet(4000),
    "parquet, two hundred row groups": parquet(200),
    "parquet files": many_parquets,
    "csv": csv,
    "arrow file": arrow,
    "table": lambda folder: table(),
    "stream": lambda folder: table().to_reader(max_chunksize=999),
}


@pytest.mark.parametrize("name", SORTED)
def test_a_sample_of_a_sorted_source_covers_it_evenly(name: str, tmp_path: Path) -> None:
    with prepare_load(SORTED[name](tmp_path), SCHEMA, directory=str(tmp_path), seed=7) as prepared:
        sample = prepared.sample(2000)
        assert np.array_equal(sample, prepared.sample(2000))
    assert 1700 <= len(sample) <= 2300 and sample.flags.c_contiguous
    by_tenth = np.bincount(sample[:, 0] * 10 // N_ROWS, minlength=10) / len(sample)
    assert (np.abs(by_tenth - 0.1) < 0.03).all()
    # in random order: the first half is a sample, too
    assert abs(np.median(sample[: len(sample) // 2, 0]) / N_ROWS - 0.5) < 0.06
    assert len(np.unique(sample[:, 0])) == len(sample), "no row twice"
    truth = dict(zip(table()["sorted"].to_pylist(), table()["mixed"].to_pylist(), strict=True))
    assert all(truth[a] == b for a, b in sample.tolist())


def test_shuffled_files_are_sampled_from_a_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = np.random.default_rng(0).permutation(N_ROWS)
    pq.write_table(table().take(order), tmp_path / "x.parquet", row_group_size=500)
    prepared = prepare_load(tmp_path / "x.parquet", SCHEMA, directory=str(tmp_path))
    read: list[int] = []
    before = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **k: read.extend(k["row_groups"]) or before(*a, **k))
    sample = prepared.sample(1600)
    assert len(read) == len(set(read)) == 32 and min(read) < 5 and max(read) > 74
    assert len(sample) == 1600 and abs(sample[:, 0].mean() / N_ROWS - 0.5) < 0.05


def test_other_seeds_give_other_samples(tmp_path: Path) -> None:
    samples = []
    for seed in (1, 2):
        with prepare_load(table(), SCHEMA, directory=str(tmp_path), seed=seed) as prepared:
            samples.append(Counter(prepared.sample(100)[:, 0].tolist()))
    assert samples[0] != samples[1]


@pytest.mark.parametrize("sizes", [[1] * 50, [50], [7, 0, 43], [20, 20, 10]])
def test_a_reservoir_does_not_depend_on_batches(sizes: list[int]) -> None:
    whole = Reservoir(8, ["x"], seed=5)
    whole.observe(pa.record_batch({"x": list(range(50))}))
    parts, first = Reservoir(8, ["x"], seed=5), 0
    for size in sizes:
        parts.observe(pa.record_batch({"x": pa.array(range(first, first + size), pa.int64())}))
        first += size
    for n in (3, 8, 100):
        one, other = whole.rows(n), parts.rows(n)
        assert one is not None and other is not None
        assert one.to_pydict() == other.to_pydict() and one.num_rows == min(n, 8)


def test_a_reservoir_is_uniform() -> None:
    """Each of 50 rows is among 10 of them in a fifth of the cases."""
    counts = np.zeros(50)
    for seed in range(500):
        reservoir = Reservoir(10, ["x"], seed)
        for first in range(0, 50, 5):
            reservoir.observe(pa.record_batch({"x": list(range(first, first + 5))}))
        rows = reservoir.rows(10)
        assert rows is not None
        counts[rows.column(0).to_numpy()] += 1
    assert counts.sum() == 5000
    assert (np.abs(counts - 100) < 5 * np.sqrt(500 * 0.2 * 0.8)).all()
