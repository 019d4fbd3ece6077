"""Where generators are looked for. Not for: the three ways to draw (tests/edges/test_randomness.py)."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import dualad as da
from dualad.boundary.randomness import RandomnessWarning

ZEROS = np.zeros(2)
GENERATOR = np.random.default_rng(0)


class Holder:
    """An object with a generator."""

    def __init__(self, rng):
        self.rng = rng

    def draw(self, x):
        return x + self.rng.normal()


def places(rng):
    """Return functions that reach a generator in one way each."""
    holder, other = Holder(rng), Holder(None)

    def beside_an_empty_cell(x):
        return x + (rng.normal() if x.ndim == 0 else later)

    if rng is None:
        later = 1.0

    def by_default(x, g=rng):
        return x + g.normal()

    def by_name(x, *, g=rng):
        return x + g.normal()

    @functools.wraps(by_default)
    def wrapped(x):
        return by_default(x)

    return {
        "an empty cell": beside_an_empty_cell,
        "closure": lambda x: x + rng.normal(),
        "default": by_default,
        "default by name": by_name,
        "wrapped": wrapped,
        "partial": functools.partial(lambda g, x: x + g.normal(), rng),
        "partial with the same twice": functools.partial(lambda g, a, b, x: x + g.normal(), rng, other, other),
        "partial by name": functools.partial(lambda x, g: x + g.normal(), g=rng),
        "partial of a closure": functools.partial(lambda x: x + rng.normal()),
        "method": holder.draw,
        "object": lambda x: x + holder.rng.normal(),
        "function in a function": lambda x: by_default(x),
        "transform": lambda x: da.vmap(by_default)(x[None])[0],
        "global": lambda x: x + GENERATOR.normal(),
    }


@pytest.mark.parametrize("name", places(np.random.default_rng(0)))
def test_a_generator_is_found(name: str) -> None:
    with pytest.warns(RandomnessWarning, match="say randomness="):
        da.vmap(places(np.random.default_rng(0))[name])(ZEROS)
