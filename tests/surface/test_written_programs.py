"""Whole programs that write: overlapping views, swaps, negative strides, repeated indices, masks, loops with history.

Each runs on plain arrays, where NumPy itself writes: that run is the oracle, its central differences that of the
derivatives. Not for: one kind of write at a time (test_writing.py), or programs made up at random
(test_random_writes.py).
"""

import numpy as np
import pytest

import dualad as da
from tests.oracles import differences

pytestmark = pytest.mark.filterwarnings("ignore::dualad.surface.arguments.PerformanceNote")

X = np.array([0.7, -1.2, 1.5, 0.3, 0.9, -0.4])
T = np.cos(1.0 + np.arange(6.0))
ROWS = np.stack([X, 0.9 * X, X + 0.01 * T])
PROGRAMS = {}


def program(f):
    """Collect a program; what it returns is flattened."""
    PROGRAMS[f.__name__] = lambda x: np.ravel(f(x))
    return f


@program
def shift(x):
    x = np.copy(x)
    x[1:] = x[:-1]
    return x * x


@program
def shift_mul(x):
    x = np.copy(x)
    x[1:] *= x[:-1]
    return x


@program
def rev_add(x):
    x = np.copy(x)
    x[::-1] += x
    return x * x


@program
def rev_copy(x):
    x = np.copy(x)
    x[:] = x[::-1]
    return x * np.array([1.0, 2, 3, 4, 5, 6])


@program
def swap(x):
    x = np.copy(x)
    x[0], x[3] = x[3], x[0]
    return x * np.array([1.0, 2, 3, 4, 5, 6])


@program
def swap_rows(x):
    a = np.copy(x).reshape(3, 2)  # NumPy's classic: both are views, so both become the last row
    a[0], a[2] = a[2], a[0]
    return a * np.array([[1.0, 2], [3, 4], [5, 6]])


@program
def swap_rows2(x):
    a = np.copy(x).reshape(3, 2)
    a[[0, 2]] = a[[2, 0]]
    return a * np.array([[1.0, 2], [3, 4], [5, 6]])


