"""Particles, clustering, networks and optimisers as a student writes them in NumPy.

Each function takes arrays and returns arrays; ``@algorithm`` says its sizes and how its arguments are made. For: the
corpus of ``textbook.py``. Not for: doing it well.
"""

import numpy as np

from .textbook import algorithm


def particles(rng, n):
    return (rng.uniform(0.0, 2.0, (n, 2)) + 1.5 * np.arange(n)[:, None],)


def moving(rng, n):
    return (*particles(rng, n), rng.normal(size=(n, 2)) * 0.1)


def _forces(q):
    F = np.zeros_like(q)
    for i in range(len(q)):
        for j in range(i + 1, len(q)):
            d = q[i] - q[j]
            r2 = np.sum(d * d) + 0.1
            f = d / r2**1.5
            F[i] += f
            F[j] -= f
    return F


@algorithm(sizes=(2, 3, 5, 10, 13), make=particles)
def pair_forces(q):
    return _forces(q)


@algorithm(sizes=(2, 3, 6, 8, 11), make=particles)
def pair_energy(q):
    E = 0.0
    for i in range(len(q)):
        for j in range(i):
            E += 1.0 / np.sqrt(np.sum((q[i] - q[j]) ** 2) + 0.01)
    return E


@algorithm(sizes=(2, 3, 4, 5, 7), make=moving)
def verlet(q, v):
    F = _forces(q)
    for _ in range(3):
        v = v + 0.05 * F
        q = q + 0.1 * v
        F = _forces(q)
        v = v + 0.05 * F
    return q, v


@algorithm(sizes=(2, 3, 4, 6, 8), make=moving)
def leapfrog_by_entries(q, v):
    q, v = q.copy(), v.copy()
    n = len(q)
    for _ in range(3):
        for i in range(n):
            for j in range(n):
                if i != j:
                    r = np.sqrt((q[j, 0] - q[i, 0]) ** 2 + (q[j, 1] - q[i, 1]) ** 2 + 0.05)
                    v[i, 0] += 0.01 * (q[j, 0] - q[i, 0]) / r**3
                    v[i, 1] += 0.01 * (q[j, 1] - q[i, 1]) / r**3
        for i in range(n):
            q[i] += 0.1 * v[i]
    return q, v


@algorithm(sizes=(2, 4, 7, 12, 20), make=lambda rng, n: (np.arange(n) * 1.0 + rng.uniform(-0.2, 0.2, n), rng.random(n)))
def springs(x, k):
    v = np.zeros_like(x)
    x = x.copy()
    for _ in range(5):
        f = np.zeros_like(x)
        for i in range(len(x) - 1):
            pull = k[i] * (x[i + 1] - x[i] - 1.0)
            f[i] += pull
            f[i + 1] -= pull
        v += 0.1 * f
        x += 0.1 * v
    return x


@algorithm(sizes=(2, 4, 6, 10, 16), make=lambda rng, n: (rng.normal(size=(n, 2)), rng.normal(size=(3, 2))))
def soft_k_means(X, C):
    for _ in range(2):
        top, bottom = np.zeros_like(C), np.zeros(3, like=X)
        for i in range(len(X)):
            w = np.exp(-np.sum((X[i] - C) ** 2, axis=1))
            w = w / w.sum()
            for k in range(3):
                top[k] += w[k] * X[i]
                bottom[k] += w[k]
        C = top / bottom[:, None]
    return C


@algorithm(
    sizes=(2, 4, 8, 16, 30), make=lambda rng, n: (rng.normal(size=n), np.array([-0.5, 0.7]), np.array([1.0, 1.5]))
)
def expectation_maximisation(x, mu, var):
    weight = np.array([0.5, 0.5])
    for _ in range(2):
        r = np.zeros((len(x), 2), like=x)
        for i in range(len(x)):
            for k in range(2):
                r[i, k] = weight[k] * np.exp(-0.5 * (x[i] - mu[k]) ** 2 / var[k]) / np.sqrt(var[k])
            r[i] /= np.sum(r[i])
        total = r.sum(axis=0)
        mu = (r * x[:, None]).sum(axis=0) / total
        var = (r * (x[:, None] - mu) ** 2).sum(axis=0) / total + 0.1
        weight = total / len(x)
    return mu, var, weight


def layers(rng, n):
    return rng.normal(size=(4, 3)), rng.normal(size=(3, 5)) * 0.5, rng.normal(size=(5, 1)) * 0.5, n


@algorithm(sizes=(1, 3, 10, 25, 40), make=layers)
def backpropagation_by_hand(X, W, V, n):
    for _ in range(n):
        H = np.tanh(X @ W)
        error = H @ V - 1.0
        dV = H.T @ error
        dW = X.T @ ((error @ V.T) * (1.0 - H * H))
        W = W - 0.05 * dW
        V = V - 0.05 * dV
    return W, V


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def cell(gates):
    weights = lambda rng, m: rng.normal(size=(gates * 4, m)) * 0.4
    return lambda rng, n: (rng.normal(size=(n, 3)), weights(rng, 3), weights(rng, 4))


