"""Checkpoints: their recomputation counts, nesting and policies.

The zoo runs under checkpoints here too: every word of length ≤ 2. Not for: lazy tensors themselves (`test_lazy.py`).
"""

from __future__ import annotations

import functools
import gc
import itertools
import tracemalloc
import weakref

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, ArgumentTypeError, CapturedTensorError, NotRepeatableError, OutputError
from tests.compose.words import WORDS, found
from tests.compose.zoo import ZOO, Animal

X = np.array([0.5, -1.5, 2.0])


def counted(f):
    """Return f with a counter of its runs."""

    def run(*args, **kwargs):
        run.count += 1
        return f(*args, **kwargs)

    run.count = 0
    return run


def test_checkpointed_blocks_have_the_same_gradients() -> None:
    rng = np.random.default_rng(0)
    w1, w2, x = rng.normal(size=(20, 10)), rng.normal(size=(10, 20)), rng.normal(size=10)

    def net(w1, w2, x):
        return w2 @ np.tanh(w1 @ x)

    def loss(block, w1, w2):
        y = x
        for _ in range(20):
            y = block(w1, w2, y)
        return np.sum(y**2)

    plain = da.grad(loss, (1, 2))(net, w1, w2)
    kept = da.grad(loss, (1, 2))(da.checkpoint(net), w1, w2)
    for a, b in zip(plain, kept, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def chain(depth):
    def f(x):
        for _ in range(depth):
            x = np.sin(x)
        return x

    return f


def held(f, x) -> int:
    gc.collect()
    tracemalloc.start()
    pull = da.vjp(f, x)[1]
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert callable(pull)
    return size


def test_memory_does_not_depend_on_the_depth_inside_a_checkpoint() -> None:
    x = np.ones(50_000)
    shallow, deep = held(da.checkpoint(chain(2)), x), held(da.checkpoint(chain(40)), x)
    assert abs(deep - shallow) < 0.05 * x.nbytes
    assert held(chain(40), x) > 30 * x.nbytes


def test_checkpoints_lower_the_peak_memory_of_a_sequence_of_blocks() -> None:
    def peak(block):
        def f(x):
            for _ in range(8):
                x = block(x)
            return np.sum(x)

        x = np.ones(50_000)
        gc.collect()
        tracemalloc.start()
        da.grad(f)(x)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(da.checkpoint(chain(10))) < 0.5 * peak(chain(10))


def test_a_checkpoint_is_clean_after_an_exception() -> None:
    def f(x, fail):
        y = np.sin(x)
        if fail:
            raise RuntimeError("stop")
        return y

    g = da.checkpoint(f)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="stop"):
            da.grad(lambda x: np.sum(g(x, True)))(X)
        np.testing.assert_array_equal(da.grad(lambda x: np.sum(g(x, False)))(X), np.cos(X))


def test_a_checkpoint_runs_again_once_for_each_pull() -> None:
    f = counted(lambda x: np.sin(np.exp(x)))
    g = da.checkpoint(f)
    _, pull = da.vjp(g, X)
    assert f.count == 1
    first = pull(np.ones(3))[0]
    assert f.count == 2
    np.testing.assert_array_equal(pull(np.ones(3))[0], first)
    assert f.count == 3
    f.count = 0
    da.jvp(g, (X,), (X,))
    assert f.count == 1
    f.count = 0
    g(X)
    assert f.count == 1
    f.count = 0
    da.jacfwd(g)(X)
    assert f.count == 1
    f.count = 0
    da.jacrev(g)(X)
    assert f.count == 2


@pytest.mark.parametrize("f", [lambda x: 3 * x + 1, lambda x: x[::-1].reshape(3, 1), lambda x: np.sum(x) - x / 2.0])
def test_nothing_is_run_again_where_nothing_was_needed(f) -> None:
    run = counted(f)
    value, pull = da.vjp(da.checkpoint(run), X)
    (found_ct,) = pull(np.ones_like(value))
    assert run.count == 1
    np.testing.assert_array_equal(found_ct, da.vjp(f, X)[1](np.ones_like(value))[0])


def ck(f):
    return da.checkpoint(f)


WHERE = list(itertools.product([False, True], repeat=3))


@pytest.mark.parametrize(
    ("order", "inside"), [(n, w) for n in (0, 1, 2) for w in WHERE] + [(3, (False,) * 3), (3, (True, False, False))]
)
def test_checkpoints_at_every_level_agree_with_none(inside, order: int) -> None:
    """sin∘exp∘sin with checkpoints around parts, the whole, and every derivative."""
    parts = [ck(g) if c else g for g, c in zip((np.sin, np.exp, np.sin), inside, strict=True)]
    plain = lambda x: np.sin(np.exp(np.sin(x)))
    f = ck(lambda x: parts[2](parts[1](parts[0](x))))
    for _ in range(order):
        plain, f = da.grad(plain), ck(da.grad(f))
    assert float(f(0.3)) == pytest.approx(float(plain(0.3)), rel=1e-12)
    np.testing.assert_allclose(da.vmap(f)(X), da.vmap(plain)(X), rtol=1e-10)


