"""How often a function is run, row by row of docs/explanation/when-functions-run-again.md, and what is put back.

Not for: what the runs compute.
"""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.errors import UnsupportedError

X = np.array([0.3, 0.4, 0.5])
MATRIX = np.eye(2)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "when-functions-run-again.md"


class Counted:
    """A function that counts its runs."""

    def __init__(self, f) -> None:
        self.f, self.runs = f, 0

    def __call__(self, *args):
        self.runs += 1
        return self.f(*args)


def smooth(x):
    return np.sum(np.sin(x) * x)


def writes(x, base):
    base[0] = x[0]
    return np.sum(base * x)


def converts(x):
    return np.sum(np.asarray(x, float) ** 2)


def copies(x):
    new = MATRIX[0].copy()
    new[1] = x[0]
    return np.sum(new)


def unites(x):
    return np.sum(np.union1d(x, x))


def refused(f) -> None:
    with pytest.raises(UnsupportedError):
        f(X)


def branches(x):
    return x * 2.0 if x > 0.4 else x * 3.0


def cubes(a):
    return np.sum(np.linalg.eigvalsh((a + a.T) / 2) ** 3)


def pole(x):
    return np.sum(np.where(x > 0, np.sqrt(np.abs(x)), 0.0))


def pulled(pullback, times: int) -> None:
    for _ in range(times):
        pullback(1.0)


def in_debug(f) -> None:
    with da.debug(values=True):
        da.grad(f)(X)


def compiled_twice(f) -> None:
    fast = da.jit(f)
    fast(X)
    fast(X + 1.0)


#: the row's key in the page -> function, what is done with it, number of its runs
ROWS = {
    "a derivative": (smooth, lambda f: da.grad(f)(X), 1),
    "a Jacobian or a Hessian": (smooth, lambda f: da.hessian(f)(X), 1),
    "a pullback that is used again": (smooth, lambda f: pulled(da.vjp(f, X)[1], 3), 1),
    "a gradient next to a pole": (pole, lambda f: da.grad(f)(np.array([0.0, 1.0])), 1),
    "a Jacobian in chunks, forward": (np.sin, lambda f: da.jacfwd(f, chunk_size=1)(X), 3),
    "a write into a plain argument": (writes, lambda f: da.grad(f)(X, np.ones(3)), 2),
    "a conversion that is refused": (converts, lambda f: da.grad(f)(X), 2),
    "a write into a new array that no name of NumPy's made": (copies, lambda f: da.grad(f)(X), 3),
    "a refusal that lifting does not cure": (unites, lambda f: refused(da.grad(f)), 2),
    "lanes that disagree": (branches, lambda f: da.vmap(f)(X), 3),
    "the first call of `jit`": (smooth, lambda f: da.jit(f)(X), 2),
    "later calls of `jit`": (smooth, compiled_twice, 2),
    "`checkpoint`": (smooth, lambda f: da.grad(da.checkpoint(f))(X), 2),
    "a pullback of a `checkpoint`, three times": (
        smooth, lambda f: pulled(da.vjp(da.checkpoint(f), X)[1], 3), 4,
    ),
    "`at_equal_values`, where values coincide": (cubes, lambda f: da.at_equal_values(da.hessian(f))(MATRIX), 9),
    "`at_equal_values`, elsewhere": (cubes, lambda f: da.at_equal_values(da.hessian(f))(np.diag([1.0, 2.0])), 1),
    "`debug(values=True)`": (smooth, in_debug, 2),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS)
def test_how_often_it_runs_is_what_the_page_says(row: str) -> None:
    f, use, runs = ROWS[row]
    importlib.import_module("dualad.lift.by_itself")._known.clear()  # what other rows have shown of Counted
    counted = Counted(f)
    use(counted)
    assert counted.runs == runs
    said = re.search(rf"^\| {re.escape(row)} \| (\d+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert said is not None and int(said[1]) == runs


def test_the_page_has_no_other_rows() -> None:
    rows = re.findall(r"^\| (.+?) \| \d+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == list(ROWS)


# ── what is put back ─────────────────────────────────────────────────────────────────────────────────────────────


def test_arguments_are_put_back_before_lanes_run_in_groups() -> None:
    seen = np.zeros(1)

    def f(x, seen):
        seen += 1.0
        return branches(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        da.vmap(f, (0, None))(X, seen)
    assert seen.tolist() == [2.0]  # once for each group, and not for the run that was given up


def test_arguments_are_put_back_before_each_run_at_equal_values() -> None:
    scale = np.ones(1)

    def hessian(a, scale):
        scale *= 2.0
        return da.hessian(cubes)(a) * scale[0]

    expected = 2.0 * da.at_equal_values(da.hessian(cubes))(MATRIX)
    np.testing.assert_allclose(da.at_equal_values(hessian)(MATRIX, scale), expected, rtol=1e-12)
    assert scale.tolist() == [2.0]


def test_what_is_outside_is_done_each_time() -> None:
    log = []

    def f(x, base):
        log.append(len(log))
        return writes(x, base)

    base = np.ones(3)
    da.grad(f)(X, base)
    assert log == [0, 1] and base.tolist() == [1.0, 1.0, 1.0]


def test_a_compiled_gradient_leaves_the_arguments_of_others_as_they_were():
    """What a function writes into an argument of a transform around it is its own, as it is into a plain array."""

    def f(x, y):
        y[0] = x[0] * 2
        return np.sum(x * y)

    x, y = np.array([1.0, 2.0]), np.ones(2)
    for slope in (da.grad(f), da.jit(da.grad(f)), da.jit(lambda x, y: da.value_and_grad(f)(x, y)[1])):
        for _ in range(2):
            np.testing.assert_array_equal(slope(x, y), [4.0, 1.0])
            np.testing.assert_array_equal(y, [1.0, 1.0])
    slope, after = da.jit(lambda x, y: (da.grad(f)(x, y), y * 2))(x, y)
    np.testing.assert_array_equal(slope, [4.0, 1.0])
    np.testing.assert_array_equal(after, [2.0, 2.0])
    lanes = da.jit(da.vmap(lambda v, y: f(v, y), in_axes=(0, None)))(np.stack([x, 2 * x]), y)
    np.testing.assert_array_equal(lanes, [4.0, 12.0])
