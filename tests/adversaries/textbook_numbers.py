"""Quadrature, interpolation, recurrences, filters and time steps as a student writes them in NumPy.

Each function takes arrays and returns arrays; ``@algorithm`` says its sizes and how its arguments are made. For: the
corpus of ``textbook.py``. Not for: doing it well.
"""

import math

import numpy as np

from .textbook import algorithm


def vector(rng, n):
    return (rng.uniform(-1.0, 1.0, n),)


def nodes(rng, n):
    return np.arange(n) + rng.uniform(0.0, 0.3, n), rng.normal(size=n), np.array(n / 2 + 0.1)


@algorithm(sizes=(1, 4, 20, 100, 400), make=lambda rng, n: (*vector(rng, n), np.array(0.7)))
def horner(c, x):
    s = 0.0
    for a in c[::-1]:
        s = s * x + a
    return s


@algorithm(sizes=(2, 4, 20, 100, 250), make=lambda rng, n: (*vector(rng, n), np.array(0.3)))
def clenshaw(c, x):
    b1 = b2 = 0.0
    for k in range(len(c) - 1, 0, -1):
        b1, b2 = 2.0 * x * b1 - b2 + c[k], b1
    return x * b1 - b2 + c[0]


@algorithm(sizes=(2, 3, 6, 10, 15), make=nodes)
def divided_differences(x, y, t):
    c = y.copy()
    n = len(x)
    for j in range(1, n):
        for i in range(n - 1, j - 1, -1):
            c[i] = (c[i] - c[i - 1]) / (x[i] - x[i - j])
    p = c[n - 1]
    for k in range(n - 2, -1, -1):
        p = p * (t - x[k]) + c[k]
    return p, c


@algorithm(sizes=(2, 3, 6, 10, 15), make=nodes)
def neville(x, y, t):
    p = list(y)
    n = len(x)
    for j in range(1, n):
        for i in range(n - j):
            p[i] = ((t - x[i + j]) * p[i] + (x[i] - t) * p[i + 1]) / (x[i] - x[i + j])
    return p[0]


@algorithm(sizes=(2, 4, 7, 12, 20), make=nodes, tolerance=1e-7)
def lagrange(x, y, t):
    s = 0.0
    for i in range(len(x)):
        w = 1.0
        for j in range(len(x)):
            if i != j:
                w *= (t - x[j]) / (x[i] - x[j])
        s += w * y[i]
    return s


@algorithm(sizes=(2, 4, 7, 12, 20), make=lambda rng, n: (rng.random((n, 2)), np.array(0.35)))
def de_casteljau(points, t):
    p = points.copy()
    n = len(p)
    for r in range(1, n):
        for i in range(n - r):
            p[i] = (1.0 - t) * p[i] + t * p[i + 1]
    return p[0]


@algorithm(sizes=(3, 5, 10, 30, 80), make=lambda rng, n: (rng.uniform(0.5, 1.5, n), rng.normal(size=n + 1)))
def cubic_spline(h, y):
    n = len(h)
    mu, z, m = np.zeros(n, like=h), np.zeros(n, like=h), np.zeros(n + 1, like=h)
    for i in range(1, n):
        slope = 3.0 * ((y[i + 1] - y[i]) / h[i] - (y[i] - y[i - 1]) / h[i - 1])
        below = 2.0 * (h[i] + h[i - 1]) - h[i - 1] * mu[i - 1]
        mu[i] = h[i] / below
        z[i] = (slope - h[i - 1] * z[i - 1]) / below
    for j in range(n - 1, -1, -1):
        m[j] = z[j] - mu[j] * m[j + 1]
    return m


@algorithm(sizes=(2, 5, 20, 80, 200), make=lambda rng, n: (rng.uniform(0.1, 0.3, n), rng.random(n + 1)))
def trapezoid(h, y):
    s = 0.0
    for i in range(len(h)):
        s += 0.5 * h[i] * (np.sin(y[i]) + np.sin(y[i + 1]))
    return s


@algorithm(sizes=(2, 4, 20, 60, 120), make=lambda rng, n: (np.array([0.2, 1.7]), np.array(1.3), n))
def simpson(ends, a, n):
    n = 2 * n
    h = (ends[1] - ends[0]) / n
    s = np.exp(-a * ends[0] ** 2) + np.exp(-a * ends[1] ** 2)
    for i in range(1, n):
        s += (4 if i % 2 else 2) * np.exp(-a * (ends[0] + i * h) ** 2)
    return s * h / 3.0


