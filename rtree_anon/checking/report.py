"""The result of a check: figures of the whole table, and the groups and rows that fall short.

Rows are named by position, counted from 0 as in a frame; only `row_numbers` in texts and in JSON count from 1, like the
errors of this package.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.checking.grouping import Grouping
from rtree_anon.checking.identity import IdentityReport
from rtree_anon.checking.sensitive import SensitiveReport


@dataclass(frozen=True)
class Group:
    """One group: what its rows have in common, and which they are."""

    values: dict[str, Any]
    size: int
    individuals: int | None
    rows: NDArray[np.int64]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; values that JSON does not know become text."""
        plain = {name: value if _is_plain(value) else str(value) for name, value in self.values.items()}
        facts: dict[str, Any] = {"values": plain, "size": self.size, "row_numbers": (self.rows + 1).tolist()}
        if self.individuals is not None:
            facts["individuals"] = self.individuals
        return facts


@dataclass(frozen=True, eq=False)
class Report:
    """What a table protects. `print(report)` shows it; `report.k` is the size of the smallest group."""

    columns: tuple[
        str, ...
    ]  # that rows were grouped by: of a quasi-identifier x either x or x_lo and x_hi, and x_missing
    sensitive: dict[str, SensitiveReport]
    identity: IdentityReport | None
    grouping: Grouping
    _values: pa.Table  # the quasi-identifier columns, one row per group

    @property
    def k(self) -> int:
        """Rows in the smallest group."""
        return int(self.sizes.min())

    @property
    def n_rows(self) -> int:
        """Rows of the table (of a groups layout: the sum of the counts)."""
        return self.grouping.n_rows

    @property
    def n_groups(self) -> int:
        """Distinct combinations of quasi-identifier values."""
        return self.grouping.n_groups

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows per group, groups in the order of their first rows."""
        return self.grouping.sizes

    @property
    def individuals(self) -> int | None:
        """Fewest people behind a group; None without an identity column."""
        return self.identity.k if self.identity else None

    @property
    def distinct_l(self) -> int | None:
        """Fewest distinct values in a group, of the worst sensitive column; None without one (as for those below)."""
        return min((column.distinct_l for column in self.sensitive.values()), default=None)

    @property
    def entropy_l(self) -> float | None:
        """Entropy l-diversity of the worst sensitive column."""
        return min((column.entropy_l for column in self.sensitive.values()), default=None)

    @property
    def t(self) -> float | None:
        """t-closeness (equal distance) of the worst sensitive column."""
        return max((column.t for column in self.sensitive.values()), default=None)

    @property
    def t_ordered(self) -> float | None:
        """t-closeness (ordered distance) of the worst sensitive column."""
        return max((column.t_ordered for column in self.sensitive.values()), default=None)

    @property
    def alpha(self) -> float | None:
        """Largest share of one sensitive value in a group, of the worst sensitive column."""
        return max((column.alpha for column in self.sensitive.values()), default=None)

    @property
    def unique_rows(self) -> NDArray[np.int64]:
        """Positions of rows that are alone in their group."""
        return self.rows_below(2)

    def rows_below(self, k: int) -> NDArray[np.int64]:
        """Positions of rows in groups of fewer than k rows (fewer than k people, where an identity column is given)."""
        return self.grouping.rows_of(self._people_per_group() < k)

    def groups_below(self, k: int) -> Groups:
        """The groups of fewer than k rows (people, where an identity column is given), smallest first."""
        people = self._people_per_group()
        short = np.flatnonzero(people < k)
        return self.groups(short[np.argsort(people[short], kind="stable")])

    def groups(self, numbers: NDArray[np.int64] | None = None) -> Groups:
        """The groups with these numbers, or all."""
        return Groups(self, np.arange(self.n_groups) if numbers is None else numbers)

    def _people_per_group(self) -> NDArray[np.int64]:
        return self.identity.individuals_per_group if self.identity else self.sizes

    def shortfalls(self, **asked: Any) -> list[str]:
        """One sentence for each asked threshold that the table does not reach; empty where it reaches all.

        Thresholds are those of `rtree_anon.checking.requirements.Requirements`, for example
        `shortfalls(k=5, distinct_l=3, t=0.2)`.
        """
        from rtree_anon.checking.requirements import Requirements

        return Requirements.of(asked).shortfalls(self)

    def unmet(self, demands: Iterable[Any]) -> list[str]:
        """One sentence for each demand of a privacy model (`model.demands()`) that the table does not meet."""
        found: list[str] = []
        for demand in demands:
            about = self
            if demand.column is not None:
                about = replace(self, sensitive={demand.column: self.sensitive[demand.column]})
            found.extend(about.shortfalls(**{demand.quantity: demand.bound}))
        return found

    def to_dict(self, k: int = 2, most_groups: int = 100) -> dict[str, Any]:
        """Everything, ready for JSON, with up to `most_groups` of the groups below k."""
        short = self.groups_below(k)
        facts: dict[str, Any] = {
            "k": self.k,
            "rows": self.n_rows,
            "groups": self.n_groups,
            "columns": list(self.columns),
            "sensitive": {name: column.to_dict() for name, column in self.sensitive.items()},
            "below": {
                "k": k,
                "groups": len(short),
                "rows": short.n_rows,
                "listed": [group.to_dict() for group in short.first(most_groups)],
            },
        }
        if self.identity:
            facts["identity"] = self.identity.to_dict()
        return facts

    def __str__(self) -> str:
        from rtree_anon.checking.describe import as_text

        return as_text(self)

    def __repr__(self) -> str:
        return f"<Report: k={self.k}, {self.n_rows} rows, {self.n_groups} groups>"


class Groups:
    """Some groups of a report; a group is put together only when it is looked at."""

    def __init__(self, report: Report, numbers: NDArray[np.int64]) -> None:
        self.numbers = numbers
        self._report = report

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, position: int) -> Group:
        number = int(self.numbers[position])
        report = self._report
        return Group(
            values=report._values.slice(number, 1).to_pylist()[0],
            size=int(report.sizes[number]),
            individuals=int(report.identity.individuals_per_group[number]) if report.identity else None,
            rows=report.grouping.rows_in(number),
        )

    @property
    def n_rows(self) -> int:
        """Rows in these groups together."""
        return int(self._report.sizes[self.numbers].sum())

    def __iter__(self) -> Iterator[Group]:
        return (self[position] for position in range(len(self)))

    def first(self, most: int) -> Groups:
        """At most that many of them."""
        return Groups(self._report, self.numbers[:most])


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | str | None) or (isinstance(value, float) and math.isfinite(value))
