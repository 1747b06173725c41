"""People with an income, a house and a loan: the synthetic table of Agrawal, Ghosh, Imielinski and Swami, "Database
mining: a performance perspective" (1993), that the R+-tree paper uses for its scaling experiments (Section 5).

Nine int32 columns, independent and uniform, except: those who earn 75000 or more get no commission, and the range of
house values depends on the zipcode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rtree_anon.datasets.draws import Draws

COLUMNS = ("salary", "commission", "age", "elevel", "car", "zipcode", "hvalue", "hyears", "loan")
SCHEMA = pa.schema([pa.field(name, pa.int32()) for name in COLUMNS])
FEW_VALUES: tuple[str, ...] = ("age", "elevel", "car", "zipcode", "hyears")
_NO_COMMISSION_FROM = 75_000


def chunk(draws: Draws, first_row: int) -> list[Any]:
    """The columns of one chunk of rows."""
    salary = draws.integers(20_000, 150_000)
    commission = draws.integers(10_000, 75_000) * (salary < _NO_COMMISSION_FROM)
    age = draws.integers(20, 80)
    education_level = draws.integers(0, 4)
    car = draws.integers(1, 20)
    zipcode = draws.integers(0, 8)
    price_level = zipcode.astype(np.int64) + 1  # the paper's k, 1..9: houses cost 0.5 to 1.5 times k * 100000
    house_value = draws.integers(price_level * 50_000, price_level * 150_000)
    house_years = draws.integers(1, 30)
    loan = draws.integers(0, 500_000)
    columns = (salary, commission, age, education_level, car, zipcode, house_value, house_years, loan)
    return [pa.array(column, pa.int32()) for column in columns]
