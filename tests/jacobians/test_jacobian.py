"""Whole Jacobians and Hessians: structure, dtypes, numbers, and what has none.

Not for: the products they are made of (`test_jvp.py`, `test_vjp_via_transpose.py`).
"""

from __future__ import annotations

import warnings

import numpy as np
import optree
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualad as da
from dualad.core.aval import Aval
from dualad.errors import ArgumentError, DtypeError, OutputError
from dualad.jacobians.call import standard_basis
from tests import gaps
from tests.compose.zoo import ZOO
from tests.oracles.arrays import close, leaves
from tests.oracles.jax_side import jax
from tests.strategies import shapes

REAL = [n for n in ZOO if n != "interference"]


def real_arguments(name: str) -> tuple:
    return ZOO[name].make(np.random.default_rng(7))


# ── both ways, against a loop and against JAX ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", REAL)
def test_jacfwd_equals_jacrev(name: str) -> None:
    """Also in chunks; no warnings."""
    args = real_arguments(name)
    f = lambda *a: ZOO[name].function(np, *a)
    numbers = tuple(range(len(args)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        forward, reverse = da.jacfwd(f, numbers)(*args), da.jacrev(f, numbers)(*args)
    assert not said
    close(leaves(forward), leaves(reverse), name, rtol=1e-10)
    close(leaves(da.jacfwd(f, numbers, chunk_size=2)(*args)), leaves(forward), "chunks of columns", rtol=1e-13)
    close(leaves(da.jacrev(f, numbers, chunk_size=1)(*args)), leaves(reverse), "chunks of rows", rtol=1e-13)


@pytest.mark.parametrize("name", ["softmax", "gaussian", "network", "scanned", "distances", "recurrent"])
def test_jacfwd_equals_jax_in_structure_and_numbers(name: str) -> None:
    """Structure and numbers."""
    args = real_arguments(name)
    numbers = tuple(range(len(args)))
    got = da.jacfwd(lambda *a: ZOO[name].function(np, *a), numbers)(*args)
    expected = jax.jit(jax.jacfwd(lambda *a: ZOO[name].function(jax.numpy, *a), numbers))(*args)
    assert optree.tree_structure(got) == optree.tree_structure(jax.tree.map(np.asarray, expected))
    close(optree.tree_leaves(got), [np.asarray(v) for v in optree.tree_leaves(expected)], name, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300, -1e300])
@pytest.mark.parametrize(
    "f", [lambda x: x * x, np.arctan, np.tanh, lambda x: np.logaddexp(x, 0.0), lambda x: 1 / (1 + np.exp(-np.abs(x)))],
    ids=["square", "arctan", "tanh", "logaddexp", "logistic"],
)  # fmt: skip
def test_jacfwd_equals_jacrev_where_values_overflow(f, scale: float) -> None:
    """Jacfwd equals jacrev where values overflow and underflow, inf and zero in the same places."""
    x = np.array([scale, 2 * scale, -scale])
    with np.errstate(all="ignore"):
        close(da.jacfwd(f)(x), da.jacrev(f)(x), "extreme", rtol=1e-12)


def test_mixed_inputs_and_outputs_equal_a_python_loop() -> None:
    """Several inputs and outputs, unrelated outputs, zero-dimensional ones."""

    def f(a, b, c):
        return np.outer(a, a) * c, np.sin(b).sum(), np.ones(2), c

    args = (np.array([0.3, 0.5]), np.ones((2, 2)), 1.5)
    got = da.jacfwd(f, (0, 1, 2))(*args)
    assert [[np.shape(v) for v in row] for row in got] == [
        [(2, 2, 2), (2, 2, 2, 2), (2, 2)], [(2,), (2, 2), ()], [(2, 2), (2, 2, 2), (2,)], [(2,), (2, 2), ()],
    ]  # fmt: skip
    for i in range(3):
        flat = np.ravel(args[i])
        for k in range(flat.size):
            e = np.zeros(flat.size)
            e[k] = 1.0
            tangents = [None] * 3
            tangents[i] = e.reshape(np.shape(args[i]))[()]
            column = da.jvp(f, args, tangents)[1]
            for o in range(4):
                np.testing.assert_allclose(
                    np.reshape(got[o][i], (*np.shape(column[o]), -1))[..., k], column[o], atol=1e-15
                )
    close(leaves(da.jacrev(f, (0, 1, 2))(*args)), leaves(got), "jacrev")


def test_forward_mode_has_the_dtype_of_the_output_and_reverse_that_of_the_input() -> None:
    """Forward mode has the output's dtype, reverse mode the input's."""
    f = lambda x: x.astype(np.float64) * 2
    x = np.ones(2, np.float32)
    assert da.jacfwd(f)(x).dtype == np.float64 and da.jacrev(f)(x).dtype == np.float32
    g = lambda x: x.astype(np.float32) * 2
    assert da.jacfwd(g)(np.ones(2)).dtype == np.float32 and da.jacrev(g)(np.ones(2)).dtype == np.float64


# ── Hessians ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hvp_equals_the_product_with_the_hessian() -> None:
    """H·v by hvp equals the Hessian's; vᵀ·H is the same by symmetry."""
    f = lambda x, k=1.0: np.sum(np.sin(x) * x[::-1] ** 2) * k
    x, v = np.array([0.3, 0.9, -0.4]), np.array([1.0, -2.0, 0.5])
    H = da.hessian(f)(x)
    np.testing.assert_allclose(H, H.T, rtol=1e-12)
    np.testing.assert_allclose(da.hvp(f, x, v), H @ v, rtol=1e-12)
    np.testing.assert_allclose(da.vjp(da.grad(f), x)[1](v)[0], v @ H, rtol=1e-12)
    np.testing.assert_allclose(da.hvp(f, x, v, k=3.0), 3 * H @ v, rtol=1e-12)
    tree = {"a": x, "b": (2.0,)}
    got = da.hvp(lambda p: np.sum(p["a"] ** 3) * p["b"][0], tree, {"a": v, "b": (1.0,)})
    np.testing.assert_allclose(got["a"], 6 * x * v * 2.0 + 3 * x**2, rtol=1e-12)
    assert got["b"][0] == pytest.approx(np.sum(3 * x**2 * v))


def test_jacobians_nest_the_tree_of_inputs_in_that_of_outputs() -> None:
    """Out-tree outside, in-tree inside, leaf shape out + in; the Hessian of two inputs is a 2×2 nest."""
    f = lambda p, y: {"u": p["a"] * y, "v": (np.sum(p["b"]),)}
    got = da.jacfwd(f, (0, 1))({"a": np.ones(2), "b": np.ones((2, 3))}, 2.0)
    assert set(got) == {"u", "v"} and isinstance(got["v"], tuple) and isinstance(got["u"], tuple)
    assert got["u"][0]["a"].shape == (2, 2) and got["u"][0]["b"].shape == (2, 2, 3) and got["u"][1].shape == (2,)
    assert got["v"][0][0]["a"].shape == (2,) and np.shape(got["v"][0][1]) == ()
    H = da.hessian(lambda x, y: np.sum(x) ** 2 * y, (0, 1))(np.ones(2), 3.0)
    assert [[np.shape(b) for b in row] for row in H] == [[(2, 2), (2,)], [(2,), ()]]
    assert np.array_equal(H[0][0], np.full((2, 2), 6.0)) and np.array_equal(H[0][1], [4.0, 4.0]) and H[1][1] == 0.0
    assert da.hessian(lambda x: x**3)(2.0) == 12.0


def test_names_aux_and_positions() -> None:
    f = lambda a, b, *, c: (a * b * c, {"a": a})
    J, aux = da.jacfwd(f, (0, -1), "c", has_aux=True)(2.0, np.array([1.0, 3.0]), c=5.0)
    assert J[0][0].tolist() == [5.0, 15.0] and J[1].tolist() == [2.0, 6.0] and aux == {"a": 2.0}
    J, aux = da.jacrev(f, argnames="c", has_aux=True)(2.0, np.array([1.0, 3.0]), c=5.0)
    assert J.tolist() == [2.0, 6.0]
    H, aux = da.hessian(lambda a: (a**3, a), has_aux=True)(2.0)
    assert H == 12.0 and aux == 2.0


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2"])
def test_bad_chunks(bad) -> None:
    for transform in (da.jacfwd, da.jacrev, da.hessian):
        with pytest.raises(ArgumentError, match="chunk_size"):
            transform(lambda x: x, chunk_size=bad)(1.0)


def test_integers_and_complex_numbers_have_no_jacobian() -> None:
    """Integer or complex outputs and inputs. What is no scalar has the Hessian of every entry."""
    for transform in (da.jacfwd, da.jacrev):
        with pytest.raises(OutputError, match="int"):
            transform(np.argmax)(np.ones(2))
    with pytest.raises(OutputError, match="complex"):
        da.jacrev(lambda x: x * 1j)(1.0)
    with pytest.raises(DtypeError, match="complex"):
        da.jacfwd(np.sin)(1j)
    for f in (lambda x: x, lambda x: (x.sum(), x.sum()), lambda x: x.sum().reshape(1, 1, 1)):
        for second in (
            da.hessian(lambda x, f=f: f(x * x))(np.ones(2)),
            da.jacfwd(da.jacrev(lambda x, f=f: f(x * x)))(np.ones(2)),
        ):
            assert np.shape(second) == (*np.shape(f(np.ones(2))), 2, 2) and np.any(second)
    z = 0.3 + 0.4j
    assert da.jacfwd(np.sin, holomorphic=True)(z) == pytest.approx(np.cos(z))
    assert da.jacrev(np.sin, holomorphic=True)(z) == pytest.approx(np.cos(z))


@pytest.mark.parametrize(
    "f", [lambda x: np.sum(3.0 * x), lambda x: 5.0, lambda x: x[0], lambda x: np.sum(np.ones(3) @ x)]
)
def test_the_hessian_of_a_linear_function_is_exactly_zero(f) -> None:
    """Of a constant too."""
    H = da.hessian(f)(np.arange(3.0))
    assert H.shape == (3, 3) and not H.any()


# ── the basis, and products ──────────────────────────────────────────────────────────────────────────────────────


def test_the_standard_basis_concatenates_to_the_identity() -> None:
    """For shapes (2,3), (3,), (3,4,2), () it concatenates to eye(34), each block in its own dtype."""
    dtypes = [np.float64, np.float32, np.float64, np.complex64]
    avals = [Aval(s, np.dtype(d)) for s, d in zip([(2, 3), (3,), (3, 4, 2), ()], dtypes, strict=True)]
    basis = standard_basis(avals)
    assert [b.shape for b in basis] == [(34, 2, 3), (34, 3), (34, 3, 4, 2), (34,)] and [
        b.dtype for b in basis
    ] == dtypes
    np.testing.assert_array_equal(np.concatenate([b.reshape(34, -1) for b in basis], axis=1), np.eye(34))


@given(data=st.data())
def test_jacobians_agree_with_jvp_and_vjp(data) -> None:
    """J·v equals jvp and u·J equals vjp, for arrays of any shape."""
    shape = data.draw(shapes(max_ndim=2))
    rng = np.random.default_rng(data.draw(st.integers(0, 50)))
    x, v = np.asarray(rng.normal(size=shape)), np.asarray(rng.normal(size=shape))
    f = lambda a: np.tanh(a).sum() * np.stack([a, np.sin(a) * a])
    J = da.jacfwd(f)(x)
    value, tangent = da.jvp(f, (x,), (v,))
    u = rng.normal(size=value.shape)
    assert J.shape == value.shape + shape
    np.testing.assert_allclose(J.reshape(value.size, x.size) @ v.ravel(), np.ravel(tangent), atol=1e-12)
    pulled = da.vjp(f, x)[1](u)[0]
    np.testing.assert_allclose(u.ravel() @ J.reshape(value.size, x.size), np.ravel(pulled), atol=1e-12)


@pytest.mark.xfail(strict=True, reason=gaps.PLACES["assert_depends"])
def test_assert_depends_refuses_an_input_without_influence() -> None:
    """An assertion that an output depends on an input."""
    from dualad.testing import assert_depends

    with pytest.raises(AssertionError):
        assert_depends(lambda x, y: x, (1.0, 2.0))


def test_a_jacobian_evaluates_the_function_once() -> None:
    """The primal is not mapped: one run of the function, whatever the number of columns."""
    runs = []

    def f(x):
        runs.append(1)
        return np.sin(x)

    da.jacfwd(f)(np.ones(50))
    da.jacrev(f)(np.ones(50))
    assert len(runs) == 2
