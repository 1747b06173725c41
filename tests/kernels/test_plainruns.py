"""Runs as LZ4 blocks: a twin that reads byte by byte, and LZ4 itself, find the rows again."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.plainruns import END_BYTES, PACKED_PER_BYTE, SEQUENCE_BYTES, bytes_of_block, write_block
from tests.naive import unpacked_lz4


def packed(values: np.ndarray, lengths: np.ndarray, size: int, prefix: bytes) -> bytes:
    n_bytes = len(prefix) + size * int(lengths.sum())
    room = len(prefix) + len(values) * SEQUENCE_BYTES + n_bytes // PACKED_PER_BYTE + END_BYTES
    out = np.full(room + 8, 0xAA, np.uint8)
    n = write_block(values, lengths, np.int64(size), np.frombuffer(prefix, np.uint8), out[:room])
    assert n <= room and (out[room:] == 0xAA).all()
    return out[:n].tobytes()


VALUES = st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1) | st.integers(0, 7).map(lambda byte: 1 << 4 * byte)
WIDE = VALUES | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 62).map(lambda bit: 1 << bit)
LENGTHS = st.integers(1, 3) | st.integers(1, 90) | st.integers(1, 2000)
PREFIXES = st.binary(max_size=20) | st.binary(min_size=200, max_size=600)


@settings(deadline=None)  # the first call may have to compile
@given(st.data(), st.sampled_from([(4, np.int32), (4, np.int64), (8, np.int64)]), PREFIXES)
def test_blocks_stand_for_the_prefix_and_the_rows(data: st.DataObject, kind: tuple[int, type], prefix: bytes) -> None:
    size, dtype = kind
    drawn = data.draw(st.lists(WIDE if size == 8 else VALUES, min_size=1, max_size=40))
    values = np.array([value for value, _ in groupby(drawn)], dtype)
    lengths = np.array(data.draw(st.lists(LENGTHS, min_size=len(values), max_size=len(values))))
    expected = prefix + np.repeat(values.astype(f"<i{size}"), lengths).tobytes()
    block = packed(values, lengths, size, prefix)
    assert unpacked_lz4(block) == expected
    assert pa.decompress(block, len(expected), "lz4_raw", asbytes=True) == expected


@pytest.mark.parametrize("size", [4, 8])
def test_every_length_of_a_run(size: int) -> None:
    for length in range(1, 300):
        values, lengths = np.array([7, -1, 7]), np.array([length, length, length])
        block = packed(values, lengths, size, b"levels")
        assert unpacked_lz4(block) == b"levels" + np.repeat(values.astype(f"<i{size}"), lengths).tobytes()


@settings(deadline=None)  # the first call may have to compile
@given(st.integers(0, 2**32), st.sampled_from([4, 8]))
def test_what_a_run_will_take_is_known_before(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.choice([1, 300, 70_000, 20_000_000], 40)).astype(np.int64)
    lengths = rng.integers(5, 200, 40)
    of_runs = [bytes_of_block(values[i - 1], values[i], lengths[i], size) for i in range(1, 39)]
    first = 1 + size + 2 + 1 + (lengths[0] * size - size - 19) // 255  # in the longest form
    assert abs(len(packed(values, lengths, size, b"")) - sum(of_runs) - first) < 40  # the last one, and its literals
