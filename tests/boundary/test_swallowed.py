"""What is said of a refusal that a function catches: the refusal, its line, and what to write there.

Not for: which refusals are told at all (tests/edges/test_swallowed_refusals.py).
"""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import dualad as da
from dualad.boundary.swallowed import RefusalSwallowedWarning

pytestmark = pytest.mark.plain

X = np.array([1.0, 2.0])


def last_of_several(x):
    try:
        y = np.sum(x)
        y = y * 2.0
        np.asarray(x, float)  # refused here
    except TypeError:
        return y


def inner_of_two(x):
    y = 0.0 * np.sum(x)
    try:
        try:
            np.asarray(x, float)  # refused here
        except TypeError:
            y = y + np.sum(x)
        y = y + 1.0
        y = y * 2.0
    except (TypeError, ValueError):
        return 0.0
    return y


def outer_of_two(x):
    try:
        try:
            np.asarray(x, float)  # refused here
        except KeyError:
            return 0.0
    except (ValueError, TypeError):
        return np.sum(x)


@pytest.mark.parametrize("f", [last_of_several, inner_of_two, outer_of_two])
def test_the_line_is_named(f) -> None:
    with pytest.warns(RefusalSwallowedWarning) as seen:
        da.grad(f)(X)
    lines = str(seen[0].message).splitlines()
    assert "Refused: a Dual tensor" in lines[1]
    assert "shape (2,) was converted to a plain array of dtype float64" in lines[1]
    assert "# refused here" in lines[2]
    assert "Instead: create the buffer from a traced array" in lines[3]


def test_code_that_python_cannot_read_again() -> None:
    """A notebook's cell may have lines that are no Python."""
    text = "def f(x):\n    try:\n        np.asarray(x, float)\n    except TypeError:\n        return 2.0 * np.sum(x)\n"
    names = {"np": np}
    exec(compile(text, "<cell 1>", "exec"), names)
    linecache.cache["<cell 1>"] = (1, None, ["%magic words\n", *text.splitlines(keepends=True)[1:]], "<cell 1>")
    with pytest.warns(RefusalSwallowedWarning, match="went on after a refusal"):
        assert da.grad(names["f"])(X).tolist() == [2.0, 2.0]
