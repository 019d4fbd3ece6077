"""A profile as one self-contained HTML page: what took the time, by operation and by line, and a timeline.

Not for terminals (``table.py``) or for millions of events (``chrome.py``).
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from html import escape

from .averages import Average, averages
from .event import PHASES, Event, Line
from .table import memory, seconds

__all__ = ["page"]

_COLOURS = {
    "primal": "#3b7dd8", "tangent": "#5aa1e3", "linearize": "#2f9e8f", "record": "#d9a514", "program": "#8a6fd1",
    "transpose": "#cf5c4a", "batched": "#4c9a44", "transform": "#d5dae3", "range": "#efe3c2",
}  # fmt: skip
_OTHER = "#8b93a3"

_STYLE = """
.dualad-profile { font: 15px/1.5 system-ui, sans-serif; color: #1d2330; background: #fff; max-width: 72rem; }
body > .dualad-profile { margin: 1.5rem auto; padding: 0 1rem; }
.dualad-profile h1 { font-size: 1.4rem; } .dualad-profile h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
.dualad-profile .wide { overflow-x: auto; }
.dualad-profile table { border-collapse: collapse; font-size: .84rem; width: 100%; }
.dualad-profile td, .dualad-profile th { padding: .2rem .6rem; text-align: left; white-space: nowrap; }
.dualad-profile th { border-bottom: 2px solid #c9cfdb; cursor: pointer; }
.dualad-profile th[aria-sort]::after { content: " ▾"; }
.dualad-profile th[aria-sort=ascending]::after { content: " ▴"; }
.dualad-profile tr + tr td { border-top: 1px solid #e5e8ef; }
.dualad-profile .n { text-align: right; font-variant-numeric: tabular-nums; }
.dualad-profile code, .dualad-profile td.name { font-family: ui-monospace, monospace; font-size: .95em; }
.dualad-profile .dot { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .45em; }
.dualad-profile .note { color: #667085; font-size: .86rem; }
.dualad-profile .bars { display: flex; width: 9rem; height: .75rem; }
.dualad-profile .legend span { margin-right: 1rem; white-space: nowrap; }
.dualad-profile svg { width: 100%; min-width: 44rem; height: auto; display: block; }
.dualad-profile svg text { font: 10px system-ui, sans-serif; fill: #1d2330; pointer-events: none; }
"""

_SORTING = """
document.querySelectorAll(".dualad-profile th").forEach(th => th.addEventListener("click", () => {
  const body = th.closest("table").tBodies[0], i = th.cellIndex;
  const up = th.getAttribute("aria-sort") === "descending";
  th.parentNode.querySelectorAll("th").forEach(t => t.removeAttribute("aria-sort"));
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = r => r.cells[i].dataset.v === undefined ? r.cells[i].textContent : +r.cells[i].dataset.v;
  const sign = up ? 1 : -1;
  [...body.rows].sort((a, b) => { const x = key(a), y = key(b); return sign * (x > y ? 1 : x < y ? -1 : 0); })
    .forEach(r => body.append(r));
}));
"""

_MOST_ROWS, _MOST_LINES, _MOST_BOXES, _DEEPEST = 200, 60, 3000, 24


def page(events: Sequence[Event], elapsed: float, dropped: int, whole: bool = True) -> str:
    """Return the page, or with ``whole=False`` the part that a notebook shows."""
    rows = averages(events)
    spent = sum(row.self_time for row in rows)
    note = f"{len(events)} events, {seconds(spent)} in what was seen, {seconds(elapsed)} in the block with the profiler"
    if dropped:
        note += f"; {dropped} more events were dropped (profile(limit=...) keeps them)"
    body = "\n".join([
        f'<p class="note">{escape(note)}</p>',
        _legend({row.phase for row in rows}),
        "<h2>Timeline</h2>" + _timeline(events),
        "<h2>By operation</h2>" + _operations(rows, spent),
        "<h2>By line</h2>" + _by_line(events, spent),
    ])  # fmt: skip
    if not whole:
        return f'<style>{_STYLE}</style><div class="dualad-profile">{body}</div>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>dualad profile</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<style>body {{ margin: 0; }}{_STYLE}</style></head><body><div class="dualad-profile">'
        f"<h1>dualad profile</h1>\n{body}</div>\n<script>{_SORTING}</script></body></html>\n"
    )


def _legend(phases: Iterable[str]) -> str:
    known = [p for p in PHASES if p in phases] + sorted(set(phases) - set(PHASES))
    items = [f'<span title="{escape(PHASES.get(p, ""))}">{_dot(p)}{escape(p)}</span>' for p in known]
    return f'<p class="legend">{"".join(items)}</p>'


def _dot(phase: str) -> str:
    return f'<i class="dot" style="background:{_COLOURS.get(phase, _OTHER)}"></i>'


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _operations(rows: Sequence[Average], spent: float) -> str:
    head = ["name", "phase", "calls", "self", "share", "total", "mean", "memory", "line"]
    lines = []
    for r in rows[:_MOST_ROWS]:
        cells = [
            f'<td class="name">{escape(r.name)}</td><td>{_dot(r.phase)}{escape(r.phase)}</td>',
            _number(r.calls, str(r.calls)),
            _number(r.self_time, seconds(r.self_time)),
            _number(r.self_time, f"{r.self_time / spent:.1%}" if spent else ""),
            _number(r.total, seconds(r.total)),
            _number(r.mean, seconds(r.mean)),
            _number(r.bytes, memory(r.bytes)),
            f"<td>{_at(r.line)}</td>",
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return _table(head, lines, "self") + _left_out(len(rows), _MOST_ROWS)


def _by_line(events: Sequence[Event], spent: float) -> str:
    lines_seen: dict[tuple[str, int], Line] = {}
    by_line: dict[tuple[str, int], dict[str, float]] = {}
    for r in averages([e for e in events if e.operation], by="line"):
        if r.line is not None:
            lines_seen.setdefault(r.line[:2], r.line)
            phases = by_line.setdefault(r.line[:2], {})
            phases[r.phase] = phases.get(r.phase, 0.0) + r.self_time
    ranked = sorted(by_line.items(), key=lambda item: -sum(item[1].values()))
    longest = sum(ranked[0][1].values()) if ranked else 0.0
    lines = []
    for place, phases in ranked[:_MOST_LINES]:
        line = lines_seen[place]
        own = sum(phases.values())
        bars = "".join(
            f'<i title="{escape(p)}: {seconds(t)}" style="background:{_COLOURS.get(p, _OTHER)};'
            f'width:{100 * t / (longest or 1):.2f}%"></i>'
            for p, t in phases.items()
        )
        share = f"{own / spent:.1%}" if spent else ""
        source = linecache.getline(line.file, line.number).strip()
        lines.append(
            f"<tr><td>{_at(line)}</td>{_number(own, seconds(own))}{_number(own, share)}"
            f'<td><div class="bars">{bars}</div></td><td><code>{escape(source[:120])}</code></td></tr>'
        )
    return _table(["line", "self", "share", "phases", "source"], lines, "self") + _left_out(len(ranked), _MOST_LINES)


def _at(line: Line | None) -> str:
    return f'<span title="{escape(line.file)}, {escape(line.function)}">{escape(str(line))}</span>' if line else ""


def _number(value: float, text: str) -> str:
    return f'<td class="n" data-v="{value!r}">{text.strip()}</td>'


def _table(head: Sequence[str], lines: Sequence[str], sorted_by: str) -> str:
    numbers = {"calls", "self", "share", "total", "mean", "memory"}
    cells = "".join(
        f"<th{' class=n' if h in numbers else ''}{' aria-sort=descending' if h == sorted_by else ''}>{h}</th>"
        for h in head
    )
    return f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _left_out(count: int, limit: int) -> str:
    return f'<p class="note">and {count - limit} more</p>' if count > limit else ""


# ── the timeline ─────────────────────────────────────────────────────────────────────────────────────────────────


def _timeline(events: Sequence[Event]) -> str:
    """Draw every event as a box over time, those inside it below it, a band for each thread."""
    if not events:
        return '<p class="note">nothing was seen</p>'
    longest = sorted(events, key=lambda e: -e.wall)[:_MOST_BOXES]
    kept = set(map(id, events))
    first, last = min(e.start for e in events), max(e.start + e.wall for e in events)
    scale = 1000.0 / max(1, last - first)
    depths = {id(e): sum([id(around) in kept for around in e.outer()]) for e in longest}
    boxes, top = [], 4.0
    threads = sorted({e.thread for e in events})
    for number, thread in enumerate(threads):
        mine = [e for e in longest if e.thread == thread and depths[id(e)] < _DEEPEST]
        if len(threads) > 1:
            boxes.append(f'<text x="0" y="{top + 11}">thread {number + 1}</text>')
            top += 15
        for e in mine:
            boxes.append(_box(e, (e.start - first) * scale, top + 17 * depths[id(e)], e.wall * scale))
        top += 17 * (1 + max((depths[id(e)] for e in mine), default=0)) + 6
    note = f"the {_MOST_BOXES} longest of {len(events)} events" if len(events) > _MOST_BOXES else ""
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 {top:.0f}" role="img" aria-label="timeline">'
        f"{''.join(boxes)}</svg>"
    )
    return f'<div class="wide">{svg}</div>' + (f'<p class="note">{note}</p>' if note else "")


def _box(e: Event, x: float, y: float, width: float) -> str:
    said = f"{e.phase} {e.name}: {seconds(e.total)}, self {seconds(e.self_time)}"
    if e.shapes:
        said += f"\n{e.shapes}"
    if e.line is not None:
        said += f"\n{e.line}"
    fits = int((width - 6) / 5.6)
    label = e.name if len(e.name) <= fits else ""
    text = f'<text x="{x + 3:.2f}" y="{y + 11:.1f}">{escape(label)}</text>' if label else ""
    fill = _COLOURS.get(e.phase, _OTHER)
    return (
        f'<g><title>{escape(said)}</title><rect x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.3):.2f}" height="15"'
        f' rx="1.5" fill="{fill}" stroke="#fff" stroke-width="{0.5 if width > 2 else 0}"/>{text}</g>'
    )
