"""Linear algebra as a student writes it in NumPy: factorisations, eigenvalues, stationary methods, determinants.

Each function takes arrays and returns arrays; ``@algorithm`` says its sizes and how its arguments are made. For: the
corpus of ``textbook.py``. Not for: doing it well.
"""

import numpy as np

from .textbook import algorithm


def dominant(rng, n):
    return rng.uniform(-1.0, 1.0, (n, n)) + n * np.eye(n)


def general(rng, n):
    return rng.uniform(-1.0, 1.0, (n, n)) + 1.5 * np.eye(n)


def spd(rng, n):
    a = rng.uniform(-1.0, 1.0, (n, n))
    return a @ a.T + n * np.eye(n)


def symmetric(rng, n):
    a = rng.uniform(-1.0, 1.0, (n, n))
    return 0.5 * (a + a.T) + np.diag(np.arange(1.0, n + 1))


@algorithm(sizes=(2, 3, 6, 10, 14), make=lambda rng, n: (dominant(rng, n),))
def lu_by_rows(A):
    A = A.copy()
    n = len(A)
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] = A[i, k] / A[k, k]
            A[i, k + 1 :] -= A[i, k] * A[k, k + 1 :]
    return A


@algorithm(sizes=(2, 3, 5, 7, 9), make=lambda rng, n: (dominant(rng, n),))
def lu_by_entries(A):
    n = len(A)
    L, U = np.eye(n, like=A), np.zeros((n, n), like=A)
    for i in range(n):
        for j in range(i, n):
            U[i, j] = A[i, j] - sum(L[i, k] * U[k, j] for k in range(i))
        for j in range(i + 1, n):
            L[j, i] = (A[j, i] - sum(L[j, k] * U[k, i] for k in range(i))) / U[i, i]
    return L, U


@algorithm(sizes=(2, 4, 6, 9, 12), make=lambda rng, n: (general(rng, n),))
def lu_with_pivots(A):
    A = A.copy()
    n = len(A)
    for k in range(n - 1):
        p = k + np.argmax(np.abs(A[k:, k]))
        row = A[p].copy()
        A[p] = A[k]
        A[k] = row
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            A[i, k + 1 :] -= A[i, k] * A[k, k + 1 :]
    return A


@algorithm(sizes=(2, 4, 6, 8, 11), make=lambda rng, n: (spd(rng, n),))
def cholesky(A):
    n = len(A)
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s = s - L[i, k] * L[j, k]
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
    return L


@algorithm(sizes=(2, 4, 6, 9, 13), make=lambda rng, n: (spd(rng, n),))
def ldl(A):
    n = len(A)
    L, d = np.eye(n, like=A), np.zeros(n, like=A)
    for j in range(n):
        d[j] = A[j, j] - np.sum(L[j, :j] ** 2 * d[:j])
        for i in range(j + 1, n):
            L[i, j] = (A[i, j] - np.sum(L[i, :j] * L[j, :j] * d[:j])) / d[j]
    return L, d


@algorithm(sizes=(2, 4, 6, 9, 13), make=lambda rng, n: (general(rng, n),))
def givens_qr(A):
    R = A.copy()
    n = len(R)
    Q = np.eye(n, like=A)
    for j in range(n):
        for i in range(n - 1, j, -1):
            r = np.hypot(R[i - 1, j], R[i, j])
            c, s = R[i - 1, j] / r, R[i, j] / r
            G = np.stack([np.stack([c, s]), np.stack([-s, c])])
            R[i - 1 : i + 1] = G @ R[i - 1 : i + 1]
            Q[:, i - 1 : i + 1] = Q[:, i - 1 : i + 1] @ G.T
    return Q, R


@algorithm(sizes=(2, 3, 5, 8, 12), make=lambda rng, n: (general(rng, n),))
def givens_by_rows(A):
    R = A.copy()
    n = len(R)
    for j in range(n - 1):
        for i in range(j + 1, n):
            r = np.sqrt(R[j, j] ** 2 + R[i, j] ** 2)
            c, s = R[j, j] / r, R[i, j] / r
            top, low = R[j].copy(), R[i].copy()
            R[j] = c * top + s * low
            R[i] = c * low - s * top
    return R


@algorithm(sizes=(2, 4, 7, 12, 20), make=lambda rng, n: (general(rng, n),))
def householder_qr(A):
    R = A.copy()
    n = len(R)
    Q = np.eye(n, like=A)
    for k in range(n - 1):
        v = R[k:, k].copy()
        v[0] += np.copysign(np.linalg.norm(v), v[0])
        v = v / np.linalg.norm(v)
        R[k:, k:] -= 2.0 * np.outer(v, v @ R[k:, k:])
        Q[:, k:] -= 2.0 * np.outer(Q[:, k:] @ v, v)
    return Q, R


