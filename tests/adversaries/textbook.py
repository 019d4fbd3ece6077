"""A hundred textbook algorithms at five sizes each, in plain NumPy as a student writes them, compiled against eager.

A seed is an algorithm, a size, numbers and a way to compile: the first five per algorithm are its sizes. For: what
people bring to ``jit`` on the first day. Not for: the algorithms (``textbook_*.py``).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .cases import Case
from .compare import compare, settings

__all__ = ["Algorithm", "algorithm", "algorithms", "case"]

_FILES = ("textbook_matrices", "textbook_tables", "textbook_numbers", "textbook_models")


class Algorithm(NamedTuple):
    """A function, five sizes, and what makes its arguments: ``make(rng, size)``."""

    f: Callable
    sizes: tuple[int, ...]
    make: Callable
    tolerance: float | None


_FOUND: list[Algorithm] = []


def algorithm(sizes: tuple[int, ...], make: Callable, tolerance: float | None = None) -> Callable:
    """Return the decorator that enters a function in the corpus."""

    def enter(f: Callable) -> Callable:
        assert len(sizes) == 5, f.__name__
        _FOUND.append(Algorithm(f, sizes, make, tolerance))
        return f

    return enter


@functools.cache
def algorithms() -> tuple[Algorithm, ...]:
    """Return the corpus, in the order of the files, whichever was imported first."""
    modules = [importlib.import_module(f"{__package__}.{file}").__name__ for file in _FILES]
    return tuple(sorted(_FOUND, key=lambda found: modules.index(found.f.__module__)))


def _case(number: int, place: int, seed: int, ways: tuple[str, ...], native: bool, least: int | None) -> Case:
    found = algorithms()[number]
    size = found.sizes[place]

    def check() -> None:
        args = found.make(np.random.default_rng([21, seed]), size)
        arrays = [a for a in args if type(a) is not int]
        counts = args[len(arrays) :]  # how often a loop runs: a number of the program, not one of its inputs
        with settings(native, least):
            compare(lambda *xs: found.f(*xs, *counts), arrays, ways, found.tolerance)

    def smaller():
        for way in ways if len(ways) > 1 else ():
            yield _case(number, place, seed, (way,), native, least)
        for p in range(place):
            yield _case(number, p, seed, ways, native, least)

    name = f"{found.f.__module__.rpartition('.')[2]}.{found.f.__name__}"
    text = f"# {name}, size {size}, numbers of seed {seed}: {' | '.join(ways)}, native={native}, least={least}\n"
    return Case(f"{name} {size}", text, check, smaller)


def case(seed: int) -> Case:
    """Return the case of a seed: all algorithms at one size, then all at the next, then again with other numbers."""
    count = len(algorithms())
    turn, number = divmod(seed, count)
    place, again = turn % 5, turn // 5
    ways = ["value", "grad", ("vmap", "vmap of grad", "jvp")[(seed + again) % 3]]
    if place == 0 or (place == 1 and again % 2):
        ways += ["hessian", "jacfwd"]
    # Small ones have short loops, which are looked for only where asked; the two largest are as people meet them.
    least = (30, 30, 60, None, None)[place] if (seed + again) % 4 else (None, 60)[turn % 2]
    return _case(number, place, seed, tuple(ways), (seed + again) % 3 == 1, least)
