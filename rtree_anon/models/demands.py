"""What a privacy model asks of a group, as plain facts: quantities with bounds.

Every model of this package is a conjunction of *demands*. A demand names a quantity of a group, a bound and, where the
quantity is about the values of a column, the column. The quantities, with p the share of a value among the group's rows
and q its share in the whole table:

    rows              number of rows                                        at least the bound
    people            number of distinct people                             at least
    distinct_l        number of distinct values                             at least
    entropy_l         exp(-sum p ln p)                                      at least
    recursive         r1 < c (r_l + r_l+1 + ...), r the counts, largest first; the bound is (c, l)
    alpha             max p                                                 at most
    t                 sum |p - q| / 2                                       at most
    t_ordered         sum_i |sum_{j<=i} (p_j - q_j)| / (m - 1), m values    at most
    beta              max (p - q) / q                                       at most
    beta_enhanced     for every value (p - q) / q <= min(bound, -ln q)
    delta             max |ln(p / q)| over all values of the table          below the bound
    individual_alpha  largest share of one person among the rows            at most

Each of them is *mergeable*: where two disjoint groups satisfy a demand, so does their union. Numbers of rows, people
and values only grow; entropy is concave; the two sides of the recursive inequality add up to (at most, at least) those
of the union; the rest are convex functions of p. Two things follow, and the package relies on both: a union of whole
leaves satisfies whatever its leaves satisfy, and a model can be met by some division of a table into groups if and only
if the whole table, as one group, meets it.

Demands in `CLOSED_UPWARD` hold for every group that contains one for which they hold; the others can be spoilt by
further rows.
"""

from __future__ import annotations

from dataclasses import dataclass

CLOSED_UPWARD = frozenset({"rows", "people", "distinct_l"})
ABOUT_PEOPLE = frozenset({"people", "individual_alpha"})
COMPARED = frozenset({"t", "t_ordered", "beta", "beta_enhanced", "delta"})  # a group with the whole table


@dataclass(frozen=True)
class Demand:
    """One quantity, its bound, and the sensitive column that it is about (None: the rows, or the people)."""

    quantity: str
    bound: float | tuple[float, int]
    column: str | None = None
