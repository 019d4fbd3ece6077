"""Jacobians at answers are factorized once: by tangents, cotangents, second derivatives and every pull."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.control import factored_solve
from dualad.ops import sparse_product
from dualad.scipy import optimize

N = 40
MATRIX = np.random.default_rng(0).normal(size=(N, N)) / 8 + 3 * np.eye(N)
SOURCE = np.linspace(0.5, 1.5, N)


def answer(source):
    """Return the root of a system whose Jacobian depends on the answer."""
    residual = lambda x: MATRIX @ x + 0.1 * x**3 - source
    return optimize.root(residual, np.ones(len(source)), jac="dualad", tol=1e-13).x


def lowest(source):
    """Return where a function with a full Hessian is least."""
    cost = lambda x: 0.5 * x @ (MATRIX + MATRIX.T) @ x + 0.1 * np.sum(x**4) - x @ source
    return optimize.minimize(cost, np.zeros(N), jac="dualad", hess="dualad", method="trust-exact", tol=1e-11).x


def own(source):
    """Return a root found by a solver of one's own."""

    def newton(f, x):
        for _ in range(12):
            x = x - np.linalg.solve(da.jacfwd(f)(x), f(x))
        return x

    return da.custom_root(lambda x: MATRIX @ x + 0.1 * x**3 - source, np.ones(N), newton)


@pytest.fixture
def made(monkeypatch) -> list:
    """The matrices that are factorized."""
    seen: list = []
    right = factored_solve.LU.__init__

    def counted(self, J, rows=True):
        seen.append(J)
        right(self, J, rows)

    monkeypatch.setattr(factored_solve.LU, "__init__", counted)
    return seen


WAYS = {
    "jvp": lambda f: da.jvp(f, (SOURCE,), (np.ones(N),)),
    "jacfwd": lambda f: da.jacfwd(f)(SOURCE),
    "jacrev": lambda f: da.jacrev(f)(SOURCE),
    "jvp of jvp": lambda f: da.jvp(lambda s: da.jvp(f, (s,), (np.ones(N),))[1], (SOURCE,), (SOURCE,)),
    "hessian": lambda f: da.hessian(lambda s: np.sum(f(s) ** 2))(SOURCE),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [answer, lowest, own])
def test_once_for_an_answer(f, way: str, made: list) -> None:
    WAYS[way](f)
    assert len(made) == 1


def test_every_pull_takes_the_same_factors(made: list) -> None:
    pull = da.vjp(answer, SOURCE)[1]
    by_rows = np.stack([pull(e)[0] for e in np.eye(N)])
    assert len(made) == 1
    np.testing.assert_allclose(by_rows, np.linalg.inv(MATRIX + np.diag(0.3 * answer(SOURCE) ** 2)), atol=1e-12)


def test_sparse_factors_are_made_once(monkeypatch) -> None:
    seen: list = []
    right = sparse_product.splu
    monkeypatch.setattr(sparse_product, "splu", lambda A: seen.append(A) or right(A))

    def f(source):
        residual = lambda u: 4.0 * u - np.roll(u, 1) - np.roll(u, -1) + u**3 - source
        return optimize.newton_krylov(residual, np.ones(600), f_tol=1e-11)

    source = np.full(600, 3.0)
    value, pull = da.vjp(f, source)
    for _ in range(3):
        pull(value)
    assert len(seen) == 1
    da.jvp(lambda s: da.jvp(f, (s,), (value,))[1], (source,), (value,))  # another answer
    assert len(seen) == 2


def test_lanes_have_factors_of_their_own(made: list) -> None:
    da.vmap(da.jacrev(answer))(np.stack([SOURCE, SOURCE + 0.1, SOURCE + 0.2]))
    assert len(made) == 3


def test_matrices_of_any_scale() -> None:
    """Equations and unknowns in units that differ by many orders of magnitude, both ways, complex too."""
    rng = np.random.default_rng(1)
    for J in (rng.normal(size=(5, 5)), rng.normal(size=(5, 5)) + 1j * rng.normal(size=(5, 5))):
        b = rng.normal(size=(5, 2))
        rows, columns = 10.0 ** np.arange(-6, 9, 3), 10.0 ** np.arange(100, -100, -40)
        lu = factored_solve.LU(rows[:, None] * J * columns)
        np.testing.assert_allclose(columns[:, None] * lu.solve(rows[:, None] * b), np.linalg.solve(J, b), rtol=1e-12)
        back = lu.solve(columns[:, None] * b, transposed=True)
        np.testing.assert_allclose(rows[:, None] * back, np.linalg.solve(J.T, b), rtol=1e-12)
        assert 1 <= lu.condition < 1e3
    singular = factored_solve.LU(np.ones((2, 2)))
    assert singular.condition == np.inf
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        singular.solve(np.ones(2))
    assert factored_solve.LU(np.array([[1.0, np.nan], [0.0, 1.0]])).condition == np.inf


def test_without_scipy_it_is_numpys(monkeypatch) -> None:
    expected = da.jacrev(own)(SOURCE)
    monkeypatch.setattr(factored_solve, "_lapack", lambda: None)
    np.testing.assert_allclose(da.jacrev(own)(SOURCE), expected, rtol=1e-11)


def test_what_is_kept_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(factored_solve, "_KEPT", 3 * 8 * N * N)
    factors = factored_solve.Factors()
    for k in range(1, 9):
        factors.of(k * MATRIX)
        assert len(factors._kept) <= 3
