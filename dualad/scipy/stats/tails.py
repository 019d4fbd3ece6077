"""The derivative of a distribution function in its shapes: the integral of that of the density over the smaller tail.

For laws whose distribution function SciPy computes in compiled code or by integration, of whose density there is a
formula (``lifted.py``). Not for: those that are made of incomplete gamma and beta functions (``dualad/ops``).

    ∂F/∂s (z) = ∫ ∂f/∂s (t) dt from the lower end to z = −∫ ∂f/∂s (t) dt from z to the upper end

Where the end is finite, t = end + (z − end) e⁻ᵛ makes of a power there an exponential; where it is infinite,
t = z ± σ (eᵛ − 1), of which a power of t far out becomes one too. σ is the distance in which the density changes by a
fifth, and v goes as far as f dt/dv has fallen by e⁻⁴⁰: both are found by trying, with SciPy's density, and held fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special._ufuncs as sp

from ...jvp import jvp, stop_gradient
from ...ops.incomplete import crowded_panels
from ...rules.wrap import wrap

__all__ = ["along_shapes", "vonmises_in_kappa"]


def _point(z, end, side, sigma, v):
    """Return t and |dt/dv|; ``side`` is −1 for the lower tail, and an end that is finite takes the place of σ."""
    finite = np.isfinite(end)
    gap = z - np.where(finite, end, 0.0)
    inner = gap * np.exp(-v)
    grown = np.expm1(v)
    return (
        np.where(finite, np.where(finite, end, 0.0) + inner, z + side * sigma * grown),
        np.where(finite, np.abs(inner), sigma * (grown + 1)),
    )


def _extent(original: Any) -> Callable:
    """Make a function of z and the shapes, all plain: side, σ and the length in v, on a last axis."""

    def extent(z, *shapes):
        z, *shapes = np.broadcast_arrays(z, *shapes)
        with np.errstate(all="ignore"):
            side = np.where(original.cdf(z, *shapes) <= 0.5, -1.0, 1.0)
            low, high = original._get_support(*shapes)
            end = np.where(side < 0, low, high)
            here, sigma, found = original.logpdf(z, *shapes), np.full(z.shape, 1e-4), np.zeros(z.shape, bool)
            while not found.all() and np.max(sigma) < 1e12:
                sigma = np.where(found, sigma, 2 * sigma)
                found |= ~(np.abs(original.logpdf(z + side * sigma, *shapes) - here) < 0.2)
            length, open_ = np.full(z.shape, 0.25), np.ones(z.shape, bool)
            largest = here + np.log(_point(z, end, side, sigma, 0.0)[1])
            while open_.any() and np.max(length) < 1e5:
                t, step = _point(z, end, side, sigma, length)
                density = original.logpdf(t, *shapes) + np.log(step)
                largest = np.fmax(largest, np.where(open_, density, -np.inf))
                open_ &= density > largest - 40
                length = np.where(open_, 1.4 * length, length)
        return np.stack([side, sigma, length], axis=-1)

    return extent


def along_shapes(formulas: Any, z: Any, shapes: tuple, tangents: list) -> Any:
    """Return ∂F/∂s ds at z, with tangents that are ``None`` where they are zero."""
    like = np.zeros((*np.shape(z), 3))
    found = wrap(_extent(formulas.original), vectorized=True, like=like)(*stop_gradient((z, *shapes)))
    side, sigma, length = (found[..., i, None] for i in range(3))
    z, *shapes = [v[..., None] for v in (z, *shapes)]
    low, high = formulas.support(*shapes)
    v, weights = crowded_panels(length, 0.5, 1.1, 2.0, 4.5, 30.0)
    end = np.where(side < 0, low, high)
    t, step = _point(z, end, side, sigma, v)
    lost = t == end  # where their difference underflows
    t = np.where(lost, z, t)
    spread = [None if s is None else s[..., None] for s in tangents]
    slope = jvp(lambda *s: formulas["pdf"](t, *s), tuple(shapes), tuple(spread))[1]
    return -np.sum(side * weights * np.where(lost, 0.0, step * slope), axis=-1)


# ── von Mises ────────────────────────────────────────────────────────────────────────────────────────────────────


def vonmises_in_kappa(z, kappa):
    """Integrate f (cos t − A), A = I₁/I₀ (κ), on the side of its zero where z lies; the rest is periodic and odd."""
    z = z - 2 * np.pi * np.round(z / (2 * np.pi))
    size = np.abs(z)
    large = kappa > 500
    inverse = 1 / np.where(large, kappa, 1.0)
    series = 0.0
    for c in (1073 / 1024, 13 / 32, 25 / 128, 1 / 8, 1 / 8, 1 / 2):
        series = (series + c) * inverse
    ratio = sp.i1e(kappa) / sp.i0e(kappa)
    rest = np.where(large, series, 1 - ratio)  # 1 − A
    bent = np.sin(0.5 * size) ** 2
    inside = 2 * bent < rest
    deep = bent + 20.5 / kappa
    far = deep >= 1
    end = np.where(far, np.pi, 2 * np.arcsin(np.sqrt(np.where(far, 0.5, deep))))
    start, end = np.where(inside, 0.0, size)[..., None], np.where(inside, size, end)[..., None]
    v, weights = crowded_panels(end - start, 0.5, 1.1)
    t = start + v
    half = 2 * np.sin(0.5 * t) ** 2
    slope = np.exp(-kappa[..., None] * half) * (rest[..., None] - half)
    total = np.sum(weights * slope, axis=-1) / (2 * np.pi * sp.i0e(kappa))
    return np.sign(z) * np.where(inside, total, -total)
