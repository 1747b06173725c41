"""What a published table must drop and add to become another release, and what that reveals.

`Changes` has the groups of both sides that the other does not have. Releases of different versions are not safe
together: whoever has both sees which rows came and went. So it says how many for every *replacement* (groups that share
rows, dropped and added together), and a replacement by which fewer than k rows come, or go, is refused unless the
caller accepts it (DESIGN, section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from rtree_anon import __version__
from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.storage.publish import Publication

PAIR = np.dtype([("a", np.uint64), ("b", np.uint64)])
_GROUP = "group"
_SIGN = "__rows__"

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Changes:
    """Groups to drop and to add: tables in the form of a release, with a column `group` that tells groups apart."""

    since: int
    version: int
    k: int
    dropped: pa.Table
    added: pa.Table
    replacements: pa.Table  # groups_dropped, groups_added, rows_dropped, rows_added, gained, lost

    @property
    def n_dropped(self) -> int:
        """How many groups are dropped."""
        return int(pc.sum(self.replacements["groups_dropped"]).as_py() or 0)

    @property
    def n_added(self) -> int:
        """How many groups are added."""
        return int(pc.sum(self.replacements["groups_added"]).as_py() or 0)

    def __repr__(self) -> str:
        return (
            f"<Changes of version {self.since} to {self.version} at k={self.k}: {self.n_dropped:,} groups to drop, "
            f"{self.n_added:,} to add>"
        )

    def facts(self) -> dict[str, int]:
        """What a manifest says about them."""
        summed = {name: int(pc.sum(self.replacements[name]).as_py() or 0) for name in self.replacements.schema.names}
        about = {"since": self.since, "version": self.version, "k": self.k}
        return about | {"replacements": self.replacements.num_rows} | summed

    def write(self, directory: str | PathLike[str]) -> dict[str, Any]:
        """Write dropped.parquet, added.parquet, replacements.parquet and a manifest to a new directory, or nothing."""
        with Publication(directory) as publication:
            for name in ("dropped", "added", "replacements"):
                pq.write_table(getattr(self, name), publication.path(f"{name}.parquet"), write_page_checksum=True)
            return publication.finish({"made_by": f"rtree-anon {__version__}", "changes": self.facts()})

    def apply_to(self, table: pa.Table) -> pa.Table:
        """The release of now (rows in some order) from the release of the earlier version."""
        dropped, added = (part.drop_columns([_GROUP]) for part in (self.dropped, self.added))
        if table.schema.names != added.schema.names and table.num_rows:
            dropped = dropped.select(table.schema.names)
        rows = pa.concat_tables([_signed(table, 1), _signed(dropped.cast(table.schema), -1)])
        counted = rows.group_by(table.schema.names).aggregate([(_SIGN, "sum")])
        count = counted[f"{_SIGN}_sum"].to_numpy()
        if len(count) and int(count.min()) < 0:
            raise UsageError(f"The table is not the release of version {self.since} at k={self.k}: it lacks rows.")
        kept = counted.select(table.schema.names).take(pa.array(np.repeat(np.arange(len(count)), count)))
        # Where the columns differ (values are missing for the first time), all groups are replaced.
        return pa.concat_tables([kept.cast(added.schema), added]) if kept.num_rows else added


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Groups of one version: their released rows, how many each has, and what names rows and groups."""

    table: pa.Table
    sizes: NDArray[np.int64]
    rows: Hashes
    groups: NDArray[np.void]

    def only(self, which: NDArray[np.bool_]) -> GroupRows:
        of_rows = np.repeat(which, self.sizes)
        return GroupRows(
            self.table.filter(pa.array(of_rows)), self.sizes[which], self.rows[of_rows], self.groups[which]
        )


def joined_groups(parts: Sequence[GroupRows]) -> GroupRows:
    """Groups of several segments."""
    return GroupRows(
        pa.concat_tables([part.table for part in parts]),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.groups for part in parts]),
    )


def compared(
    old: GroupRows, new: GroupRows, *, since: int, version: int, k: int, allow_small: bool, same_form: bool
) -> Changes:
    """The changes from old groups to new ones. Without `same_form` columns may differ, and all groups are replaced."""
    if same_form:
        old, new = old.only(~np.isin(old.groups, new.groups)), new.only(~np.isin(new.groups, old.groups))
    replacements = _replacements(old, new)
    if not allow_small:
        _require_large(replacements, k)
    return Changes(since, version, k, _numbered(old), _numbered(new), replacements)


def shown_values(table: pa.Table, starts: NDArray[np.int64], payload: Sequence[str]) -> Hashes:
    """A number for what every group shows of its region, which can change though its rows do not."""
    columns = [table[name].take(pa.array(starts)) for name in table.schema.names if name not in payload]
    texts = [pc.fill_null(pc.cast(column, pa.large_string()), "\0") for column in columns]
    joined = pc.binary_join_element_wise(*texts, pa.scalar("\1", pa.large_string()))
    return np.fromiter((xxhash.xxh3_64_intdigest(text.encode()) for text in joined.to_pylist()), np.uint64, len(starts))


def _replacements(old: GroupRows, new: GroupRows) -> pa.Table:
    """Groups that share rows, directly or through others, as one replacement each."""
    n_old, n_new = len(old.sizes), len(new.sizes)
    old_of, new_of = np.repeat(np.arange(n_old), old.sizes), np.repeat(np.arange(n_new), new.sizes)
    _, at_old, at_new = np.intersect1d(old.rows, new.rows, assume_unique=True, return_indices=True)
    label = _components(n_old + n_new, old_of[at_old], n_old + new_of[at_new])
    names, place = np.unique(label, return_inverse=True)
    n = len(names)
    lost = np.ones(len(old.rows), np.int64)
    lost[at_old] = 0
    gained = np.ones(len(new.rows), np.int64)
    gained[at_new] = 0
    old_place, new_place = place[:n_old], place[n_old:]

    def summed(places: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(places, numbers, minlength=n).astype(np.int64)

    return pa.table(
        {
            "groups_dropped": summed(old_place, np.ones(n_old, np.int64)),
            "groups_added": summed(new_place, np.ones(n_new, np.int64)),
            "rows_dropped": summed(old_place, old.sizes),
            "rows_added": summed(new_place, new.sizes),
            "gained": summed(new_place[new_of], gained),
            "lost": summed(old_place[old_of], lost),
        }
    )


def _components(n: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest node that each node is connected with."""
    label = np.arange(n)
    while True:
        least = np.minimum(label[one], label[other])
        following = label.copy()
        np.minimum.at(following, one, least)
        np.minimum.at(following, other, least)
        following = following[following]
        if np.array_equal(following, label):
            return label
        label = following


def _require_large(replacements: pa.Table, k: int) -> None:
    for what in ("gained", "lost"):
        numbers = replacements[what].to_numpy()
        small = numbers[(numbers > 0) & (numbers < k)]
        if len(small):
            raise PrivacyError(
                f"{len(small):,} replacements have {what} fewer than {k} rows (the least {int(small.min())}): whoever "
                "has both versions sees whose they are. Wait for more changes, publish a table of its own, or accept "
                "it with allow_small=True."
            )


def _numbered(groups: GroupRows) -> pa.Table:
    number = np.repeat(np.arange(len(groups.sizes)), groups.sizes)
    return groups.table.append_column(_GROUP, pa.array(number, pa.int64()))


def _signed(table: pa.Table, sign: int) -> pa.Table:
    return table.append_column(_SIGN, pa.array(np.full(table.num_rows, sign), pa.int64()))
