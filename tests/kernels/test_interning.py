"""Interning against its slow twin, a dict, also where values collide and where there is too little room."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.interning import fill_slots, hash_bytes, intern_values

NONE = np.empty(0, bool)


@settings(deadline=None)
@given(
    values=st.lists(st.binary(max_size=20), max_size=50),
    log_slots=st.integers(0, 7),
    n_room=st.integers(0, 60),
    n_arena=st.integers(0, 300),
    key=st.integers(0, 2**64 - 1),
)
def test_values_are_numbered_until_there_is_no_room(
    values: list[bytes], log_slots: int, n_room: int, n_arena: int, key: int
) -> None:
    offsets = np.concatenate(([0], np.cumsum([len(value) for value in values]))).astype(np.int32)
    data = np.frombuffer(b"".join(values), np.uint8)
    slots, hashes = np.zeros(1 << log_slots, np.int32), np.zeros(n_room, np.uint64)
    ends, arena = np.zeros(n_room + 1, np.int64), np.zeros(n_arena, np.uint8)
    numbers = np.full(len(values), -7, np.int32)
    row, n_known = intern_values(
        offsets, data, NONE, 0, np.uint64(key), 0, slots, hashes, ends, arena, np.int32(-1), numbers
    )
    known: dict[bytes, int] = {}
    n_done = 0
    for value in values:
        full = len(known) >= min(len(slots) // 2, n_room) or sum(map(len, known)) + len(value) > n_arena
        if value not in known and full:
            break
        known.setdefault(value, len(known))
        n_done += 1
    assert (row, n_known) == (n_done, len(known))
    assert numbers[:row].tolist() == [known[value] for value in values[:row]]
    kept = arena.tobytes()
    assert [kept[ends[i] : ends[i + 1]] for i in range(n_known)] == list(known)
    again = np.zeros(256, np.int32)
    fill_slots(hashes, n_known, again)
    assert sorted(again[again > 0].tolist()) == list(range(1, n_known + 1))


def test_hashes_differ_by_every_byte_and_by_the_key() -> None:
    data = np.arange(40, dtype=np.uint8)
    hashes = {int(hash_bytes(data, 0, n, np.uint64(5))) for n in range(40)}
    for place in range(40):
        other = data.copy()
        other[place] ^= 1
        hashes.add(int(hash_bytes(other, 0, 40, np.uint64(5))))
    hashes |= {int(hash_bytes(data, 0, 40, np.uint64(key))) for key in range(5)}
    assert len(hashes) == 85
