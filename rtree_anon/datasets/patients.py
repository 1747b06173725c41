"""Hospital visits: the realistic table, with several visits per patient, missing values, dates and text.

Columns: visit_id (unique), patient_id, age, sex, zip (text, leading zeros), birth_date, marital_status, education,
diagnosis. Invariants: everything but visit_id and diagnosis is the same on all visits of a patient, missing values
included; where both are known, age is the age on `REFERENCE_DATE` of somebody born on birth_date. Diagnoses follow age
and sex.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rtree_anon.datasets.draws import Draws, share_table

SCHEMA = pa.schema(
    [
        ("visit_id", pa.int64()),
        ("patient_id", pa.int64()),
        ("age", pa.int32()),
        ("sex", pa.string()),
        ("zip", pa.string()),
        ("birth_date", pa.date32()),
        ("marital_status", pa.string()),
        ("education", pa.string()),
        ("diagnosis", pa.string()),
    ]
)
FEW_VALUES = tuple(name for name in SCHEMA.names if name not in ("visit_id", "patient_id"))
# The last day of a year: whoever was born in year y, on whatever day, is exactly REFERENCE_YEAR - y years old.
REFERENCE_YEAR = 2025
REFERENCE_DATE = np.datetime64(f"{REFERENCE_YEAR}-12-31", "D")

_FIRST_ID = 100_001
_MISSING = {"age": 0.004, "sex": 0.002, "zip": 0.01, "birth_date": 0.02, "marital_status": 0.03, "education": 0.05}
_VISITS = {1: 0.50, 2: 0.22, 3: 0.12, 4: 0.07, 5: 0.04, 6: 0.02, 8: 0.02, 12: 0.01}  # visits of a patient: share
_NEAR_ROWS = 64  # visits of one patient lie this close together, so that short tables have several of them too

_SEXES = ("F", "M")
_N_ZIPS = 620
_MARITAL = ("single", "married", "divorced", "widowed")
_EDUCATION = ("none", "primary", "secondary", "vocational", "bachelor", "master", "doctorate")
# Four stages of life, by the age at which they begin; the tables below have one row per stage.
_STAGE_AGES = (0, 18, 40, 65)
_MARITAL_BY_STAGE = ((1.0, 0, 0, 0), (0.62, 0.33, 0.05, 0), (0.18, 0.6, 0.2, 0.02), (0.07, 0.53, 0.14, 0.26))
_EDUCATION_BY_STAGE = (
    (0.35, 0.45, 0.2, 0, 0, 0, 0),
    (0.01, 0.05, 0.36, 0.24, 0.23, 0.1, 0.01),
    (0.02, 0.08, 0.32, 0.28, 0.18, 0.1, 0.02),
    (0.05, 0.22, 0.34, 0.22, 0.11, 0.05, 0.01),
)
# diagnosis: weight per stage, then the factor for women and for men
_DIAGNOSES: dict[str, tuple[tuple[float, float, float, float], float, float]] = {
    "hypertension": ((0.2, 3, 14, 20), 1, 1),
    "upper respiratory infection": ((22, 13, 7, 4), 1, 1),
    "type 2 diabetes": ((0.1, 1.5, 8, 11), 0.9, 1.1),
    "back pain": ((0.8, 8, 11, 7), 1.1, 0.9),
    "hyperlipidemia": ((0.1, 1.5, 9, 10), 0.9, 1.1),
    "anxiety": ((3, 9, 6, 3), 1.3, 0.7),
    "depression": ((2, 8, 7, 5), 1.3, 0.7),
    "asthma": ((10, 5, 3, 3), 1, 1),
    "otitis media": ((14, 1.5, 0.7, 0.4), 1, 1),
    "influenza": ((8, 5, 4, 4), 1, 1),
    "urinary tract infection": ((2, 5, 4, 6), 1.6, 0.4),
    "osteoarthritis": ((0, 0.5, 6, 12), 1.2, 0.8),
    "gastroenteritis": ((9, 5, 3, 3), 1, 1),
    "fracture": ((7, 4, 3, 6), 1, 1),
    "migraine": ((1.5, 5, 3, 1), 1.5, 0.5),
    "pregnancy": ((0.3, 11, 0.6, 0), 2, 0),
    "coronary heart disease": ((0, 0.3, 4, 9), 0.7, 1.3),
    "chronic obstructive lung disease": ((0, 0.3, 3, 7), 0.9, 1.1),
    "pneumonia": ((3, 1, 2, 5), 1, 1),
    "eczema": ((8, 3, 2, 2), 1, 1),
    "hypothyroidism": ((0.2, 2, 4, 5), 1.6, 0.4),
    "atrial fibrillation": ((0, 0.2, 2, 7), 0.9, 1.1),
    "stroke": ((0, 0.2, 1.5, 5), 0.9, 1.1),
    "cataract": ((0, 0.1, 1, 6), 1, 1),
    "prostate disorder": ((0, 0.1, 2.5, 6), 0, 2),
    "breast cancer": ((0, 0.3, 1.6, 2), 1.98, 0.02),
    "kidney stones": ((0.1, 1.2, 1.6, 1.2), 0.8, 1.2),
    "epilepsy": ((0.9, 0.7, 0.5, 0.6), 1, 1),
    "lung cancer": ((0, 0.05, 0.7, 1.8), 0.9, 1.1),
    "hepatitis C": ((0.02, 0.4, 0.7, 0.4), 0.8, 1.2),
    "hiv infection": ((0.02, 0.35, 0.3, 0.1), 0.4, 1.6),
    "schizophrenia": ((0.01, 0.4, 0.35, 0.2), 0.9, 1.1),
}


def chunk(draws: Draws, first_row: int) -> list[Any]:
    """The columns of one chunk of rows. No patient has visits in two chunks."""
    patient = _patient_of_visit(draws)
    age = draws.pick(_ages())
    stage = np.searchsorted(_STAGE_AGES, age, side="right") - 1
    sex = draws.integers(0, 1)
    known = {column: ~draws.chance(share)[patient] for column, share in _MISSING.items()}
    birth = _birth_dates(draws, age)
    marital = draws.pick(_by_stage(_MARITAL_BY_STAGE), stage)
    education = draws.pick(_by_stage(_EDUCATION_BY_STAGE), stage)
    diagnosis = draws.pick(_diagnoses(), (stage * 2 + sex)[patient])  # the only one drawn per visit
    zipcode = draws.pick(_zips())
    return [
        pa.array(np.arange(first_row, first_row + draws.n_rows, dtype=np.int64) + _FIRST_ID),
        pa.array(patient + (first_row + _FIRST_ID)),
        pa.array(age[patient], mask=~known["age"]),
        _texts(_SEXES, sex[patient], known["sex"]),
        _texts(_zip_texts(), zipcode[patient], known["zip"]),
        pa.array(birth[patient], mask=~known["birth_date"]).cast(pa.date32()),
        _texts(_MARITAL, marital[patient], known["marital_status"]),
        _texts(_EDUCATION, education[patient], known["education"]),
        _texts(tuple(_DIAGNOSES), diagnosis, None),
    ]


def _patient_of_visit(draws: Draws) -> NDArray[np.int64]:
    """The number of each row's patient within the chunk."""
    n_visits = np.array(list(_VISITS))[draws.pick(share_table(list(_VISITS.values()), bits=12))]
    patient = np.repeat(np.arange(draws.n_rows, dtype=np.int64), n_visits)[: draws.n_rows]
    # Visits of several patients interleave: every row moves down by less than _NEAR_ROWS places.
    place = np.arange(draws.n_rows, dtype=np.int64) + draws.integers(0, _NEAR_ROWS - 1)
    return patient[np.argsort(place, kind="stable")]


