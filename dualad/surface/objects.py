"""Object arrays of tensors: what NumPy itself builds where it is asked for an array of what it does not know.

``np.array([x[0], 1.0])`` and ``np.asarray(x)`` never dispatch: NumPy calls ``__array__`` and gets an array of Python
objects, which computes entry by entry. For: making it, joining it back into one tensor, the one note that says what is
faster, and the words where NumPy can't compute with it. Not for: lists given to NumPy's functions (``arguments.py``),
nor ``dualad.numpy.array``, which is exact.
"""

from __future__ import annotations

import dis
import os
import re
import sys
import threading
import warnings
from types import FrameType

import numpy as np

from ..base.asking import called
from ..base.frames import PACKAGE, is_users, user_level
from ..core.above import ABOVE
from ..core.level import Level
from ..core.tracer import LOOK_UP, Tracer, layers
from ..errors import (
    ArgumentTypeError,
    ConversionError,
    DualadError,
    PerformanceNote,
    PlainBufferError,
    UnsupportedError,
)
from ..memory.memory import flush_writes, lent, unshared

__all__ = ["NUMPY", "about_objects", "holds_objects", "join", "object_array", "refusal", "take_apart"]


_AS_STRIDED = np.lib.stride_tricks.as_strided.__code__
#: the folder of NumPy's code
NUMPY = os.path.dirname(os.path.realpath(np.__file__)) + os.sep

_WAY_OUT = "write `import dualad.numpy as np` where the array is made, or let it run lifted, without dualad.plain"
_WHY = (
    "such an array has no tensor's type, so NumPy computes with its entries one by one, and a number among tensors"
    " (or an entry in compiled code) can't do what is asked"
)

# ── making them ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Site(threading.local):
    """Where this thread has last had objects made of tensors: the instruction, how many there were, and the level."""

    place: tuple | None = None
    file: str = ""
    line: int = 0
    names: dict | None = None
    entries: int = 0
    noted: bool = False
    level: Level | None = None


_site = _Site()
_MANY = 64


def object_array(x: Tracer, copy: bool | None) -> np.ndarray:
    """Give NumPy what it asks ``__array__`` for: an object array whose entries are the tensor's."""
    if not x.size:
        return np.empty(x.shape, x.dtype)  # which holds no entries that could be lost
    frame = sys._getframe(2)
    # NumPy's as_strided can't be overridden. It would read the objects with the strides of the numbers.
    if frame.f_code is _AS_STRIDED:
        raise UnsupportedError(
            f"np.lib.stride_tricks.as_strided was called on a {x._kind()} of shape {x.shape}.",
            "a tensor is not one block of memory, so bytes between its entries mean nothing",
            "use np.lib.stride_tricks.sliding_window_view for windows, np.broadcast_to to repeat, np.diagonal, or an"
            " index: x[np.arange(n)[:, None] + np.arange(m)]",
        )
    if x.dtype != np.float64:
        read = f"{LOOK_UP}else " if x.dtype.kind in "biu" else ""
        raise ConversionError(
            f"a {x._kind()} of shape {x.shape} and dtype {x.dtype} was given to np.array/np.asarray.",
            "NumPy would build an array of Python objects, which forgets the dtype: what it computes is right for"
            " float64 only, and .real and .imag are never those of complex values",
            f"{read}{_WAY_OUT}; x itself needs no np.asarray, and np.stack([...]) or np.concatenate([...]) join values",
        )
    _count(x, frame)
    for level in take_apart(x):
        level.objects = True
    _site.level = x.level
    out = np.empty(x.shape, object)
    for index in np.ndindex(*x.shape):
        out[index] = x[index] if index else unshared(x) if copy else x  # type: ignore[index]
    if not copy and x.shape:
        lent(x, out)  # NumPy's np.asarray(x) would be x itself
    return out


