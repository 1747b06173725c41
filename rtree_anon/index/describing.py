"""Figures of an index that its catalog and its upper tree give, without a look at the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from rtree_anon.index.view import View


def index_stats(view: View) -> dict[str, Any]:
    """What `Index.stats` gives and `rtree-anon stats` prints."""
    catalog, tree, pages = view.catalog, view.tree, view.pages
    n_leaves, n_pages = int(tree.n_leaves.sum()), len(pages.page_ids())
    return {
        "path": view.path,
        "version": view.version,
        "rows": catalog.n_rows,
        "next_id": catalog.next_id,
        "k": catalog.k,
        "model": str(catalog.model),
        "quality": catalog.quality,
        "seed": catalog.seed,
        "leaves": n_leaves,
        "rows_per_leaf": catalog.n_rows / n_leaves if n_leaves else 0.0,
        "bundles": len(tree),
        "rows_per_bundle": catalog.n_rows / len(tree) if len(tree) else 0.0,
        "depth_above_bundles": int(tree.cuts.depth_of_things.max()) if len(tree) else 0,
        "page_bytes": pages.page_bytes,
        "pages": n_pages,
        "bytes": n_pages * pages.page_bytes,
        "bytes_per_row": n_pages * pages.page_bytes / catalog.n_rows if catalog.n_rows else 0.0,
        "tree_bytes": len(tree.to_bytes()),
        "dictionary_bytes": sum(part["bytes"] for parts in catalog.parts.values() for part in parts),
        "quasi": [_attribute(view, number) for number in range(len(catalog.schema.quasi))],
        "sensitive": list(catalog.schema.sensitive),
        "keep": list(catalog.schema.keep),
        "identity": catalog.schema.identity,
        "key": catalog.schema.key,
    }


def _attribute(view: View, number: int) -> dict[str, Any]:
    name = view.catalog.schema.quasi_names[number]
    if not view.catalog.n_rows:
        return {"name": name}
    axis = view.space.axes[number]
    has_missing = bool(np.any(axis.has_missing))
    return {"name": name, "kind": axis.kind.name.lower(), "has_missing": has_missing, "weight": axis.weight}
