"""What all privacy models have in common: they combine with `&`, say what they demand, and have a text.

A model is a plain value: a frozen dataclass of numbers and column names, checked when it is made. What it means for a
group is said by `demands`; `str(model)` can be read back with `model_from_text`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

from rtree_anon.errors import UsageError
from rtree_anon.models.demands import ABOUT_PEOPLE, Demand

On = str | tuple[str, ...]


class Model:
    """Base class of the privacy models. `a & b` is the model of groups that satisfy both."""

    def __and__(self, other: object) -> AllOf:
        if not isinstance(other, Model):
            return NotImplemented
        return AllOf((*self.parts, *other.parts))

    @property
    def parts(self) -> tuple[Model, ...]:
        """The single models that this one combines."""
        return (self,)

    def demands(self) -> tuple[Demand, ...]:
        """What every group has to satisfy."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The sensitive columns that the model looks at."""
        named = (demand.column for demand in self.demands())
        return tuple(dict.fromkeys(column for column in named if column is not None))

    @property
    def needs_identity(self) -> bool:
        """Whether the model has to know whose row it is."""
        return any(demand.quantity in ABOUT_PEOPLE for demand in self.demands())

    def with_k_at_most(self, k: int) -> Model:
        """The model that a tree at base k is built with: numbers of rows and people lowered to k, the rest the same.

        A group of leaves that satisfy it satisfies this model once it has the rows and people that this model asks for.
        """
        if getattr(self, "k", 0) > k:
            return replace(self, k=k)  # type: ignore[type-var]
        return self

    def __str__(self) -> str:
        arguments = []
        for place, field in enumerate(fields(self)):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if isinstance(value, tuple):
                value = list(value)
            arguments.append(repr(value) if place == 0 else f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _check_at_least_one(self, name: str) -> None:
        """Demand that a field is a whole number, 1 or more."""
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
            raise UsageError(f"{type(self).__name__}: {name} must be a whole number of 1 or more, not {value!r}.")
        object.__setattr__(self, name, int(value))

    def _check_number(self, name: str, least: float, most: float = float("inf"), *, above: bool = False) -> None:
        """Demand that a field is a number between bounds; `above`: the lower one is excluded."""
        value = getattr(self, name)
        wanted = f"above {least:g}" if above else f"{least:g} or more"
        if most < float("inf"):
            wanted += f" and at most {most:g}"
        refused = UsageError(f"{type(self).__name__}: {name} must be a number {wanted}, not {value!r}.")
        if isinstance(value, bool) or not isinstance(value, Real):
            raise refused
        number = float(value)
        if not (number > least if above else number >= least) or not number <= most or number == float("inf"):
            raise refused
        object.__setattr__(self, name, number)

    def _check_on(self) -> None:
        """Demand that `on` names one column, or several, each once."""
        on: Any = self.on  # type: ignore[attr-defined]
        names = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Iterable) else ()
        if not names or not all(isinstance(name, str) and name for name in names) or len({*names}) < len(names):
            raise UsageError(f"{type(self).__name__}: on names a sensitive column, or several, not {on!r}.")
        object.__setattr__(self, "on", names[0] if len(names) == 1 else names)

    def _on_each(self, quantity: str, bound: float | tuple[float, int]) -> tuple[Demand, ...]:
        """One demand for each column that `on` names."""
        on: On = self.on  # type: ignore[attr-defined]
        return tuple(Demand(quantity, bound, column) for column in ((on,) if isinstance(on, str) else on))


@dataclass(frozen=True)
class AllOf(Model):
    """Several models at once: what `a & b` makes."""

    models: tuple[Model, ...]

    @property
    def parts(self) -> tuple[Model, ...]:
        return self.models

    def demands(self) -> tuple[Demand, ...]:
        """Those of all parts."""
        return tuple(demand for part in self.models for demand in part.demands())

    def with_k_at_most(self, k: int) -> Model:
        """Each part with its k lowered."""
        return AllOf(tuple(part.with_k_at_most(k) for part in self.models))

    def __str__(self) -> str:
        return " & ".join(map(str, self.models))
