"""Arithmetic of Python's integers alone, checked at each call of a compiled function that does it in int64.

Python's integers have no end, and an error or another kind of number where NumPy's have a wrap-around or an infinity:
``2**62 * 4``, ``1 // 0``, ``2 ** -1``. What a trace writes down of such arithmetic is written as Python, too, and run
before the program: its errors are those of the function, and what does not fit is refused. Not for: truth values and
integers beyond int64, which belong to the signature (``jit.py``), or floats, which are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.aval import is_weak
from ..errors import DtypeError
from ..program.variable import Variable

__all__ = ["WholeNumbers", "fits"]

_LIMITS = np.iinfo(np.int64)
_PYTHON = {
    "absolute": "abs({})", "add": "{} + {}", "bitwise_and": "{} & {}", "bitwise_or": "{} | {}",
    "bitwise_xor": "{} ^ {}", "divide": "{} / {}", "floor_divide": "{} // {}", "invert": "~{}",
    "left_shift": "{} << {}", "multiply": "{} * {}", "negative": "-{}", "positive": "+{}", "power": "{} ** {}",
    "remainder": "{} % {}", "right_shift": "{} >> {}", "subtract": "{} - {}",
}  # fmt: skip
#: they compare with any integer
_COMPARE = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})


def fits(x: int) -> bool:
    """Whether a Python integer is one of int64."""
    return _LIMITS.min <= x <= _LIMITS.max


def _whole(x: Any, text: str) -> None:
    """Refuse what int64 does not hold."""
    if type(x) is not int or not fits(x):
        raise _refusal(text, x)


def _real(x: Any, text: str) -> None:
    if type(x) is not float:
        raise _refusal(text, x)


def _refusal(text: str, x: Any) -> DtypeError:
    return DtypeError(
        f"jit: {text} is {x if type(x) is not int else f'an integer of {x.bit_length()} bits'} for Python's integers.",
        "compiled code computes it in int64, which gives another number",
        "pass the integers as static arguments, jit(f, static_argnames=...), or as floats",
    )


def _room(x: int, dtype: np.dtype) -> None:
    """Raise NumPy's error where an integer has no room in an array's dtype."""
    np.empty((), dtype)[()] = x


class WholeNumbers:
    """The arithmetic of Python integers in a program, and the function that repeats it."""

    def __init__(self) -> None:
        self._names: dict[Variable, str] = {}
        self._lines: list[str] = []
        self._space: dict[str, Any] = {"whole": _whole, "real": _real, "room": _room}
        self._given = 0

    def start(self, inputs: Sequence[Variable]) -> None:
        """Take a note of the arguments of a program."""
        self._given = len(inputs)
        for i, v in enumerate(inputs):
            if is_weak(v.aval) and v.aval.dtype.kind == "i":
                self._names[v] = f"x{i}"

    def record(self, op: Any, atoms: Sequence, out: Variable, alone: bool) -> None:
        """Take a note of an operation: of Python's numbers ``alone``, or of one beside an array."""
        names = [
            self._names.get(a) if type(a) is Variable else repr(a) if type(a) in (bool, int, float) else None
            for a in atoms
        ]
        if not any([type(a) is Variable and a in self._names for a in atoms]):
            return
        kind = out.aval.dtype.kind
        if not alone:
            if kind in "iu" and out.aval.dtype != np.int64 and op.name not in _COMPARE:
                dtype = f"d{len(self._space)}"
                self._space[dtype] = out.aval.dtype
                self._lines += [
                    f"room({n}, {dtype})" for a, n in zip(atoms, names, strict=True) if n and type(a) is Variable
                ]
            return
        if None in names or op.name not in _PYTHON or kind not in "if":
            return
        text, name = (
            _PYTHON[op.name].format(*[f"({n})" if n.startswith("-") else n for n in names]),  # type: ignore[union-attr]
            f"n{len(self._lines)}",
        )
        self._lines += [f"{name} = {text}", f"{'whole' if kind == 'i' else 'real'}({name}, {text!r})"]
        if kind == "i":
            self._names[out] = name

    def check(self) -> Callable | None:
        """Return a function of the arguments that raises where the arithmetic is not that of the program."""
        if not self._lines:
            return None
        lines = [
            f"def check({''.join([f'x{i}, ' for i in range(self._given)])}*rest):",
            *[f"    {x}" for x in self._lines],
        ]
        exec(compile("\n".join(lines), "<dualad.jit integers>", "exec"), self._space)
        return self._space["check"]