def take_apart(x: Tracer) -> list[Level]:
    """Return all levels of a tensor, which are told that it is taken apart into its entries."""
    levels = [layer.level for layer in layers(flush_writes(x)) if isinstance(layer, Tracer)]
    levels = [level for level in levels if isinstance(level, Level)]
    for level in levels:
        level.taken_apart(x.size)
    return levels


def _count(x: Tracer, frame: FrameType) -> None:
    """Note where objects are made, and say once, at that line, that they are many."""
    place = id(frame), frame.f_lasti, x.level.number
    if place != _site.place:
        user: FrameType | None = frame
        while user is not None and not is_users(user.f_code.co_filename):
            user = user.f_back
        user = user or frame
        _site.place, _site.entries, _site.noted = place, 0, False
        _site.file, _site.line = user.f_code.co_filename, user.f_lineno
        _site.names = user.f_globals
    _site.entries += x.size
    if _site.entries > _MANY and not _site.noted:
        _site.noted = True
        _note(
            f"np.array or np.asarray has made Python objects of more than {_MANY} traced numbers here; NumPy computes"
            " with them one by one, some hundred times slower than with an array."
        )


def _note(what: str) -> None:
    """Have later calls lifted, which make no objects; where they can't be, say so at the line that made them last.

    That may be elsewhere by now: in a solver that called it.
    """
    names = _site.names
    if not ABOVE.lift_later(names):
        registry = names.setdefault("__warningregistry__", {})
        warnings.warn_explicit(f"{what} {_FASTER}", PerformanceNote, _site.file, _site.line, registry=registry)


_FASTER = f"A tensor needs no np.asarray, and np.stack([...]) joins traced values; to change nothing, {_WAY_OUT}."


# ── joining them ─────────────────────────────────────────────────────────────────────────────────────────────────


def join(x: np.ndarray):
    """Join an object array of 0-d tensors and numbers into one tensor."""
    items = x.ravel().tolist()
    if not any(isinstance(item, Tracer) for item in items):
        if all(isinstance(item, (int, float, complex, np.generic)) for item in items):
            out = np.array(items).reshape(x.shape)
            # What NumPy makes of an array of objects itself (np.sign, .imag, np.zeros_like) has Python's integers.
            made = _site.level is not None and _site.level.open
            return out.astype(np.float64) if made and out.dtype.kind == "i" else out
        raise ArgumentTypeError(
            f"an object array of shape {x.shape} holds {type(items[0]).__name__ if items else 'nothing'}.",
            "only arrays of numbers can be computed with",
            "convert it to a numeric dtype first",
        )
    for item in items:
        if getattr(item, "shape", ()) != ():
            raise ArgumentTypeError(
                f"an object array of shape {x.shape} holds a tensor of shape {item.shape}.",
                "only arrays whose entries are numbers can be joined into one tensor",
                "build the array with np.stack or np.concatenate",
            )
    if any([type(item) is complex for item in items]):
        raise refusal("an array of Python objects holds complex numbers of Python's beside tensors")
    what = (
        f"np.array (or np.asarray) was given tensors and built an object array of shape {x.shape}, joined again here."
    )
    if _site.place is None:
        warnings.warn(f"{what} {_FASTER}", PerformanceNote, stacklevel=user_level())
    elif not _site.noted:
        _note(what)
    _site.place = None
    # Beside others in an array, a Python number is one of NumPy's: it does not give way to their dtype.
    return np.stack([i if isinstance(i, Tracer) else np.asarray(i) for i in items]).reshape(x.shape)


# ── where NumPy can't compute with them ──────────────────────────────────────────────────────────────────────────

