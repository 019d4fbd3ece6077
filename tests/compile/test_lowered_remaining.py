"""The equations that are left to NumPy, with their reasons, as ``explain`` reports them."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile.native.engine import why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason="llvmlite is not installed")


def report(f, *args) -> list[str]:
    text = da.jit(f).explain(*args)
    return text.partition("left to NumPy and Python:\n")[2].splitlines()


def test_the_equation_of_a_body_that_keeps_a_loop_from_being_machine_code() -> None:
    def f(c, xs):
        def step(c, x):
            c = np.tanh(c * x)
            return np.partition(c, 2) * 0.5, np.sum(c)

        return da.scan(step, c, xs)[0]

    (line,) = report(f, np.arange(5.0), np.ones((3, 5)))
    assert line.startswith("      partition of f64[5], in a scan") and "test_lowered_remaining.py:" in line
    assert "no machine code for the operator" in line and "outside of the loop" in line


def test_dtypes_sizes_and_callbacks() -> None:
    (line,) = report(lambda x: da.scan(lambda c, r: (c * r, None), x, np.ones((3, 4)))[0], np.ones(4) * 1j)
    assert "dtype complex128; use float64" in line and "in a scan" in line
    checked = da.checkpoint(lambda c: np.sin(c) * 2, policy=da.checkpoint_policies.dots_saveable)
    (line, *_) = report(lambda x: da.scan(lambda c, r: (checked(c) * r, None), x, np.ones((3, 4)))[0], np.ones(4))
    assert "checkpoint_call" in line and "it runs Python code" in line


def test_nothing_is_left_of_a_loop_that_is_machine_code() -> None:
    f = lambda x: da.scan(lambda c, r: (np.tanh(c * r), np.sum(c)), x, np.ones((3, 4)))
    assert report(f, np.ones(4)) == [] and report(f, np.ones(4)[:, None] + np.ones(2000)[:4]) == []
