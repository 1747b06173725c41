"""Parts of a large table that hold whole groups, to answer for the table in a fraction of the time.

The rows that have one of some values of an attribute, at the level of a node, hold every group of the node that they
touch completely, and those of all lower nodes. Two such parts are of use:

* the rows of the rarest values: a node whose groups break the condition there is decided, and there it is most likely;
* the rows of every so-manieth value by frequency: they have their share of the groups, hence tell how many there are.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtree_anon.lattice.frequency import DROPPED, FrequencySet, Generalizer, Levels

SHARE = 64  # about one row in so many is in a part


class _Parts(NamedTuple):
    rarest: FrequencySet
    spread: FrequencySet


class Samples:
    """Parts of one table, made when first asked for, by any thread."""

    def __init__(self, generalizer: Generalizer, table: FrequencySet) -> None:
        self._generalizer = generalizer
        self._table = table
        self._parts: dict[tuple[int, int], _Parts] = {}
        self._lock = threading.Lock()

    def rarest(self, levels: Levels) -> FrequencySet | None:
        """Groups of the node at `levels` that are likely to be the smallest, each of them complete; None if none."""
        rarest = self._of(levels).rarest
        return self._generalizer.roll_up(rarest, levels) if len(rarest) else None

    def n_groups(self, levels: Levels) -> int | None:
        """An estimate of the number of keys of a node's frequency set; None where no part is fit to tell."""
        spread = self._of(levels).spread
        if not 0.5 < SHARE * len(spread) / len(self._table) < 2:  # too few values, or one that is too frequent
            return None
        return round(len(self._generalizer.roll_up(spread, levels)) * len(self._table) / len(spread))

    def _of(self, levels: Levels) -> _Parts:
        """The parts by the attribute that has the most values at these levels."""
        sizes = {
            attribute: len(self._generalizer.hierarchies[attribute].labels[level])
            for attribute, level in enumerate(levels)
            if level != DROPPED
        }
        attribute = max(sizes, key=sizes.__getitem__)
        place = attribute, levels[attribute]
        with self._lock:
            if place not in self._parts:
                self._parts[place] = self._make(*place)
            return self._parts[place]

    def _make(self, attribute: int, level: int) -> _Parts:
        generalizer, table = self._generalizer, self._table
        value_of_key = generalizer.values(table, attribute, level)
        n_rows = np.bincount(value_of_key, weights=table.counts)
        by_rarity = np.argsort(n_rows, kind="stable")
        is_rare = n_rows[by_rarity].cumsum() <= n_rows.sum() / SHARE
        return _Parts(
            _with_values(table, value_of_key, by_rarity[is_rare]),
            _with_values(table, value_of_key, by_rarity[SHARE // 2 :: SHARE]),
        )


def _with_values(table: FrequencySet, value_of_key: NDArray[np.int64], values: NDArray[np.int64]) -> FrequencySet:
    """The keys of a table that have one of these values."""
    is_wanted = np.zeros(int(value_of_key.max(initial=0)) + 1, dtype=bool)
    is_wanted[values] = True
    chosen = np.flatnonzero(is_wanted[value_of_key])
    return FrequencySet(table.levels, table.keys[:, chosen], table.counts[chosen])
