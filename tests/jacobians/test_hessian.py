"""Second derivatives with their values; the Hessian's diagonal and trace.

Not for: first derivatives (`test_jacobian.py`, `test_jacobian_values.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, DtypeError

X = np.linspace(0.2, 1.4, 5)


def f(x):
    return np.sum(np.sin(x) * x[::-1] ** 2)


def counted(g):
    def run(*args, **kwargs):
        run.count += 1
        return g(*args, **kwargs)

    run.count = 0
    return run


def test_value_and_hessian_runs_once() -> None:
    g = counted(f)
    value, second = da.value_and_hessian(g)(X)
    assert g.count == 1
    assert type(value) is np.float64 and value == f(X)
    np.testing.assert_array_equal(second, da.hessian(f)(X))
    np.testing.assert_allclose(second, da.jacrev(da.jacrev(f))(X), rtol=1e-12, atol=1e-14)


def test_value_and_hvp() -> None:
    g = counted(lambda x, k, *, power: np.sum(k * x**power))
    v = np.arange(5.0)
    value, product = da.value_and_hvp(g, X, v, 2.0, power=3)
    assert g.count == 1
    np.testing.assert_allclose([value, *product], [np.sum(2 * X**3), *(12 * X * v)])
    np.testing.assert_allclose(da.hvp(f, X, v), da.hessian(f)(X) @ v)


def test_aux_of_every_hessian_holds_no_tensor() -> None:
    def with_aux(x):
        return f(x), {"cubed": x**3, "text": "as it is"}

    def check(aux):
        assert type(aux["cubed"]) is np.ndarray and aux["text"] == "as it is"
        np.testing.assert_array_equal(aux["cubed"], X**3)

    (value, aux), blocks = da.value_and_hessian(with_aux, has_aux=True)(X)
    check(aux)
    assert value == f(X)
    np.testing.assert_array_equal(blocks, da.hessian(f)(X))
    for result in (
        da.hessian(with_aux, has_aux=True)(X), da.hessian_diag(with_aux, has_aux=True)(X),
        da.laplacian(with_aux, has_aux=True)(X), da.hvp(with_aux, X, X, has_aux=True),
        da.value_and_hvp(with_aux, X, X, has_aux=True)[0],
    ):  # fmt: skip
        check(result[1])


def test_arguments_by_number_and_name() -> None:
    g = lambda a, b, *, c: np.sum(a**2 * b) * c**3
    a, b = X, X[::-1].copy()
    np.testing.assert_allclose(da.hessian_diag(g)(a, b, c=2.0), 2 * b * 8)
    first, second = da.hessian_diag(g, (0, 1))(a, b, c=2.0)
    np.testing.assert_allclose(first, 16 * b)
    np.testing.assert_array_equal(second, np.zeros(5))
    np.testing.assert_allclose(da.hessian_diag(g, argnames="c")(a, b, c=2.0), np.sum(a**2 * b) * 12)
    np.testing.assert_allclose(da.laplacian(g, (0, 1))(a, b, c=2.0), np.sum(16 * b))
    _, blocks = da.value_and_hessian(g, (0, 1))(a, b, c=2.0)
    np.testing.assert_allclose(blocks[0][1], np.diag(16 * a))


@pytest.mark.parametrize("options", [{}, {"chunk_size": 2}, {"chunk_size": 99}, {"max_memory": 1000}])
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_diagonal_and_trace(options: dict) -> None:
    whole = da.hessian(f)(X)
    g = counted(f)
    np.testing.assert_allclose(da.hessian_diag(g, **options)(X), whole.diagonal(), rtol=1e-12)
    assert g.count == 1
    np.testing.assert_allclose(da.laplacian(f, **options)(X), whole.trace(), rtol=1e-12)


def test_diagonal_of_trees_scalars_and_under_transforms() -> None:
    tree = {"a": np.float32(2.0), "b": (X, "static")}
    g = lambda p: p["a"] ** 3 * np.sum(p["b"][0] ** 2)
    out = da.hessian_diag(g)(tree)
    assert out["a"].dtype == np.float32 and out["b"][1] == "static"
    np.testing.assert_allclose(out["b"][0], np.full(5, 16.0))
    np.testing.assert_allclose(
        da.vmap(da.laplacian(f))(np.stack([X, 2 * X])), [da.laplacian(f)(X), da.laplacian(f)(2 * X)]
    )
    np.testing.assert_allclose(da.grad(da.laplacian(lambda x: np.sum(x**4)))(X), 24 * X)
    with pytest.raises(DtypeError):
        da.laplacian(lambda x: x * x)(3)
    with pytest.raises(DtypeError, match="complex"):
        da.hessian_diag(lambda z: np.real(z * z))(1j)
    with pytest.raises(ArgumentError):
        da.laplacian(f, chunk_size=0)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (da.laplacian, 30.0),
        (lambda f: da.laplacian(f, method="hessian"), 30.0),
        (da.biharmonic, 12.0),
        (da.hessian_diag, [3.0, 27.0]),
        (da.hessian, [[3.0, 0.0], [0.0, 27.0]]),
        (da.jacfwd, [1.0, 27.0]),
        (da.jacrev, [1.0, 27.0]),
    ],
)
def test_object_arrays_of_floats_are_arrays_of_floats(transform, expected) -> None:
    found = transform(lambda x: np.sum(x**4) / 4)(np.array([1.0, 3.0], object))
    assert found.dtype == float
    np.testing.assert_allclose(found, expected, rtol=1e-13)
