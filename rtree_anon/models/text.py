"""Models as text, for command lines, manifests and files: `model_from_text`, the inverse of `str(model)`.

Two notations, which can be mixed:

    DistinctLDiversity(3, on='disease') & TCloseness(0.2, on=['disease', 'income'])      that of str(model)
    distinct_l=3 on disease & t=0.2 on disease, income                                   the short one

The short names are those of the thresholds of `rtree-anon check`. Column names that hold spaces, commas or `&` are put
in quotes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from rtree_anon.errors import UsageError
from rtree_anon.models.base import Model, On
from rtree_anon.models.counts import AlphaKAnonymity, KAnonymity
from rtree_anon.models.diversity import DistinctLDiversity, EntropyLDiversity, RecursiveCLDiversity
from rtree_anon.models.likeness import BetaLikeness, DeltaDisclosure, TCloseness
from rtree_anon.models.people import IdentityAlphaBeta, IdentityKAnonymity, IdentityKLDiversity

MODELS: dict[str, type[Model]] = {
    kind.__name__: kind
    for kind in (
        KAnonymity,
        DistinctLDiversity,
        EntropyLDiversity,
        RecursiveCLDiversity,
        TCloseness,
        AlphaKAnonymity,
        IdentityKAnonymity,
        IdentityKLDiversity,
        IdentityAlphaBeta,
        BetaLikeness,
        DeltaDisclosure,
    )
}

# short name -> the model for numbers and columns; those without columns take none
_SHORT: dict[str, Callable[..., Model]] = {
    "k": KAnonymity,
    "people": IdentityKAnonymity,
    "distinct_l": DistinctLDiversity,
    "entropy_l": EntropyLDiversity,
    "recursive": RecursiveCLDiversity,
    "t": TCloseness,
    "t_ordered": lambda t, on: TCloseness(t, on, "ordered"),
    "alpha": lambda alpha, on: AlphaKAnonymity(alpha, 1, on),
    "beta": BetaLikeness,
    "beta_enhanced": lambda beta, on: BetaLikeness(beta, on, enhanced=True),
    "delta": DeltaDisclosure,
}

_SEPARATOR = re.compile(r"""&(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")  # an & that is not inside quotes
_SHORT_FORM = re.compile(r"(\w+)\s*=\s*([^\s].*?)(?:\s+on\s+(.+))?", re.DOTALL)
_COLUMN = re.compile(r"""\s*(?:'([^']*)'|"([^"]*)"|([^,'"]+?))\s*(?:,|$)""")


def model_from_text(text: str) -> Model:
    """The model that a text describes.

    >>> model_from_text("k=10 & distinct_l=3 on disease")
    AllOf(models=(KAnonymity(k=10), DistinctLDiversity(l=3, on='disease')))
    >>> model_from_text(str(model_from_text("t_ordered=0.2 on income"))).distance
    'ordered'
    """
    parts = [part.strip() for part in _SEPARATOR.split(text)]
    if "" in parts:
        raise _unclear(text, "it is empty, or has an & too many")
    models = [_single(part) for part in parts]
    model = models[0]
    for other in models[1:]:
        model = model & other
    return model


def model_from_demand(quantity: str, bound: float | tuple[float, int], on: On) -> Model:
    """The model that asks for one quantity of `demands` on some columns: `model_from_demand("t", 0.2, "disease")`."""
    numbers = bound if isinstance(bound, tuple) else (bound,)
    return _SHORT[quantity](*numbers, on)


def _single(text: str) -> Model:
    try:
        expression: Any = ast.parse(text, mode="eval").body
    except SyntaxError:
        expression = None
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
        return _called(text, expression)
    found = _SHORT_FORM.fullmatch(text)
    if found is None:
        raise _unclear(text, "a part is written as distinct_l=3 on disease, or DistinctLDiversity(3, on='disease')")
    name, numbers, columns = found.groups()
    if name not in _SHORT:
        raise _unclear(text, f"there is no {name!r}; choose from {', '.join(_SHORT)}")
    arguments: list[Any] = [_number(text, number) for number in numbers.split(",")]
    if columns is not None:
        arguments.append(_columns(text, columns))
    try:
        return _SHORT[name](*arguments)
    except TypeError:
        needs = "no column" if name in ("k", "people") else "columns, as in “… on disease”"
        raise _unclear(text, f"{name} takes {'c,l' if name == 'recursive' else 'one number'} and {needs}") from None


def _called(text: str, call: ast.Call) -> Model:
    name = call.func.id  # type: ignore[attr-defined]
    if name not in MODELS:
        raise _unclear(text, f"there is no model {name!r}; choose from {', '.join(MODELS)}")
    try:
        positional = [ast.literal_eval(argument) for argument in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return MODELS[name](*positional, **named)
    except (TypeError, SyntaxError) as error:
        raise _unclear(text, str(error)) from None
    except UsageError:
        raise
    except ValueError:
        raise _unclear(text, "its arguments are numbers and quoted column names") from None


def _number(text: str, number: str) -> int | float:
    try:
        return int(number)
    except ValueError:
        try:
            return float(number)
        except ValueError:
            raise _unclear(text, f"{number.strip()!r} is not a number") from None


def _columns(text: str, listed: str) -> list[str]:
    names, at = [], 0
    while at < len(listed):
        found = _COLUMN.match(listed, at)
        if found is None:
            raise _unclear(text, "column names are separated by commas")
        names.append(next(name for name in found.groups() if name is not None))
        at = found.end()
    return names


def _unclear(text: str, why: str) -> UsageError:
    return UsageError(f"{text.strip()!r} is not a privacy model: {why}.")
