"""``checkpoint`` beside what it must not change: captured values, constants written to later, zeros at poles.

The oracle is the function without it. Not for: memory and the number of runs (tests/capabilities/test_checkpoint.py).
"""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import OPS
from dualad.errors import ArgumentError, NotRepeatableError

X, T = np.array([0.3, -1.2, 0.8]), np.array([1.5, 0.4, -0.7])


def test_the_pushforward_of_a_linearization_runs_it_again() -> None:
    f = lambda x: np.sin(x) * np.exp(x)
    value, push = da.linearize(da.checkpoint(f), X)
    np.testing.assert_allclose((value, push(T)), da.jvp(f, (X,), (T,)))


def test_a_constant_that_is_written_to_later() -> None:
    def f(x):
        a = np.array(2.0)
        y = a * x
        a[...] = 5.0
        return y

    np.testing.assert_array_equal(da.grad(lambda x: np.sum(da.checkpoint(f)(x)))(X), 2.0)


@pytest.mark.parametrize("f", [lambda y: y**2, lambda y: 0.0 * y, lambda y: np.where(y > 0, y, 0.0)])
def test_zeros_of_factors_and_of_selections_at_a_pole(f) -> None:
    zero = np.zeros(2)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = [da.jvp(lambda x: np.sum(f(np.sqrt(x))), (zero,), (e,))[1] for e in np.eye(2)]
        np.testing.assert_array_equal(da.grad(lambda x: np.sum(f(da.checkpoint(np.sqrt)(x))))(zero), expected)


class Scaled:
    def __init__(self, factor):
        self.factor = factor


def captured(kind: str, x):
    """Return a function of y that closes over x in one way or another."""
    if kind == "partial":
        return functools.partial(lambda factor, y: factor * x * y, 3.0)
    if kind == "partial of a plain function":
        return functools.partial(lambda factor, y: 3.0 * factor * y, x)
    if kind == "method":

        class Inside(Scaled):
            def __call__(self, y):
                return self.factor * x * y

            def times(self, y):
                return self.factor * x * y

        return Inside(3.0).times
    if kind == "transform":
        return functools.partial(da.vmap(lambda a, b: 3.0 * a * b * np.sum(x) / np.sum(x)), x)
    if kind == "function in a function":
        inner = lambda y: 3.0 * x * y
        return lambda y: inner(y)
    if kind == "a function that calls itself":

        def power(y, n=2):
            return 3.0 if not n else power(y, n - 1) * (x if n == 1 else y)

        return power
    if kind == "a tree of functions and numbers":
        parts = {"factor": (3.0, x), "times": [lambda y: y * x]}
        return lambda y: parts["factor"][0] * parts["times"][0](y) * parts["factor"][1] / x
    if kind == "a name that is assigned later":

        def f(y):
            return 3.0 * x * y if y.ndim else later

        if kind == "never":
            later = 1.0
        return f
    return lambda y, factor=3.0, *, by=x: factor * by * y


@pytest.mark.parametrize(
    "kind",
    ["partial", "partial of a plain function", "method", "transform", "function in a function",
     "a function that calls itself", "a tree of functions and numbers", "a name that is assigned later", "default"],
)  # fmt: skip
def test_captured_tensors_have_derivatives(kind: str) -> None:
    value, gradient = da.value_and_grad(lambda x: np.sum(da.checkpoint(captured(kind, x))(np.sin(x))))(X)
    expected = da.value_and_grad(lambda x: np.sum(3.0 * x * np.sin(x)))(X)
    np.testing.assert_allclose(value, expected[0])
    np.testing.assert_allclose(gradient, expected[1])


@pytest.mark.parametrize("position", [-1, 2, 5])
def test_static_positions_are_counted_from_zero(position: int) -> None:
    f = da.checkpoint(lambda x, n: x**n, static_argnums=position)
    with pytest.raises(ArgumentError, match=f"static_argnums has {position}, but the call has 2"):
        da.grad(f)(2.0, 3)


def test_policies_answer_for_themselves() -> None:
    policies = da.checkpoint_policies
    assert policies.everything_saveable("sin", {})
    assert not policies.nothing_saveable("matmul", {})
    assert policies.dots_saveable("matmul", {})
    assert not policies.dots_saveable("sin", {})
    named = policies.save_only_these_names("a")
    assert [named("checkpoint_name", {"name": n}) for n in "ab"] == [True, False]
    assert not named("sin", {"name": "a"})
    assert OPS["checkpoint_name"].moves  # what has the entries of its argument is sparse where that is


