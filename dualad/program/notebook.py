"""What a notebook shows of a program: the picture while it is small, and the text, folded when it is long.

Not for: files of their own.
"""

from __future__ import annotations

from html import escape

from .picture import to_svg
from .show import show

__all__ = ["to_html"]

_MOST_DRAWN, _MOST_UNFOLDED, _MOST_PRINTED = 40, 30, 1000


def to_html(program, heading: str = "") -> str:
    """Return the fragment."""
    count = len(program.steps)
    text = escape(show(program, limit=_MOST_PRINTED))
    pre = f'<pre style="overflow-x:auto;line-height:1.35;font-size:0.85em">{text}</pre>'
    said = f"<p>{escape(heading or repr(program))}</p>"
    if count > _MOST_UNFOLDED:
        pre = f"<details><summary>{count:,} equations</summary>{pre}</details>"
    drawing = f'<div style="overflow-x:auto">{to_svg(program, limit=10**6)}</div>' if count <= _MOST_DRAWN else ""
    return f'<div class="dualad-program">{said}{drawing}{pre}</div>'
