"""Releases: generalized columns, one value per group, with the rows that travel along."""

from rtree_anon.release.columns import GroupColumn, IntervalColumn, LabelColumn, SetColumn
from rtree_anon.release.release import Release, Rows

__all__ = ["GroupColumn", "IntervalColumn", "LabelColumn", "Release", "Rows", "SetColumn"]
