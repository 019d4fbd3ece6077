"""Tables, graphs, sorting networks and grids as a student writes them: dynamic programmes, shortest paths, automata.

Each function takes arrays and returns arrays; ``@algorithm`` says its sizes and how its arguments are made. For: the
corpus of ``textbook.py``. Not for: doing it well.
"""

import numpy as np

from .textbook import algorithm


def costs(rng, n):
    return rng.uniform(0.2, 2.0, (n, n))


@algorithm(sizes=(2, 3, 5, 7, 9), make=lambda rng, n: (costs(rng, n),))
def floyd_warshall(W):
    D = W.copy()
    n = len(D)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                D[i, j] = np.minimum(D[i, j], D[i, k] + D[k, j])
    return D


@algorithm(sizes=(2, 4, 8, 16, 30), make=lambda rng, n: (costs(rng, n),))
def floyd_warshall_by_rows(W):
    D = W.copy()
    for k in range(len(D)):
        for i in range(len(D)):
            D[i] = np.minimum(D[i], D[i, k] + D[k])
    return D


@algorithm(sizes=(2, 3, 5, 7, 9), make=lambda rng, n: (costs(rng, n),))
def bellman_ford(W):
    n = len(W)
    d = np.full(n, 50.0, like=W)
    d[0] = 0.0
    for _ in range(n - 1):
        for u in range(n):
            for v in range(n):
                if u != v:
                    d[v] = np.minimum(d[v], d[u] + W[u, v])
    return d


@algorithm(sizes=(2, 4, 6, 9, 14), make=lambda rng, n: (costs(rng, n),))
def dijkstra_by_where(W):
    n = len(W)
    d = np.where(np.arange(n) == 0, 0.0, 50.0) + 0.0 * W[0]
    done = np.zeros(n, dtype=bool, like=W)
    for _ in range(n):
        u = np.argmin(np.where(done, np.inf, d))
        done = done | (np.arange(n) == u)
        d = np.where(done, d, np.minimum(d, d[u] + W[u]))
    return d


@algorithm(sizes=(2, 4, 6, 9, 13), make=lambda rng, n: (rng.random(n), rng.random(n + 1)))
def edit_distance(a, b):
    n, m = len(a), len(b)
    D = np.zeros((n + 1, m + 1), like=a)
    for i in range(1, n + 1):
        D[i, 0] = i * 0.3
    for j in range(1, m + 1):
        D[0, j] = j * 0.3
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            change = (a[i - 1] - b[j - 1]) ** 2
            D[i, j] = np.minimum(np.minimum(D[i - 1, j], D[i, j - 1]) + 0.3, D[i - 1, j - 1] + change)
    return D[n, m]


@algorithm(sizes=(2, 4, 6, 9, 13), make=lambda rng, n: (rng.random(n), rng.random(n + 1)))
def soft_common_subsequence(a, b):
    n, m = len(a), len(b)
    L = np.zeros((n + 1, m + 1), like=a)
    for i in range(n):
        for j in range(m):
            alike = np.exp(-4.0 * (a[i] - b[j]) ** 2)
            L[i + 1, j + 1] = np.maximum(np.maximum(L[i, j + 1], L[i + 1, j]), L[i, j] + alike)
    return L[n, m], L


@algorithm(sizes=(2, 4, 6, 9, 13), make=lambda rng, n: (rng.random(n), rng.random(n + 2)))
def time_warping(a, b):
    n, m = len(a), len(b)
    D = np.full((n + 1, m + 1), 1e6, like=a)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = np.abs(a[i - 1] - b[j - 1]) + np.minimum(np.minimum(D[i - 1, j], D[i, j - 1]), D[i - 1, j - 1])
    return D[n, m]


@algorithm(sizes=(2, 5, 9, 16, 30), make=lambda rng, n: (rng.random((n, 3)), rng.random((3, 3))))
def viterbi(scores, transitions):
    best = scores[0].copy()
    for t in range(1, len(scores)):
        new = np.zeros_like(best)
        for j in range(3):
            new[j] = np.max(best + transitions[:, j]) + scores[t, j]
        best = new
    return np.max(best)


@algorithm(sizes=(2, 5, 9, 16, 30), make=lambda rng, n: (rng.uniform(0.2, 1, (n, 3)), rng.uniform(0.1, 1, (3, 3))))
def forward_backward(emission, transition):
    n = len(emission)
    alpha, beta = np.zeros((n, 3), like=emission), np.ones((n, 3), like=emission)
    alpha[0] = emission[0] / np.sum(emission[0])
    for t in range(1, n):
        alpha[t] = emission[t] * (alpha[t - 1] @ transition)
        alpha[t] /= alpha[t].sum()
    for t in range(n - 2, -1, -1):
        beta[t] = transition @ (emission[t + 1] * beta[t + 1])
        beta[t] /= beta[t].sum()
    gamma = alpha * beta
    return gamma / gamma.sum(axis=1, keepdims=True)


