"""Stacks of small matrices in lanes: factorizations, solutions and products, against NumPy.

Sizes of matrices and of stacks that end differently, exchanges of rows, what lies between, threads; singular matrices,
NaN and infinities are NumPy's. Not for: sums and moves of large arrays (test_passes.py, test_reductions.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import stacks
from dualad.errors import CompilerFaultWarning
from dualad.scipy.linalg import solve_triangular

pytestmark = pytest.mark.usefixtures("native_backend")


@pytest.fixture(autouse=True)
def _threads():
    before = da.threads()
    yield
    da.threads(before)


def matrices(stack: int, n: int, seed: int = 0):
    return np.random.default_rng(seed + 100 * stack + n).normal(size=(stack, n, n))


def positive(stack: int, n: int):
    a = matrices(stack, n)
    return a @ a.swapaxes(1, 2) / n + np.eye(n)


def same(f, *args, rtol: float = 1e-9, lanes: bool = True) -> None:
    expected = [np.asarray(x) for x in da.tree.flatten(f(*args))[0]]
    fast, first = da.jit(f), None
    for count in (1, 2, 7):
        da.threads(count)
        found = [np.asarray(x) for x in da.tree.flatten(fast(*args))[0]]
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype and a.flags.c_contiguous
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.max(np.abs(b)))
        first = first or found
        assert all([np.array_equal(a, b) for a, b in zip(first, found, strict=True)])
    made = fast._specialised(args, {}).program.compiled.groups
    assert any([type(g) is stacks.Stack for g in made]) is lanes


@pytest.mark.parametrize("stack", [16, 17, 100])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 11])
def test_sizes(stack: int, n: int) -> None:
    a, s, b, v = matrices(stack, n), positive(stack, n), matrices(stack, n, 7)[..., :1], matrices(stack, n, 9)[..., 0]

    def f(a, s, b, v):
        root = np.linalg.cholesky(s)
        x = np.linalg.solve(a, v[..., None])[..., 0]
        return x, np.linalg.solve(s, a), np.linalg.inv(a), root, np.linalg.inv(root) @ b, s @ a, np.linalg.solve(a, b)

    same(f, a, s, b, v, rtol=1e-7)


@pytest.mark.parametrize("n", [1, 3, 9])
def test_triangles_and_determinants(n: int) -> None:
    a, b = matrices(20, n) + 3 * np.eye(n), matrices(20, n, 7)
    same(lambda a: (np.linalg.det(a), a * 2), a)
    same(da.vmap(da.grad(np.linalg.det)), a[:, ::-1], rtol=1e-7)
    same(da.vmap(da.grad(lambda a: np.linalg.slogdet(a)[1])), a, rtol=1e-7)
    for lower in (True, False):
        for unit in (True, False):
            solve = lambda a, b, lower=lower, unit=unit: solve_triangular(a, b, lower=lower, unit_diagonal=unit)
            same(da.vmap(solve), a, b, rtol=1e-7)
    same(da.vmap(da.grad(lambda a: np.sum(solve_triangular(a, b[0], lower=True) ** 2))), a, rtol=1e-7)
    same(lambda a: da.vmap(lambda x: solve_triangular(a[0], x))(a), a, lanes=False)
    read = np.where(np.tri(n, dtype=bool), a, np.nan)
    assert np.isfinite(da.jit(da.vmap(lambda a: solve_triangular(a, a[:, 0], lower=True)))(read)).all()
    with pytest.raises(np.linalg.LinAlgError):
        da.jit(da.vmap(lambda a: solve_triangular(a, np.ones(n))))(a * (np.arange(20) != 9)[:, None, None])


def test_derivatives_of_stacks() -> None:
    a, s, b = matrices(20, 5), positive(20, 5), matrices(20, 5, 3)
    same(lambda s, t: da.jvp(np.linalg.cholesky, (s,), (t,)), s, a)
    same(lambda a, b: da.jvp(np.linalg.solve, (a, b), (b, a)), a, b, rtol=1e-7)
    loss = lambda s, b: np.sum(np.linalg.solve(s, b[0][:, None]) ** 2 * np.exp(s[1] * 0.1)) + np.sum(np.linalg.inv(s))
    same(da.vmap(da.grad(loss)), s, b)
    same(da.vmap(da.hessian(lambda v: np.sum(np.linalg.cholesky(np.eye(4) * 3 + np.outer(v, v))))), b[:, 0, :4])


def test_what_lies_between() -> None:
    a, one = matrices(30, 4), matrices(16, 4)[0]

    def f(a, one):
        x = np.concatenate([a * 2, np.tanh(a)], axis=1)[:, ::2]
        y = np.where(np.arange(4) > 1, x, x[..., ::-1]) + 5 * np.eye(4)
        z = np.linalg.inv(y.transpose(0, 2, 1)) @ one
        return (
            z,
            np.stack([z, y], axis=1),
            z[:, 0] * y[:, 1, :1],
            np.sum(z, -1) > 0,
            np.linalg.solve(y, np.broadcast_to(one, y.shape)),
        )

    same(f, a, one)


@pytest.mark.parametrize("spoil", ["zero", "equal rows", "nearly equal", "nan", "inf", "nothing"])
def test_singular_matrices_are_numpys(spoil: str) -> None:
    a = matrices(40, 4)
    if spoil == "zero":
        a[17] = 0
    elif spoil != "nothing":
        a[17, 1] = a[17, 2] * (1 + 1e-15) if spoil == "nearly equal" else a[17, 2]
        a[17, 1, 2] = {"nan": np.nan, "inf": np.inf}.get(spoil, a[17, 1, 2])
    positive = a @ a.swapaxes(1, 2)
    for f, x in (
        (np.linalg.inv, a), (np.linalg.cholesky, positive), (np.linalg.cholesky, positive - np.eye(4)),
        (lambda a: np.linalg.solve(a, a[:, :1].swapaxes(1, 2)), a),
        (lambda a: np.linalg.solve(a * 0 + np.eye(4), a), a), (np.linalg.det, a), (da.vmap(da.grad(np.linalg.det)), a),
    ):  # fmt: skip
        fast = da.jit(f)
        try:
            with np.errstate(all="ignore"):
                expected = f(x)
        except np.linalg.LinAlgError as error:
            with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                fast(x)
        else:
            found = fast(x)
            assert np.array_equal(np.isfinite(found), np.isfinite(expected))
            if spoil == "nothing":
                np.testing.assert_allclose(found, expected, rtol=1e-9)
            else:
                assert np.array_equal(found, expected, equal_nan=True)


def test_arguments_that_are_not_in_order() -> None:
    a = matrices(24, 6)
    same(np.linalg.inv, np.asfortranarray(a), rtol=1e-7)
    same(np.linalg.inv, matrices(48, 6)[::2], rtol=1e-7)
    np.testing.assert_allclose(da.jit(np.linalg.inv)(a.astype(">f8")), np.linalg.inv(a), rtol=1e-9)


def test_other_matrices_stay_numpys() -> None:
    for a in (matrices(8, 3), matrices(16, 33), matrices(20, 3).astype(np.float32), matrices(20, 3) + 1j):
        same(np.linalg.inv, a, lanes=False, rtol=1e-4)


def test_products_alone_are_a_reason() -> None:
    a, b = matrices(40, 4), matrices(40, 4, 5)
    same(lambda a, b: (a * 2) @ b.transpose(0, 2, 1) + b, a, b)


@pytest.mark.parametrize("count", [1, 7])
def test_library_calls_are_shared_out(count: int) -> None:
    a = matrices(130, 3) + matrices(130, 3).swapaxes(1, 2)
    da.threads(count)
    for f in (np.linalg.eigh, np.linalg.svd, np.linalg.qr, np.linalg.slogdet, np.linalg.pinv):
        expected, found = f(a), da.jit(f)(a)
        assert type(found) is type(expected)
        for x, y in zip(da.tree.flatten(expected)[0], da.tree.flatten(found)[0], strict=True):
            assert np.array_equal(x, y)
    a[77] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="Eigenvalues did not converge"):
        da.jit(np.linalg.eigh)(a)


@pytest.mark.parametrize("fault", ["_each", "_forward"])
def test_a_missing_step_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks.Dense, fault, lambda self, *args: None)
    with pytest.raises((AssertionError, CompilerFaultWarning)):
        same(np.linalg.inv, matrices(20, 5))
