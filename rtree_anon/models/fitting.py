"""Models as users give them: as values or texts, beside a k, for the columns of a schema."""

from __future__ import annotations

from collections.abc import Sequence

from rtree_anon.errors import UsageError
from rtree_anon.models.base import AllOf, Model
from rtree_anon.models.counts import KAnonymity
from rtree_anon.models.people import IdentityKAnonymity
from rtree_anon.models.text import model_from_text


def checked_model(model: object) -> Model | None:
    """A model that was given as such or as a text; None where none was given."""
    if isinstance(model, str):
        return model_from_text(model)
    if model is None or isinstance(model, Model):
        return model
    raise UsageError(f"model must be a privacy model, such as ra.DistinctLDiversity(3, on='disease'), not {model!r}.")


def check_fits(model: Model | None, sensitive: Sequence[str], identity: str | None) -> None:
    """Refuse a model about columns that are not sensitive, or about people where nobody knows whose row it is."""
    if model is None:
        return
    for column in model.columns:
        if column not in sensitive:
            named = f" ({', '.join(sensitive)})" if sensitive else ""
            raise UsageError(f"The model is about {column!r}, which is not a sensitive column{named}: add it to those.")
    if model.needs_identity and identity is None:
        raise UsageError("The model counts people; name the identity column, which says whose row it is.")


def with_k(k: int, identity: str | None, *others: Model | None) -> Model:
    """k and further models as one; k counts people where there is an identity, rows otherwise."""
    parts = [part for other in others if other is not None for part in other.parts]
    first = KAnonymity(k) if identity is None else IdentityKAnonymity(k)
    return AllOf((first, *parts)) if parts else first


def besides_k(model: Model) -> Model | None:
    """The further models of what `with_k` gave."""
    return AllOf(model.parts[1:]) if len(model.parts) > 1 else None