def test_checkpoints_nest_with_gradients_thrown_away_and_hooks() -> None:
    child = ck(lambda x: np.sin(x) * x)

    def parent(x):
        da.grad(lambda y: child(y) ** 2)(x)
        return child(x) * child(2 * x)

    plain = lambda x: np.sin(x) * x * np.sin(2 * x) * 2 * x
    assert float(da.grad(ck(parent))(0.7)) == pytest.approx(float(da.grad(plain)(0.7)))
    seen = []
    hooked = ck(lambda x: np.sin(da.grad_hook(x, lambda ct: seen.append(float(da.grad(ck(np.exp))(0.0))))))
    assert float(da.grad(hooked)(0.0)) == 1.0
    assert seen == [1.0]


def test_checkpoints_take_keywords_static_arguments_trees_and_closures() -> None:
    def f(p, steps, mode, *, scale):
        out = p["w"]
        for _ in range(steps):
            out = np.sin(out) if mode == "sin" else out
        return {"out": out * scale, "n": steps}

    g = da.checkpoint(f, static_argnums=1)
    loss = lambda h: lambda w, s: np.sum(h({"w": w}, 3, "sin", scale=s)["out"])
    for a, b in zip(da.grad(loss(g), (0, 1))(X, 2.0), da.grad(loss(f), (0, 1))(X, 2.0), strict=True):
        np.testing.assert_allclose(a, b)
    # A count that stays an int without being declared static.
    np.testing.assert_allclose(da.grad(loss(da.checkpoint(f)))(X, 2.0), da.grad(loss(f))(X, 2.0))
    with pytest.raises(OutputError, match="text"):
        da.grad(da.checkpoint(lambda x: "text"))(1.0)
    with pytest.raises(ArgumentTypeError, match="argument 0 is in static_argnums"):
        da.grad(da.checkpoint(np.sin, static_argnums=0))(1.0)
    with pytest.raises(ArgumentError, match="static_argnums has 5"):
        da.grad(da.checkpoint(np.sin, static_argnums=5))(1.0)
    stopped = da.checkpoint(lambda x: x * np.exp(da.stop_gradient(x)))
    np.testing.assert_allclose(da.grad(lambda x: np.sum(stopped(x)))(X), np.exp(X))


def test_closed_over_tensors_are_arguments() -> None:
    def direct(w):
        return np.sum(ck(lambda x: np.sin(w * x))(w**2))

    def nested(w):
        def inner(x):
            return w * x

        return np.sum(ck(lambda x: np.sin(inner(x)))(w**2))

    def partial(w):
        return np.sum(ck(functools.partial(lambda w, x: np.sin(w * x), w))(w**2))

    def default(w):
        def f(x, w=w):
            return np.sin(w * x)

        return np.sum(ck(f)(w**2))

    def alone(w):
        return np.sum(ck(lambda: np.sin(w**3))())

    for f in (direct, nested, partial, default, alone):
        np.testing.assert_allclose(da.grad(f)(X), 3 * X**2 * np.cos(X**3), rtol=1e-12)
        np.testing.assert_allclose(da.vmap(da.grad(f))(X), 3 * X**2 * np.cos(X**3), rtol=1e-12)
        np.testing.assert_allclose(da.hessian(f)(X), da.hessian(lambda w: np.sum(np.sin(w**3)))(X), rtol=1e-10)


def test_a_tensor_that_a_checkpoint_can_not_see_is_refused() -> None:
    class Model:
        w = None

        def __call__(self, x):
            return self.w * x

    def f(w):
        model = Model()
        model.w = w
        return ck(model)(w)

    with pytest.raises(CapturedTensorError):
        da.grad(f)(2.0)


def test_custom_rules_hold_inside_a_checkpoint() -> None:
    calls = []
    f = da.custom_vjp(np.sin)
    f.defvjp(lambda x: (np.sin(x), x), lambda x, c: (calls.append(1), (2 * np.cos(x) * c,))[1])
    expected = 2 * np.cos(np.exp(X)) * np.exp(X)
    np.testing.assert_allclose(da.grad(lambda x: np.sum(ck(lambda x: f(np.exp(x)))(x)))(X), expected)
    assert len(calls) == 1


