"""rtree-anon: k-anonymity as spatial indexing.

    import rtree_anon as ra

    release = ra.anonymize("people.csv", k=10, quasi=["age", "zip", "sex"], sensitive=["disease"])
    release.write("people-k10.parquet")
    print(release.quality()["certainty"], ra.check(release.to_arrow(), quasi=["age", "zip", "sex"]).k)

Everything public is importable from here. Names are loaded on first use, so that ``import rtree_anon`` is quick: numba
and pyarrow are imported only by the work that needs them.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# name -> the module that defines it; the one list of the public face
_HOME = {
    "Schema": "schema",
    "Numeric": "schema",
    "Categorical": "schema",
    "Date": "schema",
    "Timestamp": "schema",
    "Boolean": "schema",
    "Hierarchy": "hierarchy",
    "KAnonymity": "models",
    "DistinctLDiversity": "models",
    "EntropyLDiversity": "models",
    "RecursiveCLDiversity": "models",
    "TCloseness": "models",
    "AlphaKAnonymity": "models",
    "IdentityKAnonymity": "models",
    "IdentityKLDiversity": "models",
    "IdentityAlphaBeta": "models",
    "BetaLikeness": "models",
    "DeltaDisclosure": "models",
    "model_from_text": "models",
    "Release": "release",
    "Index": "index",
    "anonymize": "anonymizer",
    "mondrian": "anonymizer",
    "check": "checking",
    "Report": "checking",
    "generate": "datasets",
    "AnonError": "errors",
    "UsageError": "errors",
    "SchemaError": "errors",
    "InputError": "errors",
    "PrivacyError": "errors",
    "StorageError": "errors",
    "CorruptionError": "errors",
    "LockedError": "errors",
    "lattice": "lattice",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOME[name]}")
    value = module if _HOME[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
