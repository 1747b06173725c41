"""A release: groups of rows with the same generalized values, in memory, and the ways out of it.

Invariants: every group has at least k rows; the released table has exactly the columns of the quasi-identifiers (with
`_lo`, `_hi`, `_missing`), the sensitive and the keep columns, and no row id, key, identity or group id unless asked.
Rows inside a group are sorted by their released columns, so that nothing is left of the input's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.errors import SchemaError, UsageError
from rtree_anon.io.run_batches import RunBatch
from rtree_anon.models import Demand
from rtree_anon.release.columns import GroupColumn
from rtree_anon.release.in_threads import in_order
from rtree_anon.release.quality import Sums, sums_of
from rtree_anon.release.released import COUNT, GROUP, ReleasedTable, check_form
from rtree_anon.release.row_order import one_array, order_rows, pseudonyms

_BATCH_ROWS = 1 << 16
_RUNS_ROWS = 1 << 18  # of runs, which take little memory: a row group of a file
_FEW_ROWS = 1 << 19

_Piece = TypeVar("_Piece")


@dataclass(frozen=True, eq=False)
class Rows:
    """What travels with the rows: `payload` in input order, and `numbers`, the input rows group after group.

    `pseudonyms` turns people into random numbers.
    """

    payload: pa.Table
    numbers: NDArray[np.int64]
    sensitive: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    identity: str | None = None
    key: str | None = None
    pseudonyms: Callable[[pa.Array], pa.Array] = pseudonyms


class Release(ReleasedTable):
    """One anonymized table at one k.

    >>> import rtree_anon as ra
    >>> release = ra.anonymize(ra.generate("patients", 1000), k=5, quasi=["age", "sex"], sensitive=["diagnosis"])
    >>> release.k, release.n_rows
    (5, 1000)
    >>> release.to_arrow().column_names
    ['age_lo', 'age_hi', 'sex', 'diagnosis']
    """

    def __init__(
        self,
        columns: tuple[GroupColumn, ...],
        sizes: NDArray[np.int64],
        rows: Rows,
        *,
        k: int,
        base_k: int | None = None,
        model: str | None = None,
        safe_together_at: str | None = None,
        demands: tuple[Demand, ...] = (),
        method: str = "",
        compact: bool = True,
        algorithm: str = "",
        weights: tuple[float, ...] | None = None,
        log_multiplicity: Callable[[], float] | None = None,
        source: str = "",
        version: int | None = None,
    ) -> None:
        """`model` is what every group satisfies, k-anonymity unless said otherwise; `demands` is the same in detail.

        `base_k` is the k at which all releases of the same tree are safe together, None where there is no such promise;
        `safe_together_at` is the model at which they are, k-anonymity unless said otherwise.
        `log_multiplicity` gives the sum over rows of log(rows equal to it), which the KL divergence needs.
        """
        self._columns, self._sizes, self._rows = columns, sizes, rows
        self._weights = weights or (1.0,) * len(columns)
        self._log_multiplicity = log_multiplicity
        self.k, self.base_k, self.version, self.model = k, base_k, version, model or f"KAnonymity({k})"
        self.demands = demands
        self.safe_together_at = safe_together_at or (None if base_k is None else f"KAnonymity({base_k})")
        self.method, self.compact, self.algorithm, self.source = method, compact, algorithm, source
        require_distinct_names(self.quasi, (*rows.sensitive, *rows.keep, rows.identity, rows.key))

    @property
    def n_rows(self) -> int:
        return int(self._sizes.sum())

    @property
    def n_groups(self) -> int:
        return len(self._sizes)

    @property
    def smallest_group(self) -> int:
        return int(self._sizes.min())

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """The number of rows of every group."""
        return self._sizes

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The rows of the table that it was made from, group after group."""
        return self._rows.numbers

    @property
    def quasi(self) -> tuple[str, ...]:
        """The names of the quasi-identifiers."""
        return tuple(column.name for column in self._columns)

    def quality(self) -> dict[str, float]:
        """Certainty (0: exact, 1: nothing is said), discernibility, average class size and KL divergence.

        Definitions 3 to 5 of the R+-tree paper; `certainty` is the weighted mean over rows and attributes,
        `certainty_sum` the paper's own sum. Computed once.
        """
        return self.sums.measures(self._weights, self.k)

    @cached_property
    def sums(self) -> Sums:
        """What the figures of quality are made of."""
        return sums_of(self._columns, self._sizes, self._weights, self._log_multiplicity)

    def count(self, *, estimate: str = "intersect", **conditions: Any) -> float:
        """COUNT(*) of a query, answered from the release alone (paper, sections 2.3 and 5.4).

        A condition is a value, a pair (lo, hi) of inclusive bounds, or a list of values:
        `count(age=(25, 35), sex="F")`.
        `intersect` counts every row of a group that may match; `uniform` the expected number, with the values of a
        group taken as evenly spread.
        """
        if estimate not in ("intersect", "uniform"):
            raise UsageError(f"estimate={estimate!r} is not known; choose intersect or uniform.")
        by_name = {column.name: column for column in self._columns}
        share = np.ones(self.n_groups)
        touched = np.ones(self.n_groups, np.bool_)
        for name, wanted in conditions.items():
            if wanted is None:
                raise UsageError(f"{name}=None is no condition; leave {name!r} out to accept every value.")
            if name not in by_name:
                raise UsageError(f"{name!r} is not a quasi-identifier of this release ({', '.join(by_name)}).")
            meets, overlap = by_name[name].match(wanted)
            touched &= meets
            share *= overlap
        return float(self._sizes[touched].sum()) if estimate == "intersect" else float((self._sizes * share).sum())

    def batches(
        self,
        style: str = "interval",
        layout: str = "rows",
        *,
        group_id: bool = False,
        key: bool = False,
        identity: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The released table in record batches, so that it need not be in memory at once."""
        check_form(style, layout)
        if layout == "groups":
            yield from self._group_batches(style, group_id, key, identity)
        else:
            pieces = self._pieces(style, group_id, key, identity, _BATCH_ROWS)
            yield from self._in_pieces(lambda start: pieces(start).to_record_batch(), _BATCH_ROWS, worth_threads=True)

    def runs(
        self, style: str = "interval", *, group_id: bool = False, key: bool = False, identity: bool = False
    ) -> Iterator[RunBatch]:
        """The rows group by group: one value for the rows of a group, where they have the same."""
        check_form(style, "rows")
        # Without carried columns there is next to nothing to do.
        carries = bool(self._rows.sensitive or self._rows.keep or key or identity)
        pieces = self._pieces(style, group_id, key, identity, _RUNS_ROWS)
        yield from self._in_pieces(pieces, _RUNS_ROWS, worth_threads=carries)

    def number_people(self, pseudonyms: Callable[[pa.Array], pa.Array]) -> None:
        """Use these random numbers for people: those of other parts of the same table."""
        self._rows = replace(self._rows, pseudonyms=pseudonyms)

    def _pieces(
        self, style: str, group_id: bool, key: bool, identity: bool, most_rows: int
    ) -> Callable[[int], RunBatch]:
        """What gives the rows from some row on, up to `most_rows`; the last of its groups may go on after it."""
        generalized = self._generalized(style)
        if group_id:
            _add_column(generalized, GROUP, pa.array(np.arange(self.n_groups, dtype=np.int32)))
        carried = self._carried(key, identity)
        for name in carried.column_names:
            _require_new(generalized, name)
        order = order_rows(carried, self._rows.numbers, self._sizes)
        ends = np.cumsum(self._sizes)

        def piece(start: int) -> RunBatch:
            stop = min(start + most_rows, self.n_rows)
            first, last = (int(group) for group in np.searchsorted(ends, (start, stop - 1), "right"))
            rows = carried.take(pa.array(order[start:stop])) if carried.num_columns else carried
            return RunBatch(
                np.diff(np.minimum(ends[first : last + 1], stop), prepend=start),
                {name: values.slice(first, last + 1 - first) for name, values in generalized.items()},
                {name: one_array(rows.column(name)) for name in carried.column_names},
            )

        return piece

    def _in_pieces(self, work: Callable[[int], _Piece], piece_rows: int, worth_threads: bool) -> Iterator[_Piece]:
        starts = range(0, self.n_rows, piece_rows)
        # A table of few rows may be a segment that has a thread of its own already.
        return in_order(iter(starts), work, threads=None if worth_threads and self.n_rows > _FEW_ROWS else 1)

    def _generalized(self, style: str) -> dict[str, pa.Array]:
        generalized: dict[str, pa.Array] = {}
        for column in self._columns:
            generalized.update(column.columns(style))
        return generalized

    def _group_batches(self, style: str, group_id: bool, key: bool, identity: bool) -> Iterator[pa.RecordBatch]:
        generalized, carried = self._generalized(style), self._carried(key, identity)
        order = order_rows(carried, self._rows.numbers, self._sizes)
        ends = np.cumsum(self._sizes)
        for start in range(0, self.n_groups, _BATCH_ROWS):
            stop = min(start + _BATCH_ROWS, self.n_groups)
            columns = {name: values.slice(start, stop - start) for name, values in generalized.items()}
            if group_id:
                _add_column(columns, GROUP, pa.array(np.arange(start, stop, dtype=np.int32)))
            _add_column(columns, COUNT, pa.array(self._sizes[start:stop]))
            first_row = int(ends[start] - self._sizes[start])
            offsets = pa.array(np.concatenate(([0], ends[start:stop] - first_row)).astype(np.int32))
            rows = carried.take(pa.array(order[first_row : int(ends[stop - 1])]))
            for name in carried.column_names:
                _add_column(columns, name, pa.ListArray.from_arrays(offsets, one_array(rows.column(name))))
            yield pa.RecordBatch.from_pydict(columns)

    def _carried(self, key: bool, identity: bool) -> pa.Table:
        rows = self._rows
        names = [*rows.sensitive, *rows.keep]
        for wanted, name, role in ((key, rows.key, "key"), (identity, rows.identity, "identity")):
            if wanted and name is None:
                raise UsageError(f"{role}=True was asked for, but the schema names no {role}.")
            if wanted and name is not None:
                names.append(name)
        carried = rows.payload.select(names)
        if identity and rows.identity is not None:
            place = carried.schema.get_field_index(rows.identity)
            carried = carried.set_column(place, rows.identity, rows.pseudonyms(one_array(carried.column(place))))
        return carried


def require_distinct_names(quasi: Iterable[str], carried: Iterable[str | None]) -> None:
    """No column may stand for another one: neither when they are released nor when a checker looks for them."""
    taken: dict[str, str] = {}
    names = [(name + suffix, name) for name in quasi for suffix in ("", "_lo", "_hi", "_missing")]
    for name, owner in (*names, *((name, name) for name in carried if name is not None)):
        if taken.setdefault(name, owner) is not owner:
            raise SchemaError(
                f"The column {owner!r} would share the name {name!r} with a column made from {taken[name]!r}; rename "
                "one of them before anonymizing."
            )


def _add_column(columns: dict[str, pa.Array], name: str, values: pa.Array) -> None:
    _require_new(columns, name)
    columns[name] = values


def _require_new(columns: Mapping[str, pa.Array], name: str) -> None:
    if name in columns:
        raise UsageError(f"Two columns of the release would be called {name!r}; rename yours before anonymizing.")
