"""Sparse derivatives by products in internal variables, as compiled code finds them.

Oracles are sums over elements written out by hand, and matrices of SciPy's. Not for: other ways to values
(`test_prepared.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as ss

import dualad as da
from dualad.sparse import prepared

from .test_prepared import random_program

RNG = np.random.default_rng(0)
N, LINES = 90, 150
A, B, K = (RNG.integers(0, N, LINES) for _ in range(3))
W = RNG.uniform(0.5, 1.5, LINES)
X = RNG.uniform(0.5, 1.5, N)


def energy(x):
    """A sum of w sin(x[i] − x[j]) x[k]² over lines, and of squares."""
    return np.sum(W * np.sin(x[A] - x[B]) * x[K] ** 2) + 3.0 * np.sum(x**2)


def curvature(x, weights):
    """Its Hessian, line by line."""
    H = 6.0 * np.eye(N)
    for i, j, k, w in zip(A, B, K, weights, strict=True):
        d, v = x[i] - x[j], x[k]
        outer = np.zeros((2, N))
        outer[0, i] += 1.0
        outer[0, j] -= 1.0
        outer[1, k] += 1.0
        small = w * np.array([[-np.sin(d) * v**2, 2 * v * np.cos(d)], [2 * v * np.cos(d), 2 * np.sin(d)]])
        H += outer.T @ small @ outer
    return H


def is_internal(derivative):
    """Whether the entries were found so."""
    return "in internal variables" in derivative.explain()


def test_a_hessian_is_the_sum_over_lines() -> None:
    H = da.sparse_hessian(energy)
    for x in (X, X[::-1].copy()):
        np.testing.assert_allclose(da.jit(H)(x).toarray(), curvature(x, W), rtol=1e-12, atol=1e-13)
    assert is_internal(H)
    assert "2 products" in H.explain()  # in d and v, where lines that share an entry of x take many more


@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_the_entries_of_a_triangle(triangle: str) -> None:
    H = da.sparse_hessian(energy, triangle=triangle)
    data = da.jit(H.data)(X)
    rows, columns = H.structure()
    np.testing.assert_allclose(data, curvature(X, W)[rows, columns], rtol=1e-12, atol=1e-13)
    assert is_internal(H)


def test_a_jacobian_between_matrices_of_constants() -> None:
    S, G, C = (ss.random_array(shape, density=0.05, rng=RNG, format="csr") for shape in ((60, 200), (200, N), (60, N)))
    jac = da.sparse_jacobian(lambda x: 2.0 * (S @ np.sin(G @ x)) - C @ x)
    wanted = 2.0 * (S @ ss.diags_array(np.cos(G @ X)) @ G) - C
    np.testing.assert_allclose(da.jit(jac)(X).toarray(), wanted.toarray(), rtol=1e-12, atol=1e-14)
    assert is_internal(jac)


def test_other_constants_are_another_plan() -> None:
    weights = W.copy()
    H = da.sparse_hessian(lambda x: np.sum(np.sin((x[A] - x[B]) * weights) * x[K] ** 2))
    fast = da.jit(H)
    fast(X)
    assert is_internal(H)
    weights[:] = 2.0
    found = fast(X).toarray()
    plain = da.hessian(lambda x: np.sum(np.sin((x[A] - x[B]) * 2.0) * x[K] ** 2))(X)
    np.testing.assert_allclose(found, plain, rtol=1e-12, atol=1e-13)


def test_a_value_that_is_none_stays_in_its_entries() -> None:
    x = X.copy()
    x[K[0]] = np.nan
    found = da.jit(da.sparse_hessian(energy))(x).toarray()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(da.sparse_hessian(energy)(x).toarray()))


def test_derivatives_and_lanes_of_entries() -> None:
    data = da.jit(da.sparse_hessian(energy, triangle="lower").data)
    plain = da.sparse_hessian(energy, triangle="lower").data
    t = np.cos(np.arange(N))
    step = 1e-6
    slope = (plain(X + step * t) - plain(X - step * t)) / (2 * step)
    np.testing.assert_allclose(da.jvp(data, (X,), (t,))[1], slope, rtol=1e-6, atol=1e-7)
    lanes = da.vmap(data)(np.stack([X, X + 0.1]))
    np.testing.assert_allclose(lanes, np.stack([plain(X), plain(X + 0.1)]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("first", [1000, 1003])
def test_random_programs_whatever_it_costs(first: int, monkeypatch: pytest.MonkeyPatch, request) -> None:
    monkeypatch.setattr(prepared, "_SURE", np.inf)
    monkeypatch.setattr(prepared, "_STRAIGHT", 0)
    plans = []
    for seed in range(first, first + (250 if request.config.getoption("--full") else 3)):
        f, x = random_program(seed)
        jac, hes = da.sparse_jacobian(f), da.sparse_hessian(lambda v, f=f: np.sum(np.sin(f(v))))
        np.testing.assert_allclose(da.jit(jac)(x).toarray(), da.jacfwd(f)(x), rtol=1e-10, atol=1e-12)
        dense = da.hessian(lambda v, f=f: np.sum(np.sin(f(v))))(x)
        np.testing.assert_allclose(da.jit(hes)(x).toarray(), dense, rtol=1e-10, atol=1e-10)
        plans += [is_internal(jac), is_internal(hes)]
    assert any(plans)
