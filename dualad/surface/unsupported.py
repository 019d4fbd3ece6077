"""Refusals and their reasons: names with no meaning on traced values, and names that are not covered yet.

``REASONS`` has a reason and a rewrite for each name that stays refused; ``NOT_YET`` is the one list of NumPy names
that have a meaning but no rule so far. A test holds both against NumPy. Not for: anything that works.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from ..core.tables import FUNCTIONS, VERDICTS, Verdict
from ..core.tracer import PRINT
from ..errors import UnsupportedError
from .foreign import foreign_ufunc

__all__ = ["NOT_YET", "REASONS", "handler_of", "public_name", "unsupported", "verdict_of"]

_FILES = ("a file holds numbers, and a tensor stands for more than a number", "save the value outside the transform")
_TEXT = ("it is made for text", "apply it to plain arrays")
_DATES = ("it is made for dates", "apply it to plain arrays")
_BITS = ("it works on bits, which have no derivative", "apply it to plain arrays outside the transform")
_RECORDS = ("it is made for structured arrays", "keep the fields as separate arrays, in a dict or a dataclass")
_SETS = (
    "its result's shape depends on values, and which values coincide has no derivative",
    "apply it to dualad.stop_gradient(x) outside of vmap, or use np.sort and np.diff",
)
_MEMORY = ("a tensor is not one block of memory", "compare arrays outside the transform")
_CALLS = (
    "it calls a Python function entry by entry on plain values",
    "use dualad.vmap(f), or NumPy functions on whole arrays",
)
_PRINTING = ("the text of a tensor is its repr", f"use repr(x), or print(x); {PRINT}")
_SOURCE = (
    "it creates an array from text, a buffer or a file, not from tensors",
    "create a plain array, then compute with it",
)

#: module or name -> (reason, rewrite)
REASONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(["save", "savez", "savez_compressed", "savetxt"], _FILES),
    **dict.fromkeys(["loadtxt", "genfromtxt", "fromfile", "fromstring", "frombuffer", "fromiter"], _SOURCE),
    **dict.fromkeys(["busday_count", "busday_offset", "is_busday", "datetime_as_string", "isnat"], _DATES),
    **dict.fromkeys(["packbits", "unpackbits"], _BITS),
    **dict.fromkeys(["shares_memory", "may_share_memory"], _MEMORY),
    **dict.fromkeys(["array2string", "array_repr", "array_str"], _PRINTING),
    **dict.fromkeys(["fromfunction"], _CALLS),
    **dict.fromkeys(["intersect1d", "setdiff1d", "setxor1d", "union1d"], _SETS),
    "require": ("memory layout is no property of a tensor", "leave it out"),
}

#: names of NumPy that have a meaning on tensors but no rule yet
NOT_YET: frozenset[str] = frozenset()


def handler_of(function: Callable) -> Callable:
    """Return the handler of a NumPy function that is in no table yet, or refuse the function."""
    if _load(function) and function in FUNCTIONS:
        return FUNCTIONS[function]
    raise unsupported(function)


def _load(function: Callable) -> bool:
    """Declare the verdicts on a little-used part of NumPy when a function of it is first met."""
    rare = (getattr(function, "__module__", None) or "").startswith("numpy.polynomial")
    if rare:
        importlib.import_module("dualad.surface.polynomial_package")
    return rare


def unsupported(function: Callable) -> UnsupportedError:
    """Make the error for a NumPy or SciPy function without a rule, with its reason and the rewrite."""
    verdict = verdict_of(function)
    if verdict is not None and verdict.kind == "unsupported":
        return UnsupportedError(f"{public_name(function)} was called on a tensor.", verdict.reason, verdict.instead)
    if isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is not function:
        return foreign_ufunc(function)
    return UnsupportedError(
        f"{public_name(function)} is not supported on tensors yet.",
        "no rule for it has been declared, and guessing one could give a wrong derivative",
        "compose it of functions that are covered, or apply it to plain arrays outside the transform"
        " (dualad.stop_gradient(x) gives the value alone)",
    )


def verdict_of(function: Callable) -> Verdict | None:
    """Return the verdict on a NumPy callable, or ``None`` for one that is not covered yet.

    NumPy has private twins of some functions (of ``np.ones`` for ``like=``), which mean what their namesakes do.
    """
    if function in VERDICTS or (_load(function) and function in VERDICTS):
        return VERDICTS[function]
    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", None) or ""
    twin = getattr(np, name, None)
    if module == "numpy" and twin in VERDICTS:
        return VERDICTS[twin]
    if name in REASONS:
        return Verdict("unsupported", *REASONS[name])
    if module == "numpy.lib.recfunctions":
        return Verdict("unsupported", *_RECORDS)
    if module in ("numpy.strings", "numpy.char") or (isinstance(function, np.ufunc) and not function.ntypes):
        return Verdict("unsupported", *_TEXT)  # a ufunc without types has loops for strings alone
    return None


def public_name(function: Callable) -> str:
    """Return how a user writes the name of a NumPy or SciPy function."""
    module = getattr(function, "__module__", None) or "numpy"
    if isinstance(function, np.ufunc):
        homes = {"numpy": np, "np.strings": np.strings, "np._core.umath": np._core.umath}
        module = next((m for m, home in homes.items() if getattr(home, function.__name__, None) is function), None)
        return f"{'np' if module == 'numpy' else module or 'scipy.special'}.{function.__name__}"
    module = module.partition("._")[0]
    module = "np" + module.removeprefix("numpy") if module.startswith("numpy") else module
    return f"{module}.{getattr(function, '__name__', function)}"