@algorithm(sizes=(2, 4, 6, 9, 14), make=lambda rng, n: (general(rng, n),))
def gram_schmidt(A):
    n = A.shape[1]
    Q, R = np.zeros_like(A), np.zeros((n, n), like=A)
    for j in range(n):
        v = A[:, j].copy()
        for i in range(j):
            R[i, j] = Q[:, i] @ A[:, j]
            v -= R[i, j] * Q[:, i]
        R[j, j] = np.sqrt(np.sum(v * v))
        Q[:, j] = v / R[j, j]
    return Q, R


@algorithm(sizes=(2, 4, 6, 9, 14), make=lambda rng, n: (general(rng, n),))
def modified_gram_schmidt(A):
    V = A.copy()
    n = V.shape[1]
    for i in range(n):
        V[:, i] /= np.sqrt(V[:, i] @ V[:, i])
        for j in range(i + 1, n):
            V[:, j] -= (V[:, i] @ V[:, j]) * V[:, i]
    return V


@algorithm(sizes=(2, 4, 6, 9, 12), make=lambda rng, n: (dominant(rng, n),))
def gauss_jordan(A):
    n = len(A)
    M = np.hstack([A, np.eye(n, like=A)])
    for k in range(n):
        M[k] /= M[k, k]
        for i in range(n):
            if i != k:
                M[i] -= M[i, k] * M[k]
    return M[:, n:]


