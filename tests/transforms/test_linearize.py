"""Linearization: the program, what it keeps, how deep it may be.

Not for: walking it backwards (`test_vjp_via_transpose.py`).
"""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import dualad as da
from dualad.errors import DtypeError, OutputError, ShapeError, TreeError
from dualad.program.check import check, check_linear
from tests import gaps


def test_linearize_once_apply_many() -> None:
    """Lin(v) equals jvp for several v, and the function runs once."""
    calls = []

    def f(x):
        calls.append(1)
        return np.sin(x) * np.exp(-x)

    x = np.array([0.1, 0.2, 0.7])
    value, lin = da.linearize(f, x)
    np.testing.assert_array_equal(value, np.sin(x) * np.exp(-x))
    tangents = [np.eye(3)[i] for i in range(3)] + [np.ones(3), np.zeros(3)]
    results = [lin(t) for t in tangents]
    assert len(calls) == 1
    for t, result in zip(tangents, results, strict=True):
        np.testing.assert_allclose(result, da.jvp(f, (x,), (t,))[1], rtol=1e-14)


def test_bad_tangents_of_a_linear_map_are_refused() -> None:
    """Wrong shape ValueError, wrong dtype TypeError, wrong tree TypeError."""
    _, lin = da.linearize(lambda x, p: x * p["a"], np.ones(2), {"a": 3.0})
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        lin(np.ones(3), {"a": 1.0})
    with pytest.raises(DtypeError, match="float32"):
        lin(np.ones(2, np.float32), {"a": 1.0})
    for bad in ((np.ones(2),), (np.ones(2), {"b": 1.0}), (np.ones(2), 1.0, 1.0)):
        with pytest.raises(TreeError, match="tangents"):
            lin(*bad)
    np.testing.assert_array_equal(lin(np.ones(2), {"a": None}), [3.0, 3.0])


def test_the_linear_map_goes_under_every_transform() -> None:
    x = np.array([0.3, 0.4])
    _, lin = da.linearize(lambda v: np.sin(v) * v[0], x)
    J = da.jacfwd(lambda v: np.sin(v) * v[0])(x)
    np.testing.assert_allclose(da.vmap(lin)(np.eye(2)).T, J, rtol=1e-14)
    np.testing.assert_allclose(da.jacrev(lin)(np.ones(2)), J, rtol=1e-14)
    np.testing.assert_allclose(da.linear_transpose(lin, x)(np.array([1.0, 0.0]))[0], J[0], rtol=1e-14)
    np.testing.assert_allclose(da.jvp(lin, (x,), (np.ones(2),))[1], J @ np.ones(2), rtol=1e-14)


def test_linearize_under_other_transforms() -> None:
    """The point itself may be a tensor: residuals then are tensors of the outer level."""
    g = lambda x, t: da.linearize(lambda v: v**3, x)[1](t)
    assert da.grad(g)(2.0, 1.0) == 12.0
    np.testing.assert_allclose(da.vmap(g)(np.arange(3.0), np.ones(3)), 3 * np.arange(3.0) ** 2)
    assert da.grad(da.grad(g))(2.0, 1.0) == 6.0


def test_the_program_is_linear_well_formed_and_without_dead_code() -> None:
    def f(x):
        np.cosh(x)  # nobody reads it
        y = np.exp(x) * 2.0
        return y + x, np.sum(x)

    _, lin = da.linearize(f, np.ones(3))
    check(lin.program)
    check_linear(lin.program)
    assert "cosh" not in str(lin.program) and "sinh" not in str(lin.program)
    names = [e.op.name for e in lin.program.equations]
    assert "exp" not in names and len(names) <= 4
    assert "linearize" in str(lin.program) and str(len(names)) in repr(lin)


def test_aux_integers_and_outputs_without_tangent() -> None:
    value, lin, aux = da.linearize(
        lambda x, n: ((x * n, np.argmax(x), 5.0), {"n": n}), np.array([1.0, 2.0]), 3, has_aux=True
    )
    tangent = lin(np.array([1.0, 0.0]), None)
    assert tangent[0].tolist() == [3.0, 0.0] and tangent[1].dtype == da.float0 and tangent[2] == 0.0
    assert value[1] == 1 and aux == {"n": 3}
    with pytest.raises(OutputError):
        da.linearize(lambda x: x, 1.0, has_aux=True)


