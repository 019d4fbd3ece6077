"""Series to high order against closed forms, laws, other transforms around and inside, and what is refused."""

from __future__ import annotations

import math
import time
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import dualad as da
from dualad.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError, TreeError
from tests.oracles.arrays import close

K = 20


def nested(f, x, v, order: int):
    """Return the coefficients of f(x + t v), by jvp of jvp of …"""
    along, out = (lambda t: f(x + t * v)), []
    for k in range(order + 1):
        out.append(along(0.0) / math.factorial(k))
        along = (lambda inner: lambda t: da.jvp(inner, (t,), (1.0,))[1])(along)
    return np.stack(out)


def tangent_numbers(order: int) -> list[float]:
    """Return the series of tan: t′ = 1 + t², in fractions."""
    t = [Fraction(0), Fraction(1)]
    for k in range(1, order):
        t.append(sum(t[j] * t[k - j] for j in range(k + 1)) / (k + 1))
    return [float(c) for c in t[: order + 1]]


CLOSED_FORMS = {
    "exp": (np.exp, 0.0, [1 / math.factorial(k) for k in range(K + 1)]),
    "geometric": (lambda x: 1 / (1 - x), 0.0, [1.0] * (K + 1)),
    "tan": (np.tan, 0.0, tangent_numbers(K)),
    "log": (np.log, 1.0, [0.0, *[(-1) ** (k + 1) / k for k in range(1, K + 1)]]),
    "lambertw": (
        lambda x: np.real(scipy.special.lambertw(x)), 0.0,
        [0.0, *[(-k) ** (k - 1) / math.factorial(k) for k in range(1, K + 1)]],
    ),
    "square root": (lambda x: np.sqrt(1 + x), 0.0, [scipy.special.binom(0.5, k) for k in range(K + 1)]),
    "arctan": (np.arctan, 0.0, [0.0 if k % 2 == 0 else (-1) ** (k // 2) / k for k in range(K + 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms_to_order_twenty(name: str) -> None:
    f, x, expected = CLOSED_FORMS[name]
    np.testing.assert_allclose(da.taylor(f, x, order=K), expected, rtol=1e-12, atol=1e-13)


SPECIAL = {
    "erf": 0.4, "gammaln": 1.7, "gamma": 2.3, "j0": 1.2, "expi": 0.9, "ellipk": 0.3, "digamma": 1.4, "erfinv": 0.2,
    "i0e": 0.8, "dawsn": 0.6, "spence": 1.5, "loggamma": 1.3,
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_against_mpmath(name: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    there = {
        "gammaln": mpmath.loggamma, "j0": lambda x: mpmath.besselj(0, x), "expi": mpmath.ei, "spence": lambda x:
        mpmath.polylog(2, 1 - x), "i0e": lambda x: mpmath.exp(-x) * mpmath.besseli(0, x), "dawsn": lambda x:
        mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
    }  # fmt: skip
    order = 8
    with mpmath.workdps(50):
        expected = mpmath.taylor(there.get(name) or getattr(mpmath, name), mpmath.mpf(SPECIAL[name]), order)
    found = da.taylor(getattr(scipy.special, name), SPECIAL[name], order=order)
    np.testing.assert_allclose(found, [float(c.real) for c in expected], rtol=2e-9, atol=1e-12)


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────

X = np.array([0.3, 0.7, 1.1])
V = np.array([1.0, -0.5, 0.2])


def smooth(x):
    return np.tanh(x @ np.arange(9.0).reshape(3, 3) / 9) * np.exp(-x[0]) / (1 + x[1] * x) + np.linalg.norm(x)


def test_series_of_a_composition_is_the_composition_of_series() -> None:
    inner = da.taylor(smooth, X, V, order=6)
    terms = [*inner[1:]]
    value, series = da.jet(lambda y: np.sum(np.sin(y)) * y, (inner[0],), (terms,), factorial_scaled=False)
    whole = da.taylor(lambda x: np.sum(np.sin(smooth(x))) * smooth(x), X, V, order=6)
    close(np.stack([value, *series]), whole, "composition")


def test_a_lower_order_is_a_prefix() -> None:
    close(da.taylor(smooth, X, V, order=4), da.taylor(smooth, X, V, order=9)[:5], "prefix", rtol=1e-13)


def test_scaling_the_direction_scales_by_powers() -> None:
    found = da.taylor(smooth, X, 3 * V, order=5) / 3.0 ** np.arange(6).reshape(-1, 1)
    close(found, da.taylor(smooth, X, V, order=5), "homogeneity", rtol=1e-12)


def test_scaled_terms_are_derivatives() -> None:
    value, series = da.jet(smooth, (X,), ([V, None, None],))
    coefficients = da.taylor(smooth, X, V, order=3)
    close(np.stack([value, *series]) / np.array([1, 1, 2, 6]).reshape(-1, 1), coefficients, "factorials", rtol=1e-13)


def test_jet_is_jax_jet() -> None:
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    from tests.oracles import jax_side  # noqa: F401 - float64

    terms = [V, np.array([0.3, 0.2, -0.1]), np.array([-0.4, 0.1, 0.6])]
    f = lambda xp: lambda x: xp.sin(x) * xp.exp(x[0]) / (1 + x * x)
    for scaled in (True, False):
        found = da.jet(f(np), (X,), (terms,), factorial_scaled=scaled)
        expected = jet(f(jnp), (X,), (terms,), factorial_scaled=scaled)
        close(found, jax.tree.map(np.asarray, expected), "JAX's jet", rtol=1e-6)  # its factorials are in float32


# ── around and inside ────────────────────────────────────────────────────────────────────────────────────────────

t3 = lambda f: lambda x: da.taylor(f, x, V, order=3)

WORDS = {
    "jvp of taylor": (lambda x: da.jvp(t3(smooth), (x,), (V,))[1], lambda x: da.jvp(by_hand, (x,), (V,))[1]),
    "taylor of jvp": (
        lambda x: da.jvp(t3(smooth), (x,), (V,))[1],
        lambda x: da.taylor(lambda y: da.jvp(smooth, (y,), (V,))[1], x, V, order=3),
    ),
    "jacrev of taylor": (lambda x: da.jacrev(t3(smooth))(x), lambda x: da.jacfwd(by_hand)(x)),
    "taylor of grad": (
        lambda x: da.taylor(da.grad(lambda y: np.sum(smooth(y) ** 2)), x, V, order=3),
        lambda x: nested(da.grad(lambda y: np.sum(smooth(y) ** 2)), x, V, 3),
    ),
    "hessian of taylor": (
        lambda x: da.hessian(lambda y: np.sum(t3(smooth)(y)))(x), lambda x: da.jacfwd(da.jacfwd(total_by_hand))(x),
    ),
    "vmap of taylor": (
        lambda x: da.vmap(lambda s: da.taylor(np.tanh, s, order=3))(x),
        lambda x: np.stack([da.taylor(np.tanh, s, order=3) for s in x]),
    ),
    "taylor of vmap": (
        lambda x: t3(lambda y: da.vmap(lambda s: np.tanh(s) * s)(y))(x), lambda x: t3(lambda y: np.tanh(y) * y)(x),
    ),
    "taylor of taylor": (
        lambda x: t3(lambda y: da.taylor(np.sin, y, y, order=2)[2])(x),
        lambda x: t3(lambda y: -np.sin(y) * y * y / 2)(x),
    ),
    "jit of taylor": (lambda x: da.jit(t3(smooth))(x), t3(smooth)),
    "taylor of jit": (t3(da.jit(smooth)), t3(smooth)),
    "taylor of hessian": (
        t3(da.hessian(lambda y: np.sum(smooth(y)))), lambda x: nested(da.hessian(lambda y: np.sum(smooth(y))), x, V, 3),
    ),
}  # fmt: skip


def by_hand(x):
    return nested(smooth, x, V, 3)


def total_by_hand(x):
    return np.sum(by_hand(x))


@pytest.mark.parametrize("word", WORDS)
def test_nesting(word: str) -> None:
    found, expected = (f(X) for f in WORDS[word])
    close(found, expected, word)


@da.custom_jvp
def own_jvp(x):
    return np.exp(x) * np.sin(x)


@own_jvp.defjvp
def _own_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return own_jvp(x), t * (own_jvp(x) + np.exp(x) * np.cos(x))


@da.custom_vjp
def own_vjp(x):
    return np.sin(x) * x


own_vjp.defvjp(lambda x: (own_vjp(x), x), lambda x, c: (c * (np.cos(x) * x + np.sin(x)),))


def writes(x):
    y = np.zeros_like(np.outer(x, x))
    y[0] = x
    y[:, 1] += np.sin(x)
    y[1:, 2] *= 2
    row = y[1]
    row[2] = x[0] * x[1]
    x = x.copy()
    x[0] *= x[1]
    y.T[0] = np.exp(x)
    return y


CONSTRUCTS = {
    "custom_jvp": own_jvp,
    "custom_vjp": own_vjp,
    "checkpoint": da.checkpoint(lambda x: np.sin(x) * np.exp(x)),
    "linear_call": lambda x: da.linear_call(lambda r, t: r * t, None, np.sin(x), x**2),
    "custom_linear_solve": lambda x: da.custom_linear_solve(
        lambda y: (2 + np.sin(x)) * y, x, lambda matvec, b: b / matvec(np.ones(3))
    ),
    "scan": lambda x: da.scan(lambda c, y: (np.sin(c) * y, c), x[0], x)[1],
    "fori_loop": lambda x: da.fori_loop(0, 3, lambda i, c: np.sin(c) * x + i, x),
    "while_loop": lambda x: da.while_loop(lambda c: np.sum(c) < 10.0, lambda c: c * 1.5 + np.sin(c), x),
    "cond": lambda x: da.cond(x[0] > 0, np.sin, lambda y: y, x),
    "traced scan": da.jit(lambda x: da.scan(lambda c, y: (np.sin(c) * y, c), x[0], x)[1]),
    "traced while_loop": da.jit(lambda x: da.while_loop(lambda c: np.sum(c) < 10.0, lambda c: c * 1.5 + np.sin(c), x)),
    "traced cond": da.jit(lambda x: da.cond(x[0] > 0, np.sin, lambda y: y, x)),
    "writes": writes,
    "mask": lambda x: np.sum(x[x > 0.5] ** 3),
    "branch": lambda x: x**3 if x[0] > 0 else -x,
    "lifted": da.lift(lambda x: np.array([float(x[0]) * 2, math.sin(x[1]), x[2]])),
    "eigenvectors": lambda x: np.abs(np.linalg.eigh(np.outer(x, x) + np.diag(x))[1]),
    "singular values": lambda x: np.linalg.svd(np.outer(x, x) + np.diag(x), compute_uv=False),
    "cholesky": lambda x: np.linalg.cholesky(np.outer(x, x) + np.eye(3)),
    "complex": lambda x: np.abs(np.fft.rfft(x * np.exp(x))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_constructs(name: str) -> None:
    f = CONSTRUCTS[name]
    close(da.taylor(f, X, V, order=3), nested(f, X, V, 3), name)


@pytest.mark.parametrize("name", ["traced scan", "traced while_loop", "traced cond", "custom_jvp"])
def test_the_cost_of_a_construct_does_not_explode_with_the_order(name: str) -> None:
    start = time.process_time()
    da.taylor(CONSTRUCTS[name], X, V, order=14)
    assert time.process_time() - start < 5.0


def test_a_traced_program_is_expanded_in_a_traced_program() -> None:
    for name in ("traced scan", "traced while_loop", "traced cond", "fori_loop"):
        f = CONSTRUCTS[name]
        found = da.jit(lambda x, f=f: da.taylor(f, x, V, order=3))(X)
        close(found, da.taylor(f, X, V, order=3), name)


def test_many_operations_need_no_recursion() -> None:
    def f(x):
        for _ in range(50_000):
            x = x * 0.9999 + 1e-4
        return x

    value = 0.9999**50_000
    np.testing.assert_allclose(da.taylor(f, 2.0, order=2), [1 + value, value, 0.0], rtol=1e-9)


def test_a_constant_that_is_written_to_later_is_read_as_it_was() -> None:
    @da.custom_jvp
    def f(x):
        return x * x

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        buffer = np.full(3, 2.0)
        tangent = t * (buffer * x)
        buffer[:] = np.nan
        return f(x), tangent

    close(da.taylor(f, X, V, order=3), nested(lambda x: x * x, X, V, 3), "snapshot")


programs = st.lists(st.sampled_from(["sin", "exp", "square", "divide", "shift", "sum", "sqrt", "matmul"]), min_size=1,
                    max_size=6)  # fmt: skip


@settings(max_examples=25)
@given(programs)
def test_random_programs(steps: list[str]) -> None:
    step = {
        "sin": np.sin, "exp": lambda x: np.exp(-x * x), "square": lambda x: x * x / 4,
        "divide": lambda x: x / (2 + x * x),
        "shift": lambda x: np.concatenate([x[1:], x[:1]]), "sum": lambda x: x + np.sum(x) / 4,
        "sqrt": lambda x: np.sqrt(1 + x * x), "matmul": lambda x: np.outer(x, x) @ x / 4,
    }  # fmt: skip

    def f(x):
        for name in steps:
            x = step[name](x)
        return x

    close(da.taylor(f, X, V, order=3), nested(f, X, V, 3), " ".join(steps))


# ── nth_derivative ───────────────────────────────────────────────────────────────────────────────────────────────


def test_nth_derivative_is_entry_by_entry() -> None:
    third = da.nth_derivative(lambda s: np.sin(s) * s, 3)
    np.testing.assert_allclose(third(X), -np.cos(X) * X - 3 * np.sin(X))
    np.testing.assert_allclose(third(X.reshape(3, 1)).shape, (3, 1))
    branching = da.nth_derivative(lambda s: s**3 if s > 0.5 else -(s**3), 3)
    with pytest.warns(Warning, match="lanes disagree"):
        np.testing.assert_allclose(branching(X), [-6, 6, 6])
    several = da.nth_derivative(lambda s: {"a": np.stack([s, s**2]), "n": 3.0}, 2)
    found = several(X)
    np.testing.assert_allclose(found["a"], np.tile([0.0, 2.0], (3, 1)))
    assert da.nth_derivative(np.sin, 0)(0.5) == np.sin(0.5)
    np.testing.assert_allclose(da.grad(da.nth_derivative(np.sin, 3))(0.3), np.sin(0.3))


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────

REFUSED = {
    "no series": (lambda: da.jet(np.sin, (1.0,), ([],)), ArgumentError, "argument 0 has no terms"),
    "no arguments": (lambda: da.jet(lambda: 1.0, (), ()), ArgumentError, "no arguments"),
    "lengths": (lambda: da.jet(np.add, (1.0, 2.0), ([1.0], [1.0, 0.0])), ArgumentError, "1, 2 terms"),
    "count": (lambda: da.jet(np.add, (1.0, 2.0), ([1.0],)), ArgumentError, "2 primals and 1 series"),
    "shape": (
        lambda: da.jet(np.sin, (X,), ([V, np.ones(2)],)), ShapeError, "the term of order 2 of argument",
    ),
    "dtype": (lambda: da.jet(np.sin, (X,), ([V, V + 1j],)), DtypeError, "the term of order 2"),
    "tree": (lambda: da.jet(lambda d: d["a"], ({"a": 1.0},), ([{"b": 1.0}],)), TreeError, "order 1"),
    "no list": (lambda: da.jet(np.sin, (1.0,), (1.0,)), ArgumentTypeError, "the series of argument 0 is a float"),
    "array as primals": (lambda: da.jet(np.sin, X, ([V],)), ArgumentTypeError, "primals is a ndarray"),
    "an integer that moves": (lambda: da.jet(lambda n: n, (3,), ([1],)), DtypeError, "int"),
    "factorials": (lambda: da.jet(np.sin, (1.0,), ([0.0] * 171,)), ArgumentError, "factorial_scaled=False"),
    "order": (lambda: da.taylor(np.sin, 1.0, order=-1), ArgumentError, "order is -1"),
    "no order": (lambda: da.taylor(np.sin, 1.0, order=2.0), ArgumentError, "order is 2.0"),
    "no direction": (lambda: da.taylor(np.sin, X, order=2), ArgumentError, "no direction v"),
    "direction": (lambda: da.taylor(np.sin, X, np.ones(2), order=2), ShapeError, "v has shape"),
    "integers": (lambda: da.taylor(np.sin, 2, order=2), DtypeError, "without a number that can move"),
    "nth of integers": (lambda: da.nth_derivative(np.sin, 2)(3), DtypeError, "can't be moved"),
    "nth": (lambda: da.nth_derivative(np.sin, -1), ArgumentError, "order is -1"),
    "no function": (lambda: da.taylor("sin", 2.0, order=2), ArgumentTypeError, "the function is 'sin'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_and_where(name: str) -> None:
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words) as error:
        call()
    assert error.value.why and error.value.instead


def test_a_series_that_leaves_its_transform_is_refused() -> None:
    kept = []
    da.taylor(lambda x: kept.append(x) or x, 1.0, order=2)
    with pytest.raises(da.errors.EscapedTensorError, match="taylor"):
        np.sin(kept[0])


@pytest.mark.plain
def test_a_plain_buffer_is_refused_with_the_remedy() -> None:
    with pytest.raises(da.errors.PlainBufferError, match="Series"):
        da.taylor(lambda x: np.asarray(x, float), 1.0, order=2)


def test_large_coefficients_are_no_reason_to_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c = da.taylor(lambda x: 1 / (1e-3 - x), 0.0, order=60)
    np.testing.assert_allclose(np.log10(c), 3.0 * np.arange(1, 62), rtol=1e-13)
