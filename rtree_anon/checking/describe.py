"""A report in words: sections of label, figure and explanation, and the groups that stand out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rtree_anon.checking.report import Group, Report
    from rtree_anon.checking.sensitive import SensitiveReport

MOST_GROUPS = 10
_MOST_ROWS = 8


class Line(NamedTuple):
    """One figure."""

    label: str
    figure: str
    meaning: str


def as_text(report: Report, k: int = 2, most_groups: int = MOST_GROUPS) -> str:
    """The report as plain text, with up to `most_groups` of the groups below k."""
    parts = []
    for title, lines in sections(report):
        label_width = max(len(line.label) for line in lines)
        figure_width = max(len(line.figure) for line in lines)
        parts.append(title)
        parts += [f"  {label:<{label_width}}  {figure:>{figure_width}}  {meaning}" for label, figure, meaning in lines]
    return "\n".join([*parts, *short_groups(report, k, most_groups)])


def sections(report: Report) -> list[tuple[str, list[Line]]]:
    """Title and lines of each section: the groups, the people, each sensitive column."""
    groups = [
        Line("k", f"{report.k:,}", "rows in the smallest group"),
        Line("groups", f"{report.n_groups:,}", "distinct combinations of quasi-identifier values"),
        Line("rows", f"{report.n_rows:,}", f"{report.n_rows / report.n_groups:.2f} per group on average"),
    ]
    found = [(f"Grouped by {', '.join(report.columns)}", groups)]
    if report.identity:
        people = report.identity
        lines = [
            Line("k", f"{people.k:,}", "people behind the smallest group"),
            Line(
                "people",
                f"{people.n_individuals:,}",
                f"{report.n_rows / people.n_individuals:.2f} rows each on average",
            ),
            Line("alpha", _short(people.alpha), "largest share of one person in a group's rows"),
            Line("alone", f"{people.n_single:,}", "groups with one person only"),
        ]
        found.append((f"People ({people.name})", lines))
    found += [(f"Sensitive: {column.name}", _sensitive(column)) for column in report.sensitive.values()]
    return found


def short_groups(report: Report, k: int, most_groups: int = MOST_GROUPS) -> list[str]:
    """Lines that name the groups below k and their rows."""
    groups = report.groups_below(k)
    if not len(groups):
        return []
    what = "people" if report.identity else "rows"
    title = f"{len(groups):,} groups with fewer than {k} {what} ({groups.n_rows:,} rows)"
    lines = [f"  {_name(group)}" for group in groups.first(most_groups)]
    if len(groups) > most_groups:
        lines.append(f"  and {len(groups) - most_groups:,} more")
    return [title, *lines]


def _sensitive(column: SensitiveReport) -> list[Line]:
    lines = [
        Line("values", f"{column.n_values:,}", "distinct in the table"),
        Line("distinct l", f"{column.distinct_l:,}", "fewest distinct values in a group"),
        Line("entropy l", _short(column.entropy_l), "exp of the smallest entropy"),
    ]
    if column.distinct_l >= 2:
        lines.append(Line("recursive c", _short(column.recursive_c(2)), "(c,2)-diverse for every c above this"))
    lines += [
        Line("t", _short(column.t), "largest distance from the table's distribution, all values equally far apart"),
        Line("t ordered", _short(column.t_ordered), "the same, values as far apart as their ranks"),
        Line("alpha", _short(column.alpha), "largest share of one value in a group"),
        Line("beta", _short(column.beta), "largest relative gain of one value's share"),
        Line("beta enhanced", _short(column.beta_enhanced), "the same, also bounded by -ln of the value's share"),
        Line("delta", _short(column.delta), "largest |ln| of the ratio of shares, over all values"),
    ]
    return lines


def _short(figure: float) -> str:
    return "infinite" if math.isinf(figure) else f"{figure:.4f}"


def _name(group: Group) -> str:
    values = ", ".join(f"{name}={'missing' if value is None else value}" for name, value in group.values.items())
    numbers = ", ".join(str(row + 1) for row in group.rows[:_MOST_ROWS])
    more = ", ..." if len(group.rows) > _MOST_ROWS else ""
    people = (
        "" if group.individuals is None else f", {group.individuals} {'person' if group.individuals == 1 else 'people'}"
    )
    size = "1 row" if group.size == 1 else f"{group.size:,} rows"
    return f"{size}{people}: {values} (row {numbers}{more})"
