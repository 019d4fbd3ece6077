"""Writing a function down for ``jit``: what NumPy's functions that do not dispatch make of a whole traced array.

Not for: signatures and what is read besides the arguments (test_jit.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da

CONVERSIONS = {
    "array": lambda x: np.array(x),
    "array in another order": lambda x: np.array(x, order="F"),
    "asanyarray": lambda x: np.asanyarray(x),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x),
    "asarray": lambda x: np.asarray(x, order="F"),
    "asarray of another dtype": lambda x: np.asarray(x, np.complex128),
    "asfortranarray": lambda x: np.asfortranarray(x.T),
    "require": lambda x: np.require(x, requirements=["C", "W"]),
}


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_stays_whole(name: str, order: str) -> None:
    convert = CONVERSIONS[name]
    f = lambda x: np.sum(np.abs(convert(x) @ convert(x)) * 2)
    x = np.asarray(np.random.default_rng(0).random((32, 32)), order=order)
    fast = da.jit(f)
    for _ in range(2):
        assert fast(x) == pytest.approx(f(x), rel=1e-12)
    assert len(fast.program(x).steps) <= 10
    slope = da.jit(da.grad(f))
    np.testing.assert_allclose(
        slope(x), da.grad(lambda x: np.sum(np.abs((y := x.T if "fortran" in name else x) @ y) * 2))(x)
    )
    np.testing.assert_allclose(da.jit(da.vmap(f))(np.stack([x, x])), [f(x)] * 2)


def test_what_it_is_to_write_into_a_converted_array() -> None:
    def f(x):
        y = np.ascontiguousarray(x)  # the array itself, if it lies in this order
        y[0] = 5.0
        return y * 1.0

    for x in (np.ones((3, 2)), np.ones((2, 3)).T):
        plain, given = x.copy("K"), x.copy("K")
        assert np.array_equal(da.jit(f)(given), f(plain)) and np.array_equal(given, plain)


def test_names_are_put_back_and_errors_are_the_functions() -> None:
    def f(x):
        y = np.asarray(x)
        assert y.shape == (4,)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        da.jit(f)(np.ones(4))
    assert np.asarray is vars(np)["asarray"]
