"""`quad` and its family in `dualad.scipy.integrate` against closed forms, differences and SciPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.integrate as si
import scipy.special as sp

import dualad as da
from dualad.errors import ArgumentTypeError, CapturedTensorError, ShapeError, UnsupportedError
from dualad.scipy.integrate import dblquad, nquad, quad, quad_vec, tplquad
from tests.oracles import differences


def same(found, expected, **limits) -> None:
    for x, y in zip(da.tree.flatten(found)[0], da.tree.flatten(expected)[0], strict=True):
        np.testing.assert_allclose(x, y, **({"rtol": 1e-9, "atol": 1e-9} | limits))


def sine(a, b, k):
    return quad(lambda x, k: np.sin(k * x), a, b, args=(k,))[0]


def sine_in_closed_form(a, b, k):
    return (np.cos(k * a) - np.cos(k * b)) / k


AT = (0.3, 1.2, 2.0)


def test_plain_arguments_are_scipys() -> None:
    assert quad(np.sin, 0, 1) == si.quad(np.sin, 0, 1)
    assert quad(np.sin, 0, 1, full_output=1)[2].keys() == si.quad(np.sin, 0, 1, full_output=1)[2].keys()
    assert nquad(lambda x, y: x * y, [(0, 1), (0, 2)]) == si.nquad(lambda x, y: x * y, [(0, 1), (0, 2)])
    assert dblquad(lambda y, x: x * y, 0, 1, 0, lambda x: x) == si.dblquad(lambda y, x: x * y, 0, 1, 0, lambda x: x)
    np.testing.assert_array_equal(
        quad_vec(lambda x: x * np.ones(2), 0, 1)[0], si.quad_vec(lambda x: x * np.ones(2), 0, 1)[0]
    )


def test_limits_and_parameters() -> None:
    value = da.jvp(sine, AT, (0.0, 0.0, 0.0))[0]
    assert value == si.quad(lambda x: np.sin(2.0 * x), 0.3, 1.2)[0]
    for jacobian in (da.grad, da.jacfwd, da.jacrev):
        same(jacobian(sine, (0, 1, 2))(*AT), da.grad(sine_in_closed_form, (0, 1, 2))(*AT))
    both = lambda f: lambda z: f(*z)
    at = np.array(AT)
    for f in (da.hessian, lambda g: da.jacfwd(da.jacfwd(g)), lambda g: da.jacrev(da.jacrev(g))):
        same(f(both(sine))(at), f(both(sine_in_closed_form))(at))
    third = lambda g: da.jacfwd(da.jacrev(da.jacfwd(both(g))))(at)
    same(third(sine), third(sine_in_closed_form))


def test_infinite_limits_and_a_singular_end() -> None:
    gamma = lambda s: quad(lambda x: x ** (s - 1) * np.exp(-x), 0, np.inf)[0]
    same(da.grad(gamma)(2.5), da.grad(sp.gamma)(2.5))
    same(da.grad(da.grad(gamma))(2.5), da.grad(da.grad(sp.gamma))(2.5))
    same(da.grad(gamma)(0.6), da.grad(sp.gamma)(0.6), rtol=1e-6)
    # A traced limit that is infinite adds nothing, and the other one its term.
    tail = lambda a, b: quad(lambda x: np.exp(-x), a, b)[0]
    same(da.grad(tail, (0, 1))(0.5, np.inf), (-np.exp(-0.5), 0.0))
    lanes = da.vmap(da.grad(tail, (0, 1)), (None, 0))(0.5, np.array([np.inf, 1.0]))
    same(lanes, (np.full(2, -np.exp(-0.5)), np.array([0.0, np.exp(-1.0)])))
    same(da.jvp(lambda k: quad(lambda x: np.exp(-k * x * x), -np.inf, np.inf)[0], (2.0,), (1.0,)),
         (np.sqrt(np.pi / 2), -np.sqrt(np.pi) / 2 / 2**1.5))  # fmt: skip


def test_lanes_programs_and_compiled_code() -> None:
    ks = np.array([0.5, 2.0, 3.0])
    same(da.vmap(sine, (None, None, 0))(0.3, 1.2, ks), sine_in_closed_form(0.3, 1.2, ks))
    slopes = da.vmap(da.grad(sine, 2), (None, None, 0))(0.3, 1.2, ks)
    same(slopes, np.array([da.grad(sine_in_closed_form, 2)(0.3, 1.2, k) for k in ks]))
    same(da.trace(sine, *AT)(*AT), sine(*AT))
    same(da.jit(da.grad(sine))(*AT), da.grad(sine)(*AT))


def test_many_parameters_are_integrated_from_the_same_points() -> None:
    calls = []

    def f(c):
        def integrand(x):
            calls.append(1)
            return np.polyval(c, x) * np.exp(x)

        return quad(integrand, 0, 1)[0]

    c = np.arange(1.0, 6.0)
    slope = da.grad(f)(c)
    same(slope, np.array([si.quad(lambda x, p=p: x**p * np.exp(x), 0, 1)[0] for p in (4, 3, 2, 1, 0)]))
    assert len(calls) < 5  # one trial, and one trace
    many = np.linspace(0, 1, 80)
    same(da.grad(lambda c: quad(lambda x: np.sum(c * np.exp(-np.arange(80) * x)), 0, 1)[0])(many),
         np.array([si.quad(lambda x, i=i: np.exp(-i * x), 0, 1)[0] for i in range(80)]))  # fmt: skip


def test_points_and_weights() -> None:
    kinked = lambda s: quad(lambda x: np.abs(x - s) ** 1.5, 0, 1, points=[0.3])[0]
    same(da.grad(kinked)(0.3), 0.3**1.5 - 0.7**1.5, rtol=1e-7)

    def wave(b, w):
        return quad(lambda x: np.exp(-w * x), 0, b, weight="cos", wvar=3.0)[0]

    differences.compare(
        da.jvp(wave, (1.0, 0.5), (0.3, 0.7))[1], differences.along(wave, [1.0, 0.5], [0.3, 0.7]), "weight"
    )
    edge = lambda k: quad(lambda x: np.cos(k * x), 0, 1, weight="alg", wvar=(-0.5, 0.0))[0]
    differences.compare(da.jvp(edge, (2.0,), (1.0,))[1], differences.along(edge, [2.0], [1.0]), "alg")
    pole = lambda a, k: quad(lambda x: np.cos(k * x), a, 1, weight="cauchy", wvar=0.2)[0]
    differences.compare(
        da.jvp(pole, (-1.0, 2.0), (0.4, 1.0))[1], differences.along(pole, [-1.0, 2.0], [0.4, 1.0]), "cauchy"
    )


def test_complex_integrands() -> None:
    f = lambda w: quad(lambda x: np.exp(1j * w * x), 0, 1, complex_func=True)[0]
    closed = lambda w: (np.exp(1j * w) - 1) / (1j * w)
    same(da.jvp(f, (0.5,), (1.0,)), da.jvp(closed, (0.5,), (1.0,)))
    same(da.grad(lambda w: np.imag(f(w)))(0.5), da.grad(lambda w: np.imag(closed(w)))(0.5))


def test_vectors() -> None:
    f = lambda k, b: quad_vec(lambda x: np.sin(k * x), 0.1, b)[0]
    closed = lambda k, b: (np.cos(0.1 * k) - np.cos(b * k)) / k
    at = (np.arange(1.0, 4.0), 0.7)
    for jacobian in (da.jacfwd, da.jacrev, lambda g, n: da.jacfwd(da.jacrev(g, n), n)):
        same(jacobian(f, (0, 1))(*at), jacobian(closed, (0, 1))(*at))
    gauss = lambda s: quad_vec(lambda x: np.exp(-s * x * x) * np.eye(2), -np.inf, np.inf)[0]
    same(da.jacfwd(gauss)(2.0), -0.5 * np.sqrt(np.pi) * 2**-1.5 * np.eye(2), rtol=1e-7)
    branching = lambda k: quad_vec(lambda x, k: np.stack([k * x, k]) if x > 0.5 else np.stack([k, k]), 0, 1, args=(k,))[
        0
    ]
    same(da.jvp(branching, (2.0,), (1.0,))[1], np.array([0.875, 1.0]), rtol=1e-6)


def test_several_variables() -> None:
    f = lambda r, c: nquad(lambda x, y, c: c * x * y, [lambda y, c: (0, r - y), (0, r)], args=(c,))[0]
    same(da.grad(f, (0, 1))(2.0, 1.5), (1.5 * 2.0**3 / 6, 2.0**4 / 24))
    same(da.grad(da.grad(f))(2.0, 1.5), 1.5 * 2.0**2 / 2)
    triangle = lambda r: dblquad(lambda y, x: r * x * y, 0, r, lambda x: 0.0, lambda x: r - x)[0]
    same(da.grad(triangle)(2.0), 5 * 2.0**4 / 24)
    simplex = lambda r: tplquad(lambda z, y, x: 1.0, 0, r, 0, lambda x: r - x, 0, lambda x, y: r - x - y)[0]
    same(da.grad(simplex)(2.0), 2.0)


def test_the_error_of_a_derivative_is_told() -> None:
    """The waves of the integrand are below the tolerance, those of its derivative are not."""
    f = lambda s: quad(lambda x: 1e-9 * np.sin(1e9 * s * x), 0, 1)[0]
    with pytest.warns(si.IntegrationWarning, match="derivative of the integral"):
        da.grad(f)(0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.grad(sine)(*AT)


REFUSED = {
    "points": (lambda p: quad(lambda x: p * x, 0, 1, points=[p]), ArgumentTypeError, "cut"),
    "wvar": (lambda p: quad(np.sin, 0, 1, weight="cos", wvar=p), ArgumentTypeError, "weight"),
    "limits of alg": (lambda p: quad(np.sin, 0, p, weight="alg", wvar=(0.5, 0.5)), UnsupportedError, "substitute"),
    "tolerance": (lambda p: quad(np.sin, 0, 1, epsabs=p), ArgumentTypeError, "epsabs"),
    "a vector": (lambda p: quad(lambda x: np.stack([p, x]), 0, 1), ShapeError, "quad_vec"),
    "a branch on a captured value": (
        lambda p: quad(lambda x: p if x > 0.5 else 0.0, 0, 1), CapturedTensorError, "args="
    ),
    "counts": (lambda p: nquad(lambda x: p, [(0, 1)], full_output=True), UnsupportedError, "full_output"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    f, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        da.jvp(f, (0.4,), (1.0,))


def test_full_output() -> None:
    f = lambda k: quad(lambda x: np.sin(k * x), 0, 1, full_output=1)
    infos = []
    slope = da.grad(lambda k: infos.append(f(k)[2]) or f(k)[0])(2.0)
    assert infos[0]["neval"] == 21
    same(slope, da.grad(sine_in_closed_form, 2)(0.0, 1.0, 2.0))
    with pytest.raises(UnsupportedError, match="full_output"):
        da.vmap(lambda k: quad(lambda x: np.sin(k * x), 0, 1, full_output=1)[0])(np.ones(2))


def test_branches_with_the_value_among_the_arguments() -> None:
    f = lambda k: quad(lambda x, k: k * x if x > 0.5 else k, 0, 1, args=(k,), points=[0.5])[0]
    for g in (da.grad(f), lambda k: da.jvp(f, (k,), (1.0,))[1]):
        same(g(2.0), 0.875)
