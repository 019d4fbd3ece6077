"""A profile as text. Not for: files (``chrome.py``)."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.terminal import aligned
from .averages import Average

__all__ = ["memory", "seconds", "table"]


def seconds(t: float) -> str:
    """Return a time with its unit: ``12.3 µs``."""
    for unit, factor in (("s ", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if t * factor >= 1:
            return f"{t * factor:.{2 if t * factor < 10 else 1}f} {unit}"
    return f"{t * 1e6:.2f} µs"


def memory(n: int) -> str:
    """Return a number of bytes with its unit: ``1.5 KiB``."""
    size = float(n)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def table(rows: Sequence[Average], *, limit: int, elapsed: float, dropped: int) -> str:
    """Lay out the operations, then the transforms and ranges."""
    parts = []
    whole = sum(row.self_time for row in rows)
    for title, some in (
        ("operation", [r for r in rows if r.phase not in ("transform", "range")]),
        ("transform or range", [r for r in rows if r.phase in ("transform", "range")]),
    ):
        if some:
            parts.append(_lines(title, some[:limit], whole))
            if len(some) > limit:
                parts.append(f"... and {len(some) - limit} more rows (limit={len(some)} shows them)")
    said = f"{seconds(whole).strip()} in what was seen, {seconds(elapsed).strip()} in the block with the profiler's own"
    parts.append(said if rows else f"nothing was seen in {seconds(elapsed).strip()}: no transform ran")
    if dropped:
        parts.append(f"{dropped} more events were dropped: profile(limit=...) keeps them")
    return "\n".join(parts)


def _lines(title: str, rows: Sequence[Average], whole: float) -> str:
    shapes, threads = any(r.shapes is not None for r in rows), any(r.thread is not None for r in rows)
    head = [title, "phase", "calls", "self", "", "total", "mean", "memory"]
    head += ["shapes"] * shapes + ["thread"] * threads + ["line"]
    body = []
    for r in rows:
        share = f"{r.self_time / whole:.1%}" if whole else ""
        cells = [r.name, r.phase, str(r.calls), seconds(r.self_time), share, seconds(r.total), seconds(r.mean)]
        cells.append(memory(r.bytes))
        cells += [r.shapes or ""] * shapes + [str(r.thread)] * threads
        cells.append(str(r.line or ""))
        body.append(cells)
    first, *lines = aligned([head, *body], right=range(2, 8))
    return "\n".join([first, "-" * max(map(len, (first, *lines))), *lines])
