"""A check as one self-contained HTML page: the verdict, errors by oracle, a row for each quantity, Jacobians, timings.

Nothing in it is loaded from anywhere, and nothing is needed to make it. Not for its looks (``page.py``), nor for
terminals (``table.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from dualad.testing import CheckReport, Outcome, Row

from .page import SCRIPT, STYLE, page

__all__ = ["jacobian_svg", "to_html"]

_MOST_PICTURES = 40
_MOST_CELLS = 64
_LEAST, _MOST = -17, 1  # decades of the plot of errors
_ORACLES = ("jax", "differences", "complex-step", "dot", "loop", "numpy")
_KINDS = {"ok": "ok", "skipped": "skipped", "mismatch": "failed", "error": "failed", "unchecked": "failed"}
_MARKS = {"ok": "✓", "mismatch": "✗", "error": "✗", "unchecked": "?", "skipped": "–"}


def to_html(reports: Sequence[CheckReport], *, summary: str, settings: Mapping[str, Any]) -> str:
    """Return the page."""
    good = all(report.ok for report in reports)
    quantities = list(dict.fromkeys(row.quantity for report in reports for row in report.rows))
    parts = [
        "<h1>dualad check</h1>",
        f'<p class="summary {"good" if good else "bad"}">{escape(summary)}</p>',
        f'<p class="soft">{" · ".join(escape(f"{key} = {value}") for key, value in settings.items())}</p>',
        _failures(reports),
        _errors(reports, quantities),
        _filters(quantities),
        _grid(reports, quantities),
        *(_section(report, k, pictured=k < _MOST_PICTURES) for k, report in enumerate(reports)),
    ]
    return page(f"{'✓' if good else '✗'} dualad check", "\n".join(filter(None, parts)), STYLE, SCRIPT)


def _failures(reports: Sequence[CheckReport]) -> str:
    found = [failure for report in reports for failure in report.failures]
    if not found:
        return ""
    count = f"{len(found)} failure{'' if len(found) == 1 else 's'}"
    text = escape(chr(10).join(found))
    return f'<details open><summary>{count}</summary><pre class="failures">{text}</pre></details>'


# ── errors by oracle ─────────────────────────────────────────────────────────────────────────────────────────────


def _errors(reports: Sequence[CheckReport], quantities: list[str]) -> str:
    """Plot the largest relative error of every row, a line for each quantity, a colour for each oracle."""
    lines, named = [], set()
    for quantity in quantities:
        dots = []
        for report in reports:
            for row in report.rows:
                for outcome in row.outcomes:
                    error = outcome.max_error
                    if row.quantity == quantity and error is not None and math.isfinite(error):
                        named.add(outcome.oracle)
                        dots.append(_dot(outcome, error, f"{report.target} at {report.point}"))
        if dots:
            grid = "".join(f'<b style="left:{_left(d):.1f}%"></b>' for d in range(_LEAST + 1, _MOST, 4))
            lines.append(f'<div>{escape(quantity)}</div><div class="track">{grid}{"".join(dots)}</div>')
    if not lines:
        return ""
    key = "".join(f'<span><i style="background:var(--{o})"></i>{o}</span>' for o in _ORACLES if o in named)
    ticks = "".join(
        f'<span style="left:{_left(d):.1f}%">{"1" if d == 0 else f"1e{d}"}</span>' for d in range(_LEAST + 1, _MOST, 4)
    )
    return (
        '<h2>Largest relative error, by oracle</h2><p class="soft">A dot is one quantity of one function at one point; '
        f'at the left edge the two are equal.</p><div class="key">{key}</div>'
        f'<div class="strip">{"".join(lines)}<div></div><div class="axis">{ticks}</div></div>'
    )


def _left(decade: float) -> float:
    return 100 * (min(max(decade, _LEAST), _MOST) - _LEAST) / (_MOST - _LEAST)


def _dot(outcome: Outcome, error: float, where: str) -> str:
    left = _left(math.log10(error) if error > 0 else _LEAST)
    said = escape(f"{where}: {outcome.oracle} {error:.1e}")
    return f'<i style="left:{left:.1f}%;background:var(--{escape(outcome.oracle)})" title="{said}"></i>'


# ── the list of results ──────────────────────────────────────────────────────────────────────────────────────────


def _filters(quantities: Iterable[str]) -> str:
    options = "".join(f"<option>{escape(q)}</option>" for q in quantities)
    boxes = "".join(
        f'<label><input type="checkbox" name="kind" value="{kind}" checked> {kind}</label>'
        for kind in dict.fromkeys(_KINDS.values())
    )
    return (
        '<form class="filters" hidden><input type="search" name="text" placeholder="function" aria-label="function">'
        f'<select name="quantity" aria-label="quantity"><option value="">all quantities</option>{options}</select>'
        f'{boxes}<span class="soft" id="seen"></span></form>'
    )


def _grid(reports: Sequence[CheckReport], quantities: list[str]) -> str:
    """Show all verdicts at a glance."""
    head = "".join(f"<th>{escape(q)}</th>" for q in quantities)
    lines = []
    for k, report in enumerate(reports):
        status = {row.quantity: row.status for row in report.rows}
        cells = "".join(
            f'<td class="{status[q]}" title="{status[q]}">{_MARKS[status[q]]}</td>' if q in status else "<td></td>"
            for q in quantities
        )
        name = f'<a href="#r{k}">{escape(report.target)} <span class="soft">{escape(report.point)}</span></a>'
        lines.append(f'<tr data-report="r{k}"><td>{name}</td>{cells}</tr>')
    return (
        '<h2>Results</h2><div class="scroll"><table class="grid"><thead><tr><th>function and point</th>'
        f"{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _section(report: CheckReport, k: int, pictured: bool) -> str:
    size = f" · {report.inputs} → {report.outputs}" if report.outputs else ""
    longest = max((row.seconds for row in report.rows), default=0.0) or 1.0
    rows = "\n".join(_row(row, longest) for row in report.rows)
    total = sum(row.seconds + sum(o.seconds for o in row.outcomes) for row in report.rows)
    verdict = '<span class="ok">✓</span>' if report.ok else '<span class="mismatch">✗</span>'
    head = "<tr><th>quantity</th><th>result</th><th>oracle: largest relative error</th><th>time</th></tr>"
    picture = _picture(report) if pictured else ""
    name = escape(f"{report.target} at {report.point}")
    return (
        f'<details class="report" id="r{k}" data-name="{name}"{"" if report.ok else " open"}>'
        f'<summary>{verdict} <code>{name}</code><span class="soft">{size} · {total * 1e3:.0f} ms with the oracles'
        f'</span></summary><div class="parts"><div class="rows"><table><thead>{head}</thead><tbody>{rows}</tbody>'
        f"</table></div>"
        f"{picture}</div></details>"
    )


def _row(row: Row, longest: float) -> str:
    said = "<br>".join(_outcome(outcome) for outcome in row.outcomes)
    message = f'<pre class="{row.status}">{escape(row.message)}</pre>' if row.message else ""
    bar = f'<span class="bar" style="width:{max(2, round(60 * row.seconds / longest))}px"></span>'
    return (
        f'<tr data-kind="{_KINDS[row.status]}" data-quantity="{escape(row.quantity)}"><td>{escape(row.quantity)}</td>'
        f'<td class="{row.status}">{row.status}</td><td class="said">{said}{message}</td>'
        f'<td class="time">{row.seconds * 1e3:.2f} ms{bar}</td></tr>'
    )


def _outcome(outcome: Outcome) -> str:
    if outcome.status == "unavailable":
        return f'<span class="na">{escape(outcome.oracle)}: not available: {escape(outcome.reason)}</span>'
    error = "" if outcome.max_error is None else "equal" if outcome.max_error == 0 else f"{outcome.max_error:.1e}"
    bad = outcome.mismatch
    detail = (
        ""
        if bad is None
        else f" at {bad.entry}: {bad.got:.10g} instead of {bad.expected:.10g} (tolerance {bad.tolerance:.1g})"
    )
    note = f' <span class="na">({escape(outcome.reason)})</span>' if outcome.reason else ""
    took = f' <span class="na">{outcome.seconds * 1e3:.1f} ms</span>' if outcome.seconds else ""
    return f'<span class="{outcome.status}">{escape(outcome.oracle)}: {error}{escape(detail)}</span>{note}{took}'


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _picture(report: CheckReport) -> str:
    matrix = report.jacobian
    if matrix is None or not matrix.size:
        return ""
    m, n = matrix.shape
    nonzero = int(np.count_nonzero(matrix))
    values = np.abs(matrix[np.isfinite(matrix) & (matrix != 0)])
    sizes = f", {values.min():.1e} to {values.max():.1e}" if values.size else ""
    return (
        f"<figure>{jacobian_svg(matrix, f'Jacobian of {report.target}')}<figcaption>Jacobian: {m} × {n}, {nonzero} "
        f"nonzero{sizes}. Red is positive, blue negative, stronger is larger.</figcaption></figure>"
    )


def jacobian_svg(matrix: np.ndarray, title: str) -> str:
    """Draw a matrix: colour by sign, strength by magnitude (logarithmic); of a large one, the largest of each block."""
    cells = _pool(_pool(matrix, 0), 1)
    m, n = cells.shape
    magnitude = np.abs(cells[np.isfinite(cells) & (cells != 0)])
    low, high = (math.log10(magnitude.min()), math.log10(magnitude.max())) if magnitude.size else (0.0, 0.0)
    low = max(low, high - 8)
    # A long thin matrix is drawn with oblong cells, so that it stays readable.
    wide, tall = 300.0, min(300.0, max(24.0, 300.0 * m / n))
    dx, dy = wide / n, tall / m
    rects = []
    for i, j in zip(*np.nonzero(cells), strict=True):
        value = float(cells[i, j])
        place = f'x="{j * dx:.2f}" y="{i * dy:.2f}" width="{dx:.2f}" height="{dy:.2f}"'
        if not math.isfinite(value):
            rects.append(f'<rect class="nan" {place}/>')
            continue
        strength = 1.0 if high == low else min(1.0, max(0.0, (math.log10(abs(value)) - low) / (high - low)))
        rects.append(
            f'<rect class="{"plus" if value > 0 else "minus"}" opacity="{0.25 + 0.75 * strength:.2f}" {place}/>'
        )
    box = f'viewBox="0 0 {wide:.0f} {tall:.1f}"'
    return (
        f'<svg {box} role="img" shape-rendering="crispEdges" aria-label="{escape(title)}">'
        f'<rect class="ground" width="{wide:.0f}" height="{tall:.1f}"/>{"".join(rects)}</svg>'
    )


def _pool(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Shrink an axis to what can be seen, keeping the entry of largest magnitude in each block."""
    if matrix.shape[axis] <= _MOST_CELLS:
        return matrix
    blocks = []
    for block in np.array_split(matrix, _MOST_CELLS, axis=axis):
        size = np.where(np.isfinite(block), np.abs(block), np.inf)
        blocks.append(np.take_along_axis(block, np.expand_dims(size.argmax(axis), axis), axis))
    return np.concatenate(blocks, axis=axis)
