"""A check as one self-contained HTML page: the verdict, errors by oracle, a row for each quantity, Jacobians, timings.

Nothing in it is loaded from anywhere, and nothing is needed to make it. Without scripts the page shows
everything. Not for terminals (``check.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from dualad.testing import CheckReport, Outcome, Row

__all__ = ["jacobian_svg", "page", "to_html"]


def page(title: str, body: str, style: str, script: str = "") -> str:
    """Return a page that needs no other file."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{style}</style></head><body>\n'
        f"{body}\n{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


STYLE = """
:root { color-scheme: light dark; --fg: #1d2330; --soft: #5d6779; --bg: #fff; --card: #f5f7fa; --line: #dfe3eb;
  --good: #14713a; --bad: #b3202a; --skip: #8a6100; --bar: #7fa7d9; --plus: #b2182b; --minus: #2166ac; --zero: #fff;
  --jax: #1f77b4; --differences: #2ca02c; --complex-step: #9467bd; --dot: #e07b00; --loop: #7f7f7f; --numpy: #0fa3b1; }
@media (prefers-color-scheme: dark) { :root { --fg: #e4e8f0; --soft: #9aa5b8; --bg: #14171d; --card: #1d222b;
  --line: #323946; --good: #5ac987; --bad: #ff8087; --skip: #e3b341; --bar: #3f6ea8; --plus: #ff8a80; --minus: #6cb2ff;
  --zero: #14171d; --jax: #5aa9e6; --differences: #5ccb5c; --complex-step: #b794e0; --dot: #ffa94d; --loop: #a8adb7;
  --numpy: #4fd0dd; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1.2rem 1rem 4rem;
  color: var(--fg); background: var(--bg); }
h1 { font-size: 1.5rem; margin: 0 0 .6rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
code, pre, .mono { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .92em; }
pre { background: var(--card); padding: .6rem .8rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: .8rem; line-height: 1.35; border-radius: 6px; margin: .5rem 0; }
.summary { padding: .6rem 1rem; border-left: 5px solid var(--good); background: var(--card); border-radius: 0 6px 6px 0;
  margin: 0 0 .6rem; } .summary.bad { border-color: var(--bad); }
.soft { color: var(--soft); font-size: .86rem; } .ok { color: var(--good); } .skipped { color: var(--skip); }
.mismatch, .error, .unchecked { color: var(--bad); font-weight: 600; } .na { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; width: 100%; } td, th { padding: .25rem .6rem; text-align: left;
  vertical-align: top; } th { border-bottom: 2px solid var(--line); white-space: nowrap; }
tbody tr + tr td { border-top: 1px solid var(--line); }
.grid td, .grid th { text-align: center; padding: .2rem .45rem; } .grid td:first-child, .grid th:first-child {
  text-align: left; } .grid a { color: inherit; text-decoration: none; overflow-wrap: anywhere; }
.grid a:hover { text-decoration: underline; }
.filters { position: sticky; top: 0; z-index: 2; background: var(--bg); border-bottom: 1px solid var(--line);
  padding: .5rem 0; display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin-top: 1rem; }
.filters input[type=search], .filters select { font: inherit; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 6px; padding: .2rem .5rem; } .filters label { white-space: nowrap; }
details { border: 1px solid var(--line); border-radius: 8px; margin: .8rem 0; padding: 0 .9rem; }
details[open] { padding-bottom: .9rem; } summary { cursor: pointer; padding: .5rem 0; overflow-wrap: anywhere; }
.parts { display: flex; flex-wrap: wrap; gap: 1.2rem; align-items: flex-start; } .parts > .rows { flex: 1 1 32rem;
  min-width: 0; } .parts figure { flex: 0 1 20rem; margin: 0; } figure svg { width: 100%; height: auto; display: block;
  border: 1px solid var(--line); } figcaption { font-size: .8rem; color: var(--soft); }
.time { white-space: nowrap; text-align: right; } .bar { display: block; height: .3rem; background: var(--bar);
  border-radius: 2px; margin-left: auto; }
.strip { display: grid; grid-template-columns: 6.5rem 1fr; font-size: .8rem; align-items: center; }
.track { position: relative; height: 1.45rem; border-bottom: 1px solid var(--line); }
.track i, .key i { width: .55rem; height: .55rem; border-radius: 50%; display: inline-block; }
.track i { position: absolute; top: .45rem; margin-left: -.27rem; opacity: .72; }
.track b { position: absolute; top: 0; bottom: 0; border-left: 1px dashed var(--line); }
.axis { position: relative; height: 1.3rem; color: var(--soft); } .axis span { position: absolute;
  transform: translateX(-50%); } .key { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .82rem;
  margin: .3rem 0; } .key i { margin-right: .3rem; }
.plus { fill: var(--plus); } .minus { fill: var(--minus); } .nan { fill: var(--skip); }
.ground { fill: var(--zero); } pre.failures { max-height: 24rem; overflow-y: auto; }
[hidden] { display: none !important; }
@media (max-width: 640px) {
  .rows thead { display: none; } .rows tr { display: grid; grid-template-columns: 1fr auto auto; gap: 0 .8rem;
    padding: .35rem 0; } .rows tbody tr + tr { border-top: 1px solid var(--line); } .rows td { padding: 0; }
  .rows tbody tr + tr td { border-top: 0; } .rows td.said { grid-column: 1 / -1; grid-row: 2; }
  .filters { gap: .3rem .7rem; } .filters input[type=search] { width: 100%; }
  .strip { grid-template-columns: 5rem 1fr; } pre.failures { max-height: 16rem; }
  .axis span:nth-child(even) { display: none; } .parts figure { flex-basis: 100%; }
}
"""

SCRIPT = """
(() => {
  const form = document.querySelector(".filters");
  form.hidden = false;
  const show = () => {
    const words = form.text.value.toLowerCase(), quantity = form.quantity.value;
    const kinds = new Set([...form.querySelectorAll("[name=kind]:checked")].map(box => box.value));
    let seen = 0;
    for (const section of document.querySelectorAll("details.report")) {
      const named = section.dataset.name.toLowerCase().includes(words);
      let any = false;
      for (const row of section.querySelectorAll("tr[data-kind]")) {
        const on = kinds.has(row.dataset.kind) && (!quantity || row.dataset.quantity === quantity);
        row.hidden = !on;
        any ||= on;
      }
      section.hidden = !(named && any);
      seen += !section.hidden;
      const link = document.querySelector(`.grid tr[data-report="${section.id}"]`);
      if (link) link.hidden = section.hidden;
    }
    document.querySelector("#seen").textContent = `${seen} shown`;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", event => event.preventDefault());
  const open = () => { const at = document.getElementById(location.hash.slice(1)); if (at) at.open = true; };
  addEventListener("hashchange", open);
  open();
  show();
})();
"""


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