def test_single_precision_stays() -> None:
    value, lin = da.linearize(lambda x: np.sin(x) * 2.0, np.ones(2, np.float32))
    assert value.dtype == np.float32 and lin(np.ones(2, np.float32)).dtype == np.float32


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _kept_by(make) -> tuple[int, object]:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = make()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before, kept


def test_linear_operations_keep_nothing() -> None:
    """3·x + 1 keeps less than a hundredth of x; overwriting x afterwards changes nothing."""
    x = np.ones(200_000)
    f = lambda v: 3 * v + 1
    size, pull = _kept_by(lambda: da.vjp(f, x)[1])
    assert size < x.nbytes / 100
    x[:] = 7.0
    np.testing.assert_array_equal(pull(np.ones(200_000))[0][:3], [3.0, 3.0, 3.0])
    assert pull.program.constants == []


@pytest.mark.parametrize(
    ("f", "arrays"),
    [
        (lambda x: x[2:5], 0),
        (lambda x: np.sum(x), 0),
        (lambda x: x.reshape(2, -1).T, 0),
        (lambda x: x * np.full(10, 2.0), 1),
        (lambda x: x * 2.0, 0),
        (lambda x: np.exp(x), 1),
        pytest.param(
            lambda x: np.concatenate([x, np.sin(np.ones(10))]),
            0,
            marks=gaps.marks(gaps.PLACES, "residuals of concatenate"),
        ),
        (lambda x: (np.sin(x), x * 2.0)[1], 0),
    ],
)
def test_residuals_are_counted(f, arrays: int) -> None:
    """Indexing keeps the index, a sum the shape; a product one factor; numbers and dead branches nothing."""
    program = da.vjp(f, np.ones(10))[1].program
    assert len([c for c in program.constants if np.size(c) >= 3]) == arrays


def test_residuals_are_freed_by_reference_count() -> None:
    """With the collector off, dropping the pullback frees what it kept and what the function captured."""
    gc.disable()
    try:
        captured = np.full(1000, 2.0)
        seen = weakref.ref(captured)
        f = lambda x, c=captured: np.sum(np.sin(x * c))
        _value, pull = da.vjp(f, np.ones(1000))
        residuals = [weakref.ref(c) for c in pull.program.constants if isinstance(c, np.ndarray)]
        assert residuals and all(r() is not None for r in residuals)
        del f, captured
        pull(1.0)
        del pull
        assert all(r() is None for r in residuals)
        assert seen() is None
    finally:
        gc.enable()


def test_transforms_make_no_reference_cycles() -> None:
    """Nothing is left to the cycle collector by any transform."""
    x = np.ones(10)

    def everything():
        da.grad(lambda v: np.sum(np.sin(v) * v))(x)
        da.jvp(np.sin, (x,), (x,))
        da.vmap(lambda v: v * 2.0)(x)
        da.linearize(np.sin, x)[1](x)
        da.trace(np.sin, x)(x)
        da.hessian(lambda v: np.sum(v**3))(x)
        da.vjp(np.sin, x)[1](x)

    everything()
    gc.collect()
    gc.disable()
    try:
        everything()
        assert gc.collect() == 0
    finally:
        gc.enable()


# ── depth ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_programs_of_150_000_operations() -> None:
    """Written, evaluated, transposed and freed without recursion; also where the program branches out."""

    def chain(x):
        for _ in range(75_000):
            x = x * 1.00001 - 0.00001
        return x

    value, pull = da.vjp(chain, 1.0)
    assert len(pull.program.equations) >= 75_000
    assert pull(1.0)[0] == pytest.approx(1.00001**75_000, rel=1e-9)
    _, lin = da.linearize(chain, 1.0)
    assert lin(1.0) == pytest.approx(1.00001**75_000, rel=1e-9)
    program = da.trace(chain, 1.0)
    assert len(program.equations) == 150_000 and program(1.0) == pytest.approx(value, rel=1e-12)
    del pull, lin, program

    def ladder(x):
        a, b = x, x
        for _ in range(5_000):
            a, b = a * 0.5 + b * 0.5, b * 0.75 + a * 0.25
        return a + b

    assert da.grad(ladder)(1.0) == pytest.approx(2.0, rel=1e-9)
    gc.collect()


