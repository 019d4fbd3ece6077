"""The walk back: equations that no cotangent reaches, second walks at poles of numbers, poles behind opaque calls.

Not for: the law that reverse mode returns forward mode's numbers (tests/compose/test_reverse_equals_forward.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da

X = np.array([1.0, 2.0])

LATER = {
    "one result": lambda x: 3.0 * np.sin(x),
    "several results": lambda x: sum(da.linear_call(lambda r, v: (v, 3.0 * v), None, None, np.sin(x))),
    "several entries": lambda x: sum(list(np.sin(x))),
}


@pytest.mark.parametrize("name", LATER)
def test_an_equation_that_nothing_reaches_does_not_end_the_walk(name: str) -> None:
    _, pull = da.vjp(lambda x: (2.0 * x, LATER[name](x)), X)
    np.testing.assert_array_equal(pull((X, None))[0], 2.0 * X)
    _, pull = da.vjp(lambda x: (LATER[name](x), 2.0 * x), X)
    np.testing.assert_array_equal(pull((None, X))[0], 2.0 * X)
    _, both = da.vjp(lambda x, y: (2.0 * x * y, LATER[name](y)), X, X)
    np.testing.assert_array_equal(both((X, None)), (2.0 * X * X, 2.0 * X * X))


POLES = {
    "a norm": lambda x: np.sqrt(x * x),
    "a selection": lambda x: np.where(x > 0, np.sqrt(x), 0.0) * x,
    "a power of a root": lambda x: np.sqrt(x) ** 2,
    "a root": lambda x: np.sqrt(x),
    "a difference": lambda x: np.sqrt(x) - np.sqrt(2.0 * x),
}


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", POLES)
def test_numbers_at_a_pole_as_arrays_there(name: str) -> None:
    f = POLES[name]
    expected = da.jvp(f, (0.0,), (1.0,))[1]
    for found in (
        da.grad(f)(0.0),
        da.grad(lambda x: np.sum(f(x)))(np.zeros(3))[1],
        da.vmap(da.grad(f))(np.zeros(2))[1],
        da.trace(da.grad(f), 1.0)(0.0),
        da.jvp(da.grad(lambda x: f(x[0]) * x[1], 0), (np.array([0.0, 1.0]),), (np.zeros(2),))[0][0],
    ):
        np.testing.assert_array_equal(found, expected)


def identity_with_a_rule():
    f = da.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (f(x), None), lambda known, ct: (ct,))
    return f


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(
    "call",
    [identity_with_a_rule(), lambda x: da.linear_call(lambda r, v: v * 1.0, lambda r, c: c * 1.0, None, x)],
    ids=["custom_vjp", "linear_call"],
)
def test_a_difference_of_poles_before_a_call_that_is_not_looked_into(call) -> None:
    f = lambda x: np.sum(np.sqrt(call(x)) - np.sqrt(call(x) * 1.0))
    assert np.isnan(da.grad(f)(np.zeros(2))).all()
    assert np.isnan(da.jvp(f, (np.zeros(2),), (np.ones(2),))[1])
