"""Every distribution of `scipy.stats`: SciPy's values, and derivatives in the point, location, scale and shapes.

Derivatives are compared with central differences of SciPy's own functions. What has none is in the tables of this file,
so that a distribution which SciPy adds, or a rule that goes missing, fails a test.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.stats as st
from scipy.stats._distr_params import distcont, distdiscrete

import dualad as da
import dualad.scipy.stats as ours
from dualad.errors import RuleMissingError, UnsupportedError

DENSITIES, FUNCTIONS = ("logpdf", "pdf"), ("cdf", "sf", "logcdf", "logsf", "ppf", "isf")
#: shapes in which neither densities (first) nor distribution functions (second) have a derivative; "*" is all of them
NO_RULE: dict[str, tuple[str, str]] = {
    "irwinhall": ("*", "*"), "ksone": ("*", "*"), "kstwo": ("*", "*"), "studentized_range": ("", "*"),
}  # fmt: skip
#: laws whose values take seconds
SLOW = {"levy_stable", "studentized_range"}
#: densities that are integrals: a second or more each
DEAR = {"norminvgauss", "gausshyper", "genhyperbolic", "dpareto_lognorm", "geninvgauss", "powerlognorm"}
#: those whose density has no derivative at all, and is refused
NO_DENSITY = {"levy_stable", "studentized_range"}
NOTHING = {"nchypergeom_wallenius", "poisson_binom"}
#: laws whose probabilities are divided by a sum, of which the ends have to be known
DIVIDED = {"nchypergeom_fisher", "zipfian"}
#: those whose parameters in SciPy's own tests are at a branch of its formulas, too slow, or too large for differences
PARAMETERS = {
    "erlang": (4.0,), "kappa4": (0.3, 0.2), "ksone": (50.0,), "kstwo": (20.0,), "skellam": (7.5, 4.0),
    "studentized_range": (3.0, 10.0),
}  # fmt: skip
SHAPES = {
    n: tuple(map(float, p)) for n, p in [*distcont, *distdiscrete][::-1] if isinstance(n, str) and n not in NOTHING
}
SHAPES |= {"reciprocal": SHAPES["loguniform"]} | PARAMETERS
CONTINUOUS = [n for n in sorted(dir(st)) if isinstance(getattr(st, n), st.rv_continuous)]
DISCRETE = [n for n in sorted(dir(st)) if isinstance(getattr(st, n), st.rv_discrete)]
Q = np.array([0.13, 0.42, 0.81])


def difference(f, x, step: float):
    h = step * np.maximum(1.0, np.abs(x))
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


def refused(name: str, method: str) -> set[str]:
    """Return the shapes in which a method has no derivative."""
    shapes = [s.strip() for s in (getattr(st, name).shapes or "").split(",")]
    of = NO_RULE.get(name, ("", ""))[method not in DENSITIES]
    return set(shapes) if of == "*" else set(of.split())


def one(f, args, i):
    return lambda v: f(*args[:i], v, *args[i + 1 :])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.full] * (n in DEAR)) for n in CONTINUOUS if n not in SLOW]
)
def test_continuous(name: str) -> None:
    theirs, mine, shapes = getattr(st, name), getattr(ours, name), SHAPES[name]
    names = ["x", *[s.strip() for s in (theirs.shapes or "").split(",") if s.strip()], "loc", "scale"]
    x = 0.2 + 1.3 * theirs.ppf(Q, *shapes)
    with np.errstate(all="ignore"):
        for method in (*DENSITIES, *FUNCTIONS):
            f, g = getattr(mine, method), getattr(theirs, method)
            quantile = method in ("ppf", "isf")
            args = [Q if quantile else x, *[np.full(3, s) for s in (*shapes, 0.2, 1.3)]]
            if name in NO_DENSITY and method in DENSITIES:
                with pytest.raises(UnsupportedError, match=rf"scipy\.stats\.{name}\.{method}"):
                    da.jvp(f, (x, *shapes), (x, *shapes))
                continue
            expected = g(*args)
            for i, argument in enumerate(names):
                moved = one(f, args, i)
                if argument in refused(name, method):
                    with pytest.raises(RuleMissingError, match=rf"scipy\.stats\.{name}\."):
                        da.jvp(moved, (args[i],), (np.ones(3),))
                    continue
                value, slope = da.jvp(moved, (args[i],), (np.ones(3),))
                np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-13, err_msg=f"{method} in {argument}")
                near = difference(one(g, args, i), args[i], 1e-6 if quantile else 1e-5)
                np.testing.assert_allclose(slope, near, rtol=1e-4, atol=1e-7, err_msg=f"{method} in {argument}")
                back = da.vjp(moved, args[i])[1](np.ones(3))[0]
                np.testing.assert_allclose(
                    back, slope, rtol=1e-9, atol=1e-13, err_msg=f"{method} in {argument}, backwards"
                )
            np.testing.assert_allclose(da.vmap(f)(*args), expected, rtol=1e-9, atol=1e-13, err_msg=f"{method}, lanes")
            compiled = da.jit(one(f, args, 0))(args[0])
            np.testing.assert_allclose(compiled, expected, rtol=1e-9, atol=1e-13, err_msg=f"{method}, compiled")
            if method in DENSITIES:
                curve = da.vmap(da.grad(da.grad(f)), (0, *[None] * (len(args) - 1)))(args[0], *shapes, 0.2, 1.3)
                slope = lambda x, f=f, rest=args[1:]: da.jvp(lambda x: f(x, *rest), (x,), (np.ones(3),))[1]
                near = difference(slope, args[0], 1e-5)
                np.testing.assert_allclose(curve, near, rtol=1e-4, atol=1e-6, err_msg=f"{method}, twice")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    theirs, mine = getattr(st, name), getattr(ours, name)
    if name in NOTHING:
        with pytest.raises(UnsupportedError, match=rf"scipy\.stats\.{name}\.pmf"):
            da.jvp(lambda p: mine.pmf(1, p), (0.5,), (1.0,))
        return
    shapes = SHAPES[name]
    k = np.unique(theirs.ppf([0.2, 0.5, 0.9], *shapes))
    names = [s.strip() for s in theirs.shapes.split(",")]
    with np.errstate(all="ignore"):
        for method in ("logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"):
            for i, argument in enumerate(names):
                if argument in INTEGERS.get(name, ""):
                    continue
                f = lambda v, d=mine, m=method, i=i: getattr(d, m)(k, *shapes[:i], v, *shapes[i + 1 :])
                g = functools.partial(f, d=theirs)
                if argument in NO_RULE.get(name, ("", ""))["pmf" not in method].split():
                    with pytest.raises(RuleMissingError, match=rf"scipy\.stats\.{name}\."):
                        da.jvp(f, (shapes[i],), (1.0,))
                    continue
                value, slope = da.jvp(f, (shapes[i],), (1.0,))
                np.testing.assert_allclose(value, g(shapes[i]), rtol=1e-9, atol=1e-13, err_msg=method)
                near = difference(g, shapes[i], 1e-5)
                inside = np.isfinite(near)
                np.testing.assert_allclose(slope[inside], near[inside], rtol=1e-4, atol=1e-7, err_msg=method)
                lanes = da.vmap(f)(np.full(2, shapes[i]))
                np.testing.assert_allclose(lanes[1], value, rtol=1e-12, atol=1e-13, err_msg=f"{method}, lanes")
                np.testing.assert_allclose(da.jit(f)(shapes[i]), value, rtol=1e-12, atol=1e-13, err_msg=method)


#: shapes that are integers
INTEGERS = {
    "betabinom": "n", "betanbinom": "n", "binom": "n", "boltzmann": "N", "hypergeom": "M n N", "nhypergeom": "M n r",
    "nchypergeom_fisher": "M n N", "randint": "low high", "zipfian": "n",
}  # fmt: skip
#: distribution functions that add probabilities up, to a number that is not known while a program is written
SUMS = {"betabinom", "betanbinom", "hypergeom", "nhypergeom", "zipf"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in DISCRETE if n != "poisson_binom"])  # whose shape is a list
def test_discrete_values_under_every_transform(name: str) -> None:
    """Compiled and mapped in the point, in all shapes, or in the last one: SciPy's values, or its name in a refusal."""
    theirs, mine = getattr(st, name), getattr(ours, name)
    shapes = SHAPES.get(name) or dict(distdiscrete)[name]
    points = np.unique(theirs.ppf([0.1, 0.4, 0.8], *shapes))
    points = np.concatenate([points, points[:1] - 30])
    for method in ("pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"):
        f = getattr(mine, method)
        last = lambda s, f=f: f(points, *shapes[:-1], s)
        all_of_them = lambda *s, f=f: f(points, *s)
        runs = {
            "vmap of the point": lambda f=f: da.vmap(lambda k: f(k, *shapes))(points),
            "jit of the point": lambda f=f: da.jit(lambda k: f(k, *shapes))(points),
            "vmap of shapes": lambda g=all_of_them: da.vmap(g)(*[np.array([s, s], float) for s in shapes])[1],
            "jit of shapes": lambda g=all_of_them: da.jit(g)(*map(float, shapes)),
            "jit of the last": lambda g=last: da.jit(g)(float(shapes[-1])) if shapes else theirs.pmf(points),
        }
        for run, call in runs.items():
            if not shapes and "point" not in run:
                continue
            try:
                found, refused = call(), ""
            except UnsupportedError as error:
                refused = str(error)
            if refused:
                assert f"scipy.stats.{name}" in refused, run
                sums = name in SUMS and "pmf" not in method and "jit" in run
                divided = name in DIVIDED and run in ("jit of shapes", "jit of the last")
                assert name in NOTHING or sums or divided, run
                continue
            np.testing.assert_allclose(
                found, getattr(theirs, method)(points, *shapes), rtol=1e-8, atol=1e-15, err_msg=run
            )


