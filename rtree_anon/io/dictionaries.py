"""A dictionary that grows: distinct values of a column, numbered from 0 in the order in which they are first seen.

Values are kept as runs of bytes, one after the other (kernels/interning.py), whatever their type is: text, binary and
decimals, or any fixed width. Parts of a dictionary are written to and read from an index as Arrow IPC.

Invariant: a value keeps its number for good, and no value has two. What is read back is not trusted: a part that is
damaged, has a value twice or has another type is a CorruptionError.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import BudgetError, CorruptionError, InputError
from rtree_anon.io.types import decoded, is_text, plain_array, without_views
from rtree_anon.io.values import null_mask
from rtree_anon.storage.budget import MemoryBudget, Reservation

MAX_VALUES = 2**31 - 2
MISSING_NUMBER = -1
_FIRST_VALUES = 256
_FIRST_ARENA_BYTES = 4096
_NONE_MISSING = np.empty(0, bool)

Numbers = NDArray[np.int32]


class GrowingDictionary:
    """The distinct values of one column; `data_type` may be null as long as no value is known."""

    def __init__(self, name: str, data_type: pa.DataType, budget: MemoryBudget) -> None:
        self.name, self.data_type, self._declared_type = name, data_type, data_type
        self._reservation = Reservation(budget, f"the dictionary of column {name!r}")
        self._key = np.uint64(secrets.randbits(64))
        self._n = 0
        self._slots = np.zeros(1, np.int32)  # never empty: the kernel looks before it knows that there is no room
        self._hashes = np.zeros(0, np.uint64)
        self._ends = np.zeros(1, np.int64)
        self._arena = np.zeros(0, np.uint8)
        self._values: pa.Array | None = None

    def __len__(self) -> int:
        return self._n

    @property
    def n_bytes(self) -> int:
        """Memory in use."""
        return self._slots.nbytes + self._hashes.nbytes + self._ends.nbytes + self._arena.nbytes

    def number(self, column: pa.Array) -> Numbers:
        """The number of each value, MISSING_NUMBER where it is missing; new values get the next numbers."""
        column = plain_array(column)
        if pa.types.is_dictionary(column.type):
            return self._number_by_dictionary(column)
        if pa.types.is_null(column.type):
            return np.full(len(column), MISSING_NUMBER, np.int32)
        if pa.types.is_null(self.data_type):  # the first values decide
            self.data_type = column.type
            if not byte_width(column.type):
                self.data_type = pa.string() if is_text(column.type) else pa.binary()
        offsets, data = as_bytes(column)
        mask = null_mask(column)
        return self._interned(offsets, data, _NONE_MISSING if mask is None else mask, len(column))

    def values(self) -> pa.Array:
        """All values by number (a view of the memory, which stays valid when the dictionary grows)."""
        if self._values is None or len(self._values) != self._n:
            self._values = self._slice(0)
        return self._values

    def take(self, numbers: NDArray[Any], mask: NDArray[np.bool_]) -> pa.Array:
        """The values of numbers, missing where the mask is true."""
        if pa.types.is_null(self.data_type):
            return pa.nulls(len(numbers))
        places = pa.array(np.where(mask, 0, numbers), mask=mask)
        taken = self.values().take(places) if self._n else pa.nulls(len(numbers), self.data_type)
        return taken.cast(self.data_type)

    def to_bytes(self, first: int = 0) -> bytes:
        """The values from a number on, for `add_bytes` of a dictionary that has the ones before."""
        sink = pa.BufferOutputStream()
        batch = pa.record_batch({"value": self._slice(first)})
        options = pa.ipc.IpcWriteOptions(compression="zstd" if batch.nbytes else None)
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    def add_bytes(self, part: bytes) -> None:
        """Add a part that `to_bytes` wrote."""
        before = self._n
        try:
            with pa.ipc.open_stream(pa.py_buffer(part)) as reader:
                batches = list(reader)
                types = [field.type for field in reader.schema]
            for batch in batches:
                batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            reason = str(error).split("\n")[0][:100]
            raise self._damaged(f"cannot be read ({reason})") from None
        if len(batches) != 1 or types != [self._slice(0).type] or batches[0].column(0).null_count:
            raise self._damaged("does not hold one column of its type")
        values = batches[0].column(0)
        offsets, data = as_bytes(values)
        numbers = self._interned(offsets, data, _NONE_MISSING, len(values))
        if not np.array_equal(numbers, np.arange(before, before + len(values))):
            raise self._damaged("has a value twice")

    def cut_back(self, n_values: int) -> None:
        """Forget the values from a number on, as when rows that brought them were not committed after all."""
        if n_values >= self._n:
            return
        from rtree_anon.kernels.interning import fill_slots

        self._n, self._values = n_values, None
        if not n_values:
            self.data_type = self._declared_type
        # Copies: a view of the values that was handed out keeps what it shows.
        self._arena, self._ends = self._arena.copy(), self._ends.copy()
        self._slots = np.zeros_like(self._slots)
        fill_slots(self._hashes, self._n, self._slots)

    def _number_by_dictionary(self, column: pa.Array) -> Numbers:
        """A column that has a dictionary: only the values that some row has, in the order of the rows."""
        used = column.indices.unique().drop_null()
        numbers = np.append(self.number(without_views(decoded(column.dictionary)).take(used)), np.int32(MISSING_NUMBER))
        number_of = np.full(len(column.dictionary) + 1, MISSING_NUMBER, np.int32)
        number_of[used.to_numpy()] = numbers[:-1]
        places = pc.fill_null(column.indices.cast(pa.int64()), len(column.dictionary))
        rows: Numbers = number_of[places.to_numpy()]
        return rows

    def _interned(self, offsets: NDArray[Any], data: NDArray[np.uint8], is_missing: Any, n_rows: int) -> Numbers:
        from rtree_anon.kernels.interning import intern_values

        numbers = np.empty(n_rows, np.int32)
        row = 0
        while True:
            row, self._n = intern_values(
                offsets,
                data,
                is_missing,
                row,
                self._key,
                self._n,
                self._slots,
                self._hashes,
                self._ends,
                self._arena,
                np.int32(MISSING_NUMBER),
                numbers,
            )
            if row == n_rows:
                return numbers
            self._grow(int(offsets[row + 1] - offsets[row]))

    def _grow(self, n_more_bytes: int) -> None:
        """More room for at least one value of so many bytes."""
        from rtree_anon.kernels.interning import fill_slots

        n_values, n_arena = len(self._hashes), len(self._arena)
        if self._n >= MAX_VALUES:
            raise InputError(f"the column has more than {MAX_VALUES:,} distinct values", column=self.name)
        if self._n == n_values:
            n_values = max(2 * n_values, _FIRST_VALUES)
        if int(self._ends[self._n]) + n_more_bytes > n_arena:
            n_arena = max(n_arena + n_arena // 2, int(self._ends[self._n]) + n_more_bytes, _FIRST_ARENA_BYTES)
        self._reserve(n_values * (8 + 4 + 8 + 8) + n_arena)
        if n_arena > len(self._arena):
            self._arena = _extended(self._arena, n_arena)
        if n_values > len(self._hashes):
            self._hashes, self._ends = _extended(self._hashes, n_values), _extended(self._ends, n_values + 1)
            self._slots = np.zeros(2 * n_values, np.int32)
            fill_slots(self._hashes, self._n, self._slots)

    def _reserve(self, n_bytes: int) -> None:
        try:
            self._reservation.resize(n_bytes)
        except BudgetError:
            raise BudgetError(
                f"column {self.name!r}: its {self._n:,} distinct values and those of the other columns take all the "
                f"memory that is set aside for them; give the index more memory, or leave the column out."
            ) from None

    def _slice(self, first: int) -> pa.Array:
        """The values from a number on; text with 64-bit offsets."""
        n, width = self._n - first, byte_width(self.data_type)
        if width:
            arena = self._arena[int(self._ends[first]) : int(self._ends[self._n])]
            if pa.types.is_boolean(self.data_type):
                return pa.Array.from_buffers(pa.uint8(), n, [None, pa.py_buffer(arena)]).cast(pa.bool_())
            return pa.Array.from_buffers(self.data_type, n, [None, pa.py_buffer(arena)])
        large = pa.large_string() if is_text(self.data_type) else pa.large_binary()
        if pa.types.is_null(self.data_type):
            return pa.nulls(0)
        buffers = [None, pa.py_buffer(self._ends[first : self._n + 1]), pa.py_buffer(self._arena)]
        return pa.Array.from_buffers(large, n, buffers)

    def _damaged(self, problem: str) -> CorruptionError:
        return CorruptionError(f"The dictionary of column {self.name!r} {problem}; the index is damaged.")


def as_bytes(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Where each value begins (one entry more than values), and the bytes."""
    data_type = column.type
    if pa.types.is_boolean(data_type):
        column = column.cast(pa.uint8())
    width = byte_width(data_type)
    if width:
        raw = column.buffers()[1]
        data = np.frombuffer(raw, np.uint8) if raw is not None else np.zeros(0, np.uint8)
        return (np.arange(len(column) + 1, dtype=np.int64) + column.offset) * width, data
    if pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type):
        column = column.cast(pa.large_string() if is_text(data_type) else pa.large_binary())
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    dtype = np.dtype(np.int64 if is_large else np.int32)
    buffer, content = column.buffers()[1:]
    if not len(column) or buffer is None:
        return np.zeros(len(column) + 1, dtype), np.zeros(0, np.uint8)
    offsets = np.frombuffer(buffer, dtype, count=column.offset + len(column) + 1)[column.offset :]
    return offsets, np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)


def byte_width(data_type: pa.DataType) -> int:
    """Bytes of a value; 0 where values differ in length (a truth value is kept as a byte)."""
    if pa.types.is_boolean(data_type):
        return 1
    if pa.types.is_null(data_type):
        return 0
    try:
        return int(data_type.bit_width) // 8
    except ValueError:
        return 0


def _extended(array: NDArray[Any], n: int) -> NDArray[Any]:
    longer = np.zeros(n, array.dtype)
    longer[: len(array)] = array
    return longer
