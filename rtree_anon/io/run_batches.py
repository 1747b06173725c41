"""Rows of which some columns repeat a value for a run of rows: one value per run is kept, and how long runs are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RunBatch:
    """Run i is `lengths[i]` rows long (at least one) and has the value number i of every column in `repeated`.

    Columns in `single` have a value for every row. Those that repeat come first.
    """

    lengths: NDArray[np.int64]
    repeated: Mapping[str, pa.Array]
    single: Mapping[str, pa.Array]

    @cached_property
    def num_rows(self) -> int:
        return int(self.lengths.sum())

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, values.type) for name, values in (*self.repeated.items(), *self.single.items())])

    def to_record_batch(self) -> pa.RecordBatch:
        """The rows one by one."""
        run = pa.array(np.repeat(np.arange(len(self.lengths), dtype=np.int32), self.lengths))
        columns = {name: values.take(run) for name, values in self.repeated.items()}
        return pa.RecordBatch.from_pydict({**columns, **self.single})


def joined(parts: Iterable[pa.Array]) -> pa.Array:
    """Arrays of the same type, one after the other."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