def test_distributions_frozen_outside_of_lifted_code() -> None:
    prior, count = st.gennorm(1.3, loc=0.2), st.poisson(3.0)
    np.testing.assert_allclose(
        da.grad(da.lift(lambda x: prior.logpdf(x)))(0.7), da.grad(ours.gennorm(1.3, 0.2).logpdf)(0.7)
    )
    assert da.lift(lambda k: count.pmf(k))(2) == st.poisson.pmf(2, 3.0)
    likelihood = da.lift(lambda s: np.sum(st.norm(0, s).logpdf(np.array([1.0, 2.0]))))
    np.testing.assert_allclose(da.grad(likelihood)(1.5), 5 / 1.5**3 - 2 / 1.5)
    assert type(prior) is type(st.norm())


def test_scipys_own_formulas_are_lifted() -> None:
    for f in (lambda x: st.norm._cdf(x), lambda x: st.norm.cdf(x)):
        np.testing.assert_allclose(da.grad(da.lift(f))(0.3), st.norm.pdf(0.3))
    np.testing.assert_allclose(da.grad(da.lift(lambda x: st.alpha._cdf(x, 2.0)))(0.3), st.alpha.pdf(0.3, 2.0))

    def buffered(x):
        b = np.zeros(2)
        b[0] = x
        return st.cosine.cdf(b)[0] + st.levy.logpdf(b + 1)[0]

    np.testing.assert_allclose(da.grad(da.lift(buffered))(0.3), difference(buffered, 0.3, 1e-5), rtol=1e-7)


