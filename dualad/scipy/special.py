"""``scipy.special``: its ufuncs, which take tensors as they are, and versions of its functions that are Python.

With ``SCIPY_ARRAY_API=1`` SciPy wraps about ninety ufuncs in functions that do not take tensors; here they are always
the ufuncs themselves. Not for: derivatives of ufuncs (``ops/special.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special
from scipy.special import _ufuncs

from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..jvp import stop_gradient
from ..ops.choice import nowhere
from ..ops.special import spherical_harmonic
from ..ops.zeta import polygamma as polygamma_op
from ..rules.custom_jvp import custom_jvp
from ..surface.arguments import inexact_operand, normalize_axes, operand, operands
from .mirror import falls_back, mirrors

__all__ = [
    "comb", "factorial", "h1vp", "h2vp", "ivp", "jvp", "kvp", "lambertw", "log_softmax", "logsumexp", "multigammaln",
    "perm", "polygamma", "softmax", "softplus", "sph_harm_y", "spherical_in", "spherical_jn", "spherical_kn",
    "spherical_yn", "yvp", "zeta",
]  # fmt: skip

_guarded, __dir__ = falls_back(scipy.special, globals())


def __getattr__(name: str):
    ufunc = getattr(_ufuncs, name, None)
    return ufunc if isinstance(ufunc, np.ufunc) else _guarded(name)


# ── exponentials and their sums ──────────────────────────────────────────────────────────────────────────────────


def _shift(x, axis):
    """Return the largest real part as a constant, 0 where it is infinite: no exponential may overflow."""
    largest = np.max(np.real(stop_gradient(x)), axis=axis, keepdims=True)
    return np.where(np.isfinite(largest), largest, 0.0).astype(largest.dtype)


@custom_jvp
def _without_derivative(x, lost):
    """Return 0, whose derivative in x is NaN where it is lost."""
    return np.zeros_like(x)


@_without_derivative.defjvp
def _nan_where_lost(primals, tangents):
    x, lost = primals
    return np.zeros_like(x), np.where(lost, np.nan, 0.0).astype(x.dtype) * tangents[0]


@mirrors(scipy.special.logsumexp)
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    """Compute log Σ b exp(a), whose derivative in a is softmax.

    Where every term is zero the value is −inf and the derivative NaN, as JAX has it: softmax is 0/0.
    """
    a = inexact_operand(a)
    if b is not None:
        b = operand(b)
        a = np.where(b == 0, np.full((), -np.inf, np.result_type(a.dtype, b.dtype)), a)
    axes = normalize_axes(axis, a.ndim, "scipy.special.logsumexp")
    shape = [1 if i in axes else n for i, n in enumerate(a.shape)]
    # The axes that are summed over become one, at the end.
    kept = [i for i in range(a.ndim) if i not in axes]
    order = (*kept, *axes)
    flat = (*[a.shape[i] for i in kept], math.prod(a.shape[i] for i in axes))
    if b is not None:
        b = np.reshape(np.transpose(np.broadcast_to(b, a.shape), order), flat)
    rows = np.reshape(np.transpose(a, order), flat)
    out, sign = _logsumexp(rows, b, return_sign)
    lost = np.isneginf(np.real(out))
    if flat[-1] and not nowhere(lost) and not isinstance(b, Tracer):  # in weights, the pole of the logarithm is right
        with np.errstate(invalid="ignore"):
            out = out + _without_derivative(np.sum(rows, axis=-1), lost)
    shape = shape if keepdims else [a.shape[i] for i in kept]
    out = np.reshape(out, shape)
    return (out, np.reshape(sign, shape)) if return_sign else out


def _logsumexp(a, b, return_sign: bool):
    """Reduce the last axis."""
    if not a.shape[-1]:
        out = np.full_like(np.sum(np.real(a), axis=-1), -np.inf)
        return out, np.zeros_like(out)
    shift = _shift(a, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if b is None and a.dtype.kind != "c" and not return_sign:
            # The largest term is one: taken away before the logarithm, it leaves the digits of the others.
            places = np.arange(a.shape[-1])
            places.setflags(write=False)  # so that a program need not copy it
            first = places == np.argmax(stop_gradient(a), axis=-1, keepdims=True)
            rest = np.sum(np.where(first, np.expm1(a - shift), np.exp(a - shift)), axis=-1)
            return np.log1p(rest) + shift[..., 0], None
        terms = np.exp(a - shift)
        total = np.sum(terms if b is None else b * terms, axis=-1)
        if not return_sign:
            return np.log(total) + shift[..., 0], None
        return np.log(np.abs(total)) + shift[..., 0], np.sign(total)


@mirrors(scipy.special.softmax)
def softmax(x, axis=None):
    """Compute exp(x) / Σ exp(x)."""
    x = inexact_operand(x)
    terms = np.exp(x - np.max(stop_gradient(x), axis=axis, keepdims=True))
    return terms / np.sum(terms, axis=axis, keepdims=True)


@mirrors(scipy.special.log_softmax)
def log_softmax(x, axis=None):
    """Compute log(exp(x) / Σ exp(x))."""
    x = inexact_operand(x)
    x = x - _shift(x, axis)
    with np.errstate(divide="ignore"):
        return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))


@mirrors(getattr(scipy.special, "softplus", None))
def softplus(x, **kwargs):
    """Compute log(1 + exp(x))."""
    return np.logaddexp(0, x, **kwargs)


# ── the gamma family ─────────────────────────────────────────────────────────────────────────────────────────────


def _constant(name: str, argument: str, value) -> np.ndarray:
    """Return a discrete argument as an array; a tensor can't choose among formulas."""
    if isinstance(value, Tracer):
        raise UnsupportedError(
            f"scipy.special.{name}: {argument} is a {type(value).__name__} of shape {value.shape}.",
            f"the rule depends on the value of {argument}",
            f"give {argument} as integers, and map over the other argument",
        )
    return np.asarray(value)


