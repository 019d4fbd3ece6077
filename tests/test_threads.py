"""Threads, tasks and generators: transforms share nothing by which one could disturb another (no global state).

Not for: what a transform computes.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading

import numpy as np
import pytest

import dualad as da
from dualad.core.axes import _axes
from dualad.dual import _open_levels
from dualad.errors import EscapedTensorError

THREADS = 10


@pytest.fixture(autouse=True)
def switch_often():
    """Have Python switch threads after a few instructions, so that what can interleave does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(function, count: int = THREADS) -> list:
    """Run ``function(number)`` in as many threads, all starting together; return results or exceptions."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        try:
            return function(number)
        except Exception as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def nested(k: float):
    """Return a computation that nests every transform, and its closed form."""

    def f(x):
        y = da.fori_loop(0, 2, lambda i, c: c * x, x)  # x³
        return np.sum(np.sin(k * y) + da.checkpoint(np.exp)(-y))

    def compute():
        x = np.linspace(0.5, 1.0, 4)
        hess = da.vmap(lambda v: da.hessian(f)(v))(x)
        with da.dual_level():
            tangent = da.unpack_dual(np.sin(da.make_dual(k, 1.0))).tangent
        total = da.vmap(lambda v: da.grad(lambda u: da.psum(u * k, "i"))(v), axis_name="i")(x)
        program = da.trace(da.grad(f), 1.0)(0.7)
        return hess, float(tangent), total, float(program)

    x = np.linspace(0.5, 1.0, 4)
    first = lambda x: 3 * x**2 * (k * np.cos(k * x**3) - np.exp(-(x**3)))
    second = 6 * x * (k * np.cos(k * x**3) - np.exp(-(x**3))) + 9 * x**4 * (
        -(k**2) * np.sin(k * x**3) + np.exp(-(x**3))
    )
    return compute, (second, np.cos(k), np.full(4, 4 * k), first(0.7))


def test_ten_threads_nesting_everything_with_exceptions_among_them() -> None:
    """Every thread gets its own numbers, though others fail in the middle of theirs."""

    class Mine(Exception):
        pass

    def work(number):
        for round_ in range(6):
            compute, want = nested(1.0 + number / 7 + round_ / 3)
            if number % 3 == 2:

                def fails(x, number=number):
                    y = da.vmap(da.grad(lambda v: v**3))(np.ones(3) * x)
                    raise Mine(number, y[0])

                with pytest.raises(Mine):
                    da.jvp(lambda x: da.grad(fails)(x), (2.0,), (1.0,))
            for got, expected in zip(compute(), want, strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-12)
        if number == 7:
            raise Mine("the last word")
        return number

    results = at_once(work)
    assert isinstance(results[7], Mine)
    assert [r for i, r in enumerate(results) if i != 7] == [i for i in range(THREADS) if i != 7]


def test_one_pullback_one_program_in_all_threads() -> None:
    """They are pure functions: called together with other arguments they do not mix them up."""
    x = np.linspace(0.1, 1.0, 50)
    _, pull = da.vjp(lambda v: np.cumsum(np.sin(v) * v), x)
    _, lin = da.linearize(lambda v: np.exp(v) * v[::-1], x)
    program = da.trace(lambda v, s: da.scan(lambda c, r: (c * s + r, np.sin(c)), 0.0, v)[1], x, 1.0)
    single = [(pull(np.full(50, 1.0 * k))[0], lin(x * k), program(x, k / 10)) for k in range(THREADS)]

    def work(k):
        for _ in range(20):
            for got, want in zip(
                (pull(np.full(50, 1.0 * k))[0], lin(x * k), program(x, k / 10)), single[k], strict=True
            ):
                np.testing.assert_array_equal(got, want)
        return True

    assert at_once(work) == [True] * THREADS


def test_first_uses_race_for_what_is_remembered() -> None:
    """Dtypes of ufuncs, basis vectors and the like are remembered at first use; whoever comes first says the same."""

    def work(number):
        dtypes = [np.float16, np.float32, np.float64, np.complex64, np.int8, np.int16]
        out = []
        for i in range(len(dtypes)):
            d = dtypes[(number + i) % len(dtypes)]
            a, b = np.ones(3, d), np.ones(3, np.float32)
            for u in (np.add, np.multiply, np.hypot, np.logaddexp):
                if not (np.dtype(d).kind == "c" and u in (np.hypot, np.logaddexp)):
                    program = da.trace(u, a, b)
                    out.append(program.equations[-1].outs[0].aval.dtype == u(a, b).dtype)
        return all(out)

    assert at_once(work) == [True] * THREADS


def test_a_level_opened_in_one_thread_is_not_another_s() -> None:
    with da.dual_level() as outer:
        x = da.make_dual(3.0, 1.0)

        def work(number):
            with pytest.raises(da.errors.ArgumentError, match="outside of any dual_level"):
                da.make_dual(1.0, 1.0)
            with da.dual_level() as own:
                assert own.index == 0
                y = da.make_dual(float(number), 2.0) * x  # a value of the other level is a constant here
                return tuple(map(float, da.unpack_dual(da.unpack_dual(y).tangent, outer)))

        assert at_once(work, 4) == [(6.0, 2.0)] * 4


def test_no_tangents_in_one_thread_leaves_the_others_alone() -> None:
    inside, done = threading.Event(), threading.Event()

    def silent(_):
        with da.no_tangents():
            inside.set()
            done.wait(10)
        return None

    def work(number):
        if number == 0:
            return silent(number)
        inside.wait(10)
        try:
            return da.grad(lambda x: x**2)(float(number))
        finally:
            if number == 1:
                done.set()

    assert at_once(work, 4)[1:] == [2.0, 4.0, 6.0]


def test_tasks_of_one_thread_keep_their_levels_and_names_apart() -> None:
    """Coroutines that wait inside a level, interleaved by the event loop."""

    async def work(number):
        with da.dual_level() as level:
            assert level.index == 0
            x = da.make_dual(float(number), 1.0)
            for _ in range(5):
                await asyncio.sleep(0)
                x = x * 1.0
            return float(da.unpack_dual(x * x).tangent)

    async def main():
        return await asyncio.gather(*[work(n) for n in range(THREADS)])

    assert asyncio.run(main()) == [2.0 * n for n in range(THREADS)]


def test_generators_leave_no_level_open() -> None:
    """A generator that stops half-way, one that is closed, and one that is resumed when its transform is gone."""

    def steps(x):
        while True:
            yield x
            x = np.sin(x)

    def half_way(x):
        for i, y in enumerate(steps(x)):
            if i == 3:
                return y
        return None

    np.testing.assert_allclose(da.grad(half_way)(0.5), np.prod(np.cos([0.5, np.sin(0.5), np.sin(np.sin(0.5))])))
    kept = []
    da.grad(lambda x: kept.append(steps(x)) or next(kept[0]))(0.5)
    with pytest.raises(EscapedTensorError):
        next(kept[0])

    def around():
        with da.dual_level():
            yield da.make_dual(1.0, 1.0)

    generator = around()
    next(generator)
    generator.close()
    assert _open_levels.get() == ()


def test_nothing_is_left_behind_by_what_fails() -> None:
    for transform in (
        lambda f: da.jvp(f, (1.0,), (1.0,)), lambda f: da.vjp(f, 1.0), lambda f: da.vmap(f)(np.ones(2)),
        lambda f: da.vmap(f, axis_name="i")(np.ones(2)), lambda f: da.trace(f, 1.0),
        lambda f: da.vmap(da.grad(f), axis_name="i")(np.ones(2)),
        lambda f: da.trace(da.vmap(f, axis_name="i"), np.ones(2)),
        lambda f: da.trace(lambda x: da.fori_loop(0, 3, lambda i, c: f(c), x), 1.0),
    ):  # fmt: skip
        with pytest.raises(ZeroDivisionError):
            transform(lambda x: 1 // 0)
        assert _open_levels.get() == () and not _axes.get()
    assert da.grad(lambda x: x**3)(2.0) == 12.0


def test_an_executor_runs_transforms_that_others_made() -> None:
    """A gradient function, made in one thread, is anyone's; so is a derivative of a function closed over an array."""
    w = np.linspace(0.0, 1.0, 7)
    gradient = da.grad(lambda x: np.sum(np.tanh(w * x)))
    points = np.linspace(-1, 1, 40)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        got = list(pool.map(gradient, points))
    np.testing.assert_allclose(got, np.sum(w / np.cosh(w * points[:, None]) ** 2, 1), rtol=1e-12)
