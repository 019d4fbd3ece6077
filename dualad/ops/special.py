"""Special functions: the ufuncs of ``scipy.special``, with textbook derivatives.

Loaded when a ufunc outside NumPy first meets a tensor, for SciPy is optional and slow to import. A parameter in which
no derivative is known (the degree of a polynomial) is refused by name; a ufunc that is not declared here is refused
altogether. Not for: the Python functions of ``scipy.special`` (``logsumexp``, ``softmax``, ``polygamma``), which do not
dispatch; their versions are in ``dualad.scipy.special``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.special
import scipy.special._ufuncs as sp  # with SCIPY_ARRAY_API=1 the public names are functions around these

from ..core.aval import Aval, aval_of, broadcast_shapes
from ..core.tables import UFUNCS, register
from . import distributions  # noqa: F401 - for what importing it declares
from .choice import nowhere, where
from .elliptic import elliptic
from .kinds import add_tangents, broadcast_tangent, elementwise, elementwise_shape, predicate, strong
from .samples import Domain, anywhere, away_from, between, integers, positive
from .shape_parameters import HYPERGEOMETRIC, NEIGHBOURS, bessel_order
from .special_kinds import no_rule, special, special_tuple
from .struve import struve_order
from .zeta import polygamma

__all__ = ["spherical_harmonic"]

_SQRT_PI, _SQRT_2, _SQRT_2PI = math.sqrt(math.pi), math.sqrt(2), math.sqrt(2 * math.pi)
_DEGREE = math.pi / 180


# SciPy's own copies of functions that NumPy has.
for _own, _numpy in (
    (sp.exp2, np.exp2), (sp.expm1, np.expm1), (sp.log1p, np.log1p), (sp.cbrt, np.cbrt), (sp.round, np.rint)
):  # fmt: skip
    register(UFUNCS, _own, UFUNCS[_numpy], "op")

_inside = between(0.1, 0.9)
_degrees = between(-70.0, 70.0)


# ── error functions ──────────────────────────────────────────────────────────────────────────────────────────────

special(sp.erf, "x", anywhere(), complex_too=True, x=lambda x, out: (2 / _SQRT_PI) * np.exp(-x * x))
special(sp.erfc, "x", anywhere(), complex_too=True, x=lambda x, out: (-2 / _SQRT_PI) * np.exp(-x * x))
special(sp.erfi, "x", anywhere(), complex_too=True, x=lambda x, out: (2 / _SQRT_PI) * np.exp(x * x))
special(sp.wofz, "z", anywhere(), complex_too=True, z=lambda z, out: 2j / _SQRT_PI - 2 * z * out)


def _tail(w):
    """Σ (2n+1)!! (w/2)ⁿ: the asymptotic series of the derivatives below, to rounding for |w| < 1/144."""
    total = 1.0
    for n in range(13, 0, -1):
        total = 1 + w * ((2 * n + 1) / 2) * total
    return total


def _without_cancellation(near, far, x, tail):
    """Take ``tail(1/x²)`` where ``far`` (x is large), in place of ``near``, the difference of two near numbers."""
    if nowhere(far):
        return near
    x = where(far, x, 12)
    return where(far, tail(1 / (x * x)), near)


def _erfcx_derivative(x, out):
    """2x erfcx(x) − 2/√π, which tends to −1/(√π x²)."""
    near = 2 * x * out - 2 / _SQRT_PI
    return _without_cancellation(near, np.real(x) > 12, x, lambda w: (-1 / _SQRT_PI) * w * _tail(-w))


def _dawsn_derivative(x, out):
    """1 − 2x D(x), which tends to −1/(2x²)."""
    near = 1 - 2 * x * out
    if aval_of(x).dtype.kind == "c":
        return near
    return _without_cancellation(near, np.absolute(x) > 12, x, lambda w: -0.5 * w * _tail(w))


special(sp.erfcx, "x", anywhere(), complex_too=True, x=_erfcx_derivative)
special(sp.dawsn, "x", anywhere(), complex_too=True, x=_dawsn_derivative)
special(sp.erfinv, "x", between(-0.9, 0.9), singular=True, x=lambda x, out: (_SQRT_PI / 2) * np.exp(out * out))
special(sp.erfcinv, "x", between(0.1, 1.9), singular=True, x=lambda x, out: (-_SQRT_PI / 2) * np.exp(out * out))
special(sp.ndtr, "x", anywhere(), complex_too=True, x=lambda x, out: np.exp(-0.5 * x * x) / _SQRT_2PI)
special(sp.ndtri, "p", _inside, singular=True, p=lambda p, out: _SQRT_2PI * np.exp(0.5 * out * out))


# h(x) = φ(x)/Φ(x) = √(2/π) / erfcx(−x/√2), without the difference of large exponents. h′ = −h (x + h) has no factor
# that overflows where h vanishes; for x ≪ 0 it is h²/x² times the series.
def _hazard_derivative(x, out):
    return _without_cancellation(-out * (x + out), x < -17, x, lambda w: -(out * out) * w * _tail(-2 * w))


hazard = elementwise(
    lambda x: (2 / _SQRT_2PI) / sp.erfcx(x * (-1 / _SQRT_2)),
    name="hazard",
    abstract_eval=elementwise_shape(sp.erfcx),
    jvp=lambda primals, tangents: (
        (out := hazard(strong(primals[0]))),
        tangents[0] * _hazard_derivative(strong(primals[0]), out),
    ),
    samples=anywhere(),
    kind="special",
)
special(sp.log_ndtr, "x", anywhere(), x=lambda x, out: hazard(x))
special(sp.ndtri_exp, "y", between(-5.0, -0.1), y=lambda y, out: (_SQRT_2PI / 2) * sp.erfcx(out * (-1 / _SQRT_2)))
special(
    sp.owens_t, "h a", anywhere(), anywhere(),
    h=lambda h, a, out: np.exp(-0.5 * h * h) * sp.erf(a * h / _SQRT_2) * (-0.5 / _SQRT_2PI),
    a=lambda h, a, out: np.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)),
)  # fmt: skip


# ── the logistic function, entropies ─────────────────────────────────────────────────────────────────────────────
#
# In x log y the points x = 0 = y are replaced, where the value is 0 by definition and so are the derivatives (except
# that of kl_div in y, which is y there). Where only x = 0, nothing is: the mixed derivative 1/y must stay.

special(sp.expit, "x", anywhere(), x=lambda x, out: out * sp.expit(-x))
special(sp.logit, "x", _inside, singular=True, x=lambda x, out: 1 / (x * (1 - x)))
if hasattr(sp, "_log1mexp"):  # of SciPy 1.16: log(1 - exp(x)) for its own distributions
    special(sp._log1mexp, "x", between(-3.0, -0.2), x=lambda x, out: -1 / np.expm1(-x))
special(sp.log_expit, "x", anywhere(), x=lambda x, out: sp.expit(-x))


def _off_corner(x, y, corner: float = 0):
    """Return ``y``, moved off the corner (0, ``corner``) where (x, y) is there, so that nothing blows up."""
    both = x == 0
    if not nowhere(both):
        both = both & (y == corner)
        if not nowhere(both):
            return where(both, corner + 1, y)
    return y


def _log_ratio(x, y):
    return np.log(where((x == 0) & (y == 0), 1, x) / _off_corner(x, y))


special(
    sp.xlogy, "x y", anywhere(), positive(), complex_too=True, singular=True,
    x=lambda x, y, out: np.log(_off_corner(x, y)),
    y=lambda x, y, out: x / _off_corner(x, y),
)  # fmt: skip
special(
    sp.xlog1py, "x y", anywhere(), positive(), complex_too=True, singular=True,
    x=lambda x, y, out: np.log1p(_off_corner(x, y, -1)),
    y=lambda x, y, out: x / (1 + _off_corner(x, y, -1)),
)  # fmt: skip
special(sp.entr, "x", positive(), singular=True, x=lambda x, out: -1 - np.log(x))
special(
    sp.rel_entr, "x y", positive(), singular=True,
    x=lambda x, y, out: 1 + _log_ratio(x, y),
    y=lambda x, y, out: -x / _off_corner(x, y),
)  # fmt: skip
special(
    sp.kl_div, "x y", positive(), singular=True,
    x=lambda x, y, out: _log_ratio(x, y),
    y=lambda x, y, out: 1 - x / _off_corner(x, y),
)  # fmt: skip


# ── the gamma family ─────────────────────────────────────────────────────────────────────────────────────────────


def _rgamma_derivative(x, out):
    """−ψ/Γ, which near the zeros of 1/Γ is 0·∞; left of ½ by reflection, 1/Γ(x) = sin(πx) Γ(1−x)/π."""
    left = np.real(x) < 0.5
    right = where(left, 1, x)
    d = -sp.psi(right) * sp.rgamma(right)
    if nowhere(left):
        return d
    a = where(left, x, 0.25)
    g = sp.gamma(1 - a)
    return where(left, np.cos(math.pi * a) * g - np.sin(math.pi * a) * g * sp.psi(1 - a) / math.pi, d)


special(sp.gamma, "x", positive(), x=lambda x, out: out * sp.psi(x))
special(sp.gammaln, "x", positive(), x=lambda x, out: sp.psi(x))
special(sp.loggamma, "x", positive(), x=lambda x, out: sp.psi(x))
special(sp.rgamma, "x", away_from(0.5), x=_rgamma_derivative)
special(sp.psi, "x", positive(), x=lambda x, out: polygamma(x, order=1))
special(
    sp.beta, "a b", positive(),
    a=lambda a, b, out: out * (sp.psi(a) - sp.psi(a + b)),
    b=lambda a, b, out: out * (sp.psi(b) - sp.psi(a + b)),
)  # fmt: skip
special(
    sp.betaln, "a b", positive(),
    a=lambda a, b, out: sp.psi(a) - sp.psi(a + b),
    b=lambda a, b, out: sp.psi(b) - sp.psi(a + b),
)  # fmt: skip
special(
    sp.poch, "z m", positive(),
    z=lambda z, m, out: out * (sp.psi(z + m) - sp.psi(z)),
    m=lambda z, m, out: out * sp.psi(z + m),
)  # fmt: skip
special(
    sp.binom, "n k", between(3.2, 5.7), between(0.3, 2.8),
    n=lambda n, k, out: out * (sp.psi(n + 1) - sp.psi(n - k + 1)),
    k=lambda n, k, out: out * (sp.psi(n - k + 1) - sp.psi(k + 1)),
)  # fmt: skip


# ── Bessel functions: in the argument; half the sum or difference of the neighbouring orders, with no pole at 0 ───

_orders = between(0.4, 2.2)


def _of_real(name: str, argument: str, rule: Callable) -> Callable:
    """Refuse a complex z, the last argument, to a derivative in a parameter."""

    def partial(*given):
        if aval_of(given[-2]).dtype.kind == "c":
            raise no_rule(name, argument, "z is complex here, and the formula that is used holds for real z")
        return rule(*given)

    return partial


def _cylinder(name: str, half: float, sign: int, same: complex) -> None:
    """Declare a function by its recurrence (``NEIGHBOURS``), which for ``ive`` has the sign of z."""
    ufunc = getattr(sp, name)

    def along_z(v, z, out):
        if name in ("jve", "yve", "ive") and aval_of(z).dtype.kind == "c":  # the factor exp(∓|·|)
            raise no_rule(name, "z", "z is complex, and the scaling of the function is not complex-differentiable")
        before, after = ufunc(v - 1, z), ufunc(v + 1, z)
        d = half * (before + after if sign > 0 else before - after)
        return d + same * (np.sign(z) * out if name == "ive" else out) if same else d

    along_v = _of_real(name, "v", lambda v, z, out: bessel_order(v, z, kind=name, order=1))
    special(ufunc, "v z", _orders, positive(), v=along_v, z=along_z)


for _name, _recurrence in NEIGHBOURS.items():
    _cylinder(_name, *_recurrence)

# Struve functions, with the term that the Bessel functions' recurrence lacks.


def _struve_term(v, x):
    return np.power(0.5 * x, v) * sp.rgamma(v + 1.5) / _SQRT_PI


special(
    sp.struve, "v x", _orders, positive(), v=lambda v, x, out: struve_order(v, x, order=1, modified=False),
    x=lambda v, x, out: 0.5 * (sp.struve(v - 1, x) - sp.struve(v + 1, x) + _struve_term(v, x)),
)  # fmt: skip
special(
    sp.modstruve, "v x", _orders, positive(), v=lambda v, x, out: struve_order(v, x, order=1, modified=True),
    x=lambda v, x, out: 0.5 * (sp.modstruve(v - 1, x) + sp.modstruve(v + 1, x) + _struve_term(v, x)),
)  # fmt: skip

# Kelvin functions: f = ber + i bei and ker + i kei satisfy f″ = i f − f′/x.

for _real, _imag, _real_p, _imag_p in (
    (sp.ber, sp.bei, sp.berp, sp.beip),
    (sp.ker, sp.kei, sp.kerp, sp.keip),
):
    special(_real, "x", positive(), x=lambda x, out, f=_real_p: f(x))
    special(_imag, "x", positive(), x=lambda x, out, f=_imag_p: f(x))
    special(_real_p, "x", positive(), x=lambda x, out, f=_imag: -f(x) - out / x)
    special(_imag_p, "x", positive(), x=lambda x, out, f=_real: f(x) - out / x)

# Spherical ones: (2n + 1) f′ₙ is a sum or difference of n fₙ₋₁ and (n + 1) fₙ₊₁.


def _spherical(ufunc: np.ufunc, before: int, after: int) -> None:
    def derivative(n, z, out):
        return (before * n * ufunc(np.maximum(n - 1, 0), z) + after * (n + 1) * ufunc(n + 1, z)) / (2 * n + 1)

    special(ufunc, "n z", integers(0, 4), positive(), z=derivative)


_spherical(sp._spherical_jn, 1, -1)
_spherical(sp._spherical_yn, 1, -1)
_spherical(sp._spherical_in, 1, 1)
_spherical(sp._spherical_kn, -1, -1)

special(sp.kn, "n x", integers(0, 4), positive(), x=lambda n, x, out: -0.5 * (sp.kv(n - 1.0, x) + sp.kv(n + 1.0, x)))
special(sp.yn, "n x", integers(0, 4), positive(), x=lambda n, x, out: 0.5 * (sp.yv(n - 1.0, x) - sp.yv(n + 1.0, x)))
special(sp.j0, "x", anywhere(), x=lambda x, out: -sp.j1(x))
special(sp.j1, "x", anywhere(), x=lambda x, out: 0.5 * (sp.j0(x) - sp.jv(2, x)))
special(sp.y0, "x", positive(), x=lambda x, out: -sp.y1(x))
special(sp.y1, "x", positive(), x=lambda x, out: 0.5 * (sp.y0(x) - sp.yv(2, x)))
special(sp.i0, "x", anywhere(), x=lambda x, out: sp.i1(x), name="bessel_i0")
special(sp.i1, "x", anywhere(), x=lambda x, out: 0.5 * (sp.i0(x) + sp.iv(2, x)))
special(sp.i0e, "x", away_from(0.0), x=lambda x, out: sp.i1e(x) - np.sign(x) * out)
special(sp.i1e, "x", away_from(0.0), x=lambda x, out: 0.5 * (sp.i0e(x) + sp.ive(2, x)) - np.sign(x) * out)
special(sp.k0, "x", positive(), x=lambda x, out: -sp.k1(x))
special(sp.k1, "x", positive(), x=lambda x, out: -0.5 * (sp.k0(x) + sp.kv(2, x)))
special(sp.k0e, "x", positive(), x=lambda x, out: out - sp.k1e(x))
special(sp.k1e, "x", positive(), x=lambda x, out: out - 0.5 * (sp.k0e(x) + sp.kve(2, x)))
special_tuple(sp.airy, anywhere(), lambda z, outs: (outs[1], z * outs[0], outs[3], z * outs[2]))


# ── integrals and hypergeometric functions ───────────────────────────────────────────────────────────────────────
#
# Quotients with a removable singularity, such as log(z)/(1 − z), are hypergeometric functions, whose rule
# ∂/∂z F(a; c; z) = (a/c) F(a+1; c+1; z) gives every derivative right at that point too.


def _hypergeometric(ufunc: np.ufunc, names: str, *domains: Domain, z: Callable, **others: Callable) -> None:
    """Declare a function, with derivatives in all parameters but those that have another rule."""
    *parameters, last = names.split()
    op = HYPERGEOMETRIC[ufunc.__name__]
    unit = lambda i: tuple([int(i == k) for k in range(len(parameters) + 1)])
    rules = {p: lambda *given, i=i: op(*given[:-1], order=unit(i)) for i, p in enumerate(parameters)}
    partials = {p: _of_real(ufunc.__name__, p, rule) for p, rule in {**rules, **others}.items()}
    special(ufunc, names, *domains, **partials, **{last: z})


def _hyp0f1_in_v(v, z, out):
    """By the series; where it cancels by Γ(v) t^((1−v)/2) B(v−1, 2√t), t = |z|: with B = J left of −4 and −2v or −v²/9.

    With B = I it cancels right of 4 and −3v for v < 0, where Γ(v) may underflow and the quotient of I′ by I serves.
    """
    left = z < -np.maximum(4.0, where(v < 0, v * v / 9, 2 * v))
    right = (v < 0) & (z > np.maximum(4.0, -3 * v))
    far = left | right
    near = HYPERGEOMETRIC["hyp0f1"](v, where(far, 0.0, z), order=(1, 0))
    if nowhere(far):
        return near
    t, slope = where(far, np.abs(z), 4.0), 0.0
    root = 2 * np.sqrt(t)  # at ∞, elsewhere, nothing is computed
    if not nowhere(left):
        w, s = where(left, v, 1.0), where(left, t, 4.0)
        slope = bessel_order(w - 1, where(left, root, np.inf), kind="jv", order=1)
        half = np.power(s, 0.25 * (1 - w))  # whose square may be below 1e-308
        slope = slope * half * sp.gamma(w) * half
    if not nowhere(right):
        order = where(right, v, -1.5) - 1
        moved = bessel_order(order, where(right, root, np.inf), kind="ive", order=1)
        slope = where(right, out * moved / sp.ive(order, where(right, root, 5.0)), slope)
    return where(far, out * (sp.psi(v) - 0.5 * np.log(t)) + slope, near)


_hypergeometric(sp.hyp0f1, "v z", positive(), anywhere(), z=lambda v, z, out: sp.hyp0f1(v + 1, z) / v, v=_hyp0f1_in_v)
_hypergeometric(
    sp.hyp1f1, "a b x", positive(), positive(), anywhere(), z=lambda a, b, x, out: (a / b) * sp.hyp1f1(a + 1, b + 1, x)
)
_hypergeometric(
    sp.hyp2f1, "a b c z", positive(), positive(), positive(), between(-0.8, 0.8),
    z=lambda a, b, c, z, out: (a * b / c) * sp.hyp2f1(a + 1, b + 1, c + 1, z),
)  # fmt: skip
special(sp.exprel, "x", anywhere(), x=lambda x, out: 0.5 * sp.hyp1f1(2, 3, x))
special(sp.spence, "z", positive(), z=lambda z, out: -sp.hyp2f1(1, 1, 2, 1 - z))
special(sp.ellipk, "m", between(-0.9, 0.9), m=lambda m, out: (math.pi / 8) * sp.hyp2f1(1.5, 1.5, 2, m))
special(sp.ellipe, "m", between(-0.9, 0.9), m=lambda m, out: (-math.pi / 8) * sp.hyp2f1(0.5, 1.5, 2, m))
special(sp.exp1, "z", positive(), complex_too=True, z=lambda z, out: -np.exp(-z) / z)
special(sp.expi, "x", positive(), complex_too=True, x=lambda x, out: np.exp(x) / x)


def _expn_derivative(n, x, out):
    """−Eₙ₋₁(x), and for n = 0 by the recurrence in n, −(e⁻ˣ + E₀(x))/x."""
    first = n == 0
    d = -sp.expn(np.maximum(n - 1, 0), x)
    return d if nowhere(first) else where(first, -(np.exp(-x) + out) / x, d)


special(sp.expn, "n x", integers(0, 4), positive(), x=_expn_derivative)
special_tuple(sp.fresnel, anywhere(), lambda z, outs: (np.sin(math.pi / 2 * z * z), np.cos(math.pi / 2 * z * z)))
special_tuple(sp.sici, positive(), lambda x, outs: (np.sin(x) / x, np.cos(x) / x))
special_tuple(sp.shichi, positive(), lambda x, outs: (np.sinh(x) / x, np.cosh(x) / x))
special(sp.wrightomega, "z", anywhere(), complex_too=True, z=lambda z, out: out / (1 + out))
special(
    sp._lambertw, "z k tol", positive(), Domain(lambda rng, shape: np.zeros(shape, int)), between(1e-14, 1e-12),
    singular=True, z=lambda z, k, tol, out: np.exp(-out) / (1 + out),
)  # fmt: skip


_hypergeometric(sp.hyperu, "a b x", positive(), z=lambda a, b, x, out: -a * sp.hyperu(a + 1, b + 1, x))
special(sp.wright_bessel, "a b x", positive(), x=lambda a, b, x, out: sp.wright_bessel(a, a + b, x))
for _ufunc, _power in ((sp.ellipkinc, -0.5), (sp.ellipeinc, 0.5)):
    special(
        _ufunc, "phi m", anywhere(), between(-0.9, 0.9),
        phi=lambda phi, m, out, p=_power: (1 - m * np.sin(phi) ** 2) ** p,
        m=lambda phi, m, out, p=_power: -p * elliptic(phi, m, k=1, p=p - 1),
    )  # fmt: skip
predicate(sp.gammasgn, samples=away_from(0.0, -1.0, -2.0, -3.0))


# ── powers, losses, degrees ──────────────────────────────────────────────────────────────────────────────────────
#
# boxcox(x, λ) = (x^λ − 1)/λ = log(x) exprel(λ log x), so that its derivative in λ is log²(x) exprel′(λ log x).

special(
    sp.boxcox, "x lmbda", positive(), anywhere(), singular=True,
    x=lambda x, lmbda, out: np.power(x, lmbda - 1),
    lmbda=lambda x, lmbda, out: 0.5 * np.log(x) ** 2 * sp.hyp1f1(2, 3, lmbda * np.log(x)),
)  # fmt: skip
special(
    sp.boxcox1p, "x lmbda", positive(), anywhere(), singular=True,
    x=lambda x, lmbda, out: np.power(1 + x, lmbda - 1),
    lmbda=lambda x, lmbda, out: 0.5 * np.log1p(x) ** 2 * sp.hyp1f1(2, 3, lmbda * np.log1p(x)),
)  # fmt: skip
# inv_boxcox(y, λ) = exp(y log(1 + λy)/(λy)), and log(1 + u)/u = F(1, 1; 2; −u).
special(
    sp.inv_boxcox, "y lmbda", positive(), _inside,
    y=lambda y, lmbda, out: np.power(out, 1 - lmbda),
    lmbda=lambda y, lmbda, out: -0.5 * y * y * sp.hyp2f1(2, 2, 3, -lmbda * y) * out,
)  # fmt: skip
special(
    sp.inv_boxcox1p, "y lmbda", positive(), _inside,
    y=lambda y, lmbda, out: np.power(1 + out, 1 - lmbda),
    lmbda=lambda y, lmbda, out: -0.5 * y * y * sp.hyp2f1(2, 2, 3, -lmbda * y) * (1 + out),
)  # fmt: skip
special(
    sp.powm1, "x y", positive(), anywhere(), singular=True,
    x=lambda x, y, out: y * np.power(x, y - 1),
    y=lambda x, y, out: (1 + out) * np.log(x),
)  # fmt: skip


def _huber_inside(delta, r, inside, outside):
    return where(np.absolute(r) <= delta, inside, outside)


special(
    sp.huber, "delta r", between(0.9, 1.1), away_from(1.0, -1.0),
    delta=lambda delta, r, out: _huber_inside(delta, r, 0.0, np.absolute(r) - delta),
    r=lambda delta, r, out: _huber_inside(delta, r, r, delta * np.sign(r)),
)  # fmt: skip
special(
    sp.pseudo_huber, "delta r", positive(), anywhere(),
    delta=lambda delta, r, out: 2 * out / delta - r * r / np.hypot(delta, r),
    r=lambda delta, r, out: delta * r / np.hypot(delta, r),
)  # fmt: skip
special(sp.exp10, "x", anywhere(), x=lambda x, out: out * math.log(10))
special(sp.cosm1, "x", anywhere(), x=lambda x, out: -np.sin(x))
special(sp.sindg, "x", _degrees, x=lambda x, out: _DEGREE * sp.cosdg(x))
special(sp.cosdg, "x", _degrees, x=lambda x, out: -_DEGREE * sp.sindg(x))
special(sp.tandg, "x", _degrees, x=lambda x, out: _DEGREE * (1 + out * out))
special(sp.cotdg, "x", between(20.0, 70.0), x=lambda x, out: -_DEGREE * (1 + out * out))


# ── orthogonal polynomials: the derivative is a polynomial of the next family, one degree lower ──────────────────

_degree, _point = integers(0, 5), between(-0.9, 0.9)

special(sp.eval_chebyt, "n x", _degree, _point, x=lambda n, x, out: n * sp.eval_chebyu(n - 1, x))
special(sp.eval_chebyu, "n x", _degree, _point, x=lambda n, x, out: 2 * sp.eval_gegenbauer(n - 1, 2.0, x))
special(sp.eval_sh_chebyt, "n x", _degree, _inside, x=lambda n, x, out: 2 * n * sp.eval_chebyu(n - 1, 2 * x - 1))
special(sp.eval_sh_chebyu, "n x", _degree, _inside, x=lambda n, x, out: 4 * sp.eval_gegenbauer(n - 1, 2.0, 2 * x - 1))
special(sp.eval_legendre, "n x", _degree, _point, x=lambda n, x, out: sp.eval_gegenbauer(n - 1, 1.5, x))
special(sp.eval_sh_legendre, "n x", _degree, _inside, x=lambda n, x, out: 2 * sp.eval_gegenbauer(n - 1, 1.5, 2 * x - 1))
special(
    sp.eval_gegenbauer, "n alpha x", _degree, positive(), _point,
    x=lambda n, alpha, x, out: 2 * alpha * sp.eval_gegenbauer(n - 1, alpha + 1, x),
)  # fmt: skip
special(
    sp.eval_jacobi, "n alpha beta x", _degree, positive(), positive(), _point,
    x=lambda n, alpha, beta, x, out: 0.5 * (n + alpha + beta + 1) * sp.eval_jacobi(n - 1, alpha + 1, beta + 1, x),
)  # fmt: skip
special(sp.eval_laguerre, "n x", _degree, positive(), x=lambda n, x, out: -sp.eval_genlaguerre(n - 1, 1.0, x))
special(
    sp.eval_genlaguerre, "n alpha x", _degree, positive(), positive(),
    x=lambda n, alpha, x, out: -sp.eval_genlaguerre(n - 1, alpha + 1, x),
)  # fmt: skip
special(
    sp.eval_hermite, "n x", _degree, anywhere(), x=lambda n, x, out: 2 * n * sp.eval_hermite(np.maximum(n - 1, 0), x)
)
special(
    sp.eval_hermitenorm,
    "n x",
    _degree,
    anywhere(),
    x=lambda n, x, out: n * sp.eval_hermitenorm(np.maximum(n - 1, 0), x),
)
special(sp.eval_chebyc, "n x", _degree, _point, x=lambda n, x, out: n * sp.eval_chebys(n - 1, x))
special(sp.eval_chebys, "n x", _degree, _point, x=lambda n, x, out: sp.eval_gegenbauer(n - 1, 2.0, 0.5 * x))
special(
    sp.eval_sh_jacobi, "n p q x", _degree, between(2.2, 3.0), between(0.5, 1.5), _inside,
    x=lambda n, p, q, x, out: (n + p) * sp.eval_jacobi(n - 1, p - q + 1, q, 2 * x - 1) / sp.binom(2 * n + p - 1, n),
)  # fmt: skip


# ── spherical harmonics: the angular momentum operators L± = e^{±iφ}(±∂θ + i cot θ ∂φ) raise and lower m ──────────


def _spherical_harmonic(n, m, theta, phi):
    n, m = np.asarray(n, np.int64), np.asarray(m, np.int64)  # with which SciPy answers in double precision
    return scipy.special.sph_harm_y(n, m, theta, phi)  # SciPy has it since 1.15


def _harmonic_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    n, m, theta, phi = primals
    out, total = spherical_harmonic(n, m, theta, phi), None
    if tangents[2] is not None:
        turn = np.exp(-1j * phi)
        above = np.sqrt(np.maximum((n - m) * (n + m + 1.0), 0.0)) * turn * spherical_harmonic(n, m + 1, theta, phi)
        below = np.sqrt(np.maximum((n + m) * (n - m + 1.0), 0.0)) * spherical_harmonic(n, m - 1, theta, phi) / turn
        total = tangents[2] * (0.5 * (above - below))
    if tangents[3] is not None:
        total = add_tangents(total, tangents[3] * (1j * m * out))
    return out, broadcast_tangent(total, out)


spherical_harmonic = elementwise(
    _spherical_harmonic,
    name="sph_harm_y",
    abstract_eval=lambda n, m, theta, phi: Aval(broadcast_shapes(n, m, theta, phi), np.dtype(np.complex128)),
    jvp=_harmonic_jvp,
    samples=[
        (np.array([2, 3, 1]), np.array([1, -3, 0]), between(0.2, 2.9)(3), anywhere()(3)),
        (np.array(2), np.array(-1), between(0.2, 2.9)(), anywhere()()),
        (np.array([[4], [1]]), np.array([0, 1, -1]), between(0.2, 2.9)(3), anywhere()(2, 1)),
    ],
    blocks="entries",
    kind="special",
)
