"""debug(nan=True) and debug(branches=True): what they find, and that they say where."""

import numpy as np
import pytest

import dualad as da
from dualad.errors import NonFiniteError


def test_only_the_tangent_is_non_finite():
    with np.errstate(all="ignore"), da.debug(nan=True), pytest.raises(NonFiniteError) as caught:
        da.jvp(lambda x: np.sum(np.sqrt(x)), (np.array([1.0, 0.0]),), (np.ones(2),))
    text = str(caught.value)
    assert "tangent of `sqrt`" in text
    assert "first at (1,)" in text
    assert "test_debug.py" in text
    assert "[0, 1]" in text


def test_the_value_is_non_finite_under_nesting_and_batches():
    for run in (da.grad(np.log), da.grad(da.grad(np.log)), da.vmap(da.grad(np.log))):
        x = np.array([1.0, -1.0]) if run.__name__.startswith("vmap") else -1.0
        with np.errstate(all="ignore"), da.debug(nan=True), pytest.raises(NonFiniteError, match="value of `log`"):
            run(x)


def test_finite_code_passes_and_nothing_is_watched_outside():
    with da.debug(nan=True, branches=True) as report:
        assert da.grad(lambda x: x * x)(3.0) == 6.0
    assert report.branches == []
    with np.errstate(all="ignore"):
        assert np.isinf(da.grad(np.sqrt)(0.0))


def test_branches_on_coincidences_are_reported_with_their_line():
    def product(x):
        total = 1.0
        for i in range(3):
            if x[i] == 0:  # an early exit that loses the derivative
                return 0.0 * x[0]
            total = total * x[i]
        return total

    with da.debug(branches=True) as report:
        da.grad(product)(np.array([2.0, 0.0, 3.0]))
    (branch,) = report.branches
    assert branch.op == "equal"
    assert branch.entries == 1
    assert "test_debug.py" in branch.line
    assert "equal" in str(branch)


def test_branches_that_do_not_coincide_or_do_not_move_are_not_reported():
    with da.debug(branches=True) as report:
        da.grad(lambda x: x if x == 1.5 else 2 * x)(1.0)
        da.grad(lambda x: x if np.array(0.0) == 0 else 2 * x)(1.0)
        da.grad(lambda x: x if da.stop_gradient(x) == 1 else 2 * x)(1.0)
    assert report.branches == []
