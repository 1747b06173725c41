"""Generalization hierarchies: how the exact values of an attribute become coarser, level by level.

`Hierarchy` is what users write (a file, a tree, or a rule such as intervals); `Hierarchy.bind` applies it to the
values of a column and gives a `BoundHierarchy`, which is plain arrays. Nothing here knows Arrow, tables or the
lattice.
"""

from __future__ import annotations

from rtree_anon.hierarchy.bound import BoundHierarchy
from rtree_anon.hierarchy.definition import Hierarchy

__all__ = ["BoundHierarchy", "Hierarchy"]
