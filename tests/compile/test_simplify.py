"""Simplification: fewer equations, the same bits; strong zeros and the signs of zeros stay."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile import names as naming
from dualad.compile.simplify import simplify
from dualad.compile.validate import DifferentProgram, check_same
from dualad.ops.indexing import ARRAY
from dualad.ops.indexing import index as index_op

X = np.array([-0.0, 0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])
ONES = np.array([1.0, 1, 1, 1, 1, 1, 0.5])
BACK = np.array([5, -1, 0, 3, 3, 2, 1])


def index(x, places):
    """Read at places that the program knows, as those of sparse matrices are."""
    return index_op(x, places, template=(ARRAY,))


def names(f, *args) -> list[str]:
    return [e.op.name for e in simplify(da.trace(f, *args)).equations]


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: np.sin(x) + np.sin(x), ["sin", "add"]),
        (lambda x: (np.cos(x), np.sin(x))[1], ["sin"]),
        (lambda x: np.negative(-x), []),
        (lambda x: x * 1.0, []),
        (lambda x: (x * 1) / 1, []),
        (lambda x: x + 0.0, ["add"]),
        (lambda x: x * 0.0, ["multiply"]),
        (lambda x: x.reshape(7, 1).reshape(1, 7).reshape(7), ["reshape"]),
        (lambda x: x.copy()[...].astype(float), []),
        (lambda x: np.zeros_like(x) + x, ["add"]),
        (lambda x: np.broadcast_to(x[2], (7,)) * x, ["index", "multiply"]),
        (lambda x: np.stack([x[0], x[1]])[1], ["index"]),
        (lambda x: x**2, ["square"]),
        (lambda x: x * np.ones(7) / np.ones((7,)), []),
        (lambda x: x * ONES, ["multiply"]),
        (lambda x: index(x, np.arange(7)), []),
        (lambda x: index(x, np.arange(6)), ["index"]),
        (lambda x: index(index(x, BACK), np.array([-1, 2, 2, 0])), ["index"]),
        (lambda x: index(index(index(x, BACK), BACK), BACK), ["index"]),
        (lambda x: index(np.sin(index(x, BACK)), BACK), ["index", "sin", "index"]),
    ],
)
def test_what_goes(f, expected, numpy_backend) -> None:
    assert names(f, X) == expected
    with np.errstate(all="ignore"):
        found, wanted = np.asarray(da.jit(f)(X)), np.asarray(f(X))
    assert np.array_equal(found, wanted, equal_nan=True) and np.array_equal(np.signbit(found), np.signbit(wanted))


def test_the_basis_of_a_jacobian_is_not_multiplied() -> None:
    a = np.arange(12.0).reshape(3, 4) / 7
    f = da.jacfwd(lambda x, a: np.tanh(a @ x))
    x = np.linspace(0, 1, 4)
    low = da.jit(f).lower(x, a)
    assert sum(e.op.name == "matmul" for e in low.program.equations) == 2
    assert sum(e.op.name == "matmul" for e in low.optimised.equations) == 1
    np.testing.assert_allclose(da.jit(f)(x, a), f(x, a), rtol=1e-12)


def test_complex_infinities_are_not_simplified() -> None:
    z = np.array([np.inf + 0j, 1 + 1j])
    f = lambda z: z * 1.0
    with np.errstate(all="ignore"):
        assert np.array_equal(da.jit(f)(z), f(z), equal_nan=True)


def test_places_that_are_not_there_stay_an_error() -> None:
    f = lambda x: index(index(x, np.array([0, 9, 1])), np.array([0, 2]))
    with pytest.raises(IndexError):
        f(X)
    with pytest.raises(IndexError):
        da.jit(f)(X)


def test_bodies_of_loops_are_simplified() -> None:
    f = lambda x: da.fori_loop(0, 5, lambda i, c: np.sin(c) * 1.0 + np.sin(c), x)
    (scan,) = simplify(da.trace(f, 0.5)).equations
    assert [e.op.name for e in scan.params["body"].equations] == ["sin", "add"]


def test_equal_numbers_of_different_types_stay_apart() -> None:
    f = lambda x: (x + 1, x + True, x + 1.0, x + np.float64(1), x * -0.0, x * 0.0)
    x = np.array([1, 2], np.float32)
    for a, b in zip(da.jit(f)(x), f(x), strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b) and np.array_equal(np.signbit(a), np.signbit(b))


def test_errors_of_constants_are_raised_when_the_program_runs() -> None:
    f = lambda x: x + np.linalg.inv(np.zeros_like(x))
    fast = da.jit(f)
    with pytest.raises(np.linalg.LinAlgError):
        fast(np.eye(2))


def test_a_proof_does_not_depend_on_what_was_named_before(monkeypatch):
    """Joins of many entries were followed until names ran out: in one program those of others than in the next."""
    monkeypatch.setattr(naming, "_MANY", naming.SMALL + 2)
    x = np.linspace(0.1, 0.7, naming.SMALL + 1)

    def joins(x):
        dead = np.concatenate([np.cos(x[1:]), x[:1]])
        return np.concatenate([np.sin(x[:-1]), x[-1:]]) * 1.0 + 0 * dead[0], np.concatenate([x[2:], x[:2]])[::-1]

    program = da.trace(joins, x)
    check_same(program, simplify(program))
    for other in (lambda x: joins(x)[::-1], lambda x: (joins(x)[0], np.concatenate([x[2:], x[1::-1]])[::-1])):
        with pytest.raises(DifferentProgram):
            check_same(program, da.trace(other, x))
