"""Putting renewed bundles into the upper tree.

A renewed stretch is a subtree before and after, so the tree around it does not change: its bundles and the cuts between
them take the place of the old ones, at the depth at which the old ones hung.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from rtree_anon.index.bucket import Bundles
from rtree_anon.index.cuts import Cuts
from rtree_anon.index.uppertree import UpperTree

_BY_BUNDLE = ("n_pages", "n_rows", "n_leaves", "lo", "hi", "mask")


class Splice:
    """A new upper tree in the making, from left to right."""

    def __init__(self, base: UpperTree) -> None:
        self._base = base
        self._at = 0
        self._columns: dict[str, list[NDArray[np.generic]]] = {name: [] for name in ("page", "name", *_BY_BUNDLE)}
        self._cuts: list[Cuts] = []
        edge = np.full(1, -1, np.int32)
        self._edges = np.concatenate((edge, base.cuts.depth, edge))  # the depths of the cuts beside bundle i: i, i + 1

    def replace(
        self, begin: int, end: int, bundles: Bundles, of: slice, page: NDArray[np.int64], names: NDArray[np.int64]
    ) -> None:
        """Bundles begin .. end-1, a subtree behind those replaced so far, give way to these, given by their slice.

        page[b] is the first page of bundle b, names[b] its name.
        """
        self._keep(begin)
        self._columns["page"].append(page[of])
        self._columns["name"].append(names[of])
        for name in _BY_BUNDLE:
            self._columns[name].append(getattr(bundles, name)[of])
        if of.stop > of.start + 1:
            depth = int(max(self._edges[begin], self._edges[end])) + 1
            self._cuts.append(bundles.cuts[of.start : of.stop - 1].renumbered().deeper_by(depth))
        self._cuts.append(self._base.cuts[end - 1 : end])  # none behind the last bundle
        self._at = end

    def finished(self) -> UpperTree:
        """The whole tree."""
        self._keep(len(self._base))
        arrays = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        cuts = Cuts(*(np.concatenate([getattr(part, field.name) for part in self._cuts]) for field in fields(Cuts)))
        return UpperTree(**arrays, cuts=cuts)

    def _keep(self, end: int) -> None:
        if end > self._at:
            for name, parts in self._columns.items():
                parts.append(getattr(self._base, name)[self._at : end])
            self._cuts.append(self._base.cuts[self._at : end])
