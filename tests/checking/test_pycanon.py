"""Agreement with pycanon, another checker (`pip install pycanon`; skipped without it), and where and why we differ.

- It leaves out rows with a missing quasi-identifier; here missing is a value, as a reader of the table sees it.
- Its recursive c divides the *smallest* count by the sum of the larger ones, where the definition has the largest and
  the smaller ones; the figures are not comparable.
- Its enhanced beta is the largest min(beta, -ln q), ours the smallest beta for which the model holds (or infinity).
- Its delta looks only at values that a group has: our `delta_present`.
- Its entropy l is cut off to a whole number.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtree_anon.checking import check

pycanon = pytest.importorskip("pycanon.anonymity", reason="pycanon is not installed")

frames = st.integers(2, 30).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            "age": st.lists(st.sampled_from([20, 30, 40]), min_size=n, max_size=n),
            "sex": st.lists(st.sampled_from("FM"), min_size=n, max_size=n),
            "disease": st.lists(st.sampled_from(["flu", "cold", "gout", "cancer"]), min_size=n, max_size=n),
            "pay": st.lists(st.integers(0, 6), min_size=n, max_size=n),
        }
    )
)
QUASI = ["age", "sex"]


def agree(frame: pd.DataFrame, quasi: list[str], name: str) -> None:
    column = check(frame, quasi, [name]).sensitive[name]
    assert check(frame, quasi).k == pycanon.k_anonymity(frame, quasi)
    assert column.distinct_l == pycanon.l_diversity(frame, quasi, [name])
    assert pycanon.entropy_l_diversity(frame, quasi, [name]) in (int(column.entropy_l - 1e-9), int(column.entropy_l))
    assert column.alpha == pytest.approx(pycanon.alpha_k_anonymity(frame, quasi, [name])[0])
    assert column.beta == pytest.approx(pycanon.basic_beta_likeness(frame, quasi, [name]), abs=1e-9)
    assert column.delta_present == pytest.approx(pycanon.delta_disclosure(frame, quasi, [name]), abs=1e-9)
    is_number = pd.api.types.is_numeric_dtype(frame[name])
    if frame[name].nunique() > 1:
        t = column.t_ordered if is_number else column.t
        assert t == pytest.approx(pycanon.t_closeness(frame, quasi, [name]), abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(frames)
def test_random_tables(columns: dict[str, list[object]]) -> None:
    frame = pd.DataFrame(columns)
    agree(frame, QUASI, "disease")
    agree(frame, QUASI, "pay")


def test_missing_quasi_identifiers_are_left_out_there() -> None:
    frame = pd.DataFrame({"sex": ["F", "F", None], "disease": ["flu", "cold", "flu"]})
    assert check(frame, ["sex"]).k == 1 and pycanon.k_anonymity(frame, ["sex"]) == 2


def test_adult() -> None:
    path = Path(__file__).parents[3] / "shared" / "data" / "adult.csv"
    if not path.exists():
        pytest.skip("the Adult table is not here")
    frame = pd.read_csv(path, skipinitialspace=True, dtype=str, keep_default_na=False)
    agree(frame, ["race", "sex"], "occupation")
    agree(frame.assign(education=pd.to_numeric(frame["education-num"])), ["race", "sex"], "education")
