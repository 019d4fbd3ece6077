"""Creation from tensors, like= a tensor, and ranges between traced ends."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import DualadError
from tests.oracles.arrays import close
from tests.oracles.calls import check_call

X = np.random.default_rng(3).normal(size=(2, 3))
V = X[0]
A, B = np.float64(1.25), np.float64(3.5)
Z = np.complex128(1 + 2j)

CALLS = {
    "zeros_like": (lambda x: x + np.zeros_like(x), X),
    "ones_like": (lambda x: x * np.ones_like(x), X),
    "full_like": (lambda x: x * np.full_like(x, x[0, 0]), X),
    "full_like rows": (lambda x: np.full_like(x, x[1]), X),
    "full_like cast": (lambda x: np.full_like(x, x[0, 0], dtype=np.complex128, shape=(2,)), X),
    "full like": (lambda x: np.full((2, 2), x[0, 0], like=x), X),
    "array like": (lambda x: np.array([x[0], 2 * x[1], V], like=x), X),
    "asarray like": (lambda x: np.asarray(x, like=x), X),
    "array ndmin": (lambda x: np.array(x, ndmin=3, like=x), X),
    "linspace": (lambda a, b: np.linspace(a, b, 7), A, B),
    "linspace open": (lambda a, b: np.linspace(a, b, 4, endpoint=False), A, B),
    "linspace from a constant": (lambda b: np.linspace(0, b, 5), B),
    "linspace step": (lambda a, b: np.linspace(a, b, 5, retstep=True), A, B),
    "linspace arrays": (lambda a, b: np.linspace(a, b, 4, axis=-1), X, V),
    "linspace one": (lambda a, b: np.linspace(a, b, 1), A, B),
    "linspace none": (lambda a, b: np.linspace(a, b, 0), A, B),
    "linspace complex": (lambda a, b: np.linspace(a, b, 3), Z, B),
    "logspace": (lambda a, b: np.logspace(a, b, 4), A, B),
    "logspace base": (lambda a, b, c: np.logspace(a, b, 4, base=c), A, B, np.float64(2.0)),
    "geomspace": (lambda a, b: np.geomspace(a, b, 5), A, B),
    "geomspace negative": (lambda a, b: np.geomspace(-a, -b, 4, endpoint=False), A, B),
    "geomspace complex": (lambda a, b: np.geomspace(a, b, 4), Z, Z * 1.5j),
    "vander": (np.vander, V),
    "vander increasing": (lambda x: np.vander(x, 5, increasing=True), V),
    "vander one": (lambda x: np.vander(x, 1) * x[0], V),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    check_call(name, *CALLS[name])


@pytest.mark.plain
def test_a_traced_value_does_not_fill_a_plain_array():
    """NumPy looks for tensors in the prototype only, so there is nothing to be done; but it is loud."""
    with pytest.raises(DualadError):
        da.jvp(lambda c: np.full_like(V, c), (1.0,), (1.0,))
    with pytest.raises(DualadError):
        da.vmap(lambda c: np.full_like(V, c))(V)


CONSTANTS = {
    "zeros": lambda x: np.zeros(4, like=x),
    "empty": lambda x: np.empty((2, 0), like=x),
    "ones": lambda x: np.ones((2, 2), like=x),
    "full": lambda x: np.full(3, 2.5, like=x),
    "eye": lambda x: np.eye(3, like=x),
    "identity": lambda x: np.identity(2, like=x),
    "arange": lambda x: np.arange(3.0, like=x),
    "tri": lambda x: np.tri(3, k=1, like=x),
    "asarray": lambda x: np.asarray([1.0, 2.0], like=x),
    "array": lambda x: np.array([[1.0, 2.0]], ndmin=3, like=x),
    "ascontiguousarray": lambda x: np.ascontiguousarray([1.0, 2.0], like=x),
    "zeros_like": np.zeros_like,
    "ones_like of another dtype": lambda x: np.ones_like(x, dtype=np.float32),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_tensors_with_zero_tangents(name):
    f = CONSTANTS[name]
    seen = []

    def g(x):
        out = f(x)
        seen.append(out)
        return out

    value, tangent = da.jvp(g, (X,), (X,))
    close(value, f(X), name)
    assert isinstance(seen[0], da.Dual)
    assert tangent.dtype == value.dtype
    assert not tangent.any()
    batched = da.vmap(f)(np.stack([X, X + 1]))
    close(batched, np.stack([f(X), f(X)]), f"vmap {name}")
    close(da.trace(f, X)(X), f(X), f"trace {name}")


def test_integers_like_a_tensor_are_integers():
    value, tangent = da.jvp(lambda x: np.arange(3, like=x), (X,), (X,))
    assert value.dtype == np.arange(3).dtype
    assert tangent.dtype == da.float0


def test_float32_stays():
    a, b = np.float32(1), np.float32(2)
    assert da.jvp(lambda a, b: np.linspace(a, b, 3), (a, b), (a, b))[1].dtype == np.float32


def test_linspace_of_integers():
    value, _ = da.jvp(lambda b: np.linspace(0, b, 5, dtype=int), (7.9,), (1.0,))
    close(value, np.linspace(0, 7.9, 5, dtype=int), "linspace")


def test_zeros_like_is_zero_in_linear_functions():
    (ct,) = da.linear_transpose(lambda x: x + np.zeros_like(x), V)(V)
    np.testing.assert_array_equal(ct, V)


def test_derivatives_of_derivatives():
    f = lambda b: np.sum(np.geomspace(1.0, b, 4) ** 2)
    b = 1.7
    exact = sum((2 * k / 3) * (2 * k / 3 - 1) * b ** (2 * k / 3 - 2) for k in range(4))
    np.testing.assert_allclose(da.grad(da.grad(f))(b), exact, rtol=1e-12)


def test_a_created_array_without_axes_is_an_array():
    """NumPy's creation functions give 0-d arrays, which can be written to; all other 0-d results are scalars."""

    def f(x):
        b = np.zeros_like(x)
        same, view = b, b[None]
        b += x * 2
        b[...] = b * x
        b[b > 0] *= 3
        view[0] = view[0] * x
        scalar = x * 1
        column = scalar[None]
        column[0] = 5.0
        return np.stack([b, same, scalar, x])

    points = np.array([2.0, -3.0])
    np.testing.assert_allclose(da.vmap(f)(points), [f(x) for x in points])
    np.testing.assert_allclose(da.jvp(f, (2.0,), (1.0,)), [[48.0, 48.0, 2.0, 2.0], [72.0, 72.0, 1.0, 1.0]])
    np.testing.assert_allclose(da.jacrev(f)(2.0), [72.0, 72.0, 1.0, 1.0])
    with pytest.raises(TypeError, match="does not support item assignment"):
        da.vmap(lambda x: (x * 1).__setitem__(..., 2.0))(points)
