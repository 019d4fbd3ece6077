"""Whole programs that write (programs.py, and below those with control flow and transforms of their own).

Each runs on plain arrays, where NumPy itself writes: that run is the oracle, its central differences that of the
derivatives. Not for: one kind of write at a time (test_writing.py), or programs made up at random
(test_random_writes.py).
"""

import pickle

import numpy as np
import pytest

import dualad as da
from tests.oracles import differences
from tests.surface.programs import PROGRAMS, program

pytestmark = pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")

X = np.array([0.7, -1.2, 1.5, 0.3, 0.9, -0.4])
T = np.cos(1.0 + np.arange(6.0))
ROWS = np.stack([X, 0.9 * X, X + 0.01 * T])


@program
def in_while(x):
    def body(c):
        i, y = c
        y = np.copy(y)
        y[1:] += 0.1 * y[:-1]
        y[0] = y[0] * y[1]
        return i + 1, y

    return da.fori_loop(0, 3, lambda i, y: body((i, y))[1], x)


@program
def fori_idx(x):
    def body(i, y):
        y[i] = y[i - 1] * 0.5 + x[i]
        return y

    return da.fori_loop(1, 6, body, np.copy(x))


@program
def scan_write(x):
    def step(c, r):
        c = np.copy(c)
        c[0] = c[1] * r
        c[1] += c[0]
        return c, c[::-1] * r

    c, ys = da.scan(step, x[:2], x[2:])
    return np.concatenate([c, np.ravel(ys)])


@program
def scan_inplace_carry(x):
    def step(c, r):
        c *= r
        c[0] += 1
        return c, c.copy()

    c, ys = da.scan(step, x[:2], x[2:])
    return np.concatenate([c, np.ravel(ys)])


@program
def scan_return_same(x):
    def step(c, r):
        c[0] = c[0] * r
        return c, c

    c, ys = da.scan(step, x[:2], x[2:])
    return np.concatenate([c, np.ravel(ys)])


@program
def cond_write(x):
    def a(y):
        y[0] = y[1] ** 2
        return y

    def b(y):
        y[:] = y[::-1]
        return y

    return da.cond(x[0] > 0.5, a, b, np.copy(x)) * 1.0


@program
def cond_arg_untouched(x):
    def a(y):
        y[0] = y[1] ** 2
        return y

    def b(y):
        y[:] = y[::-1]
        return y * 2

    z = np.copy(x)
    w = da.cond(x[1] > 0.5, a, b, z)
    return z + 3 * w


@program
def ckpt_write(x):
    def f(y):
        y = np.copy(y)
        y[1] = y[0] * y[2]
        y[2:] *= 2
        return y * y

    z = x * 1
    w = da.checkpoint(f)(z)
    return z + w


@program
def grad_in(x):
    def f(y):
        y = np.copy(y)
        y[0] = y[0] * y[1]
        y[1:] += y[0]
        return np.sum(y**2)

    g = da.grad(f)(x)
    g[0] = g[1] * x[2]
    return g


@program
def jvpointin(x):
    def f(y):
        y[0] = y[0] * y[1]
        y[1:] += y[0]
        return y

    z = np.copy(x)
    a, b = da.jvp(f, (z,), (x * x,))
    a[0] = b[1]
    return a + b + z


@program
def closure_write(x):
    y = np.copy(x)

    def f(s):
        y[0] = y[0] * s
        return y * s

    return f(x[1]) + f(x[2])


@program
def linsolve(x):
    a = np.eye(3, like=x) * 3
    a[0, 1:] = x[:2]
    a[2] += x[3:]
    b = np.linalg.solve(a, x[:3])
    b[0] = b[1]
    return b


@program
def nz_write(x):
    y = np.copy(x)
    i = np.nonzero(x > 0)[0]
    y[i] = x[i] ** 2
    y[i[0]] += x[i].sum()
    return y


@program
def uniq(x):
    k = np.array([0, 1, 0, 2, 1, 0])
    u, inv = np.unique(np.round(x * 0 + k), return_inverse=True)
    y = np.zeros_like(x)
    y[:3] = u
    np.add.at(y, inv, x)
    return y


@program
def uniq2(x):
    u = np.unique(np.floor(x))
    return np.sum(u) * x


@program
def maskout(x):
    y = np.zeros_like(x)
    m = x > 0
    np.exp(x, out=y, where=m)
    y[~m] = -x[~m]
    y[np.flatnonzero(m)] *= 2
    return y


