"""`assert_matches_jax`: every derivative of a function against JAX's, in float64.

JAX is optional: without it, asking is an error that says how to install it. Not for the oracle itself
(`jax_oracle.py`), nor for the words of the report.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from dualad.errors import LoadingError

from .engine import refuse_unknown
from .real_function import as_arguments
from .rows import QUANTITIES, check_function

__all__ = ["assert_matches_jax"]


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
    >>> import numpy as np
    >>> from dualad.testing import assert_matches_jax
    >>> assert_matches_jax(lambda x: np.sin(x) * x, np.array([0.3, 1.2]), transforms=["jvp"])  # doctest: +SKIP
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
        # A batch is compared with dualad's own loop as well: JAX compiles only what is asked for.
        oracles=("jax", "loop") if any(name.startswith("vmap") for name in transforms) else ("jax",),
        skip={name: "not asked for" for name in QUANTITIES if name not in transforms},
        jax_f=jax_f,
    ).raise_on_failure()