@mirrors(scipy.special.polygamma, "op")
def polygamma(n, x):
    """Compute the n-th derivative of digamma; n is not a tensor."""
    n, x = _constant("polygamma", "n", n), inexact_operand(x)
    out = None
    for order in np.unique(n).tolist():
        if order < 0 or order != int(order):
            raise UnsupportedError(
                f"scipy.special.polygamma: n = {order}.",
                "the order of a derivative is a natural number",
                "pass n as integers from 0",
            )
        value = polygamma_op(x, order=int(order)) if order else _ufuncs.psi(x)
        out = value if out is None else np.where(n == order, value, out)
    return np.broadcast_to(out, np.broadcast_shapes(n.shape, x.shape))


@mirrors(scipy.special.multigammaln)
def multigammaln(a, d):
    """Compute the logarithm of the multivariate gamma function.

    That a > (d − 1)/2 is not checked on tensors.
    """
    a, d = operand(a), _constant("multigammaln", "d", d)[()]
    if np.ndim(d) or np.floor(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    out = sum(_ufuncs.gammaln(a - 0.5 * j) for j in range(int(d)))
    return out + 0.25 * int(d) * (int(d) - 1) * math.log(math.pi)


@mirrors(scipy.special.zeta, "op")
def zeta(x, q=None, out=None):
    """Compute Hurwitz' zeta function, or Riemann's."""
    if out is not None:
        return _ufuncs._zeta(x, 1.0 if q is None else q, out=out)
    return _ufuncs._riemann_zeta(x) if q is None else _ufuncs._zeta(x, q)


def _exactly(name: str, exact: bool) -> None:
    if exact:
        raise UnsupportedError(
            f"scipy.special.{name}(exact=True) was called on a tensor.",
            "it computes with Python integers",
            "exact=False",
        )


@mirrors(scipy.special.comb)
def comb(N, k, *, exact=False, repetition=False):
    """Compute the number of combinations, a differentiable function of N and k."""
    _exactly("comb", exact)
    N, k = operands(N, k)
    if repetition:
        value = comb(N + k - 1, k)
        return np.where((k == 0) & (N >= 0), np.ones((), value.dtype), value)
    value = _ufuncs.binom(N, k)
    return np.where((k <= N) & (N >= 0) & (k >= 0), value, np.zeros((), value.dtype))


@mirrors(scipy.special.perm)
def perm(N, k, exact=False):
    """Compute the number of permutations, a differentiable function of N and k."""
    _exactly("perm", exact)
    N, k = operands(N, k)
    value = _ufuncs.poch(N - k + 1, k)
    return np.where((k <= N) & (N >= 0) & (k >= 0), value, np.zeros((), value.dtype))


@mirrors(scipy.special.factorial)
def factorial(n, exact=False, extend="zero"):
    """Compute Γ(n + 1)."""
    _exactly("factorial", exact)
    n = inexact_operand(n)
    value = _ufuncs.gamma(n + 1)
    if extend == "complex":
        return value
    if extend != "zero":
        raise ValueError(f"argument `extend` must be either 'zero' or 'complex', received: {extend}")
    return np.where(n < 0, np.zeros((), value.dtype), value)


@mirrors(scipy.special.lambertw, "op")
def lambertw(z, k=0, tol=1e-8):
    """Compute a branch of Lambert's W."""
    return _ufuncs._lambertw(z, _constant("lambertw", "k", k).astype(int), tol)


# ── Bessel functions: derivatives by order, spherical ones ───────────────────────────────────────────────────────


def _nth_derivative(original: Callable, ufunc: np.ufunc, phase: int = -1, sign: int = 1) -> Callable:
    """Make f⁽ⁿ⁾ = signⁿ 2⁻ⁿ Σ phaseⁱ (n over i) f(v − n + 2i) (Abramowitz and Stegun 9.1.31, 9.6.29)."""

    def derivative(v, z, n=1):
        v, z = operands(v, z)
        if n < 0 or n != int(n):
            raise ValueError("n must be a non-negative integer.")
        terms = [phase**i * math.comb(n, i) * ufunc(v - n + 2 * i, z) for i in range(n + 1)]
        return sign**n * sum(terms[1:], terms[0]) / 2.0**n

    words = f"Compute the n-th derivative of {original.__name__[:-2].capitalize()}v in z."
    return mirrors(original, words=words)(derivative)


jvp = _nth_derivative(scipy.special.jvp, _ufuncs.jv)
yvp = _nth_derivative(scipy.special.yvp, _ufuncs.yv)
h1vp = _nth_derivative(scipy.special.h1vp, _ufuncs.hankel1)
h2vp = _nth_derivative(scipy.special.h2vp, _ufuncs.hankel2)
ivp = _nth_derivative(scipy.special.ivp, _ufuncs.iv, 1)
kvp = _nth_derivative(scipy.special.kvp, _ufuncs.kv, 1, -1)


def _spherical(original: Callable, before: int, after: int, parity: int | None, kind: str) -> Callable:
    """Make a spherical Bessel function, (2n + 1) f′ₙ = before · n fₙ₋₁ + after · (n + 1) fₙ₊₁.

    With a ``parity`` it is reflected at zero: f(−z) = parity (−1)ⁿ f(z).
    """
    name = original.__name__
    ufunc = getattr(_ufuncs, f"_{name}")

    def function(n, z, derivative=False):
        n, z = _constant(name, "n", n).astype(int), inexact_operand(z)

        def f(z):
            if derivative:
                return (before * n * ufunc(np.maximum(n - 1, 0), z) + after * (n + 1) * ufunc(n + 1, z)) / (2 * n + 1)
            return ufunc(n, z)

        if parity is None or z.dtype.kind == "c":
            return f(z)
        left = z < 0
        sign = (parity if not derivative else -parity) * (-1.0) ** n
        return np.where(left, sign, 1.0).astype(z.dtype) * f(np.where(left, -z, z))

    return mirrors(original, "op", f"Compute a {kind} kind, or its derivative.")(function)


spherical_jn = _spherical(scipy.special.spherical_jn, 1, -1, 1, "spherical Bessel function of the first")
spherical_yn = _spherical(scipy.special.spherical_yn, 1, -1, -1, "spherical Bessel function of the second")
spherical_in = _spherical(scipy.special.spherical_in, 1, 1, 1, "modified spherical Bessel function of the first")
spherical_kn = _spherical(scipy.special.spherical_kn, -1, -1, None, "modified spherical Bessel function of the second")


@mirrors(getattr(scipy.special, "sph_harm_y", None), "op")
def sph_harm_y(n, m, theta, phi, *, diff_n=0):
    """Compute a spherical harmonic at the polar angle theta and the azimuth phi; n and m are not tensors."""
    if diff_n:
        raise UnsupportedError(
            f"scipy.special.sph_harm_y: diff_n={diff_n} on a tensor.",
            "derivatives are taken by transforms",
            "leave diff_n out and differentiate the function, for instance with dualad.hessian",
        )
    n, m = (_constant("sph_harm_y", name, value).astype(int) for name, value in (("n", n), ("m", m)))
    return spherical_harmonic(n, m, inexact_operand(theta), inexact_operand(phi))
