"""Widths of intervals, added up."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.kernels.widths import weigh_widths

ENDS = st.integers(-(2**31), 2**31 - 1)


@settings(deadline=None)  # the first call may have to compile
@given(st.lists(st.tuples(ENDS, ENDS | st.none(), st.integers(1, 2**20), st.floats(1e-6, 1e100)), min_size=1))
def test_widths_are_weighed_by_rows_and_multiply_the_cells(groups: list[tuple[int, int | None, int, float]]) -> None:
    ends = [(a, a) if b is None else (min(a, b), max(a, b)) for a, b, _, _ in groups]
    first, last = (np.array(side, np.int32) for side in zip(*ends, strict=True))
    n_rows, cells = (np.array([group[place] for group in groups], np.float64) for place in (2, 3))
    expected = [each * (hi - lo + 1) for (lo, hi), each in zip(ends, cells.tolist(), strict=True)]
    total, most = weigh_widths(first, last, n_rows, cells)
    assert total == pytest.approx(sum((hi - lo) * group[2] for (lo, hi), group in zip(ends, groups, strict=True)))
    assert cells.tolist() == expected and most == max(expected)
