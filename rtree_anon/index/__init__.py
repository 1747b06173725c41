"""The index on disk: an R+-tree whose leaves are groups of at least k rows, on the pages of `rtree_anon.storage`.

    bulk load:  batches ─► rowlayout (words) ─► scatter (buckets, spilled) ─► bucket (leaves) ─► bundle (pages) ─► store
    reading:    store ─► bundle ─► segments in leaf order ─► release

A *bundle* is a page full of neighbouring leaves, with the cuts between them; the *upper tree* (`uppertree`) has the
bundles as its leaves, lives in memory and is written as a whole with every commit.
"""

from rtree_anon.index.index import Index

__all__ = ["Index"]
