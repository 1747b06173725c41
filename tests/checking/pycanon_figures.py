"""Run by an interpreter that has pycanon: figures of tables, as JSON.

    python pycanon_figures.py < jobs.json

A job is {"file": a CSV file, "quasi": [...], "sensitive": name, "numbers": whether its values are read as numbers}.
It stands apart from the tests because pycanon asks for older versions of pandas and numpy than ours.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from typing import Any

import pandas as pd
from pycanon import anonymity


def figures(job: dict[str, Any]) -> dict[str, Any]:
    quasi, name = job["quasi"], job["sensitive"]
    frame = pd.read_csv(job["file"], dtype=str, keep_default_na=False, na_values=[""])
    if job["numbers"]:
        frame[name] = pd.to_numeric(frame[name])
    return {
        "k": int(anonymity.k_anonymity(frame, quasi)),
        "distinct_l": int(anonymity.l_diversity(frame, quasi, [name])),
        "entropy_l": int(anonymity.entropy_l_diversity(frame, quasi, [name])),
        "alpha": float(anonymity.alpha_k_anonymity(frame, quasi, [name])[0]),
        "beta": float(anonymity.basic_beta_likeness(frame, quasi, [name])),
        "delta_present": float(anonymity.delta_disclosure(frame, quasi, [name])),
        "t": float(anonymity.t_closeness(frame, quasi, [name])) if frame[name].nunique() > 1 else 0.0,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        found = [figures(job) for job in json.load(sys.stdin)]
    json.dump(found, sys.stdout)
