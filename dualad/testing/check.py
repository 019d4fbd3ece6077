"""`check`: whether a function's derivatives are right, of the order, in the modes and by the oracles that one names.

It chooses what `check_function` is asked, of the function and, above second order, of its derivatives. Not for whole
Jacobians in the function's own precision (`gradcheck`), nor for what else a rule can get wrong (`check_rule`).
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dualad.errors import ArgumentError, LoadingError

from .engine import as_arguments, chosen_modes, refuse_unknown
from .gradcheck import each_order
from .report import CheckReport, Row
from .rows import ORACLES, QUANTITIES, check_function

__all__ = ["DEFAULT_ORACLES", "assert_matches_jax", "check", "skipped_quantities"]

#: without JAX, which takes seconds to load and compiles each function; ask for it with ``oracles="jax"``
DEFAULT_ORACLES = tuple(name for name in ORACLES if name != "jax")

_ONLY = {"forward": ("jvp", "jacfwd", "vmap-jvp", "vmap-value"), "reverse": ("vjp", "jacrev", "vmap-vjp", "vmap-value")}


def check(
    f: Callable,
    *args: Any,
    order: int = 2,
    modes: str | Sequence[str] = ("forward", "reverse"),
    oracles: str | Sequence[str] = DEFAULT_ORACLES,
    batched: bool = True,
    rtol: float = 1e-7,
    atol: float = 1e-12,
    seed: int = 0,
    skip: Mapping[str, str] | None = None,
    name: str | None = None,
    raise_exception: bool = True,
    **options: Any,
) -> CheckReport:
    """Check the derivatives of a function at a point against oracles that share nothing with dualad's rules.

    Parameters
    ----------
    f : callable
        A function of trees of arrays, in plain NumPy and SciPy.
    *args
        Its arguments: the point. Floating-point leaves are differentiated, in float64; the others are held fixed.
    order : int
        1: `jvp`, `vjp` and Jacobians; 2: also a Hessian-vector product, for which it takes both modes; from 3, also
        those of the derivatives in each mode, as functions of the point and of the tangents or cotangents.
    modes : str or sequence of str
        ``"forward"`` and ``"reverse"`` (or ``"fwd"`` and ``"rev"``).
    oracles : str or sequence of str
        Who is asked: ``"differences"``, central differences with Richardson extrapolation; ``"complex-step"``;
        ``"dot"``, ⟨Jv, u⟩ = ⟨v, Jᵀu⟩, which convicts and can't acquit; ``"jax"``, which is slow to start. Batches are
        compared with a ``"loop"`` in any case.
    batched : bool
        Whether what is under `vmap` is checked too.
    rtol, atol : float
        Allowed relative and absolute error, beside rounding and the oracle's own error estimate.
    seed : int
        For random tangents and cotangents.
    skip : mapping of str to str, optional
        Quantities to leave out, each with the reason: ``{"hvp": "piecewise linear"}``.
    name : str, optional
        The function's, for the report.
    raise_exception : bool
        Whether a failed check raises; otherwise the report tells.
    **options
        ``point``, ``jacobian_limit``, ``source``, ``progress`` and ``shared`` of :func:`check_function`.

    Returns
    -------
    CheckReport
        One row per quantity, one outcome per oracle; printed, a line for each that is wrong.

    Raises
    ------
    CheckError
        An AssertionError that names each quantity that is wrong or that nobody could judge, the oracle, the entry, both
        numbers and the tolerance.
    UsageError
        A ValueError: no argument has a floating-point leaf.
    ArgumentError
        For an oracle, a mode or a quantity of unknown name, or an order below 1.

    Examples
    --------
    >>> print(da.testing.check(lambda x, y: np.sin(x) * y, np.array([0.3, 1.2]), 2.0, order=1))
    derivatives of <lambda> at point 1: 0 of 9 quantities are wrong
      (ok: value, jvp, vjp, jacfwd, jacrev, vmap-jvp, vmap-vjp, vmap-value)
      (skipped: hvp)
    """
    names = (oracles,) if isinstance(oracles, str) else tuple(oracles)
    # Whoever judges derivatives, a batch is judged by a loop.
    names = names if not batched or "loop" in names else (*names, "loop")
    left_out = {**skipped_quantities(order, modes, batched), **(skip or {})}
    settings = {"oracles": names, "rtol": rtol, "atol": atol, "seed": seed, **options}
    report = check_function(f, args, target=name, skip=left_out, **settings)
    if order > 2 and report.ok:
        rng = np.random.default_rng(seed)
        # JAX sees a function's code and not that of its derivatives: differences judge in its place.
        judges = dict.fromkeys(["differences", *(o for o in names if o not in ("jax", "loop"))])
        rows = [*report.rows, *_higher(f, args, order, chosen_modes(modes), rng, {**settings, "oracles": judges})]
        report = dataclasses.replace(report, rows=tuple(rows))
    if raise_exception:
        report.raise_on_failure()
    return report


def _higher(
    f: Callable, args: tuple, order: int, modes: Sequence[str], rng: np.random.Generator, settings: dict[str, Any]
) -> list[Row]:
    """Return a row for each composition of the modes: derivatives of the function's derivatives, up to an order."""
    both = len(modes) == 2
    asked = "hvp" if both else "jvp" if modes[0] == "forward" else "vjp"
    alone = {quantity: "seen at a lower order" for quantity in QUANTITIES if quantity != asked}
    rows = []
    for derivative, point, over in each_order(f, args, order - both, modes, rng):
        found = check_function(derivative, point, skip=alone, **settings).rows if over else ()
        name = " over ".join([asked, *reversed(over)])
        rows += [dataclasses.replace(row, quantity=name) for row in found if row.quantity not in alone]
    return rows


