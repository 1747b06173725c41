"""Schemas as TOML files: written by hand here (the standard library only reads TOML), read with `tomllib`.

    sensitive = ["disease"]
    identity = "patient"

    [[quasi]]
    name = "age"
    kind = "numeric"
    domain = [17, 90]
    weight = 2.0

    [[quasi]]
    name = "zip"
    kind = "categorical"
    hierarchy = { rows = [["53703", "5370*", "*"], ["53706", "5370*", "*"]] }

A person can write a file with names and kinds only; `kind` may be left out, or a column given as a bare name. Decimals
are written as text, because TOML's numbers are floats.

Invariant: `read_schema` of what `write_schema` wrote is equal to the schema, whatever its strings are.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from rtree_anon.errors import InputError, SchemaError
from rtree_anon.schema.attributes import ATTRIBUTE_KINDS, Attribute, Numeric
from rtree_anon.schema.schema import Schema

_ROLES = ("sensitive", "identity", "key", "keep")
_KIND_NAMES = {kind: name for name, kind in ATTRIBUTE_KINDS.items()}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def write_schema(schema: Schema, path: Path) -> None:
    """Writes a schema."""
    try:
        path.write_text(schema_to_toml(schema), encoding="utf-8", newline="\n")
    except OSError as error:
        raise SchemaError(f"the schema cannot be written to {path}: {error.strerror}") from None


def read_schema(path: Path) -> Schema:
    """Reads a schema; whatever is wrong with the file is a `SchemaError` that names it."""
    try:
        return schema_from_toml(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SchemaError(f"the schema {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"the schema {path} is not UTF-8 text") from None
    except (SchemaError, InputError) as error:
        raise SchemaError(f"{path}: {error}") from None


def schema_to_toml(schema: Schema) -> str:
    """The schema as TOML text."""
    lines = []
    for role in _ROLES:
        columns = getattr(schema, role)
        if columns:
            lines.append(f"{role} = {_value(columns)}")
    for column, name in zip(schema.quasi, schema.quasi_names, strict=True):
        entries: dict[str, Any] = {"name": name}
        if not isinstance(column, str):
            entries["kind"] = _KIND_NAMES[type(column)]
            entries.update(_attribute_entries(column))
        if name in schema.weights:
            entries["weight"] = schema.weights[name]
        lines += ["", "[[quasi]]", *(f"{key} = {_value(value)}" for key, value in entries.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def schema_from_toml(text: str) -> Schema:
    """The schema that a TOML text describes."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise SchemaError(f"this is not TOML: {error}") from None
    unknown = set(document) - {"quasi", "weights", *_ROLES}
    if unknown:
        raise SchemaError(f"unknown entry {sorted(unknown)[0]!r}; a schema has quasi, weights, {', '.join(_ROLES)}")
    listed = document.get("quasi", [])
    if not isinstance(listed, list):
        raise SchemaError("quasi must be a list of columns")
    weights = document.get("weights", {})
    if not isinstance(weights, Mapping):
        raise SchemaError("weights must be a table of numbers")
    weights = dict(weights)
    quasi: list[Attribute | str] = []
    for entries in listed:
        quasi.append(_column(entries))
        if isinstance(entries, Mapping) and "weight" in entries:
            weights[entries["name"]] = entries["weight"]
    roles = {role: document[role] for role in _ROLES if role in document}
    return Schema(quasi=tuple(quasi), weights=weights, **roles)


def _attribute_entries(attribute: Attribute) -> dict[str, Any]:
    """What an attribute says beyond its defaults."""
    entries = {}
    for field in fields(attribute):
        value = getattr(attribute, field.name)
        if field.name == "name" or value == field.default:
            continue
        entries[field.name] = value.to_dict() if field.name == "hierarchy" else value
    return entries


def _column(entries: Any) -> Attribute | str:
    if isinstance(entries, str):
        return entries
    if not isinstance(entries, Mapping) or not isinstance(entries.get("name"), str):
        raise SchemaError(f"each entry of quasi needs a name: {entries!r:.80}")
    name = entries["name"]
    given = {key: value for key, value in entries.items() if key not in ("kind", "weight")}
    kind = entries.get("kind")
    if kind is None:
        if len(given) > 1:
            raise SchemaError(f"attribute {name!r} needs a kind: {', '.join(ATTRIBUTE_KINDS)}")
        return str(name)
    if not isinstance(kind, str) or kind not in ATTRIBUTE_KINDS:
        raise SchemaError(f"attribute {name!r}: the kind {kind!r} is not one of {', '.join(ATTRIBUTE_KINDS)}")
    made = ATTRIBUTE_KINDS[kind]
    allowed = {field.name for field in fields(made)}
    for key in given:
        if key not in allowed:
            raise SchemaError(f"attribute {name!r}: a {kind} attribute has no {key!r}")
    _check_plain(name, given)
    if "hierarchy" in given:
        given["hierarchy"] = _hierarchy(name, given["hierarchy"])
    if made is Numeric and isinstance(given.get("domain"), list):
        given["domain"] = [_number(name, end) for end in given["domain"]]
    if "domain" in given:
        given["domain"] = tuple(given["domain"])
    attribute: Attribute = made(**given)
    return attribute


def _check_plain(name: str, given: Mapping[str, Any]) -> None:
    """The types of entries that the attributes themselves do not check."""
    wanted: dict[str, tuple[type, str]] = {
        "grow": (bool, "true or false"),
        "allow_new": (bool, "true or false"),
        "continuous": (bool, "true or false"),
        "type": (str, "text"),
        "decimals": (int, "a whole number"),
        "order": (list, "a list"),
        "values": (list, "a list"),
        "domain": (list, "a list of two values"),
        "hierarchy": (dict, "a table"),
    }
    for key, (kind, called) in wanted.items():
        if key in given and (not isinstance(given[key], kind) or (kind is int and isinstance(given[key], bool))):
            raise SchemaError(f"attribute {name!r}: {key} must be {called}, not {given[key]!r:.80}")


def _hierarchy(name: str, description: Mapping[str, Any]) -> Any:
    from rtree_anon.hierarchy import Hierarchy

    try:
        if set(description) == {"csv"} and isinstance(description["csv"], str):
            return Hierarchy.from_csv(description["csv"])
        return Hierarchy.from_dict(description)
    except (SchemaError, InputError) as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None
    except (TypeError, ValueError, ArithmeticError) as error:
        raise SchemaError(f"attribute {name!r}: the hierarchy is not valid: {error}") from None


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return Decimal(value)
    except InvalidOperation:
        raise SchemaError(f"attribute {name!r}: {value!r} is not a number") from None


def _value(value: Any) -> str:
    """One TOML value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Decimal):
        return _text(str(value))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"no TOML for a {type(value).__name__}")


def _text(text: str) -> str:
    """A basic string; every control character is escaped."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise SchemaError(f"the text {text!r} cannot be written: it is not valid Unicode") from None
    escaped = "".join(
        _ESCAPES.get(char) or (f"\\u{ord(char):04X}" if char < " " or char == "\x7f" else char) for char in text
    )
    return f'"{escaped}"'
