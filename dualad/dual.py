"""Dual tensors: a primal and a tangent, at a level.

For: forward mode, which is arithmetic on Duals; nesting is Duals of Duals. ``process`` splits off what carries its
own level and treats everything else, arrays and tensors of other levels alike, as a constant; that comparison is the
whole defence against perturbation confusion. Also here: the user-level duals (``dual_level``, ``make_dual``,
``unpack_dual``). Not for: the transform that opens levels and checks trees (``jvp.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from .base.asking import for_text
from .base.frames import public
from .boundary.boundary import running
from .core.above import ABOVE
from .core.aval import aval_of, is_inexact
from .core.capture import check_inside
from .core.constants import zeros_matching_library
from .core.contexts import active, boundary, everywhere, in_use, watching
from .core.dispatch import bind
from .core.level import Level, escaped
from .core.tracer import NO_PARAMS, OPERATOR, PLAIN, Tracer, is_python_number, python_number
from .core.watch import tag_origin
from .errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError
from .memory.memory import flush_writes, is_unchanged, layout, snapshot_once, unshared
from .ops.arithmetic import add, divide, multiply, subtract
from .ops.kinds import is_finite, known_value, strong
from .surface.leaves import plain_leaf
from .surface.objects import join

__all__ = [
    "Dual",
    "DualLevel",
    "UnpackedDual",
    "check_tangent",
    "dual_level",
    "float0",
    "make_dual",
    "shown_tangent",
    "split",
    "strip",
    "unpack_dual",
]

#: dtype of a tangent that can't exist: the one of an integer or boolean primal
float0 = np.dtype([("float0", np.void, 0)])


class DualLevel(Level):
    """A level of forward mode.

    With ``tangents``, a level at which a program is written, it is ``linearizing``: what a rule reads now, the program
    reads later, so arrays the caller could still write to are copied when they meet it (``snapshot``). Both close
    together.
    """

    __slots__ = ("copies", "index", "inner", "linearizing", "tangents")

    def __init__(self, transform: str, tangents: Level | None = None, index: int = 0) -> None:
        Level.__init__(self, transform)
        self.tangents = tangents
        self.linearizing = tangents is not None
        self.index = index
        self.inner = False
        self.copies: dict[int, tuple[Any, Any]] = {}

    def __exit__(self, *exc_info) -> None:
        if self.tangents is not None:
            self.tangents.open = False
        self.copies.clear()
        Level.__exit__(self, *exc_info)

    def box(self, x: Tracer) -> Tracer:
        """Return a tensor of another level as it is now: its holders may write to it before the program is run."""
        known = self.copies.get(id(x))
        if known is not None and is_unchanged(known[1], x):
            return known[1]
        copy = unshared(x)
        self.copies[id(x)] = (x, copy)  # held, so that no other tensor gets its number
        return copy

    def __index__(self) -> int:
        return self.index

    def kept(self, x: Any) -> Any:
        """Return a constant as it is now, whatever its holders write into it."""
        if type(x) is np.ndarray:
            return self.snapshot(x)
        return self.box(x) if isinstance(x, Tracer) else x if type(x) in PLAIN else unshared(x)

    def snapshot(self, a: np.ndarray) -> np.ndarray:
        """Return ``a``, or a read-only copy of it if somebody else could write to it before the program is run."""
        if not a.flags.writeable and a.base is None:  # said here, not in memory/memory.py: a call less on the hot path
            return a
        return snapshot_once(a, self.copies)


class Dual(Tracer):
    """A value with a tangent at one level.

    Parameters
    ----------
    primal : array_like or tensor
        The value.
    tangent : array_like, tensor or None
        Its tangent, of the same shape and dtype; ``None`` is exactly zero.
    level : DualLevel
        The forward-mode level it belongs to.

    Examples
    --------
    >>> with da.dual_level() as level:
    ...     y = np.sin(da.make_dual(0.0, 1.0))
    ...     da.unpack_dual(y)
    UnpackedDual(primal=np.float64(0.0), tangent=np.float64(1.0))
    """

    __slots__ = ()

    def __init__(self, primal: Any, tangent: Any, level: DualLevel) -> None:
        self._primal = primal
        self._tangent = tangent
        self.level = level

    def process(self, op, args, params):
        """Run an operator on primals and tangents, by its jvp rule."""
        level = self.level
        if not level.open:
            raise escaped(level, f"`{op.name}`", self)
        watch = None
        if in_use:  # somebody is inside no_tangents() or debug()
            if level.number < boundary.get():
                return bind(op, [a._primal if type(a) is Dual and a.level is level else a for a in args], params)
            watch = watching.get()
        linearizing = level.linearizing
        # Most operators have one argument or two; spelled out, these cases save a third of the time of a call.
        n = len(args)
        if n == 1:
            x = args[0]
            t = x._tangent
            primals, tangents, live = (x._primal,), (t,), t is not None
        elif n == 2:
            x, y = args
            if type(x) is Dual and x.level is level:
                x, s = x._primal, x._tangent
            else:
                s = None
                if linearizing and type(x) is not float:
                    x = level.snapshot(x) if type(x) is np.ndarray else x if type(x) in PLAIN else level.kept(x)
            if type(y) is Dual and y.level is level:
                y, t = y._primal, y._tangent
            else:
                t = None
                if linearizing and type(y) is not float:
                    y = level.snapshot(y) if type(y) is np.ndarray else y if type(y) in PLAIN else level.kept(y)
            primals, tangents = (x, y), (s, t)
            live = s is not None or t is not None
        else:
            primals, tangents = [], []
            for a in args:
                if type(a) is Dual and a.level is level:
                    primals.append(a._primal)
                    tangents.append(a._tangent)
                else:
                    if linearizing:
                        a = level.kept(a)
                    primals.append(a)
                    tangents.append(None)
            live = any([t is not None for t in tangents])
        rule = op.jvp
        if watch is not None:
            value, tangent = watch.dual(level, op, primals, tangents, params)
            return value if rule is None else tag_origin(_join(value, tangent, level, op, params))
        if rule is None:
            return _as_operator(bind(op, primals, params), primals, params)
        if live:
            value, tangent = rule(primals, tangents, **params) if params else rule(primals, tangents)
        else:
            value = bind(op, primals, params)
            tangent = (None,) * len(value) if op.multiple_results else None
        if params is NO_PARAMS and type(value) not in _OF_NUMPY:  # NumPy's functions give no Python number
            value = value.numpy_number() if isinstance(value, Tracer) else strong(value)
        elif params is OPERATOR:
            value = _as_operator(value, primals, params)
        if tangent is None or op.multiple_results:
            return _join(value, tangent, level, op, params)
        return Dual(value, tangent, level)

    @property
    def inner(self):
        """The primal."""
        return self._primal

    def class_in_numpy(self) -> type:
        """Return the class of the primal, if that is NumPy's or Python's; another library's is its own."""
        inner = self._primal
        if isinstance(inner, Tracer):
            return inner.class_in_numpy()
        return type(inner) if type(inner) in PLAIN else type(self)

    @property
    def primal(self):
        """The value, read-only: a view that can't be written through."""
        if isinstance(self._primal, np.ndarray):
            view = self._primal.view()
            view.setflags(write=False)
            return view
        return unshared(self._primal)

    @property
    def tangent(self):
        """The tangent, or ``None`` where it is exactly zero."""
        return self._tangent

    @property
    def shape(self):
        """The shape of the primal, which is the tangent's."""
        try:
            return self._primal.shape
        except AttributeError:  # a Python scalar, kept as it is because it promotes as one
            return ()

    @property
    def dtype(self):
        """The dtype of the primal."""
        try:
            return self._primal.dtype
        except AttributeError:
            return aval_of(self._primal).dtype

    # A Python float beside a dual is the commonest call there is. What the rules of `add`, `subtract`, `multiply` and
    # `divide` make of it is spelled out, which takes a third to a half off the time of such a call.

    def __add__(self, other):
        if type(other) is float and (t := self._tangent) is not None and self.level.open and not (in_use or everywhere):
            return Dual(self._primal + other, t, self.level)
        if type(other) is Dual and other.level is self.level:
            return self._beside(add, other)
        if type(other) is np.float64 and (t := self._beside_number()) is not None:
            return Dual(self._primal + other, t, self.level)
        return Tracer.__add__(self, other)

    def __radd__(self, other):
        if type(other) is float and (t := self._tangent) is not None and self.level.open and not (in_use or everywhere):
            return Dual(other + self._primal, t, self.level)
        return Tracer.__radd__(self, other)

    def __sub__(self, other):
        if type(other) is float and (t := self._tangent) is not None and self.level.open and not (in_use or everywhere):
            return Dual(self._primal - other, t, self.level)
        if type(other) is Dual and other.level is self.level:
            return self._beside(subtract, other)
        if type(other) is np.float64 and (t := self._beside_number()) is not None:
            return Dual(self._primal - other, t, self.level)
        return Tracer.__sub__(self, other)

    def __mul__(self, other):
        if type(other) is float and (t := self._tangent) is not None and self.level.open and not (in_use or everywhere):
            if abs(other) < math.inf:
                return Dual(self._primal * other, t * other, self.level)
        if type(other) is Dual and other.level is self.level:
            return self._beside(multiply, other)
        if type(other) is np.float64 and (t := self._beside_number()) is not None and math.isfinite(other):
            return Dual(self._primal * other, t * other, self.level)
        return Tracer.__mul__(self, other)

    def __rmul__(self, other):
        if type(other) is float and (t := self._tangent) is not None and self.level.open and not (in_use or everywhere):
            if abs(other) < math.inf:
                return Dual(other * self._primal, t * other, self.level)
        return Tracer.__rmul__(self, other)

    def __truediv__(self, other):
        if type(other) is float and (t := self._tangent) is not None and self.level.open and not (in_use or everywhere):
            if other:
                return Dual(self._primal / other, t / other, self.level)
        if type(other) is Dual and other.level is self.level:
            return self._beside(divide, other)
        if type(other) is np.float64 and other and math.isfinite(other) and (t := self._beside_number()) is not None:
            return Dual(self._primal / other, t / other, self.level)
        return Tracer.__truediv__(self, other)

    def _beside_number(self):
        """Return the tangent of a scalar beside one of NumPy's, of the same dtype, where nobody looks on."""
        if type(self._primal) is np.float64 and self.level.open and not (in_use or everywhere):
            return self._tangent
        return None

    def _beside(self, op, other):
        """Run an operator on two duals of one level: as ``process`` does, which watches and boundaries go through."""
        s, t, level = self._tangent, other._tangent, self.level
        if s is None or t is None or in_use or everywhere or not level.open:
            return bind(op, (self, other), OPERATOR)
        value, tangent = op.jvp((self._primal, other._primal), (s, t))
        return Dual(value, tangent, level)

    def python_number(self):
        """Return the scalar with a Python number for its primal, and for its tangent."""
        tangent = self._tangent
        return Dual(python_number(self._primal), None if tangent is None else python_number(tangent), self.level)

    def is_python_number(self) -> bool:
        """Whether its primal is a Python number."""
        return is_python_number(self._primal)

    def numpy_number(self):
        """Return the value as NumPy's number, where its primal is Python's."""
        if not self.is_python_number():
            return self
        primal = self._primal
        primal = primal.numpy_number() if isinstance(primal, Tracer) else strong(primal)
        return Dual(primal, strong(self._tangent), self.level)

    def known(self):
        """Return the numbers beneath the primal, if there are any yet."""
        return known_value(self._primal)

    def is_finite(self) -> bool | None:
        """Whether primal and tangent are finite, if they are known."""
        primal, tangent = is_finite(self._primal), self._tangent is None or is_finite(self._tangent)
        return False if primal is False or tangent is False else None if primal is None or tangent is None else True

    def _strides(self):
        primal = self._primal
        if type(primal) is np.ndarray:
            return primal.strides
        return layout(primal).strides if isinstance(primal, Tracer) else None  # of another library: as in C order

    def __bool__(self):
        if not self.level.open:
            raise escaped(self.level, "bool() (if, while, and, or, assert)", self)
        if self.level.objects and self.dtype.kind != "b":
            ABOVE.truth(self)
        return bool(self._primal)

    def __int__(self):
        if not self.level.open:
            raise escaped(self.level, "int()", self)
        return int(self._primal)

    def __float__(self):
        # As f"{x:g}": text carries no derivative.
        return float(self._primal) if self.level.open and not self.shape and for_text() else super().__float__()

    def __format__(self, spec: str) -> str:
        return format(self._primal, spec) if spec else repr(self)

    def _text(self) -> str:
        tangent = "0" if self._tangent is None else _short(self._tangent)
        return f"Dual({_short(self._primal)}, tangent={tangent}, shape={self.shape}, dtype={self.dtype}"


