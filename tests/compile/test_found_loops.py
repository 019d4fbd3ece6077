"""Textbook loops that write in place, compiled: values, gradients and Hessians are those of eager code.

Each was wrong once. That their loops are found, and proven, is asked as well; a loop that is not found takes long to
compile, one that is wrong raises here (``trust.STRICT``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import dualad as da
from dualad.compile.reroll import reroll, rolled_loops
from dualad.compile.simplify import simplify
from dualad.compile.validate import check_same
from dualad.program.ir import Program
from dualad.scipy.integrate import solve_ivp
from tests.adversaries import textbook_matrices
from tests.adversaries.textbook_models import pair_forces, verlet
from tests.adversaries.textbook_tables import floyd_warshall_by_rows

# ── factorisations ───────────────────────────────────────────────────────────────────────────────────────────────


def givens(a):
    a = a.copy()
    for j in range(len(a)):
        for i in range(len(a) - 1, j, -1):
            r = np.hypot(a[i - 1, j], a[i, j])
            c, s = a[i - 1, j] / r, a[i, j] / r
            upper = c * a[i - 1] + s * a[i]
            a[i] = c * a[i] - s * a[i - 1]
            a[i - 1] = upper
    return a


def lu_by_rows(a):
    a = a.copy()
    for k in range(len(a)):
        for i in range(k + 1, len(a)):
            a[i] -= a[i, k] / a[k, k] * a[k]
    return a


def gram_schmidt(a):
    q = a.copy()
    for i in range(len(q)):
        for j in range(i):
            q[i] -= np.dot(q[i], q[j]) * q[j]
        q[i] /= np.sqrt(np.sum(q[i] ** 2))
    return q


# ── particles ────────────────────────────────────────────────────────────────────────────────────────────────────


def pair_energy(x):
    total = 0.0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            d = x[i] - x[j]
            total = total + 1.0 / np.sqrt(np.sum(d * d) + 0.1)
    return total


def verlet_from_rest(x):
    return verlet(x, np.zeros_like(x))[0]


# ── places of a table ────────────────────────────────────────────────────────────────────────────────────────────

ROWS = [(3 * k * k + k) % 7 for k in range(90)]


def two_arrays(x):
    z, y = 0.5 * x[:7], x[:7].copy()
    for a in ROWS:
        z[a] += y[a] * x[a + 1]
        y[a] += 0.1
    return np.stack([z, y])


def whole_and_entry(x):
    z, y = np.zeros_like(x), x.copy()
    for a in ROWS:
        z[a] += np.sum(y) * 0.1
        y[a] += 0.1 * z[(a + 2) % 9]
    return z * y


def copies(x):
    y, s = x.copy(), 0.0
    for k in ROWS:
        y = y.copy()
        s = s + 0.5 * y[(k + 1) % 7]
        y[k] += np.sin(s)
    return y


def triangle(a):
    s = 0.0
    for i in range(len(a)):
        for j in range(i + 1):
            s += np.sin(a[i, j])
    return s


def all_entries(a):
    s = 0.0
    for i in range(len(a)):
        for j in range(len(a)):
            s += np.sin(a[i, j])
    return s


def matrix(n: int) -> np.ndarray:
    return np.random.default_rng(n).uniform(0.3, 1.7, (n, n)) + 2 * np.eye(n)


def points(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 2))


NUMBERS = np.random.default_rng(9).uniform(size=9)

#: function, argument, derivatives that are compared, whether loops are found
CASES: dict[str, tuple[Callable, np.ndarray, str, bool]] = {
    "givens 9": (givens, matrix(9), "grad", True),
    "givens 13": (givens, matrix(13), "value", True),
    "lu by rows 10": (lu_by_rows, matrix(10), "grad", True),
    "lu by rows 12": (lu_by_rows, matrix(12), "value grad", True),
    "lu in place 12": (textbook_matrices.lu_by_rows, matrix(12), "value grad", True),
    "gram schmidt 12": (gram_schmidt, matrix(12), "grad", True),
    "floyd warshall 8": (floyd_warshall_by_rows, matrix(8), "value grad", True),
    "forces of 6": (pair_forces, points(6), "grad hessian", True),
    "forces of 8": (pair_forces, points(8), "value grad", False),
    "forces of 10": (pair_forces, points(10), "value grad", True),
    "forces of 12": (pair_forces, points(12), "value", True),
    "energy of 6": (pair_energy, points(6), "grad hessian", True),
    "verlet": (verlet_from_rest, points(7), "value grad", True),
    "two arrays": (two_arrays, NUMBERS, "value grad hessian", True),
    "a whole and an entry": (whole_and_entry, NUMBERS, "value grad hessian", True),
    "copies": (copies, NUMBERS[:7], "value grad hessian", True),
    "triangle of 32": (triangle, matrix(32), "value grad", True),
    "entries of 51": (all_entries, matrix(51), "value", True),
}
RUNS = [(name, way) for name, case in CASES.items() for way in case[2].split()]


def derived(f: Callable, way: str) -> Callable:
    total = lambda x: np.sum(np.sin(f(x)))
    return {"value": f, "grad": da.grad(total), "hessian": da.hessian(total)}[way]


@pytest.mark.parametrize(("name", "way"), RUNS)
def test_loops_are_found_and_proven(name, way):
    f, x, ways, is_found = CASES[name]
    traced = da.trace(derived(f, way), x)
    program = Program(traced.inputs, traced.steps, traced.outputs, traced.name)
    found = reroll(simplify(program))
    check_same(program, found)
    assert bool(rolled_loops(found)) == is_found or way != ways.split()[-1]


@pytest.mark.parametrize("native", ["0", "1"])
@pytest.mark.parametrize(("name", "way"), RUNS)
def test_they_compute_what_eager_code_computes(name, way, native, monkeypatch):
    monkeypatch.setenv("DUALAD_NATIVE", native)
    f, x = CASES[name][:2]
    g = derived(f, way)
    assert np.allclose(da.jit(g)(x), g(x), rtol=1e-11, atol=1e-11)


def test_an_adjoint_of_forces_of_pairs_is_the_derivative():
    def end(x, sensitivity):
        def motion(t, y):
            x, v = y.reshape(2, 10, 2)
            return np.concatenate([v, -0.2 * pair_forces(x) - 0.1 * x]).reshape(-1)

        start = np.concatenate([x, np.zeros_like(x)]).reshape(-1)
        solution = solve_ivp(motion, (0.0, 0.4), start, rtol=1e-8, atol=1e-10, sensitivity=sensitivity)
        return np.sum(solution.y[:20, -1] ** 2)

    x, u = points(10), np.random.default_rng(1).normal(size=(10, 2))
    slope = (end(x + 1e-5 * u, "adjoint") - end(x - 1e-5 * u, "adjoint")) / 2e-5
    assert abs(np.sum(da.grad(end)(x, "adjoint") * u) - slope) < 1e-6 * abs(slope)
