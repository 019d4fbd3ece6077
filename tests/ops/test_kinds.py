"""The strong product: an exact zero wins against an infinity, in every mode, to second order.

Not for: declared special values of single operators (test_special_values_*.py).
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.special

import dualad as da
from dualad.core.aval import Aval, aval_of
from dualad.core.tables import OPS
from dualad.ops.contraction import einsum, matmul
from dualad.ops.kinds import is_finite, scale, vanishes

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")

NORMS = {
    "x * x": lambda x: np.sum(np.sqrt(x * x)),
    "sum": lambda x: np.sqrt(np.sum(x**2)),
    "mean": lambda x: np.sqrt(np.mean(np.square(x))),
    "@": lambda x: np.sqrt(x @ x),
    "dot": lambda x: np.sqrt(np.dot(x, x)),
    "einsum": lambda x: np.sqrt(np.einsum("i,i->", x, x)),
    "vdot": lambda x: np.sqrt(np.vdot(x, x)),
    "quadratic form": lambda x: np.sqrt(x @ (np.array([[2.0, 0.0], [1.0, 3.0]]) @ x)),
    "var": lambda x: np.sqrt(np.var(x)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_written_out_have_the_derivative_zero_at_zero_in_every_mode(name) -> None:
    f, zero = NORMS[name], np.zeros(2)
    derivatives = (
        [da.jvp(f, (zero,), (e,))[1] for e in np.eye(2)],
        da.jacfwd(f)(zero),
        da.jacrev(f)(zero),
        da.grad(f)(zero),
    )
    for derivative in (*derivatives, da.vmap(da.grad(f))(np.zeros((3, 2)))[1]):
        np.testing.assert_array_equal(derivative, [0.0, 0.0])


SECOND = {
    "forward forward": lambda f: da.jacfwd(da.jacfwd(f)),
    "forward reverse": lambda f: da.jacfwd(da.grad(f)),
    "reverse forward": lambda f: da.jacrev(da.jacfwd(f)),
    "reverse reverse": lambda f: da.jacrev(da.grad(f)),
}


@pytest.mark.parametrize("order", SECOND)
def test_distances_between_all_pairs_to_second_order(order) -> None:
    """Against the sum over different pairs only, which has no pole."""

    def all_pairs(p):
        return np.sum(np.sqrt(np.sum((p[:, None] - p[None]) ** 2, axis=-1)))

    def different_pairs(p):
        return 2.0 * sum(np.sqrt(np.sum((p[i] - p[j]) ** 2)) for i, j in itertools.combinations(range(3), 2))

    points = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.25]])
    np.testing.assert_allclose(SECOND[order](all_pairs)(points), SECOND[order](different_pairs)(points), atol=1e-13)


def test_what_is_infinite_stays_infinite() -> None:
    assert da.grad(np.sqrt)(0.0) == np.inf
    np.testing.assert_array_equal(da.grad(lambda x: np.sqrt(2 * x[0] + x[1] ** 2))(np.zeros(2)), [np.inf, 0.0])


def test_where_forward_mode_finds_no_zero_reverse_mode_claims_none() -> None:
    """(√x)³ has the factor 3(√x)² = 0 behind the pole at 0: 0·∞ is NaN in both modes, whatever the limit."""

    def f(x):
        return np.sqrt(x) ** 3

    assert np.isnan(da.jacfwd(f)(0.0))
    assert np.isnan(da.grad(f)(0.0))
    for second in SECOND.values():
        assert np.isnan(second(f)(0.0))


def test_lanes_at_a_pole_and_beside_it() -> None:
    def norm(x):
        return np.sqrt(x @ x)

    points = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, -2.0]])
    np.testing.assert_allclose(da.vmap(da.grad(norm))(points), [[0.0, 0.0], [0.6, 0.8], [0.0, -1.0]])


def test_the_strong_product_of_numbers() -> None:
    table = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    pairs = np.array(list(itertools.product(table, table)))
    compiled = da.jit(scale)(
        *pairs.T.copy()
    )  # beside an infinity, as where there is none, a zero has the product's sign
    for (t, d), c in zip(pairs, compiled, strict=True):
        expected = t * np.copysign(1.0, d) if t == 0 else t * d
        for a, b in ((np.float64(t), np.float64(d)), (np.full(3, t), np.full(3, d))):
            for found in (scale(a, b), c):
                np.testing.assert_array_equal(found, expected)
                assert np.isnan(expected) or (np.signbit(found) == np.signbit(expected)).all()


def strong_sum(terms) -> float:
    total = 0.0
    for a, b in terms:
        total += 0.0 if a == 0 or b == 0 else a * b
    return total


@pytest.mark.parametrize("infinite", ["cotangent", "factor"])
@pytest.mark.parametrize("seed", range(4))
def test_strong_transposes_of_contractions_term_by_term(seed, infinite) -> None:
    """Behind a pole the zeros of the factor win against an infinite cotangent; at one, dead zeros of the cotangent."""
    rng = np.random.default_rng(seed)
    finite, values = np.array([0.0, 0.0, 1.5, -2.0]), np.array([0.0, 1.5, -2.0, np.inf, -np.inf])
    c = rng.choice(values if infinite == "cotangent" else finite, (3, 4))
    y = rng.choice(finite if infinite == "cotangent" else values, (5, 4))
    expected = [[strong_sum(zip(c[i], y[k], strict=True)) for k in range(5)] for i in range(3)]
    x = Aval((3, 5), np.dtype(float))
    known = {"live": None, "hot": True} if infinite == "cotangent" else {"live": c != 0, "hot": False}
    found, none = matmul.strong_transpose(c, x, y, **known)
    assert none is None
    np.testing.assert_array_equal(found, expected)
    none, found = einsum.strong_transpose(c, y, x, **known, subscripts="km,ik->im", optimize=False)
    assert none is None
    np.testing.assert_array_equal(found, expected)


def test_strong_transposes_of_stacks_of_matrices() -> None:
    """A matrix product is an Einstein sum behind a pole: every pair of ranks, also where one operand has no batch."""
    rng = np.random.default_rng(0)
    for n, m in [
        ((2, 3), (3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (6, 1, 3, 4)),
        ((3,), (3,)),
    ]:
        x, y = rng.normal(size=n), rng.normal(size=m)
        ct = np.array(rng.normal(size=np.shape(x @ y)))[()]
        for given in ((Aval(n, x.dtype), y), (x, Aval(m, y.dtype))):
            plain = matmul.transpose(ct, *given)
            for found, wanted in zip(matmul.strong_transpose(ct, *given, live=None, hot=True), plain, strict=True):
                assert (found is None) == (wanted is None)
                if found is not None:
                    np.testing.assert_allclose(found, wanted, rtol=1e-12)


# ── one operator of each kind against differences ────────────────────────────────────────────────────────────────

V, W = np.array([0.6, 1.4, 0.9]), np.array([1.1, 0.7, 2.3])
M = np.array([[2.0, 0.3, 0.1], [0.4, 1.5, 0.2], [0.5, 0.6, 1.2]])

OF_TWO = {
    "elementwise, regular": (lambda x, y: np.logaddexp(x, y[:, None]), V, W),
    "elementwise, by partials": (lambda x, y: scipy.special.betaln(x, y), V, W),
    "elementwise, with poles": (lambda x, y: scipy.special.rel_entr(x, y[:, None]), V, W),
    "bilinear": (lambda x, y: np.convolve(x, y[:2]), V, W),
    "linear along an axis": (lambda x, y: np.cumsum(np.outer(x, y), axis=1), V, W),
    "stacked": (lambda a, y: np.linalg.solve(a, y), M, W),
    "directional": (lambda a, y: da.jvp(np.linalg.det, (a,), (np.outer(y, y),))[1], M, W),
    "directional, thrice": (
        lambda a, y: da.jvp(
            lambda a: da.jvp(lambda a: da.jvp(np.linalg.det, (a,), (np.outer(y, y),))[1], (a,), (np.diag(y),))[1],
            (a,), (np.eye(3) * y[0] + np.tri(3),),
        )[1], M, W,
    ),
    "directional, twice": (
        lambda a, y: da.jvp(lambda a: da.jvp(np.linalg.det, (a,), (np.outer(y, y),))[1], (a,), (np.diag(y),))[1], M, W,
    ),
}  # fmt: skip


@pytest.mark.parametrize("moving", ["both", "first", "second"])
@pytest.mark.parametrize("name", OF_TWO)
def test_each_kind_has_the_derivative_of_its_function(name, moving) -> None:
    f, x, y = OF_TWO[name]
    s = np.cos(np.arange(x.size)).reshape(x.shape) * (moving != "second")
    t = np.sin(1.0 + np.arange(y.size)) * (moving != "first")
    if moving == "both":
        value, tangent = da.jvp(f, (x, y), (s, t))
    elif moving == "first":
        value, tangent = da.jvp(lambda x: f(x, y), (x,), (s,))
    else:
        value, tangent = da.jvp(lambda y: f(x, y), (y,), (t,))
    h = 1e-5
    np.testing.assert_allclose(value, f(x, y), rtol=1e-13)
    np.testing.assert_allclose(
        tangent, (f(x + h * s, y + h * t) - f(x - h * s, y - h * t)) / (2 * h), rtol=1e-7, atol=1e-8
    )
    lanes = da.vmap(lambda k: da.jvp(f, (k * x, y), (s, k * t))[1])(np.array([1.0, 2.0]))
    np.testing.assert_allclose(lanes, np.stack([da.jvp(f, (k * x, y), (s, k * t))[1] for k in (1.0, 2.0)]), rtol=1e-12)


def test_functions_of_real_numbers_have_real_samples() -> None:
    rng = np.random.default_rng(0)
    for name in ("hypot", "logaddexp"):
        assert not any(np.iscomplexobj(make(rng)) for spec in OPS[name].samples for make in spec)
    assert any(np.iscomplexobj(make(rng)) for spec in OPS["sin"].samples for make in spec)


def test_a_zero_that_moves_does_not_vanish() -> None:
    """Asked of a value with tangents, of one in a program that is differentiated later, and of a linear one."""
    x = np.array([0.0, -0.0, 2.0, 0.0])
    np.testing.assert_array_equal(vanishes(x), [True, True, False, True])
    seen = []

    def noted(x):
        seen.append(vanishes(x))
        return x

    da.jvp(noted, (x,), (np.array([0.0, 1.0, 1.0, 0.0]),))
    np.testing.assert_array_equal(seen[-1], [True, False, False, True])
    da.linearize(noted, x)
    assert not np.any(seen[-1])
    masked = lambda x: np.where(vanishes(x), 0.0, 3.0 * x)
    for f in (masked, da.trace(masked, x), da.jit(masked)):
        np.testing.assert_array_equal(da.jvp(f, (x,), (np.ones(4),))[1], np.full(4, 3.0))
        np.testing.assert_array_equal(da.jacrev(f)(x), 3 * np.eye(4))
        np.testing.assert_array_equal(da.taylor(f, x, np.ones(4), order=2)[1], np.full(4, 3.0))
    np.testing.assert_array_equal(da.vmap(vanishes)(np.stack([x, x + 1]))[0], vanishes(x))


def test_what_a_kind_declares() -> None:
    assert [OPS[name].kind for name in ("sin", "hypot", "less", "matmul", "cumsum")] == [
        "unary", "binary", "predicate", "bilinear", "linear",
    ]  # fmt: skip
    assert [OPS[name].linear_in for name in ("cumsum", "scale", "convolve")] == [(0,), (0, 1), (0, 1)]
    assert list(OPS["cofactors"].linear_positions(3, {})) == [1, 2]
    single = Aval((3,), np.dtype(np.float32))
    assert OPS["multiply"].abstract_eval(single, aval_of(2.0)).dtype == np.float32
    assert OPS["multiply"].abstract_eval(single, aval_of(np.float64(2.0))).dtype == np.float64


def test_finite_numbers_are_finite_whatever_overflows_on_the_way() -> None:
    large = np.full(3, 1e200)
    with np.errstate(all="raise"):
        assert is_finite(large)
        assert not is_finite(np.array([1e200, np.inf]))
        assert is_finite(np.full(9000, 1e305))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_finite(large)
        assert is_finite(np.full((3, 3), 1e200))
        assert is_finite(np.full((100, 100), 1e306))


def test_a_pole_of_the_derivative_alone_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert da.jvp(lambda x: scipy.special.rel_entr(x, 1.0), (0.0,), (0.0,)) == (0.0, 0.0)
        assert da.jvp(np.sqrt, (0.0,), (1.0,)) == (0.0, np.inf)


def test_a_tangent_of_zero_does_not_meet_an_infinite_second_derivative() -> None:
    still = lambda x: da.jvp(lambda y: np.sum(np.exp(np.sqrt(y))), (x,), (np.zeros(2),))[1]
    np.testing.assert_array_equal(da.grad(still)(np.zeros(2)), da.jacfwd(still)(np.zeros(2)))
    np.testing.assert_array_equal(da.grad(still)(np.zeros(2)), [0.0, 0.0])