def skipped_quantities(
    order: int = 2, modes: str | Sequence[str] = ("forward", "reverse"), batched: bool = True
) -> dict[str, str]:
    """Return the quantities that a request leaves out, each with the reason, for `check_function`.

    Order 1 leaves out second derivatives, one mode what needs the other, ``batched=False`` whatever is under vmap.
    """
    if type(order) is not int or order < 1:
        raise ArgumentError(
            f"You passed order={order!r}.", "The first derivative is the lowest.", "Write order=1 or more."
        )
    skip = {"hvp": "order 1 was asked for"} if order == 1 else {}
    chosen = chosen_modes(modes)
    if len(chosen) == 1:
        skip |= {q: f"only {chosen[0]} mode was asked for" for q in QUANTITIES if q not in _ONLY[chosen[0]]}
    if not batched:
        skip |= {q: "batched=False" for q in QUANTITIES if q.startswith("vmap")}
    return skip


def assert_matches_jax(
    f: Callable,
    args: Any,
    *,
    jax_f: Callable | None = None,
    transforms: Sequence[str] = QUANTITIES,
    rtol: float = 1e-7,
    atol: float = 1e-12,
    seed: int = 0,
) -> None:
    """Assert that the derivatives of a function are those that JAX finds.

    Parameters
    ----------
    f, args, rtol, atol, seed
        As for :func:`check`, the arguments as one sequence.
    jax_f : callable, optional
        The same function for JAX's arrays. By default the code of ``f`` itself (without its rule, if it has one), while
        the names of NumPy and SciPy in its modules lead to ``jax.numpy`` and ``jax.scipy``.
    transforms : sequence of str
        Of ``"value"``, ``"jvp"``, ``"vjp"``, ``"jacfwd"``, ``"jacrev"``, ``"hvp"``, ``"vmap-jvp"``, ``"vmap-vjp"``,
        ``"vmap-value"``.

    Raises
    ------
    CheckError
        An AssertionError: JAX disagrees, or could not run the function; the message says which.
    LoadingError
        An ImportError: JAX is not installed.
    ArgumentError
        For the name of a transform that does not exist.

    Examples
    --------
    >>> da.testing.assert_matches_jax(lambda x: np.sin(x) * x, np.ones(2), transforms=["jvp"])  # doctest: +SKIP
    """
    refuse_unknown("transform", transforms or ["(none)"], QUANTITIES)
    if importlib.util.find_spec("jax") is None:
        raise LoadingError(
            "You asked for a comparison with JAX, which is not installed.",
            "JAX is an optional oracle; dualad itself never imports it.",
            "Install it (pip install 'dualad[oracle]'), or use check_grads with another oracle.",
        )
    check_function(
        f,
        as_arguments(args),
        rtol=rtol,
        atol=atol,
        seed=seed,
        # A batch is compared with dualad's own loop as well: JAX compiles only the transforms asked for.
        oracles=("jax", "loop") if any(name.startswith("vmap") for name in transforms) else ("jax",),
        skip={name: "not asked for" for name in QUANTITIES if name not in transforms},
        source=jax_f,
    ).raise_on_failure()
