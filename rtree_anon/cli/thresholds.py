"""Options about sensitive columns with one meaning everywhere: `check` holds a table against them, `anonymize` meets
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import click

from rtree_anon.errors import UsageError

if TYPE_CHECKING:
    from rtree_anon.models import Model

_SHARE = click.FloatRange(min=0.0)


def threshold_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how much the values of sensitive columns may give away, each for all of them."""
    for option in reversed(
        [
            click.option(
                "-l", "--l", "distinct_l", type=click.IntRange(min=1), help="Distinct sensitive values per group."
            ),
            click.option("--entropy-l", type=click.FloatRange(min=1.0), help="Entropy l-diversity."),
            click.option(
                "--recursive", callback=_c_and_l, metavar="C,L", help="Recursive (c,l)-diversity, for example 3,2."
            ),
            click.option("--t", "t", type=_SHARE, help="t-closeness, equal distance."),
            click.option("--ordered-t", "t_ordered", type=_SHARE, help="t-closeness, ordered distance."),
            click.option("--alpha", type=_SHARE, help="Largest share of one sensitive value in a group."),
            click.option("--beta", type=_SHARE, help="Basic beta-likeness."),
            click.option("--enhanced-beta", "beta_enhanced", type=_SHARE, help="Enhanced beta-likeness."),
            click.option("--delta", type=_SHARE, help="Delta-disclosure privacy."),
        ]
    ):
        function = option(function)
    return function


THRESHOLDS = ("distinct_l", "entropy_l", "recursive", "t", "t_ordered", "alpha", "beta", "beta_enhanced", "delta")


def model_of(text: str | None, thresholds: Mapping[str, Any], sensitive: Sequence[str]) -> Model | None:
    """The privacy model that `--model` and the thresholds ask for, those about all sensitive columns."""
    from rtree_anon.models import model_from_demand, model_from_text

    models = [] if text is None else [model_from_text(text)]
    for name, bound in thresholds.items():
        if bound is None:
            continue
        if not sensitive:
            option = "--" + {"distinct_l": "l", "t_ordered": "ordered-t", "beta_enhanced": "enhanced-beta"}.get(
                name, name.replace("_", "-")
            )
            raise UsageError(f"{option} is about sensitive columns; name at least one with -s.")
        models.append(model_from_demand(name, bound, tuple(sensitive)))
    return reduce(and_, models) if models else None


def _c_and_l(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, int] | None:
    """c and l of recursive diversity, separated by a comma."""
    if value is None:
        return None
    try:
        c, ell = value.split(",")
        return float(c), int(ell)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a pair such as 3,2 (c = 3, l = 2).", ctx, param) from None
