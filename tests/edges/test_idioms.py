"""Scientific code as people write it, under every transform, and random programs of such steps.

Oracles: central differences and plain calls. Not for: single functions of NumPy's (``tests/surface``).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import itertools

import numpy as np
import pytest

import dualad as da

V = np.array([0.5, -0.3, 1.2, 0.8])
IDIOMS = {}


def idiom(f):
    IDIOMS[f.__name__] = f
    return f


@idiom
def runge_kutta(y):
    rhs = lambda y: np.array([y[0] - 0.5 * y[0] * y[1], 0.3 * y[0] * y[1] - 0.8 * y[1]])
    y = y[:2]
    for _ in range(3):
        k = rhs(y)
        y = y + 0.1 * rhs(y + 0.05 * k)
    return y


@idiom
def kalman(x):
    a, h, m, p, total = (
        np.array([[1, 0.1], [0, 1.0]]),
        np.array([[1.0, 0]]),
        x[:2].copy(),
        np.eye(2) * np.exp(x[2]),
        0.0,
    )
    for z in [0.1, 0.3]:
        m, p = a @ m, a @ p @ a.T + 0.01 * np.eye(2)
        s = h @ p @ h.T + np.exp(x[3])
        gain, r = p @ h.T @ np.linalg.inv(s), z - h @ m
        m, p = m + gain @ r, (np.eye(2) - gain @ h) @ p
        total -= 0.5 * (r @ np.linalg.solve(s, r) + np.log(np.linalg.det(s)))
    return total


@idiom
def tridiagonal(x):
    b, d = x**2 + 4, np.arange(4.0)
    c, y = np.zeros_like(b), np.zeros_like(b)
    c[0], y[0] = 1 / b[0], d[0] / b[0]
    for i in range(1, 4):
        m = b[i] - c[i - 1]
        c[i], y[i] = 1 / m, (d[i] - y[i - 1]) / m
    for i in range(2, -1, -1):
        y[i] -= c[i] * y[i + 1]
    return y


@idiom
def spectrum(x):
    f = np.fft.rfft(x)
    f[1:] *= np.exp(1j * np.fft.rfftfreq(4)[1:])
    return np.fft.irfft(f, 4)


@idiom
def image(x):
    im = x.reshape(2, 2)
    p, out = np.pad(im, 1, mode="edge"), np.zeros_like(im)
    for i, j in itertools.product(range(3), range(3)):
        out += (i + 2 * j) * p[i : i + 2, j : j + 2]
    return np.hypot(out, 1.0)


@idiom
def dynamic_time_warping(x):
    y = np.array([0.1, 0.2])
    d = np.full((5, 3), np.inf, like=x)
    d[0, 0] = 0.0
    for i, j in itertools.product(range(4), range(2)):
        d[i + 1, j + 1] = abs(x[i] - y[j]) + min(d[i, j], d[i, j + 1], d[i + 1, j])
    return d[4, 2]


@idiom
def conjugate_gradients(x):
    a, y = np.diag(x**2 + 5) + 0.3, np.zeros(4)
    r = np.ones(4) - a @ y
    p, rs = r.copy(), r @ r
    for _ in range(10):
        ap = a @ p
        alpha = rs / (p @ ap)
        y, r = y + alpha * p, r - alpha * ap
        if np.sqrt(r @ r) < 1e-12:
            break
        p, rs = r + (r @ r) / rs * p, r @ r
    return y


@idiom
def pivoting(x):
    a = np.hstack([x.reshape(2, 2) + 3 * np.eye(2)[::-1], np.eye(2)])
    for i in range(2):
        p = i + np.argmax(np.abs(a[i:, i]))
        if p != i:
            a[[i, p]] = a[[p, i]]
        a[i] /= a[i, i]
        for j in range(2):
            if j != i:
                a[j] -= a[j, i] * a[i]
    return a[:, 2:]


@idiom
def newton_to_tolerance(x):
    y = 1.0
    while abs(y * y - x[2]) > 1e-13:
        y = y - (y * y - x[2]) / (2 * y)
    return y * x


@dataclasses.dataclass
class Model:
    scale: float
    rate: np.ndarray

    def __call__(self, x):
        return self.scale * np.tanh(self.rate * x)


@idiom
def model(x):
    return dataclasses.replace(Model(x[0], x[1:]), scale=x[1])(x[1:])


class State:
    def __init__(self):
        self.total, self.seen = 0.0, []

    def add(self, v):
        self.total += v
        self.seen.append(self.total)
        return self


@idiom
def objects_with_state(x):
    s = State()
    for v in x:
        s.add(v * v)
    return s.total * s.seen[0]


@idiom
def generators(x):
    def products(x):
        p = 1.0
        for v in x:
            p = p * v
            yield p

    return sum(products(x)) + functools.reduce(lambda a, b: a * b + 1, x)


@idiom
def containers(x):
    recent, total, heap = collections.deque(maxlen=2), 0.0, []
    for k, v in enumerate(x):
        recent.append(v)
        total += sum(recent)
        heapq.heappush(heap, (float(-k), v))
    return total * heap[0][1]


@idiom
def fallback(x):
    try:
        root = np.linalg.cholesky(np.diag(x))
    except np.linalg.LinAlgError:
        root = np.linalg.cholesky(np.diag(x) + 2 * np.eye(4))
    return np.log(np.diag(root))


@idiom
def bubble_sort(x):
    x = x.copy()
    for i in range(4):
        for j in range(3 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x * np.arange(4)


@idiom
def masks(x):
    y = x.copy()
    y[y < 0] = 0.0
    y[y > 1] **= 2
    return y + x[x > 0].sum()


@idiom
def random_numbers_with_a_seed(x):
    return np.mean(np.exp(np.random.default_rng(0).normal(size=(10, 4)) * x), 0)


@idiom
def entry_by_entry(x):
    return np.vectorize(lambda v: v**2 + 1 if v > 0 else -v)(x)


@idiom
def nested_derivative(x):
    return da.grad(lambda y: np.sum(np.sin(y * x)))(x) * da.vmap(lambda a: a * x[0])(x)


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom(name):
    f, t, h = IDIOMS[name], np.array([0.3, 0.8, 0.35, -1.3]), 1e-6
    value = f(V.copy())
    slope = (f(V + h * t) - f(V - h * t)) / (2 * h)
    got, tangent = da.jvp(f, (V,), (t,))
    np.testing.assert_allclose(got, value, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(tangent, slope, rtol=1e-6, atol=1e-8)
    w = np.cos(np.arange(np.size(value))).reshape(np.shape(value))
    total = lambda x: np.sum(w * f(x))
    gradient = da.grad(total)(V)
    assert gradient @ t == pytest.approx(np.sum(w * slope), rel=1e-6, abs=1e-8)
    lanes = da.vmap(da.grad(total))(np.stack([V, V + 0.01]))
    np.testing.assert_allclose(lanes, [gradient, da.grad(total)(V + 0.01)], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(da.grad(da.checkpoint(total))(V), gradient, rtol=1e-10, atol=1e-12)
    along = (da.grad(total)(V + h * t) - da.grad(total)(V - h * t)) / (2 * h)
    np.testing.assert_allclose(da.hvp(total, V, t), along, rtol=1e-5, atol=1e-6)


# ── random programs ──────────────────────────────────────────────────────────────────────────────────────────────


def _shifted(y):
    y = y.copy()
    y[1:] += y[:-1] * 0.5
    return y


def _product(y):
    y = y.copy()
    y[::2] *= y[1::2]
    return y


def _placed(y, q):
    z = np.zeros_like(y)
    z[np.argsort(y)] = y * q
    return z


def _rows(y):
    v = y.reshape(2, 2).copy()
    v[0] = v[0] * v[1]
    return v.T.ravel()


STEPS = [
    lambda y, q: np.sin(y) * q, lambda y, q: _shifted(y), lambda y, q: _product(y),
    lambda y, q: np.where(y > q, y**2, y), lambda y, q: y - y.mean(), lambda y, q: y / np.sqrt(1 + y @ y),
    lambda y, q: np.outer(y, q) @ y, lambda y, q: np.cumsum(y) * 0.5, lambda y, q: np.sort(y),
    lambda y, q: np.einsum("i,ij,j->i", y, np.outer(q, q), y) * 0.3, lambda y, q: np.exp(-y * y),
    lambda y, q: y * 2 if y[0] > q[0] else np.cos(y), _placed, lambda y, q: np.maximum(y, q) + np.abs(y),
    lambda y, q: np.convolve(y, q, "same") * 0.3,
    lambda y, q: np.real(np.fft.ifft(np.fft.fft(y) * np.exp(1j * q))),
    lambda y, q: np.linalg.solve(np.eye(4) + 0.1 * np.outer(y, y), q), lambda y, q: _rows(y),
    lambda y, q: np.concatenate([y[2:], y[:2] * q[:2]]),
]  # fmt: skip


def _program_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = [STEPS[i] for i in rng.integers(0, len(STEPS), size=rng.integers(3, 9))]
    c, x, t, h = rng.normal(size=(9, 4)), rng.normal(size=4), rng.normal(size=4), 1e-6

    def f(x):
        y = x * 1.0
        for step, q in zip(steps, c, strict=False):
            y = step(y, q)
        return np.sum(y * c[-1])

    gradient = da.grad(f)(x)
    size = 1 + np.abs(gradient).max()
    assert abs(gradient @ t - (f(x + h * t) - f(x - h * t)) / (2 * h)) < 1e-5 * size
    second = da.hessian(f)(x)
    size = 1 + np.abs(second).max()
    h = 1e-5
    along = (da.grad(f)(x + h * t) - da.grad(f)(x - h * t)) / (2 * h)
    assert np.abs(second @ t - along).max() < 1e-4 * size
    for other in (
        da.jacrev(da.grad(f))(x), da.hessian(da.checkpoint(f))(x), da.vmap(da.hessian(f))(np.stack([t, x]))[1],
        second.T,
    ):  # fmt: skip
        np.testing.assert_allclose(other, second, rtol=1e-8, atol=1e-8 * size)


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed):
    _program_agrees(seed)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_many_random_programs():
    for seed in range(20, 2000):
        _program_agrees(seed)