@algorithm(sizes=(2, 3, 5, 8, 12), make=lambda rng, n: (rng.uniform(0.5, 2, n),))
def soft_knapsack(values):
    weights = [1 + (3 * i) % 5 for i in range(len(values))]
    best = np.zeros(9, like=values)
    for value, weight in zip(values, weights, strict=True):
        for c in range(8, weight - 1, -1):
            best[c] = np.logaddexp(best[c], best[c - weight] + value)
    return best


@algorithm(sizes=(2, 3, 5, 7, 9), make=lambda rng, n: (rng.uniform(1, 3, n + 1),))
def matrix_chain(p):
    n = len(p) - 1
    m = np.zeros((n, n), like=p)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            m[i, j] = 1e3
            for k in range(i, j):
                m[i, j] = np.minimum(m[i, j], m[i, k] + m[k + 1, j] + p[i] * p[k + 1] * p[j + 1])
    return m[0, n - 1]


@algorithm(sizes=(2, 4, 6, 9, 14), make=lambda rng, n: (costs(rng, n),))
def grid_path(C):
    n = len(C)
    D = C.copy()
    for i in range(n):
        for j in range(n):
            if i and j:
                D[i, j] += np.minimum(D[i - 1, j], D[i, j - 1])
            elif i:
                D[i, j] += D[i - 1, j]
            elif j:
                D[i, j] += D[i, j - 1]
    return D


@algorithm(sizes=(2, 4, 8, 16, 32), make=lambda rng, n: (rng.random(n),))
def bitonic_sort(x):
    x = x.copy()
    n, k = len(x), 2
    while k <= n:
        j = k // 2
        while j:
            for i in range(n):
                other = i ^ j
                if other > i:
                    low, high = np.minimum(x[i], x[other]), np.maximum(x[i], x[other])
                    if i & k:
                        low, high = high, low
                    x[i], x[other] = low, high
            j //= 2
        k *= 2
    return x


@algorithm(sizes=(2, 4, 7, 10, 16), make=lambda rng, n: (rng.random(n),))
def bubble_sort(x):
    x = list(x)
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            x[j], x[j + 1] = np.minimum(x[j], x[j + 1]), np.maximum(x[j], x[j + 1])
    return np.stack(x)


@algorithm(sizes=(2, 5, 9, 16, 30), make=lambda rng, n: (rng.random(n),))
def odd_even_sort(x):
    x = x.copy()
    for turn in range(len(x)):
        for i in range(turn % 2, len(x) - 1, 2):
            low, high = np.minimum(x[i], x[i + 1]), np.maximum(x[i], x[i + 1])
            x[i] = low
            x[i + 1] = high
    return x


@algorithm(sizes=(2, 4, 8, 16, 32), make=lambda rng, n: (rng.random(n),))
def prefix_scan(x):
    x = x.copy()
    n, d = len(x), 1
    while d < n:
        for i in range(2 * d - 1, n, 2 * d):
            x[i] += x[i - d]
        d *= 2
    while d > 1:
        d //= 2
        for i in range(3 * d - 1, n, 2 * d):
            x[i] += x[i - d]
    return x


@algorithm(sizes=(2, 5, 9, 14, 20), make=lambda rng, n: (rng.random(n), rng.random(4)))
def convolution(x, w):
    y = np.zeros(len(x) + len(w) - 1, like=x)
    for i in range(len(x)):
        for j in range(len(w)):
            y[i + j] += x[i] * w[j]
    return y


@algorithm(sizes=(3, 4, 5, 6, 8), make=lambda rng, n: (rng.random((n, n)), rng.random((2, 2))))
def convolution_of_images(X, w):
    n = len(X) - 1
    Y = np.zeros((n, n), like=X)
    for i in range(n):
        for j in range(n):
            for a in range(2):
                for b in range(2):
                    Y[i, j] += X[i + a, j + b] * w[a, b]
    return np.tanh(Y)


