"""Values beside Jacobians, the choice between forward and reverse, and chunks.

Not for: the Jacobians themselves (`test_jacobian.py`).
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, DtypeError, OutputError

X = np.linspace(0.2, 1.4, 4)


def f(x):
    return np.outer(np.sin(x), x)[:2] * x[0]


def counted(g):
    def run(*args, **kwargs):
        run.count += 1
        return g(*args, **kwargs)

    run.count = 0
    return run


@pytest.mark.parametrize(("both", "alone"), [(da.value_and_jacfwd, da.jacfwd), (da.value_and_jacrev, da.jacrev)])
def test_value_beside_jacobian(both, alone) -> None:
    g = counted(f)
    value, blocks = both(g)(X)
    assert g.count == 1
    np.testing.assert_array_equal(value, f(X))
    np.testing.assert_array_equal(blocks, alone(f)(X))
    aux_too = lambda x, *, k: (k * x**2, {"sum": np.sum(x), "name": "n"})
    (value, aux), blocks = both(aux_too, has_aux=True)(X, k=2.0)
    assert type(aux["sum"]) is np.float64 and aux["name"] == "n"
    np.testing.assert_allclose(blocks, np.diag(4 * X))
    np.testing.assert_allclose(both(lambda *, k: k * X, argnames="k")(k=3.0)[1], X)
    assert both(lambda x: x * x)(3.0) == (9.0, 6.0)


@pytest.mark.parametrize("g", [da.checkpoint(np.sin), da.vmap(lambda x: np.sin(x))])
def test_the_value_has_no_batch_axis_of_the_columns(g) -> None:
    value, blocks = da.value_and_jacfwd(g)(X)
    np.testing.assert_array_equal(value, np.sin(X))
    np.testing.assert_allclose(blocks, np.diag(np.cos(X)))


def test_jacobian_chooses_and_says_why() -> None:
    tall, wide = (lambda x: np.outer(x, x)), (lambda x: np.sum(x**2))
    for g in (tall, wide, f, lambda p: {"a": p * 2, "b": np.sum(p)}):
        run = counted(g)
        found, expected = da.jacobian(run)(X), da.jacrev(g)(X)
        assert run.count == 1
        if isinstance(expected, dict):
            assert found.keys() == expected.keys()
            found, expected = found["a"], expected["a"]
        np.testing.assert_allclose(found, expected)
    assert da.jacobian(tall).explain(X) == "forward: 4 columns are no more than 16 rows"
    assert da.jacobian(wide).explain(X) == "reverse: 1 row is fewer than 4 columns"
    assert da.jacobian(wide, mode="forward").explain(X) == "forward: as asked"
    assert "complex" in da.jacobian(lambda z: np.real(z)).explain(1j)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(da.jacobian(f, mode=mode)(X), da.jacfwd(f)(X))
        np.testing.assert_allclose(da.jacobian(f, mode=mode, chunk_size=3)(X), da.jacfwd(f)(X))
        z = np.array([1 + 2j, 3j])
        np.testing.assert_allclose(da.jacobian(lambda z: z**2, mode=mode, holomorphic=True)(z), np.diag(2 * z))
    jac, aux = da.jacobian(lambda x, k: (k * x, k), has_aux=True)(X, 2)
    assert aux == 2
    np.testing.assert_array_equal(jac, 2 * np.eye(4))
    np.testing.assert_allclose(da.vmap(da.jacobian(f))(np.stack([X, X]))[1], da.jacfwd(f)(X))
    assert da.jacobian(f).__name__ == "jacobian(f)"


def test_jacobian_refuses() -> None:
    with pytest.raises(ArgumentError, match="mode='sideways'"):
        da.jacobian(f, mode="sideways")
    with pytest.raises(DtypeError):
        da.jacobian(f)(np.arange(4))
    for mode in ("forward", "reverse"):
        with pytest.raises(OutputError, match="int"):
            da.jacobian(lambda x: x.astype(int), mode=mode)(X)
    with pytest.raises(DtypeError, match="complex"):
        da.jacobian(lambda z: np.real(z), mode="forward")(1j)


@pytest.mark.parametrize("transform", [da.jacfwd, da.jacrev, da.jacobian, da.value_and_jacfwd, da.value_and_jacrev])
@pytest.mark.parametrize("options", [{"chunk_size": 1}, {"chunk_size": 3}, {"chunk_size": 100}, {"max_memory": 3000}])
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_chunks_change_nothing(transform, options: dict) -> None:
    tree = {"w": X, "s": "static", "k": 2.0}
    g = lambda p: (np.sin(p["w"]) * p["k"], np.sum(p["w"]) * p["k"] ** 2)
    whole, parts = transform(g)(tree), transform(g, **options)(tree)
    a, b = da.tree.flatten(whole), da.tree.flatten(parts)
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("f", [np.sin, np.sort, np.cumsum, lambda x: np.maximum(x / x, 0.0), np.var])
def test_jacobians_of_compiled_functions_in_arguments_without_entries(f) -> None:
    for shape in ((0,), (2, 0)):
        x = np.zeros(shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # np.var of nothing
            found, expected = da.value_and_jacfwd(da.jit(f))(x), da.value_and_jacfwd(f)(x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.shape == b.shape
        g = da.jit(lambda x: np.sum(f(x) * 2.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert da.hessian(g)(x).shape == shape * 2
