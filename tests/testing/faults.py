"""Rules with one fault each, in a custom_jvp and in a custom_vjp, for the tests of every checker.

The function is x·y + sin x on vectors (or, for the transposed fault, a square matrix). Not for right rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

import dualad as da

__all__ = ["ARGS", "COMPLEX", "FAULTS", "faulty", "right"]

ARGS = (np.array([0.4, 1.3, -0.7]), np.array([1.5, -0.6, 0.8]))
COMPLEX = (np.array([0.4 + 0.3j, 1.3 - 0.2j]), np.array([1.5 + 0.1j, -0.6 + 1.0j]))


def value(x, y):
    return x * y + np.sin(x)


def right(x, y, s, t):
    return (y + np.cos(x)) * s + x * t


@da.custom_vmap
def wrong_in_lanes(v):
    return v * 1.0


wrong_in_lanes.def_vmap(lambda size, mapped, v: (v * 1.5, True))
_counter = itertools.count()


def noisy(v):
    return v * (1.0 + 1e-6 * next(_counter))


#: fault -> what the tangent is instead; each stays linear in the tangents
TANGENTS: dict[str, Callable] = {
    "scaled": lambda x, y, s, t: 1.1 * right(x, y, s, t),
    "shifted": lambda x, y, s, t: right(x, y, s, t) + 0.01 * s,
    "transposed": lambda x, y, s, t: right(x[::-1], y[::-1], s, t),
    "one entry": lambda x, y, s, t: right(x, y, s, t) * np.array([1.0, 1.0, 1.001])[: len(x)],
    "conjugated": lambda x, y, s, t: (y + np.cos(x)).conj() * s + x * t,
    "random": lambda x, y, s, t: noisy(right(x, y, s, t)),
    "in lanes": lambda x, y, s, t: wrong_in_lanes(right(x, y, s, t)),
    "second order": lambda x, y, s, t: (y + da.stop_gradient(np.cos(x))) * s + x * t,
    "dropped": lambda x, y, s, t: x * t + 0.0 * s,
}
COTANGENTS: dict[str, Callable] = {
    "scaled": lambda x, y, c: (1.1 * (y + np.cos(x)) * c, 1.1 * x * c),
    "shifted": lambda x, y, c: ((y + np.cos(x)) * c + 0.01 * c, x * c),
    "transposed": lambda x, y, c: ((y + np.cos(x))[::-1] * c, x[::-1] * c),
    "one entry": lambda x, y, c: ((y + np.cos(x)) * c * np.array([1.0, 1.0, 1.001])[: len(x)], x * c),
    "conjugated": lambda x, y, c: ((y + np.cos(x)).conj() * c, x * c),
    "random": lambda x, y, c: (noisy((y + np.cos(x)) * c), x * c),
    "in lanes": lambda x, y, c: (wrong_in_lanes((y + np.cos(x)) * c), x * c),
    "second order": lambda x, y, c: ((y + da.stop_gradient(np.cos(x))) * c, x * c),
    "dropped": lambda x, y, c: (None, x * c),
}
FAULTS = tuple(TANGENTS)


def faulty(kind: str, fault: str):
    """Return the function with a rule of a kind that has a fault (``"none"``: the right rule)."""
    if kind == "custom_jvp":
        f = da.custom_jvp(value)
        tangent = TANGENTS.get(fault, right)

        @f.defjvp
        def rule(primals, tangents):
            return value(*primals), tangent(*primals, *tangents)

        return f
    f = da.custom_vjp(value)
    pullback = COTANGENTS.get(fault, lambda x, y, c: ((y + np.cos(x)) * c, x * c))
    f.defvjp(lambda x, y: (value(x, y), (x, y)), lambda r, c: pullback(*r, c))
    return f
