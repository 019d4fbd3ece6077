"""Derivatives taken inside another transform keep what they have read: tensors that are written to later.

Under an outer ``vmap`` or ``jvp`` the arrays of the inner derivative are tensors, and a tensor can be written to as an
array can. The oracle is the plain function, whose arrays are NumPy's. Not for: arrays of the caller
(test_passed_out.py).
"""

import numpy as np
import pytest

import dualad as da

X = np.array([0.5, 1.5])
ONES = np.ones(2)
PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


@program
def a_constant_of_a_pullback(x):
    y = x * 1.0
    _, pull = da.vjp(lambda z: z * y, x)
    y[:] = 100.0
    return pull(ONES)[0]


@program
def one_constant_many_times(x):
    y = x * 1.0
    _, pull = da.vjp(lambda z: np.where(y > 1.0, z * y, z / y) - y * z + np.stack([y[0] * z[0], z[1]]), x)
    y[0] = 100.0
    return pull(ONES)[0]


@program
def a_constant_rewritten(x):
    c = x * 1.0

    def f(z):
        total = 0.0
        for i in range(3):
            c[:] = i
            total = total + c * z
        return total

    return da.vjp(f, x)[1](ONES)[0]


@program
def the_argument(x):
    x = x * 1.0
    _, pull = da.vjp(lambda z: z * z * z, x)
    x[0] = 100.0
    return pull(ONES)[0]


@program
def the_value(x):
    value, pull = da.vjp(np.exp, x)
    value[:] = 100.0
    return pull(ONES)[0]


@program
def the_values(x):
    (first, second), pull = da.vjp(lambda z: (np.exp(z), np.exp(z) * z), x)
    first *= 0.0
    second[:1] = 3.0
    return pull((ONES, ONES))[0]


@program
def an_auxiliary_value(x):
    def f(z):
        y = np.exp(z)
        return np.sum(y * y), y

    _, pull, aux = da.vjp(f, x, has_aux=True)
    aux[:] = 100.0
    return pull(1.0)[0]


@program
def what_was_pulled_back(x):
    ct = np.ones_like(x)
    _, pull = da.vjp(lambda z: (z, z * x), x)
    first = pull((ct, ct))[0]
    same = da.vjp(lambda z: z, x)[1](ct)[0]
    same *= 3.0
    first *= 5.0
    return np.concatenate([pull((ct, ct))[0], ct, same, first])


@program
def a_linear_map(x):
    y = x * 2.0
    value, lin = da.linearize(lambda z: np.sin(z) * y, x)
    value[:] = 3.0
    y[0] = 5.0
    return lin(ONES)


@program
def a_transposed_map(x):
    y = x * 1.0
    transposed = da.linear_transpose(lambda z: z * y, ONES)
    y[:] = 100.0
    return transposed(ONES)[0]


@program
def a_traced_program(x):
    y = x * 1.0
    traced = da.trace(lambda z: (z * y, y), x)
    y[:] = 100.0
    product, constant = traced(ONES)
    constant[:] = 7.0
    return np.concatenate([product, traced(ONES)[1]])


@program
def the_primal_of_a_dual(x):
    with da.dual_level():
        dual = da.make_dual(x, np.ones_like(x))
        square = dual * dual
        da.stop_gradient(dual)[...] = 100.0
        return da.unpack_dual(square * dual).tangent


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_the_plain_function(name):
    f = PROGRAMS[name]
    plain = lambda x: f(np.copy(x))
    rows = np.stack([X, 0.5 * X, -X])
    np.testing.assert_allclose(da.vmap(f)(rows), [plain(r) for r in rows], rtol=1e-12)
    value, tangent = da.jvp(f, (X,), (ONES,))
    np.testing.assert_allclose(value, plain(X), rtol=1e-12)
    h = 1e-6
    np.testing.assert_allclose(tangent, (plain(X + h) - plain(X - h)) / (2 * h), atol=1e-7)
    np.testing.assert_allclose(da.jacrev(f)(X), da.jacfwd(f)(X), atol=1e-12)
    np.testing.assert_allclose(da.vmap(da.jacfwd(f))(rows)[0], da.jacfwd(f)(X), atol=1e-12)
