"""Every row of the table of capabilities has tests that exist, or a reason why there is nothing to test.

Not for: what the tests assert.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from .rows import COUNTS, NO_COUNTERPART, TESTS

HERE = Path(__file__).resolve().parents[1]

#: tests of a function whose own name is a letter and a number
NUMBERED_FUNCTIONS = {"test_i0_agrees_with_scipy_to_third_order"}


@functools.cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((HERE / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_row_is_accounted_for_once() -> None:
    rows = {f"{group}{i}" for group, count in COUNTS.items() for i in range(1, count + 1)}
    tested = {row for table in TESTS.values() for row in table}
    assert not tested & set(NO_COUNTERPART)
    assert tested | set(NO_COUNTERPART) == rows, rows ^ (tested | set(NO_COUNTERPART))
    assert all(len(reason) > 20 for reason in NO_COUNTERPART.values())


@pytest.mark.parametrize("file", TESTS)
def test_the_tests_exist(file: str) -> None:
    named = {f"test_{name}" for names in TESTS[file].values() for name in names.split()}
    assert named and named <= names_in(file), named - names_in(file)


def test_no_test_is_named_after_a_row() -> None:
    """A name says what its test shows; the table alone says which row that is."""
    numbered = {
        f"{path.relative_to(HERE)}::{name}"
        for path in HERE.rglob("test_*.py")
        for name in names_in(path.relative_to(HERE).as_posix())
        if re.match(r"test_[a-z]\d+_", name, re.IGNORECASE) and name not in NUMBERED_FUNCTIONS
    }
    assert not numbered, f"say what they show, and add them to capabilities/rows.py: {numbered}"
