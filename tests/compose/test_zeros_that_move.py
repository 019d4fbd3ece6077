"""Cotangents that are zero at a point and move away from it: residuals at their root, differentiated once more.

Beside a pole reverse mode treats zeros specially; a program that was written down for that must still have the
derivatives of the function, also where it is differentiated afterwards. The oracle is forward mode, nested, of the
plain function.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dualad as da


def smooth(x):
    return np.sin(x) * np.exp(x) + 0.5 * x * x


def slow(x):
    return x * np.exp(x)


def _repeated(step):
    return lambda x: step(step(x))


def _custom_jvp(x):
    f = da.custom_jvp(smooth)
    f.defjvp(lambda primals, tangents: da.jvp(smooth, primals, tangents))
    return f(x)


def _custom_vjp(x):
    f = da.custom_vjp(smooth)
    f.defvjp(lambda x: (smooth(x), x), lambda x, ct: (da.vjp(smooth, x)[1](ct)[0],))
    return f(x)


#: functions that are zero at zero, and what each computes plainly
INNER = {
    "plain": (smooth, smooth),
    "checkpoint": (da.checkpoint(smooth), smooth),
    "jit": (da.jit(smooth), smooth),
    "checkpoint in jit": (da.jit(da.checkpoint(smooth)), smooth),
    "jit in checkpoint": (da.checkpoint(da.jit(smooth)), smooth),
    "scan": (lambda x: da.scan(lambda c, _: (slow(c), None), x, None, length=2)[0], _repeated(slow)),
    "scan, rows": (
        lambda x: da.scan(lambda c, t: (slow(c), c * t), x, np.array([0.0, 2.0]))[1][1], lambda x: 2 * slow(x),
    ),
    "fori_loop": (lambda x: da.fori_loop(0, 2, lambda i, c: slow(c), x), _repeated(slow)),
    "cond": (lambda x: da.cond(np.cos(np.sum(x)) > 0, smooth, slow, x), smooth),
    "map": (lambda x: np.reshape(da.map(slow, np.reshape(x, (-1,))), np.shape(x)), slow),
    "custom_jvp": (_custom_jvp, smooth),
    "custom_vjp": (_custom_vjp, smooth),
    "product": (
        lambda x: np.dot(np.reshape(x, (1, -1)), np.reshape(np.exp(x), (-1, 1))).reshape(()), lambda x: np.sum(slow(x)),
    ),
    "divided": (lambda x: np.sin(x) / np.cos(x), np.tan),
    "beside a pole": (lambda x: np.where(x >= 0, np.sin(x), np.sqrt(np.abs(x) + 1.0) - 1.0), np.sin),
}  # fmt: skip

#: a residual r -> a function whose cotangents vanish with r, and are not written by a square alone
OUTER = {
    "square": lambda r: lambda x: np.sum(r(x) ** 2),
    "pullback of itself": lambda r: lambda x: np.sum(da.vjp(r, x)[1](r(x))[0]),
    "cube and more": lambda r: lambda x: np.sum(r(x) ** 3 + r(x) * np.sum(r(x))),
}
DERIVATIVES = {"forward": da.jacfwd, "reverse": da.jacrev}
WRITTEN = {
    "as it is": lambda f: f,
    "traced elsewhere": lambda f: da.trace(f, np.asarray(0.3)[()]),
    "jit": da.jit,
    "vmap": lambda f: lambda x: da.vmap(f)(np.stack([x, x]))[0],
}


@pytest.mark.parametrize(
    ("name", "outer"),
    [
        pytest.param(name, outer, marks=[pytest.mark.full] * ((i + j) % 2))
        for i, name in enumerate(INNER)
        for j, outer in enumerate(OUTER)
    ],
)
def test_second_derivatives_at_a_root(name: str, outer: str) -> None:
    inner, plain = INNER[name]
    f = OUTER[outer](inner)
    expected = da.jacfwd(da.jacfwd(OUTER[outer](plain)))(0.0)
    for (a, first), (w, written), (b, second) in itertools.product(
        DERIVATIVES.items(), WRITTEN.items(), DERIVATIVES.items()
    ):
        found = second(written(first(f)))(0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13, err_msg=f"{b} of {w} of {a}")


@pytest.mark.parametrize("name", ["checkpoint", "jit", "scan", "scan, rows", "cond", "jit in checkpoint", "product"])
def test_third_derivatives_at_a_root(name: str) -> None:
    inner, plain = INNER[name]
    f = OUTER["square"](inner)
    expected = da.jacfwd(da.jacfwd(da.jacfwd(OUTER["square"](plain))))(0.0)
    for (w, written), again in itertools.product(WRITTEN.items(), (da.jacfwd, da.jacrev)):
        found = again(written(da.jacfwd(da.grad(f))))(0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"{again.__name__} of {w}")
        found = again(again(written(da.grad(f))))(0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"twice {again.__name__} of {w}")


@pytest.mark.parametrize("kind", ["trace", "jit"])
def test_pullbacks_are_linear_in_cotangents_that_vanish(kind: str) -> None:
    x = np.array([0.3, 0.0, -0.2])
    pulled = lambda x, ct: da.vjp(lambda v: np.cumsum(smooth(v)), x)[1](ct)[0]
    written = da.trace(pulled, x, x) if kind == "trace" else da.jit(pulled)
    expected = da.jacfwd(lambda v: np.cumsum(smooth(v)))(x).T
    for ct in (np.zeros(3), np.array([0.0, 1.0, 0.0])):
        for derivative in (da.jacfwd, da.jacrev):
            np.testing.assert_allclose(derivative(written, argnums=1)(x, ct), expected, rtol=1e-12)


def test_curvature_of_least_squares_at_its_solution() -> None:
    """The Hessian of a loss of zero residuals is JᵀJ, however it is written down."""
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(4, 3)), rng.normal(size=3)
    data = np.tanh(A @ x)
    for layer in (lambda v: np.tanh(A @ v), da.checkpoint(lambda v: np.tanh(A @ v)), da.jit(lambda v: np.tanh(A @ v))):
        loss = lambda v, layer=layer: 0.5 * np.sum((layer(v) - data) ** 2)
        J = da.jacfwd(layer)(x)
        for hessian in (
            da.hessian(loss), da.jit(da.hessian(loss)), da.jacfwd(da.jit(da.grad(loss))),
            da.jacrev(da.jit(da.grad(loss))), da.jacfwd(da.trace(da.grad(loss), x + 1)),
            lambda v, loss=loss: da.vmap(da.jacrev(da.jit(da.grad(loss))))(v[None])[0],
        ):  # fmt: skip
            np.testing.assert_allclose(hessian(x), J.T @ J, rtol=1e-10, atol=1e-12)
