"""Zeros of a basis beside infinite and undefined factors: compiled Jacobians, compiled functions in Jacobians, eager.

Not for: zeros that reverse mode meets (tests/compose), or values (test_jit.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da

INF, NAN = np.inf, np.nan
MATRIX = np.array([[INF, 1.0, 2.0], [0.0, 1.0, 1.0], [1.0, NAN, 1.0]])
FUNCTIONS = {
    "cumulated": lambda x: np.cumsum(np.log(x)),
    "infinite matrix": lambda x: MATRIX @ x,
    "infinite vector": lambda x: x * np.array([INF, 1.0, NAN]),
    "logarithm times itself": lambda x: x * np.log(x),
    "outer product": lambda x: np.outer(np.sqrt(x), x),
    "quotient": lambda x: x[::-1] / x,
    "reciprocal": lambda x: 1 / x,
    "sine": lambda x: np.sin(1 / x),
    "stacked": lambda x: np.stack([np.sqrt(x[0]), x[1] * x[2], x[0] * x[1]]),
    "subscripts": lambda x: np.einsum("i,ij,j->j", np.log(x), np.arange(9.0).reshape(3, 3), x),
    "tangent": lambda x: np.tan(x) * x[0],
}
POINTS = [np.array([0.0, 1.0, 4.0]), np.array([NAN, 1.0, 0.5]), np.array([INF, 1.0, -1.0]), np.array([0.0, INF, 2.0])]


def columns(f):
    return lambda x: da.vmap(lambda t: da.jvp(f, (x,), (t,))[1])(np.eye(3))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("transform", [da.jacfwd, columns, lambda f: da.jacfwd(da.jacfwd(f))])
def test_an_infinite_factor_stays_in_its_entry(name: str, transform) -> None:
    f = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        fast = da.jit(transform(f))
        for x in POINTS:
            expected = transform(f)(x)
            for found in (fast(x), fast(x), transform(da.jit(f))(x)):
                np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_row_is_not_filled() -> None:
    with np.errstate(all="ignore"):
        for found in (
            da.jit(da.jacfwd(np.tan))(POINTS[1]),
            da.jacfwd(da.jit(np.tan))(POINTS[1]),
            da.jacfwd(np.tan)(POINTS[1]),
        ):
            assert np.isnan(found[0, 0]) and np.array_equal(found[0, 1:], [0.0, 0.0])


def test_what_a_program_multiplies_stays_strong_in_loops_of_it() -> None:
    f = lambda x: da.fori_loop(0, 3, lambda i, c: c * np.sqrt(x), x)
    with np.errstate(all="ignore"):
        for x in POINTS:
            np.testing.assert_allclose(da.jit(da.jacfwd(f))(x), da.jacfwd(f)(x), rtol=1e-12)
