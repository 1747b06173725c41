"""Rows by their keys, where these are no whole numbers: an id is a hash, so what it leads to is compared with the key.

Invariant: no row is ever taken for another because their keys have one hash (see io/key_column.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtree_anon.errors import CorruptionError, InputError
from rtree_anon.index.gathering import SameIdError
from rtree_anon.index.reading import BundleReader
from rtree_anon.index.sorting import ordered
from rtree_anon.io.cells import shown_at
from rtree_anon.io.stored_columns import StoredColumns

Codes = NDArray[np.int64]
Ids = NDArray[np.int64]

KNOWN_ALREADY = ": the index has one already; an update gives it other values"


class SharedIdError(Exception):
    """Two different keys have one id: their rows need other ids."""


def stored_keys(reader: BundleReader, stored: StoredColumns, ids: Ids, names: NDArray[np.integer]) -> Codes:
    """The keys, as codes [column, row], of rows that are in the bundles with these names. Reads each bundle once."""
    column = stored.key_column
    assert column is not None
    width, end = len(column.ranges), reader.n_columns - 1
    by_name = np.argsort(reader.tree.name, kind="stable")
    numbers = by_name[_places(reader.tree.name[by_name], names)]
    keys = np.empty((width, len(ids)), np.int64)
    order = np.argsort(numbers, kind="stable")
    touched, begins = np.unique(numbers[order], return_index=True)
    parts = np.split(order, begins[1:])
    for rows, bundle in zip(parts, reader.chosen(touched), strict=False):
        own = bundle.ids
        by_id = np.argsort(own, kind="stable")
        places = by_id[_places(own[by_id], ids[rows])]
        keys[:, rows] = bundle.columns(end - width, end, np.int64)[places].T
    return keys


def explained_same_id(reader: BundleReader, stored: StoredColumns, same: SameIdError, source: str) -> Exception:
    """Two rows of a load have one id: an InputError where they have one key, a SharedIdError where they do not."""
    if stored.key_column is None:
        column = stored.key[0] if stored.key is not None else "id"
        return InputError(f"the key {same.row} names more than one row", source=source, column=column)
    found = []
    for name in sorted(set(same.names)):
        number = int(np.flatnonzero(reader.tree.name == name)[0])
        (bundle,) = reader.bundles(number, number + 1)
        end, width = reader.n_columns - 1, len(stored.key_column.ranges)
        found.append(bundle.columns(end - width, end, np.int64)[bundle.ids == same.row])
    keys = np.concatenate(found)
    if len(np.unique(keys, axis=0)) == len(keys):
        return SharedIdError()
    first = stored.key_column.decode(keys[_first_twice(keys)][None, :])
    problem = f"the key {shown_at(first, 0)} names more than one row"
    return InputError(problem, source=source, column=stored.key_column.name)


def require_distinct(stored: StoredColumns, keys: Codes, ids: Ids) -> None:
    """Refuse two equal keys among new rows; SharedIdError where two different ones have one id."""
    ascending, order = ordered(ids)
    same = np.flatnonzero(ascending[1:] == ascending[:-1])
    if not len(same):
        return
    pairs = keys[:, order[same]] == keys[:, order[same + 1]]
    refuse(stored, keys, np.sort(order[same + 1][pairs.all(axis=0)]))
    raise SharedIdError


def refuse(stored: StoredColumns, keys: Codes, taken: Ids, more: str = "") -> None:
    """Rows whose keys name a row already, if there are any; `more` says which."""
    if not len(taken):
        return
    assert stored.key_column is not None
    first = int(taken[0])
    shown = shown_at(stored.key_column.decode(keys[:, first : first + 1].T), 0)
    raise InputError(f"the key {shown} names more than one row{more}", row=first + 1, column=stored.key_column.name)


def _places(ordered: Ids, wanted: NDArray[np.integer]) -> Ids:
    """Where ascending numbers have the wanted ones, all of which must be there."""
    places = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    if not np.array_equal(ordered[places], wanted):
        raise CorruptionError("The directory names a bundle that does not have the row; the index is damaged.")
    return places


def _first_twice(keys: Codes) -> int:
    _, place, count = np.unique(keys, axis=0, return_index=True, return_counts=True)
    return int(place[count > 1][0])
