"""Random numbers instead of people where a release streams: the hash function, and what its numbers do not tell."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rtree_anon as ra
from rtree_anon.io.table import read_table
from rtree_anon.release.pseudonyms import Pseudonyms, siphash
from rtree_anon.tree import build_tree
from tests.release.segmenting import SegmentedTree

KEY = bytes(range(16))
WORD = 2**64 - 1


def slow_siphash(content: bytes, key: bytes) -> int:
    """SipHash-2-4 from the paper, byte by byte."""
    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v0, v1, v2, v3 = (
        int.from_bytes(word, "big") ^ k
        for word, k in ((b"somepseu", k0), (b"dorandom", k1), (b"lygenera", k0), (b"tedbytes", k1))
    )

    def rotated(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (64 - bits))) & WORD

    def rounds(n: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(n):
            v0, v2 = (v0 + v1) & WORD, (v2 + v3) & WORD
            v1, v3 = rotated(v1, 13) ^ v0, rotated(v3, 16) ^ v2
            v0 = rotated(v0, 32)
            v2, v0 = (v2 + v1) & WORD, (v0 + v3) & WORD
            v1, v3 = rotated(v1, 17) ^ v2, rotated(v3, 21) ^ v0
            v2 = rotated(v2, 32)

    padded = content + bytes(7 - len(content) % 8) + bytes([len(content) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= 0xFF
    rounds(4)
    return v0 ^ v1 ^ v2 ^ v3


def halves(key: bytes) -> tuple[int, int]:
    return int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")


def test_the_example_of_the_paper() -> None:
    """Appendix A: the 15 bytes 0 .. 14 under the key 0 .. 15."""
    content = bytes(range(15))
    assert slow_siphash(content, KEY) == 0xA129CA6149BE45E5
    assert siphash(pa.array([content], pa.large_binary()), *halves(KEY)).tolist() == [0xA129CA6149BE45E5]


@given(st.lists(st.binary(max_size=40), max_size=12), st.binary(min_size=16, max_size=16), st.integers(0, 3))
def test_agrees_with_the_slow_twin(contents: list[bytes], key: bytes, skipped: int) -> None:
    """Also on slices, and where lengths differ."""
    texts = pa.array(contents, pa.large_binary()).slice(min(skipped, len(contents)))
    assert siphash(texts, *halves(key)).tolist() == [slow_siphash(text, key) for text in texts.to_pylist()]


@pytest.mark.parametrize(
    "people",
    [
        pa.array(["ann", "bob", None, "ann"]),
        pa.array([7, 70, None, 7]),
        pa.array([1.5, 2.5, None, 1.5]),
        pa.array(["x", "y", None, "x"]).dictionary_encode(),
        pa.array([1, 2, None, 1], pa.date32()),
    ],
    ids=lambda people: str(people.type),
)
def test_the_same_number_for_the_same_person_and_none_for_nobody(people: pa.Array) -> None:
    numbers = Pseudonyms()
    first = numbers(people).to_pylist()
    assert first[0] == first[3] != first[1] and first[2] is None
    assert numbers(people.slice(1)).to_pylist() == first[1:], "in every part of a table"
    assert Pseudonyms()(people).to_pylist() != first, "and another one in every release"
    assert all(0 <= number < 2**63 for number in first if number is not None)


def test_streamed_releases_number_people_across_segments() -> None:
    people = ra.generate("patients", 3000, seed=5)
    schema = ra.Schema(["age", "zip"], sensitive=["diagnosis"], identity="patient_id", key="visit_id")
    table = read_table(people, schema)
    index = SegmentedTree(table, build_tree(table.codes, table.space, 5), 500)
    assert index.n_segments > 3
    release = index.release(10)
    shown = release.to_arrow(identity=True, key=True).to_pylist()
    person_of_visit = dict(zip(people["visit_id"].to_pylist(), people["patient_id"].to_pylist(), strict=True))
    pairs = {(person_of_visit[row["visit_id"]], row["patient_id"]) for row in shown}
    n_people = len(set(people["patient_id"].to_pylist()))
    assert len(pairs) == n_people == len({number for _, number in pairs})
    again = {row["patient_id"] for row in release.to_arrow(identity=True).to_pylist()}
    assert not again & {number for _, number in pairs}
