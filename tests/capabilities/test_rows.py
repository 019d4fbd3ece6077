"""Every row of the table of capabilities has tests that exist, or a reason why there is nothing to test.

Not for: what the tests assert.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from .rows import COUNTS, NO_COUNTERPART, TESTS

HERE = Path(__file__).resolve().parents[1]


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


def test_a_test_named_after_a_row_is_in_its_line() -> None:
    """The table is not older than the tests: ``test_e1_…`` stands in row E1 (or in another it also asserts)."""
    strays = []
    for path in HERE.rglob("test_*.py"):
        file = path.relative_to(HERE).as_posix()
        for name in names_in(file):
            group, _, rest = name.removeprefix("test_").partition("_")
            row = group.upper()
            if rest and row[:1] in COUNTS and row[1:].isdigit() and 0 < int(row[1:]) <= COUNTS[row[0]]:
                table = TESTS.get(file, {})
                if not any(name.removeprefix("test_") in names.split() for names in table.values()):
                    strays.append(f"{row}: {file}::{name}")
    assert not strays, f"add them to capabilities/rows.py: {strays}"
