"""Banded systems, and functions of real matrices whose values are complex: against SciPy, differences and loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as sl

import dualad as da
import dualad.scipy.linalg as ours
from tests.oracles.calls import check_call

RNG = np.random.default_rng(3)
BANDS = RNG.normal(size=(4, 6)) + 6.0 * (np.arange(4) == 2)[:, None]
RIGHT = RNG.normal(size=(6, 2))
HALF = RNG.normal(size=(3, 6)) + 8.0 * (np.arange(3) == 2)[:, None]

CALLS = {
    "solve_banded": (lambda ab, b: ours.solve_banded((1, 2), ab, b), BANDS, RIGHT),
    "of a vector": (lambda ab, b: ours.solve_banded((1, 2), ab, b), BANDS, RIGHT[:, 0]),
    "one diagonal": (lambda ab, b: ours.solve_banded((0, 0), ab, b), BANDS[2:3], RIGHT),
    "more diagonals than rows": (lambda ab, b: ours.solve_banded((1, 2), ab, b), BANDS[:, :2], RIGHT[:2]),
    "solveh_banded, upper": (lambda ab, b: ours.solveh_banded(ab, b), HALF, RIGHT),
    "solveh_banded, lower": (lambda ab, b: ours.solveh_banded(ab, b, lower=True), HALF[::-1], RIGHT[:, 0]),
    "solveh_banded, complex": (lambda ab, b: ours.solveh_banded(ab + 0.3j * (ab < 4), b), HALF, RIGHT),
}


@pytest.mark.parametrize("name", CALLS)
def test_banded(name: str) -> None:
    f, *args = CALLS[name]
    check_call(name, f, *args)


def dense(ab, lower: int, upper: int):
    """Return the matrix itself."""
    n = ab.shape[1]
    out = np.zeros((n, n), ab.dtype)
    for i in range(n):
        for j in range(max(0, i - lower), min(n, i + upper + 1)):
            out[i, j] = ab[upper + i - j, j]
    return out


def test_third_derivatives_and_unused_corners() -> None:
    t = RNG.normal(size=BANDS.shape)

    def along(h):
        return ours.solve_banded((1, 2), BANDS + h * t, RIGHT[:, 0])

    a, ta = dense(BANDS, 1, 2), dense(t, 1, 2)

    def along_dense(h):
        return np.linalg.solve(a + h * ta, RIGHT[:, 0])

    for _ in range(4):
        assert np.allclose(along(0.0), along_dense(0.0), rtol=1e-9)
        along, along_dense = (lambda h, f=f: da.jvp(f, (h,), (1.0,))[1] for f in (along, along_dense))
    gradient = da.grad(lambda ab: np.sum(ours.solve_banded((1, 2), ab, RIGHT)))(BANDS)
    assert not gradient[0, :2].any()
    assert not gradient[3, -1:].any()
    assert gradient[1, 1:].all()


ROTATION = np.array([[0.0, -1.0], [1.0, 0.2]])
INDEFINITE = np.array([[2.0, 1.0, 0.0], [0.5, 3.0, 1.0], [0.0, 0.2, -1.0]])


@pytest.mark.parametrize("function", [ours.sqrtm, ours.logm])
@pytest.mark.parametrize("a", [ROTATION, INDEFINITE])
def test_a_real_matrix_may_have_a_complex_root_and_logarithm(function, a) -> None:
    t = np.cos(np.arange(a.size)).reshape(a.shape)
    value, tangent = da.jvp(function, (a,), (t,))
    plain = getattr(sl, function.__name__)
    assert value.dtype == tangent.dtype == plain(a).dtype
    assert np.allclose(value, plain(a), atol=1e-12)
    h = 1e-5
    assert np.allclose(tangent, (plain(a + h * t) - plain(a - h * t)) / (2 * h), atol=1e-7)
    stack = np.stack([a, a @ a.T])  # the lanes of a batch share a dtype
    lanes = da.vmap(function)(stack)
    assert np.allclose(lanes, [plain(x) for x in stack], atol=1e-12)
    gradient = da.grad(lambda a: np.sum(np.real(function(a)) ** 2))(a)
    assert gradient.dtype == a.dtype
    f = lambda a: np.sum(np.real(plain(a)) ** 2)
    assert np.isclose(np.sum(gradient * t), (f(a + h * t) - f(a - h * t)) / (2 * h), rtol=1e-6)
