"""Whole programs that write: overlapping views, swaps, negative strides, repeated indices, masks, loops with history.

Functions of a vector of six numbers, which they may write into, in plain NumPy. Not for: what they are held against
(test_written_programs.py), where those with control flow are.
"""

import numpy as np

__all__ = ["PROGRAMS", "program"]

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
