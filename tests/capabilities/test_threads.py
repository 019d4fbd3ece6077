"""Threads, errors inside rules, the end of the process.

The stress tests are in `tests/test_threads.py`; here are the cases and numbers of PyTorch's own.
"""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import dualad as da


def threads(function, count: int = 10) -> list:
    results: list = [None] * count

    def run(i):
        try:
            results[i] = function(i)
        except Exception as error:
            results[i] = error

    all_of_them = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()
    return results


def test_ten_threads_differentiate_inputs_of_their_own() -> None:
    """The gradient of Σ (x + 3)(x + 4)/2 is x + 3.5, in each of ten threads with an input of its own."""
    f = lambda x: np.sum((x + 3) * (x + 4) * 0.5)
    xs = np.random.default_rng(0).normal(size=(10, 5, 5))
    for got, x in zip(threads(lambda i: da.grad(f)(xs[i])), xs, strict=True):
        np.testing.assert_allclose(got, x + 3.5)


def test_ten_threads_differentiate_one_input() -> None:
    """Nothing accumulates anywhere: every thread has the gradient once."""
    x = np.ones((5, 5))
    f = lambda x: np.sum((x + 3) * (x + 4) * 0.5)
    for got in threads(lambda i: da.grad(f)(x)):
        np.testing.assert_array_equal(got, x + 3.5)


def test_threads_differentiate_different_functions_while_one_fails() -> None:
    def work(i):
        if i == 4:
            da.vmap(da.grad(lambda x: x.no_such_attribute))(np.ones(3))
        g = np.sin
        for _ in range(i % 4):
            g = (lambda h: lambda x: da.jvp(h, (x,), (1.0,))[1])(g)
        return float(da.vmap(da.grad(g))(np.array([0.3]))[0])

    results = threads(work)
    assert isinstance(results[4], AttributeError) and "no_such_attribute" in str(results[4])
    derivatives = [np.cos(0.3), -np.sin(0.3), -np.cos(0.3), np.sin(0.3)]
    for i, got in enumerate(results):
        if i != 4:
            np.testing.assert_allclose(got, derivatives[i % 4])


def test_threads_share_one_program_pullback_and_linear_map() -> None:
    """Ten threads call the same objects, a hundred times each, also inside transforms of their own."""
    f = lambda x: np.sum(np.sin(x) * x)
    x = np.linspace(0.1, 1.0, 4)
    program, derivative = da.trace(da.grad(f), x), np.cos(x) * x + np.sin(x)
    pull, lin = da.vjp(f, x)[1], da.linearize(f, x)[1]
    scaled = da.custom_vjp(lambda v: v * 2.0)
    scaled.defvjp(lambda v: (scaled(v), None), lambda r, c: (c * 2.0,))
    mapped = da.vmap(da.grad(lambda v: scaled(v) ** 2))

    def work(i):
        for _ in range(100):
            np.testing.assert_allclose(program(x + i), np.cos(x + i) * (x + i) + np.sin(x + i))
            np.testing.assert_allclose(pull(1.0 + i)[0], (1.0 + i) * derivative)
            np.testing.assert_allclose(lin(x), derivative @ x)
            np.testing.assert_allclose(mapped(x), 8.0 * x)
        return da.jacfwd(program)(x), da.jvp(lambda c: pull(c)[0], (1.0,), (2.0,))[1], da.vmap(lin)(np.eye(4))

    for got in threads(work):
        assert not isinstance(got, Exception), got
        np.testing.assert_allclose(got[0], np.diag(2 * np.cos(x) - x * np.sin(x)))
        np.testing.assert_allclose(got[1], 2 * derivative)
        np.testing.assert_allclose(got[2], derivative)


def test_the_switch_of_tangents_is_each_thread_s_own_and_nests() -> None:
    f = lambda x: x**3

    def work(i):
        outer = da.grad(f)(2.0)
        with da.no_tangents():
            x = da.grad(f)(2.0)  # a transform that starts inside works as ever
        return (float(outer), float(x), float(da.grad(f)(2.0)))

    assert threads(work) == [(12.0, 12.0, 12.0)] * 10


@pytest.mark.parametrize("rule", ["jvp", "fwd", "bwd"])
def test_errors_inside_rules_surface_as_they_are(rule: str) -> None:
    """Same class, same message, and everything works afterwards; in a thread too."""

    class Mine(Exception):
        pass

    def fails(*_):
        raise Mine("a bug in the rule")

    if rule == "jvp":
        f = da.custom_jvp(np.sin)
        f.defjvp(fails)
    else:
        f = da.custom_vjp(np.sin)
        f.defvjp(fails if rule == "fwd" else lambda x: (np.sin(x), x), fails if rule == "bwd" else lambda r, c: (c,))
    for attempt in (
        lambda: da.grad(f)(1.0), lambda: da.vmap(da.grad(f))(np.ones(2)), lambda: da.hessian(lambda x: f(x) * x)(1.0),
        lambda: da.grad(lambda x: da.fori_loop(0, 2, lambda i, c: f(c), x))(1.0),
    ):  # fmt: skip
        with pytest.raises(Mine, match=r"^a bug in the rule$"):
            attempt()
        errors = threads(lambda i, attempt=attempt: attempt(), 2)
        assert [type(e) for e in errors] == [Mine, Mine]
    assert da.grad(np.sin)(0.0) == 1.0 and da.vmap(da.grad(np.sin))(np.zeros(2)).tolist() == [1.0, 1.0]


def test_a_process_that_differentiates_in_threads_ends_by_itself() -> None:
    code = """
import threading, numpy as np, dualad as da
level = da.dual_level(); level.__enter__()
def work():
    _, pull = da.vjp(lambda x: np.cumsum(np.sin(x)), np.ones(5)); kept.append(pull); pull(np.ones(5))
kept = []
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(kept))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "4", "")
