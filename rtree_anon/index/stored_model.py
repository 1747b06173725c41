"""The privacy model of an index, for rows as the index has them: packed in words, or as columns of codes.

Three models belong to an index with the model "k and the rest":

    the index's own     k and the rest, as they were given: what every release satisfies, with a k of its own
    that of leaves      the same with all numbers of rows and people lowered to k: what every leaf satisfies, and what
                        all releases of a version satisfy together
    that of a release   k of the release, the rest, and whatever else was asked for

Where k rows are all that is asked for there is no `StoredModel`, and nothing of this is in the way.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError
from rtree_anon.index.distributions import Counts, Distribution, codes_in, dense_codes
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.io.stored_values import CarriedCodes, ValueColumn, Values
from rtree_anon.kernels.constraint import Constraint
from rtree_anon.models import Model
from rtree_anon.models.compiling import CodedColumn, CountedColumn, compile_model, counts_satisfy, groups_satisfy
from rtree_anon.models.demands import CLOSED_UPWARD, COMPARED
from rtree_anon.models.possible import require_possible
from rtree_anon.schema import Schema


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model, and the stored columns that it looks at. `table` has what groups are compared with, where they are."""

    model: Model
    columns: Mapping[str, ValueColumn]
    people: str | None = None  # the name of the identity column, which is one of the columns then
    table: Mapping[str, Distribution] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, schema: Schema, stored: StoredColumns) -> StoredModel:
        """A model of an index with these carried columns."""
        people = schema.identity if model.needs_identity else None
        names = [*model.columns, *([] if people is None else [people])]
        return cls(model, {name: ValueColumn.named(stored, name) for name in names}, people)

    def compared_with(self, table: Mapping[str, Distribution]) -> StoredModel:
        """The same model, for groups of a table with these distributions."""
        return replace(self, table=table)

    def demanding(self, model: Model) -> StoredModel:
        """Another model about the same columns."""
        return replace(self, model=model)

    @cached_property
    def compared(self) -> dict[str, ValueColumn]:
        """The columns whose distribution in the whole table matters."""
        names = {demand.column for demand in self.model.demands() if demand.quantity in COMPARED}
        return {name: column for name, column in self.columns.items() if name in names}

    @cached_property
    def is_upward(self) -> bool:
        """Whether every group that contains a valid one is valid."""
        return all(demand.quantity in CLOSED_UPWARD for demand in self.model.demands())

    def adds_to(self, leaves: StoredModel | None) -> bool:
        """Whether unions of leaves that satisfy another model may break this one though they have enough rows."""
        known = set() if leaves is None else set(leaves.model.demands())
        return any(demand.quantity != "rows" and demand not in known for demand in self.model.demands())

    def constraint(self, n_rows: int, carried: CarriedCodes, some: NDArray[np.int64] | None = None) -> Constraint:
        """What the kernels consult, for rows by their numbers; where only `some` of them will be asked for, the others
        need not be of the table."""
        columns = {name: self._coded(name, carried, some) for name in self.columns}
        people = None if self.people is None else columns.pop(self.people)
        return compile_model(self.model, columns, people, n_rows=n_rows)

    def leaves_hold(self, starts: NDArray[np.int64], carried: CarriedCodes) -> NDArray[np.bool_]:
        """For each run of rows starts[i]:starts[i+1] whether it satisfies the model."""
        n_rows = int(starts[-1])
        return groups_satisfy(self.constraint(n_rows, carried), np.arange(n_rows), starts)

    def counts(self, n_rows: int, carried: CarriedCodes) -> Counts:
        """What the model wants to know of some rows."""
        return Counts.of(n_rows, self.columns, carried)

    def holds(self, counts: Counts) -> bool:
        """Whether rows with these counts satisfy the model as one group."""
        columns = {name: self._counted(name, distribution) for name, distribution in counts.columns.items()}
        people = None if self.people is None else columns.pop(self.people)
        return counts_satisfy(self.model, counts.n_rows, columns, people)

    def hold_together(self, parts: Iterable[Counts]) -> bool:
        """Whether rows that come in parts satisfy the model together; looks at no more of them than it has to."""
        total: Counts | None = None
        for part in parts:
            total = part if total is None else total + part
            if self.is_upward and self.holds(total):
                return True
        return total is not None and self.holds(total)

    def require_possible(self, counts: Counts, source: str) -> None:
        """Raise the error of models that no division of a table can satisfy, where the whole table does not.

        Counts may lack columns; what is about those is not looked at then.
        """
        totals = {name: distribution.totals for name, distribution in counts.columns.items()}
        people = None if self.people is None else totals.pop(self.people, None)
        require_possible(self.model, counts.n_rows, totals, people, source)
        if counts.columns.keys() == self.columns.keys() and not self.holds(counts):  # by less than rounding shows
            raise PrivacyError(f"{source}: {self.model} cannot be met, not even with the whole table as one group.")

    def table_values(self) -> dict[str, tuple[Any, NDArray[np.int64]]]:
        """For the checker: the values of the compared columns, and how many rows of the table have each."""
        return {
            name: (
                column.with_missing(self.table[name].keys, self.table[name].n_missing > 0),
                self.table[name].totals,
            )
            for name, column in self.compared.items()
        }

    def _coded(self, name: str, carried: CarriedCodes, some: NDArray[np.int64] | None) -> CodedColumn:
        values = self.columns[name].values(carried)
        if some is not None and len(some) < len(values):
            coded = self._coded_values(name, values.only(some))
            codes = np.zeros(len(values), np.int32)
            codes[some] = coded.codes
            return CodedColumn(codes, coded.totals)
        return self._coded_values(name, values)

    def _coded_values(self, name: str, values: Values) -> CodedColumn:
        if name in self.compared:
            ranks, totals = self._ranked[name]
            return CodedColumn(ranks[codes_in(self.table[name].keys, values)], totals)
        codes, n_values = dense_codes(values)
        return CodedColumn(codes, np.ones(n_values, np.int64))  # how often they occur in the table does not matter

    @cached_property
    def _ranked(self) -> dict[str, tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """For the compared columns: the rank of every value of the table, and rows of the table by rank."""
        ranked = {}
        for name, column in self.compared.items():
            distribution = self.table[name]
            ranks = column.ranks(distribution.keys, distribution.n_missing > 0)
            totals = np.empty(len(ranks), np.int64)
            totals[ranks] = distribution.totals
            ranked[name] = ranks, totals
        return ranked

    def _counted(self, name: str, distribution: Distribution) -> CountedColumn:
        totals = distribution.totals
        if name not in self.compared:
            codes = np.arange(len(totals), dtype=np.int32)
            return CountedColumn(codes, totals, totals)
        places = np.searchsorted(self.table[name].keys, distribution.keys)
        if distribution.n_missing:
            places = np.append(places, len(self.table[name].keys))
        ranks, in_table = self._ranked[name]
        return CountedColumn(ranks[places], in_table, totals)
