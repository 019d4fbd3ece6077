"""NumPy's functions of polynomials given by coefficients, highest power first, and ``np.emath``.

Leading coefficients that are exactly zero are kept, where NumPy trims them: a coefficient that is zero now may still
have a tangent. Not for: the rules of ``np.roots`` and ``np.poly`` (``ops/polynomial.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Array
from ..core.libraries import refuse_lazy
from ..errors import UnsupportedError
from ..ops import polynomial
from .arguments import array_operand, function, inexact_operand, numpys_own, operand


def _coefficients(p):
    return np.atleast_1d(operand(p))


def _polynomial(p):
    """Return the coefficients of one polynomial, where NumPy does not take a number for one."""
    p = operand(p)
    if not np.ndim(p):
        raise TypeError("a polynomial is given by a sequence of coefficients, not by a number")
    return p


@function(np.polyval, kind="composite")
def polyval(p: Array, x: Array) -> Array:
    p, x = _polynomial(p), array_operand(x)
    y = np.zeros_like(x)
    if p.shape[0]:
        y = y + p[0]
    for k in range(1, p.shape[0]):
        y = y * x + p[k]
    return y


# ── roots ────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# How many there are depends on which coefficients in front are zero: a question about values, which splits lanes.


@function(np.roots)
def roots(p: Array) -> Array:
    """Roots of a polynomial; of complex dtype even where NumPy, finding them all real, returns floats.

    At a multiple root the derivative is infinite.
    """
    p = _coefficients(p)
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    p = inexact_operand(p)
    zeros = 0
    while zeros < p.shape[0] and p[zeros] == 0:
        zeros += 1
    return polynomial.roots(p, degree=max(p.shape[0] - zeros - 1, 0)) if zeros < p.shape[0] else np.zeros(0)


@function(np.poly)
def poly(seq_of_zeros: Array) -> Array:
    """Coefficients from roots, or of the characteristic polynomial of a matrix.

    Of complex roots or a complex matrix they are complex, even where they come in pairs and NumPy returns floats: the
    roots of a pair may move apart.
    """
    x = inexact_operand(_coefficients(seq_of_zeros))
    if x.ndim == 2 and x.shape[0] == x.shape[1] != 0:
        return polynomial.characteristic(x)
    if x.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if not x.shape[0]:
        return 1.0
    zero = np.zeros(1, x.dtype)
    out = np.ones(1, x.dtype)
    for i in range(x.shape[0]):
        out = np.concatenate([out, zero]) - np.concatenate([zero, out * x[i]])
    return out


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────────


def _aligned(*polynomials) -> list:
    """Return coefficients of one length, zeros in front of the shorter; NumPy's own code would cut those of poly1d."""
    polynomials = [_coefficients(p) for p in polynomials]
    length = max([p.shape[0] for p in polynomials])
    pad = lambda p: np.concatenate([np.zeros(length - p.shape[0], p.dtype), p])
    return [p if p.shape[0] == length else pad(p) for p in polynomials]


@function(np.polyadd, kind="composite")
def polyadd(a1: Array, a2: Array) -> Array:
    return np.add(*_aligned(a1, a2))


@function(np.polysub, kind="composite")
def polysub(a1: Array, a2: Array) -> Array:
    return np.subtract(*_aligned(a1, a2))


@function(np.polymul, kind="composite")
def polymul(a1: Array, a2: Array) -> Array:
    return np.convolve(_coefficients(a1), _coefficients(a2))


@function(np.polydiv, kind="composite")
def polydiv(u: Array, v: Array) -> tuple:
    """Divide by synthetic division: one quotient coefficient after the other."""
    u, v = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    steps = u.shape[0] - v.shape[0] + 1
    if steps < 1:
        return np.zeros(1, np.result_type(u, v)), u
    quotient = []
    for k in range(steps):
        d = u[k] / v[0]
        quotient.append(d)
        u = u - np.concatenate([np.zeros(k, v.dtype), d * v, np.zeros(steps - 1 - k, v.dtype)])
    # The rest of the leading coefficients is zero but for rounding.
    rest = u[steps:] if u.shape[0] > steps else u[-1:]
    return np.stack(quotient), rest


numpys_own(np.polyder, np.polyint, np.trim_zeros, kind="composite")


@function(np.polyfit, kind="composite")
def polyfit(
    x: Array, y: Array, deg: Any, rcond: Array = None, full: bool = False, w: Array = None, cov: Array = False
) -> Array:
    if full or cov:
        raise UnsupportedError(
            "np.polyfit was called on tensors with full=True or cov=True.",
            "only the coefficients have a rule so far",
            "compute the residuals from them: y - np.polyval(p, x)",
        )
    x, y = operand(x) + 0.0, operand(y) + 0.0
    if np.ndim(x) != 1:
        raise TypeError("expected 1D vector for x")
    if np.ndim(y) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")
    if not x.shape[0]:
        raise TypeError("expected non-empty vector for x")
    left, right = np.vander(x, int(deg) + 1), y
    if w is not None:
        w = operand(w) + 0.0
        left, right = left * w[:, None], right * (w if right.ndim == 1 else w[:, None])
    # Scaling the columns improves the condition of the system, as NumPy does.
    scale = np.sqrt(np.sum(left * left, axis=0))
    rcond = x.shape[0] * np.finfo(x.dtype).eps if rcond is None else rcond
    c = np.linalg.lstsq(left / scale, right, rcond)[0]
    return c / (scale if c.ndim == 1 else scale[:, None])


# ── np.emath: complex results where real ones do not exist ───────────────────────────────────────────────────────


def _complex_if(x, outside):
    """Return ``x``, complex if some entry lies outside the real domain; a branch on values, as in NumPy."""
    x = array_operand(x)
    refuse_lazy(x, "a function of np.emath", "make the argument complex, x + 0j, or ")
    if x.dtype.kind == "c" or not bool(np.any(outside(x))):
        return x
    return x.astype(np.complex64 if x.dtype.char in "fbhBH" else np.complex128)  # as NumPy, to which float16 is wide


def _is_negative(x):
    return x < 0


def _extended(name: str, outside) -> None:
    ufunc = getattr(np, name)

    @function(getattr(np.emath, name), kind="composite")
    def extended(x: Array) -> Array:
        return ufunc(_complex_if(x, outside))


for _name in ("sqrt", "log", "log2", "log10"):
    _extended(_name, _is_negative)
for _name in ("arccos", "arcsin", "arctanh"):
    _extended(_name, lambda x: np.abs(x) > 1)


@function(np.emath.logn, kind="composite")
def logn(n: Any, x: Array) -> Array:
    return np.log(_complex_if(x, _is_negative)) / np.log(_complex_if(n, _is_negative))


@function(np.emath.power, kind="composite")
def power(x: Array, p: Array) -> Array:
    x = _complex_if(x, _is_negative)
    p = array_operand(p)
    if p.dtype.kind in "iu" and bool(np.any(p < 0)):
        p = p * 1.0
    return np.power(x, p)
