"""`Hierarchy`: what a user writes down about how values become coarser.

Either a table (from a file in ARX's layout or from a tree), whose leaves are all the values that there can be, or a
rule (intervals, masked digits, parts of dates, suppression, automatic), whose leaves are the values that it is bound
to. Level 0 is always the exact value and the last level a single one: `*` is added on top only where the given top
level has several values (`intervals` always adds it).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from rtree_anon.errors import InputError, SchemaError
from rtree_anon.hierarchy.automatic import Automatic
from rtree_anon.hierarchy.bound import BoundHierarchy, unseen_value, with_single_top
from rtree_anon.hierarchy.rules import Dates, Digits, Intervals, Levels, Prefixes, Rule, Suppress

_DELIMITERS = (";", ",", "\t")


@dataclass(frozen=True)
class _Table:
    """One tuple of labels per value, level 0 first."""

    rows: tuple[tuple[str, ...], ...]

    def levels(self, values: Sequence[str]) -> Levels:
        known = {row[0] for row in self.rows}
        for value in values:
            if value not in known:
                raise unseen_value(value)
        return with_single_top([list(level) for level in zip(*self.rows, strict=True)])


@dataclass(frozen=True)
class Hierarchy:
    """How the values of one attribute generalize. Make one with the class methods.

    >>> bound = Hierarchy.from_tree({"person": ["asian", "black"]}).bind(["black"])
    >>> bound.leaves, bound.labels, bound.height
    (('asian', 'black'), [['asian', 'black'], ['person']], 1)
    """

    rule: Rule

    @classmethod
    def from_csv(cls, path: str | Path) -> Hierarchy:
        """Read ARX's layout: one row per value, one column per level, level 0 first, no header; `;`, `,` or tabs."""
        source = Path(path)
        try:
            text = source.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as wrong:
            raise InputError(f"the hierarchy is not UTF-8 text ({wrong.reason})", source=str(source)) from None
        except OSError as wrong:
            raise InputError(f"the hierarchy cannot be read ({wrong.strerror})", source=str(source)) from None
        try:
            return cls.from_rows(_parse_csv(text))
        except SchemaError as wrong:
            raise SchemaError(f"{source}: {wrong}") from None

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[str]]) -> Hierarchy:
        """From one sequence of labels per value, level 0 first. A row that is given twice counts once."""
        by_value: dict[str, tuple[str, ...]] = {}
        n_levels = 0
        for row in rows:
            labels = tuple(str(label) for label in row)
            _check_row(labels, n_levels)
            n_levels = len(labels)
            if by_value.setdefault(labels[0], labels) != labels:
                raise SchemaError(f"the value {labels[0]!r} stands in two rows of the hierarchy that differ")
        table = _Table(tuple(by_value.values()))
        if by_value:
            BoundHierarchy.from_levels(table.levels(()), must_coarsen=True)
        else:
            raise SchemaError("the hierarchy has no values")
        return cls(table)

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Hierarchy:
        """From nested mappings; the innermost are lists of values: ``{"person": ["asian", "black"]}``.

        A branch that is shorter than others keeps its value as it is on the levels that it lacks.
        """
        paths = list(_tree_paths(tree, ()))  # leaf first
        depth = max((len(path) for path in paths), default=0)
        seen: set[str] = set()
        for path in paths:
            if path[0] in seen:
                raise SchemaError(f"the value {path[0]!r} stands in two places of the tree; give each value one parent")
            seen.add(path[0])
        return cls.from_rows((path[0],) * (depth - len(path)) + path for path in paths)

    @classmethod
    def intervals(cls, widths: Sequence[int | float | str | Decimal]) -> Hierarchy:
        """Intervals of numbers that start at multiples of each width, then `*`: widths=[5, 10, 20] has levels 0..4."""
        return cls(Intervals(tuple(Decimal(str(width)) for width in widths)))

    @classmethod
    def digits(cls, n: int) -> Hierarchy:
        """The last 1..n characters masked: 94138 → 9413* → 941** for n=2."""
        return cls(Digits(n))

    @classmethod
    def prefixes(cls, lengths: Sequence[int]) -> Hierarchy:
        """The first characters of a text, in falling lengths, then `*`."""
        return cls(Prefixes(tuple(lengths)))

    @classmethod
    def dates(cls, parts: Sequence[str]) -> Hierarchy:
        """Parts of ISO dates: week, month, quarter, year, decade, century, or spans such as "5 years"."""
        return cls(Dates(tuple(parts)))

    @classmethod
    def suppress(cls) -> Hierarchy:
        """The value, or `*`."""
        return cls(Suppress())

    @classmethod
    def automatic(cls, *, text: bool = False) -> Hierarchy:
        """Chosen from the values when bound. `text`: digits are a code (a postcode), not a quantity."""
        return cls(Automatic(text=text))

    def bind(self, values: Sequence[str]) -> BoundHierarchy:
        """Apply to the values of a column, given as text (repeats are ignored).

        A hierarchy from a file or a tree binds to all its leaves, seen or not, and refuses a value that it does not
        have.
        """
        distinct = list(dict.fromkeys(values))
        is_table = isinstance(self.rule, _Table)
        if not distinct and not is_table:
            raise InputError("a hierarchy made by a rule cannot be bound to a column without values")
        return BoundHierarchy.from_levels(self.rule.levels(distinct), must_coarsen=False)

    def to_dict(self) -> dict[str, Any]:
        """A plain description that `from_dict` reads, for schema files."""
        rule = self.rule
        if isinstance(rule, _Table):
            return {"rows": [list(row) for row in rule.rows]}
        if isinstance(rule, Intervals):
            return {"intervals": [str(width) for width in rule.widths]}
        if isinstance(rule, Digits):
            return {"digits": rule.n}
        if isinstance(rule, Prefixes):
            return {"prefixes": list(rule.lengths)}
        if isinstance(rule, Dates):
            return {"dates": list(rule.parts)}
        if isinstance(rule, Suppress):
            return {"suppress": True}
        if isinstance(rule, Automatic):
            return {"automatic": "text" if rule.text else "any"}
        raise SchemaError("a hierarchy made by a rule of your own cannot be written to a file")

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Hierarchy:
        """The hierarchy that `to_dict` described."""
        makers = {
            "rows": cls.from_rows,
            "intervals": cls.intervals,
            "digits": cls.digits,
            "prefixes": cls.prefixes,
            "dates": cls.dates,
            "suppress": lambda _: cls.suppress(),
            "automatic": lambda kind: cls.automatic(text=kind == "text"),
        }
        if len(description) != 1 or next(iter(description)) not in makers:
            raise SchemaError(f"a hierarchy is described by one of {', '.join(makers)}, not by {list(description)}")
        (kind, argument), *_ = description.items()
        made: Hierarchy = makers[kind](argument)  # type: ignore[operator]
        return made