def test_a_function_whose_results_are_all_integers() -> None:
    f = da.checkpoint(lambda x: (x > 0).astype(int) + 1)
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(x * f(x)))(X), [2.0, 1.0, 2.0])


def test_plain_arguments_run_the_function_itself_and_captured_tensors_do_not() -> None:
    runs = []

    def f(x):
        runs.append(1)
        return x

    assert type(da.checkpoint(f)(2)) is int
    runs.clear()

    def outer(x):
        def inner(y):
            runs.append(1)
            return np.sin(x) * np.cos(x) * y

        return np.sum(da.checkpoint(inner)(T))

    np.testing.assert_allclose(da.grad(outer)(X), np.cos(2 * X) * T)
    assert len(runs) == 2  # for the value, and again for the pullback


# ── what is there when it runs again ─────────────────────────────────────────────────────────────────────────────

SCALE = 2.0


def each_by_itself(wrap):
    def f(x):
        for c in (1.5, -0.7):
            x = wrap(lambda x: np.sin(x) * c + x)(x)
        return x

    return f


def through_a_function(wrap):
    def f(x):
        for c in (1.5, -0.7):
            inner = lambda x: np.sin(x) * c + x
            x = wrap(functools.partial(lambda k, x: inner(x) * k, 2.0))(x)
        return x

    return f


def beside_a_traced_value(wrap):
    def f(x):
        y = x
        for c in (1.5, -0.7):
            w = y * c
            y = wrap(lambda x: np.sin(x) * w + x * c)(y)
        return y

    return f


def through_a_transform(wrap):
    def f(x):
        for c in ([1.0, 2.0], [3.0, -1.0]):
            x = wrap(da.vmap(lambda x: np.sin(x) * c[0] + c[1]))(x)
        return x

    return f


@pytest.mark.parametrize("make", [each_by_itself, through_a_function, beside_a_traced_value, through_a_transform])
def test_the_variable_of_a_loop_is_what_it_was(make) -> None:
    f, plain = make(da.checkpoint), make(lambda f: f)
    for transform in (
        da.jacrev,
        da.jacfwd,
        lambda f: lambda x: da.linearize(f, x)[1](T),
        lambda f: da.hessian(lambda x: np.sum(f(x) ** 2)),
        lambda f: da.jit(da.jacrev(f)),
        lambda f: da.jacrev(lambda x: da.vmap(f)(np.stack([x, -x]))),
    ):
        np.testing.assert_allclose(transform(f)(X), transform(plain)(X), rtol=1e-12)
        np.testing.assert_allclose(transform(da.checkpoint(f))(X), transform(plain)(X), rtol=1e-12)


def test_an_outer_variable_that_it_counts_in() -> None:
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return np.sin(x) * x

    np.testing.assert_allclose(da.grad(lambda x: np.sum(da.checkpoint(f)(x)))(X), np.cos(X) * X + np.sin(X))
    assert count == 2


@pytest.mark.parametrize("what", ["list", "global", "array", "place", "compiled"])
@pytest.mark.parametrize("way", ["pull", "line"])
def test_what_changed_between_the_runs_is_refused(what: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    items, array, place = [2.0], np.full(3, 2.0), [0]
    f = {
        "list": lambda x: np.sin(x) * items[0],
        "global": lambda x: np.sin(x) * SCALE,
        "array": lambda x: np.sin(x) * array,
        "place": lambda x: np.sin(x) * np.sin(x)[place[0]],
        "compiled": da.jit(lambda x: np.sin(x) * items[0]),
    }[what]
    run = da.vjp(da.checkpoint(f), X)[1] if way == "pull" else da.linearize(da.checkpoint(f), X)[1]
    run(T)
    run(T)
    items[0] = array[:] = 7.0
    place[0] = 1
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 7.0)
    with pytest.raises(NotRepeatableError):
        run(T)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: da.switch(np.argmax(x), [np.cos, np.negative, np.sin], x),
        lambda x: da.fori_loop(0, np.argmax(x) + 1, lambda i, x: np.sin(x) * 2, x),
        lambda x: da.while_loop(lambda x: np.sum(x) < 3, lambda x: x * x + 1, x),
        lambda x: da.cond(x[0] > 0, np.sin, np.cos, x),
    ],
)
def test_values_that_decide_in_a_checkpoint(f) -> None:
    g = da.checkpoint(f)
    lanes = np.stack([X, -X, 0.5 * X])
    np.testing.assert_allclose(da.jacrev(g)(X), da.jacfwd(f)(X))
    np.testing.assert_allclose(da.vmap(da.jacrev(g))(lanes), [da.jacfwd(f)(x) for x in lanes])
    tangents = np.stack([T, T, T])
    expected = np.stack([da.jvp(f, (x,), (T,))[1] for x in lanes])
    np.testing.assert_allclose(da.jvp(da.vmap(g), (lanes,), (tangents,))[1], expected)


