"""What a load hands to an index: batches of rows whose coding is still to be done, by whichever thread has time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import InputError
from rtree_anon.space import missing_code

WRONG_STATISTICS = "contradicts the file's own statistics: they are wrong, write the file anew"


@dataclass(frozen=True, eq=False)
class CodedBatch:
    """Rows that are still to be coded: `codes` gives them as codes[column, row] and may be called from any thread."""

    n_rows: int
    codes: Callable[[], NDArray[Any]]
    name: str  # where they come from, for errors
    first_row: int = 1  # the number of the first row there
    columns: Sequence[str] = ()  # the name of each column of codes

    def outside(self, codes: NDArray[Any], ranges: Sequence[tuple[int, int]]) -> InputError:
        """The error for codes of which one lies outside its column's range: names the first such row."""
        is_missing = codes == missing_code(codes.dtype)
        lo, hi = (np.array(ends, np.int64) for ends in zip(*ranges, strict=True))
        wrong = ((codes < lo[:, None]) | (codes > hi[:, None])) & ~is_missing
        row = int(np.argmax(wrong.any(axis=0)))
        column = int(np.argmax(wrong[:, row]))
        return InputError(
            f"the value lies outside its column's range, which {WRONG_STATISTICS}",
            source=self.name,
            row=self.first_row + row,
            column=self.columns[column] if self.columns else None,
        )
