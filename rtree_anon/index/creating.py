"""Making a new index: the store and its first description appear together, under their name, or not at all."""

from __future__ import annotations

from rtree_anon.errors import UsageError
from rtree_anon.index.catalog import Catalog
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.storage import DiskStore, create_store, open_store
from rtree_anon.storage.files import OPERATING_SYSTEM, FileSystem, explained, parent_and_name


def create_index_store(path: str, catalog: Catalog, *, fs: FileSystem = OPERATING_SYSTEM) -> DiskStore:
    """An index without rows, open for writing."""
    target = path.rstrip("/")
    parent, name = parent_and_name(target)
    if fs.exists(target):
        raise UsageError(f"{target} exists already. Choose another path, or remove it first.")
    making = f"{parent}/.{name}.making-{fs.random_bytes(8).hex()}"
    try:
        with create_store(making, fs=fs) as store:
            store.commit(catalog.write(store, UpperTree.empty(len(catalog.schema.quasi), 0)))
        with explained("create the index", target):
            if fs.exists(target):
                raise UsageError(f"{target} was made by somebody else just now. Choose another path.")
            fs.rename(making, target)
            fs.sync_directory(parent)
    except BaseException:
        _remove(making, fs)
        raise
    return open_store(target, fs=fs)


def _remove(directory: str, fs: FileSystem) -> None:
    """Leave nothing behind, as far as the disk still lets us; the error that led here is the one to report."""
    try:
        if fs.exists(directory):
            for name in fs.names(directory):
                fs.remove(f"{directory}/{name}")
            fs.remove_directory(directory)
    except OSError:
        return
