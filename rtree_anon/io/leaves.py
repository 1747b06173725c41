"""Tables as leaf codes of hierarchies: what the lattice searches.

One pass over the source gives every column a growing dictionary of its distinct values and spools their codes; then the
hierarchies are bound to the values that were seen, and chunks are read back as leaf codes. Work on text is per distinct
value of a batch, never per row.

A missing value is a leaf of its own, after all others: it stays apart on every level below the top and joins everything
else there, so it is never dropped and never a crash. Columns that a privacy model looks at are coded by rank, missing
first, so that an ordered distance means something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rtree_anon.errors import InputError, SchemaError
from rtree_anon.hierarchy import BoundHierarchy, Hierarchy
from rtree_anon.hierarchy.bound import SUPPRESSED, RejectedValueError
from rtree_anon.io.carried import CarriedColumns
from rtree_anon.io.cells import Origin
from rtree_anon.io.sources import Source
from rtree_anon.io.spool import CodeSpool
from rtree_anon.io.text_types import Purpose, TextColumn
from rtree_anon.io.types import decoded, is_text

MISSING_LABEL = ""  # never shown: a release tells missing values apart by their own column


@dataclass(frozen=True, eq=False)
class LeafTable:
    """Rows as leaf codes. `chunks` can be walked any number of times; each is one array per column, extras last."""

    names: tuple[str, ...]
    hierarchies: tuple[BoundHierarchy, ...]  # with the leaf of missing values where there are any
    has_missing: tuple[bool, ...]
    value_types: tuple[pa.DataType, ...]  # what the leaves' texts stand for
    extra_names: tuple[str, ...]
    extra_sizes: tuple[int, ...]  # distinct values of each extra column
    n_rows: int
    source_name: str
    carried: CarriedColumns
    _spool: CodeSpool
    _recode: tuple[NDArray[np.int64], ...]

    def chunks(self) -> Iterator[list[NDArray[np.integer]]]:
        """Leaf codes of the quasi-identifiers, then ranks of the extra columns."""
        for chunk in self._spool.chunks():
            yield [table[codes] for table, codes in zip(self._recode, chunk, strict=True)]


def read_leaves(
    source: Source,
    hierarchies: Mapping[str, Hierarchy | None],
    extras: Mapping[str, str],
    carried_names: Sequence[str] = (),
    *,
    budget_bytes: int,
) -> LeafTable:
    """Code the columns that `hierarchies` names (None: an automatic hierarchy) and the extra columns {name: column}."""
    columns = [*hierarchies, *extras.values()]
    dictionaries = [_Dictionary(column, untyped=source.untyped) for column in columns]
    spool = CodeSpool(budget_bytes)
    origins = []
    carried = CarriedColumns(source, carried_names)
    along = carried.names if carried.must_be_read_along else ()
    for piece in source.pieces(list(dict.fromkeys([*columns, *along]))):
        carried.observe(piece)
        spool.append([dictionary.encode(piece.batch.column(dictionary.column)) for dictionary in dictionaries])
        origins.append(piece.origin)
    bound, recode = [], []
    for position, hierarchy in enumerate(hierarchies.values()):
        try:
            tree, table = _bind(hierarchy, dictionaries[position])
        except RejectedValueError as wrong:
            raise _located(wrong, dictionaries[position], position, spool, origins) from None
        except SchemaError as wrong:
            raise SchemaError(f"column {columns[position]!r}: {wrong}") from None
        bound.append(tree)
        recode.append(table)
    ranked = dictionaries[len(hierarchies) :]
    return LeafTable(
        names=tuple(hierarchies),
        hierarchies=tuple(bound),
        has_missing=tuple(dictionary.has_missing for dictionary in dictionaries[: len(hierarchies)]),
        value_types=tuple(dictionary.value_type() for dictionary in dictionaries[: len(hierarchies)]),
        extra_names=tuple(extras),
        extra_sizes=tuple(dictionary.n_distinct for dictionary in ranked),
        n_rows=spool.n_rows,
        source_name=source.name,
        carried=carried,
        _spool=spool,
        _recode=(*recode, *(dictionary.ranks() for dictionary in ranked)),
    )


def with_missing_leaf(bound: BoundHierarchy) -> BoundHierarchy:
    """The hierarchy with one more leaf, the last, that is apart from all others on every level below the top."""
    ancestors, labels = bound.ancestors, bound.labels
    if bound.height == 0:  # a single value: missing and not missing meet on a level of their own
        ancestors = np.concatenate([ancestors, np.zeros((1, ancestors.shape[1]), dtype=np.int32)])
        labels = [*labels, [SUPPRESSED]]
    apart = [len(names) for names in labels[:-1]]
    column = np.array([*apart, 0], dtype=np.int32)[:, None]
    return BoundHierarchy(
        leaves=(*bound.leaves, MISSING_LABEL),
        ancestors=np.concatenate([ancestors, column], axis=1),
        labels=[*([*names, MISSING_LABEL] for names in labels[:-1]), labels[-1]],
    )


class _Dictionary:
    """The distinct values of one column, in the order of their first appearance. Code 0 stands for missing."""

    def __init__(self, column: str, *, untyped: bool) -> None:
        self.column = column
        self._untyped = untyped  # a CSV file: an empty field is a missing value, and digits may be numbers
        self.code_of_text: dict[str, int] = {}
        self.has_missing = False
        self._type = pa.string()
        self._values: list[pa.Array] = []

    @property
    def n_distinct(self) -> int:
        return len(self.code_of_text) + self.has_missing

    @property
    def is_text(self) -> bool:
        """Whether the values are text for sure; what a CSV file means is for the values to tell."""
        return is_text(self._type) and not self._untyped

    def value_type(self) -> pa.DataType:
        """The type of the values; for a CSV file the one that all of them can be read as."""
        if not self._untyped:
            return self._type
        column = TextColumn(self.column)
        column.observe(pa.array(self.code_of_text, pa.string()), Origin(self.column))
        return column.decide(Purpose.CARRIED)

    def encode(self, array: pa.Array) -> NDArray[np.int64]:
        array = decoded(array)
        self._type = array.type
        if self._untyped:
            array = pc.if_else(pc.equal(array, ""), pa.scalar(None, array.type), array)
        elif pa.types.is_floating(array.type):
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        encoded = array.dictionary_encode()
        texts = encoded.dictionary.cast(pa.string()).to_pylist()
        known = self.code_of_text
        is_new = [text not in known for text in texts]
        codes = np.array([known.setdefault(text, len(known) + 1) for text in texts], dtype=np.int64)
        if any(is_new):
            self._values.append(encoded.dictionary.filter(pa.array(is_new)))
        self.has_missing |= array.null_count > 0
        indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return np.asarray(np.concatenate([codes, [0]])[indices])

    def ranks(self) -> NDArray[np.int64]:
        """By code, the rank of the value among all; missing values come first."""
        ranks = np.zeros(len(self.code_of_text) + 1, dtype=np.int64)
        if self._values:
            values = pa.concat_arrays(_same_type(self._values))
            if self._untyped:
                values = _as_numbers(values)
            order = pc.sort_indices(values).to_numpy()
            ranks[order + 1] = np.arange(len(order)) + self.has_missing
        return ranks


def _bind(hierarchy: Hierarchy | None, dictionary: _Dictionary) -> tuple[BoundHierarchy, NDArray[np.int64]]:
    """The bound hierarchy of a column, and the leaf code of each of its dictionary's codes."""
    texts = list(dictionary.code_of_text)
    if hierarchy is None:
        hierarchy = Hierarchy.automatic(text=dictionary.is_text)
    bound = hierarchy.bind(texts) if texts else Hierarchy.suppress().bind([MISSING_LABEL])
    leaves = bound.encode(texts)
    if dictionary.has_missing:
        bound = with_missing_leaf(bound)
    return bound, np.concatenate([[len(bound.leaves) - 1], leaves]).astype(np.int64)


def _located(
    wrong: RejectedValueError, dictionary: _Dictionary, position: int, spool: CodeSpool, origins: Sequence[Origin]
) -> InputError:
    """The same error with the file, the first row and the column of the value."""
    code = dictionary.code_of_text[wrong.value]
    for origin, chunk in zip(origins, spool.chunks(), strict=True):
        rows = np.flatnonzero(chunk[position] == code)
        if len(rows):
            row = origin.first_row + int(rows[0])
            return InputError(wrong.problem, source=origin.name, row=row, column=dictionary.column)
    return InputError(wrong.problem, column=dictionary.column)


def _same_type(arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
    types = {array.type for array in arrays}
    return arrays if len(types) == 1 else [array.cast(pa.string()) for array in arrays]


def _as_numbers(texts: pa.Array) -> pa.Array:
    """Numbers where all texts are numbers, so that 9 comes before 10."""
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return texts
