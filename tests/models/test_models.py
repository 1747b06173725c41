"""Models as values: what is refused, how they combine, and their text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

import rtree_anon as ra
from rtree_anon.errors import UsageError
from rtree_anon.models import Demand, Model
from tests.models.drawn import models


@settings(max_examples=200, deadline=None)
@given(models)
def test_text_can_be_read_back(model: Model) -> None:
    assert ra.model_from_text(str(model)) == model


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("k=10", ra.KAnonymity(10)),
        ("people = 3", ra.IdentityKAnonymity(3)),
        (
            "k=10 & distinct_l=3 on disease",
            ra.KAnonymity(10) & ra.DistinctLDiversity(3, "disease"),
        ),
        ("recursive=3,2 on disease", ra.RecursiveCLDiversity(3, 2, "disease")),
        ("t=0.2 on disease, pay", ra.TCloseness(0.2, ["disease", "pay"])),  # type: ignore[arg-type]
        ("t_ordered=0.2 on 'pay, gross & net'", ra.TCloseness(0.2, "pay, gross & net", "ordered")),
        ("entropy_l=2.5 on d&alpha=0.5 on d", ra.EntropyLDiversity(2.5, "d") & ra.AlphaKAnonymity(0.5, 1, "d")),
        ("beta=1 on d & beta_enhanced=2 on d", ra.BetaLikeness(1, "d") & ra.BetaLikeness(2, "d", enhanced=True)),
        (
            "delta=1 on d & IdentityAlphaBeta(0.5, 0.4, on='d')",
            ra.DeltaDisclosure(1, "d") & ra.IdentityAlphaBeta(0.5, 0.4, "d"),
        ),
    ],
)
def test_short_texts(text: str, model: Model) -> None:
    assert ra.model_from_text(text) == model


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("k=5 &", "an & too many"),
        ("k", "a part is written as"),
        ("k=five", "'five' is not a number"),
        ("k=5 on disease", "k takes one number and no column"),
        ("t=0.2", "t takes one number and columns"),
        ("l=3 on disease", "there is no 'l'; choose from k, people, distinct_l"),
        ("Anonymity(5)", "there is no model 'Anonymity'"),
        ("KAnonymity(k)", "numbers and quoted column names"),
        ("KAnonymity(5, 6)", "not a privacy model"),
        ("KAnonymity(0)", "k must be a whole number of 1 or more, not 0"),
        ("distinct_l=3 on 'disease", "not a privacy model"),
    ],
)
def test_unclear_texts_are_explained(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ra.model_from_text(text)


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (ra.KAnonymity, (2.5,), "whole number"),
        (ra.KAnonymity, (True,), "whole number"),
        (ra.DistinctLDiversity, (2, ""), "on names a sensitive column"),
        (ra.DistinctLDiversity, (2, ("a", "a")), "on names a sensitive column"),
        (ra.DistinctLDiversity, (2, None), "on names a sensitive column"),
        (ra.EntropyLDiversity, (0.5, "a"), "l must be a number 1 or more"),
        (ra.RecursiveCLDiversity, (0, 2, "a"), "c must be a number above 0"),
        (ra.TCloseness, (1.5, "a"), "t must be a number 0 or more and at most 1"),
        (ra.TCloseness, (float("nan"), "a"), "t must be a number"),
        (ra.TCloseness, (0.5, "a", "hierarchical"), "distance must be"),
        (ra.AlphaKAnonymity, (0, 2, "a"), "alpha must be a number above 0 and at most 1"),
        (ra.BetaLikeness, (float("inf"), "a"), "beta must be a number"),
        (ra.BetaLikeness, (1, "a", 1), "enhanced must be"),
        (ra.DeltaDisclosure, ("1", "a"), "delta must be a number"),
    ],
)
def test_impossible_parameters_are_refused(kind: Any, arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        kind(*arguments)


def test_models_combine_and_say_what_they_look_at() -> None:
    model = ra.IdentityKLDiversity(3, 2, "disease") & ra.TCloseness(0.2, "pay") & ra.KAnonymity(7)
    assert len(model.parts) == 3 and model.columns == ("disease", "pay") and model.needs_identity
    assert Demand("people", 3) in model.demands() and Demand("t", 0.2, "pay") in model.demands()
    assert not ra.KAnonymity(3).needs_identity
    with pytest.raises(TypeError):
        ra.KAnonymity(3) & 5  # type: ignore[operator]


def test_the_model_of_a_tree_has_its_k_lowered_and_nothing_else() -> None:
    model = ra.AlphaKAnonymity(0.5, 20, "d") & ra.IdentityKLDiversity(10, 3, "d") & ra.DistinctLDiversity(8, "d")
    base = model.with_k_at_most(5)
    assert base == ra.AlphaKAnonymity(0.5, 5, "d") & ra.IdentityKLDiversity(5, 3, "d") & ra.DistinctLDiversity(8, "d")
    assert ra.KAnonymity(3).with_k_at_most(5) == ra.KAnonymity(3)
