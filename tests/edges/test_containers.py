"""Arrays of other libraries: refused by name wherever their own arithmetic would be lost, and nowhere else."""

from __future__ import annotations

import array
import itertools
import os
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentTypeError, DualadError, ForeignArrayError, OutputError

from .containers import Device, Labelled, Logged, Measured, Named, Table, TakesPart

X = np.array([1.0, 2.0, 3.0])
OWN = {
    "masked": np.ma.masked_array(X, mask=[False, True, False]),
    "matrix": np.diag(X).view(np.matrix),
    "series": Labelled(X, "cba"),
    "frame": Table(np.diag(X)),
    "named": Named(X),
    "quantity": X.view(Measured),
}
INSTEAD = {
    "masked": "x.filled", "matrix": "np.asarray(M)", "series": "x.to_numpy()", "frame": "x.to_numpy()",
    "named": "x.to_numpy()", "quantity": "x.value",
}  # fmt: skip
#: array-like, not ours: no derivative and no batch axis can be asked of them
LIKE = OWN | {
    "jax": Device(X),
    "memoryview": memoryview(X),
    "array.array": array.array("d", X),
    "fraction": Fraction(1, 2),
    "decimal": Decimal("0.5"),
}
double = lambda x: 2 * x

ARGUMENTS = {
    "jvp": lambda o: da.jvp(double, (o,), (X,)),
    "jvp, no tangent": lambda o: da.jvp(double, (o,), (None,)),
    "jvp, in a tree": lambda o: da.jvp(lambda p: p["a"] * 2, ({"a": X, "b": o},), ({"a": X, "b": None},)),
    "tangent": lambda o: da.jvp(double, (X,), (o,)),
    "vjp": lambda o: da.vjp(double, o),
    "vjp, in a tree": lambda o: da.vjp(lambda p: p[0] * 2, [X, o]),
    "cotangent": lambda o: da.vjp(double, X)[1](o),
    "linearize": lambda o: da.linearize(double, o),
    "tangent of linearize": lambda o: da.linearize(double, X)[1](o),
    "grad": lambda o: da.grad(lambda x: np.sum(x * 2))(o),
    "grad, in a tree": lambda o: da.grad(lambda p: np.sum(p["a"]))({"a": X, "b": o}),
    "jacfwd": lambda o: da.jacfwd(double)(o),
    "jacrev": lambda o: da.jacrev(double)(o),
    "hessian": lambda o: da.hessian(lambda x: np.sum(x**2))(o),
    "linear_transpose": lambda o: da.linear_transpose(double, o),
    "vmap": lambda o: da.vmap(double)(o),
    "vmap, beside another": lambda o: da.vmap(lambda x, y: x)(X, o),
    "trace": lambda o: da.trace(double, o),
    "make_dual": lambda o: _made(o, X),
    "make_dual's tangent": lambda o: _made(X, o),
}


def _made(primal, tangent):
    with da.dual_level():
        return da.make_dual(primal, tangent)


@pytest.mark.parametrize("place", ARGUMENTS)
@pytest.mark.parametrize("name", LIKE)
def test_as_an_argument_it_is_refused_by_name(name, place):
    with pytest.raises(ArgumentTypeError) as caught:
        ARGUMENTS[place](LIKE[name])
    assert type(LIKE[name]).__name__ in str(caught.value)
    assert INSTEAD.get(name, "(x)") in caught.value.instead


def _assigned(x, o):
    y = np.zeros_like(x)
    y[...] = o
    return y


def _added_to(x, o):
    o = o.copy() if hasattr(o, "copy") else o
    o += x
    return o


def in_tensors_transforms(f):
    """Return thunks that run f on every kind of tensor."""
    return (
        lambda: da.jvp(f, (X,), (X,)),
        lambda: da.linearize(f, X),
        lambda: da.vmap(f)(np.stack([X, X])),
        lambda: da.trace(f, X),
    )


