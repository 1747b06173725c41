"""From a model and coded columns to the constraint that kernels consult.

    constraint = compile_model(model, {"disease": column}, people)

A column is given as codes by row number, dense, in the order of its values, a missing value having a code of its own,
together with how often each value occurs in the whole table. So the same code serves a whole table in memory, where the
two say the same, and a part of a larger table, whose rows are compared with a distribution that comes from outside.

Demands on one column become one clause; only a second recursive (c,l) demand needs a clause of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, exp, inf, log

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import UsageError
from rtree_anon.kernels.constraint import ROUNDING, Constraint, satisfied_runs, tally_for, tally_holds
from rtree_anon.models.base import Model
from rtree_anon.models.demands import ABOUT_PEOPLE, Demand


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column that a model looks at: `codes` by row number, `totals` rows of the whole table by code."""

    codes: NDArray[np.int32]
    totals: NDArray[np.int64]

    @classmethod
    def of(cls, codes: NDArray[np.integer], n_values: int) -> CodedColumn:
        """A column of a whole table."""
        return cls(codes.astype(np.int32, copy=False), np.bincount(codes, minlength=n_values))


@dataclass(frozen=True, eq=False)
class CountedColumn(CodedColumn):
    """A column of a group of which only counts are known: counts[i] rows have the value codes[i], each named once."""

    counts: NDArray[np.int64]


def compile_model(
    model: Model, columns: Mapping[str, CodedColumn], people: CodedColumn | None = None, n_rows: int | None = None
) -> Constraint:
    """The constraint of a model, for rows with these columns; `people` says whose row it is.

    `n_rows` is needed only where there is neither a column nor people.
    """
    return _collected(model, columns, people).constraint(n_rows)


def counts_satisfy(
    model: Model, n_rows: int, columns: Mapping[str, CountedColumn], people: CountedColumn | None = None
) -> bool:
    """Whether a group of so many rows with these counts satisfies the model."""
    clauses = _collected(model, columns, people)
    constraint = clauses.constraint(0, with_codes=False)
    tally = tally_for(constraint)
    tally.n_rows[0] = n_rows
    for number, clause in enumerate(clauses.clauses.values()):
        column = clause.column
        assert isinstance(column, CountedColumn)
        place = int(constraint.place[number])
        tally.count[place + column.codes] = column.counts
        tally.present[place : place + len(column.codes)] = column.codes
        tally.n_present[number], tally.largest[number] = len(column.codes), column.counts.max(initial=0)
    return bool(tally_holds(constraint, tally))  # type: ignore[no-untyped-call]