#: what most values are
_OF_NUMPY = frozenset({np.ndarray, np.float64})


def _as_operator(value, primals, params):
    """Return NumPy's result of one of Python's operators as Python would: a Python number of Python numbers."""
    if params is not OPERATOR or type(value) is np.ndarray or not all([is_python_number(p) for p in primals]):
        return value
    return value if is_python_number(value) or value.dtype.kind not in "fc" else python_number(value)


def _join(value, tangent, level: DualLevel, op, params: dict):
    """Make Duals of what a rule has returned."""
    if op.multiple_results:
        check_inside(value, level, op, params)
        check_inside(tangent, level, op, params)
        return tuple(_wrap(v, t, level) for v, t in zip(value, tangent, strict=True))
    return _wrap(value, tangent, level)


def _wrap(value, tangent, level: DualLevel):
    """Make a Dual, unless the value can carry no tangent: integers and booleans stay what they are."""
    if tangent is None and not is_inexact(aval_of(value).dtype):
        return value
    return Dual(value, tangent, level)


def _short(x) -> str:
    if isinstance(x, np.ndarray):
        return np.array2string(x, threshold=8, edgeitems=2, separator=", ").replace("\n", "")
    return repr(x)


# ── duals in the user's hands ────────────────────────────────────────────────────────────────────────────────────