def test_the_context_of_the_first_run_is_restored() -> None:
    seen = []

    def f(x):
        seen.append(np.geterr()["over"])
        return np.sin(x) * x

    with np.errstate(over="raise"):
        _, pull = da.vjp(da.checkpoint(f), X)
    with np.errstate(over="print"):
        pull(np.ones(3))
    assert seen == ["raise", "raise"]


def test_what_the_policy_names_is_not_computed_again() -> None:
    runs = []
    expensive = da.wrap(lambda x: (runs.append(1), np.exp(x))[1], jac=lambda x: np.diag(np.exp(x)), like=X)
    upstream = lambda x: np.sin(da.checkpoint_name(np.sin(expensive(x)), "kept"))

    def count(policy) -> int:
        runs.clear()
        _, pull = da.vjp(da.checkpoint(upstream, policy=policy), X)
        assert len(runs) == 1
        np.testing.assert_allclose(pull(np.ones(3))[0], da.vjp(upstream, X)[1](np.ones(3))[0])
        return len(runs) - 2  # the comparison runs it once

    policies = da.checkpoint_policies
    assert count(None) == count(policies.nothing_saveable) == 1
    assert count(policies.everything_saveable) == 0
    assert count(policies.save_only_these_names("other")) == 1
    # The value of expensive is still needed for the derivative of the sine; kept itself, it is not.
    assert count(policies.save_only_these_names("kept")) == 1
    assert count(lambda name, params: name == "opaque_call") == 0


def test_upstream_of_what_is_kept_nothing_is_computed() -> None:
    runs = []
    costly = da.wrap(lambda x: (runs.append(1), x * 1.0)[1], jac=lambda x: np.eye(3), like=X)
    f = lambda x: np.exp(np.sin(da.checkpoint_name(3.0 * costly(x), "kept")))
    for policy, expected in ((None, 2), (da.checkpoint_policies.save_only_these_names("kept"), 1)):
        runs.clear()
        da.grad(lambda x: np.sum(da.checkpoint(f, policy=policy)(x)))(X)
        assert len(runs) == expected


def test_dots_saveable_keeps_products_alone() -> None:
    seen = []

    def policy(name, params):
        kept = da.checkpoint_policies.dots_saveable(name, params)
        seen.append((name, kept))
        return kept

    f = lambda w, x: np.sum(np.tanh(w @ np.exp(x)))
    w = np.arange(9.0).reshape(3, 3) / 9
    np.testing.assert_allclose(da.grad(da.checkpoint(f, policy=policy))(w, X), da.grad(f)(w, X))
    assert ("matmul", True) in seen
    assert ("tanh", False) in seen


def test_bad_policies_and_functions_that_can_not_be_repeated_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="policy='dots'"):
        da.checkpoint(np.sin, policy="dots")
    with pytest.raises(ArgumentTypeError, match="3"):
        da.checkpoint_policies.save_only_these_names(3)
    with pytest.raises(ArgumentTypeError):
        da.checkpoint(3)
    times = itertools.count()
    f = da.checkpoint(lambda x: np.sin(x) if next(times) == 0 else np.exp(x), policy=lambda n, p: n in ("sin", "exp"))
    with pytest.raises(NotRepeatableError, match=r"exp.*sin"):
        da.grad(f)(1.0)


def test_what_is_kept_goes_with_the_pullback() -> None:
    kept = []

    def exponential(x):
        out = np.exp(x)
        kept.append(weakref.ref(out))
        return out

    watch = da.wrap(exponential, jac=lambda x: np.diag(np.exp(x)), like=X)
    policy = lambda name, params: name == "opaque_call"
    value, pull = da.vjp(da.checkpoint(lambda x: np.sin(watch(x)), policy=policy), X)
    pull(value)
    assert kept[0]() is not None
    del pull
    gc.collect()
    assert kept[0]() is None


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_under_checkpoints(name: str, length: int) -> None:
    animal = ZOO[name]
    policy = lambda name, params: name in ("sin", "matmul", "multiply")

    def under(**options):
        wrapped = lambda np, *args: da.checkpoint(functools.partial(animal.function, np), **options)(*args)
        return Animal(wrapped, animal.make)

    failures = []
    for word in WORDS[length]:
        if animal.branches and set(word) & set("MT"):
            continue
        expected = found(name, animal, word)
        for kind, tried in (("plain", under()), ("policy", under(policy=policy))):
            try:
                value = found(name, tried, word)
                if not abs(value - expected) <= 1e-9 * (1 + abs(expected)):
                    failures.append(f"{word}, {kind}: {value!r}, expected {expected!r}")
            except Exception as error:
                failures.append(f"{word}, {kind}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures[:4])
