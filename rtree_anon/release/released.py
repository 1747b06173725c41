"""What every release can do, whether it is in memory or streams from an index: its figures, and the ways out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from os import PathLike
from typing import Any

import pyarrow as pa

from rtree_anon.errors import UsageError
from rtree_anon.io.run_batches import RunBatch
from rtree_anon.models import Demand

STYLES = ("interval", "text")
LAYOUTS = ("rows", "groups")
COUNT = "count"  # the column of a groups layout that holds the sizes
GROUP = "group"


class ReleasedTable(ABC):
    """One anonymized table at one k.

    `model` is what every group satisfies, as a text, and `demands` the same for the checker (empty: k rows and nothing
    else). `base_k` is the k at which all releases of the same tree are safe together and `safe_together_at` the model,
    both None where there is no such promise.
    """

    k: int
    base_k: int | None
    model: str
    safe_together_at: str | None
    demands: tuple[Demand, ...] = ()
    version: int | None
    method: str
    compact: bool
    algorithm: str
    source: str

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def n_groups(self) -> int:
        """The number of groups."""

    @property
    @abstractmethod
    def smallest_group(self) -> int:
        """The number of rows of the smallest group."""

    @property
    @abstractmethod
    def quasi(self) -> tuple[str, ...]:
        """The names of the quasi-identifiers."""

    @abstractmethod
    def quality(self) -> dict[str, float]:
        """Certainty (0: exact, 1: nothing is said), discernibility, average class size and KL divergence."""

    @abstractmethod
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

    @abstractmethod
    def runs(
        self, style: str = "interval", *, group_id: bool = False, key: bool = False, identity: bool = False
    ) -> Iterator[RunBatch]:
        """The rows group by group: one value for the rows of a group, where they have the same."""

    def __repr__(self) -> str:
        return f"<Release k={self.k}: {self.n_rows:,} rows in {self.n_groups:,} groups of {', '.join(self.quasi)}>"

    def to_arrow(
        self,
        style: str = "interval",
        layout: str = "rows",
        *,
        group_id: bool = False,
        key: bool = False,
        identity: bool = False,
    ) -> pa.Table:
        """The released table.

        `style`: "interval" (x_lo and x_hi for numbers and dates, text for categories) or "text" (one text column per
        quasi-identifier). `layout`: "rows" (one row per row) or "groups" (one row per group with its `count`; carried
        columns become lists). `group_id`, `key` and `identity` add columns that are left out otherwise; the identity
        becomes a random number, drawn anew at every call.
        """
        batches = list(self.batches(style, layout, group_id=group_id, key=key, identity=identity))
        return pa.Table.from_batches(batches)

    def to_pandas(self, style: str = "interval", layout: str = "rows", **extra: bool) -> Any:
        """The released table as a pandas data frame (see `to_arrow`)."""
        return self.to_arrow(style, layout, **extra).to_pandas()

    def to_polars(self, style: str = "interval", layout: str = "rows", **extra: bool) -> Any:
        """The released table as a polars data frame (see `to_arrow`)."""
        try:
            import polars
        except ImportError as error:
            raise UsageError("polars is not installed: pip install 'rtree-anon[polars]'.") from error
        return polars.from_arrow(self.to_arrow(style, layout, **extra))

    def write(
        self,
        path: str | PathLike[str],
        style: str | None = None,
        layout: str = "rows",
        *,
        overwrite: bool = False,
        group_id: bool = False,
        key: bool = False,
        identity: bool = False,
    ) -> None:
        """Write the release to a .parquet or .csv file, which appears only when it is complete, checked and durable.

        CSV is written in text style unless told otherwise, Parquet in interval style.
        """
        from rtree_anon.release.writing import write_release

        write_release(self, path, style, layout, overwrite=overwrite, group_id=group_id, key=key, identity=identity)


def check_form(style: str, layout: str) -> None:
    """Refuse a style or a layout that is not known."""
    if style not in STYLES:
        raise UsageError(f"style={style!r} is not known; choose one of {', '.join(STYLES)}.")
    if layout not in LAYOUTS:
        raise UsageError(f"layout={layout!r} is not known; choose one of {', '.join(LAYOUTS)}.")
