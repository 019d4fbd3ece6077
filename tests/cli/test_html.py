"""The HTML report: one file, everything escaped, pictures inline or a notice."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from dualad.cli import plots
from dualad.cli.html import to_html
from dualad.testing import CheckReport, Mismatch, Outcome, Row

REPORT = CheckReport(
    "file.py:<script>",
    "point 1",
    (
        Row(
            "jvp",
            "ok",
            (Outcome("differences", "ok", 3e-12), Outcome("jax", "unavailable", reason="a <b> c")),
            seconds=0.5,
        ),
        Row("vjp", "mismatch", (Outcome("dot", "mismatch", 0.25, mismatch=Mismatch("x[0]", 2.5, 2.0, 1e-7, 1)),)),
        Row("hvp", "error", message="TypeError: <no>"),
    ),
    2,
    2,
    np.array([[1.0, 0.0], [-1e-9, 1e9]]),
)


class _Balance(HTMLParser):
    """Tags that are opened and not closed."""

    VOID = {"meta", "img", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.trouble = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID and (not self.open or self.open.pop() != tag):
            self.trouble.append(tag)


def balanced(page):
    parser = _Balance()
    parser.feed(re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))
    return not parser.open and not parser.trouble


@pytest.mark.slow
def test_the_page_holds_everything_and_loads_nothing():
    pytest.importorskip("matplotlib")
    page = to_html([REPORT], summary="1 function", settings={"rtol": 1e-7})
    assert balanced(page)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "data:image/png;base64," in page and "<svg" in page
    assert not re.search(r'(src|href)="(?!data:|#)', re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))
    for text in ("2.5 instead of 2", "a &lt;b&gt; c", "TypeError: &lt;no&gt;", "500.00 ms", "rtol = 1e-07"):
        assert text in page, text


def test_without_matplotlib_it_says_so_and_draws_with_characters(monkeypatch):
    monkeypatch.setattr(plots, "has_matplotlib", lambda: False)
    page = to_html([REPORT], summary="1 function", settings={})
    assert balanced(page)
    assert "pip install 'dualad[viz]'" in page and "┌" in page
    assert "data:image" not in page and "<svg" not in page
