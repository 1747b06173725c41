"""The small dictionary that a commit carries, in msgpack with strict limits.

Plain values only (None, bool, int, float, str, bytes, lists, dictionaries with text keys), at most one slot long: what
is large belongs in pages, and the metadata names them. Invariant: decoding hostile bytes costs no more memory than
their length.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import msgpack  # type: ignore[import-untyped]  # it ships no types

from rtree_anon.errors import CorruptionError, UsageError

_MAX_DEPTH: Final = 16


def pack_metadata(metadata: dict[str, Any], limit_bytes: int) -> bytes:
    """Bytes of a metadata dictionary; UsageError when it is not plain, too deep or too large."""
    _require_plain(metadata, 0)
    try:
        packed: bytes = msgpack.packb(metadata, use_bin_type=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"The metadata of a commit cannot be stored: {error}.") from error
    if len(packed) > limit_bytes:
        raise UsageError(
            f"The metadata of a commit takes {len(packed)} bytes; {limit_bytes} fit. Put what is large into pages."
        )
    return packed


def unpack_metadata(packed: bytes, path: str) -> dict[str, Any]:
    """The dictionary; CorruptionError for anything that `pack_metadata` would not have written."""
    limit = len(packed)
    try:
        metadata = msgpack.unpackb(
            packed,
            raw=False,
            strict_map_key=True,
            ext_hook=_refuse_extension,
            max_str_len=limit,
            max_bin_len=limit,
            max_array_len=limit,
            max_map_len=limit,
            max_ext_len=limit,
        )
        if not isinstance(metadata, dict):
            raise ValueError("it is not a dictionary")
        _require_plain(metadata, 0)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise CorruptionError(f"{path}: the metadata of a commit cannot be decoded: {error}.") from error
    return metadata


def _require_plain(value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise UsageError(f"The metadata of a commit is nested more than {_MAX_DEPTH} deep.")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise UsageError(f"The metadata of a commit has the key {key!r}; keys are text.")
            _require_plain(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _require_plain(inner, depth + 1)
    elif value is not None and not isinstance(value, bool | int | float | str | bytes):
        raise UsageError(f"The metadata of a commit holds a {type(value).__name__}; only plain values are stored.")


def _refuse_extension(code: int, data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code} is not allowed")
