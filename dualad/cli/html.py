"""A check as one self-contained HTML page: the tables, errors by oracle, the Jacobians' pictures, timings.

Images are inline; without matplotlib the page says so and has everything else.

Not for terminals (``table.py``).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dualad.pattern import draw
from dualad.testing import CheckReport, Outcome, Row

from . import plots

__all__ = ["to_html"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1d2330; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin-top: 2.2rem; font-family: ui-monospace, monospace; }
table { border-collapse: collapse; font-size: .86rem; } td, th { padding: .22rem .7rem; text-align: left; }
th { border-bottom: 2px solid #c9cfdb; } tr + tr td { border-top: 1px solid #e5e8ef; } td.n { text-align: right; }
.ok { color: #16713a; } .mismatch, .error, .unchecked { color: #b3202a; font-weight: 600; }
.skipped, .na { color: #7b8496; }
.summary { padding: .6rem 1rem; border-left: 5px solid; background: #f5f7fa; } .good { border-color: #2c9a57; }
.bad { border-color: #c8323c; } pre { background: #f5f7fa; padding: .6rem 1rem; overflow-x: auto; }
pre { font-size: .8rem; line-height: 1.15; }
img, svg { max-width: 100%; height: auto; }
.side { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start; }
.bar { display: inline-block; height: .6rem; background: #7fa7d9; vertical-align: middle; }
"""

_MOST_PICTURES = 40


def to_html(reports: Sequence[CheckReport], *, summary: str, settings: Mapping[str, Any]) -> str:
    """Return the page."""
    good = all(report.ok for report in reports)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>dualad check</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>dualad check</h1>",
        f'<p class="summary {"good" if good else "bad"}">{escape(summary)}</p>',
        _failures(reports),
        _overview(reports),
        _settings(settings),
        *(_section(report, pictured=k < _MOST_PICTURES) for k, report in enumerate(reports)),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _failures(reports: Sequence[CheckReport]) -> str:
    found = [failure for report in reports for failure in report.failures]
    return f'<pre class="failures">{escape(chr(10).join(found))}</pre>' if found else ""


def _overview(reports: Sequence[CheckReport]) -> str:
    if not plots.has_matplotlib():
        return (
            '<p class="na">The plots are drawn with matplotlib, which is not installed here '
            "(<code>pip install 'dualad[viz]'</code>).</p>"
        )
    svg = plots.errors_svg(reports)
    return svg[svg.index("<svg") :]


def _settings(settings: Mapping[str, Any]) -> str:
    items = ", ".join(f"{escape(str(key))} = {escape(str(value))}" for key, value in settings.items())
    return f'<p class="na">{items}</p>'


def _section(report: CheckReport, pictured: bool) -> str:
    size = f" &nbsp; {report.inputs} → {report.outputs}" if report.outputs else ""
    longest = max((row.seconds for row in report.rows), default=0.0) or 1.0
    rows = "\n".join(_row(row, longest) for row in report.rows)
    table = (
        "<table><thead><tr><th>quantity</th><th>result</th><th>oracle: largest relative error</th><th>time</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
    )
    picture = _picture(report) if pictured else ""
    return f'<h2>{escape(report.target)} at {escape(report.point)}{size}</h2><div class="side">{table}{picture}</div>'


def _row(row: Row, longest: float) -> str:
    said = "<br>".join(_outcome(outcome) for outcome in row.outcomes)
    message = f'<pre class="{row.status}">{escape(row.message)}</pre>' if row.message else ""
    bar = f'<span class="bar" style="width:{max(1, round(60 * row.seconds / longest))}px"></span>'
    return (
        f'<tr><td>{escape(row.quantity)}</td><td class="{row.status}">{row.status}</td><td>{said}{message}</td>'
        f'<td class="n">{row.seconds * 1e3:.2f} ms {bar}</td></tr>'
    )


def _outcome(outcome: Outcome) -> str:
    if outcome.status == "unavailable":
        return f'<span class="na">{escape(outcome.oracle)}: not available: {escape(outcome.reason)}</span>'
    error = "" if outcome.max_error is None else f"{outcome.max_error:.1e}"
    bad = outcome.mismatch
    detail = (
        ""
        if bad is None
        else f" at {bad.entry}: {bad.got:.10g} instead of {bad.expected:.10g} (tolerance {bad.tolerance:.1g})"
    )
    note = f' <span class="na">({escape(outcome.reason)})</span>' if outcome.reason else ""
    return f'<span class="{outcome.status}">{escape(outcome.oracle)}: {error}{escape(detail)}</span>{note}'


def _picture(report: CheckReport) -> str:
    matrix = report.jacobian
    if matrix is None or not matrix.size:
        return ""
    if plots.has_matplotlib():
        data = base64.b64encode(plots.jacobian_png(matrix, "Jacobian")).decode()
        return f'<img alt="Jacobian of {escape(report.target)}" src="data:image/png;base64,{data}">'
    return f"<pre>{escape(draw(matrix, columns=60, rows=20))}</pre>"
