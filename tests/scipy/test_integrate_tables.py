"""Tables of explicit methods: the conditions of order for every rooted tree, in exact arithmetic, and what they give.

With b for the weights, a tree t of order |t| asks for Σ bᵢ Φᵢ(t) = 1/γ(t); weights of an error, for 0 up to the order
of the embedded method; weights of the dense output at x, for x^|t|/γ(t) (Hairer, Nørsett, Wanner, II.2 and II.6).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si

import dualad as da
from dualad.scipy.integrate import solve_ivp
from dualad.scipy.integrate.runge_kutta import EXPLICIT
from dualad.scipy.integrate.tables import Tsit5, Vern7

#: the table, its order, that of each of its errors, and that of its dense output
TABLES = {
    "RK23": (si.RK23, 3, {"E": 2}, 3),
    "RK45": (si.RK45, 5, {"E": 4}, 4),
    "DOP853": (si.DOP853, 8, {"E5": 5, "E3": 3}, None),
    "Tsit5": (Tsit5, 5, {"E": 4}, 4),
    "Vern7": (Vern7, 7, {"E": 6}, 6),
}


@functools.cache
def trees(order: int) -> list[tuple]:
    """Return the rooted trees of an order, each as the sorted tuple of what hangs on its root."""
    found = set()
    for count in range(order):
        for sizes in itertools.combinations_with_replacement(range(1, order), count):
            if sum(sizes) == order - 1:
                found |= {tuple(sorted(t)) for t in itertools.product(*map(trees, sizes))}
    return sorted(found)


def order_of(tree: tuple) -> int:
    return 1 + sum(map(order_of, tree))


def density(tree: tuple) -> int:
    return order_of(tree) * math.prod(map(density, tree))


class Stages:
    """The elementary weights of all stages, exactly, and of the same table with absolute values."""

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        self.rows = [[Fraction(float(a)) for a in row] for row in rows]
        self._known: dict[Any, list] = {}

    def weights(self, tree: tuple, size: bool) -> list:
        if (tree, size) not in self._known:
            out = [Fraction(1)] * len(self.rows)
            for branch in tree:
                inner = self.weights(branch, size)
                rows = [[abs(a) for a in row] for row in self.rows] if size else self.rows
                terms = [sum([a * w for a, w in zip(row, inner, strict=False)]) for row in rows]
                out = [o * t for o, t in zip(out, terms, strict=True)]
            self._known[tree, size] = out
        return self._known[tree, size]

    def misses(self, b: Sequence[float], order: int, part: Fraction | None) -> list[tuple]:
        """Return the trees up to an order for which Σ bᵢ Φᵢ is not ``part^|t| / γ``, up to rounding of each number."""
        b, wrong = [Fraction(float(w)) for w in b], []
        for n in range(1, order + 1):
            for tree in trees(n):
                wanted = Fraction(0) if part is None else part**n / density(tree)
                value = sum([w * phi for w, phi in zip(b, self.weights(tree, False), strict=False)])
                size = sum([abs(w) * phi for w, phi in zip(b, self.weights(tree, True), strict=False)])
                if abs(value - wanted) > 2 * n * size * Fraction(2) ** -53:
                    wrong.append(tree)
        return wrong


def test_how_many_trees() -> None:
    assert [len(trees(n)) for n in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]


@pytest.mark.parametrize("name", TABLES)
def test_conditions_of_order(name: str) -> None:
    table, order, errors, dense = TABLES[name]
    count = len(table.B)
    rows = [list(row[:i]) for i, row in enumerate(table.A[:count])]
    np.testing.assert_allclose([math.fsum(row) for row in rows], table.C[:count], atol=1e-14)
    stages = Stages([*rows, list(table.B), *getattr(table, "A_EXTRA", ())])
    assert not stages.misses(table.B, order, Fraction(1))
    assert stages.misses(table.B, order + 1, Fraction(1))
    for which, of_order in errors.items():
        assert not stages.misses(getattr(table, which), of_order, None)
        assert stages.misses(getattr(table, which), of_order + 1, None)
    for part in (Fraction(3, 8), Fraction(3, 4)) if dense else ():
        weights = [sum([Fraction(float(p)) * part ** (j + 1) for j, p in enumerate(row)]) for row in table.P]
        rough = 2e-15 * np.max(np.abs(table.P))  # of the sums of these numbers, which are large and cancel
        for n in range(1, dense + 1):
            for tree in trees(n):
                value = sum([w * phi for w, phi in zip(weights, stages.weights(tree, False), strict=False)])
                assert abs(value - part**n / density(tree)) < rough, tree


def growth(t: Any, y: Any, rate: Any = 1.0) -> Any:
    return rate * y * np.cos(t)


def test_verner_converges_with_order_seven_inside_of_steps_too() -> None:
    pytest.importorskip("llvmlite", reason="the loop is machine code where llvmlite is installed")
    times = np.array([0.97, 3.1, 5.03, 6.0])
    exact = np.exp(np.sin(times))
    run = lambda rate, **how: solve_ivp(growth, (0.0, 6.0), [1.0], "Vern7", times, args=(rate,), **how).y[0]
    fixed = lambda n: run(1.0, rtol=1.0, atol=1e9, first_step=6 / n, max_step=6 / n)
    rates = np.log2(abs(fixed(24) - exact) / abs(fixed(48) - exact))
    assert np.all((rates > 6.7) & (rates < 7.3)), rates
    for tol in (1e-6, 1e-9, 1e-12):
        assert np.max(abs(run(1.0, rtol=tol, atol=tol) - exact)) < 10 * tol
    tight = lambda rate: run(rate, rtol=1e-11, atol=1e-11)
    for derivative in (da.jacfwd(tight), da.jit(da.jacrev(tight))):
        np.testing.assert_allclose(derivative(1.0), np.sin(times) * exact, rtol=1e-9)


def test_every_method_of_ours_has_its_table_tested() -> None:
    assert set(EXPLICIT) == set(TABLES)
