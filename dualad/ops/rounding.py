"""Rounding: steps, whose derivative is zero, and the functions that take a number apart.

Not for: remainders (``arithmetic.py``), comparisons (``choice.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.aval import Aval
from ..core.primitive import Primitive
from ..errors import RuleMissingError
from .kinds import batch_elementwise, elementwise, elementwise_shape, linear, predicate, stacked, unbroadcast
from .samples import away_from, between, elementwise_samples, integers

__all__ = ["frexp", "ldexp", "modf", "nextafter", "round_", "spacing"]


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────

# Samples keep away from the jumps, so that differences see the derivative too.
_between_jumps = elementwise_samples(between(0.55, 0.95)) + elementwise_samples(between(-2.45, -2.05))[1:3]

for _ufunc in (np.floor, np.ceil, np.trunc, np.rint):
    predicate(_ufunc, samples=_between_jumps)

predicate(
    np.floor_divide,
    samples=elementwise_samples(between(5.2, 5.6), between(1.5, 1.7))
    + elementwise_samples(integers(-9, 9), integers(1, 4))[1:3],
)

round_ = stacked(
    "round",
    impl=lambda x, *, decimals: np.round(x, decimals),
    abstract_eval=lambda x, *, decimals: Aval(x.shape, np.round(np.empty(0, x.dtype), decimals).dtype),
    jvp=None,
    samples=[
        ((), {"decimals": 0}),
        (between(1.26, 1.34)(3), {"decimals": 1}),
        (between(1210.0, 1230.0)(2, 3), {"decimals": -2}),
        ((0, 2), {"decimals": 3}),
        (integers(3, 40)(4), {"decimals": -1}),
    ],
    kind="predicate",
)


# ── a number taken apart ─────────────────────────────────────────────────────────────────────────────────────────


def _modf_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    """Give the fraction the tangent of x: the whole part is a step."""
    return np.modf(primals[0]), (tangents[0], None)


modf = elementwise(np.modf, jvp=_modf_jvp, samples=_between_jumps)


def _frexp_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    """Scale the tangent as the mantissa: x = m 2^e, where e is a step, so ∂m = 2^(−e) ∂x."""
    mantissa, exponent = np.frexp(primals[0])
    return (mantissa, exponent), (np.ldexp(tangents[0], -exponent), None)


frexp = elementwise(
    np.frexp,
    jvp=_frexp_jvp,
    samples=elementwise_samples(between(1.1, 1.9)) + elementwise_samples(between(-0.45, -0.3))[1:3],
)

ldexp = linear(
    "ldexp",
    impl=np.ldexp,
    abstract_eval=elementwise_shape(np.ldexp),
    transpose=lambda ct, x, n: (unbroadcast(np.ldexp(ct, n), x), None),
    batch=batch_elementwise(np.ldexp),
    samples=elementwise_samples(away_from(0.0), integers(-3, 4)),
    numpy=[np.ldexp],
)


# ── the grid of floating-point numbers ───────────────────────────────────────────────────────────────────────────


def _refused(ufunc: np.ufunc) -> Primitive:
    name = ufunc.__name__

    def jvp(primals: Sequence, tangents: Sequence) -> None:
        raise RuleMissingError(
            f"np.{name} was differentiated.",
            "it steps along the grid of floating-point numbers, which no infinitesimal amount can be compared with",
            f"use np.{name}(dualad.stop_gradient(x), ...) if its value is a constant to you",
        )

    return elementwise(ufunc, jvp=jvp, samples=away_from(0.0), kind="refused")


nextafter, spacing = _refused(np.nextafter), _refused(np.spacing)
