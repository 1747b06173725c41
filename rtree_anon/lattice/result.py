"""The answer of a lattice search: which generalizations satisfy the condition, and what finding them took."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rtree_anon.errors import PrivacyError
from rtree_anon.lattice.frequency import Levels
from rtree_anon.lattice.graph import Mask, minimal_nodes, nodes_by_height
from rtree_anon.lattice.policies import NodeStatistics, Policy, preferred
from rtree_anon.lattice.releasing import CarriedRoles, release_generalization
from rtree_anon.lattice.search import Effort, Search
from rtree_anon.lattice.walk import Status, Statuses, satisfying
from rtree_anon.release.from_nodes import LatticeRelease


@dataclass(frozen=True, eq=False)
class Result:
    """What a search found. A generalization is a tuple of levels in the order of the hierarchies."""

    algorithm: str
    search: Search
    roles: CarriedRoles
    statuses: Statuses  # one cell per node of the lattice, see `Status`
    complete: bool  # all generalizations are decided; otherwise only the lowest one that was met is given
    effort: Effort
    seconds: float

    @property
    def names(self) -> tuple[str, ...]:
        """The quasi-identifiers."""
        return self.search.table.names

    @property
    def heights(self) -> tuple[int, ...]:
        """The highest level of each quasi-identifier's hierarchy."""
        return tuple(bound.height for bound in self.search.hierarchies)

    @property
    def nodes_checked(self) -> int:
        """Generalizations whose frequency set was looked at (of all subsets of attributes, for Incognito)."""
        return self.effort.nodes_checked

    @property
    def scans(self) -> int:
        """Passes over the counted table."""
        return self.effort.scans

    @property
    def rollups(self) -> int:
        """Frequency sets that were made from other frequency sets."""
        return self.effort.rollups

    @property
    def n_nodes(self) -> int:
        """The size of the lattice."""
        return int(self.statuses.size)

    @cached_property
    def generalizations(self) -> list[Levels]:
        """All that satisfy the condition, lowest first (for Datafly and `first_only`: the one that was found)."""
        return self._levels(self._found)

    @cached_property
    def minimal(self) -> list[Levels]:
        """Those with no other one below them (Samarati, Definition 4.3), lowest first."""
        return self._levels(minimal_nodes(self._found))

    def statistics(self, generalization: Levels) -> NodeStatistics:
        """Suppressed rows and released groups of one generalization."""
        frequencies = self.search.generalizer.roll_up(self.search.base, generalization)
        groups = self.search.groups(frequencies)
        holds = self.search.condition.holds(groups)
        return NodeStatistics(generalization, int(groups.sizes[~holds].sum()), int(holds.sum()))

    def preferred(self, policy: Policy = "absolute") -> list[Levels]:
        """The minimal generalizations of the lowest cost; several where they tie.

        The cost is `absolute`, `relative`, `distribution` or `suppression` (Samarati's), `certainty` (the mean
        penalty), a mapping of weights for the relative distances of attributes, or any function of a generalization.
        """
        chosen = self.certainty if policy == "certainty" else policy
        return preferred(self.minimal, chosen, self.names, self.heights, self.statistics)

    def certainty(self, generalization: Levels) -> float:
        """The mean certainty penalty of a generalization, before suppression."""
        weights = self.search.weights
        penalties = [by_level[level] for by_level, level in zip(self._penalties, generalization, strict=True)]
        return sum(weight * penalty for weight, penalty in zip(weights, penalties, strict=True)) / sum(weights)

    @cached_property
    def _penalties(self) -> list[list[float]]:
        """For each attribute and level, the mean penalty over all rows."""
        base, generalizer = self.search.base, self.search.generalizer
        means = []
        for attribute, bound in enumerate(self.search.hierarchies):
            codes = generalizer.layout.column(base.keys, attribute)
            lowest = base.levels[attribute]
            first_leaf = np.searchsorted(bound.ancestors[lowest], np.arange(len(bound.labels[lowest])))
            leaf_of_key = first_leaf[codes]
            n_rows = max(int(base.counts.sum()), 1)
            means.append(
                [
                    float((penalties[row[leaf_of_key]] * base.counts).sum()) / n_rows
                    for penalties, row in zip(bound.penalties, bound.ancestors, strict=True)
                ]
            )
        return means

    def choose(self, policy: Policy = "absolute") -> Levels:
        """One preferred generalization; ties are broken by fewer suppressed rows, then by lower levels."""
        tied = self.preferred(policy)
        if not tied:
            raise PrivacyError(
                f"no generalization satisfies {self.search.condition.name} with at most "
                f"{self.search.max_suppressed} suppressed rows; allow more suppression or a weaker model"
            )
        if len(tied) == 1:
            return tied[0]
        return min(tied, key=lambda levels: (self.statistics(levels).n_suppressed, levels))

    def best(self, policy: Policy = "absolute", suppressed: str = "omit") -> LatticeRelease:
        """The preferred generalization as a release.

        Suppressed rows are left out (`omit`, as both papers do): released with `*` everywhere they would be a group of
        their own, and whoever knows that somebody is in no other group would find them in one of fewer than k.
        `suppressed="group"` releases them so where that group satisfies the model by itself, and refuses otherwise.
        """
        return self.release(self.choose(policy), suppressed)

    def release(self, generalization: Levels, suppressed: str = "omit") -> LatticeRelease:
        """Any of the generalizations as a release."""
        if generalization not in self.generalizations:
            raise PrivacyError(
                f"{generalization} is not among the generalizations that satisfy {self.search.condition.name} with at "
                f"most {self.search.max_suppressed} suppressed rows"
            )
        return release_generalization(self.search, self.roles, generalization, self.algorithm, suppressed)

    @cached_property
    def _found(self) -> Mask:
        if self.complete:
            return satisfying(self.statuses)
        met: Mask = self.statuses == Status.SATISFIED
        heights = np.indices(met.shape).sum(axis=0)
        lowest = heights[met].min(initial=int(heights.max()))
        return np.asarray(met & (heights == lowest))

    def _levels(self, mask: Mask) -> list[Levels]:
        return [tuple(row) for row in (nodes_by_height(mask) + np.array(self.search.low)).tolist()]
