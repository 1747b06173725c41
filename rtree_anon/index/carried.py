"""The dictionaries of carried columns on pages: blobs of values, one after the other, that only grow."""

from __future__ import annotations

from rtree_anon.errors import CorruptionError
from rtree_anon.index.catalog import BLOB_KIND, Catalog, Reference
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.storage.blob import read_blob, write_blob
from rtree_anon.storage.protocol import PageReader, PageStore


def read_columns(reader: PageReader | PageStore, catalog: Catalog, limit_bytes: int) -> StoredColumns:
    """How the carried columns of a version are stored, dictionaries and all (in at most `limit_bytes`)."""
    columns = StoredColumns.from_description(catalog.carried, limit_bytes)
    dictionaries = columns.dictionaries
    if set(catalog.parts) - set(dictionaries) or set(columns.types) - set(catalog.schema.payload_names):
        raise CorruptionError("The index has dictionaries of columns that it does not carry; it is damaged.")
    for name, parts in catalog.parts.items():
        for part in parts:
            dictionaries[name].add_bytes(read_blob(reader, part))
    return columns


def write_dictionaries(store: PageStore, columns: StoredColumns) -> dict[str, list[Reference]]:
    """Write all dictionaries to the store's open transaction; references to their parts."""
    return {
        name: [write_blob(store, dictionary.to_bytes(), BLOB_KIND)]
        for name, dictionary in columns.dictionaries.items()
        if len(dictionary)
    }