# Per thread and per asynchronous task, so that nobody's open level is another's.
_open_levels: ContextVar[tuple[DualLevel, ...]] = ContextVar("dualad_open_levels", default=())


class UnpackedDual(NamedTuple):
    """The result of ``unpack_dual``: ``primal`` and ``tangent`` (``None`` where there is none)."""

    primal: Any
    tangent: Any


@contextmanager
def dual_level() -> Iterator[DualLevel]:
    """Open a level of forward mode by hand.

    Yields
    ------
    DualLevel
        The level; ``level.index`` counts the levels opened around it, from 0.

    Examples
    --------
    >>> with da.dual_level():
    ...     x = da.make_dual(3.0, 1.0)
    ...     da.unpack_dual(x * x).tangent
    np.float64(6.0)
    """
    around = _open_levels.get()
    with DualLevel("dual_level", index=len(around)) as level:
        level.inner = running.get()
        token, inside = _open_levels.set((*around, level)), running.set(True)
        try:
            yield level
        finally:
            _open_levels.reset(token)
            running.reset(inside)


@public
def make_dual(primal: Any, tangent: Any, level: DualLevel | None = None) -> Dual:
    """Join a primal and a tangent at a level.

    Parameters
    ----------
    primal : float or array, any shape, floating or complex
        The value.
    tangent : same shape and dtype as ``primal``
        Its tangent.
    level : DualLevel, optional
        The level; by default the innermost one opened with ``dual_level``.

    Returns
    -------
    Dual
        The dual tensor.

    Raises
    ------
    ArgumentError
        If no level is open, or the tangent itself carries a tangent at this level.
    ShapeError, DtypeError
        If primal and tangent do not agree.

    Examples
    --------
    >>> with da.dual_level():
    ...     da.unpack_dual(da.make_dual(2.0, 1.0) ** 3).tangent
    np.float64(12.0)
    """
    level = _check(level, "make_dual") or _innermost("make_dual")
    for name, x in (("primal", primal), ("tangent", tangent)):
        if isinstance(x, Dual) and x.level is level:
            raise ArgumentError(
                f"the {name} given to make_dual is itself a Dual of level {level.number}.",
                "a value carries one tangent per level",
                "open another dual_level() for a derivative of a derivative, or pass unpack_dual(x).primal",
            )
    primal, tangent = plain_leaf(primal, "the primal", "make_dual"), plain_leaf(tangent, "the tangent", "make_dual")
    check_tangent(primal, tangent, "tangent", "make_dual")
    return Dual(primal, tangent if hasattr(tangent, "shape") else np.asarray(tangent)[()], level)