BESIDE = {
    "x * o": lambda x, o: x * o,
    "o * x": lambda x, o: o * x,
    "x - o": lambda x, o: x - o,
    "o + x": lambda x, o: o + x,
    "x @ o": lambda x, o: x @ o,
    "x < o": lambda x, o: x < o,
    "np.multiply(x, o)": lambda x, o: np.multiply(x, o),
    "np.multiply(o, x)": lambda x, o: np.multiply(o, x),
    "np.where": lambda x, o: np.where(np.array([True, False, True]), x, o),
    "np.concatenate": lambda x, o: np.concatenate([x, o]),
    "np.stack": lambda x, o: np.stack([o, x]),
    "np.dot": lambda x, o: np.dot(x, o),
    "np.einsum": lambda x, o: np.einsum("i,i", x, o),
    "np.array(like=)": lambda x, o: np.array([x, o], like=x),
    "y[...] = o": _assigned,
    "x[o]": lambda x, o: x[o] if not hasattr(o, "to_numpy") else x + o,  # by position, labels or not
    "o += x": _added_to,
}
# xarray leaves the arithmetic to the array it holds, so what is left is refused where it leaves the function.
HOLDS = {("named", "o * x"), ("named", "np.multiply(o, x)")}


@pytest.mark.parametrize("place", BESIDE)
@pytest.mark.parametrize("name", OWN)
def test_beside_a_tensor_it_is_refused_by_name(name, place):
    o, kind = OWN[name], OutputError if (name, place) in HOLDS else ForeignArrayError
    for run in in_tensors_transforms(lambda x: BESIDE[place](x, o)):
        if place == "o += x" and name in ("matrix", "quantity"):  # NumPy asks about the target first
            with pytest.raises(DualadError):
                run()
            continue
        with pytest.raises(kind) as caught:
            run()
        assert INSTEAD[name] in caught.value.instead
        if kind is ForeignArrayError:
            assert f"edges{os.sep}" in str(caught.value), "the line is not one of ours"


@pytest.mark.parametrize("name", OWN)
def test_as_a_result_it_is_refused_by_name(name):
    for run in in_tensors_transforms(lambda x: (x, OWN[name])):
        with pytest.raises(OutputError) as caught:
            run()
        assert INSTEAD[name] in caught.value.instead


def test_an_object_that_holds_a_tensor_can_give_it_back():
    value, slope = da.value_and_grad(lambda x: np.sum((OWN["named"] * x).data))(X)
    assert value == 14.0
    np.testing.assert_array_equal(slope, X)


def test_what_is_not_differentiated_is_the_users_own():
    frame = Table(np.diag(X))
    np.testing.assert_array_equal(da.grad(lambda x, t: np.sum(t.to_numpy() @ x))(X, frame), X)
    np.testing.assert_array_equal(da.vmap(lambda x, t: t.values[0] * x, in_axes=(0, None))(X, frame)[2], [3.0, 0, 0])


@pytest.mark.parametrize("make", [lambda: X.view(Logged), lambda: Device(X), lambda: X.view(np.recarray)])
def test_what_computes_as_numpy_does_is_a_constant(make):
    o = make()
    for f in (lambda x: np.sum(x * o), lambda x: np.sum(np.multiply(o, x)), lambda x: np.dot(x, o)):
        np.testing.assert_array_equal(da.grad(f)(X), X)
    np.testing.assert_array_equal(da.vmap(lambda x: x * o)(np.stack([X, X]))[1], X * X)


def test_a_memory_map_is_an_array(tmp_path):
    memory = np.memmap(tmp_path / "numbers", dtype=float, mode="w+", shape=3)
    memory[:] = X
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(x * memory))(X), X)
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(x**2))(memory), 2 * X)
    np.testing.assert_array_equal(da.vmap(double)(memory), 2 * X)
    np.testing.assert_array_equal(da.vjp(double, X)[1](memory)[0], 2 * X)


def test_what_asks_to_compute_itself_does():
    assert da.grad(lambda x: x * TakesPart())(X).tolist() == [2.0, 2.0, 2.0]
    assert da.grad(lambda x: TakesPart() * x)(X).tolist() == [2.0, 2.0, 2.0]


