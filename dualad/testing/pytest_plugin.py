"""The pytest plugin's work once a test asks for it: derivatives at points, and words for a failure.

The hooks that pytest loads at its start are in the module ``pytest_dualad``, which imports nothing of dualad until
then. Not for hooks, nor for the check itself (`check`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dualad.errors import ArgumentError

from .check import DEFAULT_ORACLES, check, skipped_quantities

__all__ = ["DEFAULT_ORACLES", "as_points", "check_points", "function_under_check", "skipped_quantities"]


def as_points(points: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return points as tuples of arguments; they are a list, or what makes one, of tuples, dicts or single arguments.

    ``names`` are the parameters of the function, for dicts. An ArgumentError says if there is no point, if they are no
    list, or if a dict names an unknown parameter.
    """
    given = points() if callable(points) else points
    found: list[tuple[Any, ...]] = []
    if given is not None and not np.iterable(given):
        raise ArgumentError(
            f"You gave points={given!r} of type {type(given).__name__}.",
            "There may be several points, each with several arguments.",
            f"Write points=[({given!r},)]: a list of tuples of arguments.",
        )
    for point in given if given is not None else ():
        if isinstance(point, Mapping):
            count = len(point)
            if set(point) != set(names[:count]):
                raise ArgumentError(
                    f"You gave a point with the names {', '.join(map(str, point))}.",
                    f"The function's parameters are: {', '.join(names) or 'none'}.",
                    "Name the first ones, or give a tuple in their order.",
                )
            found.append(tuple(point[name] for name in names[:count]))
        else:
            found.append(tuple(point) if isinstance(point, tuple) else (point,))
    if not found:
        raise ArgumentError(
            "You gave no points.",
            "A derivative is taken somewhere.",
            "Write @pytest.mark.dualad(points=[(np.array([1.0, 2.0]), 3.0)]): a list of tuples of arguments.",
        )
    return found


def function_under_check(test: Callable, names: Sequence[str], held: Mapping[str, Any]) -> Callable:
    """Return a test function as a function of its point alone; its other arguments (fixtures) are held fixed.

    ``names`` are the parameters that make up a point.
    """
    if not held:
        return test

    def function(*point: Any) -> Any:
        return test(**dict(zip(names, point, strict=True)), **held)

    kind = inspect.Parameter.POSITIONAL_ONLY
    named: Any = functools.update_wrapper(function, test)
    named.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return function


def check_points(
    f: Callable,
    points: Sequence[tuple[Any, ...]],
    *,
    oracle: str | Sequence[str] = DEFAULT_ORACLES,
    **options: Any,
) -> str:
    """Check a function at points; return the failure in words, or nothing.

    ``oracle`` and the options (``order``, ``modes``, ``batched``, ``skip``, ``name``, …) are those of `check`.
    """
    shared: dict[Any, Any] = {}
    words = []
    for number, point in enumerate(points, start=1):
        where = f"point {number}" if len(points) > 1 else _describe(point)
        report = check(f, *point, oracles=oracle, point=where, shared=shared, raise_exception=False, **options)
        words += [] if report.ok else [str(report)]
    return "\n\n".join(words)


def _describe(point: tuple[Any, ...]) -> str:
    words = []
    for x in point:
        if isinstance(x, np.ndarray):
            words.append(
                f"{x.dtype}[{', '.join(map(str, x.shape))}]" if x.size > 4 else np.array2string(x, precision=6)
            )
        else:
            words.append(repr(x.item() if isinstance(x, np.generic) else x))
    text = f"({', '.join(words)})"
    return text if len(text) <= 80 else f"{text[:76]}...)"
