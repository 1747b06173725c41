"""Run by an interpreter that has pycanon: figures of tables, as JSON.

    python pycanon_figures.py < jobs.json

A job is {"file": a CSV file, "quasi": [...], "sensitive": name, "numbers": whether its values are read as numbers,
"figures": those to measure, or null for all}. pycanon filters the table once per group and value, about a millisecond
each: a table with many groups takes minutes for every figure. It stands apart from the tests because pycanon asks for
older versions of pandas and numpy than ours.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pandas as pd
from pycanon import anonymity


def figures(job: dict[str, Any]) -> dict[str, Any]:
    quasi, name = job["quasi"], job["sensitive"]
    frame = pd.read_csv(job["file"], dtype=str, keep_default_na=False, na_values=[""])
    if job["numbers"]:
        frame[name] = pd.to_numeric(frame[name])
    measures: dict[str, Callable[[], float]] = {
        "k": lambda: int(anonymity.k_anonymity(frame, quasi)),
        "distinct_l": lambda: int(anonymity.l_diversity(frame, quasi, [name])),
        "entropy_l": lambda: int(anonymity.entropy_l_diversity(frame, quasi, [name])),
        "alpha": lambda: float(anonymity.alpha_k_anonymity(frame, quasi, [name])[0]),
        "beta": lambda: float(anonymity.basic_beta_likeness(frame, quasi, [name])),
        "delta_present": lambda: float(anonymity.delta_disclosure(frame, quasi, [name])),
        "t": lambda: float(anonymity.t_closeness(frame, quasi, [name])) if frame[name].nunique() > 1 else 0.0,
    }
    return {figure: measures[figure]() for figure in job["figures"] or measures}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        found = [figures(job) for job in json.load(sys.stdin)]
    json.dump(found, sys.stdout)
