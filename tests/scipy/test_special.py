"""`dualad.scipy.special`: SciPy's Python functions under every transform, against JAX, at special points.

Not for: ufuncs called as `scipy.special.<name>` (`test_scipy_direct.py`, `tests/ops/test_special.py`).
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special as sp

import dualad as da
import dualad.scipy.special as ours
from dualad.errors import UnsupportedError
from tests.oracles import differences
from tests.oracles.arrays import close, generator, leaves, random_like
from tests.oracles.calls import check_call
from tests.oracles.jax_side import jax, jnp

rng = generator("scipy.special")
M = rng.normal(size=(3, 4))
P = rng.uniform(1.2, 3.0, size=(2, 3))
W = rng.uniform(0.2, 2.0, size=(3, 4))
N = np.array([0, 1, 3])
INF = np.inf
PACKAGE = Path(da.__file__).parent

CALLS = {
    "logsumexp": (ours.logsumexp, M),
    "logsumexp axis": (lambda a: ours.logsumexp(a, axis=0), M),
    "logsumexp axes": (lambda a: ours.logsumexp(a, axis=(-1, 0), keepdims=True), np.stack([M, 2 * M])),
    "logsumexp b": (lambda a, b: ours.logsumexp(a, axis=1, b=b), M, W),
    "logsumexp b broadcast": (lambda a, b: ours.logsumexp(a, b=b, axis=1, keepdims=True), M, W[:, :1]),
    "logsumexp sign": (lambda a, b: ours.logsumexp(a, b=b, axis=0, return_sign=True)[0], M, W - 0.9),
    "logsumexp complex": (lambda a: ours.logsumexp(a, axis=0), M + 0.5j * W),
    "logsumexp of a number": (ours.logsumexp, np.array(0.7)),
    "softmax": (ours.softmax, M),
    "softmax axis": (lambda x: ours.softmax(x, axis=0), M),
    "log_softmax": (lambda x: ours.log_softmax(x, axis=-1), M),
    "multigammaln": (lambda a: ours.multigammaln(a, 3), P),
    "polygamma 0": (lambda x: ours.polygamma(0, x), P),
    "polygamma 2": (lambda x: ours.polygamma(2, x), P),
    "polygamma of several orders": (lambda x: ours.polygamma(N, x), P),
    "zeta": (lambda q: ours.zeta(2.5, q), P),
    "comb": (lambda n, k: ours.comb(n, k), 4 + P, P),
    "comb repetition": (lambda n: ours.comb(n, 2, repetition=True), P),
    "perm": (lambda n: ours.perm(n, 2), 2 + P),
    "factorial": (ours.factorial, P),
    "lambertw": (ours.lambertw, P),
    "lambertw branch": (lambda z: ours.lambertw(z, -1), P + 0.5j),
    "spherical_jn": (lambda z: ours.spherical_jn(N, z), P),
    "spherical_jn left": (lambda z: ours.spherical_jn(N, z), -P),
    "spherical_yn left": (lambda z: ours.spherical_yn(N, z, derivative=True), -P),
    "spherical_in": (lambda z: ours.spherical_in(N, z, derivative=True), -P),
    "spherical_kn": (lambda z: ours.spherical_kn(N, z, derivative=True), P),
    "spherical_jn complex": (lambda z: ours.spherical_jn(2, z), P + 0.5j),
    "jvp": (lambda z: ours.jvp(0.5, z, 2), P),
    "yvp": (lambda z: ours.yvp(1.0, z, 1), P),
    "ivp": (lambda z: ours.ivp(N, z, 2), P),
    "kvp": (lambda z: ours.kvp(0.3, z, 3), P),
    "h1vp": (lambda z: ours.h1vp(1, z), P + 0j),
    "h2vp": (lambda z: ours.h2vp(1, z, 0), P + 0j),
    "softplus": (ours.softplus, M),
    "sinc": (ours.sinc, M),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    f, *args = CALLS[name]
    check_call(name, f, *args)


JAX = {
    "logsumexp": (lambda m, a, b: m.logsumexp(a, axis=0, b=b), M, W),
    "softmax": (lambda m, a: m.softmax(a, axis=1), M),
    "log_softmax": (lambda m, a: m.log_softmax(a, axis=(0, 1)), M),
    "multigammaln": (lambda m, a: m.multigammaln(a, 2), P),
    "polygamma": (lambda m, a: m.polygamma(1, a), P),
    "zeta": (lambda m, q: m.zeta(3.0, q), P),
    "log_softmax far": (lambda m, a: m.log_softmax(a), np.array([1000.0, -1000.0, 999.0])),
    "logsumexp far": (lambda m, a: m.logsumexp(a), np.array([1000.0, -1000.0, 999.0])),
    "softmax far": (lambda m, a: m.softmax(a), np.array([-1000.0, -1001.0, 1000.0])),
}


@pytest.mark.parametrize("name", JAX)
def test_like_jax(name: str) -> None:
    f, *args = JAX[name]
    directions = [[random_like(rng, a) for a in args] for _ in range(3)]
    positions = tuple(range(len(args)))
    if name in ("multigammaln", "polygamma", "zeta"):
        directions = directions[:1]  # JAX declares one derivative of polygamma in x, and none of some others

    def everything(module, jvp, grad, xp):
        g, found = (lambda *xs: f(module, *xs)), []
        for t in directions:
            g = (lambda g, t: lambda *xs: jvp(g, xs, tuple(t))[1])(g, t)
            found.append(g(*args))
        return [*found, *grad(lambda *xs: xp.sum(xp.sin(f(module, *xs))), positions)(*args)]

    expected = jax.jit(lambda: everything(jax.scipy.special, jax.jvp, jax.grad, jnp))()
    close(everything(ours, da.jvp, da.grad, np), [np.asarray(x) for x in expected], name, rtol=1e-8)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: ours.multigammaln(x, 3), P),
        (lambda x: ours.polygamma(N, x), P),
        (lambda x: ours.logsumexp(x, axis=1, b=W - 0.9, return_sign=True)[0], M),
        (lambda x: ours.spherical_jn(N, x), -P),
        (lambda x: ours.spherical_kn(2, x), P),
    ],
)
def test_third_order_by_differences(f, x) -> None:
    t = random_like(rng, x)
    order = [f]
    for _ in range(3):
        order.append((lambda g: lambda x: da.jvp(g, (x,), (t,))[1])(order[-1]))
    for n in range(3):
        differences.compare(order[n + 1](x), differences.along(order[n], (x,), (t,)), f"order {n + 1}")


# ── special points ───────────────────────────────────────────────────────────────────────────────────────────────


def test_logsumexp_keeps_the_small_terms() -> None:
    x = np.array([-80.0, 0.0, -90.0])
    value, t = da.jvp(ours.logsumexp, (x,), (np.ones(3),))
    assert value == pytest.approx(np.log1p(np.exp(-80.0) + np.exp(-90.0)), rel=1e-14)
    assert value > 0
    assert t == pytest.approx(1.0, rel=1e-15)


def test_logsumexp_with_infinite_terms() -> None:
    x = np.array([0.5, -INF, 1.0])
    value, g = da.value_and_grad(ours.logsumexp)(x)
    assert value == sp.logsumexp(x)
    np.testing.assert_allclose(g, sp.softmax(x), rtol=1e-15)
    nothing = np.array([-INF, -INF])
    assert da.jvp(ours.logsumexp, (nothing,), (np.zeros(2),))[0] == -INF
    assert np.isnan(da.jvp(ours.logsumexp, (nothing,), (np.ones(2),))[1])
    for gradient in (da.grad(ours.logsumexp), da.jit(da.grad(ours.logsumexp))):
        assert np.all(np.isnan(gradient(nothing)))
        np.testing.assert_array_equal(gradient(np.array([-INF, 0.0])), [0.0, 1.0])
    rows = np.array([[-INF, -INF], [0.0, -INF], [0.0, 0.0]])
    g = da.vmap(da.grad(ours.logsumexp))(rows)
    np.testing.assert_array_equal(g, [[np.nan, np.nan], [1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_array_equal(da.grad(lambda a: np.sum(ours.logsumexp(a, axis=1)[1:]))(rows)[0], [0.0, 0.0])
    assert da.jvp(ours.logsumexp, (np.array([INF, 0.0]),), (np.zeros(2),))[0] == INF
    # A weight of zero takes its term away, whatever it is.
    g = da.grad(lambda a: ours.logsumexp(a, b=np.array([1.0, 0.0, 2.0])))(np.array([0.5, INF, 1.0]))
    expected = np.array([1.0, 0.0, 2.0]) * np.exp([0.5, 0.0, 1.0])
    np.testing.assert_allclose(g, expected / expected.sum(), rtol=1e-14)


def test_logsumexp_derivative_in_weights() -> None:
    b = np.array([1.0, 0.0, 2.0])
    g = da.grad(lambda b: ours.logsumexp(M[0, :3], b=b))(np.array([1.0, 0.5, 2.0]))
    e = np.exp(M[0, :3])
    np.testing.assert_allclose(g, e / (e @ np.array([1.0, 0.5, 2.0])), rtol=1e-13)
    with np.errstate(invalid="ignore"):
        assert np.isfinite(da.value_and_grad(lambda a: ours.logsumexp(a, b=b))(M[0, :3])[0])


def test_ties_share_the_derivative() -> None:
    np.testing.assert_allclose(da.grad(ours.logsumexp)(np.zeros(4)), 0.25)
    h = da.hessian(ours.logsumexp)(np.zeros(2))
    np.testing.assert_allclose(h, [[0.25, -0.25], [-0.25, 0.25]])


def test_large_arguments_of_softmax() -> None:
    x = np.array([1000.0, -1000.0])
    np.testing.assert_allclose(da.jacfwd(ours.softmax)(x), np.zeros((2, 2)), atol=1e-300)
    np.testing.assert_allclose(da.jacrev(ours.log_softmax)(x), [[0, 0], [-1, 1]], atol=1e-300)


def test_spherical_bessel_functions_at_zero() -> None:
    for n, expected in enumerate([0.0, 1 / 3, 0.0]):
        assert da.grad(lambda z, n=n: ours.spherical_jn(n, z))(0.0) == pytest.approx(expected, abs=1e-15)
        assert da.grad(lambda z, n=n: ours.spherical_in(n, z))(0.0) == pytest.approx(expected, abs=1e-15)


def test_empty_and_integer_arguments() -> None:
    assert ours.logsumexp(np.zeros(0)) == -INF
    assert da.trace(lambda x: ours.logsumexp(x, axis=1), np.zeros((2, 0)))(np.zeros((2, 0))).tolist() == [-INF, -INF]
    np.testing.assert_allclose(da.vmap(ours.softmax)(np.arange(6).reshape(2, 3)), sp.softmax([[0, 1, 2]] * 2, axis=1))


def test_single_precision_stays() -> None:
    x = M.astype(np.float32)
    for f in (ours.logsumexp, ours.softmax, ours.log_softmax, lambda a: ours.polygamma(1, a)):
        value, t = da.jvp(f, (abs(x) + 1,), (x,))
        assert value.dtype == t.dtype == np.float32


# ── names and refusals ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [n for n in ours.__all__ if hasattr(sp, n)])
def test_parameters_are_scipys(name: str) -> None:
    mine = inspect.signature(getattr(ours, name)).parameters
    theirs = list(inspect.signature(getattr(sp, name)).parameters)
    if theirs == ["args", "kwargs"]:  # several ufuncs in one, whose docstring begins with its signature
        theirs = [p.strip() for p in getattr(sp, name).__doc__.partition("(")[2].partition(")")[0].split(",")]
        theirs = [p.partition("=")[0] for p in theirs if p != "*"]
    assert list(mine) == theirs


def test_every_other_name_is_scipys() -> None:
    assert ours.erf is sp.erf
    assert ours.jv is sp.jv
    np.testing.assert_array_equal(ours.jn_zeros(0, 3), sp.jn_zeros(0, 3))
    with pytest.raises(AttributeError):
        _ = ours.no_such_name
    assert {"erf", "logsumexp", "jn_zeros"} <= set(dir(ours))


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: ours.polygamma(x, 1.0), "integers"),
        (lambda x: ours.comb(x, 2, exact=True), "exact=False"),
        (lambda x: ours.diric(x, 3), "custom_jvp"),
        (lambda x: ours.ellip_harm(1.0, 2.0, 1, 1, x), "custom_jvp"),
        (lambda x: ours.polygamma(-1, x), "natural"),
    ],
)
def test_refusals_have_words(f, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        da.jvp(f, (1.5,), (1.0,))


def test_plain_arguments_never_enter() -> None:
    """Nothing of dualad runs but the question whether there is a tensor."""
    seen = set()

    def watch(frame, event, argument) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents:
            seen.add(f"{path.name}:{frame.f_code.co_name}" if path.name == "tracer.py" else path.name)

    sys.setprofile(watch)
    try:
        for name in ("logsumexp", "softmax", "log_softmax"):
            close(leaves(getattr(ours, name)(M)), leaves(getattr(sp, name)(M)), name, rtol=0)
        assert ours.comb(5, 2, exact=True) == 10
        plain = set(seen)
        da.jvp(ours.softmax, (M,), (M,))
    finally:
        sys.setprofile(None)
    assert plain == {"mirror.py", "tracer.py:tracer_in"}
    assert "special.py" in seen