@pytest.mark.parametrize("name", ["genextreme", "genpareto"])
def test_shapes_of_zero_are_no_special_case(name: str) -> None:
    """SciPy has a formula for c = 0 alone, whose derivative in c would be zero."""
    for method in ("logpdf", "cdf", "logsf", "ppf"):
        f, g = getattr(getattr(ours, name), method), getattr(getattr(st, name), method)
        for c in (0.0, 1e-9, -1e-3):
            np.testing.assert_allclose(da.jvp(lambda c: f(0.7, c), (c,), (1.0,))[0], g(0.7, c), rtol=1e-9)
            slope = da.grad(lambda c: f(0.7, c))
            np.testing.assert_allclose(slope(c), difference(lambda c: g(0.7, c), c, 1e-3), rtol=1e-8)
            np.testing.assert_allclose(da.grad(slope)(c), difference(slope, c, 1e-3), rtol=1e-6)


def test_where_scipy_branches_at_a_value_the_derivative_in_it_is_nan() -> None:
    for f, c in (
        (lambda c: ours.triang.pdf(0.4, c), 0.0), (lambda c: ours.triang.pdf(0.4, c), 1.0),
        (lambda h: ours.kappa4.logpdf(0.4, h, 0.2), 0.0), (lambda d: ours.trapezoid.pdf(0.4, 0.2, d), 1.0),
    ):  # fmt: skip
        value, slope = da.jvp(f, (c,), (1.0,))
        assert np.isfinite(value) and np.isnan(slope)
    assert da.grad(lambda x: ours.triang.pdf(x, 0.0))(0.4) == -2.0
    skewed = lambda s: ours.pearson3.logpdf(0.9, s)
    for order in (skewed, da.grad(skewed)):
        np.testing.assert_allclose(da.grad(order)(0.0), difference(order, 0.0, 2e-2), rtol=2e-3)