#: what Python says of a class's method, called with an object that is none of the class
_DESCRIPTOR = re.compile(r"descriptor '(\w+)' (?:for|requires a) '(numpy\.\w+)' object")
_OBJECT_DTYPE = type(np.dtype(object))
#: instructions by which Python code raises; whatever else fails was a call of compiled code, which has no frame
_RAISING = {dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"]}


def about_objects(error: BaseException) -> DualadError | None:
    """Say what to write when NumPy itself computed with an object array and could not."""
    if isinstance(error, DualadError) and error.why == _WHY:
        return None  # said already, at the boundary of a transform further in
    if type(error) is TypeError and (found := _DESCRIPTOR.match(str(error))):
        return ConversionError(
            f"{found[2]}.{found[1]} was called on a tensor.",
            "it reads the memory of NumPy's own class, and a tensor has none",
            f"write x.{found[1]}, which every array and tensor has",
        )
    places, trace = [], error.__traceback__
    while trace is not None:
        places.append((trace.tb_frame, trace.tb_lasti))
        trace = trace.tb_next
    text = (error.what if isinstance(error, DualadError) else str(error)).partition("\n")[0].rstrip(".")
    name = _function_holding_objects([frame for frame, _ in places])
    if name is None and not (places and _computed_with_objects(error, *places[-1])):
        return None
    kind = PlainBufferError if isinstance(error, PlainBufferError) else ConversionError
    return refusal(f"{name or 'NumPy'} was given an array of Python objects ({text})", kind)


def _computed_with_objects(error: BaseException, frame: FrameType, instruction: int) -> bool:
    """Whether what failed in this frame is the call that objects were made for, or compiled code that may have them.

    It may where a variable holds tensors as objects, or where the frame is the last that had some made.
    """
    made = _site.place or (None, None)
    if made[:2] == (id(frame), instruction):
        return True
    if isinstance(error, AttributeError):
        return _is_method_of_loop(error, frame, instruction)
    if not isinstance(error, TypeError) or isinstance(error, DualadError):
        return False
    if frame.f_code.co_code[instruction] in _RAISING or frame.f_code.co_filename.startswith(PACKAGE):
        return False
    return made[0] == id(frame) or any(map(holds_objects, frame.f_locals.values()))


def _is_method_of_loop(error: AttributeError, frame: FrameType, instruction: int) -> bool:
    """Whether NumPy's loop asked an entry for the method that has the ufunc's name: no code says ``entry.hypot``."""
    return called(frame, instruction) is not None and isinstance(getattr(np, error.name or "", None), np.ufunc)


def refusal(what: str, kind: type[DualadError] = ConversionError) -> DualadError:
    """Return the error for what NumPy can't do, or would do wrong, with an object array of tensors."""
    return kind(
        f"{what}; if np.array or np.asarray built it of tensors and numbers:",
        _WHY,
        f"{_WAY_OUT}; or build it with np.stack([...]) or np.array([...], like=x); entries are in x.flat, x[i]",
    )


def _function_holding_objects(frames: list[FrameType]) -> str | None:
    """Return the function of NumPy's that was computing with an object array of tensors when it failed."""
    while frames and frames[-1].f_code.co_filename.startswith(PACKAGE):
        frames = frames[:-1]
    inside: list[FrameType] = []
    while frames and frames[-1].f_code.co_filename.startswith(NUMPY):
        inside, frames = [frames[-1], *inside], frames[:-1]
    held = _locals(inside)
    # A function of dtypes (np.finfo) was asked about theirs, by code that has such an array.
    of_dtype = any([value is np.object_ or type(value) is _OBJECT_DTYPE for value in held])
    if not any(map(holds_objects, held)) and not (of_dtype and any(map(holds_objects, _locals(frames[-1:])))):
        return None
    first = inside[0]
    name = first.f_code.co_name.removeprefix("_")
    return f"np.{type(first.f_locals['self']).__name__ if name == '_call__' else name}"  # np.vectorize(...)


def _locals(frames: list[FrameType]) -> list:
    return [value for frame in frames for value in list(frame.f_locals.values())]


def holds_objects(x: object) -> bool:
    """Whether an array, or one in a tuple, holds tensors as objects."""
    if type(x) is tuple:
        return any([holds_objects(item) for item in x])
    return type(x) is np.ndarray and x.dtype == object and any([isinstance(item, Tracer) for item in x.flat])