@public
def unpack_dual(x: Any, level: DualLevel | None = None) -> UnpackedDual:
    """Split a value into its primal and its tangent at a level.

    Parameters
    ----------
    x : array or tensor
        Anything; what does not carry the level has the tangent ``None``.
    level : DualLevel, optional
        The level; by default the innermost one opened with ``dual_level``.

    Returns
    -------
    UnpackedDual
        The named tuple ``(primal, tangent)``.

    Examples
    --------
    >>> with da.dual_level():
    ...     x = da.make_dual(2.0, 1.0)
    >>> da.unpack_dual(x)  # the level is closed: the tangent is gone
    UnpackedDual(primal=2.0, tangent=None)
    """
    if _check(level, "unpack_dual") is None:
        levels = _open_levels.get()
        level = levels[-1] if levels else None
    flush_writes(x)
    if isinstance(x, Dual):
        if x.level is level and level.open:
            if (watch := active()) is not None:
                watch.finished(level.transform, [x._primal], [x._tangent], inner=level.inner)
            tangent = x._tangent
            return UnpackedDual(x.primal, unshared(tangent) if isinstance(tangent, Tracer) else tangent)
        if not x.level.open:
            return UnpackedDual(x.primal, None)
    return UnpackedDual(x, None)


def check_tangent(primal, tangent, name: object, where: str) -> None:
    """Refuse a tangent that does not have its primal's shape and dtype; nothing is broadcast or cast."""
    p, t = aval_of(primal), aval_of(tangent)
    if not is_inexact(p.dtype):
        raise DtypeError(
            f"{where}: the primal of {name} has dtype {p.dtype} but was given a tangent of dtype {t.dtype}.",
            "integers and booleans can't be moved by an infinitesimal amount",
            "pass None (or zeros of dtype dualad.float0) as its tangent, or convert the primal with x.astype(float)",
        )
    if p.shape != t.shape:
        raise ShapeError(
            f"{where}: {name} has shape {t.shape}, its primal has shape {p.shape}.",
            "a tangent is a direction in the space of its primal, and nothing is broadcast silently",
            f"pass a tangent of shape {p.shape}, for instance np.broadcast_to(t, {p.shape})",
        )
    if p.dtype != t.dtype and not (t.weak and p.dtype.kind >= t.dtype.kind):
        raise DtypeError(
            f"{where}: {name} has dtype {t.dtype}, its primal has dtype {p.dtype}.",
            "a tangent has its primal's dtype, so that no precision is lost or invented silently",
            f"cast it: tangent.astype(np.{p.dtype.name})",
        )


