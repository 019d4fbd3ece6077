"""Loops with ``checkpoints=k``: the same derivatives in every mode, in less memory, as machine code."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.control.segments import levels
from dualad.core.above import ABOVE
from dualad.errors import ArgumentError, ConvergenceError

RNG = np.random.default_rng(7)
W, XS, START = RNG.normal(size=(3, 3)) * 0.5, RNG.normal(size=(53, 3)), RNG.normal(size=3)


def network(W: Any, start: Any, xs: Any, checkpoints: int | None = None, reverse: bool = False) -> Any:
    """A recurrent network with a counter, a branch, and a root beside its pole, of which rows are summed up."""

    def step(carry: dict, x: Any) -> tuple:
        h = np.tanh(W @ carry["h"] + x)
        positive = np.where(h[0] > 0, np.sqrt(np.where(h[0] > 0, h[0], 1.0)), 0.0)
        h = da.cond(carry["n"] % 2 == 0, lambda h: h, lambda h: 1.1 * h, h)
        return {"h": h, "n": carry["n"] + 1}, (positive, h * start)

    carry, (roots, rows) = da.scan(step, {"h": start, "n": 0}, xs, reverse=reverse, checkpoints=checkpoints)
    return np.sum(carry["h"] ** 2) + np.sum(np.sin(rows)) + np.sum(roots * np.arange(len(xs))) + carry["n"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoints", [1, 2, 6, 8, 20, 100])
def test_the_derivatives_are_those_without(checkpoints: int, reverse: bool) -> None:
    """Bit for bit where nothing is summed over steps; ``W`` is, in another order."""
    plain = lambda *a: network(*a, reverse=reverse)
    kept = lambda *a: network(*a, checkpoints=checkpoints, reverse=reverse)
    assert kept(W, START, XS) == plain(W, START, XS)
    expected = da.trace(da.grad(plain, (0, 1, 2)), W, START, XS)(W, START, XS)
    found = da.grad(kept, (0, 1, 2))(W, START, XS)
    np.testing.assert_array_equal(found[2], expected[2])
    for derivative in (found, da.jit(da.grad(kept, (0, 1, 2)))(W, START, XS)):
        for a, b in zip(derivative, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    tangents = W[::-1], START[::-1], XS[::-1]
    np.testing.assert_allclose(*[da.jvp(f, (W, START, XS), tangents)[1] for f in (kept, plain)], rtol=1e-13)


def test_orders_lanes_and_nests() -> None:
    f = lambda h, k=None: network(W, h, XS[:20], k)
    exact = da.hessian(f)(START)
    for second in (da.hessian, lambda f: da.jacrev(da.jacrev(f)), lambda f: da.jit(da.jacrev(da.jacfwd(f)))):
        np.testing.assert_allclose(second(lambda h: f(h, 4))(START), exact, rtol=1e-11, atol=1e-13)
    third = lambda k: da.jacfwd(da.hessian(lambda s: f(START * s, k)))(1.1)
    np.testing.assert_allclose(third(3), third(None), rtol=1e-10)
    lanes = np.stack([START, 2 * START])
    kept = da.vmap(da.grad(lambda h: f(h, 4)))
    for run in (kept, da.jit(kept)):
        np.testing.assert_allclose(run(lanes), da.vmap(da.grad(f))(lanes), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(da.checkpoint(lambda h: f(h, 4))(START), f(START))
    assert da.grad(lambda x: da.scan(lambda c, v: (c * v, c), x, np.zeros(0), checkpoints=3)[0])(2.0) == 1.0


@pytest.mark.parametrize("checkpoints", [1, 3, 9])
def test_loops_that_end(checkpoints: int) -> None:
    def root(a: Any, k: int | None = checkpoints, most: int = 60) -> Any:
        unfinished = lambda x: np.abs(x**3 - a) > 1e-12
        return da.while_loop(unfinished, lambda x: x - (x**3 - a) / (3 * x**2), a, max_steps=most, checkpoints=k)

    a = np.array([0.5, 5.0, 30.0])
    for derive in (da.vmap(da.grad(root)), da.jit(da.vmap(da.grad(root)))):
        np.testing.assert_allclose(derive(a), a ** (-2 / 3) / 3, rtol=1e-12)
    np.testing.assert_allclose(da.hessian(root)(5.0), -2 / 9 * 5.0 ** (-5 / 3), rtol=1e-11)
    assert root(5.0) == root(5.0, None)
    with pytest.raises(ConvergenceError, match="after 4 steps"):
        da.grad(root)(5.0, most=4)
    assert np.isnan(da.jit(lambda a: root(a, most=4))(5.0))


def peak(run: Callable) -> int:
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_that_of_the_carries_that_are_kept() -> None:
    def end(start: Any, checkpoints: int | None) -> Any:
        step = lambda h, t: (np.tanh(h + np.sin(t)) * np.cos(h), None)
        return np.sum(da.scan(step, start, np.linspace(0, 1, 900), checkpoints=checkpoints)[0])

    start = np.linspace(0, 1, 200)
    gradient = {k: da.trace(da.grad(lambda h, k=k: end(h, k)), start) for k in (None, 30, 12)}
    size = {k: peak(lambda g=g: g(start)) for k, g in gradient.items()}
    np.testing.assert_array_equal(gradient[12](start), gradient[None](start))
    assert size[None] > 8 * size[30] > 8 * size[12]


def test_machine_code() -> None:
    pytest.importorskip("llvmlite", reason="machine code is compiled where llvmlite is installed")
    step = lambda h, x: (np.tanh(W @ h + x), None)
    f = lambda h, xs: np.sum(da.scan(step, h, xs, checkpoints=6)[0] ** 2)
    assert ABOVE.machine_code(da.trace(da.grad(f, (0, 1)), START, XS)) is not None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_checkpoint_in_a_body_is_machine_code_and_keeps_nothing_else(dtype: type) -> None:
    """Of a function of trees and Python numbers, which reads traced values from its closure, and with one inside."""
    weights, xs, start = [a.astype(dtype) for a in (W, XS[:20], START)]

    def end(weights: Any, start: Any, xs: Any, wrap: Callable) -> Any:
        inner = wrap(lambda h, factor: np.sin(h) * factor)

        def step(carry: dict, x: Any, *, scale: float) -> tuple:
            h = np.tanh(weights @ inner(carry["h"], scale) + x)
            return {"h": h, "n": carry["n"] + 1}, np.sum(h * start)

        kept = wrap(step)
        carry, sums = da.scan(lambda c, x: kept(c, x, scale=1.5), {"h": start, "n": 0}, xs)
        return np.sum(carry["h"] ** 2) + np.sum(sums**2) + carry["n"]

    rtol = 1e-12 if dtype is np.float64 else 2e-5
    of = lambda wrap: lambda *a: end(*a, wrap)
    expected = da.grad(of(lambda f: f), (0, 1, 2))(weights, start, xs)
    gradient = da.grad(of(da.checkpoint), (0, 1, 2))
    program = da.trace(gradient, weights, start, xs)
    for run in (gradient, program, da.jit(gradient)):
        found = run(weights, start, xs)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
    second = lambda wrap: da.trace(da.hessian(lambda h: end(weights, h, xs, wrap)), start)(start)
    np.testing.assert_allclose(second(da.checkpoint), second(lambda f: f), rtol=50 * rtol, atol=50 * rtol)
    forward = next(e for e in program.equations if e.op.name == "scan")
    assert [v.aval.shape for v in forward.outs if v.aval.shape[:1] == (20,)] == [(20,), (20, 3)]  # sums and carries
    if dtype is np.float64:
        pytest.importorskip("llvmlite", reason="machine code is compiled where llvmlite is installed")
        assert ABOVE.machine_code(program) is not None


def test_levels() -> None:
    """All carries are used at most, and as many levels as leave no more steps than these, if that is possible."""
    for length in (1, 2, 7, 100, 10_000, 10**6):
        for k in (1, 2, 3, 10, 100, 1000):
            sizes = levels(length, k)
            assert sum(sizes) <= k and min(sizes) >= 1
            left = -(-length // int(np.prod(sizes)))
            assert left <= k or all([-(-length // (k // n) ** n) >= left for n in range(1, k + 1) if k // n > 1])
            if len(sizes) > 1 and left <= k:
                fewer = len(sizes) - 1
                assert -(-length // (k // fewer) ** fewer) > k
    assert levels(10_000, 100) == [100] and levels(10_000, 50) == [25, 25] and levels(10_000, 20) == [5] * 4


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="1 or more"):
        da.scan(lambda c, x: (c, x), 0.0, XS, checkpoints=0)
    with pytest.raises(ArgumentError, match="1 or more"):
        da.scan(lambda c, x: (c, x), 0.0, XS, checkpoints=2.5)
    with pytest.raises(ArgumentError, match="without max_steps"):
        da.while_loop(lambda c: c > 1, lambda c: c / 2, 8.0, checkpoints=4)
