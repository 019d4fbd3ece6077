"""Sample arguments: every operator's tests, benchmarks and tables start from these.

A declaration's ``samples`` is a list of specifications ``(arg, arg, ..., {params})``. An argument is a shape (a tuple
of ints: standard normal values), a :class:`Domain` at a shape, or a concrete value. ``realize`` turns them into
arrays, from a generator seeded by the operator's name, so that a failure repeats.

Not for: special points where a derivative is a matter of choice; those have tests of their own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Domain", "Sample", "anywhere", "away_from", "between", "complex_matrix", "complex_normal", "complex_plane",
    "complex_regular", "definite", "elementwise_samples", "integers", "positive", "realize", "regular",
    "well_conditioned",
]  # fmt: skip


class Sample(NamedTuple):
    """One call of an operator: ``op(*args, **params)``."""

    args: tuple
    params: dict


class Domain:
    """Where an argument may lie: ``make(rng, shape)`` returns a float64 (or complex128, or integer) array."""

    def __init__(self, make: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]) -> None:
        self.make = make

    def __call__(self, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
        return lambda rng: self.make(rng, shape)


def between(low: float, high: float) -> Domain:
    """Uniform in an interval."""
    return Domain(lambda rng, shape: np.asarray(rng.uniform(low, high, shape)))


def positive() -> Domain:
    """Well away from zero, on its right."""
    return between(0.4, 2.5)


def away_from(*points: float, gap: float = 0.2) -> Domain:
    """Real values at least ``gap`` away from the given points."""

    def make(rng, shape):
        x = np.asarray(rng.normal(size=shape) * 1.3)
        for p in points:
            near = abs(x - p) < gap
            x = np.where(near, p + np.where(x >= p, 1, -1) * (gap + abs(x - p)), x)
        return np.asarray(x)

    return Domain(make)


def anywhere() -> Domain:
    """Any real value."""
    return Domain(lambda rng, shape: np.asarray(rng.normal(size=shape)))


def integers(low: int, high: int) -> Domain:
    """Integers, ``high`` excluded."""
    return Domain(lambda rng, shape: np.asarray(rng.integers(low, high, shape)))


def complex_normal(*shape: int) -> Callable:
    """Make an array of normally distributed complex numbers."""
    return lambda rng: rng.normal(size=shape) + 1j * rng.normal(size=shape)


def complex_plane(domain: Domain | None = None) -> Domain:
    """Complex values off the real axis, whose real parts lie in ``domain``."""
    real = domain or anywhere()
    return Domain(lambda rng, shape: real.make(rng, shape) + 1j * (0.3 + abs(rng.normal(size=shape))))


def well_conditioned(symmetric: bool = False, positive_definite: bool = False) -> Domain:
    """Square matrices (in the last two axes) far from singular."""

    def make(rng, shape):
        a = rng.normal(size=shape)
        if symmetric or positive_definite:
            a = a + np.swapaxes(a, -1, -2)
        if positive_definite:
            a = np.matmul(a, np.swapaxes(a, -1, -2)) / shape[-1]
        return a + (1.0 if positive_definite else 2.5) * np.eye(shape[-1])

    return Domain(make)


def complex_matrix(domain: Domain) -> Domain:
    """Matrices with real parts in a domain, and small imaginary parts."""
    return Domain(lambda rng, shape: domain.make(rng, shape) + 0.3j * rng.normal(size=shape))


regular = well_conditioned()
definite = well_conditioned(positive_definite=True)
complex_regular = complex_matrix(regular)


def elementwise_samples(*domains: Domain, complex_too: bool = False) -> list[tuple]:
    """Specifications for an elementwise operator: 0-d, vectors, matrices, empty and size-one axes, broadcasting."""
    if len(domains) == 1:
        shapes: list[tuple] = [((),), ((3,),), ((2, 3),), ((1,),), ((0, 2),)]
    else:
        n = len(domains) - 2
        shapes = [
            ((), (), *[()] * n),
            ((3,), (3,), *[(3,)] * n),
            ((2, 1), (3,), *[()] * n),
            ((), (2, 2), *[(2, 1)] * n),
            ((2, 3), (1, 3), *[(3,)] * n),
            ((0, 2), (1, 2), *[()] * n),
        ]
    specs = [tuple(d(*s) for d, s in zip(domains, ss, strict=True)) for ss in shapes]
    if complex_too:
        specs += [tuple(complex_plane(d)(*s) for d, s in zip(domains, ss, strict=True)) for ss in shapes[1:3]]
    return specs


def realize(op, member: int = 0) -> list[Sample]:
    """Make the sample calls of an operator; another ``member`` gives other values of the same shapes."""
    rng = np.random.default_rng(zlib.crc32(op.name.encode()) + member)
    specs: Sequence[Any] = op.samples() if callable(op.samples) else op.samples
    return [_realize(spec, rng) for spec in specs]


def _realize(spec, rng) -> Sample:
    args = list(spec) if isinstance(spec, (tuple, list)) else [spec]
    params = args.pop() if isinstance(args[-1], dict) else {}
    return Sample(tuple(_argument(a, rng) for a in args), params)


def _argument(spec, rng):
    if isinstance(spec, tuple):
        return np.asarray(rng.normal(size=spec))
    if callable(spec):
        return spec(rng)
    return spec
