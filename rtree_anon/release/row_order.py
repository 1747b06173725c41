"""The order of rows inside their groups, and random numbers instead of people: what keeps the input's order secret.

Rows of a group are sorted by the columns that travel with them. Rows that are equal in all of these cannot be told
apart in the release, so nothing is left of the order in which they came.
"""

from __future__ import annotations

import secrets

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_NARROW = 1 << 31  # whole numbers in a range like this are sorted as they are


def order_rows(carried: pa.Table, numbers: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The input rows in the order of the release, from their numbers group after group."""
    if carried.num_columns == 0:
        return numbers
    # One number per row to sort by, as long as 64 bits suffice: several times faster than to sort by columns.
    keys = [np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)]
    n_combined = len(sizes)
    for column in carried.columns:
        ranks, n_ranks = _ranks(one_array(column))
        if n_combined * n_ranks < 2**63:
            n_combined *= n_ranks
            keys[-1] = keys[-1] * n_ranks + ranks[numbers]
        else:
            n_combined = n_ranks
            keys.append(ranks[numbers])
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    return numbers[order]


def pseudonyms(column: pa.Array) -> pa.Array:
    """A random number for each person: a secret permutation, so that neither value nor order is left."""
    values, indices = encoded(column)
    generator = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    numbers = np.append(generator.permutation(len(values)) + 1, 0)[indices]
    return pa.array(numbers, mask=indices == len(values))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _ranks(column: pa.Array) -> tuple[NDArray[np.int64], int]:
    """Numbers from 0 that sort like the column's values, missing values first, and a number that is above all."""
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_integer(column.type) and column.type != pa.uint64() and column.null_count < len(column):
        bounds = pc.min_max(column).as_py()
        width = bounds["max"] - bounds["min"] + 1
        if width <= _NARROW:
            present = pc.fill_null(column, bounds["min"])
            steps: NDArray[np.int64] = np.subtract(present.to_numpy(), bounds["min"], dtype=np.int64)
            if column.null_count == 0:
                return steps, width
            return np.where(column.is_null().to_numpy(zero_copy_only=False), 0, steps + 1), width + 1
    values, indices = encoded(column)
    rank = np.zeros(len(values) + 1, np.int64)
    rank[np.asarray(pc.sort_indices(values))] = np.arange(1, len(values) + 1)
    return rank[indices], len(values) + 1


def encoded(column: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """The distinct values of a column, and for every row the position of its value; missing ones have the last."""
    if pa.types.is_null(column.type):
        return pa.array([], pa.int8()), np.zeros(len(column), np.int64)
    if pa.types.is_float16(column.type):  # Arrow can number neither half floats nor short decimals
        column = column.cast(pa.float32())
    elif pa.types.is_decimal(column.type) and column.type.bit_width < 128:
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    coded = column.dictionary_encode()
    return coded.dictionary, coded.indices.fill_null(len(coded.dictionary)).to_numpy().astype(np.int64)
