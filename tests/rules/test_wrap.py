"""Opaque functions: Jacobians given and estimated, lanes one by one or together, refusals.

Not for: custom rules (`tests/capabilities/`).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import dualad as da
from dualad.core.tracer import Tracer
from dualad.errors import (
    ArgumentTypeError,
    CapturedTensorError,
    DtypeError,
    OutputError,
    RuleMissingError,
    ShapeError,
    TreeError,
)

X = np.array([0.3, 1.2, -0.7])
XS = np.stack([X, 2 * X])


def diagonal(x):
    return np.cos(x)[..., None] * np.eye(3)


def jacobians():
    return {"given": diagonal, "fd": "fd", "complex_step": "complex_step", "wrapped": da.wrap(diagonal)}


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("kind", jacobians())
def test_first_derivatives_in_every_order(kind: str, vectorized: bool) -> None:
    def sine(x):
        assert isinstance(x, np.ndarray) and not isinstance(x, Tracer)
        return np.sin(x)

    f = da.wrap(sine, jac=jacobians()[kind], vectorized=vectorized)
    h, k = (lambda x: np.sum(f(x) ** 2)), (lambda x: np.sum(np.sin(x) ** 2))
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)
    close(da.grad(h)(X), da.grad(k)(X))
    close(da.jvp(f, (X,), (X,))[1], np.cos(X) * X)
    close(da.jacfwd(f)(X), np.diag(np.cos(X)))
    close(da.vmap(da.grad(h))(XS), da.vmap(da.grad(k))(XS))
    close(da.grad(lambda xs: np.sum(da.vmap(h)(xs)))(XS), da.grad(lambda xs: np.sum(da.vmap(k)(xs)))(XS))
    close(da.vmap(da.vmap(da.grad(h)))(np.stack([XS, XS])), da.vmap(da.vmap(da.grad(k)))(np.stack([XS, XS])))
    close(da.trace(da.grad(h), X)(2 * X), da.grad(k)(2 * X))
    if kind == "given":
        close(da.hessian(h)(X), da.hessian(k)(X))
        close(da.vmap(da.hessian(h))(XS), da.vmap(da.hessian(k))(XS))
    else:
        with pytest.raises(RuleMissingError):
            da.hessian(h)(X)


def test_calls_are_counted() -> None:
    calls = []

    def f(x):
        calls.append(np.shape(x))
        return x * 2

    da.vmap(da.wrap(f))(XS)
    assert calls == [(3,), (3,)]
    calls.clear()
    da.vmap(da.wrap(f, vectorized=True))(XS)
    assert calls == [(2, 3)]
    calls.clear()
    da.vmap(da.vmap(da.wrap(f, vectorized=True)))(np.stack([XS, XS, XS]))
    assert calls == [(6, 3)]
    calls.clear()
    assert da.vmap(da.wrap(f))(np.zeros((0, 3))).shape == (0, 3)


def test_several_arguments_results_and_integers() -> None:
    def f(a, b, n, mode="sum"):
        return {"y": (a @ b) ** n, "mode": 1}

    def jac(a, b, n, mode="sum"):
        s = n * (a @ b) ** (n - 1)
        return {"y": (s * b, s * a, None, None), "mode": (np.zeros(3), np.zeros(3), None, None)}

    for given in (jac, "fd"):
        g = da.wrap(f, jac=given)
        a, b = da.grad(lambda a, b: g(a, b, 2)["y"], (0, 1))(X, 2 * X)
        s = 2 * (X @ (2 * X))
        np.testing.assert_allclose(a, s * 2 * X, rtol=1e-6)
        np.testing.assert_allclose(b, s * X, rtol=1e-6)


def test_scalars_matrices_and_single_precision() -> None:
    gamma = da.wrap(math.gamma, jac="fd")
    assert float(da.grad(gamma)(3.0)) == pytest.approx(2 * (1.5 - 0.5772156649), rel=1e-6)
    m = np.arange(6.0).reshape(2, 3)
    square = da.wrap(lambda m: m @ m.T, jac="complex_step")
    np.testing.assert_allclose(da.jacfwd(square)(m), da.jacfwd(lambda m: m @ m.T)(m))
    single = da.wrap(lambda x: x * x, jac="fd")
    g = da.grad(lambda x: np.sum(single(x)))(X.astype(np.float32))
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, 2 * X, rtol=1e-2)
    assert da.jacfwd(da.wrap(lambda x: x * 1.0, jac="fd"))(np.zeros(0)).shape == (0, 0)


@pytest.mark.parametrize("method", ["fd", "complex_step"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 2e-3)])
def test_steps_are_of_use_at_zero_and_in_both_precisions(method: str, dtype, tolerance: float) -> None:
    x = np.array([0.0, 0.7, -2.0], dtype)
    jacobian = da.jacfwd(da.wrap(lambda x: x + x**3, jac=method))(x)
    assert jacobian.dtype == dtype
    np.testing.assert_allclose(jacobian, np.diag(1 + 3 * x**2), atol=tolerance)


def test_jacobians_of_one_moving_argument_may_stand_in_a_tuple() -> None:
    f = lambda x, n: n * np.sin(x)
    for jac in (lambda x, n: n * diagonal(x), lambda x, n: (n * diagonal(x), None)):
        np.testing.assert_allclose(da.jacfwd(da.wrap(f, jac=jac))(X, 2), 2 * diagonal(X))
    for wrong in ((1.0, 2.0), {"z": 1.0}, None):
        with pytest.raises(TreeError, match="another structure than its result"):
            da.jacfwd(da.wrap(lambda x: {"y": x}, jac=lambda x, wrong=wrong: wrong))(X)


def test_like_saves_the_call_that_finds_the_shape() -> None:
    calls = []
    f = lambda x: (calls.append(1), np.sum(x))[1]
    da.trace(da.wrap(f, like=0.0), X)
    assert not calls
    da.trace(da.wrap(f), X)
    assert len(calls) == 1


def test_refusals() -> None:
    with pytest.raises(ArgumentTypeError, match="jac='exact'"):
        da.wrap(np.sin, jac="exact")
    with pytest.raises(ArgumentTypeError):
        da.wrap(3)
    with pytest.raises(RuleMissingError, match="without a Jacobian"):
        da.grad(da.wrap(math.sin))(1.0)
    with pytest.raises(RuleMissingError, match="estimated"):
        da.grad(da.grad(da.wrap(math.sin, jac="fd")))(1.0)
    with pytest.raises(OutputError, match="complex"):
        da.grad(da.wrap(lambda x: float(np.real(x)), jac="complex_step"))(1.0)
    with pytest.raises(DtypeError, match="complex"):
        da.jacfwd(da.wrap(lambda z: z * z, jac="fd"), holomorphic=True)(1j)
    with pytest.raises(ShapeError, match="2 lanes"):
        da.vmap(da.wrap(np.sum, vectorized=True))(XS)
    with pytest.raises(TreeError, match="None"):
        da.grad(da.wrap(lambda a, b: a * b, jac=lambda a, b: (b, None)))(1.0, 2.0)
    with pytest.raises(CapturedTensorError, match="closure"):
        da.grad(lambda w: da.wrap(lambda x: x * w, jac="fd")(w * 1.0))(2.0)


def test_plain_calls_are_plain() -> None:
    f = da.wrap(lambda x, *, k=1: (type(x), k))
    assert f([1, 2], k=3) == (list, 3)
