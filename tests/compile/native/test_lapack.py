"""Eigenvectors, singular vectors, Q and R of small matrices in compiled programs: NumPy's, with their signs.

Random matrices, structured ones in which rounding decides signs, ones without an answer, loops, and derivatives. Not
for: what decompositions are, or stacks of them (`test_source_block_stacks.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.compile.native.foreign import CALLED, address_of

pytest.importorskip("llvmlite", reason="decompositions are machine code where llvmlite is installed")


def symmetric(a: Any) -> Any:
    return a + a.T


WAYS: dict[str, Callable] = {
    "eigh": lambda a: np.linalg.eigh(symmetric(a)),
    "eigh, upper": lambda a: np.linalg.eigh(symmetric(a), "U"),
    "eigvalsh": lambda a: (np.linalg.eigvalsh(symmetric(a)), a),
    "svd": lambda a: np.linalg.svd(a, full_matrices=False),
    "svd, full": lambda a: np.linalg.svd(a),
    "svd, wide": lambda a: np.linalg.svd(a[:2], full_matrices=False),
    "svd, tall": lambda a: np.linalg.svd(a[:, :2]),
    "svdvals": lambda a: (np.linalg.svd(a, compute_uv=False), a),
    "qr": lambda a: np.linalg.qr(a),
    "qr, wide": lambda a: np.linalg.qr(a[:2]),
    "qr, tall": lambda a: np.linalg.qr(a[:, :2]),
    "qr, complete": lambda a: np.linalg.qr(a[:, :2], "complete"),
}


def total(way: str) -> Callable:
    return lambda a: sum([np.sum(np.sin(x) * (i + 1.3)) for i, x in enumerate(WAYS[way](a))])


def structured(rng: np.random.Generator, n: int, kind: int) -> np.ndarray:
    """Make matrices in which signs, zeros and equal entries are met."""
    a = rng.integers(-2, 3, (n, n)) * 1.0
    if kind == 1:
        a = np.triu(a)
    elif kind == 2:
        a[:, -1] = a[:, 0]
    elif kind == 3:
        a = a * (rng.random((n, n)) < 0.4) * -0.0 + a * (rng.random((n, n)) < 0.5)
    elif kind == 4:
        a = rng.normal(size=(n, n)) * 10.0 ** rng.integers(-160, 160)
    elif kind == 5:
        a = np.eye(n)[rng.permutation(n)] * rng.choice([-1.0, 1.0], n)
    return a


def test_numpys_loops_are_found_where_they_are_known() -> None:
    assert all(map(address_of, CALLED))


@pytest.mark.parametrize("n", [1, 3, *[pytest.param(n, marks=pytest.mark.full) for n in (2, 4, 7, 16)]])
@pytest.mark.parametrize("way", WAYS)
def test_results_and_derivatives_are_numpys_machine_code(way: str, n: int) -> None:
    a = np.random.default_rng(n).normal(size=(n, n)) + np.diag(np.arange(1.0, n + 1))
    functions = [lambda a: [x * 2 for x in WAYS[way](a)]]
    if way != "qr, complete" or n < 4:  # what spans the rest has no motion of its own
        functions.append(da.grad(total(way)))
    for f in functions:
        fast = da.jit(f)
        for x, y in zip(da.tree.flatten(fast(a))[0], da.tree.flatten(f(a))[0], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-8)
        left = str(fast.explain(a)).partition("left to NumPy and Python:")[2]
        assert not any([name in left for name in ("eig", "svd", "qr")]) and (n > 7 or "einsum" not in left)


@pytest.mark.parametrize("way", ["eigh", "svd", "qr", "qr, wide", "qr, complete"])
def test_signs_are_numpys_where_rounding_may_decide_them(way: str) -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 4):
        fast = da.jit(lambda a: [x * 2 for x in WAYS[way](a)])
        for k in range(120):
            a = structured(rng, n, k % 6)
            for x, y in zip(fast(a), WAYS[way](a), strict=True):
                np.testing.assert_allclose(x, 2 * y, rtol=1e-8, atol=1e-8 * max(1, np.max(np.abs(y))))


@pytest.mark.parametrize("way", ["eigh", "svd"])
def test_a_matrix_without_an_answer_raises_as_numpy_does(way: str) -> None:
    fast = da.jit(lambda a: [x * 2 for x in WAYS[way](a)])
    fast(np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(np.linalg.LinAlgError):
        fast(np.full((3, 3), np.nan))
    np.testing.assert_allclose(fast(np.eye(3))[0], 2 * WAYS[way](np.eye(3))[0])


def test_equal_values_are_moved_apart_if_that_is_asked_for() -> None:
    f = da.jit(lambda a: np.sum(np.linalg.eigvalsh((a + a.T) / 2) ** 3))
    f(np.diag([1.0, 2.0]))
    second = da.at_equal_values(da.hessian(f))(np.eye(2))
    np.testing.assert_allclose(
        second, da.hessian(lambda a: np.trace(np.linalg.matrix_power((a + a.T) / 2, 3)))(np.eye(2))
    )


@pytest.mark.parametrize("way", ["eigh", "svd", "qr"])
def test_loops_are_machine_code(way: str) -> None:
    a = np.random.default_rng(5).normal(size=(3, 3)) + np.diag([1.0, 2.0, 3.0])
    b = np.diag([0.5, 0.0, -0.3])  # vectors of a multiple of a matrix are its own, and have no derivative to compare

    def run(c: Any) -> Any:
        def turn(c: Any, _: None) -> tuple:
            first, second, *_ = WAYS[way](a * c + b)
            return np.cos(0.3 * c + first.ravel()[0]), second.ravel()[0]

        return np.sum(da.scan(turn, c, None, length=6)[1])

    for f in (run, da.grad(run), da.grad(da.grad(run))):
        fast = da.jit(f)
        np.testing.assert_allclose(fast(0.7), f(0.7), rtol=1e-8)
        assert not str(fast.explain(0.7)).partition("left to NumPy and Python:")[2]