def test_derivatives_nest_as_deep_as_the_stack_of_python() -> None:
    """A derivative of a derivative of a … as deep as Python's own stack allows for user code."""

    def nest(n):
        if n == 0:
            return lambda x: x**2
        inner = nest(n - 1)
        return lambda x: da.jvp(inner, (x,), (1.0,))[0] + x * 0.0

    assert da.grad(nest(20))(3.0) == 6.0


# ── mutation by the caller ───────────────────────────────────────────────────────────────────────────────────────


def _or_raised(write) -> None:
    """A write by the caller either raises or succeeds; what follows must be right in both cases."""
    with contextlib.suppress(ValueError):  # "assignment destination is read-only"
        write()


PRODUCTS = {
    "product": lambda x, c: x * c,
    "product with itself": lambda x, c: x * x * c,
    "sin": lambda x, c: np.sin(x) * c,
    "matmul": lambda x, c: np.outer(x, x) @ c,
    "division": lambda x, c: c / x,
    "returned as it is": lambda x, c: (x, x * c)[1] * x,
    "where": lambda x, c: np.where(c > 2, x * c, x),
    "view of the input": lambda x, c: x[::-1] * c[::-1] * x,
    "exp returned": lambda x, c: np.exp(x),
}


@pytest.mark.parametrize("transform", ["vjp", "linearize"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_overwriting_inputs_captured_arrays_and_results_changes_no_pullback(name: str, transform: str) -> None:
    """Between vjp and pull the caller overwrites everything in reach: the gradient is that of before."""
    x, c = np.array([1.0, 2.0, 3.0]), np.array([4.0, 1.0, 6.0])
    f = PRODUCTS[name]
    ct = np.array([1.0, 10.0, 100.0])
    if transform == "vjp":
        expected = da.vjp(lambda v: f(v, c.copy()), x.copy())[1](ct)[0]
        value, pull = da.vjp(lambda v: f(v, c), x)
        apply = lambda: pull(ct)[0]
    else:
        expected = da.linearize(lambda v: f(v, c.copy()), x.copy())[1](ct)
        value, lin = da.linearize(lambda v: f(v, c), x)
        apply = lambda: lin(ct)
    for target in (x, c, value):
        _or_raised(lambda t=target: t.__setitem__(slice(None), -7.0))
        np.testing.assert_array_equal(apply(), expected)


def test_a_buffer_that_the_function_reuses_keeps_its_earlier_uses() -> None:
    """The function reuses a buffer of its own between two uses of it; views and captured lists too."""

    def f(x):
        buffer = np.full(2, 2.0)
        a = x * buffer
        buffer[:] = 5.0
        b = x * buffer
        view = buffer[:1]
        c = x * view
        buffer[0] = 11.0
        return np.sum(a) + np.sum(b) + np.sum(c)

    assert da.grad(f)(np.ones(2)).tolist() == [12.0, 12.0]
    assert da.linearize(f, np.ones(2))[1](np.array([1.0, 0.0])) == 12.0


def test_a_large_captured_array_may_change_in_every_step() -> None:
    """One copy serves while it is equal, and never longer."""
    weights = np.ones(500)

    def f(x):
        total = 0.0
        for k in range(4):
            weights[k] = k + 2.0
            total = total + np.sum(x * weights)
        return total

    g = da.grad(f)(np.ones(500))
    assert g[:5].tolist() == [4 * 2.0, 1 + 3 * 3.0, 2 + 2 * 4.0, 3 + 5.0, 4.0]


def test_aux_may_be_written_to() -> None:
    """A residual handed out through has_aux belongs to the caller."""

    def f(x):
        y = np.exp(x)
        return np.sum(y * y), y

    _value, pull, y = da.vjp(f, np.zeros(3), has_aux=True)
    _or_raised(lambda: y.__setitem__(slice(None), 100.0))
    assert pull(1.0)[0].tolist() == [2.0, 2.0, 2.0]


def test_values_returned_by_grad_are_the_caller_s() -> None:
    x = np.ones(3)
    g = da.grad(lambda v: np.sum(v * x))(x)
    assert not np.shares_memory(g, x)
    g[:] = 5.0
    assert x.tolist() == [1.0, 1.0, 1.0]
