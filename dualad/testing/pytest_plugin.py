"""What the pytest plugin does once a test asks for it: derivatives at points, and words for a failure.

The hooks that pytest loads at its start are in the module ``pytest_dualad``, which imports nothing of dualad until
then. Not for hooks, nor for the check itself (`check_function`).
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dualad.errors import ArgumentError

from .against_jax import source_for_jax
from .check import ORACLES, QUANTITIES, check_function
from .gradcheck import chosen_modes
from .report import CheckReport

__all__ = ["DEFAULT_ORACLES", "as_points", "check_points", "function_under_check", "skipped"]

#: without JAX, which takes seconds to load and compiles each function; ask for it with ``oracle="jax"``
DEFAULT_ORACLES = tuple(name for name in ORACLES if name != "jax")

_ONLY = {"forward": ("jvp", "jacfwd", "vmap-jvp", "vmap-value"), "reverse": ("vjp", "jacrev", "vmap-vjp", "vmap-value")}


def as_points(points: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return points as tuples of arguments; they are a list, or what makes one, of tuples, dicts or single arguments.

    ``names`` are the parameters of the function, for dicts. An ArgumentError says if there is no point, if they are no
    list, or if a dict names an unknown parameter.

    Examples
    --------
    >>> from dualad.testing.pytest_plugin import as_points
    >>> as_points([{"y": 2.0, "x": 1.0}, (3.0, 4.0), 5.0], ["x", "y"])
    [(1.0, 2.0), (3.0, 4.0), (5.0,)]
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

    Examples
    --------
    >>> from dualad.testing.pytest_plugin import function_under_check
    >>> function_under_check(lambda x, rate: rate * x, ["x"], {"rate": 3.0})(2.0)
    6.0
    """
    if not held:
        return test

    def function(*point: Any) -> Any:
        return test(**dict(zip(names, point, strict=True)), **held)

    kind = inspect.Parameter.POSITIONAL_ONLY
    named: Any = functools.update_wrapper(function, test)
    named.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return function


def skipped(
    order: int = 2, modes: str | Sequence[str] = ("forward", "reverse"), batched: bool = True
) -> dict[str, str]:
    """Return the quantities that a request leaves out, each with the reason, for `check_function`.

    Order 1 leaves out second derivatives, one mode what needs the other, ``batched=False`` whatever is under vmap.

    Examples
    --------
    >>> from dualad.testing.pytest_plugin import skipped
    >>> skipped(order=1)
    {'hvp': 'order 1 was asked for'}
    """
    if order not in (1, 2):
        raise ArgumentError(f"You passed order={order!r}.", "Orders 1 and 2 are checked.", "Use check_grads for more.")
    skip = {"hvp": "order 1 was asked for"} if order == 1 else {}
    chosen = chosen_modes(modes)
    if len(chosen) == 1:
        skip |= {q: f"only {chosen[0]} mode was asked for" for q in QUANTITIES if q not in _ONLY[chosen[0]]}
    if not batched:
        skip |= {q: "batched=False" for q in QUANTITIES if q.startswith("vmap")}
    return skip


def check_points(
    f: Callable,
    points: Sequence[tuple[Any, ...]],
    *,
    oracle: str | Sequence[str] = DEFAULT_ORACLES,
    order: int = 2,
    modes: str | Sequence[str] = ("forward", "reverse"),
    batched: bool = True,
    skip: Mapping[str, str] | None = None,
    name: str | None = None,
    **options: Any,
) -> str:
    """Check a function at points; return what is wrong, in words, or nothing.

    ``oracle`` is one or several of `ORACLES`; ``order``, ``modes`` and ``batched`` are those of :func:`skipped`, and
    ``skip`` leaves out more quantities, with reasons. ``name`` is the function's, for the words; the options are
    ``rtol``, ``atol``, ``seed`` and ``jacobian_limit`` of `check_function`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.pytest_plugin import check_points
    >>> check_points(np.sin, [(0.5,), (np.ones(2),)])
    ''
    """
    oracles = (oracle,) if isinstance(oracle, str) else tuple(oracle)
    # Whoever judges derivatives, a batch is judged by a loop.
    oracles = oracles if not batched or "loop" in oracles else (*oracles, "loop")
    source = source_for_jax(f) if "jax" in oracles and importlib.util.find_spec("jax") is not None else None
    left_out = {**skipped(order, modes, batched), **(skip or {})}
    shared: dict[Any, Any] = {}
    words = []
    for number, point in enumerate(points, start=1):
        where = f"point {number}" if len(points) > 1 else _describe(point)
        report = check_function(
            f, point, target=name, point=where, oracles=oracles, skip=left_out, source=source, shared=shared, **options
        )
        if not report.ok:
            words.append(_said(report))
    return "\n\n".join(words)


def _said(report: CheckReport) -> str:
    """Return a line per quantity that is wrong, and the others by status."""
    lines, raised = [], ""
    for row in report.rows:
        wrong = [o for o in row.outcomes if o.mismatch is not None]
        if wrong and (bad := wrong[0].mismatch) is not None:
            others = "".join(f", {o.oracle} too" for o in wrong[1:])
            entries = f"; {bad.count} entries are wrong" if bad.count > 1 else ""
            lines.append(
                f"{row.quantity:<11}{bad.entry} is {bad.got:.10g}, {wrong[0].oracle} has {bad.expected:.10g}{others}"
                f" (tolerance {bad.tolerance:.2g}{entries})"
            )
        elif row.failed:  # one error usually stops several quantities: say it once
            lines.append(f"{row.quantity:<11}{'the same' if row.message == raised else row.message}")
            raised = row.message
    by_status: dict[str, list[str]] = {}
    for row in report.rows:
        if not row.failed:
            by_status.setdefault(row.status, []).append(row.quantity)
    lines += [f"({status}: {', '.join(names)})" for status, names in by_status.items()]
    name = report.target.rpartition("<locals>.")[2]
    wrong_ones = sum(row.failed for row in report.rows)
    head = f"derivatives of {name} at {report.point}: {wrong_ones} of {len(report.rows)} quantities are wrong"
    return "\n".join([head, *[f"  {part}" for line in lines for part in line.splitlines()]])


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
