"""Who asks a tensor for a plain number: Python code, by name, or memory that is being written to.

``float(x)``, ``math.sin(x)`` and ``buffer[0] = x`` with a plain array all arrive at the tensor's ``__float__``, and
Python does not say which. Under ``vmap`` the first two are questions that lanes can answer in groups that agree; the
last one would put a value where no transform sees it. The instruction that the asking frame has come to tells them
apart. Only known questions count: ``float``, ``int`` and ``complex``, the functions of ``math``
and ``cmath``, and ``"%g" % x``. Not for: the answers (``batched.py``). This runs only where an answer is a plain
number, so code that keeps its tensors pays nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .frames import PACKAGE

if TYPE_CHECKING:
    from dis import Instruction

__all__ = ["UNKNOWN", "by_name", "called", "for_text", "is_read"]

#: something is called, and its name does not tell what
UNKNOWN = object()

_METHODS = frozenset({"__complex__", "__float__", "__int__", "_convert", "by_name", "for_text"})
_FORMATTING = ("%",)
_CALLS = ("CALL", "PRECALL")
#: instructions between the name and the arguments, or the call
_BETWEEN = frozenset({"KW_NAMES", "PUSH_NULL"})
_TAKING = frozenset({"_wrapfunc", "_wrapit"})

#: (code, offset of an instruction) -> the dotted name of the callee there, or None
_known: dict[tuple[CodeType, int], tuple[str, ...] | None] = {}


def by_name() -> bool:
    """Whether the caller of the running ``__float__``, ``__int__`` or ``__complex__`` is known to be a question."""
    frame, names = _calling_frame()
    return names is not None and (names == _FORMATTING or _is_question(_value(frame, names)))


def for_text() -> bool:
    """Whether the running ``__float__`` is for ``"%g" % x``: text carries no derivative, so none is lost."""
    return _calling_frame()[1] == _FORMATTING


def called(frame: FrameType, offset: int) -> Any:
    """Return the callee of a frame's instruction: ``UNKNOWN`` if its name does not tell, None if it is no call."""
    names = _names_at(frame.f_code, offset)
    if names is None:
        dis = importlib.import_module("dis")
        return UNKNOWN if dis.opname[frame.f_code.co_code[offset]].startswith(_CALLS) else None
    return None if names == _FORMATTING else (_value(frame, names) or UNKNOWN)


def is_read(frame: FrameType) -> bool:
    """Whether a frame asks in order to read entries of a plain array: ``table[x]``, ``table.take(x)``, ``np.take``."""
    dis = importlib.import_module("dis")
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if name.startswith(_CALLS):  # np.take has functions of NumPy's call the method
        return frame.f_code.co_name in _TAKING or getattr(called(frame, frame.f_lasti), "__name__", "") == "take"
    return not name.startswith("STORE_")


def _calling_frame() -> tuple[Any, tuple[str, ...] | None]:
    """Return the frame that asks a tensor for a number, and the names that lead to what it calls to do so."""
    frame: FrameType | None = sys._getframe(2)
    # Tensors hand the question on to what they hold (a Dual to its primal).
    while frame is not None and frame.f_code.co_name in _METHODS and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    if frame is None:
        return None, None
    return frame, _names_at(frame.f_code, frame.f_lasti)


def _names_at(code: CodeType, offset: int) -> tuple[str, ...] | None:
    place = code, offset
    if place not in _known:
        if len(_known) > 1000:
            _known.clear()
        _known[place] = _names_called(code, offset)
    return _known[place]


def _names_called(code: CodeType, offset: int) -> tuple[str, ...] | None:
    """Return the dotted name of an instruction's callee, ``("math", "sin")``; None for no call, or no plain name.

    The instructions of ``math.sin(x)`` that load the callee begin where the call begins, and end before it.
    """
    dis = importlib.import_module("dis")  # only where it is needed: `import dualad` does without
    before: list[Instruction] = []
    for call in dis.get_instructions(code):
        if call.offset == offset:
            break
        before.append(call)
    if call.opname == "BINARY_OP":
        return _FORMATTING if call.argrepr in ("%", "%=") else None
    begin, end = _span(call)
    if not call.opname.startswith(_CALLS) or begin is None:  # Python 3.11 calls in two steps, or in one
        return None
    names: list[str] = []
    for step in reversed(before):
        first, last = _span(step)
        if first != begin or last >= end or step.opname in _BETWEEN:
            continue
        if not step.opname.startswith("LOAD_") or not isinstance(step.argval, str):
            return None
        names.insert(0, step.argval)
        if step.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return tuple(names)
    return None


def _span(step: Instruction) -> tuple[Any, Any]:
    """Return where in the source the code of an instruction begins and ends; None where Python was told not to know."""
    p = step.positions
    if p is None or p.col_offset is None or p.end_col_offset is None:
        return None, None
    return (p.lineno, p.col_offset), (p.end_lineno, p.end_col_offset)


def _value(frame: FrameType, names: tuple[str, ...]) -> Any:
    """Return the value of a dotted name of modules or arrays in a frame; None if it can't be told."""
    first, *rest = names
    for scope in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if first in scope:
            value = scope[first]
            break
    else:
        return None
    for name in rest:
        if isinstance(value, ModuleType):
            value = vars(value).get(name)
        elif type(value) in (np.ndarray, np.ufunc):
            value = getattr(value, name, None)
        else:
            return None
    return value


def _is_question(called: Any) -> bool:
    if isinstance(called, type):
        return issubclass(called, (float, int, complex)) and not issubclass(called, np.generic)
    return isinstance(called, BuiltinFunctionType) and called.__module__ in ("math", "cmath")