@pytest.mark.parametrize(
    ("name", "points", "shapes", "step", "tolerance"),
    [
        ("irwinhall", (0.3, 1.7, 3.9, 5.1), (6,), 1e-4, 1e-9),
        ("ksone", (0.043, 0.151, 0.333), (50,), 1e-5, 1e-9),
        ("ksone", (0.0203, 0.0504), (1000,), 1e-6, 1e-7),
        # SciPy's own density of `kstwo` is right to nine digits here, and its differences to five
        ("kstwo", (0.11, 0.21, 0.33, 0.52), (20,), 1e-5, 1e-5),
        ("landau", (-3.5, -1.0, -0.29, -0.28, 1.5, 30.0, 1e4), (), 1e-3, 1e-9),
    ],
)
def test_derivatives_of_densities_that_scipy_integrates(name, points, shapes, step, tolerance) -> None:
    """Each order against central differences of the one before, the first against those of SciPy's own density."""
    f = lambda x: getattr(st, name).pdf(x, *shapes)
    with np.errstate(all="ignore"):
        for _ in range(3):
            slope = da.grad(f)
            h = [step * max(1.0, abs(x)) for x in points]
            near = [
                (8 * (f(x + h) - f(x - h)) - f(x + 2 * h) + f(x - 2 * h)) / (12 * h)
                for x, h in zip(points, h, strict=True)
            ]
            got = [slope(x) for x in points]
            np.testing.assert_allclose(got, near, rtol=tolerance, atol=1e-9 * np.max(np.abs(near)))
            f = slope


def test_landau_against_mpmath() -> None:
    mpmath = pytest.importorskip("mpmath")
    x = 1.3 * mpmath.pi / 2 - mpmath.log(2 / mpmath.pi)
    inside = lambda t: -t * mpmath.exp(-t * mpmath.log(t) - x * t) * mpmath.sin(mpmath.pi * t)
    expected = mpmath.quad(inside, [0, 0.5, 1, 2, 4, 8, 20]) / mpmath.pi * (mpmath.pi / 2) ** 2
    np.testing.assert_allclose(da.grad(lambda x: st.landau.pdf(x))(1.3), float(expected), rtol=1e-12)


def test_methods_under_other_names_are_lifted() -> None:
    np.testing.assert_allclose(da.grad(lambda x: LOG(x) + FROZEN(x))(0.7), -0.7 - (0.7 - 1) / 4)


LOG, FROZEN = st.norm.logpdf, st.norm(1.0, 2.0).logpdf


@pytest.mark.parametrize("name", sorted(DIVIDED))
def test_whole_numbers_are_not_differentiated(name: str) -> None:
    shapes = SHAPES[name]
    for shape in INTEGERS[name].split():
        at = [s.strip() for s in getattr(st, name).shapes.split(",")].index(shape)
        f = lambda v, at=at: getattr(ours, name).pmf(3, *shapes[:at], v, *shapes[at + 1 :])
        with pytest.raises(RuleMissingError, match=rf"scipy\.stats\.{name}"):
            da.grad(f)(shapes[at])


def test_a_missing_rule_names_the_distribution() -> None:
    with pytest.raises(RuleMissingError, match=r"scipy\.stats\.kstwo\.cdf was differentiated in `n`"):
        da.grad(lambda n: ours.kstwo.cdf(0.1, n))(13.7)


@pytest.mark.slow
def test_stable_laws() -> None:
    for method in ("cdf", "ppf"):
        f = lambda q: getattr(ours.levy_stable, method)(q, 1.8, -0.5)
        g = lambda q: getattr(st.levy_stable, method)(q, 1.8, -0.5)
        np.testing.assert_allclose(da.grad(f)(0.4), difference(g, 0.4, 1e-3), rtol=1e-4)
