"""Where a value stands, for errors that name it: file, row and column.

Code that works on one array raises `CellError` with an index into that array; whoever knows where the array came from
turns it into an `InputError` that names the file, the row (the first data row is row 1) and the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import InputError
from rtree_anon.io.types import is_text

_SHOWN_LENGTH = 60


class CellError(Exception):
    """The value at `index` of the array at hand cannot be used."""

    def __init__(self, index: int, problem: str) -> None:
        self.index, self.problem = index, problem
        super().__init__(problem)


@dataclass(frozen=True)
class Origin:
    """Where a batch came from: a printable name of its source, and the number of its first row there."""

    name: str
    first_row: int = 1


@contextmanager
def located(origin: Origin, column: str) -> Iterator[None]:
    """Turns a `CellError` of this column into an `InputError`."""
    try:
        yield
    except CellError as error:
        row = origin.first_row + error.index
        raise InputError(error.problem, source=origin.name, row=row, column=column) from None


def first_failing(array: pa.Array, fails: Callable[[pa.Array], bool]) -> int:
    """The first index of an array that fails as a whole; halves it, so all tries together cost two whole ones."""
    start, stop = 0, len(array)
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(array.slice(start, middle - start)):
            stop = middle
        else:
            start = middle
    return start


def first_row_with(indices: pa.Array, wanted: NDArray[np.bool_]) -> int:
    """The first row of a dictionary-encoded column whose value is wanted; `wanted` has one entry per distinct value."""
    rows = indices.fill_null(len(wanted)).to_numpy()
    return int(np.argmax(np.append(wanted, False)[rows]))


def shown(text: str) -> str:
    """A text as it is printed in an error: in quotes, on one line, and not too long."""
    quoted = repr(text)
    return quoted if len(quoted) <= _SHOWN_LENGTH else quoted[: _SHOWN_LENGTH - 3] + "..."


def shown_at(array: pa.Array, index: int) -> str:
    """The value at an index as it is printed in an error: text in quotes, other values as Arrow writes them.

    Python's own types are not used: they cannot hold every time or duration that Arrow can.
    """
    try:
        text = array.slice(index, 1).cast(pa.string())[0].as_py()
    except pa.ArrowException:  # a time zone that this machine does not know
        return f"a {array.type}"
    return shown(text) if is_text(array.type) else str(text)