@algorithm(sizes=(1, 2, 3, 4, 6), make=lambda rng, n: (np.array([0.2, 1.7]), np.array(1.3), n))
def romberg(ends, a, n):
    R = np.zeros((n + 1, n + 1), like=ends)
    f = lambda t: np.cos(a * t) / (1.0 + t)
    h = ends[1] - ends[0]
    R[0, 0] = 0.5 * h * (f(ends[0]) + f(ends[1]))
    for i in range(1, n + 1):
        h = h / 2.0
        s = sum(f(ends[0] + (2 * k - 1) * h) for k in range(1, 2 ** (i - 1) + 1))
        R[i, 0] = 0.5 * R[i - 1, 0] + h * s
        for j in range(1, i + 1):
            R[i, j] = R[i, j - 1] + (R[i, j - 1] - R[i - 1, j - 1]) / (4**j - 1)
    return R[n, n]


@algorithm(sizes=(2, 4, 8, 20, 50), make=lambda rng, n: (np.array([0.2, 1.7]), np.array(1.3), n))
def gauss_quadrature(ends, a, n):
    t, w = np.polynomial.legendre.leggauss(n)
    half, middle = 0.5 * (ends[1] - ends[0]), 0.5 * (ends[0] + ends[1])
    s = 0.0
    for ti, wi in zip(t, w, strict=True):
        s += wi * np.exp(np.sin(a * (middle + half * ti)))
    return half * s


@algorithm(
    sizes=(2, 5, 20, 60, 150), make=lambda rng, n: (*vector(rng, n), np.array([0.3, 0.2, 0.1]), np.array([0.4, -0.2]))
)
def iir_filter(x, b, a):
    y = np.zeros_like(x)
    for n in range(len(x)):
        for k in range(len(b)):
            if n >= k:
                y[n] += b[k] * x[n - k]
        for k in range(len(a)):
            if n > k:
                y[n] -= a[k] * y[n - 1 - k]
    return y


@algorithm(sizes=(3, 6, 20, 60, 150), make=lambda rng, n: (*vector(rng, n), np.array([0.3, 0.2, 0.1])))
def fir_filter(x, h):
    y = []
    for n in range(len(x)):
        s = 0.0
        for k in range(len(h)):
            s = s + h[k] * x[max(n - k, 0)]
        y.append(s)
    return np.stack(y)


@algorithm(sizes=(2, 4, 8, 16, 40), make=lambda rng, n: (rng.normal(size=n), np.array([0.1, 0.2])))
def kalman(z, noise):
    x, P = np.zeros(2, like=z), np.eye(2, like=z)
    F, H = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([1.0, 0.0])
    out = np.zeros((len(z), 2), like=z)
    for t in range(len(z)):
        x = F @ x
        P = F @ P @ F.T + noise[0] * np.eye(2, like=z)
        K = P @ H / (H @ P @ H + noise[1])
        x = x + K * (z[t] - H @ x)
        P = P - np.outer(K, H @ P)
        out[t] = x
    return out


@algorithm(sizes=(2, 5, 20, 60, 150), make=vector)
def exponential_smoothing(x):
    level, trend = x[0], 0.0
    out = x.copy()
    for t in range(1, len(x)):
        before = level
        level = 0.3 * x[t] + 0.7 * (level + trend)
        trend = 0.2 * (level - before) + 0.8 * trend
        out[t] = level + trend
    return out


@algorithm(sizes=(1, 5, 20, 60, 120), make=lambda rng, n: (np.array([1.0, 0.5]), np.array(0.9), n))
def euler(y, a, n):
    y = y.copy()
    for _ in range(n):
        d = np.stack([y[1], -a * np.sin(y[0])])
        y += 0.05 * d
    return y


@algorithm(sizes=(1, 3, 8, 16, 30), make=lambda rng, n: (np.array([1.0, 0.5]), np.array(0.9), n))
def runge_kutta(y, a, n):
    f = lambda y: np.stack([y[0] * (a - y[1]), y[1] * (y[0] - 1.1)])
    h = 0.05
    for _ in range(n):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


