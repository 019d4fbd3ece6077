"""Distribution functions among the ufuncs of ``scipy.special``, in the argument and in every real parameter.

Each is an incomplete gamma or beta function, or one of something: its derivative in the argument is a density, that in
a shape an integral of one (``shape_parameters.py``), and its inverses F(θ, x) = p follow, ∂x/∂θ = −F_θ/F_x. Parameters
that SciPy takes as whole numbers (counts) have no derivative and are refused by name. Loaded with ``special.py``.
Not for: ``scipy.stats`` (``dualad/scipy/stats``).
"""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy.special._ufuncs as sp

from .choice import nowhere, where
from .samples import anywhere, between, integers, positive
from .shape_parameters import beta_density, beta_integral, gamma_density, gamma_integral, student_shape
from .special_kinds import distribution, special

__all__: list[str] = []


def _gamma_density(a, x):
    return gamma_density(a, x, order=0)


def _gamma_shape(a, x):
    return gamma_integral(a, x, order=1)


def _beta_density(a, b, x):
    return beta_density(a, b, x, i=0, j=0, form="x")


_inside = between(0.1, 0.9)
_some, _more = integers(1, 4), integers(4, 7)


# ── incomplete gamma functions, chi-squared, gamma, Poisson ──────────────────────────────────────────────────────

distribution(
    "a x", positive(), positive(), density=_gamma_density, a=_gamma_shape,
    rising=sp.gammainc, falling=sp.gammaincc, rising_inverse=sp.gammaincinv, falling_inverse=sp.gammainccinv,
)  # fmt: skip
distribution(
    "v x", positive(), positive(), density=lambda v, x: 0.5 * _gamma_density(0.5 * v, 0.5 * x),
    v=lambda v, x: 0.5 * _gamma_shape(0.5 * v, 0.5 * x),
    rising=sp.chdtr, falling=sp.chdtrc, falling_inverse=sp.chdtri,
)  # fmt: skip
distribution(
    "k m", _some, positive(), density=lambda k, m: _gamma_density(np.floor(k) + 1, m),
    rising=sp.pdtrc, falling=sp.pdtr, falling_inverse=sp.pdtri,
)  # fmt: skip


def _gamma_of_rate(a, b, x):
    return _gamma_density(b, a * x)


def _gamma_of_shape(a, b, x):
    return _gamma_shape(b, a * x)


for _ufunc, _sign in ((sp.gdtr, 1), (sp.gdtrc, -1)):
    special(
        _ufunc, "a b x", positive(), singular=True,
        a=lambda a, b, x, out, s=_sign: s * x * _gamma_of_rate(a, b, x),
        b=lambda a, b, x, out, s=_sign: s * _gamma_of_shape(a, b, x),
        x=lambda a, b, x, out, s=_sign: s * a * _gamma_of_rate(a, b, x),
    )  # fmt: skip
special(
    sp.gdtrix, "a b p", positive(), positive(), _inside, singular=True,
    a=lambda a, b, p, out: -out / a,
    b=lambda a, b, p, out: -_gamma_of_shape(a, b, out) / (a * _gamma_of_rate(a, b, out)),
    p=lambda a, b, p, out: 1 / (a * _gamma_of_rate(a, b, out)),
)  # fmt: skip
special(
    sp.gdtria, "p b x", _inside, positive(), positive(), singular=True,
    p=lambda p, b, x, out: 1 / (x * _gamma_of_rate(out, b, x)),
    b=lambda p, b, x, out: -_gamma_of_shape(out, b, x) / (x * _gamma_of_rate(out, b, x)),
    x=lambda p, b, x, out: -out / x,
)  # fmt: skip
special(
    sp.gdtrib, "a p x", positive(), _inside, positive(), singular=True,
    a=lambda a, p, x, out: -x * _gamma_of_rate(a, out, x) / _gamma_of_shape(a, out, x),
    p=lambda a, p, x, out: 1 / _gamma_of_shape(a, out, x),
    x=lambda a, p, x, out: -a * _gamma_of_rate(a, out, x) / _gamma_of_shape(a, out, x),
)  # fmt: skip
special(
    sp.chdtriv, "p x", _inside, positive(), singular=True,
    p=lambda p, x, out: 2 / _gamma_shape(0.5 * out, 0.5 * x),
    x=lambda p, x, out: -_gamma_density(0.5 * out, 0.5 * x) / _gamma_shape(0.5 * out, 0.5 * x),
)  # fmt: skip


