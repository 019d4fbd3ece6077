"""The HTML report: one file, everything escaped, pictures inline."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from dualad.cli.html import jacobian_svg, to_html
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

    VOID = {"meta", "br", "input"}

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
    parser.feed(re.sub(r"<(svg|script).*?</\1>", "", page, flags=re.DOTALL))
    return not parser.open and not parser.trouble


def test_the_page_holds_everything_and_loads_nothing():
    page = to_html([REPORT], summary="1 function", settings={"rtol": 1e-7})
    assert balanced(page)
    assert page.count("<script>") == 1 and "file.py:&lt;script&gt;" in page
    assert page.count("<svg") == 1 and page.count('class="plus"') == 2 and page.count('class="minus"') == 1
    assert not re.search(r'(src|href)="(?!#)|url\(|@import', page)
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page
    assert re.findall(r'data-kind="(\w+)" data-quantity="(\w+)"', page) == [
        ("ok", "jvp"), ("failed", "vjp"), ("failed", "hvp")
    ]  # fmt: skip
    assert 'href="#r0"' in page and 'id="r0"' in page
    assert 'title="file.py:&lt;script&gt; at point 1: differences 3.0e-12"' in page
    for text in ("2.5 instead of 2", "a &lt;b&gt; c", "TypeError: &lt;no&gt;", "500.00 ms", "rtol = 1e-07"):
        assert text in page, text


@pytest.mark.parametrize(
    "matrix",
    [np.zeros((2, 2)), np.array([[np.nan, 1.0, -np.inf]]), np.array([[1e-300, 1e300]]), np.ones((1, 1))],
    ids=["zero", "nan", "wide", "one"],
)
def test_any_jacobian_becomes_a_picture(matrix):
    svg = jacobian_svg(matrix, "a < b")
    assert svg.count("<rect") == 1 + np.count_nonzero(matrix) and 'aria-label="a &lt; b"' in svg
    assert svg.count('class="nan"') == np.sum(~np.isfinite(matrix))


def test_a_large_jacobian_keeps_its_largest_entries():
    matrix = np.zeros((500, 3))
    matrix[123, 1], matrix[124, 1] = 1e-9, -2.0
    svg = jacobian_svg(matrix, "")
    assert svg.count('class="minus"') == 1 and len(svg) < 1000