def _birth_dates(draws: Draws, age: NDArray[np.int32]) -> NDArray[np.int32]:
    """Days since 1970, uniform over the year in which somebody of this age was born."""
    new_years = np.arange(REFERENCE_YEAR - int(age.max()), REFERENCE_YEAR + 2).astype(str).astype("datetime64[D]")
    first_day = new_years.astype(np.int32)
    year = REFERENCE_YEAR - age - (REFERENCE_YEAR - int(age.max()))
    return draws.integers(first_day[year], first_day[year + 1] - 1)


def _texts(values: tuple[str, ...], codes: NDArray[Any], known: NDArray[np.bool_] | None) -> Any:
    mask = None if known is None else ~known
    return pa.array(values).take(pa.array(codes.astype(np.int32), mask=mask))


@cache
def _ages() -> NDArray[np.int32]:
    age = np.arange(101)
    adults = np.exp(-(((age - 63) / 23.0) ** 2))
    children = 0.55 * np.exp(-age / 6.0)
    return share_table(adults + children + 0.12 * (age < 85), bits=16)


@cache
def _zips() -> NDArray[np.int32]:
    return share_table(np.arange(1, _N_ZIPS + 1, dtype=np.float64) ** -0.9, bits=16)


@cache
def _zip_texts() -> tuple[str, ...]:
    numbers = np.linspace(1_001, 2_790, _N_ZIPS).astype(int)
    by_popularity = numbers[Draws(np.random.SeedSequence([7]), _N_ZIPS).order()]
    return tuple(f"{number:05d}" for number in by_popularity.tolist())


@cache
def _by_stage(weights: tuple[tuple[float, ...], ...]) -> NDArray[np.int32]:
    return np.stack([share_table(row, bits=12) for row in weights])


@cache
def _diagnoses() -> NDArray[np.int32]:
    """One row per stage of life and sex (women first)."""
    by_stage = np.array([stages for stages, _, _ in _DIAGNOSES.values()])
    by_sex = np.array([(women, men) for _, women, men in _DIAGNOSES.values()])
    return np.stack(
        [
            share_table(by_stage[:, stage] * by_sex[:, sex], bits=14)
            for stage in range(len(_STAGE_AGES))
            for sex in (0, 1)
        ]
    )
