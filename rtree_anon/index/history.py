"""Earlier versions that are still kept, so that `changes` can say what a published table must drop.

A version is its description and its tree; its bundles are on pages that later versions share as long as they did not
renew them. Pages that a version uses and the next one does not are freed when the version is forgotten:

    entry:  [version, metadata of its commit, {reference to a blob: pages (u64) that are freed with it}]

Invariant: a page belongs to the newest version, or is listed by exactly one entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError
from rtree_anon.storage.blob import blob_pages, read_blob, write_blob
from rtree_anon.storage.protocol import PageReader, PageStore

_KIND = 16  # of pages: a blob
MOST_VERSIONS = 16
_MOST_SHARE = 1.0  # of the pages of the newest version: earlier ones may take as many again

Pages = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class KeptVersion:
    """An earlier version: what its commit said, and where the list of its own pages is."""

    version: int
    metadata: Mapping[str, Any]
    own: Mapping[str, int]

    def entry(self) -> list[Any]:
        return [self.version, dict(self.metadata), dict(self.own)]

    def pages(self, reader: PageReader | PageStore) -> Pages:
        """Pages that no other version uses, those of the list among them."""
        own = np.frombuffer(read_blob(reader, self.own), np.uint64)
        existing = reader.page_ids()
        n_ids = int(existing[-1]) + 1 if len(existing) else 0
        return np.concatenate((own, blob_pages(self.own, reader.payload_bytes, n_ids)))


def kept_versions(entries: Any) -> list[KeptVersion]:
    """Entries as they were read."""
    try:
        found = [KeptVersion(version, metadata, own) for version, metadata, own in entries]
        if not all(type(kept.version) is int and isinstance(kept.metadata, dict) for kept in found):
            raise ValueError
    except (TypeError, ValueError):
        raise CorruptionError("The list of earlier versions is damaged; restore the index from a copy.") from None
    return found


def grown_history(store: PageStore, kept: Sequence[KeptVersion], own: Pages, n_newest: int) -> list[KeptVersion]:
    """The newest commit becomes an earlier version with its `own` pages; what is too old or too much is freed.

    `n_newest` is the number of pages of the version in the making.
    """
    blob = write_blob(store, own.tobytes(), _KIND)
    versions = [*kept, KeptVersion(store.commit_id, store.metadata, blob)]
    sizes = [int(version.own.get("bytes", 0)) // 8 for version in versions]
    while versions and (len(versions) > MOST_VERSIONS or sum(sizes) > max(_MOST_SHARE * n_newest, 64)):
        store.free(versions[0].pages(store))
        versions, sizes = versions[1:], sizes[1:]
    return versions