def groups_satisfy(
    constraint: Constraint, row_numbers: NDArray[np.integer], starts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """For each group row_numbers[starts[i]:starts[i+1]], whether it satisfies the constraint."""
    satisfied = np.empty(len(starts) - 1, np.bool_)
    satisfied_runs(row_numbers, starts, constraint, tally_for(constraint), satisfied)  # type: ignore[no-untyped-call]
    return satisfied


def _collected(model: Model, columns: Mapping[str, CodedColumn], people: CodedColumn | None) -> _Clauses:
    clauses = _Clauses(columns, people)
    for demand in model.demands():
        if demand.quantity == "rows":
            clauses.least_rows = max(clauses.least_rows, _whole(demand))
        else:
            clauses.add(demand)
    return clauses


@dataclass
class _Clause:
    """The bounds on one column."""

    column: CodedColumn
    distinct: int = 1
    largest: float = 1.0
    entropy: float = 0.0
    tail_rank: int = 0
    tail_times: float = inf
    moved: float = inf
    moved_ordered: float = inf
    most: NDArray[np.float64] | None = None
    least: NDArray[np.float64] | None = None

    @property
    def shares(self) -> NDArray[np.float64]:
        shares: NDArray[np.float64] = self.column.totals / self.column.totals.sum()
        return shares

    def bound_above(self, most: NDArray[np.float64]) -> None:
        self.most = most if self.most is None else np.minimum(self.most, most)

    def bound_below(self, least: NDArray[np.float64]) -> None:
        self.least = least if self.least is None else np.maximum(self.least, least)

    @property
    def upward(self) -> bool:
        """Whether nothing but the number of distinct values is bounded."""
        others = (self.largest, self.entropy, self.tail_rank, self.moved, self.moved_ordered)
        return others == (1.0, 0.0, 0, inf, inf) and self.most is None and self.least is None

    @property
    def uses_shares(self) -> bool:
        return min(self.moved, self.moved_ordered) < inf or self.most is not None or self.least is not None

    @property
    def least_rows(self) -> int:
        """No smaller group can satisfy the clause."""
        at_most = ceil((1.0 - 1e-9) / self.largest)
        return max(self.distinct, at_most, ceil(exp(self.entropy) - 1e-9))


@dataclass
class _Clauses:
    columns: Mapping[str, CodedColumn]
    people: CodedColumn | None
    least_rows: int = 1
    clauses: dict[tuple[str | None, int], _Clause] = field(default_factory=dict)

    def add(self, demand: Demand) -> None:
        clause = self._clause(demand, 0)
        match demand.quantity:
            case "people" | "distinct_l":
                clause.distinct = max(clause.distinct, _whole(demand))
            case "alpha" | "individual_alpha":
                clause.largest = min(clause.largest, _number(demand))
            case "entropy_l":
                clause.entropy = max(clause.entropy, log(_number(demand)))
                clause.distinct = max(clause.distinct, ceil(_number(demand) - 1e-9))  # so many values have that entropy
            case "recursive":
                self._add_recursive(demand)
            case "t":
                clause.moved = min(clause.moved, _number(demand))
            case "t_ordered":
                clause.moved_ordered = min(clause.moved_ordered, _number(demand))
            case "beta":
                clause.bound_above(clause.shares * (1.0 + _number(demand)) * (1.0 + ROUNDING))
            case "beta_enhanced":
                with np.errstate(divide="ignore"):  # a value that does not occur anywhere has no bound
                    gain = np.minimum(_number(demand), -np.log(clause.shares))
                clause.bound_above(clause.shares * (1.0 + gain) * (1.0 + ROUNDING))
            case "delta":
                # Strict bounds. A group that lacks a value of the table breaks them, so it needs all of them.
                clause.bound_above(clause.shares * np.exp(_number(demand)) * (1.0 - ROUNDING))
                clause.bound_below(clause.shares * np.exp(-_number(demand)) * (1.0 + ROUNDING))
                clause.distinct = max(clause.distinct, int((clause.column.totals > 0).sum()))
            case _:
                raise UsageError(f"There is no quantity {demand.quantity!r} that a model could ask for.")

    def _add_recursive(self, demand: Demand) -> None:
        times, rank = demand.bound  # type: ignore[misc]
        number = 0
        while self._clause(demand, number).tail_rank not in (0, rank):
            number += 1
        clause = self._clause(demand, number)
        clause.tail_rank, clause.tail_times = int(rank), min(clause.tail_times, float(times))
        clause.distinct = max(clause.distinct, int(rank))

    def _clause(self, demand: Demand, number: int) -> _Clause:
        key = (demand.column, number)
        if key not in self.clauses:
            if demand.quantity in ABOUT_PEOPLE:
                if self.people is None:
                    raise UsageError("The model counts people: name the identity column, which says whose row it is.")
                self.clauses[key] = _Clause(self.people)
            elif demand.column is None or demand.column not in self.columns:
                raise UsageError(f"The model is about the column {demand.column!r}, which is not a sensitive column.")
            else:
                self.clauses[key] = _Clause(self.columns[demand.column])
        return self.clauses[key]

    def constraint(self, n_rows: int | None, *, with_codes: bool = True) -> Constraint:
        clauses = list(self.clauses.values())
        n_values = np.array([len(clause.column.totals) for clause in clauses], np.int64)
        stored = np.array([len(clause.column.totals) if clause.uses_shares else 0 for clause in clauses], np.int64)
        shares = [clause.shares if clause.uses_shares else np.zeros(0) for clause in clauses]
        above = [np.cumsum(share) for share in shares]
        if clauses and with_codes:
            codes = np.stack([clause.column.codes for clause in clauses], axis=1)
        else:
            codes = np.zeros((n_rows or 0, len(clauses)), np.int32)

        def of(name: str, kind: type[np.generic]) -> NDArray[np.generic]:
            return np.array([getattr(clause, name) for clause in clauses], kind)

        def per_value(name: str, otherwise: float) -> NDArray[np.float64]:
            given = [
                getattr(clause, name) if getattr(clause, name) is not None else np.full(size, otherwise)
                for clause, size in zip(clauses, stored, strict=True)
            ]
            return _joined(given)

        return Constraint(
            least_rows=max([self.least_rows, *(clause.least_rows for clause in clauses)]),
            upward=all(clause.upward for clause in clauses),
            codes=np.ascontiguousarray(codes, np.int32),
            n_values=n_values,
            place=_begins(n_values),
            distinct=of("distinct", np.int64),  # type: ignore[arg-type]
            largest=of("largest", np.float64),  # type: ignore[arg-type]
            entropy=of("entropy", np.float64),  # type: ignore[arg-type]
            tail_rank=of("tail_rank", np.int64),  # type: ignore[arg-type]
            tail_times=of("tail_times", np.float64),  # type: ignore[arg-type]
            moved=of("moved", np.float64),  # type: ignore[arg-type]
            moved_ordered=of("moved_ordered", np.float64),  # type: ignore[arg-type]
            bounded=np.array([clause.most is not None or clause.least is not None for clause in clauses], np.bool_),
            offset=_begins(stored),
            share=_joined(shares),
            above=_joined(above),
            area=_joined([np.cumsum(each) - each for each in above]),
            most=per_value("most", inf),
            least=per_value("least", 0.0),
        )


def _begins(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    begins: NDArray[np.int64] = np.cumsum(sizes) - sizes
    return begins


def _joined(arrays: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *arrays])


def _whole(demand: Demand) -> int:
    return int(_number(demand))


def _number(demand: Demand) -> float:
    assert not isinstance(demand.bound, tuple)
    return float(demand.bound)