@program
def argm(x):
    y = np.copy(x)
    i = np.argmax(y)
    y[i] = 0.0
    j = int(np.argmin(y))
    y[j] *= 3
    y[[i, j]] = y[[j, i]]
    return y


@program
def searchs(x):
    y = np.sort(x)
    y[np.searchsorted(y, 0.5)] = 9.0
    return y


@program
def choose_col(x):
    a = np.copy(x).reshape(3, 2)
    c = (a[:, 0] > a[:, 1]).astype(int)
    a[np.arange(3), c] *= 2
    return a


@program
def pivot_lu(x):
    a = np.outer(x[:3], x[3:]) + np.array([[0.0, 2, 1], [3, 1, 0], [1, 0, 4]])
    for k in range(3):
        q = k + np.argmax(abs(a[k:, k]))
        a[[k, q]] = a[[q, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


@program
def deque_like(x):
    buf = np.zeros_like(x)
    out = np.zeros(6, like=x)
    for i, v in enumerate(x):
        buf[i % 3] = v * buf.sum() + v
        out[i] = buf[:3].mean()
    return out


@program
def dict_state(x):
    st = {"m": np.zeros_like(x), "v": np.zeros_like(x)}
    point = np.copy(x)
    for _ in range(3):
        g = 2 * point + x
        st["m"][:] = 0.9 * st["m"] + 0.1 * g
        st["v"] *= 0.99
        st["v"] += 0.01 * g * g
        point -= 0.1 * st["m"] / (np.sqrt(st["v"]) + 0.1)
    return point


@program
def vmap_into_unbatched(x):
    def f(r, i):
        w = np.zeros(6, like=r)
        w[1] = r
        w[i] = r * 2
        w[2:4] += r
        return w

    return da.vmap(f)(x[:3], np.array([0, 1, 5]))


#: what branches or selects by values, which `trace` refuses with words
BY_VALUE = {
    "argm", "bubble", "mask2d", "mask_aug", "mask_self", "maskout", "nz_write", "place_", "struct_cond", "uniq",
    "uniq2", "while_fill",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_numpy(name):
    f = PROGRAMS[name]
    plain = lambda x: f(np.copy(x))
    scalar = lambda x: np.sum(np.sin(f(x)))
    gradient = da.grad(scalar)

    value, tangent = da.jvp(f, (X,), (T,))
    np.testing.assert_allclose(value, plain(X), rtol=1e-12)
    differences.compare(tangent, differences.along(plain, (X,), (T,)), "jvp")
    np.testing.assert_allclose(da.jacrev(f)(X), da.jacfwd(f)(X), atol=1e-12)
    np.testing.assert_allclose(da.grad(lambda x: np.sum(np.sin(da.checkpoint(f)(x))))(X), gradient(X), atol=1e-12)

    curvature = da.jvp(gradient, (X,), (T,))[1]
    differences.compare(curvature, differences.along(gradient, (X,), (T,)), "jvp of grad")
    np.testing.assert_allclose(da.grad(lambda x: gradient(x) @ T)(X), curvature, atol=1e-11)

    np.testing.assert_allclose(da.vmap(f)(ROWS), [plain(r) for r in ROWS], rtol=1e-12)
    np.testing.assert_allclose(da.vmap(gradient)(ROWS), [gradient(r) for r in ROWS], atol=1e-12)
    summed = da.grad(lambda rows: np.sum(np.sin(da.vmap(f)(rows))))
    np.testing.assert_allclose(summed(ROWS), [gradient(r) for r in ROWS], atol=1e-12)
    square = np.stack([ROWS, 0.5 * ROWS])
    np.testing.assert_allclose(da.vmap(da.vmap(f))(square), [[plain(r) for r in rows] for rows in square], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - BY_VALUE))
def test_traced(name):
    f = PROGRAMS[name]
    traced = da.trace(f, X)
    for x in (X, 0.9 * X):
        np.testing.assert_allclose(traced(x), f(np.copy(x)), rtol=1e-12)
        if "opaque" not in str(traced):  # which holds a function of this file's
            np.testing.assert_array_equal(pickle.loads(pickle.dumps(traced))(x), traced(x))
    np.testing.assert_allclose(da.jvp(traced, (X,), (T,))[1], da.jvp(f, (X,), (T,))[1], atol=1e-12)
