"""Custom rules: what they are given and what they may return.

Not for: the functions of PyTorch's database under compositions (`test_compositions_of_custom_rules.py`).
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dualad as da
from dualad.core.tracer import Tracer
from dualad.errors import (
    ArgumentError,
    ArgumentTypeError,
    CapturedTensorError,
    DtypeError,
    NotLinearError,
    OutputError,
    RuleMissingError,
    ShapeError,
    TreeError,
)

X = np.array([0.5, -1.5, 2.0])


def with_vjp(f, fwd=None, bwd=None, **options):
    out = da.custom_vjp(f, nondiff_argnums=options.pop("nondiff_argnums", ()))
    out.defvjp(fwd or (lambda *args: (out(*args), args)), bwd, **options)
    return out


# ── saved values, scalars, defaults ──────────────────────────────────────────────────────────────────────────────


def test_a_rule_receives_saved_values_and_a_static_number() -> None:
    f = with_vjp(
        lambda a, b, s: a + s * b + a * b,
        fwd=lambda a, b, s: (a + s * b + a * b, (a, b, None)),
        bwd=lambda s, r, c: (c * (r[1] + 1), c * (r[0] + s)),
        nondiff_argnums=2,
    )
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    ga, gb = da.grad(lambda a, b: np.sum(f(a, b, 2)), (0, 1))(a, b)
    np.testing.assert_array_equal(ga, b + 1)
    np.testing.assert_array_equal(gb, a + 2)
    np.testing.assert_array_equal(da.jacfwd(lambda b: da.grad(lambda a: np.sum(f(a, b, 2)))(a))(b), np.eye(2))


@pytest.mark.parametrize(("forward", "backward"), [(7, 11), (-1, 2)])
def test_the_value_and_the_rule_each_use_their_own_scale(forward: int, backward: int) -> None:
    f = with_vjp(
        lambda x, shape, k, m: np.reshape(x, shape) * k,
        bwd=lambda shape, k, m, r, c: (np.reshape(c, np.shape(r[0])) * m,),
        nondiff_argnums=(1, 2, 3),
    )
    value, pull = da.vjp(lambda x: f(x, (1, 3), forward, backward), X)
    np.testing.assert_array_equal(value, X[None] * forward)
    np.testing.assert_array_equal(pull(np.ones((1, 3)))[0], np.full(3, backward))


def test_default_arguments_are_resolved_before_the_rule() -> None:
    def power(x, y=3.0):
        return x**y

    f = with_vjp(power, bwd=lambda r, c: (r[1] * r[0] ** (r[1] - 1) * c, None))
    assert float(f(2.0)) == 8.0
    assert float(da.grad(f)(2.0)) == 12.0
    assert float(da.grad(lambda x: f(x, y=2.0))(2.0)) == 4.0
    assert float(da.grad(lambda x: f(y=2.0, x=x))(2.0)) == 4.0


def test_methods_may_have_custom_rules() -> None:
    class Scaled:
        k = 3.0

        @da.custom_jvp
        def apply(self, x):
            return self.k * x

        @apply.defjvp
        def apply_jvp(primals, tangents):
            self, x = primals
            return self.apply(x), 10.0 * self.k * tangents[1]

    assert float(da.grad(Scaled().apply)(1.0)) == 30.0


# ── what goes in and comes out ───────────────────────────────────────────────────────────────────────────────────


def test_custom_rules_take_trees_with_static_leaves_and_none() -> None:
    f = with_vjp(
        lambda p, mode: {"out": p["w"] * 2 if mode == "double" else p["w"], "n": 3, "none": None},
        fwd=lambda p, mode: (f(p, mode), {"mode": mode, "nothing": None}),
        bwd=lambda r, c: ({"w": 2 * c["out"] if r["mode"] == "double" else c["out"], "k": None}, None),
    )
    value, pull = da.vjp(lambda p: f(p, "double"), {"w": X, "k": 4})
    assert value["n"] == 3 and value["none"] is None
    (back,) = pull({"out": np.ones(3), "n": None, "none": None})
    np.testing.assert_array_equal(back["w"], np.full(3, 2.0))
    assert back["k"].dtype == da.float0


def test_a_custom_function_may_return_a_string_until_it_is_differentiated() -> None:
    f = with_vjp(lambda s: s.upper(), bwd=lambda r, c: (None,))
    assert f("a") == "A"
    g = with_vjp(lambda x: "text", bwd=lambda r, c: (None,))
    with pytest.raises(OutputError, match="text"):
        da.grad(g)(1.0)


@pytest.mark.parametrize("x", [np.array([1.0]), np.float64(1.0)], ids=["1", "0"])
def test_returning_the_argument_applies_the_rule(x) -> None:
    f = with_vjp(lambda x: x, fwd=lambda x: (x, None), bwd=lambda r, c: (2 * c,))
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(f(x)))(x), 2 * np.ones_like(x))
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(f(f(x))))(x), 4 * np.ones_like(x))
    np.testing.assert_array_equal(da.jvp(f, (x,), (np.ones_like(x),))[1], 2 * np.ones_like(x))


def test_cotangents_of_duplicate_outputs_add() -> None:
    f = with_vjp(lambda x: (x, x), fwd=lambda x: ((x, x), None), bwd=lambda r, c: (c[0] + c[1],))
    _, pull = da.vjp(f, X)
    np.testing.assert_array_equal(pull((X, 2 * X))[0], 3 * X)


# ── wrong results are refused by name ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bwd", "error", "words"),
    [
        (lambda r, c: (c, c), TreeError, r"bwd rule of `broken`.* 2 values for 1 argument"),
        (lambda r, c: c, TreeError, r"bwd rule of `broken`.* a (ndarray|float64)"),
        (lambda r, c: (np.zeros(10),), ShapeError, r"bwd rule of `broken`.*\(10,\).*\(3,\)"),
        (lambda r, c: (c[:1],), ShapeError, r"bwd rule of `broken`.*\(1,\).*\(3,\)"),
        (lambda r, c: (c.astype(np.float32),), DtypeError, r"bwd rule of `broken`.*float32.*float64"),
        (lambda r, c: (c * 1j,), DtypeError, r"bwd rule of `broken`.*complex128.*float64"),
        (lambda r, c: ({"a": c},), TreeError, r"bwd rule of `broken`"),
        (lambda r, c: ("text",), TreeError, r"bwd rule of `broken`.*text"),
    ],
)
def test_a_bwd_of_the_wrong_kind_is_refused(bwd, error, words) -> None:
    def broken(x):
        return x * 2

    f = with_vjp(broken, bwd=bwd)
    with pytest.raises(error, match=words):
        da.grad(lambda x: np.sum(f(x)))(X)


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        (lambda p, t: p[0], TreeError, r"jvp rule of `broken`"),
        (lambda p, t: (p[0], t[0], t[0]), TreeError, r"jvp rule of `broken`.*3 values"),
        (lambda p, t: (p[0], t[0][:2]), ShapeError, r"jvp rule of `broken`.*\(2,\).*\(3,\)"),
        (lambda p, t: (p[0], (t[0], t[0])), TreeError, r"jvp rule of `broken`"),
        (lambda p, t: (p[0], t[0].astype(np.float32)), DtypeError, r"jvp rule of `broken`.*float32"),
        (lambda p, t: (p[0] > 0, t[0]), DtypeError, r"jvp rule of `broken`.*float64.*bool"),
    ],
)
def test_a_jvp_rule_of_the_wrong_kind_is_refused(rule, error, words) -> None:
    def broken(x):
        return x * 2

    f = da.custom_jvp(broken)
    f.defjvp(rule)
    with pytest.raises(error, match=words):
        da.jvp(f, (X,), (X,))


def test_none_is_zero_and_a_weak_number_takes_the_dtype() -> None:
    f = with_vjp(lambda x, y: x * y, bwd=lambda r, c: (None, 2.0))
    gx, gy = da.grad(f, (0, 1))(np.float32(1.0), np.float32(3.0))
    assert gx == 0 and gx.dtype == np.float32
    assert gy == 2 and gy.dtype == np.float32


# ── zeros, and what has no derivative ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("symbolic", [False, True])
def test_zero_cotangents_are_symbolic_on_request(symbolic: bool) -> None:
    seen, perturbed = [], []

    def fwd(x, y):
        if symbolic:
            perturbed[:] = [x.perturbed, y.perturbed]
            x, y = x.value, y.value
        return (x * y, x + y), None

    def bwd(r, c):
        seen[:] = c
        return (c[0], None)

    f = with_vjp(lambda x, y: (x * y, x + y), fwd=fwd, bwd=bwd, symbolic_zeros=symbolic)
    da.grad(lambda x: np.sum(f(x, X)[0]))(X)
    if symbolic:
        assert isinstance(seen[1], da.SymbolicZero) and seen[1].shape == (3,) and seen[1].dtype == float
        assert perturbed == [True, False]
    else:
        np.testing.assert_array_equal(seen[1], np.zeros(3))
    np.testing.assert_array_equal(seen[0], np.ones(3))


def test_zero_tangents_are_symbolic_on_request() -> None:
    f = da.custom_jvp(lambda x, y: x * y)
    seen = []

    def rule(p, t):
        seen[:] = t
        return f(*p), t[0] * p[1]

    f.defjvp(rule, symbolic_zeros=True)
    da.jvp(lambda x: f(x, X), (X,), (X,))
    assert isinstance(seen[1], da.SymbolicZero)
    f.defjvp(rule)
    da.jvp(lambda x: f(x, X), (X,), (X,))
    np.testing.assert_array_equal(seen[1], np.zeros(3))


def test_the_cotangent_of_an_output_without_derivative_is_float0() -> None:
    seen = []

    def bwd(x, c):
        seen[:] = [c[1].dtype]
        return (c[0] * 2,)

    f = with_vjp(lambda x: (x * 2, x > 0), fwd=lambda x: ((x * 2, x > 0), x), bwd=bwd)
    value, tangent = da.jvp(f, (X,), (X,))
    np.testing.assert_array_equal(tangent[0], 2 * X)
    assert value[1].dtype == bool and tangent[1].dtype == da.float0
    np.testing.assert_array_equal(da.vjp(f, X)[1]((X, None))[0], 2 * X)
    assert seen == [da.float0]


def test_integer_arguments_and_a_stopped_float_have_no_gradient() -> None:
    f = with_vjp(lambda x, n: x**n, bwd=lambda r, c: (r[1] * r[0] ** (r[1] - 1) * c, None))
    assert float(da.grad(f)(2.0, 3)) == 12.0
    np.testing.assert_array_equal(da.vmap(da.grad(f), in_axes=(None, 0))(2.0, np.array([1, 2, 3])), [1.0, 4.0, 12.0])
    j = da.custom_jvp(lambda x, n: x * n)
    j.defjvp(lambda p, t: (j(*p), t[0] * p[1]))
    np.testing.assert_array_equal(da.vmap(da.grad(j))(X, np.array([1, 2, 3])), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(da.vmap(j)(x, np.array([1, 2, 3]))))(X), [1.0, 2.0, 3.0])
    stopped = with_vjp(lambda x: (x, da.stop_gradient(x)), bwd=lambda r, c: (c[0],))
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(stopped(x)[1]))(X), np.zeros(3))


# ── order, single source, batching ───────────────────────────────────────────────────────────────────────────────


def test_once_differentiable_is_never_silently_zero() -> None:
    @da.once_differentiable
    def square_backward(x, c):
        return (2 * x * c,)

    f = with_vjp(lambda x: x * x, fwd=lambda x: (x * x, x), bwd=square_backward)
    assert float(da.grad(f)(3.0)) == 6.0
    assert float(da.jvp(f, (3.0,), (1.0,))[1]) == 6.0
    for twice in (da.grad(da.grad(f)), da.jacfwd(da.grad(f)), da.grad(lambda x: da.jvp(f, (x,), (1.0,))[1])):
        with pytest.raises(RuleMissingError, match=r"square_backward.*once_differentiable"):
            twice(3.0)


def test_a_rule_that_coerces_is_lifted_or_fails_loudly() -> None:
    f = with_vjp(lambda x: x * x, fwd=lambda x: (x * x, x), bwd=lambda x, c: (np.asarray(2 * x, float) * c,))
    assert float(da.grad(f)(3.0)) == 6.0
    assert float(da.grad(da.grad(f))(3.0)) == 2.0
    with da.plain(), pytest.raises(TypeError, match="plain array"):
        da.grad(da.grad(f))(3.0)


def test_the_tangent_rule_is_the_single_source() -> None:
    f = da.custom_jvp(lambda x: x * x)
    f.defjvp(lambda p, t: (f(*p), 3.0 * p[0] * t[0]))  # wrong, and honoured
    assert float(da.grad(f)(2.0)) == float(da.jvp(f, (2.0,), (1.0,))[1]) == 6.0
    assert float(da.grad(da.grad(f))(2.0)) == 3.0
    crooked = da.custom_jvp(lambda x: x)
    crooked.defjvp(lambda p, t: (p[0], np.sin(t[0])))
    assert float(da.jvp(crooked, (2.0,), (0.0,))[1]) == 0.0
    with pytest.raises((NotLinearError, RuleMissingError)):
        da.grad(crooked)(2.0)


def test_mistakes_in_the_definition_of_a_rule_are_refused() -> None:
    for kind in (da.custom_jvp, da.custom_vjp, da.custom_vmap):

        def nameless(x):
            return x

        with pytest.raises(RuleMissingError, match="`nameless` was called without a rule"):
            kind(nameless)(1.0)
        with pytest.raises(ArgumentTypeError):
            kind(3)
    with pytest.raises(ArgumentTypeError, match="fwd"):
        da.custom_vjp(lambda x: x).defvjp(None, lambda r, c: (c,))
    f = with_vjp(lambda x: x, fwd=lambda x: x, bwd=lambda r, c: (c,))
    f.__name__ = "unpaired"
    with pytest.raises(TreeError, match="fwd rule of `unpaired`"):
        da.grad(f)(1.0)
    pair = with_vjp(lambda a, b: a * b, bwd=lambda r, c: (c, c))
    with pytest.raises(ArgumentTypeError, match="missing a required argument"):
        da.grad(lambda x: pair(x))(1.0)


def test_forward_mode_is_derived_from_the_pullback() -> None:
    f = with_vjp(np.sin, fwd=lambda x: (np.sin(x), x), bwd=lambda x, c: (np.cos(x) * c,))
    np.testing.assert_allclose(da.jacfwd(f)(X), np.diag(np.cos(X)))
    np.testing.assert_allclose(da.hessian(lambda x: np.sum(f(x)))(X), np.diag(-np.sin(X)))
    clip = with_vjp(lambda x: x * 1.0, fwd=lambda x: (x * 1.0, None), bwd=lambda r, c: (np.clip(c, -1, 1),))
    clip.__name__ = "clip"
    assert float(da.grad(lambda x: 5 * clip(x))(2.0)) == 1.0
    with pytest.raises(TypeError, match=r"(?s)`clip` was differentiated in forward mode.*custom_jvp"):
        da.jvp(clip, (2.0,), (1.0,))


def test_custom_vmap_is_honoured_in_every_order() -> None:
    calls = []

    @da.custom_vmap
    def f(x, y):
        return np.sin(x) * y

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        calls.append((axis_size, in_batched))
        out = np.sin(x) * (y if in_batched[1] else y[None] if np.ndim(x) > np.ndim(y) else y)
        return out, in_batched[0] or in_batched[1]

    g = lambda x, y: np.sum(np.sin(x) * y)
    h = lambda x, y: np.sum(f(x, y))
    xs = np.stack([X, 2 * X])
    for derive in (lambda f: f, da.grad, da.jacfwd, da.hessian):
        calls.clear()
        np.testing.assert_allclose(
            da.vmap(derive(h), in_axes=(0, None))(xs, X), da.vmap(derive(g), in_axes=(0, None))(xs, X)
        )
        assert (2, [True, False]) in calls
    np.testing.assert_allclose(da.grad(lambda xs: np.sum(da.vmap(h, in_axes=(0, None))(xs, X)))(xs), np.cos(xs) * X)
    calls.clear()
    assert f(X, X).shape == (3,)
    assert not calls


def test_custom_vmap_results_are_checked() -> None:
    def rule_of(result):
        f = da.custom_vmap(lambda x: x * 1.0)
        f.def_vmap(lambda n, b, x: result(x))
        f.__name__ = "checked"
        return lambda: da.vmap(f)(X)

    with pytest.raises(TreeError, match="vmap rule of `checked`"):
        rule_of(lambda x: x)()
    with pytest.raises(ShapeError, match=r"vmap rule of `checked`.*\(2,\)"):
        rule_of(lambda x: (x[:2], True))()
    np.testing.assert_array_equal(rule_of(lambda x: (x[0], False))(), np.full(3, X[0]))


def test_a_custom_function_may_write_into_its_own_arrays() -> None:
    def local(x):
        work = np.zeros_like(x)
        work[...] = x
        work[0] = 5.0
        return work

    f = with_vjp(local, bwd=lambda r, c: (np.concatenate([np.zeros_like(c[:1]), c[1:]]),))
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(f(x)))(X), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(da.vmap(f)(np.stack([X, X]))[1], [5.0, *X[1:]])


# ── closed-over tensors, plain calls, order ──────────────────────────────────────────────────────────────────────


def closing_over(kind):
    """Return a function of x whose custom function reads x from its closure."""

    def outer(x):
        def inner(y):
            return x * y

        if kind == "jvp":
            f = da.custom_jvp(inner)
            f.defjvp(lambda p, t: (inner(*p), x * t[0]))
        elif kind == "vjp":
            f = with_vjp(inner, fwd=lambda y: (inner(y), None), bwd=lambda r, c: (x * c,))
        else:
            f = da.custom_vmap(inner)
            f.def_vmap(lambda n, b, y: (inner(y), True))
        return f(2.0 * x)

    return outer


@pytest.mark.parametrize("kind", ["jvp", "vjp", "vmap"])
@pytest.mark.parametrize(
    "transform",
    [
        lambda f: da.jvp(f, (2.0,), (1.0,))[1],
        lambda f: da.grad(f)(2.0),
        lambda f: da.jacfwd(da.grad(f))(2.0),
        lambda f: da.vmap(f)(np.array([2.0, 3.0])),
        lambda f: da.vmap(da.grad(f))(np.array([2.0, 3.0])),
        lambda f: da.jvp(lambda x: da.jvp(lambda y: f(y) * x, (x,), (1.0,))[1], (2.0,), (1.0,)),
        lambda f: da.trace(f, 2.0),
        lambda f: da.trace(da.vmap(f), np.array([2.0, 3.0])),
    ],
)
def test_a_closed_over_tensor_is_noticed(kind: str, transform) -> None:
    with pytest.raises(CapturedTensorError, match=r"`inner`.*not one of its arguments"):
        transform(closing_over(kind))


def test_a_tensor_of_an_outer_level_may_be_closed_over() -> None:
    def outer(w):
        f = da.custom_jvp(lambda x: w * x**2)
        f.defjvp(lambda p, t: (w * p[0] ** 2, 2 * w * p[0] * t[0]))
        return da.grad(f)(3.0)

    assert float(outer(5.0)) == 30.0
    assert float(da.grad(outer)(5.0)) == 6.0
    np.testing.assert_array_equal(da.vmap(outer)(np.array([1.0, 2.0])), [6.0, 12.0])


@pytest.mark.parametrize("kind", [da.custom_jvp, da.custom_vjp, da.custom_vmap])
def test_plain_arrays_never_enter(kind) -> None:
    def seen(x, *, scale=1):
        assert isinstance(x, np.ndarray) and not isinstance(x, Tracer)
        return x * scale

    f = kind(seen)
    set_rule = getattr(f, {"custom_jvp": "defjvp", "custom_vjp": "defvjp", "custom_vmap": "def_vmap"}[kind.__name__])
    never = lambda *args: pytest.fail("the rule ran")
    set_rule(*[never] * (2 if kind is da.custom_vjp else 1))
    np.testing.assert_array_equal(f(X, scale=2), 2 * X)


def test_nondiff_arguments_must_not_be_traced() -> None:
    f = with_vjp(lambda k, x: k * x, bwd=lambda k, r, c: (k * c,), nondiff_argnums=0)
    f.__name__ = "scaled"
    assert float(da.grad(f, 1)(2.0, 3.0)) == 2.0
    with pytest.raises(ArgumentTypeError, match="`scaled`: argument 0 is in nondiff_argnums"):
        da.grad(f)(2.0, 3.0)
    with pytest.raises(ArgumentError, match="nondiff_argnums has 4"):
        da.grad(with_vjp(lambda x: x, bwd=lambda r, c: (c,), nondiff_argnums=4))(1.0)


def test_a_rule_that_nothing_needs_is_not_run() -> None:
    def fail(r, c):
        raise ValueError("this rule must not run")

    f = with_vjp(lambda y: y * 2, bwd=fail)
    h = lambda x, y: np.sin(x) * f(y)
    assert float(da.grad(h, 0)(0.0, 3.0)) == 6.0
    with pytest.raises(ValueError, match="this rule must not run"):
        da.grad(h, 1)(0.0, 3.0)


def test_custom_rules_run_in_reverse_order() -> None:
    log = []

    def logged(name):
        return with_vjp(lambda x: x * 1.0, bwd=lambda r, c: (log.append(name) or c,))

    a, b, c = map(logged, "abc")
    da.grad(lambda x: c(b(a(x))))(1.0)
    assert log == ["c", "b", "a"]


def test_custom_functions_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    with pytest.raises(ArgumentTypeError, match="inside a function"):
        pickle.dumps(with_vjp(lambda x: x, bwd=lambda r, c: (c,)))


@da.custom_jvp
def module_level(x):
    return x


module_level.defjvp(lambda p, t: (p[0], t[0]))
