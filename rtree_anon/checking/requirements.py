"""Thresholds that a table is held against, and the sentences that say where it stays below them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from rtree_anon.errors import UsageError

if TYPE_CHECKING:
    from rtree_anon.checking.report import Report
    from rtree_anon.checking.sensitive import SensitiveReport

_ROUNDING = 1e-9  # relative: three equal shares have entropy l = 3, whatever the last bit of exp and log says


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What is asked of a table; None asks nothing. With an identity column, k counts people instead of rows."""

    k: int | None = None
    rows: int | None = None  # per group, also where there is an identity column
    people: int | None = None
    distinct_l: int | None = None
    entropy_l: float | None = None
    recursive: tuple[float, int] | None = None  # (c, l)
    t: float | None = None
    t_ordered: float | None = None
    alpha: float | None = None
    beta: float | None = None
    beta_enhanced: float | None = None
    delta: float | None = None
    individual_alpha: float | None = None  # Definition 4 of the identity-reserved models: share of one person's rows

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Requirements:
        """Requirements from names and values; an unknown name is refused."""
        known = [field.name for field in fields(cls)]
        for name in asked:
            if name not in known:
                raise UsageError(f"There is no threshold called {name!r}. Choose from: {', '.join(known)}.")
        return cls(**asked)

    def shortfalls(self, report: Report) -> list[str]:
        """One sentence per threshold that is not reached."""
        self._demand_columns(report)
        found = list(self._groups(report))
        for column in report.sensitive.values():
            found.extend(self._values(column))
        return found

    def _demand_columns(self, report: Report) -> None:
        about_groups = ("k", "rows", "people", "individual_alpha")
        about_values = [
            f.name for f in fields(self) if f.name not in about_groups and getattr(self, f.name) is not None
        ]
        if about_values and not report.sensitive:
            raise UsageError(f"{about_values[0]} is about sensitive columns; name at least one.")
        for name in ("people", "individual_alpha"):
            if getattr(self, name) is not None and report.identity is None:
                raise UsageError(f"{name} is about people; name the identity column, which says whose row it is.")

    def _groups(self, report: Report) -> Iterator[str]:
        people = None if report.identity is None else report.identity.individuals_per_group
        for name, least, what, counts in (
            ("k", self.k, "rows" if people is None else "people", report.sizes if people is None else people),
            ("rows", self.rows, "rows", report.sizes),
            ("people", self.people, "people", people),
        ):
            if least is None or counts is None or int(counts.min()) >= least:
                continue
            short = report.sizes[counts < least]
            yield (
                f"{name} = {least} was asked for, but {len(short):,} of {report.n_groups:,} groups have fewer {what} "
                f"(the smallest {int(counts.min())}); {int(short.sum()):,} rows are in them."
            )
        if (
            self.individual_alpha is not None
            and report.identity
            and _over(report.identity.alpha, self.individual_alpha)
        ):
            yield f"One person has {report.identity.alpha:.6g} of a group's rows, more than {self.individual_alpha:g}."

    def _values(self, column: SensitiveReport) -> Iterator[str]:
        if self.distinct_l is not None and column.distinct_l < self.distinct_l:
            n_short = int((column.distinct_per_group < self.distinct_l).sum())
            yield (
                f"{column.name}: {self.distinct_l} distinct values were asked for, but {n_short:,} groups have fewer "
                f"(the fewest {column.distinct_l})."
            )
        if self.entropy_l is not None and _over(self.entropy_l, column.entropy_l):
            yield f"{column.name}: entropy l is {column.entropy_l:.6g}, below {self.entropy_l:g}."
        if self.recursive is not None:
            c, ell = self.recursive
            found = column.recursive_c(ell)
            if found >= c:
                yield f"{column.name}: not recursive ({c:g},{ell})-diverse; c would have to be above {found:.6g}."
        for what, found, most in (
            ("t (equal distance)", column.t, self.t),
            ("t (ordered distance)", column.t_ordered, self.t_ordered),
            ("alpha (share of one value)", column.alpha, self.alpha),
            ("beta", column.beta, self.beta),
            ("beta (enhanced)", column.beta_enhanced, self.beta_enhanced),
        ):
            if most is not None and _over(found, most):
                yield f"{column.name}: {what} is {found:.6g}, above {most:g}."
        if self.delta is not None and column.delta >= self.delta:  # the definition has "less than"
            yield f"{column.name}: delta is {column.delta:.6g}, not below {self.delta:g}."


def _over(figure: float, limit: float) -> bool:
    return figure > limit + _ROUNDING * max(1.0, abs(limit))