@algorithm(sizes=(1, 3, 6, 12, 24), make=cell(4))
def lstm(X, W, U):
    h, c = np.zeros(4, like=X), np.zeros(4, like=X)
    for x in X:
        z = W @ x + U @ h
        i, f, o, g = _sigmoid(z[:4]), _sigmoid(z[4:8]), _sigmoid(z[8:12]), np.tanh(z[12:])
        c = f * c + i * g
        h = o * np.tanh(c)
    return h, c


@algorithm(sizes=(1, 3, 6, 12, 24), make=cell(3))
def gru(X, W, U):
    h = np.zeros(4, like=X)
    hs = np.zeros((len(X), 4), like=X)
    for t in range(len(X)):
        a, b = W @ X[t], U @ h
        r, u = _sigmoid(a[:4] + b[:4]), _sigmoid(a[4:8] + b[4:8])
        h = u * h + (1 - u) * np.tanh(a[8:] + r * b[8:])
        hs[t] = h
    return hs


@algorithm(sizes=(2, 3, 5, 8, 12), make=lambda rng, n: tuple(rng.normal(size=(3, n, 4))))
def attention_by_loops(Q, K, V):
    n = len(Q)
    out = np.zeros_like(V)
    for i in range(n):
        s = np.zeros(n, like=Q)
        for j in range(n):
            s[j] = Q[i] @ K[j] / 2.0
        w = np.exp(s - np.max(s))
        w /= np.sum(w)
        for j in range(n):
            out[i] += w[j] * V[j]
    return out


@algorithm(sizes=(3, 5, 8, 14, 24), make=lambda rng, n: (np.array([1.0, 0.5]), np.linspace(0, 1, n), rng.random(n)))
def levenberg_marquardt(p, t, y):
    for _ in range(2):
        A, g = 0.1 * np.eye(2, like=p), np.zeros(2, like=p)
        for i in range(len(t)):
            e = np.exp(-p[1] * t[i])
            row = np.stack([e, -p[0] * t[i] * e])
            r = p[0] * e - y[i]
            A += np.outer(row, row)
            g += row * r
        p = p - np.linalg.solve(A, g)
    return p


@algorithm(sizes=(2, 3, 4, 6, 9), make=lambda rng, n: (rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 2.0, n)))
def bfgs(x, a):
    gradient = lambda x: a * np.sinh(x)
    H = np.eye(len(x), like=x) * 0.3
    g = gradient(x)
    for _ in range(4):
        s = -H @ g
        x = x + s
        new = gradient(x)
        y = new - g
        rho = 1.0 / (y @ s)
        M = np.eye(len(x), like=x) - rho * np.outer(s, y)
        H = M @ H @ M.T + rho * np.outer(s, s)
        g = new
    return x


@algorithm(
    sizes=(2, 4, 8, 16, 40), make=lambda rng, n: (rng.normal(size=n), rng.normal(size=(8, n)), rng.normal(size=8))
)
def stochastic_descent(w, X, y):
    w = w.copy()
    m = np.zeros_like(w)
    for _ in range(3):
        for i in range(len(y)):
            g = (X[i] @ w - y[i]) * X[i]
            m = 0.9 * m + 0.1 * g
            w -= 0.05 * m
    return w


@algorithm(sizes=(1, 2, 5, 20, 60), make=lambda rng, n: (rng.normal(size=4), n))
def adam(x, n):
    m, v = np.zeros_like(x), np.zeros_like(x)
    x = x.copy()
    for t in range(1, n + 1):
        g = 4.0 * x**3 - 2.0 * x
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        x -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
    return x


@algorithm(sizes=(2, 4, 6, 9, 14), make=lambda rng, n: (rng.normal(size=n), np.array([0.5, 1.2])))
def kernel_matrix(x, p):
    n = len(x)
    K = np.zeros((n, n), like=x)
    for i in range(n):
        for j in range(i, n):
            K[i, j] = p[0] * np.exp(-((x[i] - x[j]) ** 2) / p[1])
            K[j, i] = K[i, j]
        K[i, i] += 0.1
    return K


@algorithm(sizes=(2, 4, 7, 12, 20), make=lambda rng, n: (rng.normal(size=(n, 3)),))
def covariance_by_loops(X):
    n, d = X.shape
    mean = np.zeros(d, like=X)
    for row in X:
        mean += row / n
    C = np.zeros((d, d), like=X)
    for row in X:
        for a in range(d):
            for b in range(d):
                C[a, b] += (row[a] - mean[a]) * (row[b] - mean[b]) / n
    return C


@algorithm(sizes=(3, 5, 9, 16, 30), make=lambda rng, n: (rng.normal(size=n), np.array(0.9)))
def hopfield(s, beta):
    W = np.outer(np.cos(np.arange(len(s))), np.cos(np.arange(len(s))))
    s = s.copy()
    for _ in range(2):
        for i in range(len(s)):
            s[i] = np.tanh(beta * (W[i] @ s - W[i, i] * s[i]))
    return s


@algorithm(sizes=(2, 4, 6, 10, 16), make=lambda rng, n: (rng.uniform(0.1, 1, n), rng.uniform(0.1, 1, n)))
def sinkhorn(a, b):
    n = len(a)
    K = np.exp(-np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / 2.0)
    u, v = np.ones(n, like=a), np.ones(n, like=a)
    for _ in range(4):
        for i in range(n):
            u[i] = a[i] / (K[i] @ v)
        for j in range(n):
            v[j] = b[j] / (K[:, j] @ u)
    return u[:, None] * K * v
