"""Batched tensors: a value with one more leading axis, at a level.

For: ``vmap``. The batch axis is always the leading one, so every batching rule has one case. An operand that is not
Batched at this level is the same for all lanes and stays as it is; the rule broadcasts it, and whatever depends on it
alone is computed once. Not for: axis specifications (``vmap.py``) or the rules themselves (``ops/``).
"""

from __future__ import annotations

import numpy as np

from .core.aval import Aval, aval_of
from .core.axes import unavailable
from .core.capture import check_inside
from .core.level import Level, escaped
from .core.tracer import Tensor

__all__ = ["BatchLevel", "Batched", "Disagreement"]


class BatchLevel(Level):
    """A level of ``vmap``: ``size`` lanes."""

    __slots__ = ("size",)

    def __init__(self, transform: str, size: int) -> None:
        super().__init__(transform)
        self.size = size


class Disagreement(BaseException):
    """Lanes disagree where Python needs one value; caught by the ``vmap`` whose lanes they are.

    Not an ``Exception``: a ``try`` of the user's around the branch must not swallow it.

    Parameters
    ----------
    level : BatchLevel
        Whose lanes.
    groups : list of int arrays
        The lanes that agree with each other.
    what : str
        What was asked, for messages.
    """

    def __init__(self, level: BatchLevel, groups: list, what: str) -> None:
        super().__init__(what)
        self.level, self.groups, self.what = level, groups, what


class Batched(Tensor):
    """A value per lane, stacked along a hidden leading axis.

    Parameters
    ----------
    value : array or tensor, shape (size, ...)
        The stacked values.
    level : BatchLevel
        The level it belongs to.
    """

    __slots__ = ()

    def __init__(self, value, level: BatchLevel) -> None:
        self._value = value
        self.level = level

    def process(self, op, args, params):
        """Run an operator on all lanes at once, by its batching rule."""
        level = self.level
        if not level.open:
            raise escaped(level, f"`{op.name}`")
        values, mapped = [], []
        for a in args:
            if type(a) is Batched and a.level is level:
                values.append(a._value)
                mapped.append(True)
            else:
                values.append(a)
                mapped.append(False)
        rule = op.batch
        if rule is None:
            across = getattr(op, "across", None)
            if across is not None:
                return across(level, values[0], params)
            rule = _loop(op)
        out = rule(level.size, values, mapped, **params)
        if op.multiple:
            check_inside(out, level, op, params)
            return tuple(Batched(o, level) for o in out)
        return Batched(out, level)

    def agreed(self, what: str):
        """Return the value that all lanes have; where they differ, have ``vmap`` run the lanes in groups that agree.

        This is how Python branches, integers and masks work under ``vmap``: the function runs again, once per group.
        """
        if not self.level.open:
            raise escaped(self.level, what)
        value = self._value
        while type(value) is Batched:
            # The rows of an outer batch must agree first; then any one of them stands for all.
            value = value.agreed(what)
        if not isinstance(value, np.ndarray):
            return None  # not known yet, or carrying a tangent: no group can be formed
        if not self.level.size:
            return np.zeros(value.shape[1:], value.dtype)[()]
        first = value[0]
        with np.errstate(invalid="ignore"):
            same = (value == first) | ((value != value) & (first != first))  # a NaN agrees with a NaN
        if same.all():
            return first
        rows, lane_group = np.unique(value.reshape(self.level.size, -1), axis=0, return_inverse=True)
        lane_group = lane_group.reshape(-1)
        raise Disagreement(self.level, [np.flatnonzero(lane_group == g) for g in range(len(rows))], what)

    def __bool__(self):
        if self.shape != ():
            return super().__bool__()
        agreed = self.agreed("the truth value of a batched scalar (if, while, and, or, assert)")
        return super().__bool__() if agreed is None else bool(agreed)

    def __int__(self):
        agreed = self.agreed("int() of a batched scalar") if self.shape == () else None
        return super().__int__() if agreed is None else int(agreed)

    def __index__(self):
        agreed = self.agreed("a batched integer used as an index or a count") if self._is_index() else None
        return super().__index__() if agreed is None else int(agreed)

    def _is_index(self) -> bool:
        return self.shape == () and self.dtype.kind in "iu"

    @property
    def shape(self):
        """The shape of one lane."""
        return self._value.shape[1:]

    @property
    def dtype(self):
        """The dtype."""
        return self._value.dtype

    def __repr__(self) -> str:
        return (
            f"Batched(shape={self.shape}, dtype={self.dtype}, lanes={self.level.size}, batch axis 0,"
            f" level={self.level.number} of {self.level.transform})"
        )


def _loop(op):
    """Make the batching rule of an operator that has none: one call per lane, joined by ``np.stack``."""

    def batch(size, values, mapped, **params):
        with unavailable(size, op.name):
            lanes = [
                op(*(v[i] if m else v for v, m in zip(values, mapped, strict=True)), **params) for i in range(size)
            ]
        if not size:
            # No lane to run: the shapes are still known, from one lane of zeros.
            example = op.shape(*(_lane_aval(v, m) for v, m in zip(values, mapped, strict=True)), **params)
            empty = [np.zeros((0, *a.shape), a.dtype) for a in (example if op.multiple else [example])]
            return tuple(empty) if op.multiple else empty[0]
        if op.multiple:
            return tuple(np.stack(parts) for parts in zip(*lanes, strict=True))
        return np.stack(lanes)

    return batch


def _lane_aval(value, mapped):
    aval = aval_of(value)
    return Aval(aval.shape[1:], aval.dtype) if mapped else aval