def test_jax_and_the_strict_array_api():
    jnp = pytest.importorskip("jax.numpy")
    strict = pytest.importorskip("array_api_strict")
    for o in (jnp.asarray(X, float), strict.asarray(X)):
        for place in ("jvp", "vjp", "linearize", "grad", "cotangent", "vmap"):
            with pytest.raises(ArgumentTypeError, match="Array"):
                ARGUMENTS[place](o)
        np.testing.assert_allclose(da.grad(lambda x, o=o: np.sum(x * o))(X), X)


def test_numpys_masked_functions_of_tensors():
    mask = [False, True, False]
    assert da.grad(lambda x: np.ma.masked_array(x, mask=mask).sum())(X).tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(ForeignArrayError, match="MaskedArray"):
        da.grad(lambda x: np.ma.exp(x).sum())(X)


@pytest.mark.full
def test_the_real_packages():
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    u = pytest.importorskip("astropy.units")
    real = {
        "series": pd.Series(X, index=[2, 1, 0]), "frame": pd.DataFrame(np.diag(X)), "named": xr.DataArray(X, dims="t"),
        "quantity": X * u.m, "index": pd.Index(X), "variable": xr.Variable("t", X),
    }  # fmt: skip
    computed = []
    for name, o in real.items():
        for place, call in ARGUMENTS.items():
            with pytest.raises(ArgumentTypeError):
                call(o)
            assert place
        for place, f in BESIDE.items():
            for run in in_tensors_transforms(lambda x, f=f, o=o: f(x, o)):
                try:
                    result = run()
                except (DualadError, TypeError, ValueError):
                    continue
                computed.append((name, place, result))
    # An Index neither aligns nor has a unit: NumPy's ufuncs compute with its numbers, and return an Index. Labels play
    # no part in functions that return arrays.
    allowed = {("index", "np.multiply(o, x)")}
    reads = {"np.where", "np.concatenate", "np.stack", "np.dot", "np.einsum"}
    allowed |= set(itertools.product(("series", "frame", "index"), reads))
    assert {c[:2] for c in computed} <= allowed, computed


def test_functions_that_read_arrays_of_pandas_objects_take_tensors():
    pd = pytest.importorskip("pandas")
    s, d = pd.Series(X, index=list("abc")), pd.DataFrame(np.outer(X, X) + np.eye(3), columns=list("abc"))
    reads = [
        lambda x, s, d: np.dot(x, np.dot(d, x)),
        lambda x, s, d: np.outer(s, x),
        lambda x, s, d: x.dot(s) * x,
        lambda x, s, d: np.concatenate([s, x]),
        lambda x, s, d: np.where(s > 1.5, x, s),
        lambda x, s, d: np.vstack([x, d]),
        lambda x, s, d: np.interp(x, s, s),
        lambda x, s, d: np.einsum("ij,j->i", d, x),
        lambda x, s, d: np.convolve(x, s),
    ]
    for f in reads:
        expected = da.jacfwd(lambda x, f=f: f(x, s.to_numpy(), d.to_numpy()))(X)
        assert type(f(X, s, d)) in (np.ndarray, np.float64)
        np.testing.assert_array_equal(da.jacfwd(lambda x, f=f: f(x, s, d))(X), expected)
    for refused in (lambda x: np.multiply(x, s), lambda x: x * s, lambda x: x @ d):
        with pytest.raises(ForeignArrayError, match="pandas"):
            da.jacfwd(refused)(X)


@pytest.mark.full
def test_the_page_about_pandas_runs():
    for name in ("pandas", "xarray", "astropy.units"):
        pytest.importorskip(name)
    exec(_page_about_pandas("astropy"), {})


def test_the_recipe_for_xarray_runs():
    for name in ("xarray", "dask.array"):
        pytest.importorskip(name)
    exec(_page_about_pandas("apply_ufunc"), {})


def _page_about_pandas(word):
    """Return the block of the page that has the word, and what it needs."""
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "use-pandas-and-xarray.md"
    code = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    return "import numpy as np, dualad as da\n" + next(block for block in code if word in block)