@algorithm(sizes=(2, 5, 15, 40, 80), make=lambda rng, n: (np.array(0.5), np.array(0.9), n))
def adams(y, a, n):
    f = lambda y: a * y * (1.0 - y)
    h = 0.05
    ys = [y, y + h * f(y)]
    for _ in range(n):
        ys.append(ys[-1] + h * (1.5 * f(ys[-1]) - 0.5 * f(ys[-2])))
    return np.stack(ys)


@algorithm(sizes=(1, 4, 12, 30, 60), make=lambda rng, n: (np.array([1.0, 0.0, 1.0]), np.array([10.0, 28.0, 2.7]), n))
def lorenz(s, p, n):
    x, y, z = s
    for _ in range(n):
        x, y, z = (
            x + 0.01 * p[0] * (y - x),
            y + 0.01 * (x * (p[1] - z) - y),
            z + 0.01 * (x * y - p[2] * z),
        )
    return np.stack([x, y, z])


@algorithm(sizes=(1, 2, 4, 8, 20), make=lambda rng, n: (rng.uniform(0.5, 3.0, n),))
def newton_square_roots(a):
    out = np.zeros_like(a)
    for i in range(len(a)):
        x = a[i]
        for _ in range(5):
            x = 0.5 * (x + a[i] / x)
        out[i] = x
    return out


@algorithm(sizes=(1, 3, 8, 20, 40), make=lambda rng, n: (np.array(0.8), n))
def bessel_by_series(x, n):
    term, total = 1.0, 1.0
    for k in range(1, n + 1):
        term = -term * x * x / (4.0 * k * k)
        total += term
    return total


@algorithm(sizes=(2, 4, 8, 16, 30), make=lambda rng, n: (np.array(0.3), n))
def legendre_table(x, n):
    P = [1.0, x]
    for k in range(2, n):
        P.append(((2 * k - 1) * x * P[k - 1] - (k - 1) * P[k - 2]) / k)
    return np.stack([p + 0.0 * x for p in P])


@algorithm(sizes=(2, 4, 8, 16, 32), make=lambda rng, n: (rng.random(n),))
def haar_wavelets(x):
    out = x.copy()
    n = len(x)
    while n > 1:
        half = n // 2
        a = out[:n].copy()
        for i in range(half):
            out[i] = (a[2 * i] + a[2 * i + 1]) / math.sqrt(2.0)
            out[half + i] = (a[2 * i] - a[2 * i + 1]) / math.sqrt(2.0)
        n = half
    return out


@algorithm(sizes=(2, 4, 7, 10, 14), make=lambda rng, n: (rng.random(n),))
def cosine_transform(x):
    n = len(x)
    out = np.zeros(n, like=x)
    for k in range(n):
        for i in range(n):
            out[k] += x[i] * np.cos(np.pi * k * (i + 0.5) / n)
    return out


@algorithm(sizes=(2, 4, 6, 9, 14), make=lambda rng, n: (rng.uniform(0.1, 0.5, n), np.array(0.5)))
def levinson(r, r0):
    n = len(r)
    a = np.zeros(n, like=r)
    e = r0 + 1.0
    for k in range(n):
        acc = r[k]
        for j in range(k):
            acc -= a[j] * r[k - 1 - j]
        g = acc / e
        new = a.copy()
        new[k] = g
        for j in range(k):
            new[j] = a[j] - g * a[k - 1 - j]
        a = new
        e = e * (1.0 - g * g)
    return a


@algorithm(sizes=(3, 5, 10, 20, 40), make=lambda rng, n: (rng.uniform(80, 120, n), np.array([0.02, 0.2])))
def binomial_option(strikes, market):
    out = np.zeros_like(strikes)
    n = 4
    u = np.exp(market[1] * np.sqrt(1.0 / n))
    p = (np.exp(market[0] / n) - 1 / u) / (u - 1 / u)
    for q in range(len(strikes)):
        v = [np.maximum(strikes[q] - 100.0 * u ** (2 * j - n), 0.0) for j in range(n + 1)]
        for step in range(n, 0, -1):
            for j in range(step):
                v[j] = np.exp(-market[0] / n) * (p * v[j + 1] + (1.0 - p) * v[j])
        out[q] = v[0]
    return out
