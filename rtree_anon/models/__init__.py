"""Privacy models: what a group of rows must satisfy to be released.

    import rtree_anon as ra

    model = ra.DistinctLDiversity(3, on="disease") & ra.TCloseness(0.3, on="disease")
    ra.anonymize("people.csv", k=10, quasi=["age", "zip"], sensitive=["disease"], model=model)

A model is a plain value (`base`); what it means is a list of demands (`demands`), from which everything else follows:
the compiled form that splits and leaf scans consult (`compiling`), whether a table can meet it at all (`possible`), and
what the independent checker is asked. Definitions and sources are in the docstrings of the classes.
"""

from rtree_anon.models.base import AllOf, Model
from rtree_anon.models.counts import AlphaKAnonymity, KAnonymity
from rtree_anon.models.demands import Demand
from rtree_anon.models.diversity import DistinctLDiversity, EntropyLDiversity, RecursiveCLDiversity
from rtree_anon.models.likeness import BetaLikeness, DeltaDisclosure, TCloseness
from rtree_anon.models.people import IdentityAlphaBeta, IdentityKAnonymity, IdentityKLDiversity
from rtree_anon.models.text import model_from_demand, model_from_text

__all__ = [
    "AllOf",
    "AlphaKAnonymity",
    "BetaLikeness",
    "DeltaDisclosure",
    "Demand",
    "DistinctLDiversity",
    "EntropyLDiversity",
    "IdentityAlphaBeta",
    "IdentityKAnonymity",
    "IdentityKLDiversity",
    "KAnonymity",
    "Model",
    "RecursiveCLDiversity",
    "TCloseness",
    "model_from_demand",
    "model_from_text",
]
