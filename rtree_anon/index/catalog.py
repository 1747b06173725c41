"""The catalog: what a version of an index says about itself, beside its rows.

    commit metadata (a small dictionary):  what the index is, its numbers, and references to the blobs below
    "about" blob:  JSON with the schema (TOML; as it is, and as it was declared), the privacy model, the carried
                   columns, and references to the parts of their dictionaries, each a blob of its own, to the directory,
                   and earlier versions
    "tree" blob:   the upper tree (uppertree.py)

Invariant: nothing that was read is believed before it is checked. Metadata of another kind is a StorageError, an
impossible one a CorruptionError, however hostile it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from rtree_anon.errors import AnonError, CorruptionError, StorageError
from rtree_anon.index.directory import Directory
from rtree_anon.index.history import KeptVersion, kept_versions
from rtree_anon.index.stored_model import StoredModel
from rtree_anon.index.uppertree import UpperTree
from rtree_anon.io.stored_columns import StoredColumns
from rtree_anon.models import Model, model_from_text
from rtree_anon.models.fitting import besides_k, check_fits, with_k
from rtree_anon.schema import Schema
from rtree_anon.schema.toml import schema_from_toml, schema_to_toml
from rtree_anon.storage.blob import blob_pages, read_blob, write_blob
from rtree_anon.storage.page import Ids
from rtree_anon.storage.protocol import PageReader, PageStore
from rtree_anon.tree.effort import QUALITIES

BLOB_KIND: Final = 16  # of pages
_WHAT: Final = "rtree-anon index"
_FORMAT: Final = 1
_BLOBS: Final = ("about", "tree")
_MOST: Final = 2**63 - 1

Reference: TypeAlias = dict[str, int]  # to a blob (storage/blob.py)


@dataclass(frozen=True, eq=False)
class Catalog:
    """What an index is, and how many rows it has."""

    schema: Schema
    k: int
    model: Model  # k and what else was asked for, as `with_k` puts them together
    quality: str
    seed: int
    n_rows: int = 0
    next_id: int = 0  # all ids so far are smaller
    carried: Sequence[Sequence[str]] = ()  # how carried columns are stored (io/stored_columns.py)
    parts: Mapping[str, Sequence[Reference]] = field(default_factory=dict)  # of their dictionaries, in order
    directory: Reference | None = None  # the top of the directory (directory.py)
    history: Sequence[KeptVersion] = ()  # earlier versions, oldest first
    declared: Schema | None = None  # as it was when the index was created; the schema itself where that is now

    @property
    def leaf_model(self) -> Model:
        """What every leaf satisfies, and all releases of a version together."""
        return self.model.with_k_at_most(self.k)

    @property
    def is_plain(self) -> bool:
        """Whether k rows per group are all that is asked for."""
        return self.schema.identity is None and besides_k(self.model) is None

    def stored_model(self, stored: StoredColumns) -> StoredModel | None:
        """The model of leaves for rows with these carried columns; None where k rows are all that is asked for."""
        return None if self.is_plain else StoredModel.of(self.leaf_model, self.schema, stored)

    def release_model(self, k: int, further: Model | None = None) -> Model:
        """What a release at k satisfies."""
        return with_k(k, self.schema.identity, besides_k(self.model), further)

    def with_rows(self, n_rows: int, next_id: int) -> Catalog:
        """The same index with other rows."""
        return replace(self, n_rows=n_rows, next_id=next_id)

    def write(self, store: PageStore, tree: UpperTree) -> dict[str, Any]:
        """Write the blobs to the store's open transaction; the metadata to commit it with."""
        about = {
            "schema": schema_to_toml(self.schema),
            "declared": schema_to_toml(self.declared or self.schema),
            "model": str(self.model),
            "carried": self.carried,
            "parts": self.parts,
            "directory": self.directory,
            "history": [kept.entry() for kept in self.history],
        }
        contents = {"about": json.dumps(about).encode(), "tree": tree.to_bytes()}
        return {
            "what": _WHAT,
            "format": _FORMAT,
            "k": self.k,
            "quality": self.quality,
            "seed": self.seed,
            "n_rows": self.n_rows,
            "next_id": self.next_id,
            **{name: write_blob(store, contents[name], BLOB_KIND) for name in _BLOBS},
        }


