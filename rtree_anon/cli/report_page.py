"""The page that `rtree-anon report` writes: one self-contained HTML file, pictures inside, nothing to load.

Everything on it comes from the manifest of the published directory and from the independent checker, which reads the
files again; texts from both are escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtree_anon.checking.describe import sections, short_groups

if TYPE_CHECKING:
    from rtree_anon.checking import Report

_BINS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 3.0, 5.0)  # of group sizes, in units of k; what is larger comes last
_BLUE, _INK, _GREY = "#2f6db3", "#222222", "#888888"
_STYLE = f"""
body {{ font: 16px/1.5 system-ui, sans-serif; color: {_INK}; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.25rem; margin-top: 2.2rem; }} h3 {{ font-size: 1rem; }}
table {{ border-collapse: collapse; margin: .6rem 0; }}
th, td {{ padding: .25rem .8rem .25rem 0; text-align: right; border-bottom: 1px solid #e4e4e4; }}
th:first-child, td:first-child, td.text {{ text-align: left; }} td + td + td.text {{ color: {_GREY}; }}
code {{ font-size: .8rem; overflow-wrap: anywhere; }} figure {{ margin: .5rem 1.5rem .5rem 0; display: inline-block; }}
.good {{ color: #1b6e34; }} .bad {{ color: #b3261e; font-weight: bold; }}
@media print {{ body {{ margin: 0; }} h2 {{ break-after: avoid; }} }}
"""
_LIMITS = (
    "k-anonymity hides which row is whose; it does not hide what all rows of a group have in common.",
    "It protects against those who know the quasi-identifiers that were named, and no other column.",
    "Releases of different versions of a table, or of different calls, are not safe together.",
)


@dataclass(frozen=True)
class CheckedRelease:
    """One file of the directory: what its manifest says, and what the checker found in it."""

    file: str
    facts: Mapping[str, Any]
    digest: Mapping[str, Any]
    report: Report
    problems: Sequence[str]


def page_of(directory: str, made_by: str, releases: Sequence[CheckedRelease]) -> str:
    """The whole page; `releases` by rising k."""
    n_rows = releases[0].report.n_rows
    bad = [problem for release in releases for problem in release.problems]
    verdict = (
        f'<p class="bad">{len(bad)} problems were found; see below. Do not publish.</p>'
        if bad
        else '<p class="good">Every file is as it was published, and every group keeps what its release promises.</p>'
    )
    parts = [
        f"<h1>Anonymous releases of {n_rows:,} rows</h1>",
        f"<p>{escape(directory)}, made by {escape(made_by)}; read again and checked for this page.</p>",
        verdict,
        _overview(releases),
        "<h2>What is lost</h2><p>The certainty penalty is the average share of an attribute's domain that a published "
        "value spans: 0 % where values are exact, 100 % where nothing is said.</p>",
        _certainty_bars(releases),
        "<h2>How large the groups are</h2><p>Rows in groups, by the size of the group in units of k.</p>",
        *(_size_bars(release) for release in releases),
        *(_details(release) for release in releases),
        "<h2>What is not promised</h2><ul>",
        *(f"<li>{escape(limit)}</li>" for limit in _LIMITS),
        "</ul>",
    ]
    title = f"Releases in {escape(directory)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _overview(releases: Sequence[CheckedRelease]) -> str:
    rows = []
    for release in releases:
        quality, report = release.facts["quality"], release.report
        rows.append(
            [
                release.file,
                f"{release.facts['k']:,}",
                f"{report.n_groups:,}",
                f"{report.k:,}",
                f"{report.n_rows / report.n_groups:.1f}",
                _percent(quality.get("certainty")),
                _figure(quality.get("discernibility")),
                _figure(quality.get("average_class_size")),
                _figure(quality.get("kl_divergence")),
            ]
        )
    headers = [
        "file",
        "k",
        "groups",
        "smallest",
        "rows per group",
        "certainty penalty",
        "discernibility",
        "C avg",
        "KL",
    ]
    return _table(headers, rows)


def _details(release: CheckedRelease) -> str:
    facts = release.facts
    lines = [
        ("model", facts.get("model")),
        ("safe together at", facts.get("safe_together_at")),
        ("made by", " ".join(str(facts[name]) for name in ("algorithm", "method") if facts.get(name))),
        ("values", "what occurs in a group" if facts.get("compact") else "the region of a group"),
        ("version", facts.get("version")),
    ]
    parts = [f"<h2>{escape(release.file)}</h2>"]
    parts += [f'<p class="bad">{escape(problem)}</p>' for problem in release.problems]
    parts.append(_table((), [(name, str(value)) for name, value in lines if value is not None], text_from=1))
    for title, found in sections(release.report):
        parts.append(f"<h3>{escape(title)}</h3>")
        parts.append(_table((), [(line.label, line.figure, line.meaning) for line in found], text_from=2))
    parts += [f"<p>{escape(text)}</p>" for text in short_groups(release.report, int(facts["k"]))]
    parts.append(f"<p>{release.digest['bytes']:,} bytes, SHA-256 <code>{escape(release.digest['sha256'])}</code></p>")
    return "\n".join(parts)


def _certainty_bars(releases: Sequence[CheckedRelease]) -> str:
    values = [release.facts["quality"].get("certainty") or 0.0 for release in releases]
    names = [f"k = {release.facts['k']}" for release in releases]
    return _bars("certainty penalty", names, values, [_percent(value) for value in values])


def _size_bars(release: CheckedRelease) -> str:
    k = int(release.facts["k"])
    share = size_shares(release.report.sizes, k)
    ends = [*(f"{edge:g}" for edge in _BINS[1:]), ""]
    names = [f"{edge:g} to {end}" if end else f"{edge:g} and more" for edge, end in zip(_BINS, ends, strict=True)]
    return _bars(f"k = {k}", names, share.tolist(), [_percent(value) for value in share.tolist()])


def size_shares(sizes: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """The share of rows in groups of each bin of sizes."""
    place = np.clip(np.searchsorted(_BINS, sizes / k, "right") - 1, 0, None)
    return np.bincount(place, weights=sizes, minlength=len(_BINS)) / max(int(sizes.sum()), 1)


def _bars(title: str, names: Sequence[str], values: Sequence[float], labels: Sequence[str]) -> str:
    """Horizontal bars, as SVG."""
    step, left, width = 24, 110, 300
    top = max([*values, 1e-12])
    shapes = []
    for place, (name, value, label) in enumerate(zip(names, values, labels, strict=True)):
        y, length = 26 + place * step, width * value / top
        shapes.append(
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{step - 7}" fill="{_BLUE}"/>'
            f'<text x="{left + length + 6:.1f}" y="{y + 13}">{escape(label)}</text>'
        )
    height = 30 + step * len(names)
    return (
        f'<figure><svg width="{left + width + 80}" height="{height}" role="img" font-size="12" fill="{_INK}" '
        f'font-family="system-ui, sans-serif"><title>{escape(title)}</title><text x="0" y="14" font-weight="bold">'
        f"{escape(title)}</text>{''.join(shapes)}</svg></figure>"
    )


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], text_from: int = 99) -> str:
    head = "<tr>" + "".join(f"<th>{escape(header)}</th>" for header in headers) + "</tr>" if headers else ""
    body = ""
    for row in rows:
        cells = ((' class="text"' if place >= text_from else "", escape(cell)) for place, cell in enumerate(row))
        body += "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in cells) + "</tr>"
    return f"<table>{head}{body}</table>"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