@algorithm(sizes=(2, 4, 8, 16, 32), make=lambda rng, n: (rng.random(n), rng.random(n)))
def fft_of_pairs(re, im):
    n = len(re)
    bits = n.bit_length() - 1
    order = [int(format(i, f"0{bits}b")[::-1], 2) for i in range(n)]
    re, im = re[order], im[order]
    size = 2
    while size <= n:
        for start in range(0, n, size):
            for k in range(size // 2):
                a, b = start + k, start + k + size // 2
                c, s = np.cos(2 * np.pi * k / size), -np.sin(2 * np.pi * k / size)
                tr, ti = c * re[b] - s * im[b], c * im[b] + s * re[b]
                re[b], im[b] = re[a] - tr, im[a] - ti
                re[a] += tr
                im[a] += ti
        size *= 2
    return re, im


@algorithm(sizes=(3, 5, 8, 12, 16), make=lambda rng, n: (rng.random(n),))
def cellular_automaton(x):
    n = len(x)
    for _ in range(6):
        new = np.zeros_like(x)
        for i in range(n):
            a, b, c = x[i - 1], x[i], x[(i + 1) % n]
            new[i] = a + c - 2.0 * a * c * b
        x = np.tanh(new)
    return x


@algorithm(sizes=(3, 4, 5, 6, 8), make=lambda rng, n: (rng.random((n, n)),))
def smooth_life(X):
    n = len(X)
    for _ in range(2):
        Y = X.copy()
        for i in range(n):
            for j in range(n):
                around = sum(X[(i + a) % n, (j + b) % n] for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))
                Y[i, j] = 1.0 / (1.0 + np.exp(-3.0 * (1.0 - (around - 3.0) ** 2 + X[i, j])))
        X = Y
    return X


@algorithm(sizes=(4, 6, 9, 14, 20), make=lambda rng, n: (rng.random(n),))
def heat(u):
    u = u.copy()
    for _ in range(8):
        old = u.copy()
        for i in range(1, len(u) - 1):
            u[i] = old[i] + 0.2 * (old[i - 1] - 2.0 * old[i] + old[i + 1])
    return u


@algorithm(sizes=(3, 4, 6, 8, 10), make=lambda rng, n: (rng.random((n, n)),))
def heat_in_the_plane_in_place(U):
    U = U.copy()
    for _ in range(3):
        for i in range(1, len(U) - 1):
            for j in range(1, len(U) - 1):
                U[i, j] = 0.25 * (U[i - 1, j] + U[i + 1, j] + U[i, j - 1] + U[i, j + 1])
    return U


@algorithm(sizes=(4, 6, 10, 16, 40), make=lambda rng, n: (rng.random(n), rng.random(n)))
def wave(u, before):
    for _ in range(12):
        new = np.zeros_like(u)
        new[1:-1] = 2 * u[1:-1] - before[1:-1] + 0.3 * (u[2:] - 2 * u[1:-1] + u[:-2])
        new[0], new[-1] = new[1], 0.0
        before, u = u, new
    return u


@algorithm(sizes=(3, 5, 8, 12, 20), make=lambda rng, n: (rng.random(n), rng.uniform(0.1, 0.6, n)))
def advection(u, c):
    u = u.copy()
    for _ in range(5):
        for i in range(len(u) - 1, 0, -1):
            u[i] -= c[i] * (u[i] - u[i - 1])
        u[0] = u[-1] * 0.5
    return u


@algorithm(sizes=(2, 4, 6, 10, 16), make=lambda rng, n: (rng.random(n),))
def pascal(x):
    n = len(x)
    T = np.zeros((n, n), like=x)
    for i in range(n):
        T[i, 0] = x[i]
        for j in range(1, i + 1):
            T[i, j] = 0.5 * (T[i - 1, j - 1] + T[i - 1, j]) + 0.1 * np.sin(x[j])
    return T


@algorithm(sizes=(2, 4, 8, 14, 24), make=lambda rng, n: (rng.normal(size=(n, n)),))
def sum_of_a_triangle(A):
    s = 0.0
    for i in range(len(A)):
        for j in range(i + 1):
            s += np.sin(A[i, j])
    return s


@algorithm(sizes=(2, 4, 8, 20, 50), make=lambda rng, n: (rng.random(n), rng.random(n)))
def writes_at_places(y, z):
    y, z = y.copy(), z.copy()
    for i in range(2 * len(y)):
        a, b = (7 * i) % len(y), (3 * i + 1) % len(y)
        z[a] += y[b] * 0.5
        y[b] += 0.1 * z[a]
    return y, z


@algorithm(sizes=(3, 5, 8, 14, 24), make=lambda rng, n: (rng.random(n), rng.uniform(0.1, 1, (n, n))))
def page_rank(r, W):
    n = len(r)
    P = W / W.sum(axis=0)
    for _ in range(5):
        new = np.full(n, 0.15 / n, like=r)
        for i in range(n):
            new[i] += 0.85 * np.dot(P[i], r)
        r = new / np.sum(new)
    return r


@algorithm(sizes=(2, 4, 6, 9, 13), make=lambda rng, n: (costs(rng, n), rng.random(n)))
def value_iteration(C, V):
    for _ in range(4):
        new = V.copy()
        for s in range(len(V)):
            new[s] = np.min(C[s] + 0.9 * V)
        V = new
    return V