def read_catalog(
    reader: PageReader | PageStore, path: str, metadata: Mapping[str, Any] | None = None
) -> tuple[Catalog, UpperTree]:
    """The catalog of a version and its upper tree; of an earlier version where its `metadata` is given."""
    metadata = reader.metadata if metadata is None else metadata
    if metadata.get("what") != _WHAT:
        raise StorageError(f"{path} is not an index of rtree-anon; Index.create makes one.")
    if metadata.get("format") != _FORMAT:
        raise StorageError(
            f"{path} has format {metadata.get('format')!r:.40}; this version of rtree-anon reads format {_FORMAT}."
        )
    k, n_rows = _number(metadata, "k", 1, path), _number(metadata, "n_rows", 0, path)
    seed, next_id = _number(metadata, "seed", 0, path), _number(metadata, "next_id", n_rows, path)
    if metadata.get("quality") not in QUALITIES:
        raise _damaged(path, "its grade is none of ours")
    about = _about(read_blob(reader, metadata.get("about")), path)
    tree = UpperTree.from_bytes(read_blob(reader, metadata.get("tree")))
    if int(tree.n_rows.sum()) != n_rows:
        raise _damaged(path, "the tree has another number of rows")
    catalog = Catalog(k=k, quality=metadata["quality"], seed=seed, n_rows=n_rows, next_id=next_id, **about)
    _check_model(catalog, path)
    return catalog, tree


def catalog_pages(reader: PageReader | PageStore) -> Ids:
    """The pages of the blobs that the newest metadata names: they are written anew with every version."""
    return _pages(reader, [reader.metadata.get(name) for name in _BLOBS])


def directory_pages(reader: PageReader | PageStore, catalog: Catalog) -> Ids:
    """The pages of the directory."""
    if catalog.directory is None:
        return np.empty(0, np.uint64)
    return np.concatenate((_pages(reader, [catalog.directory]), read_directory(reader, catalog).pages))


def read_directory(reader: PageReader | PageStore, catalog: Catalog) -> Directory:
    """The directory of a version; empty where it has no rows."""
    blob = b"" if catalog.directory is None else read_blob(reader, catalog.directory)
    return Directory.from_bytes(reader, blob)


def dictionary_pages(reader: PageReader | PageStore, catalog: Catalog) -> Ids:
    """The pages of the carried columns' dictionaries: they stay where they are when dictionaries grow."""
    return _pages(reader, [part for parts in catalog.parts.values() for part in parts])


def _pages(reader: PageReader | PageStore, references: Sequence[Any]) -> Ids:
    existing = reader.page_ids()
    n_ids = int(existing[-1]) + 1 if len(existing) else 0
    found = [blob_pages(reference, reader.payload_bytes, n_ids) for reference in references]
    return np.concatenate([np.empty(0, np.uint64), *found])


def _about(blob: bytes, path: str) -> dict[str, Any]:
    try:
        about = json.loads(blob)
        if not isinstance(about, dict) or not all(
            isinstance(about.get(key), str) for key in ("schema", "declared", "model")
        ):
            raise ValueError("something is missing")
        parts = about.get("parts")
        if not isinstance(parts, dict) or not all(isinstance(part, list) for part in parts.values()):
            raise ValueError("the dictionaries are not described")
        return {
            "schema": schema_from_toml(about["schema"]),
            "declared": schema_from_toml(about["declared"]),
            "model": model_from_text(about["model"]),
            "carried": about.get("carried"),
            "parts": parts,
            "directory": about.get("directory"),
            "history": kept_versions(about.get("history")),
        }
    except (AnonError, ValueError, RecursionError) as error:
        raise _damaged(path, f"its description cannot be read ({error})") from error


def _check_model(catalog: Catalog, path: str) -> None:
    """The model begins with k, and is about columns that the index has."""
    if catalog.model.parts[0] != with_k(catalog.k, catalog.schema.identity):
        raise _damaged(path, f"its model {str(catalog.model)!r:.80} does not begin with k={catalog.k}")
    try:
        check_fits(catalog.model, catalog.schema.sensitive, catalog.schema.identity)
    except AnonError as error:
        raise _damaged(path, f"its model does not fit its schema ({error})") from error


def _number(metadata: Mapping[str, Any], name: str, least: int, path: str) -> int:
    value = metadata.get(name)
    if type(value) is not int or not least <= value <= _MOST:
        raise _damaged(path, f"its {name} is {value!r:.40}")
    return value


def _damaged(path: str, what: str) -> CorruptionError:
    return CorruptionError(f"{path}: the description of the index is damaged: {what}. Restore the index from a copy.")
