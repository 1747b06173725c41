"""From what a search found to a release: which group each row is in, checked once more, then handed to the release
layer.

The last check shares no grouping with the search: rows are counted anew by the number of the group that they were put
in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import PrivacyError, UsageError
from rtree_anon.hierarchy import BoundHierarchy
from rtree_anon.lattice.frequency import FrequencySet, Generalizer, Levels, count_chunks
from rtree_anon.lattice.groups import Groups
from rtree_anon.lattice.local import LocalRecoding
from rtree_anon.lattice.packing import Layout
from rtree_anon.lattice.search import Search
from rtree_anon.release.from_nodes import Facts, LatticeRelease, NodeGroups, release_nodes

SUPPRESSED_WAYS = ("omit", "group")


@dataclass(frozen=True)
class CarriedRoles:
    """Which columns travel with the rows."""

    sensitive: tuple[str, ...]
    keep: tuple[str, ...]
    identity: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.sensitive, *self.keep, *([self.identity] if self.identity else []))


def release_generalization(
    search: Search, roles: CarriedRoles, levels: Levels, algorithm: str, suppressed: str
) -> LatticeRelease:
    """The table at one generalization, without (or with, as one group) the rows that cannot be released."""
    if suppressed not in SUPPRESSED_WAYS:
        raise UsageError(f"suppressed must be one of {', '.join(SUPPRESSED_WAYS)}, not {suppressed!r}")
    columns = search.columns()
    leaves = columns[: search.generalizer.n_quasi]
    exact = (0,) * search.generalizer.n_quasi
    group_of_row, group_keys = search.generalizer.assign(search.generalizer.layout.pack(columns), exact, levels)
    frequencies = search.generalizer.roll_up(search.base, levels)
    good = search.holds_by_key(frequencies, group_keys)
    number = np.where(good, np.cumsum(good) - 1, -1)
    group_of_row = number[group_of_row]
    group_levels = np.tile(np.array(levels, dtype=np.int64), (int(good.sum()), 1))
    nodes = np.stack(
        [search.generalizer.layout.column(group_keys[:, good], i) for i in range(search.generalizer.n_quasi)], axis=1
    )
    is_out = group_of_row < 0
    n_suppressed = int(is_out.sum())
    if n_suppressed and suppressed == "group":
        top = np.array([bound.height for bound in search.hierarchies], dtype=np.int64)
        group_levels, nodes = np.vstack([group_levels, top]), np.vstack([nodes, np.zeros_like(top)])
        group_of_row[is_out] = len(nodes) - 1
        if not _satisfied(search, columns, group_of_row)[-1]:
            raise PrivacyError(
                f"the {n_suppressed} suppressed rows do not satisfy {search.condition.name} as a group of their own; "
                'release without them (suppressed="omit")'
            )
    share = _distortion(search, group_of_row, group_levels)
    facts = Facts(algorithm, search.condition.name, search.condition.least_rows, n_suppressed, levels, share)
    return _release(search, roles, columns, leaves, group_of_row, group_levels, nodes, facts)


def release_recoding(search: Search, roles: CarriedRoles, outcome: LocalRecoding) -> LatticeRelease:
    """The groups of local recoding; no row is suppressed."""
    columns = search.columns()
    facts = Facts(
        "local-recoding",
        search.condition.name,
        search.condition.least_rows,
        distortion_ratio=_distortion(search, outcome.group_of_row, outcome.levels),
        n_borrowed=outcome.n_borrowed,
        n_merged=outcome.n_merged,
    )
    leaves = columns[: search.generalizer.n_quasi]
    return _release(search, roles, columns, leaves, outcome.group_of_row, outcome.levels, outcome.nodes, facts)


def _release(
    search: Search,
    roles: CarriedRoles,
    columns: list[NDArray[np.integer]],
    leaves: list[NDArray[np.integer]],
    group_of_row: NDArray[np.int64],
    levels: NDArray[np.int64],
    nodes: NDArray[np.int64],
    facts: Facts,
) -> LatticeRelease:
    if not _satisfied(search, columns, group_of_row).all():
        raise PrivacyError(
            f"The release was checked before it was handed out, and a group breaks {search.condition.name}. Nothing "
            "was released. This is a bug in rtree-anon: please report it with the hierarchies and options used."
        )
    table = search.table
    groups = NodeGroups(
        table.names, table.hierarchies, table.has_missing, table.value_types, leaves, group_of_row, levels, nodes
    )
    return release_nodes(
        groups,
        table.carried.table(),
        facts,
        sensitive=roles.sensitive,
        keep=roles.keep,
        identity=roles.identity,
        weights=search.weights,
        source=table.source_name,
    )


def _satisfied(
    search: Search, columns: list[NDArray[np.integer]], group_of_row: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """For each group, by its number, whether its rows satisfy the condition; counted from the rows alone."""
    inside = group_of_row >= 0
    n_groups = int(group_of_row.max(initial=-1)) + 1
    layout = Layout.for_sizes([n_groups, *search.table.extra_sizes])
    identity = np.stack([np.arange(n_groups, dtype=np.int32), np.zeros(n_groups, dtype=np.int32)])
    numbers = BoundHierarchy(leaves=("",) * n_groups, ancestors=identity, labels=[[""] * n_groups, ["*"]])
    generalizer = Generalizer(layout, (numbers,))
    extras = [codes[inside] for codes in columns[search.generalizer.n_quasi :]]
    counted: FrequencySet = count_chunks(generalizer, [[group_of_row[inside], *extras]], (0,))
    groups = Groups(generalizer, counted, search.table.extra_names, search.shares)
    answer = np.empty(n_groups, dtype=bool)
    answer[layout.column(groups.keys, 0)] = search.condition.holds(groups)
    return answer


def _distortion(search: Search, group_of_row: NDArray[np.int64], levels: NDArray[np.int64]) -> float:
    """The mean height of a row as a share of the whole height (identity-reserved paper, Section 5)."""
    whole = sum(bound.height for bound in search.hierarchies)
    height_of_group = np.append(levels.sum(axis=1), whole)  # -1, the last, stands for suppressed rows
    return float(height_of_group[group_of_row].mean() / whole) if whole and len(group_of_row) else 0.0
