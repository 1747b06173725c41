"""Stretches that are renewed by one call, though other bundles lie between them.

A small batch touches bundles all over the tree, each a stretch of its own, and what a stretch costs besides its rows is
several times what its rows cost. So neighbouring stretches are put together: the tree over their bundles alone, with
the cuts of the upper tree that separate them.

    upper tree:    a  |3  b  |1  c  |2  d  |3  e          cuts with their depths; b, d and e are touched
    together:             b  |1         d  |3  e          of the cuts between two of them, the one highest in the tree

That is a tree again, and sends every row that belongs to one of its bundles there. As all of its cuts are older than
the batch, what is renewed keeps to its stretch, if each has rows enough to stand alone:

    settling   drops a cut only where one side has fewer than k rows
    regions    that are cut again have at most `region_rows` rows
    bundles    are subtrees that fit a page: that two stretches do not fit one together is likely here, and is seen
               afterwards from where bundles end (`Together.shares`): then they are renewed once more, apart
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.uppertree import UpperTree

_FULL = 0.75  # of all bundles have fewer rows than two stretches need, to be unlikely to fit a page together

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Part:
    """A stretch to be renewed: bundles begin .. end-1 of the settled tree, and what comes and goes."""

    begin: int
    end: int
    rows: NDArray[np.int32]  # that are added, by number, bundle by bundle
    rows_of_bundles: Ids  # how many of them each bundle gets
    gone: Ids  # likewise
    gone_of_bundles: Ids
    n_rows: int  # that it is going to have


@dataclass(frozen=True, eq=False)
class Together:
    """Stretches in order that are renewed by one call; mostly many small ones, or a single large one."""

    number: int  # of the first one
    parts: Sequence[Part]

    @cached_property
    def bundles(self) -> Ids:
        """The bundles of all of them."""
        return np.concatenate([np.arange(part.begin, part.end) for part in self.parts])

    @property
    def rows(self) -> NDArray[np.int32]:
        """The rows that are added."""
        return np.concatenate([part.rows for part in self.parts])

    @property
    def ends(self) -> Ids:
        """Up to where the added rows are those of each bundle."""
        return np.cumsum(np.concatenate([part.rows_of_bundles for part in self.parts]))

    @property
    def gone(self) -> Ids:
        """The ids of rows that go."""
        return np.concatenate([part.gone for part in self.parts])

    @property
    def gone_ends(self) -> Ids:
        """Up to where these are those of each bundle."""
        return np.cumsum(np.concatenate([part.gone_of_bundles for part in self.parts]))

    def cuts_between(self, depth: NDArray[np.int32]) -> Ids:
        """The cuts between their bundles, by number; `depth` is that of all cuts of the tree."""
        bundles = self.bundles
        cuts = bundles[:-1].copy()
        for place in np.flatnonzero(np.diff(bundles) > 1).tolist():
            a, b = int(bundles[place]), int(bundles[place + 1])
            cuts[place] = a + int(depth[a:b].argmin())
        return cuts

    def own_bundles(self, n_rows: Ids) -> list[slice]:
        """Which of the new bundles, with so many rows each, are those of every part; none where parts share one."""
        if self.shares(n_rows).any():
            return []
        behind = (np.searchsorted(np.cumsum(n_rows), self._ends) + 1).tolist()
        return [slice(a, b) for a, b in zip([0, *behind], behind, strict=False)]

    def shares(self, n_rows: Ids) -> NDArray[np.bool_]:
        """For every part whether its last bundle, of new ones with so many rows each, is not its own."""
        ends = np.cumsum(n_rows)
        behind = np.searchsorted(ends, self._ends)
        shared: NDArray[np.bool_] = ends[np.minimum(behind, len(ends) - 1)] != self._ends
        return shared

    def divided(self, behind: NDArray[np.bool_]) -> list[Together]:
        """The same in smaller groups: a group ends with each of these parts."""
        ends = [*(np.flatnonzero(behind[:-1]) + 1).tolist(), len(self.parts)]
        return [Together(self.number + a, self.parts[a:b]) for a, b in zip([0, *ends], ends, strict=False)]

    @property
    def _ends(self) -> Ids:
        """The number of rows up to the end of every part, as they are going to be."""
        return np.cumsum([part.n_rows for part in self.parts])


def put_together(tree: UpperTree, parts: Sequence[Part], least_rows: int, most_rows: int) -> list[Together]:
    """Stretches in groups of at most so many rows; one with fewer than `least_rows` rows, or too many, is alone."""
    full = float(np.quantile(tree.n_rows, _FULL)) if len(parts) > 1 else 0.0
    found: list[Together] = []
    group: list[Part] = []
    n_group = 0
    for number, part in enumerate(parts):
        fits = bool(group) and n_group + part.n_rows <= most_rows
        if not fits or min(group[-1].n_rows, part.n_rows) < least_rows or group[-1].n_rows + part.n_rows <= full:
            group = []
            n_group = 0
            found.append(Together(number, group))
        group.append(part)
        n_group += part.n_rows
    return found
