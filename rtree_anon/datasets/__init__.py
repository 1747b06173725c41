"""Seeded tables of any length: `agrawal`, `landsend` and `patients`.

    table = generate("patients", 10_000)                     # one Arrow table
    for batch in batches("agrawal", 100_000_000): ...        # the same rows as a stream, in little memory

A row depends only on the dataset, the seed and the row's number. So the same rows come out for any batch size, a
shorter table is the beginning of a longer one, and a benchmark can be repeated anywhere. Rows are made in chunks of
`CHUNK_ROWS`, each from a generator of its own that is seeded with the chunk's number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rtree_anon.datasets import agrawal, landsend, patients
from rtree_anon.datasets.draws import Draws
from rtree_anon.errors import UsageError

CHUNK_ROWS = 1 << 16
DEFAULT_BATCH_ROWS = 4 * CHUNK_ROWS


class _Dataset(Protocol):
    """A module that makes the rows of one dataset."""

    SCHEMA: pa.Schema
    FEW_VALUES: tuple[str, ...]

    def chunk(self, draws: Draws, first_row: int) -> list[Any]:
        """The columns of `draws.n_rows` rows, of which the first is row number `first_row` of the table."""


_DATASETS: dict[str, _Dataset] = {"agrawal": agrawal, "landsend": landsend, "patients": patients}
NAMES = tuple(_DATASETS)


def generate(name: str, rows: int, seed: int = 0) -> pa.Table:
    """The first `rows` rows of the dataset `name` as one Arrow table.

    >>> generate("agrawal", 3).num_rows
    3
    """
    return pa.Table.from_batches(batches(name, rows, seed), schema=schema(name))


def batches(name: str, rows: int, seed: int = 0, batch_rows: int = DEFAULT_BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The same rows as `generate`, as record batches of `batch_rows` rows (the last one may be shorter)."""
    _validate(name, rows, seed, batch_rows)
    return _rebatched(_chunks(name, rows, seed), batch_rows)


def schema(name: str) -> pa.Schema:
    """Names and types of the columns of a dataset."""
    if name not in _DATASETS:
        raise UsageError(f"There is no dataset called {name!r}. Choose one of: {', '.join(NAMES)}.")
    return _DATASETS[name].SCHEMA


def columns_of_few_values(name: str) -> tuple[str, ...]:
    """The columns for which a dictionary of their values is short, so that files do well to store one."""
    return _DATASETS[name].FEW_VALUES


def _validate(name: str, rows: int, seed: int, batch_rows: int) -> None:
    schema(name)
    if rows < 0:
        raise UsageError(f"The number of rows must be 0 or more, not {rows}.")
    if seed < 0:
        raise UsageError(f"The seed must be 0 or more, not {seed}.")
    if batch_rows < 1:
        raise UsageError(f"A batch needs at least one row, not {batch_rows}.")


def _chunks(name: str, rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    dataset = _DATASETS[name]
    for number, first_row in enumerate(range(0, rows, CHUNK_ROWS)):
        draws = Draws(np.random.SeedSequence([seed, NAMES.index(name), number]), CHUNK_ROWS)
        batch = pa.RecordBatch.from_arrays(dataset.chunk(draws, first_row), schema=dataset.SCHEMA)
        yield batch.slice(0, rows - first_row)  # always a whole chunk is made: its rows do not depend on `rows`


def _rebatched(chunks: Iterator[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for chunk in chunks:
        while n_waiting + chunk.num_rows >= batch_rows:
            taken = batch_rows - n_waiting
            yield _joined([*waiting, chunk.slice(0, taken)])
            waiting, n_waiting, chunk = [], 0, chunk.slice(taken)
        if chunk.num_rows:
            waiting.append(chunk)
            n_waiting += chunk.num_rows
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
