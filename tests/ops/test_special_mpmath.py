"""Special functions against mpmath: values and derivatives in every argument, at negative, tiny and large points.

mpmath differentiates with thirty digits, and shares nothing with SciPy or with the rules. Inverse functions stand
as the inverse of mpmath's. Not for: shapes, dtypes, batches and higher orders, which the registry's matrix covers.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp
from mpmath import mpf

import dualad as da
from dualad.errors import RuleMissingError

TINY, SMALL = 1e-30, 1e-8


def _beta_tail(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def _upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def _lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def _t_cdf(df, t):
    tail = _beta_tail(df / 2, mpf(1) / 2, df / (df + t * t)) / 2
    return 1 - tail if t > 0 else tail


def _boxcox(x, lmbda):
    return (x**lmbda - 1) / lmbda if lmbda else mp.log(x)


def _owens_t(h, a):
    return mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi)


def _voigt(x, sigma, gamma):
    z = (x + 1j * gamma) / (sigma * mp.sqrt(2))
    return mp.re(mp.exp(-z * z) * mp.erfc(-1j * z)) / (sigma * mp.sqrt(2 * mp.pi))


def _scaled(f, log_scale):
    return lambda *args: f(*args) * mp.exp(log_scale(*args))


#: scipy.special's name -> mpmath's function, points
TABLE = {
    # error functions
    "erf": (mp.erf, [-6.0, -0.7, TINY, 0.3, 5.0]),
    "erfc": (mp.erfc, [-5.0, -0.7, TINY, 3.0, 20.0]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [-3.0, TINY, 0.5, 13.0, 1e6]),
    "erfi": (mp.erfi, [-3.0, TINY, 0.4, 5.0]),
    "erfinv": (mp.erfinv, [-0.999, TINY, 0.3, 0.9999999]),
    "erfcinv": (lambda x: mp.erfinv(1 - x), [0.001, 0.4, 1.3, 1.99]),
    "dawsn": (lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), [-2.0, TINY, 0.9, 13.0, 30.0]),
    "ndtr": (mp.ncdf, [-30.0, -1.0, TINY, 2.0, 8.0]),
    "ndtri": (lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), [1e-6, 0.2, 0.5, 0.999]),
    "log_ndtr": (lambda x: mp.log(mp.ncdf(x)), [-1e3, -17.5, -3.0, TINY, 6.0]),
    "owens_t": (_owens_t, [(0.5, 0.3), (-1.2, -0.7)]),
    "voigt_profile": (_voigt, [(0.5, 1.2, 0.7), (-3.0, 0.5, 0.1)]),
    # gamma functions
    "gamma": (mp.gamma, [-2.5, SMALL, 0.5, 4.2, 100.0]),
    "rgamma": (mp.rgamma, [-2.5, TINY, 0.5, 4.2, 30.0]),
    "gammaln": (lambda x: mp.log(abs(mp.gamma(x))), [-2.5, TINY, 0.5, 4.2, 1e10]),
    "loggamma": (lambda x: mp.loggamma(x), [SMALL, 0.5, 4.2, 1e8]),
    "psi": (mp.digamma, [-2.5, SMALL, 0.5, 4.2, 1e10]),
    "beta": (mp.beta, [(0.3, 0.7), (SMALL, 2.0), (20.0, 30.0), (-0.5, 1.3)]),
    "betaln": (lambda a, b: mp.log(mp.beta(a, b)), [(0.3, 0.7), (SMALL, 2.0), (1e5, 3.0)]),
    "binom": (mp.binomial, [(5.5, 2.0), (30.0, 12.5)]),
    "poch": (mp.rf, [(1.5, 2.3), (7.0, 0.5), (20.0, 3.0)]),
    "gammainc": (_lower, [(0.5, SMALL), (2.0, 0.7), (10.0, 30.0)]),
    "gammaincc": (_upper, [(0.5, SMALL), (2.0, 0.7), (10.0, 30.0)]),
    "betainc": (_beta_tail, [(0.5, 2.0, SMALL), (2.0, 3.0, 0.3), (20.0, 5.0, 0.9)]),
    "betaincc": (lambda a, b, x: 1 - _beta_tail(a, b, x), [(0.5, 2.0, SMALL), (2.0, 3.0, 0.3)]),
    # distribution functions
    "chdtr": (lambda v, x: _lower(v / 2, x / 2), [(3.0, 0.01), (3.0, 2.5)]),
    "chdtrc": (lambda v, x: _upper(v / 2, x / 2), [(3.0, 0.01), (3.0, 40.0)]),
    "fdtr": (lambda a, b, x: _beta_tail(a / 2, b / 2, a * x / (a * x + b)), [(3.0, 5.0, 0.2), (4.0, 9.0, 8.0)]),
    "fdtrc": (lambda a, b, x: 1 - _beta_tail(a / 2, b / 2, a * x / (a * x + b)), [(3.0, 5.0, 0.2)]),
    "gdtr": (lambda a, b, x: _lower(b, a * x), [(2.0, 3.0, 0.5), (0.3, 2.0, 20.0)]),
    "gdtrc": (lambda a, b, x: _upper(b, a * x), [(2.0, 3.0, 0.5), (0.3, 2.0, 20.0)]),
    "pdtr": (lambda k, m: _upper(mp.floor(k) + 1, m), [(2.0, 0.4), (5.0, 20.0)]),
    "pdtrc": (lambda k, m: _lower(mp.floor(k) + 1, m), [(2.0, 0.4), (5.0, 20.0)]),
    "stdtr": (_t_cdf, [(3.0, -5.0), (3.0, 0.4), (30.0, 2.0)]),
    # logistic functions, entropies, logarithms and powers
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), [-800.0, -30.0, TINY, 2.0, 40.0]),
    "logit": (lambda p: mp.log(p / (1 - p)), [TINY, 0.3, 0.5, 0.999]),
    "log_expit": (lambda x: -mp.log(1 + mp.exp(-x)), [-1000.0, -3.0, TINY, 2.0, 30.0]),
    "entr": (lambda x: -x * mp.log(x), [TINY, 0.3, 1.0, 1e10]),
    "rel_entr": (lambda x, y: x * mp.log(x / y), [(TINY, 0.5), (0.4, 2.0), (1e10, 1e-10)]),
    "kl_div": (lambda x, y: x * mp.log(x / y) - x + y, [(TINY, 0.5), (0.4, 2.0)]),
    "xlogy": (lambda x, y: x * mp.log(y), [(-2.0, TINY), (0.4, 1e10)]),
    "xlog1py": (lambda x, y: x * mp.log1p(y), [(-2.0, TINY), (0.4, -0.9)]),
    "boxcox": (_boxcox, [(0.5, -1.3), (2.0, 1e-3), (1e5, 0.7)]),
    "boxcox1p": (lambda x, k: _boxcox(1 + x, k), [(-0.5, 1.3), (SMALL, 0.7)]),
    "inv_boxcox": (lambda y, k: (1 + k * y) ** (1 / k), [(0.5, 1.3), (-0.2, 0.7)]),
    "inv_boxcox1p": (lambda y, k: (1 + k * y) ** (1 / k) - 1, [(0.5, 1.3), (-0.2, 0.7)]),
    "powm1": (lambda x, y: x**y - 1, [(2.0, SMALL), (1.0001, 3.0), (0.3, -2.0)]),
    "exprel": (lambda x: mp.expm1(x) / x if x else mpf(1), [-30.0, -1e-3, SMALL, 2.0, 50.0]),
    "exp10": (lambda x: mpf(10) ** x, [-20.0, TINY, 3.0]),
    "cosm1": (lambda x: mp.cos(x) - 1, [-2.0, SMALL, 100.0]),
    "spence": (lambda x: mp.polylog(2, 1 - x), [SMALL, 0.5, 1.0001, 1.9, 30.0]),
    "pseudo_huber": (lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), [(0.5, -3.0), (2.0, SMALL), (1.0, 1e5)]),
    "sindg": (lambda x: mp.sin(mp.radians(x)), [-200.0, TINY, 30.0]),
    "cosdg": (lambda x: mp.cos(mp.radians(x)), [-200.0, TINY, 30.0]),
    "tandg": (lambda x: mp.tan(mp.radians(x)), [-200.0, TINY, 30.0]),
    "cotdg": (lambda x: mp.cot(mp.radians(x)), [-200.0, 30.0]),
    # integrals
    "exp1": (mp.e1, [SMALL, 0.7, 30.0]),
    "expi": (mp.ei, [-20.0, -0.5, SMALL, 0.7, 30.0]),
    "expn": (mp.expint, [(2.0, 0.3), (5.0, 12.0)]),
    "ellipk": (mp.ellipk, [-10.0, TINY, 0.5, 0.99]),
    "ellipe": (mp.ellipe, [-10.0, TINY, 0.5, 0.99]),
    "ellipkinc": (mp.ellipf, [(0.3, 0.5), (-1.2, -3.0), (1.0, SMALL)]),
    "ellipeinc": (mp.ellipe, [(0.3, 0.5), (-1.2, -3.0), (1.0, SMALL)]),
    "struve": (mp.struveh, [(1.0, 0.5), (0.0, 12.0)]),
    "modstruve": (mp.struvel, [(1.0, 0.5), (0.0, 4.0)]),
    # Bessel functions
    "j0": (lambda x: mp.besselj(0, x), [-3.0, TINY, 0.7, 50.0]),
    "j1": (lambda x: mp.besselj(1, x), [-3.0, TINY, 0.7, 50.0]),
    "y0": (lambda x: mp.bessely(0, x), [0.1, 0.7, 50.0]),
    "y1": (lambda x: mp.bessely(1, x), [0.1, 0.7, 50.0]),
    "i0": (lambda x: mp.besseli(0, x), [-3.0, TINY, 0.7, 50.0]),
    "i1": (lambda x: mp.besseli(1, x), [-3.0, TINY, 0.7, 50.0]),
    "i0e": (_scaled(lambda x: mp.besseli(0, x), lambda x: -abs(x)), [-3.0, 0.7, 1e3]),
    "i1e": (_scaled(lambda x: mp.besseli(1, x), lambda x: -abs(x)), [-3.0, 0.7, 1e3]),
    "k0": (lambda x: mp.besselk(0, x), [0.1, 0.7, 5.0]),
    "k1": (lambda x: mp.besselk(1, x), [0.1, 0.7, 5.0]),
    "k0e": (_scaled(lambda x: mp.besselk(0, x), lambda x: x), [0.1, 0.7, 5.0]),
    "k1e": (_scaled(lambda x: mp.besselk(1, x), lambda x: x), [0.1, 0.7, 5.0]),
    "jv": (mp.besselj, [(0.5, 0.7), (3.0, SMALL), (-1.5, 20.0), (2.0, -3.0)]),
    "yv": (mp.bessely, [(0.5, 0.7), (-1.5, 20.0)]),
    "iv": (mp.besseli, [(0.5, 0.7), (3.0, 1e-3), (2.0, -3.0)]),
    "kv": (mp.besselk, [(0.5, 0.7), (-1.5, 20.0)]),
    "ive": (_scaled(mp.besseli, lambda v, x: -abs(x)), [(0.5, 0.7), (2.0, 300.0)]),
    "kve": (_scaled(mp.besselk, lambda v, x: x), [(0.5, 0.7), (2.0, 300.0)]),
    "ber": (lambda x: mp.ber(0, x), [-2.0, 0.7, 8.0]),
    "bei": (lambda x: mp.bei(0, x), [-2.0, 0.7, 8.0]),
    "ker": (lambda x: mp.ker(0, x), [0.1, 0.7, 8.0]),
    "kei": (lambda x: mp.kei(0, x), [0.1, 0.7, 8.0]),
    # hypergeometric functions and orthogonal polynomials
    "hyp0f1": (mp.hyp0f1, [(1.5, -4.0), (0.5, SMALL), (2.0, 30.0)]),
    "hyp1f1": (mp.hyp1f1, [(0.5, 1.5, -4.0), (2.0, 3.0, 5.0)]),
    "hyp2f1": (mp.hyp2f1, [(0.5, 1.0, 1.5, -2.0), (1.0, 2.0, 3.5, 0.6)]),
    "hyperu": (mp.hyperu, [(1.0, 1.5, 0.7), (0.5, 2.0, 10.0)]),
    "eval_legendre": (mp.legendre, [(3.0, -0.4), (0.5, 0.3)]),
    "eval_chebyt": (mp.chebyt, [(3.0, -0.4), (2.5, 0.3)]),
    "eval_chebyu": (mp.chebyu, [(3.0, -0.4), (2.5, 0.3)]),
    "eval_laguerre": (lambda n, x: mp.laguerre(n, 0, x), [(3.0, -0.4), (2.5, 0.3)]),
    "eval_genlaguerre": (mp.laguerre, [(3.0, 0.5, -0.4), (2.5, 1.5, 0.3)]),
    "eval_gegenbauer": (mp.gegenbauer, [(3.0, 0.5, -0.4), (2.5, 1.5, 0.3)]),
    "eval_jacobi": (mp.jacobi, [(3.0, 0.5, 1.5, -0.4), (2.5, 1.5, 0.2, 0.3)]),
    "wrightomega": (lambda z: mp.lambertw(mp.exp(z)), [-3.0, TINY, 2.0, 50.0]),
}


@pytest.mark.parametrize("name", TABLE)
def test_value_and_derivatives(name) -> None:
    theirs, points = TABLE[name]
    ours, differentiated = getattr(sp, name), 0
    for point in points:
        point = point if isinstance(point, tuple) else (point,)
        with mp.workdps(30):
            expected = _number(theirs(*map(mpf, point)))
        assert ours(*point) == pytest.approx(expected, rel=1e-9, abs=1e-300), f"{name}{point}"
        for i in range(len(point)):
            tangents = [1.0 if j == i else None for j in range(len(point))]
            try:
                found = da.jvp(ours, point, tangents)[1]
            except RuleMissingError:
                continue
            differentiated += 1
            scale = abs(point[i]) or 1.0
            with mp.workdps(40):
                along = lambda x, i=i, point=point: theirs(*[x if j == i else mpf(p) for j, p in enumerate(point)])
                slope = mp.diff(along, mpf(point[i]), h=mpf(scale) * mpf(10) ** -14)
            if abs(mp.im(slope)) > 1e-12 * abs(slope):  # beside the point the function is not real, and SciPy's is NaN
                assert np.isnan(found)
                continue
            slope = _number(slope)
            # Of a derivative that nearly vanishes beside its function, the digits it has in common with the function.
            assert found == pytest.approx(slope, rel=1e-8, abs=1e-13 * abs(expected) / scale + 1e-300), (
                f"derivative of {name}{point} in argument {i}"
            )
    assert differentiated, f"{name} is differentiated in nothing"


def _number(z) -> float:
    return float(mp.re(z))


def test_the_table_has_most_of_the_ufuncs() -> None:
    assert len(TABLE) > 90
    assert all(isinstance(getattr(sp, name), np.ufunc) for name in TABLE)
