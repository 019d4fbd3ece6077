"""The Markdown summary and GitHub's annotations: nothing of the user's is read as markup."""

from __future__ import annotations

import functools

from dualad.cli.markdown import to_annotations, to_markdown
from dualad.testing import CheckReport, Mismatch, Outcome, Row

BAD = Outcome("jax", "mismatch", 0.25, mismatch=Mismatch("x[0]", 2.5, 2.0, 1e-7, 1))
WRONG = CheckReport(
    "a_b.py:f*", "point 1 ('a|b')", (Row("jvp", "mismatch", (BAD,), seconds=0.5), Row("hvp", "skipped", message="-"))
)
RIGHT = CheckReport("a_b.py:g", "point 1", (Row("jvp", "ok"),))


def test_summary():
    text = to_markdown([WRONG, RIGHT], summary="2 functions")
    assert text.startswith("## ❌ dualad check\n\n2 functions.\n")
    assert "- a\\_b.py:f\\* at point 1" in text and "x\\[0\\] is 2.5, jax has 2 " in text
    assert "| `a_b.py:f*` | point 1 ('a\\|b') | ❌ wrong | ➖ | 500 ms |" in text
    assert "| `a_b.py:g` | point 1 | ✅ |  | 0 ms |" in text
    assert to_markdown([RIGHT], summary="").startswith("## ✅") and "<details>" not in text
    assert "<details>" in to_markdown([RIGHT] * 21, summary="")


def test_annotations_name_the_line_and_hold_newlines():
    @functools.wraps(test_summary)
    def function():
        pass

    raised = CheckReport("h", "p", (Row("jvp", "error", message="two\nlines: 100%"),))
    first, second = to_annotations([WRONG, RIGHT, raised], {"a_b.py:f*": function}).splitlines()
    line = test_summary.__code__.co_firstlineno
    assert first.startswith("::error file=") and f"test_markdown.py,line={line},title=dualad check::a_b.py:f*" in first
    assert second == "::error title=dualad check::h at p: jvp: two%0Alines: 100%25"
