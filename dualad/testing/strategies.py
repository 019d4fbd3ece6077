"""Hypothesis strategies for derivative laws: shapes, dtypes, arrays away from kinks, trees, tangents, functions.

`laws` says what must hold; this says for which points. Hypothesis is optional (``pip install 'dualad[testing]'``)::

    from hypothesis import given
    from dualad.testing import laws, strategies

    @given(strategies.arrays((3,), away_from=[0.0]))
    def test_my_function(x):
        laws.check_laws(my_function, (x,))

Not for checking anything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualad.base.tree import flatten, is_array
from dualad.errors import ArgumentError, LoadingError
from dualad.testing.gradcheck import random_like

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise LoadingError(
        "You imported dualad.testing.strategies, and Hypothesis is not installed.",
        "The strategies are Hypothesis's.",
        "Install it: pip install 'dualad[testing]'.",
    ) from error

__all__ = ["arrays", "cotangents", "dtypes", "functions", "shapes", "tangents", "trees"]

Strategy = st.SearchStrategy


def shapes(min_ndim: int = 0, max_ndim: int = 3, max_side: int = 3, min_side: int = 0) -> Strategy[tuple[int, ...]]:
    """Draw shapes within bounds on axes and lengths, with empty and size-one axes among them.

    Examples
    --------
    >>> from dualad.testing import strategies
    >>> from hypothesis import find, settings
    >>> find(strategies.shapes(), lambda shape: 0 in shape, settings=settings(database=None))
    (0,)
    """
    return st.lists(st.integers(min_side, max_side), min_size=min_ndim, max_size=max_ndim).map(tuple)


def dtypes(single: bool = True, complex_too: bool = True) -> Strategy[np.dtype]:
    """Draw dtypes that carry derivatives: double, on request single precision, on request complex.

    Examples
    --------
    >>> from dualad.testing import strategies
    >>> from hypothesis import find, settings
    >>> find(strategies.dtypes(single=False), lambda dtype: dtype.kind == "c", settings=settings(database=None))
    dtype('complex128')
    """
    chosen = [np.float64, *[np.float32] * single, *[np.complex128] * complex_too]
    chosen += [np.complex64] * (single and complex_too)
    return st.sampled_from([np.dtype(d) for d in chosen])


def arrays(
    shape: tuple[int, ...] | Strategy = (3,),
    dtype: Any = np.float64,
    *,
    low: float = -2.0,
    high: float = 2.0,
    away_from: Sequence[float] = (),
    margin: float = 0.1,
) -> Strategy[np.ndarray]:
    """Draw arrays of tame numbers, on request away from kinks and poles.

    Parameters
    ----------
    shape : tuple of int, or a strategy of them
        The shape.
    dtype : dtype, or a strategy of them
        The dtype; of a complex one, both parts lie between ``low`` and ``high``.
    low, high : float
        The range of the entries.
    away_from : sequence of float
        Numbers that (the real part of) no entry comes nearer than ``margin``.
    margin : float
        The distance.

    Examples
    --------
    >>> from dualad.testing import strategies
    >>> from hypothesis import find, settings
    >>> x = find(strategies.arrays((4,), away_from=[0.0]), lambda x: True, settings=settings(database=None))
    >>> x.shape, bool(np.all(np.abs(x) >= 0.1))
    ((4,), True)
    """
    shape_of = shape if isinstance(shape, Strategy) else st.just(tuple(shape))
    dtype_of = dtype if isinstance(dtype, Strategy) else st.just(np.dtype(dtype))
    return st.builds(
        functools.partial(_array, low, high, tuple(away_from), margin), shape_of, dtype_of, st.integers(0, 2**16)
    )


def _array(low: float, high: float, away_from: tuple, margin: float, shape: tuple, dtype: np.dtype, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    pieces = _between(low, high, away_from, margin)
    lengths = np.array([b - a for a, b in pieces])
    which = rng.choice(len(pieces), size=shape, p=lengths / lengths.sum())
    starts, ends = np.array(pieces).T
    x = starts[which] + rng.uniform(0.0, 1.0, shape) * (ends - starts)[which]
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(low, high, shape)
    return np.asarray(x, dtype)


def _between(low: float, high: float, away_from: Sequence[float], margin: float) -> list[tuple[float, float]]:
    """Return the pieces of an interval outside the neighbourhoods of some points."""
    pieces, start = [], low
    for kink in sorted(away_from):
        if kink - margin > start:
            pieces.append((start, min(kink - margin, high)))
        start = max(start, kink + margin)
    if start < high:
        pieces.append((start, high))
    pieces = [(a, b) for a, b in pieces if a < b]
    if not pieces:
        raise ArgumentError(
            f"You asked for numbers between {low} and {high}, {margin} away from {list(away_from)}.",
            "There are none.",
            "Make the margin smaller, or the range larger.",
        )
    return pieces


def trees(leaf: Strategy, max_leaves: int = 5) -> Strategy[Any]:
    """Draw nested tuples, lists and dicts of leaves that a strategy draws, at least one leaf in each.

    Examples
    --------
    >>> from dualad.testing import strategies
    >>> from hypothesis import find, settings, strategies as st
    >>> find(strategies.trees(st.just(1.0)), lambda tree: isinstance(tree, dict), settings=settings(database=None))
    {'a': 1.0}
    """
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
        ),
        max_leaves=max_leaves,
    )


def tangents(tree: Any, scale: float = 1.0) -> Strategy[Any]:
    """Draw tangents of a tree: its structure, shapes and dtypes, with None for integers and for other leaves.

    The entries have the standard deviation ``scale``.

    Examples
    --------
    >>> from dualad.testing import strategies
    >>> from hypothesis import find, settings
    >>> find(strategies.tangents((np.ones(2), 3)), lambda t: True, settings=settings(database=None))[1] is None
    True
    """
    leaves, treedef = flatten(tree)

    def make(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        made: list[Any] = []
        for x in leaves:
            moves = is_array(x) and np.asarray(x).dtype.kind in "fc"
            made.append(np.asarray(scale * random_like(x, rng), np.asarray(x).dtype)[()] if moves else None)
        return treedef.unflatten(made)

    return st.integers(0, 2**16).map(make)


def cotangents(f: Callable, *args: Any, scale: float = 1.0) -> Strategy[Any]:
    """Draw cotangents of what a function, which is called once, returns; ``scale`` is their standard deviation.

    Examples
    --------
    >>> from dualad.testing import strategies
    >>> from hypothesis import find, settings
    >>> outer = strategies.cotangents(np.outer, np.ones(2), np.ones(3))
    >>> find(outer, lambda c: True, settings=settings(database=None)).shape
    (2, 3)
    """
    return tangents(f(*args), scale)


_SMOOTH: dict[str, Callable] = {
    "sin": np.sin,
    "tanh": np.tanh,
    "expm1(x/4)": lambda x: np.expm1(x / 4),
    "sqrt(1+xx)": lambda x: np.sqrt(1 + x * x),
    "cumsum": lambda x: np.cumsum(x, axis=-1) / 3,
    "flip": lambda x: np.flip(x, -1),
    "x*mean": lambda x: x * np.mean(x),
    "roll": lambda x: np.roll(x, 1, -1) * x,
    "softmax": lambda x: np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True),
    "where": lambda x: np.where(x > 0.05, x * x, np.sin(x)),
}


def functions(max_depth: int = 3) -> Strategy[Callable]:
    """Draw functions from arrays (of one axis or more) to arrays of the same shape, in plain NumPy.

    They are smooth but for a step at 0.05, which tests of kinks and branches want and ``away_from`` avoids. Up to
    ``max_depth`` parts are composed; the ``__name__`` says which.

    Examples
    --------
    >>> from dualad.testing import strategies
    >>> from hypothesis import find, settings
    >>> find(strategies.functions(), lambda f: True, settings=settings(database=None)).__name__
    'cumsum'
    """

    def compose(names: list[str]) -> Callable:
        def composition(x: Any) -> Any:
            for name in names:
                x = _SMOOTH[name](x)
            return x

        composition.__name__ = " then ".join(names)
        return composition

    return st.lists(st.sampled_from(sorted(_SMOOTH)), min_size=1, max_size=max_depth).map(compose)
