"""Linear maps as SciPy's operators. Not for: SciPy's solvers."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da

scipy_linalg = pytest.importorskip("scipy.sparse.linalg")
X = np.array([0.5, 1.5, -1.0])


def test_shape_products_and_adjoint() -> None:
    tree = {"w": X, "k": 2.0, "n": 3, "name": "static"}
    f = lambda p: (np.sin(p["w"]) * p["k"], np.sum(p["w"]) ** p["n"], 5)
    _, lin = da.linearize(f, tree)
    operator = lin.as_linear_operator()
    assert isinstance(operator, scipy_linalg.LinearOperator)
    assert operator.shape == (4, 4) and operator.dtype == float
    flat = lambda k_w: np.concatenate([np.sin(k_w[1:]) * k_w[0], [np.sum(k_w[1:]) ** 3]])
    expected = da.jacfwd(flat)(np.array([2.0, *X]))
    np.testing.assert_allclose(operator @ np.eye(4), expected)
    np.testing.assert_allclose(operator.T @ np.eye(4), expected.T)
    np.testing.assert_allclose(operator.matvec(np.ones(4)), expected @ np.ones(4))
    np.testing.assert_allclose(operator.rmatvec(np.arange(4.0)), expected.T @ np.arange(4.0))


def test_complex_adjoint_is_conjugated() -> None:
    z = np.array([1 + 2j, 3j])
    operator = da.linearize(lambda z: z**2 * z[::-1], z)[1].as_linear_operator()
    matrix = operator @ np.eye(2)
    np.testing.assert_allclose(operator.H @ np.eye(2), matrix.conj().T)
    np.testing.assert_allclose(operator.T @ np.eye(2), matrix.T)
    np.testing.assert_allclose(matrix, da.jacfwd(lambda z: z**2 * z[::-1], holomorphic=True)(z))


def test_hessian_operator() -> None:
    f = lambda x, k: np.sum(np.cosh(x)) * k + x[0] * x[1]
    runs = []
    operator = da.hessian_operator(lambda x, k: (runs.append(1), f(x, k))[1], X, 2.0)
    whole = da.hessian(f)(X, 2.0)
    np.testing.assert_allclose(operator @ np.eye(3), whole)
    np.testing.assert_allclose(scipy_linalg.cg(operator, whole @ X, rtol=1e-12)[0], X, rtol=1e-8)
    assert scipy_linalg.eigsh(operator, k=1)[0] == pytest.approx(np.linalg.eigvalsh(whole)[-1])
    assert len(runs) == 1
