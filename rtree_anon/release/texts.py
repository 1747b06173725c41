"""Generalized values as text: "[20-24]", "20", "{A,B}"; no two different values have the same text.

Categories may hold anything, so a label that could be mistaken for something else stands in double quotes, with quotes
inside doubled.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_RISKY_IN_SET = r'[,{}"]|^\s|\s$|^$'
_RISKY_IN_RANGE = r'[\[\]"-]|^\s|\s$|^$'
_RISKY_ALONE = r'^[{"]|^$'  # looks like a set or a quoted label, or would not be seen


def interval_text(lo: pa.Array, hi: pa.Array) -> pa.Array:
    """ "[20-24]", or "20" where both ends agree; spaces around the dash where an end has a dash of its own.

    Decided for each interval by itself, so that parts of a table look like the whole.
    """
    first, last = lo.cast(pa.string()), hi.cast(pa.string())
    dashes = pc.or_(pc.match_substring(first, "-"), pc.match_substring(last, "-"))
    return _between(first, last, pc.if_else(dashes, " - ", "-"))


def range_text(first: pa.Array, last: pa.Array) -> pa.Array:
    """ "[A-D]" for all categories from one label to another, "A" for a single one."""
    return _between(_quoted_where(first, _RISKY_IN_RANGE), _quoted_where(last, _RISKY_IN_RANGE), "-")


def quoted(labels: pa.Array) -> pa.Array:
    """Labels as they stand inside a set: in double quotes where a comma, a brace, a quote or a space could mislead."""
    return _quoted_where(labels, _RISKY_IN_SET)


def unambiguous(labels: pa.Array) -> pa.Array:
    """Single labels as they are, but quoted where they look like a set or a quoted label, or are empty."""
    return _quoted_where(labels, _RISKY_ALONE)


def _between(first: pa.Array, last: pa.Array, dash: str | pa.Array) -> pa.Array:
    between = pc.binary_join_element_wise("[", first, dash, last, "]", "")
    return pc.if_else(pc.equal(first, last), first, between)


def _quoted_where(labels: pa.Array, pattern: str) -> pa.Array:
    inside = pc.binary_join_element_wise('"', pc.replace_substring(labels, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(labels, pattern), inside, labels)
