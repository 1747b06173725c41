"""The R+-tree in memory: rows cut into leaves, leaves in scan order, groups of leaves for a release."""

from rtree_anon.tree.build import LeafTree, build_tree
from rtree_anon.tree.effort import QUALITIES

__all__ = ["QUALITIES", "LeafTree", "build_tree"]