@algorithm(
    sizes=(2, 5, 12, 40, 100), make=lambda rng, n: (*rng.uniform(-1, 1, (2, n)), rng.uniform(3, 4, n), rng.random(n))
)
def thomas(lower, upper, diagonal, rhs):
    n = len(rhs)
    c, d, x = np.zeros(n, like=lower), np.zeros(n, like=lower), np.zeros(n, like=lower)
    c[0], d[0] = upper[0] / diagonal[0], rhs[0] / diagonal[0]
    for i in range(1, n):
        m = diagonal[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / m
        d[i] = (rhs[i] - lower[i] * d[i - 1]) / m
    x[n - 1] = d[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    return x


@algorithm(sizes=(2, 4, 8, 16, 28), make=lambda rng, n: (dominant(rng, n), rng.random(n)))
def back_substitution(U, b):
    n = len(b)
    x = np.zeros(n, like=U)
    for i in reversed(range(n)):
        x[i] = b[i]
        for j in range(i + 1, n):
            x[i] -= U[i, j] * x[j]
        x[i] /= U[i, i]
    return x


@algorithm(sizes=(2, 3, 5, 8, 12), make=lambda rng, n: (symmetric(rng, n), rng.uniform(0.5, 1.5, n)))
def power_iteration(A, v):
    for _ in range(30):
        v = A @ v
        v = v / np.linalg.norm(v)
    return v @ A @ v, v


@algorithm(sizes=(2, 3, 4, 5, 6), make=lambda rng, n: (spd(rng, n), rng.uniform(0.5, 1.5, n)))
def inverse_iteration(A, v):
    for _ in range(12):
        v = np.linalg.solve(A, v)
        v /= np.sqrt(np.sum(v**2))
    return v @ (A @ v)


@algorithm(sizes=(2, 3, 4, 5, 6), make=lambda rng, n: (symmetric(rng, n),))
def qr_iteration(A):
    for _ in range(8):
        Q, R = np.linalg.qr(A)
        A = R @ Q
    return np.diag(A)


@algorithm(sizes=(2, 3, 4, 5, 6), make=lambda rng, n: (symmetric(rng, n),))
def jacobi_eigenvalues(A):
    A = A.copy()
    n = len(A)
    for _ in range(3):
        for p in range(n):
            for q in range(p + 1, n):
                angle = 0.5 * np.arctan2(2.0 * A[p, q], A[q, q] - A[p, p])
                c, s = np.cos(angle), np.sin(angle)
                rows_p, rows_q = A[p].copy(), A[q].copy()
                A[p], A[q] = c * rows_p - s * rows_q, s * rows_p + c * rows_q
                columns_p, columns_q = A[:, p].copy(), A[:, q].copy()
                A[:, p], A[:, q] = c * columns_p - s * columns_q, s * columns_p + c * columns_q
    return np.diag(A)


@algorithm(sizes=(2, 4, 6, 8, 12), make=lambda rng, n: (dominant(rng, n), rng.random(n)))
def gauss_seidel(A, b):
    x = np.zeros_like(b)
    for _ in range(4):
        for i in range(len(b)):
            x[i] = (b[i] - A[i, :i] @ x[:i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


@algorithm(sizes=(2, 4, 6, 8, 12), make=lambda rng, n: (dominant(rng, n), rng.random(n)))
def successive_over_relaxation(A, b):
    x, omega = np.zeros_like(b), 1.1
    for _ in range(3):
        for i in range(len(b)):
            sigma = 0.0
            for j in range(len(b)):
                if j != i:
                    sigma += A[i, j] * x[j]
            x[i] = (1 - omega) * x[i] + omega / A[i, i] * (b[i] - sigma)
    return x


@algorithm(sizes=(2, 4, 8, 12, 20), make=lambda rng, n: (dominant(rng, n), rng.random(n)))
def jacobi_iteration(A, b):
    x = b.copy()
    for _ in range(6):
        new = x.copy()
        for i in range(len(b)):
            new[i] = (b[i] - A[i] @ x + A[i, i] * x[i]) / A[i, i]
        x = new
    return x


@algorithm(sizes=(2, 4, 8, 16, 30), make=lambda rng, n: (spd(rng, n), rng.random(n)))
def conjugate_gradients(A, b):
    x = np.zeros_like(b)
    r = b.copy()
    p = r.copy()
    for _ in range(min(8, len(b))):
        Ap = A @ p
        alpha = (r @ r) / (p @ Ap)
        x += alpha * p
        new = r - alpha * Ap
        p = new + (new @ new) / (r @ r) * p
        r = new
    return x


def _minors(A):
    if len(A) == 1:
        return A[0, 0]
    total = 0.0
    for j in range(len(A)):
        total += (-1) ** j * A[0, j] * _minors(np.hstack([A[1:, :j], A[1:, j + 1 :]]))
    return total


@algorithm(sizes=(1, 2, 3, 4, 5), make=lambda rng, n: (general(rng, n),))
def determinant_by_minors(A):
    return _minors(A)


@algorithm(sizes=(2, 3, 5, 7, 9), make=lambda rng, n: (dominant(rng, n),))
def determinant_by_bareiss(A):
    M = A.copy()
    n, before = len(A), 1.0
    for k in range(n - 1):
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                M[i, j] = (M[i, j] * M[k, k] - M[i, k] * M[k, j]) / before
        before = M[k, k]
    return M[n - 1, n - 1]


@algorithm(sizes=(2, 3, 4, 5, 6), make=lambda rng, n: (general(rng, n),))
def permanent(A):
    n = len(A)
    total = 0.0
    for subset in range(1, 2**n):
        columns = [j for j in range(n) if subset >> j & 1]
        product = 1.0
        for i in range(n):
            row = 0.0
            for j in columns:
                row += A[i, j]
            product *= row
        total += (-1) ** (n - len(columns)) * product
    return total


@algorithm(sizes=(2, 4, 6, 8, 10), make=lambda rng, n: (general(rng, n), general(rng, n)))
def product_by_entries(A, B):
    n = len(A)
    C = np.zeros_like(A)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] += A[i, k] * B[k, j]
    return C


def _strassen(A, B):
    n = len(A)
    if n == 1:
        return A * B
    h = n // 2
    a, b, c, d = A[:h, :h], A[:h, h:], A[h:, :h], A[h:, h:]
    e, f, g, k = B[:h, :h], B[:h, h:], B[h:, :h], B[h:, h:]
    p1, p2, p3 = _strassen(a, f - k), _strassen(a + b, k), _strassen(c + d, e)
    p4, p5, p6, p7 = _strassen(d, g - e), _strassen(a + d, e + k), _strassen(b - d, g + k), _strassen(a - c, e + f)
    C = np.zeros_like(A)
    C[:h, :h], C[:h, h:] = p5 + p4 - p2 + p6, p1 + p2
    C[h:, :h], C[h:, h:] = p3 + p4, p1 + p5 - p3 - p7
    return C


@algorithm(sizes=(1, 2, 4, 4, 8), make=lambda rng, n: (general(rng, n), general(rng, n)))
def strassen(A, B):
    return _strassen(A, B)


@algorithm(sizes=(2, 3, 4, 6, 8), make=lambda rng, n: (dominant(rng, n),))
def newton_schulz_inverse(A):
    X = A.T / (np.sum(np.abs(A), axis=0).max() * np.sum(np.abs(A), axis=1).max())
    for _ in range(8):
        X = X @ (2.0 * np.eye(len(A), like=A) - A @ X)
    return X


@algorithm(sizes=(3, 4, 6, 8, 11), make=lambda rng, n: (symmetric(rng, n),))
def hessenberg(A):
    H = A.copy()
    n = len(H)
    for k in range(n - 2):
        v = H[k + 1 :, k].copy()
        v[0] += np.copysign(np.sqrt(v @ v), v[0])
        v /= np.sqrt(v @ v)
        H[k + 1 :, :] -= 2.0 * np.outer(v, v @ H[k + 1 :, :])
        H[:, k + 1 :] -= 2.0 * np.outer(H[:, k + 1 :] @ v, v)
    return H


@algorithm(sizes=(2, 4, 6, 10, 15), make=lambda rng, n: (symmetric(rng, n), rng.uniform(0.5, 1.5, n)))
def lanczos(A, q):
    m = min(len(q), 6)
    alpha, beta = np.zeros(m, like=A), np.zeros(m, like=A)
    q = q / np.linalg.norm(q)
    before = np.zeros_like(q)
    for k in range(m - 1):
        w = A @ q - (beta[k - 1] * before if k else 0.0)
        alpha[k] = w @ q
        w -= alpha[k] * q
        beta[k] = np.sqrt(w @ w + 1e-3)
        before, q = q, w / beta[k]
    return alpha, beta