def _check_row(labels: tuple[str, ...], n_levels: int) -> None:
    if not labels:
        raise SchemaError("a row of the hierarchy is empty")
    if n_levels and len(labels) != n_levels:
        raise SchemaError(
            f"the value {labels[0]!r} has {len(labels)} levels in the hierarchy, the rows before it {n_levels}"
        )
    for level, label in enumerate(labels):
        if label == "" and level > 0:
            raise SchemaError(f"the value {labels[0]!r} has no label at level {level} of the hierarchy")


def _parse_csv(text: str) -> list[list[str]]:
    """Rows, with the delimiter under which all rows have the same number (more than one) of columns."""
    candidates: list[tuple[int, int, list[list[str]]]] = []
    for delimiter in _DELIMITERS:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
        widths = {len(row) for row in rows}
        if len(widths) == 1 and widths != {1}:
            return rows
        candidates.append((max(widths, default=0), -len(candidates), rows))
    return max(candidates, key=lambda candidate: candidate[:2])[2]  # ragged, or a single column


def _tree_paths(node: Any, above: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """Paths from each leaf to the top."""
    if isinstance(node, Mapping):
        for label, below in node.items():
            yield from _tree_paths(below, (str(label), *above))
    elif isinstance(node, Iterable) and not isinstance(node, str):
        for child in node:
            yield from _tree_paths(child, above)
    else:
        yield (str(node), *above)
