"""What goes into a transform, comes out of it, or is set aside in it may be written to: no derivative changes.

The oracle is the same call without the write. Not for: writes inside the function (tests/surface/test_random_writes.py,
test_memory.py).
"""

import contextlib

import numpy as np
import optree
import pytest

import dualad as da
import dualad.numpy as dnp

X = np.array([0.5, 1.5, -0.5])
ONES = np.ones(3)
SIZES = (3, 5000)  # results are copied when they are small, and looked for among the residuals when they are large


def clobber(out):
    """Write into every array of a result, and into the memory that it is a view of."""
    for a in optree.tree_leaves(out):
        if isinstance(a, np.ndarray):
            a[...] = 7
            if isinstance(a.base, np.ndarray):
                a.base[...] = 7


OUTPUTS = {
    "value": lambda x: np.exp(x),
    "view of a value": lambda x: np.exp(x)[1:],
    "reshaped": lambda x: np.exp(x).reshape(1, -1),
    "argument": lambda x: x,
    "view of the argument": lambda x: x[::-1],
    "both": lambda x: [np.exp(x), np.exp(x) * x],
    "twice": lambda x: (lambda y: [y, y * y, y])(np.exp(x)),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_returned_value(name, size):
    x = np.linspace(-1.0, 1.0, size)
    f = OUTPUTS[name]
    ct = optree.tree_map(np.ones_like, f(x))

    out, pull = da.vjp(f, np.copy(x))
    expected = pull(ct)[0]
    clobber(out)
    np.testing.assert_array_equal(pull(ct)[0], expected)
    clobber(pull(ct))
    np.testing.assert_array_equal(pull(ct)[0], expected)

    out, lin = da.linearize(f, np.copy(x))
    expected = np.hstack(lin(x))
    clobber(out)
    np.testing.assert_array_equal(np.hstack(lin(x)), expected)


@pytest.mark.parametrize("size", SIZES)
def test_an_auxiliary_output(size):
    def f(x):
        y = np.exp(x)
        return np.sum(y * y), {"y": y, "rows": [y[1:], y > 0]}

    x = np.linspace(-1.0, 1.0, size)
    _, pull, aux = da.vjp(f, x, has_aux=True)
    aux["y"][:] = 7.0
    aux["rows"][0][:] = 7.0
    aux["rows"][1][:] = False
    np.testing.assert_allclose(pull(1.0)[0], 2 * np.exp(2 * x))
    _, lin, aux = da.linearize(f, x, has_aux=True)
    aux["y"][:] = 7.0
    np.testing.assert_allclose(lin(np.ones(size)), np.sum(2 * np.exp(2 * x)))


@pytest.mark.parametrize("size", SIZES)
def test_a_value_set_aside(size):
    """A list in the closure keeps a constant copy, or a mask, and is written to after the pass."""
    x = np.linspace(-1.0, 1.0, size)
    kept = []

    def f(x):
        y = np.exp(x)
        kept[:] = [da.stop_gradient(y), y > 1.0, np.argsort(y)]
        return np.sum(np.where(kept[1], y * y, 0.0)) + np.sum(y[kept[2]] * np.arange(size))

    _, pull = da.vjp(f, x)
    expected = pull(1.0)[0]
    kept[0][:], kept[1][:], kept[2][:] = 7.0, False, 0
    np.testing.assert_array_equal(pull(1.0)[0], expected)


# ── the caller's arrays ──────────────────────────────────────────────────────────────────────────────────────────


CONSTANTS = {
    "factor": lambda x, c: x * c,
    "view": lambda x, c: x * c[::-1],
    "joined": lambda x, c: np.concatenate([x, c, x * c])[2:8],
    "selected": lambda x, c: np.where(c > 2.0, x, c * x),
    "matrix": lambda x, c: np.outer(c, c) @ x,
    "indices": lambda x, c: x[c.astype(int) % 3] * c,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_callers_constant(name):
    """Written to after the transform has seen it: programs, pullbacks and linear maps keep what they read."""
    f = CONSTANTS[name]

    def pulled(c):
        out, pull = da.vjp(lambda x: f(x, c), X)
        return lambda x: pull(np.ones_like(out))[0]

    def transposed(c):
        count, apply = f(X, c).size, da.linear_transpose(lambda x: f(x, c), X)
        return lambda x: apply(np.arange(float(count)))[0]

    for make in (
        lambda c: da.trace(lambda x: f(x, c), X),
        lambda c: da.linearize(lambda x: f(x, c), X)[1],
        pulled,
        *[transposed] * (name != "joined"),  # that one is affine
    ):
        c = np.array([1.0, 2.0, 3.0])
        g = make(c)
        expected = np.copy(g(X))
        c[:] = 100.0
        np.testing.assert_array_equal(g(X), expected)


def test_a_constant_that_a_program_returns():
    c = np.array([1.0, 2.0, 3.0])
    program = da.trace(lambda x: (x * c, c, c[1:]), X)
    c[:] = 100.0
    _, whole, part = program(X)
    np.testing.assert_array_equal(whole, [1.0, 2.0, 3.0])
    whole[:], part[:] = 7.0, 7.0
    np.testing.assert_array_equal(program(X)[1], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(program(X)[2], [2.0, 3.0])
    np.testing.assert_array_equal(c, 100.0)


def test_a_constant_rewritten_between_its_uses():
    def f(x):
        c = np.zeros(3)
        total = 0.0
        for i in range(3):
            c[:] = i
            total = total + c * x + np.where(c > 0, x, 0.0)
        return total

    expected = (0 + 1 + 2 + 2) * ONES
    np.testing.assert_allclose(da.vjp(f, X)[1](ONES)[0], expected)
    np.testing.assert_allclose(da.jvp(f, (X,), (ONES,))[1], expected)
    np.testing.assert_allclose(da.linear_transpose(f, X)(ONES)[0], expected)
    np.testing.assert_allclose(da.trace(f, X)(X), f(X))
    np.testing.assert_allclose(da.grad(lambda x: np.sum(da.checkpoint(f)(x)))(X), expected)


# ── constants made of tensors ────────────────────────────────────────────────────────────────────────────────────


def stopped(x):
    y = da.stop_gradient(x)
    y *= 101.0
    return np.sum(y) + np.sum(x * x)


def test_a_stopped_copy_is_its_owners():
    """`stop_gradient` gives a constant that can be written to: neither the tensor nor the caller's array changes."""
    x = np.array([1.0, 2.0])
    value, tangent = da.jvp(stopped, (x,), (np.ones(2),))
    assert (value, tangent) == (308.0, 6.0)
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_allclose(da.grad(stopped)(x), [2.0, 4.0])
    np.testing.assert_allclose(da.vmap(da.grad(stopped))(np.stack([x, x])), [[2.0, 4.0]] * 2)
    np.testing.assert_allclose(da.vmap(stopped)(np.stack([x, x])), [308.0] * 2)
    np.testing.assert_allclose(da.trace(stopped, x)(x), 308.0)
    np.testing.assert_allclose(da.hessian(stopped)(x), 2 * np.eye(2))
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_an_unpacked_primal_is_its_owners():
    def f(x):
        with da.dual_level():
            y = da.make_dual(x, np.ones_like(x))
            primal = da.unpack_dual(y).primal
            with contextlib.suppress(ValueError):  # of plain arrays it is a read-only view
                primal *= 10.0
            return da.unpack_dual(y * y).tangent

    np.testing.assert_allclose(f(X), 2 * X)
    np.testing.assert_allclose(da.vmap(f)(np.stack([X, 2 * X])), [2 * X, 4 * X])
    np.testing.assert_allclose(da.jvp(f, (X,), (ONES,))[1], 2 * ONES)


def test_a_view_of_a_buffer_follows_it():
    """Also when the buffer takes new memory, because a tensor has read the old one."""

    def f(x, np=dnp):
        b = np.zeros(4)
        view = b[1:]
        inner = view[:2]
        b[0] = 1.0
        read = b * x[0]  # from here on, a write goes to new memory
        b[1], view[1] = 5.0, 6.0
        inner[0] += 1.0
        return np.concatenate([b, view, inner, read])

    expected = [1, 6, 6, 0, 6, 6, 0, 6, 6, 0.5, 0, 0, 0]
    np.testing.assert_allclose(f(X, np), expected)
    np.testing.assert_allclose(da.jvp(f, (X,), (ONES,))[0], expected)
    np.testing.assert_allclose(da.vjp(f, X)[0], expected)
    np.testing.assert_allclose(da.vmap(f)(X[None])[0], expected)
    np.testing.assert_allclose(da.trace(f, X)(X), expected)