def split(x, level: DualLevel) -> tuple:
    """Split an output at a level: its value and its tangent, cast to the value's dtype; ``None`` where it is zero."""
    if not (type(x) is Dual and x.level is level):
        return x, None
    value, tangent = x._primal, x._tangent
    if tangent is not None:
        dtype = value.dtype if hasattr(value, "dtype") else aval_of(value).dtype
        own = getattr(tangent, "dtype", None)
        if own is None:  # a Python number, where the primal is one
            tangent = dtype.type(tangent)
        elif own is not dtype and own != dtype:
            tangent = tangent.astype(dtype)
    return value, tangent


def strip(x, level: DualLevel):
    """Return an auxiliary output without its tangent at this level."""
    if isinstance(x, np.ndarray) and x.dtype == object:
        x = join(x)
    return split(x, level)[0]


def shown_tangent(value, tangent):
    """Return a tangent as an array: zeros where it was never built, ``float0`` where it can't exist."""
    if tangent is not None:
        return tangent
    aval = aval_of(value)
    if not is_inexact(aval.dtype):
        return np.zeros(aval.shape, float0)[()]
    return zeros_matching_library(aval.shape, aval.dtype, value)[()]


def _check(level: Any, where: str) -> DualLevel | None:
    if level is not None and not isinstance(level, DualLevel):
        raise ArgumentTypeError(
            f"{where}: level is {level!r} of type {type(level).__name__}.", "a tangent belongs to a level",
            "pass what `with dualad.dual_level() as level` gives",
        )  # fmt: skip
    return level


def _innermost(where: str) -> DualLevel:
    levels = _open_levels.get()
    if not levels:
        raise ArgumentError(
            f"{where} was called outside of any dual_level().",
            "a tangent belongs to a level",
            "write `with dualad.dual_level() as level:` around it, or pass level=",
        )
    return levels[-1]