@program
def bubble(x):
    x = np.copy(x)
    for i in range(6):
        for j in range(5 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x * np.array([1.0, 2, 3, 4, 5, 6])


@program
def neg_stride(x):
    y = np.zeros_like(x)
    v = y[::-2]
    v[...] = x[:3] ** 2
    v[0] += x[5]
    return y


@program
def neg2(x):
    y = np.zeros_like(x)
    v = y[4:0:-1][::2]
    v *= 2
    v += x[0]
    y[-1] = v[0] * v[1]
    return y


@program
def add_at(x):
    y = np.zeros_like(x)
    np.add.at(y, [0, 0, 1, -1, 5], x[:5] ** 2)
    return y


@program
def mul_at(x):
    y = np.ones_like(x)
    np.multiply.at(y, [0, 0, 1, 1, 5], x[:5])
    return y


@program
def sub_at_rows(x):
    y = np.zeros_like(x).reshape(2, 3)
    np.subtract.at(y, (slice(None), [1, 1]), x[:2])
    return y


@program
def max_at(x):
    y = np.zeros_like(x)
    np.maximum.at(y, [0, 0, 1, 1, 5], x[:5])
    return y


@program
def T_write(x):
    a = np.copy(x).reshape(2, 3)
    a.T[...] = np.exp(a.T)
    a.T[0] = a.T[1] * a.T[2]
    return a


@program
def ravel_write(x):
    a = np.copy(x).reshape(2, 3)
    a.ravel()[...] = a.ravel()[::-1] * 2
    return a


@program
def ravel_copy(x):
    a = np.copy(x).reshape(2, 3)
    a.T.ravel()[...] = 0.0
    return a


@program
def flat_w(x):
    a = np.copy(x).reshape(2, 3)
    a.flat[2] = x[0] * x[1]
    return a


@program
def flat_sl(x):
    a = np.copy(x).reshape(2, 3)
    a.flat[::2] = x[:3] ** 2
    return a


@program
def flat_all(x):
    a = np.copy(x).reshape(2, 3)
    a.flat = x[0] * x[1:3]
    return a


@program
def reshape_F(x):
    a = np.copy(x).reshape(2, 3, order="F")
    a[0] *= 2.0
    return a * a


@program
def diag_w(x):
    a = np.outer(x[:3], x[3:])
    np.fill_diagonal(a, x[:3])
    a[np.diag_indices(3)] *= x[0]
    return a


@program
def einsum_view(x):
    a = np.outer(x[:3], x[3:])
    d = np.einsum("ii->i", a)
    d[...] = x[:3]
    return a


@program
def tril_w(x):
    a = np.outer(x[:3], x[3:])
    a[np.tril_indices(3)] = 0.0
    a[np.triu_indices(3, 1)] *= 2
    return a


@program
def self_index(x):
    x = np.copy(x)
    x[np.argsort(x)] = np.sort(x)[::-1]
    return x * np.array([1.0, 2, 3, 4, 5, 6])


@program
def mask_self(x):
    x = np.copy(x)
    m = x > 0
    x[m] = x[m][::-1] ** 2
    x[~m] -= x[m].sum()
    return x


@program
def mask_aug(x):
    x = np.copy(x)
    x[x < 0] *= -1
    x[x > 1] = np.sqrt(x[x > 1])
    return x


@program
def mask2d(x):
    a = np.copy(x).reshape(2, 3)
    a[a > 0.5] = a.max()
    a[:, a[0] > 0] += 1
    return a * a


@program
def where_out(x):
    y = np.zeros_like(x)
    np.multiply(x, x, out=y, where=x > 0)
    np.add(y[::2], 1, out=y[::2])
    return y


@program
def out_view(x):
    y = np.zeros_like(x)
    np.sin(x[:3], out=y[3:])
    np.cos(y[3:], out=y[:3])
    return y


@program
def out_self(x):
    x = np.copy(x)
    np.multiply(x, x[::-1], out=x)
    np.cumsum(x, out=x)
    return x


@program
def out_pair(x):
    f = np.zeros_like(x)
    w = np.zeros_like(x)
    np.modf(x * 3, f, w)
    return f + x


@program
def nested_views(x):
    a = np.copy(x).reshape(2, 3)
    b = a[:, 1:]
    c = b.T
    d = c[::-1]
    e = d[0]
    e[:] = x[0] * x[1]
    a[0] += 1
    d *= e
    return np.concatenate([a.ravel(), b.ravel(), c.ravel(), d.ravel()])


@program
def iter_write(x):
    a = np.copy(x).reshape(3, 2)
    for i, row in enumerate(a):
        row *= i + x[0]
        row[0] = row[1]
    return a


@program
def zip_write(x):
    a = np.copy(x).reshape(3, 2)
    for r, s in zip(a, a[::-1], strict=True):
        r += s
    return a


@program
def unpack(x):
    a = np.copy(x).reshape(2, 3)
    u, v = a
    u -= v
    v *= u
    return a


@program
def split_w(x):
    x = np.copy(x)
    left, m, r = np.split(x, 3)
    left += r
    r *= m
    m[...] = left * r
    return x


@program
def real_imag(x):
    z = x + 1j * x[::-1]
    z.real *= 2
    z.imag[1:] = x[:-1] ** 2
    return np.concatenate([z.real, z.imag])


@program
def view_float(x):
    z = x + 1j * x[::-1]
    v = z.view(float)
    v[::3] = x[0]
    return np.concatenate([z.real, z.imag])


@program
def sort_ip(x):
    x = np.copy(x)
    x.sort()
    v = x[::-1]
    v.sort()
    return x * np.array([1.0, 2, 3, 4, 5, 6])


@program
def sort_part(x):
    x = np.copy(x)
    x[1:5].sort()
    a = x.reshape(2, 3)
    a.sort(axis=0)
    return x * np.array([1.0, 2, 3, 4, 5, 6])


@program
def part(x):
    x = np.copy(x)
    x.partition(2)
    return x[2] * x


@program
def fill_(x):
    x = np.copy(x)
    x[1:3].fill(x[0] * 2)
    return x


@program
def put_(x):
    x = np.copy(x)
    np.put(x, [0, 0, -1], [x[1] * 2, x[2], x[3] ** 2])
    x.put([1], x[0])
    return x


@program
def place_(x):
    x = np.copy(x)
    np.place(x, x > 0.5, [x[1], x[3]])
    np.putmask(x, x < 0, x[::-1] * 3)
    return x


@program
def paa(x):
    a = np.copy(x).reshape(2, 3)
    np.put_along_axis(a, np.array([[0], [2]]), a[:, 1:2] ** 2, axis=1)
    return a


@program
def copyto_(x):
    x = np.copy(x)
    np.copyto(x[1:], x[:-1])
    np.copyto(x, x * x, where=x > 0)
    return x


@program
def scalar_alias(x):
    x = np.copy(x)
    s = x[0]
    t = x[0:1]
    x[0] = 5 * x[1]
    s += 1
    return np.concatenate([x, t, np.reshape(s, (1,))])


@program
def aug_chain(x):
    x = np.copy(x)
    y = x
    y += 1
    z = x[2:]
    z -= y[:4]
    x **= 2
    return x + y


@program
def broadcast_in(x):
    a = np.zeros((3, 6), like=x)
    a[...] = x
    a[1] = x[0]
    a[:, 0] = x[:3]
    a[2, 1:3] = np.array([[1.0, 2.0]])
    a[None, 0] += x
    return a


@program
def history(x):
    h = np.zeros((4, 6), like=x)
    h[0] = x
    for i in range(3):
        h[i + 1] = h[i] + 0.1 * np.sin(h[i])
        h[i + 1, 0] *= 2
    return h


@program
def lu(x):
    a = np.eye(3) * 4 + np.outer(x[:3], x[3:])
    L = np.asarray(np.eye(3), like=x).copy()
    for k in range(2):
        for i in range(k + 1, 3):
            L[i, k] = a[i, k] / a[k, k]
            a[i, k:] -= L[i, k] * a[k, k:]
    return np.concatenate([L.ravel(), a.ravel()])


@program
def del_roll(x):
    x = np.copy(x)
    tmp = x[0].copy()
    x[:-1] = x[1:]
    x[-1] = tmp
    return x * np.array([1.0, 2, 3, 4, 5, 6])


@program
def delete_ins(x):
    y = np.insert(np.delete(x, 2), 1, x[0] * 2)
    y[1:3] = y[3:5]
    return y


@program
def emptybuf(x):
    y = np.empty_like(x)
    for i in range(6):
        y[i] = x[i] * x[i - 1]
    y[2:4] = y[1:3]
    return y


@program
def intidx(x):
    x = np.copy(x)
    i = np.array([0, 2, 2, 5])
    x[i] += x[i + 0]
    x[i] = x[[1, 3, 4, 0]]
    return x


@program
def tuple_idx(x):
    a = np.copy(x).reshape(1, 2, 3)
    a[0, ..., 1] = a[0, :, 0]
    a[..., -1] *= a[..., 0]
    a[0][1][2] = 7 * a[0, 0, 0]
    return a


@program
def newaxis_w(x):
    a = np.copy(x)
    b = a[:, None]
    b[1:4, 0] = a[0]
    a[None][0, 5] = a[1] ** 2
    np.expand_dims(a, 0)[0, 0] = 3 * x[1]
    return a


@program
def windows(x):
    a = np.zeros((6,), like=x)
    w = np.lib.stride_tricks.sliding_window_view(a, 3)
    a[:] = x
    return w.sum(1)


@program
def roll_axis(x):
    a = np.copy(x).reshape(2, 3)
    np.moveaxis(a, 0, 1)[2] = x[:2]
    np.swapaxes(a, 0, 1)[0] += 1
    np.rot90(a)[0] *= 2
    np.flipud(a)[0] -= x[0]
    return a


@program
def bcast_view(x):
    a = np.broadcast_to(x, (2, 6))

    b = a.copy()
    b[0] *= 2
    return b


@program
def while_fill(x):
    y = np.zeros_like(x)
    i = 0
    s = 0.0 * x[0]
    while i < 6 and abs(s) < 3:
        s = s + x[i] ** 2
        y[i] = s
        i += 1
    return y


@program
def struct_cond(x):
    y = np.copy(x)
    for i in range(1, 6):
        if y[i] < y[i - 1]:
            y[i] = y[i - 1] * 0.5
        else:
            y[:i] += 0.1 * y[i]
    return y


@program
def list_of(x):
    y = np.zeros_like(x)
    parts = [y[i : i + 2] for i in range(0, 6, 2)]
    for k, q in enumerate(parts):
        q[:] = x[k] * x[k + 1]
        q[1] -= q[0] * 0.5
    parts[0][:] = parts[1] + parts[2]
    return y


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
        if "opaque" not in str(traced):  # text holds no function
            np.testing.assert_allclose(da.read_program(str(traced))(x)[0], f(np.copy(x)), rtol=1e-12)
    np.testing.assert_allclose(da.jvp(traced, (X,), (T,))[1], da.jvp(f, (X,), (T,))[1], atol=1e-12)
