"""Two thousand random systems: every compiled method, in lanes, against closed forms and against SciPy.

Not for: the steps that methods take (`test_integrate_native.py`, `test_integrate_implicit.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate as si
import scipy.linalg as sl

import dualad as da
from dualad.scipy.integrate import solve_ivp

pytest.importorskip("llvmlite", reason="the loop is machine code where llvmlite is installed")

METHODS = ["RK23", "RK45", "DOP853", "Tsit5", "Vern7", "Radau", "BDF", "Rodas5P"]
#: systems of a method: 2,000 of all, half of them linear
COUNT = 125
TIGHT = {"rtol": 1e-8, "atol": 1e-9}
#: of a method's own tolerance 1e-8, what its error at the end may be: BDF's steps are controlled one by one
CLOSE = {"BDF": 2e-5, "RK23": 2e-6}
EACH = [m if m in ("DOP853", "Rodas5P") else pytest.param(m, marks=pytest.mark.full) for m in METHODS]


@pytest.mark.parametrize("method", EACH)
def test_linear_systems(method: str) -> None:
    rng = np.random.default_rng(METHODS.index(method))
    matrices, directions = rng.normal(size=(2, COUNT, 3, 3))
    starts = rng.normal(size=(COUNT, 3))
    end = lambda a, y0: solve_ivp(lambda t, y, a: a @ y, (0.0, 1.0), y0, method, args=(a,), **TIGHT).y[:, -1]
    y, slope = da.jit(da.vmap(lambda a, b, y0: da.jvp(lambda a: end(a, y0), (a,), (b,))))(matrices, directions, starts)
    for k in range(COUNT):
        power, change = sl.expm_frechet(matrices[k], directions[k])
        close = CLOSE.get(method, 1e-6) * np.linalg.norm(power)
        np.testing.assert_allclose(y[k], power @ starts[k], atol=close)
        np.testing.assert_allclose(slope[k], change @ starts[k], atol=3 * close + 3 * CLOSE.get(method, 1e-6))


@pytest.mark.parametrize("method", EACH)
def test_quadratic_systems(method: str) -> None:
    """All systems with their tangents are one system of SciPy's, whose derivative is written by hand."""
    rng = np.random.default_rng(100 + METHODS.index(method))
    forms, directions = 0.3 * rng.normal(size=(2, COUNT, 2, 2, 2))
    starts = rng.uniform(-1, 1, (COUNT, 2))
    f = lambda t, y, b: np.einsum("ijk,j,k->i", b, y, y) - y * np.cos(t)
    end = lambda b, y0: solve_ivp(f, (0.0, 1.5), y0, method, args=(b,), **TIGHT).y[:, -1]
    y, slope = da.jit(da.vmap(lambda b, d, y0: da.jvp(lambda b: end(b, y0), (b,), (d,))))(forms, directions, starts)

    def together(t: float, z: np.ndarray) -> np.ndarray:
        y, s = z.reshape(2, COUNT, 2)
        product = lambda b, u, v: np.einsum("lijk,lj,lk->li", b, u, v)
        tangent = product(directions, y, y) + product(forms, s, y) + product(forms, y, s) - s * np.cos(t)
        return np.stack([product(forms, y, y) - y * np.cos(t), tangent]).reshape(-1)

    start = np.stack([starts, np.zeros_like(starts)]).reshape(-1)
    exact = si.solve_ivp(together, (0.0, 1.5), start, "DOP853", rtol=1e-11, atol=1e-12).y[:, -1].reshape(2, COUNT, 2)
    close = CLOSE.get(method, 1e-6)
    np.testing.assert_allclose(y, exact[0], rtol=close, atol=close)
    np.testing.assert_allclose(slope, exact[1], rtol=3 * close, atol=3 * close)
