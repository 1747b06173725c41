"""Keys name rows, so no two rows may have the same one: looked at when a load is about to be committed."""

from __future__ import annotations

from rtree_anon.errors import InputError
from rtree_anon.index.ids import IdSet
from rtree_anon.index.reading import BundleReader
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.io.stored_columns import ID_RANGE, DictionaryColumn, StoredColumns
from rtree_anon.space import Space
from rtree_anon.storage.protocol import PageStore


def require_unique_keys(
    store: PageStore, tree: UpperTree, space: Space, stored: StoredColumns, n_rows: int, source: str
) -> None:
    """Refuse two rows with one key. `tree` is over pages of the store's open transaction."""
    for column in stored.columns:
        if isinstance(column, DictionaryColumn) and column.is_key and len(column.dictionary) < n_rows:
            n_values = len(column.dictionary)
            problem = f"{n_rows:,} rows have only {n_values:,} different keys; a key names a single row"
            raise InputError(problem, source=source, column=column.name)
    if stored.key is None:
        return
    reader = BundleReader(store, tree, space, len(stored.ranges))
    ids = IdSet(n_rows, ID_RANGE[1] + 1)
    while not ids.complete:
        for bundle in reader.bundles(0, len(tree)):
            ids.add(bundle.ids)
        ids.end_pass()
        if ids.twice is not None:
            raise InputError(f"the key {ids.twice} names more than one row", source=source, column=stored.key[0])
