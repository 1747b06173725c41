"""Random numbers instead of people, where a release passes by in parts and nobody can count all people first.

A number is the value of a keyed hash function, SipHash-2-4 (Aumasson and Bernstein, 2012), with a key that is drawn
for one release and kept nowhere: the same person gets the same number in every part, and without the key a number says
nothing about the person, nor two releases anything about each other. Two of ten million people share a number with a
chance of one in 200,000.
"""

from __future__ import annotations

import secrets

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.release.row_order import encoded

Words = NDArray[np.uint64]


class Pseudonyms:
    """The numbers of one release; calling it gives those of a column."""

    def __init__(self) -> None:
        self._key = secrets.randbits(64), secrets.randbits(64)

    def __call__(self, column: pa.Array) -> pa.Array:
        values, indices = encoded(column)
        numbers = np.append(siphash(values.cast(pa.large_string()), *self._key) >> np.uint64(1), np.uint64(0))
        return pa.array(numbers[indices].astype(np.int64), mask=indices == len(values))


def siphash(texts: pa.Array, key0: int, key1: int) -> Words:
    """SipHash-2-4 of every text (a large_string or large_binary array without missing values)."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64, texts.offset + len(texts) + 1)[texts.offset :]
    begins, lengths = offsets[:-1], np.diff(offsets)
    content = texts.buffers()[2]
    # Eight zeros behind the end, so that the last word of the last text can be read as a whole.
    letters = np.concatenate((np.frombuffer(content or b"", np.uint8), np.zeros(8, np.uint8)))
    n_words = lengths // 8
    state = _State(len(texts), key0, key1)
    for word in range(int(n_words.max(initial=-1)) + 1):
        # The last word of a text holds the bytes that are left over, and its length.
        n_bytes = np.clip(lengths - 8 * word, 0, 8)
        words = _words_at(letters, np.minimum(begins + 8 * word, len(letters) - 8), n_bytes)
        words |= np.where(n_words == word, lengths.astype(np.uint64) << np.uint64(56), np.uint64(0))
        state.absorb(words, n_words >= word)
    return state.finish()


class _State:
    """Four words for every text."""

    def __init__(self, n: int, key0: int, key1: int) -> None:
        secret = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
        keys = (key0, key1, key0, key1)
        self._v = [np.full(n, a ^ b, np.uint64) for a, b in zip(secret, keys, strict=True)]

    def absorb(self, words: Words, has_word: NDArray[np.bool_]) -> None:
        """One more word of those texts that have one."""
        v0, v1, v2, v3 = self._v
        after = [v0, v1, v2, v3 ^ words]
        for _ in range(2):
            after = _round(*after)
        after[0] ^= words
        self._v = [np.where(has_word, new, old) for new, old in zip(after, self._v, strict=True)]

    def finish(self) -> Words:
        v = [*self._v[:2], self._v[2] ^ np.uint64(0xFF), self._v[3]]
        for _ in range(4):
            v = _round(*v)
        hashes: Words = v[0] ^ v[1] ^ v[2] ^ v[3]
        return hashes


def _round(v0: Words, v1: Words, v2: Words, v3: Words) -> list[Words]:
    v0, v2 = v0 + v1, v2 + v3
    v1, v3 = _rotated(v1, 13) ^ v0, _rotated(v3, 16) ^ v2
    v0 = _rotated(v0, 32)
    v2, v0 = v2 + v1, v0 + v3
    v1, v3 = _rotated(v1, 17) ^ v2, _rotated(v3, 21) ^ v0
    return [v0, v1, _rotated(v2, 32), v3]


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _words_at(letters: NDArray[np.uint8], begins: NDArray[np.int64], n_bytes: NDArray[np.int64]) -> Words:
    """Up to eight bytes from each place on, as little-endian numbers."""
    eight = letters[begins[:, None] + np.arange(8)]
    eight[np.arange(8) >= n_bytes[:, None]] = 0
    words: Words = np.ascontiguousarray(eight).view("<u8").ravel().astype(np.uint64)
    return words
