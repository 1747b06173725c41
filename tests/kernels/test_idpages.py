"""Entries of dense directory pages: read, changed in place, and refused where that cannot be, against plain lists."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.idpages import (
    DENSE_WORDS,
    entries_fit,
    fill_dense_pages,
    fill_pages,
    page_is_sound,
    put_entries,
    spread_page,
)

FIRST = 1000
NAMES = st.lists(st.integers(-1, 600), min_size=1, max_size=200)


def dense(names: list[int], bits: int) -> np.ndarray:
    """One page with the ids FIRST, FIRST + 1, …; the first and the last name must not be -1."""
    pages = np.zeros((1, DENSE_WORDS + len(names) * bits // 64 + 1), np.uint64)
    lengths, lowest = np.empty(1, np.uint32), np.empty(1, np.int64)
    assert fill_dense_pages(np.array(names, np.int64), FIRST, bits, pages, lengths, lowest) == 1
    page = pages[0, : int(lengths[0]) // 8]
    assert page_is_sound(page)
    return page


def spread(page: np.ndarray, n: int) -> list[int]:
    found = np.full(n + 2, -7, np.int64)
    spread_page(page, FIRST - 1, found)
    assert found[0] == found[-1] == -7
    return found[1:-1].tolist()


@settings(deadline=None)
@given(names=NAMES, bits=st.integers(10, 33), data=st.data())
def test_changes_in_place(names: list[int], bits: int, data: st.DataObject) -> None:
    names = [0, *names, 600]
    page = dense(names, bits)
    assert spread(page, len(names)) == names
    changes = data.draw(st.dictionaries(st.integers(0, len(names) - 1), st.integers(-1, 2**bits - 2), min_size=1))
    ids = np.array(sorted(changes), np.int64)
    new = np.array([changes[place] for place in ids.tolist()], np.int64)
    ends_stay = changes.get(0, 0) >= 0 and changes.get(len(names) - 1, 0) >= 0
    assert entries_fit(page, ids + FIRST, new) == ends_stay
    if ends_stay:
        put_entries(page, ids + FIRST, new)
        assert spread(page, len(names)) == [changes.get(place, name) for place, name in enumerate(names)]
        assert page_is_sound(page)


def test_what_does_not_fit() -> None:
    page = dense([5] * 100, 10)
    one = np.array([3], np.int64)
    assert entries_fit(page, np.array([FIRST]), one)
    assert entries_fit(page, np.array([FIRST + 99]), np.array([1022]))
    assert not entries_fit(page, np.array([FIRST + 99]), np.array([1023]))  # too wide for its bits
    assert not entries_fit(page, np.array([FIRST - 1]), one)
    assert not entries_fit(page, np.array([FIRST + 100]), one)
    ranges = np.zeros((1, 8), np.uint64)
    first, end = np.array([FIRST]), np.array([FIRST + 10_000])
    fill_pages(first, end, one, 1, 3, ranges, np.empty(1, np.uint32), np.empty(1, np.int64))
    assert not entries_fit(ranges[0, :3], np.array([FIRST]), one)