def test_what_is_still_in_one_run_and_a_number_in_another() -> None:
    f = da.checkpoint(lambda x, t: np.sin(x) * t * 2.0 + x * 3.0 * t + np.einsum("i,j,j->i", x, np.cos(x), T) * t)
    for t in (0.3, np.float64(0.7), np.array(0.9)):
        loss = lambda x: np.sum(f(x, t) * x)
        expected = da.hessian(loss)(X)
        np.testing.assert_allclose(da.jacrev(da.grad(da.jit(loss)))(X), expected)
        np.testing.assert_allclose(
            da.jit(lambda x, t: da.jacrev(da.grad(lambda x: np.sum(f(x, t) * x)))(x))(X, t), expected
        )
        inner = da.jit(lambda x, t: f(x, t))
        np.testing.assert_allclose(da.jacrev(da.grad(lambda x: np.sum(inner(x, t) * x)))(X), expected)


def test_ways_that_differ_with_what_is_known() -> None:
    def branches(x):
        y = x * 0.44
        return da.cond(np.sum(y) > -0.24, lambda v: np.sin(v) * -0.7 * T, lambda v: np.cos(v) * X * 1.5, y)

    def mapped(x):
        y = da.vmap(lambda a: np.sum(np.sin(a * x)))(T)
        return np.where(y > -0.01, y * y, np.exp(-y * y))

    for f in (branches, mapped):
        for x in (X, -X):
            expected = da.jacfwd(f)(x)
            np.testing.assert_allclose(da.jit(da.jacrev(da.checkpoint(f)))(x), expected)
            np.testing.assert_allclose(da.jacrev(da.jit(da.checkpoint(f)))(x), expected)
            twice = lambda g: da.grad(lambda x: np.sum(g(x) * x))
            curved = da.jacfwd(twice(f))(x)
            np.testing.assert_allclose(da.jacrev(da.checkpoint(twice(da.checkpoint(f))))(x), curved, atol=1e-12)


def test_a_list_that_the_caller_changes_is_as_it_was_at_the_call():
    x, y = np.array([0.3, 0.7]), np.array([1.0, 2.0])

    def swapped(x, y):
        parts = [x, y]
        out = da.checkpoint(lambda v: np.sin(parts[0] * v) * parts[1] ** 2)(x)
        parts[0], parts[1] = parts[1], parts[0]
        return np.sum(out)

    def layers(x, _):
        states = [x]
        for _ in range(3):
            states.append(da.checkpoint(lambda h: np.sin(h) * states[-1])(x))
        return np.sum(states[-1])

    for f, plain in (
        (swapped, lambda x, y: np.sum(np.sin(x * x) * y**2)),
        (layers, lambda x, y: np.sum(np.sin(x) ** 3 * x) + 0 * np.sum(y)),
    ):
        for ours, wanted in zip(da.grad(f, (0, 1))(x, y), da.grad(plain, (0, 1))(x, y), strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-12)


def test_a_variable_that_the_caller_writes_later_is_as_it_was_at_the_call():
    def f(x):
        state = x

        def step(v):
            nonlocal state
            out = np.sin(v) * state
            state = out
            return out

        out = da.checkpoint(step)(x)
        state = 100.0 * x
        return np.sum(out)

    x = np.array([0.3, 0.7])
    np.testing.assert_allclose(da.grad(f)(x), np.cos(x) * x + np.sin(x), rtol=1e-12)


def test_what_it_reads_changes_before_it_runs_again() -> None:
    class Model:
        scale = 2.0

        def __call__(self, x):
            return np.sum(np.sin(x * self.scale))

    model = Model()
    block = da.checkpoint(lambda x: model(x))
    for change in (lambda: setattr(model, "scale", 3.0), lambda: delattr(model, "scale")):
        _, pull = da.vjp(block, np.ones(2))
        pull(1.0)
        change()
        with pytest.raises(da.errors.NotRepeatableError, match="'scale'"):
            pull(1.0)
        np.testing.assert_allclose(da.grad(block)(np.ones(2)), model.scale * np.cos(model.scale * np.ones(2)))


def test_what_it_counts_itself_is_no_change() -> None:
    count = [0]

    def block(x):
        count[0] += 1
        return np.sin(np.exp(x))

    f = da.checkpoint(block)
    np.testing.assert_allclose(da.grad(lambda x: f(f(x)))(0.5), da.grad(lambda x: block(block(x)))(0.5))
    assert count[0] > 2
