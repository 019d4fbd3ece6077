"""NumPy's loops over object arrays of tensors: where they make something else of entries than of numbers.

An object array has no dtype, so NumPy's loops call the entries' Python operators. Of float64 that is right for
arithmetic, and wrong where a loop decides by itself: ``np.maximum`` takes the first of two entries that compare so, NaN
or not, ``np.logical_and`` returns one of its operands, ``np.floor`` asks for an integer. Operators of Python's look the
same to a tensor as such a loop, but for the instruction that the asking frame has come to. For: levels of whose tensors
there are such arrays (``Level.objects``). Not for: making the arrays (``objects.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import numpy as np

from ..base.asking import UNKNOWN, called
from ..core.tracer import Tracer, layers
from .objects import NUMPY, refusal

__all__ = ["compared", "complex_met", "rounding", "truth"]

_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal"})
#: what returns places, or entries in an order that no equal ones have
_ORDERS = frozenset({
    "argmax", "argmin", "argpartition", "argsort", "lexsort", "partition", "searchsorted", "sort",
})  # fmt: skip
_LOGICAL = frozenset({"logical_and", "logical_or"})
_ROUNDING = frozenset({"ceil", "floor", "trunc"})


def compared(x: Tracer, other: object) -> None:
    """Refuse a comparison by which NumPy selects entries where that is not what it does with numbers."""
    if x.shape or not isinstance(other, (Tracer, int, float, np.generic)):
        return
    name = _loop(sys._getframe(2))
    if name is None or name in _COMPARISONS:
        return
    values = [y.known() if isinstance(y, Tracer) else y for y in (x, other)]
    if any([value is None for value in values]):
        why = "compares entries whose numbers are not known yet"
    elif any([np.any(value != value) for value in values]):
        why = "takes NaN for any number among objects"
    elif name not in _ORDERS and isinstance(other, int):
        why = "may return an integer of Python's, where an array of numbers has one dtype"
    elif name not in _ORDERS and np.any(values[0] == values[1]) and (_has_tangent(x) or _has_tangent(other)):
        why = "selects the derivative of one of two equal entries"
    else:
        return
    raise refusal(f"{_shown(name)} was given an array of Python objects, of which it {why}")


def truth(x: Tracer) -> None:
    """Refuse the truth of a number where NumPy makes a number of it."""
    frame = sys._getframe(2)
    name = _loop(frame)
    if name in _LOGICAL:
        raise refusal(f"{_shown(name)} was given an array of Python objects, of which it returns entries, not truths")
    if frame.f_code.co_name == "_gcd" and frame.f_code.co_filename.startswith(NUMPY):
        raise refusal("np.gcd or np.lcm was given an array of Python objects, which it takes for integers")


def complex_met(x: Tracer) -> None:
    """Refuse a complex number that a real entry of an object array meets."""
    if not x.shape:
        raise refusal(
            "an entry of an array of Python objects met a complex number, and .real and .imag of the result would be"
            " wrong"
        )


def rounding() -> bool:
    """Whether ``np.floor`` or one of its like asks for what ``math.floor`` makes an integer of."""
    return _loop(sys._getframe(2)) in _ROUNDING


def _shown(name: str) -> str:
    return f"np.{name}" if name else "a function of NumPy's"


def _loop(frame: FrameType | None) -> str | None:
    """Return the name of NumPy's function that a frame is calling, "" of one that can't be told, or None."""
    if frame is None:
        return None
    function = called(frame, frame.f_lasti)
    if function is None:
        return None
    if function is UNKNOWN:
        return ""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):
        return owner.__name__
    if isinstance(function, np.ufunc) or isinstance(owner, np.ndarray) or _is_numpys(function):
        return function.__name__
    return None


def _is_numpys(function: Callable) -> bool:
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "numpy"


def _has_tangent(x: object) -> bool:
    return any([getattr(layer, "_tangent", None) is not None for layer in layers(x)])
