"""Tracing: a function written down as a program.

Not for: the program form (`tests/program/`) or linear programs (`test_linearize.py`).
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualad as da
from dualad.errors import BranchError, OutputError, ShapeError, TreeError
from dualad.program.check import check
from dualad.transforms import backward
from tests import gaps
from tests.compose.zoo import ZOO
from tests.oracles.arrays import close, leaves


@pytest.mark.parametrize("name", [n for n, a in ZOO.items() if not a.branches])
def test_the_zoo_traced_computes_the_same(name: str) -> None:
    """Programs of whole functions are well-formed, run at other points, and print an equation a line."""
    animal = ZOO[name]
    rng = np.random.default_rng(3)
    first, second = animal.make(rng), animal.make(rng)
    f = lambda *a: animal.function(np, *a)
    program = da.trace(f, *first)
    check(program)
    close(leaves(program(*second)), leaves(f(*second)), name, rtol=1e-13)
    text = str(program)
    assert text.startswith("program ") and len(text.splitlines()) > len(program.equations)


@pytest.mark.parametrize("name", ["softmax", "rosenbrock", "solved", "attention", "pendulum"])
def test_programs_of_derivatives(name: str) -> None:
    """trace(jvp), trace(vjp), trace(vmap) and their derivatives."""
    animal = ZOO[name]
    rng = np.random.default_rng(4)
    args = animal.make(rng)
    f = lambda *a: np.sum(sum(np.sum(v) for v in leaves(animal.function(np, *a))))
    g = da.grad(f)
    program = da.trace(g, *args)
    check(program)
    close(program(*args), g(*args), name)
    close(da.vmap(program)(*[np.stack([a, a]) for a in args]), np.stack([g(*args)] * 2), name)
    close(da.jvp(program, args, args)[1], da.jvp(g, args, args)[1], name)


def test_arguments_keep_their_structure() -> None:
    program = da.trace(lambda p, *, k: {"out": p["a"] * k}, {"a": np.ones(2)}, k=3.0)
    got = program({"a": np.array([1.0, 2.0])}, k=2.0)
    assert got["out"].tolist() == [2.0, 4.0]
    with pytest.raises(TreeError, match="traced with"):
        program({"b": np.ones(2)}, k=2.0)
    with pytest.raises(TreeError):
        program({"a": np.ones(2)})
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        program({"a": np.ones(3)}, k=2.0)


@pytest.mark.parametrize(
    "f", [lambda x: x if x > 0 else -x, lambda x: [x for _ in range(int(x))], lambda x: 1.0 if x else 0.0]
)
def test_branches_on_values_are_refused(f) -> None:
    with pytest.raises((BranchError, TypeError)) as error:
        da.trace(f, 1.0)
    assert error.value.instead


def test_integers_and_booleans_are_staged_too() -> None:
    program = da.trace(lambda x, n: (np.argmax(x), x > 0, n + 1, np.where(x > 0, n, -n)), np.ones(3), 2)
    close(
        leaves(program(np.array([-1.0, 5.0, 2.0]), 7)),
        [np.int64(1), np.array([False, True, True]), np.int64(8), np.array([-7, 7, 7])],
        "trace",
    )


def test_outputs_without_a_number_are_refused() -> None:
    with pytest.raises(OutputError):
        da.trace(lambda x: "text", 1.0)


def test_text() -> None:
    """The text shows the name, the avals, the operators and short constants."""

    def damped(x):
        return np.exp(-x) * np.array([1.0, 2.0])

    text = str(da.trace(damped, np.zeros(2)))
    assert "damped" in text and "f64[2]" in text and "exp" in text and "[1.0, 2.0]" in text
    assert "3 equations" in repr(da.trace(damped, np.zeros(2)))


@given(data=st.data())
def test_reads_back_what_it_prints(data) -> None:
    """Random straight-line programs: str, read, str, and the same numbers."""
    unary = [
        np.sin,
        np.exp,
        np.tanh,
        np.negative,
        lambda v: v[::-1],
        lambda v: np.sum(v, keepdims=True) * v,
        lambda v: v.reshape(3, 1).T[0],
    ]
    binary = [
        np.add,
        np.multiply,
        np.maximum,
        lambda a, b: np.where(a > b, a, 2.0 * b),
        lambda a, b: np.stack([a, b])[1],
    ]
    plan = data.draw(
        st.lists(st.tuples(st.integers(0, 11), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8)
    )

    def f(x, y):
        values = [x, y]
        for k, i, j in plan:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(unary[k](a) if k < len(unary) else binary[k - len(unary)](a, b))
        return values[-1], values[len(values) // 2]

    x, y = np.array([0.1, -0.2, 0.3]), np.array([1.0, 0.5, -1.0])
    program = da.trace(f, x, y)
    again = pickle.loads(pickle.dumps(program))
    assert str(again) == str(program) == str(da.trace(f, x, y))
    close(leaves(again(x, y)), leaves(program(x, y)), "the program unpickled", rtol=0.0)
    close(leaves(program(x, y)), leaves(f(x, y)), "the program", rtol=1e-15)


@pytest.mark.xfail(strict=True, reason=gaps.PLACES["pole of a traced derivative"])
def test_a_traced_derivative_beside_a_pole_runs_without_a_warning() -> None:
    """The rules silence NumPy about infinite factors of a derivative; the program they are written into does not."""
    f = lambda x: np.where(x > 0, np.sqrt(np.abs(x)), 0.0)
    program = da.trace(da.grad(lambda x: np.sum(f(x))), np.ones(2))
    assert program(np.array([0.0, 4.0])).tolist() == [0.0, 0.25]


def test_a_reverse_pass_that_is_written_down_is_walked_once(monkeypatch) -> None:
    """No plain walk comes first: what it gives is not known to be free of NaN before the program runs."""
    walks = []
    plain = backward.backward
    monkeypatch.setattr(backward, "backward", lambda *args, **kwargs: walks.append(1) or plain(*args, **kwargs))
    da.trace(da.grad(lambda x: np.sum(np.sin(x) * np.cos(x) + x)), np.ones(3))
    assert len(walks) == 1
    da.grad(lambda x: np.sum(np.sin(x) * x))(np.ones(3))
    assert len(walks) == 2


def test_a_large_constant_is_copied_once_as_long_as_it_is_the_same() -> None:
    c = np.arange(100.0)

    def f(x):
        y = x * c + np.sin(x) * c
        c[0] += 5.0
        return y, x * c

    program = da.trace(f, np.ones(100))
    assert len(program.constants) == 2 and c[0] == 5.0
    c[:] = 7.0
    y, z = program(np.ones(100))
    assert y[0] == 0.0 and z[0] == 5.0 and z[1] == 1.0
    basis = da.trace(da.jacfwd(lambda x: np.sin(x) * x), np.ones(20))
    assert [k.shape for k in basis.constants] == [(20, 20)]
