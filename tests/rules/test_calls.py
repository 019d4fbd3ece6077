"""Calls with rules of a user's: each kind of call has the derivatives of the function it stands for.

The oracle is the function itself, under the same transform. Not for: what a rule may return, and what it is told when
it returns something else (tests/capabilities/test_custom_rules.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import OPS
from dualad.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError

X, Y = np.array([0.3, -1.2, 0.8]), np.array([1.5, 0.4, -0.7])
N = np.array([2, 3, 1])
XS, YS = np.stack([X, 2 * X, X - 1]), np.stack([Y, Y + 1, 3 * Y])


def function(x, n, y):
    """Results without a derivative stand in front of those that have one, and not all read all."""
    return {"a count": 2 * n, "b": np.sin(x) * y * n, "c": x + np.sum(y * y), "d": np.array([True]), "e": np.exp(y)}


def plain():
    return function


def with_custom_jvp():
    f = da.custom_jvp(function)

    @f.defjvp
    def rule(primals, tangents):
        (x, n, y), (s, none, t) = primals, tangents
        assert none.dtype == da.float0
        b = np.cos(x) * y * n * s + np.sin(x) * n * t
        return function(x, n, y), {"a count": None, "b": b, "c": s + 2 * np.sum(y * t), "d": None, "e": np.exp(y) * t}

    return f


def with_custom_vjp():
    f = da.custom_vjp(function)

    def bwd(known, ct):
        (x, n, y), b, c, e = known, ct["b"], ct["c"], ct["e"]
        assert ct["a count"].dtype == da.float0
        return np.cos(x) * y * n * b + c, None, np.sin(x) * n * b + 2 * y * np.sum(c) + np.exp(y) * e

    f.defvjp(lambda x, n, y: (function(x, n, y), (x, n, y)), bwd)
    return f


def with_custom_vmap():
    f = da.custom_vmap(function)

    @f.def_vmap
    def rule(size, mapped, x, n, y):
        axes = tuple([0 if m else None for m in mapped])
        return da.vmap(function, axes, axis_size=size)(x, n, y), True

    return f


KINDS = {
    "plain": plain,
    "custom_jvp": with_custom_jvp,
    "custom_vjp": with_custom_vjp,
    "custom_vmap": with_custom_vmap,
    "checkpoint": lambda: da.checkpoint(function),
    "checkpoint that keeps": lambda: da.checkpoint(function, policy=lambda name, params: name in ("sin", "exp")),
}


def numbers(f, *parts):
    return lambda x, y: sum([np.sum(v**2) for k, v in f(x, N, y).items() if k in (parts or "bce")])


def floats(f, *names):
    def g(x, y):
        out = f(x, N, y)
        return tuple([out[k] for k in names or "bce"])

    return g


TRANSFORMS = {
    "value": lambda f: f(X, N, Y),
    "jvp": lambda f: da.jvp(floats(f), (X, Y), (Y, X)),
    "jvp in one": lambda f: da.jvp(lambda y: floats(f)(X, y), (Y,), (X,)),
    "jvp in the other": lambda f: da.jvp(lambda x: floats(f)(x, Y), (X,), (Y,)),
    "grad": lambda f: da.grad(numbers(f), (0, 1))(X, Y),
    "grad of one result": lambda f: da.grad(numbers(f, "c"), (0, 1))(X, Y),
    "grad of another": lambda f: da.grad(lambda x, y: np.sum(f(x, N, y)["e"]), (0, 1))(X, Y),
    "jacfwd": lambda f: da.jacfwd(floats(f), (0, 1))(X, Y),
    "jacrev": lambda f: da.jacrev(floats(f), (0, 1))(X, Y),
    "hessian": lambda f: da.hessian(numbers(f), (0, 1))(X, Y),
    "reverse over reverse": lambda f: da.jacrev(da.grad(numbers(f), (0, 1)), 1)(X, Y),
    "vmap": lambda f: da.vmap(f, (0, None, 0))(XS, N, YS),
    "vmap of one": lambda f: da.vmap(f, (None, None, 0))(X, N, YS),
    "vmap of integers": lambda f: da.vmap(f, (None, 0, None))(X, np.stack([N, N + 1]), Y),
    "vmap of grad": lambda f: da.vmap(da.grad(numbers(f), (0, 1)))(XS, YS),
    "vmap of grad in one": lambda f: da.vmap(da.grad(numbers(f), (0, 1)), (0, None))(XS, Y),
    "vmap of grad in the other": lambda f: da.vmap(da.grad(numbers(f), 0), (None, 0))(X, YS),
    "vmap of jvp": lambda f: da.vmap(lambda x, y: da.jvp(floats(f), (x, Y), (X, y)), (0, 0))(XS, YS),
    "vmap of tangents": lambda f: da.vmap(lambda x, t: da.jvp(floats(f), (x, Y), (X, t)), (None, 0))(X, YS),
    "grad of vmap": lambda f: da.grad(
        lambda x, y: np.sum(da.vmap(numbers(f), (0, None))(x, y) ** 2), (0, 1)
    )(XS, Y),
    "vmap of vmap": lambda f: da.vmap(da.vmap(numbers(f), (0, None)), (None, 0))(XS, YS),
    "trace": lambda f: da.trace(da.grad(numbers(f), (0, 1)), X, Y)(Y, X),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "plain"])
def test_calls_have_the_derivatives_of_the_function(kind, name) -> None:
    ours, expected = TRANSFORMS[name](KINDS[kind]()), TRANSFORMS[name](function)
    a, b = da.tree.flatten(ours), da.tree.flatten(expected)
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
        assert x.dtype == y.dtype


@pytest.mark.parametrize(
    "name", ["custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "checkpoint_call", "opaque_call"]
)
def test_sample_calls_are_right(name) -> None:
    """The checks of every operator compare such a call with itself; here it is compared with its function."""
    op = OPS[name]
    samples = op.samples()
    assert samples
    for *shapes, params in samples:
        args = [np.cos(np.arange(1.0, 1.0 + np.prod(s))).reshape(s) for s in shapes]
        tangents = [a + 0.5 for a in args]

        def call(*args, params=params):
            return op(*args, **params)

        def same(*args, params=params):
            return tuple(params["call"].function(*args))

        np.testing.assert_allclose(da.jvp(call, args, tangents), da.jvp(same, args, tangents))
        np.testing.assert_allclose(call(*args), same(*args))
        for seen, expected in zip(
            da.vjp(call, *args)[1](same(*args)), da.vjp(same, *args)[1](same(*args)), strict=True
        ):
            np.testing.assert_allclose(seen, expected)
        for axes in ((0, None), (None, 0), (0, 0)):
            many = [np.stack([a, 2 * a]) if m == 0 else a for a, m in zip(args, axes, strict=True)]
            np.testing.assert_allclose(da.vmap(call, axes)(*many), da.vmap(same, axes)(*many))
            np.testing.assert_allclose(call(*args), same(*args))


def test_sample_linear_calls_are_linear_and_transposed() -> None:
    op = OPS["linear_call"]
    samples = op.samples()
    assert {(p["call"].opaque, p["call"].backward is None) for *_, p in samples} == {
        (o, b) for o in (True, False) for b in (True, False)
    }
    for *shapes, params in samples:
        v, w, r = (
            np.cos(np.arange(k, k + np.prod(s))).reshape(s) for k, s in zip((1.0, 2.0, 3.0), shapes, strict=True)
        )
        (a, b), push = op(v, w, r, **params), params["call"].forward
        np.testing.assert_allclose((a, b), (np.cos(r) * v, w + v * r))
        np.testing.assert_allclose(push([r], [v, w]), (a, b))
        c, d = da.vjp(lambda *vs, r=r, params=params: op(*vs, r, **params), v, w)[1]((w, v))
        np.testing.assert_allclose((c, d), (np.cos(r) * w + v * r, v))


# ── single rules ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cotangent_that_is_left_out_has_the_dtype_of_its_argument() -> None:
    f = da.custom_vjp(lambda x, y: x * 2 + y.astype(x.dtype))
    f.defvjp(lambda x, y: (f(x, y), None), lambda known, ct: (2 * ct, None))
    dx, dy = da.vjp(f, X, Y.astype(np.float32))[1](X)
    assert (dx.dtype, dy.dtype) == (np.float64, np.float32)
    np.testing.assert_array_equal(dy, 0.0)


def test_once_differentiable_with_an_integer_among_the_results() -> None:
    f = da.custom_vjp(lambda x: (np.array([1, 2]), x * x))
    f.defvjp(lambda x: (f(x), x), da.once_differentiable(lambda x, ct: (2 * x * ct[1],)))
    g = lambda x: np.sum(f(x)[1] ** 2)
    np.testing.assert_allclose(da.grad(g)(X), 4 * X**3)
    np.testing.assert_allclose(da.vmap(da.grad(g))(XS), 4 * XS**3)
    np.testing.assert_allclose(da.trace(da.grad(g), X)(Y), 4 * Y**3)


def test_the_rule_for_lanes_runs_where_the_point_is_mapped_and_only_there() -> None:
    sizes = []
    f = da.custom_vmap(lambda x: np.sin(x))

    @f.def_vmap
    def rule(size, mapped, x):
        sizes.append((size, *mapped))
        return np.sin(x), True

    np.testing.assert_allclose(da.jacfwd(f)(X), np.diag(np.cos(X)))
    np.testing.assert_allclose(da.jacrev(f)(X), np.diag(np.cos(X)))
    assert sizes == []
    np.testing.assert_allclose(da.vmap(da.grad(lambda x: np.sum(f(x))))(XS), np.cos(XS))
    assert sizes
    assert set(sizes) == {(3, True)}


def test_messages_name_the_leaf_of_a_tangent() -> None:
    f = da.custom_jvp(lambda x: {"a": x, "b": 2 * x})
    f.defjvp(lambda primals, tangents: (f(*primals), {"a": None, "b": tangents[0][:2]}))
    with pytest.raises(ShapeError, match=r"shape \(2,\) for .*\['b'\].*expected \(3,\)"):
        da.jvp(f, (X,), (X,))


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────────────


def power(x, *, exponent=2.0, sign=1.0):
    return sign * x**exponent


def ruled(kind: str, everything: bool):
    """Return ``power`` with a rule that has parameters for what can be given by name only, one by one or as a whole."""
    if kind == "jvp":
        f = da.custom_jvp(power)
        if everything:
            f.defjvp(lambda p, t, **k: (power(*p, **k), k["sign"] * k["exponent"] * p[0] ** (k["exponent"] - 1) * t[0]))
        else:
            f.defjvp(
                lambda p, t, *, exponent, sign=1.0: (
                    power(*p, exponent=exponent, sign=sign), sign * exponent * p[0] ** (exponent - 1) * t[0],
                )
            )  # fmt: skip
        return f
    f = da.custom_vjp(power)
    if everything:
        fwd = lambda x, **k: (power(x, **k), (x, k))

        def bwd(known, ct):
            x, k = known
            return (k["sign"] * k["exponent"] * x ** (k["exponent"] - 1) * ct,)

    else:
        fwd = lambda x, *, exponent, sign=1.0: (power(x, exponent=exponent, sign=sign), x)
        bwd = lambda x, ct, *, exponent, sign=1.0: (sign * exponent * x ** (exponent - 1) * ct,)
    f.defvjp(fwd, bwd)
    return f


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_what_is_given_by_name_only_reaches_the_rule(kind: str, everything: bool) -> None:
    f = ruled(kind, everything)
    assert da.grad(lambda x: f(x, exponent=3.0, sign=-1.0))(2.0) == -12.0
    if not everything:
        assert da.grad(lambda x: f(x, exponent=3.0))(2.0) == 12.0
    with pytest.raises(ArgumentTypeError, match=r"does not take.*"):
        da.grad(lambda x: f(x, x=x, exponent=3.0))(2.0)
    with pytest.raises(ArgumentTypeError, match=r"keyword-only arguments \['exponent'\] are traced"):
        da.grad(lambda x: f(x, exponent=x))(2.0)


def test_a_rule_without_parameters_for_names_is_told() -> None:
    f = da.custom_jvp(power)
    f.defjvp(lambda p, t: (power(*p), t[0]))
    with pytest.raises(ArgumentError, match=r"\['exponent'\]; its jvp rule has no parameters for them"):
        da.grad(lambda x: f(x, exponent=3.0))(2.0)


def test_names_defaults_and_positions_are_one_call() -> None:
    f = da.custom_jvp(lambda x, y=3.0, n=2: n * x * y)
    f.defjvp(lambda p, t: (p[2] * p[0] * p[1], p[2] * (p[0] * t[1] + t[0] * p[1])))
    for call in (lambda x: f(x), lambda x: f(x, n=2), lambda x: f(y=3.0, x=x), lambda x: f(x, 3.0, 2)):
        assert da.jvp(call, (5.0,), (1.0,)) == (30.0, 6.0)
    with pytest.raises(ArgumentTypeError, match="does not take"):
        da.grad(lambda x: f(x, 3.0, 2, n=5))(2.0)


@pytest.mark.parametrize("numbers", [1, (1,), (0, 2)])
def test_arguments_that_are_held_come_first_in_their_places(numbers) -> None:
    values = [2.0, 3.0, 5.0]
    f = da.custom_jvp(lambda a, b, c: a + 10 * b + 100 * c, nondiff_argnums=numbers)
    held = (numbers,) if isinstance(numbers, int) else numbers
    seen = []

    @f.defjvp
    def rule(*given):
        *first, primals, tangents = given
        seen.append(first)
        full = list(primals)
        for n, x in zip(held, first, strict=True):
            full.insert(n, x)
        factors = [k for i, k in enumerate((1, 10, 100)) if i not in held]
        return f(*full), sum(k * t for k, t in zip(factors, tangents, strict=True))

    moving = next(i for i in range(3) if i not in held)
    g = lambda x: f(*[x if i == moving else v for i, v in enumerate(values)])
    assert da.jvp(g, (values[moving],), (1.0,)) == (532.0, 10.0**moving)
    assert seen == [[values[n] for n in held]]


# ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def branching():
    f = da.custom_vjp(lambda x, w: w * x if x > 0 else 3.0 * w)
    f.defvjp(
        lambda x, w: (w * x, (x, w, True)) if x > 0 else (3.0 * w, (x, w, False)),
        lambda known, ct: (known[1] * ct, known[0] * ct) if known[0] > 0 else (0.0 * ct, 3.0 * ct),
    )
    return f


@pytest.mark.filterwarnings("ignore:vmap")
def test_rules_branch_lane_by_lane() -> None:
    f, w = branching(), 2.0
    xs = np.array([1.0, -1.0, 4.0])
    dx, dw = da.vmap(da.grad(f, (0, 1)), (0, None))(xs, w)
    np.testing.assert_array_equal(dx, [2.0, 0.0, 2.0])
    np.testing.assert_array_equal(dw, [1.0, 3.0, 4.0])
    both = da.vmap(da.vmap(da.grad(f), (0, None)), (None, 0))(xs, np.array([2.0, 5.0]))
    np.testing.assert_array_equal(both, [[2.0, 0.0, 2.0], [5.0, 0.0, 5.0]])
    # the lanes of the outer vmap alone disagree
    outer = da.vmap(lambda x: da.vmap(da.grad(f, 1), (None, 0))(x, np.array([2.0, 5.0])))(xs)
    np.testing.assert_array_equal(outer, [[1.0, 1.0], [3.0, 3.0], [4.0, 4.0]])


@pytest.mark.filterwarnings("ignore:vmap")
def test_a_rule_branches_where_the_function_does_not() -> None:
    f = da.custom_vjp(lambda x, w: w * x)
    f.defvjp(
        lambda x, w: (w * x, (x, w, 1.0)) if x > 0 else (w * x, (x, w, -1.0)),
        lambda known, ct: (known[2] * known[1] * ct, known[2] * known[0] * ct),
    )
    xs = np.array([1.0, -1.0, 4.0])
    np.testing.assert_array_equal(da.vmap(da.grad(f), (0, None))(xs, 2.0), [2.0, -2.0, 2.0])
    np.testing.assert_array_equal(da.grad(lambda w: np.sum(da.vmap(f, (0, None))(xs, w)))(2.0), 1.0 + 1.0 + 4.0)


@pytest.mark.parametrize("number", [1, 2])
def test_positions_that_a_call_does_not_have(number: int) -> None:
    f = da.custom_jvp(lambda *xs: xs[0], nondiff_argnums=number)
    f.defjvp(lambda *given: None)
    with pytest.raises(ArgumentError, match=f"nondiff_argnums has {number}, but the call has 1") as caught:
        da.grad(f)(1.0)
    assert caught.value.instead == "choose from 0 to 0"


def test_once_differentiable_with_an_argument_that_is_held() -> None:
    f = da.custom_vjp(lambda n, x: x**n, nondiff_argnums=0)
    f.defvjp(lambda n, x: (x**n, x), da.once_differentiable(lambda n, x, ct: (n * x ** (n - 1) * ct,)))
    g = lambda x: np.sum(f(3, x) ** 2)
    np.testing.assert_allclose(da.grad(g)(X), 6 * X**5)
    np.testing.assert_allclose(da.vmap(da.grad(g))(XS), 6 * XS**5)


def test_the_remedy_depends_on_the_dtype() -> None:
    f = da.custom_jvp(lambda x: 2.0 * x)
    f.defjvp(lambda p, t: (2.0 * p[0], 2j * t[0]))
    with pytest.raises(DtypeError, match=r"take np\.real of it"):
        da.jvp(f, (X,), (X,))
    f.defjvp(lambda p, t: (2.0 * p[0], t[0].astype(np.float64)))
    with pytest.raises(DtypeError, match=r"cast it: \.astype\(np\.float32\)"):
        da.jvp(f, (X.astype(np.float32),), (X.astype(np.float32),))


def test_what_calls_are_declared_to_be() -> None:
    """They may fail because of the user's code, and are then carried out where the user's ``except`` can catch it."""
    for name in ("custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "checkpoint_call", "opaque_call"):
        assert OPS[name].raises
        assert OPS[name].multiple_results
    assert OPS["linear_call"].sparse_transpose
    f = da.custom_jvp(lambda x, y: x * y)
    with pytest.raises(ArgumentTypeError, match="defjvps was given 3"):
        f.defjvps(None, 3)
