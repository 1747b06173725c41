"""Keys as codes: against plain Python, and hashes that tell keys apart whatever their salt is."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.keycodes import GROUP_BYTES, hash_keys, pack_keys, unpack_keys

KEYS = st.lists(st.binary(max_size=30), max_size=40)
WORD = 2**64 - 1


def packed(keys: list[bytes], n_groups: int) -> Any:
    offsets = np.cumsum([0, *map(len, keys)])
    data = np.frombuffer(b"".join(keys), np.uint8)
    codes = np.empty((1 + n_groups, len(keys)), np.int64)
    pack_keys(offsets, data, codes)
    return codes


def naive_codes(key: bytes, n_groups: int) -> list[int]:
    """The length, then groups of seven bytes as numbers, from the definition."""
    padded = key.ljust(7 * n_groups, b"\0")
    return [len(key), *(int.from_bytes(padded[7 * group : 7 * group + 7], "big") for group in range(n_groups))]


def naive_mixed(state: int) -> int:
    state = ((state ^ state >> 32) * 0x9E3779B97F4A7C15) & WORD
    state = ((state ^ state >> 29) * 0xD6E8FEB86659FD93) & WORD
    return state ^ state >> 32


def naive_hash(key: bytes, salt: int) -> int:
    state = naive_mixed(salt ^ (len(key) * 0x9E3779B97F4A7C15 & WORD))
    for group in naive_codes(key, -(-len(key) // 7))[1:]:
        state = naive_mixed(state ^ group)
    return naive_mixed((state + salt) & WORD) >> 2


@settings(max_examples=150, deadline=None)
@given(KEYS, st.integers(5, 8), st.integers(0, WORD))
def test_kernels_do_what_the_definition_says(keys: list[bytes], n_groups: int, salt: int) -> None:
    codes = packed(keys, n_groups)
    assert codes.T.tolist() == [naive_codes(key, n_groups) for key in keys]
    offsets = np.concatenate(([0], np.cumsum(codes[0]))).astype(np.int64)
    data = np.zeros(int(offsets[-1]), np.uint8)
    unpack_keys(codes, offsets, data)
    assert data.tobytes() == b"".join(keys)
    ids = np.empty(len(keys), np.int64)
    hash_keys(codes, np.uint64(salt), ids)
    assert ids.tolist() == [naive_hash(key, salt) for key in keys]


def test_hashes_of_keys_that_resemble_each_other() -> None:
    """A hundred thousand of them have different hashes, spread evenly, under any salt; salts make other ones."""
    assert GROUP_BYTES == 7
    keys = [b"%d" % number for number in range(60_000)] + [b"patient-%09d" % number for number in range(60_000)]
    codes, found = packed(keys, 4), []
    for salt in (0, 1, 2**63, 0x5851F42D4C957F2D):
        ids = np.empty(len(keys), np.int64)
        hash_keys(codes, np.uint64(salt), ids)
        assert len(np.unique(ids)) == len(keys)
        counts = np.bincount(ids >> 56, minlength=64)
        low = np.bincount(ids & 63, minlength=64)
        assert counts.min() * 64 / len(keys) > 0.9 and counts.max() * 64 / len(keys) < 1.1
        assert low.min() * 64 / len(keys) > 0.9 and low.max() * 64 / len(keys) < 1.1
        found.append(ids)
    assert not any((found[0] == other).any() for other in found[1:])
