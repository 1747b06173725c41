"""What a release guarantees beyond k rows per group, in the forms that making and verifying it need.

The model says what every group of the release satisfies, k included; the base model what every leaf of the tree
satisfies, which is what all releases of the tree satisfy together (whoever combines them cannot get below whole
leaves). The constraint is the compiled model, about the rows of one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.io.ranking import ranked_values
from rtree_anon.io.table import CodedTable
from rtree_anon.kernels.constraint import Constraint
from rtree_anon.models import Model
from rtree_anon.models.compiling import CodedColumn, compile_model
from rtree_anon.models.fitting import with_k
from rtree_anon.models.possible import require_possible


@dataclass(frozen=True, eq=False)
class Guarantee:
    """What every group satisfies, and its compiled form for the rows of a table."""

    model: Model
    base_model: Model
    constraint: Constraint
    table_values: Mapping[str, tuple[pa.ChunkedArray, NDArray[np.int64]]] = field(default_factory=dict)
    """Where the rows are a part of a larger table: the values that groups are compared with, and the rows of each."""


@dataclass(frozen=True, eq=False)
class GuardedTable:
    """A table with the columns that a model looks at, coded once for all releases."""

    table: CodedTable
    model: Model | None  # besides k

    @property
    def is_plain(self) -> bool:
        """Whether k rows per group are all that is asked for."""
        return self.model is None and self.table.schema.identity is None

    @cached_property
    def columns(self) -> dict[str, CodedColumn]:
        names = () if self.model is None else self.model.columns
        return {name: self._coded(name) for name in names}

    @cached_property
    def people(self) -> CodedColumn | None:
        identity = self.table.schema.identity
        return None if identity is None else self._coded(identity)

    def guarantee(self, k: int, base_k: int) -> Guarantee:
        """What a release at k guarantees, of a tree at base_k; `PrivacyError` where no release can."""
        model = with_k(k, self.table.schema.identity, self.model)
        totals = {name: column.totals for name, column in self.columns.items()}
        people = None if self.people is None else self.people.totals
        require_possible(model, self.table.n_rows, totals, people, self.table.name)
        base_model = with_k(base_k, self.table.schema.identity, self.model).with_k_at_most(base_k)
        return Guarantee(model, base_model, self.compiled(model))

    def compiled(self, model: Model) -> Constraint:
        return compile_model(model, self.columns, self.people, n_rows=self.table.n_rows)

    def _coded(self, name: str) -> CodedColumn:
        column: pa.ChunkedArray = self.table.payload.column(name)
        return CodedColumn.of(*ranked_values(column))
