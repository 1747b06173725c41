"""Sales of a mail-order house, in the published shape of the Lands End table, which itself is not public.

Distinct values per column as in Figure 9 of the Incognito paper (31953, 320, 2, 1509, 346, 1, 1412, 2; all of them
occur in a table of the original's 4,591,581 rows). Skewed: few zipcodes, styles and days of the year make most of the
sales. Correlated: a style has its price (less on sale) and its usual buyers; cost follows price. Amounts are in cents.
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
        ("zipcode", pa.int32()),
        ("order_date", pa.date32()),
        ("gender", pa.string()),
        ("style", pa.int32()),
        ("price", pa.int32()),
        ("quantity", pa.int32()),
        ("cost", pa.int32()),
        ("shipment", pa.string()),
    ]
)
FEW_VALUES = tuple(SCHEMA.names)
N_ZIPCODES, N_DATES, N_STYLES, N_PRICES, N_COSTS = 31_953, 320, 1_509, 346, 1_412
PUBLISHED_ROWS = 4_591_581

_FIRST_ZIPCODE, _LAST_ZIPCODE = 501, 99_950
_FIRST_DATE = np.datetime64("2003-02-10", "D").astype(np.int32)
_FIRST_STYLE = 10_001
_SALE_SHARE, _SALE_STEPS = 0.2, 30  # one sale in five, up to 30 price steps below the usual price
_COST_SPREAD = 60  # cost steps to either side of what the price suggests


def chunk(draws: Draws, first_row: int) -> list[Any]:
    """The columns of one chunk of rows."""
    zipcode = draws.pick(_zipcodes())
    date = draws.pick(_dates())
    style = draws.pick(_styles())
    usual_price, share_of_women = _style_traits()
    steps_off = draws.chance(_SALE_SHARE) * draws.integers(1, _SALE_STEPS)
    price_step = np.maximum(usual_price[style] - steps_off, 0)
    cost_step = price_step * N_COSTS // N_PRICES + draws.integers(-_COST_SPREAD, _COST_SPREAD)
    prices, costs = _amounts()
    is_female = draws.chance(share_of_women[style])
    is_express = draws.chance(0.12)
    return [
        pa.array(zipcode, pa.int32()),
        pa.array(_FIRST_DATE + date).cast(pa.date32()),
        _texts(is_female, ("M", "F")),
        pa.array(_FIRST_STYLE + style, pa.int32()),
        pa.array(prices[price_step], pa.int32()),
        pa.array(np.ones(draws.n_rows, dtype=np.int32)),
        pa.array(costs[np.clip(cost_step, 0, N_COSTS - 1)], pa.int32()),
        _texts(is_express, ("standard", "express")),
    ]


def _texts(is_second: NDArray[np.bool_], values: tuple[str, str]) -> Any:
    return pa.array(values).take(pa.array(is_second.astype(np.int8)))


def _fixed_order(n: int, purpose: int) -> NDArray[np.int64]:
    """A permutation that is the same in every table: which zipcode is popular does not depend on the seed."""
    return Draws(np.random.SeedSequence([purpose]), n).order()


def _zipf(n: int, exponent: float) -> NDArray[np.float64]:
    return np.arange(1, n + 1, dtype=np.float64) ** -exponent


@cache
def _zipcodes() -> NDArray[np.int32]:
    values = np.linspace(_FIRST_ZIPCODE, _LAST_ZIPCODE, N_ZIPCODES).astype(np.int32)
    by_popularity = values[_fixed_order(N_ZIPCODES, purpose=1)]
    # The rarest one still gets 6 sales in a million, so that the published table size shows all of them.
    return by_popularity[share_table(_zipf(N_ZIPCODES, 0.8), bits=20)]


@cache
def _dates() -> NDArray[np.int32]:
    day = np.arange(N_DATES)
    holiday_season = 3.0 * np.exp(-(((day - 295) / 22.0) ** 2))
    weekend = (day % 7 >= 5) * 0.4
    return share_table(1.0 + holiday_season - weekend, bits=16)


@cache
def _styles() -> NDArray[np.int32]:
    return share_table(_zipf(N_STYLES, 0.7), bits=20)


@cache
def _style_traits() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Per style: the step of its usual price (popular ones tend to be cheap), and the share of women that buy it."""
    popularity = np.arange(N_STYLES) + 0.8 * _fixed_order(N_STYLES, purpose=2)
    rank_by_price = np.argsort(np.argsort(popularity, kind="stable"), kind="stable")
    usual_price = rank_by_price * N_PRICES // N_STYLES
    share_of_women = np.array([0.9, 0.65, 0.1])[_fixed_order(N_STYLES, purpose=3) % 3]
    return usual_price, share_of_women


@cache
def _amounts() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All prices and all costs in cents, rising geometrically; a cost is about 55 % of its price."""
    prices = np.rint(350 * np.exp(np.arange(N_PRICES) / 75.0)).astype(np.int64)
    step = np.arange(N_COSTS)
    costs = np.rint(0.55 * 350 * np.exp(step * (N_PRICES / N_COSTS) / 75.0)).astype(np.int64)
    return prices, np.maximum.accumulate(costs - step) + step  # at least a cent apart: all of them distinct
