"""Every error code has a page, the index lists it, and the page's example raises that very error.

That a page's blocks run as they stand is tested with all other pages (`test_docs.py`).
"""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from dualad.cli.help import page_of
from dualad.errors import DualadError, catalogue

from .test_docs import python_blocks

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference" / "errors"
CLASSES = catalogue()


def test_the_pages_are_those_of_the_codes() -> None:
    assert sorted(page.stem for page in FOLDER.glob("DAD*.md")) == [cls.code for cls in CLASSES]
    index = (FOLDER / "index.md").read_text()
    for cls in CLASSES:
        assert f"| [{cls.code}]({cls.code}.md) | `{cls.__name__}` | {cls.title} |" in index
        assert f"\n{cls.code}\n" in index.partition("{toctree}")[2]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.code)
def test_the_page_says_what_and_its_example_raises_it(cls, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = FOLDER / f"{cls.code}.md"
    text = page.read_text()
    assert text.startswith(f"# {cls.code} · {cls.__name__}: {cls.title}\n")
    assert page_of(cls.code) == text
    assert "\n## What to write instead\n" in text
    raised = []
    namespace: dict = {"__name__": "page"}
    for example in doctest.DocTestParser().get_examples(python_blocks(page)[0].code):
        try:
            exec(compile(example.source, str(page), "single"), namespace)
        except DualadError as error:
            raised.append(error)
            assert example.exc_msg is not None, f"{example.source} raises, and the page does not say so"
            assert example.exc_msg.startswith(f"dualad.errors.{cls.__name__}: [{cls.code}]")
    assert [type(error) for error in raised] == [cls]
    if cls is not DualadError:
        assert raised[0].why or raised[0].instead
