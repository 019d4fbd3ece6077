"""Series tensors: a truncated power series at a level.

``process`` splits off what carries its own level and has ``rules.py`` make the series of the result; everything else
is a constant to it. A call of the function's is computed at once, to the order of the level; calls inside of a rule are
streams, which are computed on demand. Not for: the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.asking import for_text
from ..core.contexts import boundary, in_use
from ..core.dispatch import bind
from ..core.level import Level, escaped
from ..core.tracer import Tracer
from ..memory.memory import layout
from ..ops.kinds import is_finite, known_value
from .rules import stream_of
from .stream import Stream

__all__ = ["Series", "SeriesLevel"]


class SeriesLevel(Level):
    """A level of power series, of terms up to an order.

    With ``lazy``, calls wait until ``sweep``: where the series of an argument is not known yet (differential
    equations). ``pick(coefficient, degree)`` is applied to every coefficient: sums over directions at the highest
    degree.
    """

    __slots__ = ("lazy", "memo", "order", "pick", "strong", "waiting", "written")

    def __init__(self, transform: str, order: int, *, lazy: bool = False, pick: Callable | None = None) -> None:
        super().__init__(transform)
        self.order, self.lazy, self.pick = order, lazy, pick
        #: the call in progress, by operator and operands; None between calls
        self.memo: dict | None = {} if lazy else None
        #: whether products guard zeros against infinities
        self.strong = pick is not None
        #: streams in the order in which they were made, where calls wait
        self.waiting: list[Stream] = []
        #: how many of them the function itself made; rules ask for what they make
        self.written = 0

    def __exit__(self, *exc_info) -> None:
        super().__exit__(*exc_info)
        self.memo = None
        self.waiting.clear()

    def sweep(self, k: int) -> None:
        """Compute the coefficients of order k of all that the function wrote, in its order; from 1 on, one by one."""
        if k == 1:
            self.written = len(self.waiting)
        with np.errstate(all="ignore"):
            for stream in self.waiting[: self.written]:
                stream.coef(k)


class Series(Tracer):
    """A value with a series of coefficients, of its shape and dtype, at one level."""

    __slots__ = ()

    def __init__(self, stream: Stream, level: SeriesLevel) -> None:
        self.variable = stream
        self.level = level

    def process(self, op, args, params):
        """Make the series of an operator's result."""
        level = self.level
        if not level.open:
            raise escaped(level, f"`{op.name}`", self)
        streams = [a.variable if type(a) is Series and a.level is level else None for a in args]
        zeroth = [a if s is None else s.coefs[0] for a, s in zip(args, streams, strict=True)]
        if op.jvp is None or (in_use and level.number < boundary.get()):
            return bind(op, zeroth, params)
        return stream_of(level, Series, op, args, streams, zeroth, params)

    @property
    def inner(self):
        """The value: the coefficient of order 0."""
        return self.variable.coefs[0]

    @property
    def shape(self):
        """The shape of the value, which is that of every coefficient."""
        return self.variable.shape

    @property
    def dtype(self):
        """The dtype of the value."""
        return self.variable.dtype

    def known(self):
        """Return the numbers beneath the value, if there are any yet."""
        return known_value(self.inner)

    def is_finite(self) -> bool | None:
        """Whether the value is finite, if it is known; a series about a finite value has finite coefficients."""
        return is_finite(self.inner)

    def _strides(self):
        value = self.inner
        if type(value) is np.ndarray:
            return value.strides
        return layout(value).strides if isinstance(value, Tracer) else None

    def __bool__(self):
        if not self.level.open:
            raise escaped(self.level, "bool() (if, while, and, or, assert)", self)
        return bool(self.inner)

    def __int__(self):
        if not self.level.open:
            raise escaped(self.level, "int()", self)
        return int(self.inner)

    def __float__(self):
        # As f"{x:g}": text carries no derivative.
        return float(self.inner) if self.level.open and not self.shape and for_text() else super().__float__()

    def __format__(self, spec: str) -> str:
        return format(self.inner, spec) if spec else repr(self)

    def _text(self) -> str:
        value: Any = self.inner
        shown = np.array2string(value, threshold=8, separator=", ") if isinstance(value, np.ndarray) else repr(value)
        return f"Series({shown.replace(chr(10), '')}, shape={self.shape}, dtype={self.dtype}"
