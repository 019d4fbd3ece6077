"""Moments, medians and entropies of distributions: against SciPy and its differences, where they exist or not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st

import dualad as da
import dualad.scipy.stats as ours
from dualad.errors import UnsupportedError

SHAPES: dict[str, tuple] = {
    "beta": (2.0, 3.3), "cauchy": (), "chi2": (3.3,), "expon": (), "f": (3.0, 11.0), "gamma": (2.3,), "gumbel_l": (),
    "gumbel_r": (), "halfnorm": (), "invgamma": (5.2,), "laplace": (), "logistic": (), "lognorm": (0.4,), "norm": (),
    "pareto": (6.0,), "rayleigh": (), "t": (9.5,), "uniform": (), "weibull_min": (1.7,), "bernoulli": (0.3,),
    "truncnorm": (-1.2, 2.1), "vonmises": (1.5,),
    "binom": (7.0, 0.3), "geom": (0.3,), "nbinom": (4.0, 0.3), "poisson": (2.5,),
}  # fmt: skip
SUMMARIES = {
    **{name: lambda dist, p, name=name: getattr(dist, name)(*p) for name in ("mean", "var", "std", "entropy")},
    "stats": lambda dist, p: np.stack(dist.stats(*p, moments="mvsk")),
    **{f"moment {n}": lambda dist, p, n=n: dist.moment(n, *p) for n in range(5)},
}


def parameters(name: str) -> list[float]:
    return [*SHAPES[name], 0.7, *([] if isinstance(getattr(st, name), st.rv_discrete) else [1.3])]


@pytest.mark.parametrize("name", SHAPES)
def test_a_summary_of_a_distribution(name: str) -> None:
    dist, plain, p = getattr(ours, name), getattr(st, name), parameters(name)
    tested = 0
    for summary, call in SUMMARIES.items():
        if summary.split()[0] not in dist._summed_up:
            continue
        for i in range(int(name == "binom"), len(p)):
            f, g = (lambda x, d=d, i=i: call(d, [*p[:i], x, *p[i + 1 :]]) for d in (dist, plain))
            value, tangent = da.jvp(f, (p[i],), (1.0,))
            h = 1e-5
            assert np.allclose(value, g(p[i]), rtol=1e-9), summary
            assert np.allclose(tangent, (g(p[i] + h) - g(p[i] - h)) / (2 * h), rtol=1e-5, atol=1e-6), summary
            slope = lambda x, f=f: da.jvp(f, (x,), (1.0,))[1]
            second = da.jvp(slope, (p[i],), (1.0,))[1]
            assert np.allclose(second, (slope(p[i] + h) - slope(p[i] - h)) / (2 * h), rtol=1e-4, atol=1e-4), summary
            lanes = da.vmap(f)(np.array([p[i], p[i] * 1.01]))
            assert np.allclose(lanes, [g(p[i]), g(p[i] * 1.01)], rtol=1e-9), summary
            tested += 1
    assert tested


@pytest.mark.parametrize("ends", [(-np.inf, 0.5), (0.3, np.inf), (-np.inf, np.inf), (2.0, 3.0), (-4.0, -3.0)])
def test_truncated_ends(ends) -> None:
    for summary in ("mean", "var", *(["entropy"] if np.isfinite(ends).all() else [])):  # where SciPy's is a number
        f, g = (lambda a, b, d=d, summary=summary: getattr(d, summary)(a, b) for d in (ours.truncnorm, st.truncnorm))
        assert np.allclose(da.jvp(f, ends, (1.0, 1.0))[0], g(*ends), rtol=1e-8)
        h = 1e-5
        for i in range(2):
            up, down = (tuple(e + s * h * (k == i) for k, e in enumerate(ends)) for s in (1, -1))
            slope = da.grad(f, argnums=i)(*ends)
            assert np.allclose(slope, (g(*up) - g(*down)) / (2 * h), rtol=1e-4, atol=1e-7), summary


def test_summaries_of_vectors() -> None:
    alpha, p, h = np.array([1.2, 2.0, 3.5]), np.array([0.2, 0.3, 0.5]), 1e-6
    cases = [(ours.dirichlet, st.dirichlet, name, (), alpha) for name in ("mean", "var", "cov", "entropy")]
    cases += [(ours.multinomial, st.multinomial, "cov", (5,), p)]
    for mine, plain, name, first, x in cases:
        t = np.array([1.0, -0.4, -0.6])
        value, tangent = da.jvp(lambda x, m=mine, n=name, f=first: getattr(m, n)(*f, x), (x,), (t,))
        g = lambda x, m=plain, n=name, f=first: getattr(m, n)(*f, x)
        assert np.allclose(value, g(x))
        assert np.allclose(tangent, (g(x + h * t) - g(x - h * t)) / (2 * h), rtol=1e-6, atol=1e-8)
    assert np.allclose(da.jvp(lambda p: ours.multinomial(5, p).mean(), (p,), (p,))[0], 5 * p)
    assert np.isnan(da.jvp(lambda p: ours.multinomial.cov(5, p), (2 * p,), (p,))[0]).all()


def test_intervals_and_what_is_left_to_scipy() -> None:
    low, high = da.jvp(lambda s: ours.norm.interval(0.9, 0.3, s), (2.0,), (1.0,))[1]
    assert np.allclose([low, high], st.norm.interval(0.9))
    assert np.allclose(
        da.grad(lambda c: ours.gamma.interval(c, 2.0)[1])(0.8), 0.5 / st.gamma.pdf(st.gamma.ppf(0.9, 2), 2)
    )
    with pytest.raises(UnsupportedError, match=r"vonmises\.var"):
        da.grad(lambda k: ours.vonmises.var(k))(2.0)


@pytest.mark.parametrize("name", ["f", "invgamma", "pareto", "t"])
def test_moments_that_do_not_exist_are_constants_as_in_scipy(name: str) -> None:
    last = np.array([0.5, 1.5, 2.5, 3.5, 4.5, 9.0])
    p = [2.0, last] if name == "f" else [last]
    f = lambda dist, x: np.stack(dist.stats(*p[:-1], x, moments="mvsk"))
    value, tangent = da.jvp(lambda x: f(getattr(ours, name), x), (last,), (np.ones(6),))
    assert np.allclose(value, f(getattr(st, name), last), equal_nan=True)
    assert not tangent[~np.isfinite(value)].any()
    assert np.isfinite(tangent).all()


def test_frozen_ones_and_what_is_not_valid() -> None:
    assert da.jvp(lambda s: ours.norm(0.0, s).var(), (2.0,), (1.0,)) == (4.0, 4.0)
    mean, variance = da.jvp(lambda m: ours.norm(loc=m).stats(moments="mv"), (2.0,), (1.0,))[1]
    assert (mean, variance) == (1.0, 0.0)
    assert da.jvp(lambda a: ours.gamma(a).stats(moments="v"), (2.0,), (1.0,)) == (2.0, 1.0)
    assert np.isnan(da.jvp(ours.norm.mean, (0.0, -1.0), (1.0, 1.0))[0])
    assert da.jvp(ours.norm.median, (3.0,), (1.0,)) == (3.0, 1.0)
    with pytest.raises(UnsupportedError, match="0 to 4"):
        da.jvp(lambda s: ours.norm.moment(5, s), (1.0,), (1.0,))


# ── normal vectors ───────────────────────────────────────────────────────────────────────────────────────────────

RNG = np.random.default_rng(2)
L, T, Z = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2)), RNG.normal(size=2)
NORMAL = {
    "entropy": lambda dist, a: dist.entropy(np.zeros(2), a.T @ a),
    "entropy, frozen": lambda dist, a: dist(np.zeros(2), a.T @ a, allow_singular=True).entropy(),
    "entropy, singular": lambda dist, a: dist.entropy(np.zeros(3), a @ a.T),
    "logpdf, singular": lambda dist, a: dist.logpdf(a @ Z, np.zeros(3), a @ a.T, allow_singular=True),
    "pdf, several points": lambda dist, a: dist.pdf(np.stack([a @ Z, a @ Z[::-1]]), a[:, 0], a @ a.T, True),
}


@pytest.mark.parametrize("name", NORMAL)
def test_normal_vectors_of_deficient_rank(name: str) -> None:
    f, g = (lambda a, d=d: NORMAL[name](d, a) for d in (ours.multivariate_normal, st.multivariate_normal))
    h = 1e-5
    assert np.allclose(da.jvp(f, (L,), (T,))[0], g(L))
    assert np.allclose(da.jvp(f, (L,), (T,))[1], (g(L + h * T) - g(L - h * T)) / (2 * h), rtol=1e-6)
    for _ in range(2):
        f = lambda a, f=f: da.jvp(f, (a,), (T,))[1]
        assert np.allclose(da.jvp(f, (L,), (T,))[1], (f(L + h * T) - f(L - h * T)) / (2 * h), rtol=1e-5, atol=1e-6)


def test_off_the_space_of_a_singular_covariance_the_density_is_zero() -> None:
    value, tangent = da.jvp(
        lambda x: ours.multivariate_normal.logpdf(x, np.zeros(2), np.ones((2, 2)), allow_singular=True),
        (np.array([[1.0, 1.0], [1.0, 2.0]]),), (np.ones((2, 2)),),
    )  # fmt: skip
    assert np.allclose(value, st.multivariate_normal.logpdf([[1, 1], [1, 2]], [0, 0], np.ones((2, 2)), True))
    assert value[1] == -np.inf
    assert tangent[1] == 0