# ── incomplete beta functions, F, Student's t, binomial, negative binomial ───────────────────────────────────────
#
# F and t are given by the odds o = nx/m, or t²/n, which keep their digits where x is near 1, and whose shapes are the
# halves of n and m. The mean of o does not move with the shapes.


def _f(n, m, x):
    return n / m * beta_density(0.5 * n, 0.5 * m, n * x / m, i=0, j=0, form="odds")


def _student(df, t):
    return np.exp(-0.5 * (df + 1) * np.log1p(t * t / df) + _student_front(0.5 * df))


def _student_front(z):
    """Return log(Γ(z + ½)/(Γ(z) √2πz)): where z is large by its asymptotic series, as gamma functions lose digits."""
    large = z > 16
    w = 1 / where(large, z, 16.0)
    square, total = w * w, 0.0
    for coefficient in (-31 / 18432, 17 / 14336, -1 / 640, 1 / 192, -1 / 8):
        total = coefficient + square * total
    z = where(large, 1.0, z)
    return where(large, w * total - 0.5 * math.log(2 * math.pi), -sp.betaln(0.5, z) - 0.5 * np.log(2 * z))


def _binomial(k, n, p):
    return _beta_density(np.floor(k) + 1, n - np.floor(k), p)


distribution(
    "a b x", positive(), positive(), _inside, density=_beta_density,
    a=lambda a, b, x: beta_integral(a, b, x, i=1, j=0, form="x"),
    b=lambda a, b, x: beta_integral(a, b, x, i=0, j=1, form="x"),
    rising=sp.betainc, falling=sp.betaincc,
)  # fmt: skip


def _beta_quantile(a, b, p, x, other):
    """Return the odds at a quantile x and ∂x/∂I: from 1 − x, the ``other`` one's quantile, where x is near 1.

    A density (1 − x)ᵇ⁻¹ moves by more than the rounding of x there. In the odds o, it is ∂I/∂(log o)/(x (1 − x)).
    """
    far = x > 0.5
    if nowhere(far):
        y = 1 - x
    else:
        near = other(where(far, b, 1.0), where(far, a, 1.0), where(far, p, 0.5))
        x, y = where(far, 1 - near, x), where(far, near, 1 - where(far, 0.5, x))
    odds = x / y
    return odds, x * y / beta_density(a, b, odds, i=0, j=0, form="log")


for _ufunc, _other, _sign in ((sp.betaincinv, sp.betainccinv, 1), (sp.betainccinv, sp.betaincinv, -1)):

    def _moved(a, b, p, out, i, other=_other):
        odds, steep = _beta_quantile(a, b, p, out, other)
        return -beta_integral(a, b, odds, i=1 - i, j=i, form="odds") * steep

    special(
        _ufunc, "a b p", positive(), positive(), _inside, singular=True,
        a=functools.partial(_moved, i=0), b=functools.partial(_moved, i=1),
        p=lambda a, b, p, out, other=_other, sign=_sign: sign * _beta_quantile(a, b, p, out, other)[1],
    )  # fmt: skip
