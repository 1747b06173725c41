"""Schema: which columns place a row in space, which are carried through, and which are dropped (all others).

Invariant: every column has at most one role, and every weight belongs to a quasi-identifier.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtree_anon.errors import SchemaError
from rtree_anon.schema.attributes import ATTRIBUTE_KINDS, Attribute

_COLUMN: tuple[type[Any], ...] = (str, *ATTRIBUTE_KINDS.values())


@dataclass(frozen=True, init=False)
class Schema:
    """The roles of a table's columns.

    - `quasi`: the quasi-identifiers, as names (their kind is then inferred from the data) or attribute objects
    - `sensitive`: carried through unchanged; privacy models look at them
    - `identity`: the person a row belongs to, where a person may have several rows
    - `key`: a column that names a row
    - `keep`: further columns that are carried through
    - `weights`: importance of quasi-identifiers (1.0 where not given)

    >>> Schema(quasi=["age", "zip"], sensitive="disease", weights={"zip": 2}).weight("zip")
    2.0
    """

    quasi: tuple[Attribute | str, ...]
    sensitive: tuple[str, ...]
    identity: str | None
    key: str | None
    keep: tuple[str, ...]
    weights: Mapping[str, float]

    def __init__(
        self,
        quasi: Iterable[Attribute | str] | Attribute | str,
        sensitive: Iterable[str] | str = (),
        identity: str | None = None,
        key: str | None = None,
        keep: Iterable[str] | str = (),
        weights: Mapping[str, float] | None = None,
    ) -> None:
        for role, column in (("identity", identity), ("key", key)):
            if column is not None and (not isinstance(column, str) or not column):
                raise SchemaError(f"{role} must be the name of one column, not {column!r}")
            object.__setattr__(self, role, column)
        object.__setattr__(self, "quasi", _checked_quasi(quasi))
        object.__setattr__(self, "sensitive", _checked_names("sensitive", sensitive))
        object.__setattr__(self, "keep", _checked_names("keep", keep))
        self._check_roles()
        object.__setattr__(self, "weights", self._checked_weights({} if weights is None else weights))

    @property
    def quasi_names(self) -> tuple[str, ...]:
        return tuple(column if isinstance(column, str) else column.name for column in self.quasi)

    @property
    def payload_names(self) -> tuple[str, ...]:
        """The columns that travel with a row unchanged: sensitive, keep, identity, key."""
        single = tuple(name for name in (self.identity, self.key) if name is not None)
        return self.sensitive + self.keep + single

    @property
    def column_names(self) -> tuple[str, ...]:
        """Every column that is read; all others are dropped."""
        return self.quasi_names + self.payload_names

    @property
    def bound(self) -> bool:
        """Whether the coding of every quasi-identifier is fixed."""
        return all(not isinstance(column, str) and column.bound for column in self.quasi)

    def weight(self, name: str) -> float:
        return self.weights.get(name, 1.0)

    @classmethod
    def infer(
        cls,
        source: Any,
        quasi: Iterable[Attribute | str] | Attribute | str,
        sensitive: Iterable[str] | str = (),
        identity: str | None = None,
        key: str | None = None,
        keep: Iterable[str] | str = (),
        weights: Mapping[str, float] | None = None,
    ) -> Schema:
        """The schema of a file, frame or stream, with types, domains and category orders taken from the data."""
        from rtree_anon.io.table import bind_schema

        return bind_schema(source, cls(quasi, sensitive, identity, key, keep, weights))

    def to_toml(self, path: str | Path) -> None:
        """Write the schema as TOML; `from_toml` gives back an equal schema."""
        from rtree_anon.schema.toml import write_schema

        write_schema(self, Path(path))

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a schema that `to_toml` or a person wrote."""
        from rtree_anon.schema.toml import read_schema

        return read_schema(Path(path))

    def _check_roles(self) -> None:
        roles: dict[str, str] = {}
        named = [("quasi", name) for name in self.quasi_names]
        named += [("sensitive", name) for name in self.sensitive]
        named += [("keep", name) for name in self.keep]
        named += [(role, column) for role in ("identity", "key") if (column := getattr(self, role)) is not None]
        for role, name in named:
            other = roles.setdefault(name, role)
            if other is not role:
                raise SchemaError(f"column {name!r} is named as {other} and as {role}; a column has one role")
        for role in ("quasi", "sensitive", "keep"):
            names = [name for its_role, name in named if its_role == role]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise SchemaError(f"column {twice!r} is named twice in {role}")

    def _checked_weights(self, given: Mapping[str, float]) -> dict[str, float]:
        if not isinstance(given, Mapping):
            raise SchemaError(f"weights must map column names to numbers, not {given!r}")
        weights: dict[str, float] = {}
        for name, weight in given.items():
            if name not in self.quasi_names:
                raise SchemaError(
                    f"weight for {name!r}, which is not a quasi-identifier ({', '.join(self.quasi_names)})"
                )
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise SchemaError(f"the weight of {name!r} must be a number, not {weight!r}")
            if not (weight > 0 and math.isfinite(weight)):
                raise SchemaError(f"the weight of {name!r} must be positive and finite, not {weight!r}")
            weights[name] = float(weight)
        return weights


def _checked_quasi(quasi: object) -> tuple[Attribute | str, ...]:
    if isinstance(quasi, _COLUMN):
        quasi = (quasi,)
    if not isinstance(quasi, Iterable):
        raise SchemaError(f"quasi must be a list of columns, not {quasi!r}")
    columns = tuple(quasi)
    if not columns:
        raise SchemaError("a schema needs at least one quasi-identifier")
    for column in columns:
        if not isinstance(column, _COLUMN) or column == "":
            raise SchemaError(f"a quasi-identifier must be a column name or an attribute, not {column!r}")
    return columns


def _checked_names(role: str, names: object) -> tuple[str, ...]:
    if names is None:
        return ()
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, Iterable):
        raise SchemaError(f"{role} must be a list of column names, not {names!r}")
    columns = tuple(names)
    for column in columns:
        if not isinstance(column, str) or not column:
            raise SchemaError(f"{role} must list column names, not {column!r}")
    return columns
