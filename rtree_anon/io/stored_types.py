"""The types that carried columns are stored in: the values' own, without their layout in memory, as text and back.

More types than those of quasi-identifiers (`rtree_anon.io.types`): binary values can be carried, too.
"""

from __future__ import annotations

import re

import pyarrow as pa

from rtree_anon.io.types import checked_plain_type, plain_type, type_from_text, type_text

_FIXED_BINARY = re.compile(r"binary\[([1-9]\d{0,8})\]")
_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,  # of no bytes at all
)


def stored_type(data_type: pa.DataType, source: str, column: str) -> pa.DataType:
    """The type that a column is stored in: the layout is not kept. Refuses nested types."""
    known = value_type(data_type)
    return known if known is not None else checked_plain_type(data_type, source, column)


def value_type(data_type: pa.DataType) -> pa.DataType | None:
    """The type without its layout; None where it is not supported."""
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return value_type(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return value_type(data_type.storage_type)
    if pa.types.is_fixed_size_binary(data_type) and data_type.byte_width:
        return data_type
    if any(is_binary(data_type) for is_binary in _BINARY):
        return pa.binary()
    try:
        return plain_type(data_type)
    except TypeError:
        return None


def stored_type_text(data_type: pa.DataType) -> str:
    """The text that an index keeps for a stored type."""
    if pa.types.is_fixed_size_binary(data_type):
        return f"binary[{data_type.byte_width}]"
    return "binary" if pa.types.is_binary(data_type) else type_text(data_type)


def stored_type_from_text(text: str) -> pa.DataType:
    """The type that an index's text means."""
    if text == "binary":
        return pa.binary()
    fixed = _FIXED_BINARY.fullmatch(text)
    return type_from_text(text) if fixed is None else pa.binary(int(fixed[1]))