distribution(
    "dfn dfd x", positive(), positive(), positive(), density=_f,
    dfn=lambda n, m, x: 0.5 * beta_integral(0.5 * n, 0.5 * m, x, i=1, j=0, form="ratio"),
    dfd=lambda n, m, x: 0.5 * beta_integral(0.5 * n, 0.5 * m, x, i=0, j=1, form="ratio"),
    rising=sp.fdtr, falling=sp.fdtrc, rising_inverse=sp.fdtri,
)  # fmt: skip
distribution(
    "df t", positive(), anywhere(), density=_student, df=student_shape, rising=sp.stdtr, rising_inverse=sp.stdtrit
)
distribution(
    "k n p", _some, _more, _inside, density=_binomial, rising=sp.bdtrc, falling=sp.bdtr, falling_inverse=sp.bdtri
)
distribution(
    "k n p", _some, _some, _inside, density=lambda k, n, p: _beta_density(n, k + 1, p),
    rising=sp.nbdtr, falling=sp.nbdtrc, rising_inverse=sp.nbdtri,
)  # fmt: skip
for _ufunc, _names, _moves, _other in ((sp.btdtria, "p b x", 0, "b"), (sp.btdtrib, "a p x", 1, "a")):

    def _slope(*given, moves=_moves):
        """Return I in the shape that is the value, in the other one and in x."""
        *known, x, out = given
        shapes = (out, known[1]) if moves == 0 else (known[0], out)
        slopes = [beta_integral(*shapes, x, i=1 - k, j=k, form="x") for k in (moves, 1 - moves)]
        return *slopes, _beta_density(*shapes, x)

    special(
        _ufunc, _names, *((_inside, positive(), _inside) if _moves == 0 else (positive(), _inside, _inside)),
        singular=True,
        p=lambda *given, s=_slope: 1 / s(*given)[0],
        x=lambda *given, s=_slope: -s(*given)[2] / s(*given)[0],
        **{_other: lambda *given, s=_slope: -s(*given)[1] / s(*given)[0]},
    )  # fmt: skip


# ── others ───────────────────────────────────────────────────────────────────────────────────────────────────────

special(
    sp.nrdtrimn, "p std x", _inside, positive(), anywhere(), singular=True,
    p=lambda p, std, x, out: -std * math.sqrt(2 * math.pi) * np.exp(0.5 * sp.ndtri(p) ** 2),
    std=lambda p, std, x, out: -sp.ndtri(p),
    x=lambda p, std, x, out: np.ones_like(out),
)  # fmt: skip


def _tukey(x, lmbda, out):
    """Invert the derivative p^(λ−1) + (1−p)^(λ−1) of the quantile (p^λ − (1−p)^λ)/λ."""
    return 1 / (np.power(out, lmbda - 1) + np.power(1 - out, lmbda - 1))


special(sp.tklmbda, "x lmbda", between(-0.8, 0.8), between(0.2, 0.9), x=_tukey)


def _voigt(x, sigma, gamma):
    """With z = (x + iγ)/(σ√2), the profile is Re w(z)/(σ√2π), where w′ = 2i/√π − 2z w; return z, w′ and σ√2."""
    width = math.sqrt(2) * sigma
    z = (x + 1j * gamma) / width
    return z, 2j / math.sqrt(math.pi) - 2 * z * sp.wofz(z), width


def _voigt_x(x, sigma, gamma, out):
    _, d, width = _voigt(x, sigma, gamma)
    return np.real(d) / (width * width * math.sqrt(math.pi))


def _voigt_gamma(x, sigma, gamma, out):
    _, d, width = _voigt(x, sigma, gamma)
    return -np.imag(d) / (width * width * math.sqrt(math.pi))


def _voigt_sigma(x, sigma, gamma, out):
    z, d, width = _voigt(x, sigma, gamma)
    return -(out + np.real(d * z) / (width * math.sqrt(math.pi))) / sigma


special(
    sp.voigt_profile, "x sigma gamma", anywhere(), positive(), positive(),
    x=_voigt_x, sigma=_voigt_sigma, gamma=_voigt_gamma,
)  # fmt: skip
