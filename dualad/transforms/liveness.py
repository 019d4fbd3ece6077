"""Which zeros are strong on the way back: what a walk through a linear program has to know beside a pole.

Forwards the rule is local: a tangent that is exactly zero stays zero beside an infinite factor (``scale``), and what
made it zero came before the pole. Backwards a pole is met first, and what came before it later. For the same numbers

- a cotangent that is zero because nothing was *selected* or *seeded* there is dead: a pole does not bring it back. One
  that is zero because a factor was is live, and 0·∞ is NaN, as it is forwards (``live``);
- behind a pole, where a cotangent may be infinite, a factor that is zero wins: forwards it makes the tangent zero
  before the pole is reached (``hot``).

Not for: the walk itself (``backward.py``), or what a single operator does with this (``strong_transpose`` in ``ops/``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.aval import Aval, aval_of, is_inexact
from ..core.constants import foreign, match_library
from ..ops.joining import scatter_cotangents
from ..ops.kinds import is_finite, known_value, scale, vanishes
from ..program.ir import Program
from ..program.variable import Variable
from ..tensors.lazy import zero_question

__all__ = ["BodyLiveness", "Liveness", "Marked", "OpaqueError", "PoleParts", "sign_by_liveness"]


class Marked(NamedTuple):
    """Results of the transpose of an operator that runs programs, with the masks that come out of them.

    ``live`` holds a mask for each argument (``None``: all is live), and ``hot`` whether its cotangent may be infinite.
    """

    cotangents: tuple
    live: Sequence
    hot: Sequence[bool]


def _all(mask: Any) -> bool:
    numbers = known_value(mask)
    return numbers is not None and bool(np.all(numbers))


class Liveness:
    """The liveness of ``cotangents`` in one walk through a linear program; an exact zero among them is dead.

    ``seeds`` says otherwise: zeros among them are ``"dead"``, ``"live"``, or, if the cotangents come out of another
    walk, what their sign says (``"signed"``, see ``sign_by_liveness``).
    """

    def __init__(self, program: Program, cotangents: list, *, seeds: str = "dead") -> None:
        #: entries that are zero for want of a path to them are False; None where there are no such entries
        self._live: dict[Variable, Any] = {}
        self._hot: set[Variable] = set()
        self._reads: dict[Variable, list] = {}
        #: equations without parameters, by avals -> the masks of their arguments where all of the result is live
        self._answers: dict[tuple, list] = {}
        #: variables between which and the inputs there is something that may be infinite
        self._poles: set[Variable] = set()
        for op, args, _, outs in program.recorded:
            if any([a in self._poles for a in args if type(a) is Variable]) or _may_be_a_pole(op, args):
                self._poles.update(outs)
        for v, ct in zip(program.outputs, cotangents, strict=True):
            if type(v) is not Variable or ct is None:
                continue
            if is_finite(ct) is False:
                self._hot.add(v)
            if v in self._poles:
                live: Any = None
                if seeds != "live":
                    live = np.logical_not(vanishes(ct))
                if seeds == "signed" and not _all(live):
                    live = np.logical_or(live, np.signbit(np.real(ct)))
                self._add(v, live)

    def rule(self, op, args: Sequence, outs: Sequence[Variable]) -> Callable:
        """Return the transpose to use for an equation; calling it notes the liveness of the arguments' cotangents."""
        return functools.partial(self._pull, op, args, outs)

    def read(self, v: Variable, template: tuple, out: Variable) -> None:
        """Note that one place of an argument was read, whose cotangent will be gathered with others."""
        if out in self._hot:
            self._hot.add(v)
        if v in self._poles:
            self._reads.setdefault(v, []).append((template, self._live.pop(out, None), out.aval))

    def gather(self, v: Variable) -> None:
        """Note that the cotangents of the places that were read are gathered."""
        if v in self._reads:
            marks = [(template, _marks(live, aval)) for template, live, aval in self._reads.pop(v)]
            with zero_question():
                self._add(v, scatter_cotangents(None, marks, Aval(v.aval.shape, np.dtype(float))) != 0)

    def _add(self, v: Variable, live: Any) -> None:
        if live is not None and _all(live):
            live = None
        if v in self._live and live is not None:
            known = self._live[v]
            live = None if known is None else np.logical_or(known, live)
        self._live[v] = live

    def _pull(self, op, args: Sequence, outs: Sequence[Variable], ct: Any, /, *given: Any, **params: Any) -> tuple:
        hot = bool(self._hot) and any([v in self._hot for v in outs])
        live = [self._live.pop(v, None if v not in self._poles else _nowhere(v.aval.shape)) for v in outs]
        if op.marked_transpose is not None:
            wanted = [type(a) is Variable and a in self._poles for a in args]
            return self._note(args, op.marked_transpose(ct, *given, live=live, hot=hot, wanted=wanted, **params))
        if op.strong_transpose is None:
            results = op.transpose(ct, *given, **params)
        else:
            mask = live if op.multiple_results else live[0]
            results = op.strong_transpose(ct, *given, live=mask, hot=hot, **params)
            hot = hot or op.pole
        moved = [(a, c) for a, c in zip(args, results, strict=True) if type(a) is Variable and c is not None]
        if hot:
            self._hot.update([a for a, c in moved if is_finite(c) is not True])
        if any([a in self._poles for a, _ in moved]):
            for (a, _), mask in zip(moved, self._through(op, live, args, params, outs, len(moved)), strict=True):
                self._add(a, mask)
        return results

    def _note(self, args: Sequence, marked: Marked) -> tuple:
        """Note what an operator that runs programs says of the cotangents that come out of them."""
        for a, c, mask, hot in zip(args, *marked, strict=True):
            if type(a) is Variable and c is not None:
                if hot and is_finite(c) is not True:
                    self._hot.add(a)
                if a in self._poles:
                    self._add(a, mask)
        return marked.cotangents

    def _through(self, op, live: list, args: Sequence, params: dict, outs: Sequence[Variable], count: int) -> list:
        """Return the masks of the arguments that move, given those of the results."""
        shape = outs[0].aval.shape
        if op.effect or op is scale or (type(op.impl) is np.ufunc and op.impl.signature is None):  # entry by entry
            if live[0] is None:
                return [None] * count
            if all([a.aval.shape == shape for a in args if type(a) is Variable]):
                return [live[0]] * count
        known = [i for i, a in enumerate(args) if type(a) is not Variable and is_inexact(aval_of(a).dtype)]
        factors = op.linear_positions(len(args), params)
        if (op.multiple_results and not op.moves) or op.kind == "custom" or any([i not in factors for i in known]):
            if any([mask is None for mask in live]):
                return [None] * count
            found = functools.reduce(np.logical_or, [np.any(mask) for mask in live])
            return [np.broadcast_to(found, a.aval.shape) for a in args if type(a) is Variable][:count]
        # Where all is live and nothing but shapes is known, the same equation has the same answer each time.
        key = None
        if len(live) == 1 and live[0] is None and not params and len(known) + count == len(args):
            avals = [a.aval if type(a) is Variable else a for a in (*outs, *args)]
            key = op, tuple([type(a) is Aval for a in avals]), tuple([(a.shape, a.dtype) for a in map(aval_of, avals)])
            if key in self._answers:
                return self._answers[key]
        like = foreign(*[a for a in (*args, *live) if type(a) is not Variable])
        given = [
            a.aval if type(a) is Variable else match_library(_marks(None, aval_of(a)), like) if i in known else a
            for i, a in enumerate(args)
        ]
        marks = [match_library(_marks(mask, v.aval), like) for mask, v in zip(live, outs, strict=True)]
        with zero_question():
            back = op.transpose(marks if op.multiple_results else marks[0], *given, **params)
            masks = [c != 0 for c in back if c is not None]
        if key is not None:
            self._answers[key] = masks
        return masks


def sign_by_liveness(ct: Any, live: Any = None) -> Any:
    """Return a cotangent whose zeros say by their sign what they are: negative where live, positive where dead."""
    zero = vanishes(ct)
    if known_value(zero) is not None and not np.any(known_value(zero)):
        return ct
    nought = ct.dtype.type(0)
    return np.where(zero, -nought if live is None else np.where(live, -nought, nought), ct)[()]


class PoleParts(Liveness):
    """A walk on which every cotangent is a finite part and a pole part, both of finite numbers.

    Where several paths lead to one pole, an infinity that went back along each of them would be ∞ − ∞ where they meet.
    So a pole starts a part of its own, of arbitrary numbers: it goes back by the same transposes, and is exactly zero
    where the pole is not reached, as forwards a tangent is zero there that meets the pole.
    """

    def __init__(self, program: Program, cotangents: list, *, seeds: str = "dead") -> None:
        super().__init__(program, cotangents, seeds=seeds)
        self._parts: dict[Variable, Any] = {}
        self._random = np.random.default_rng(0)
        self.cotangents = [
            self._split(v, c) if type(v) is Variable and c is not None else c
            for v, c in zip(program.outputs, cotangents, strict=True)
        ]

    def read(self, v: Variable, template: tuple, out: Variable) -> None:
        """Note that one place of an argument was read."""
        super().read(v, template, out)
        if out in self._parts:
            self._join(v, scatter_cotangents(None, [(template, self._parts.pop(out))], v.aval))

    def settle(self, v: Variable, found: Any, part: Any) -> Any:
        """Return the finite part where no pole is reached, and elsewhere what another walk has ``found``."""
        if found is None or part is None:
            return found
        return np.where(vanishes(self._parts[v]), part, found)[()] if v in self._parts else part

    def _pull(self, op, args: Sequence, outs: Sequence[Variable], ct: Any, /, *given: Any, **params: Any) -> tuple:
        self._hot.clear()
        results = super()._pull(op, args, outs, ct, *given, **params)
        parts = [self._parts.pop(v) for v in outs if v in self._parts]
        if parts and (op.multiple_results or op.kind == "custom"):
            raise OpaqueError
        for part in parts:
            if op.strong_transpose is None:
                more = op.transpose(part, *given, **params)
            else:
                more = op.strong_transpose(part, *given, live=np.logical_not(vanishes(part)), hot=False, **params)
            for a, p in zip(args, more, strict=True):
                if type(a) is Variable and p is not None:
                    self._join(a, self._split(a, p) if is_finite(p) is not True else p)
        if not op.pole:  # elsewhere an infinity or a NaN is one that a rule means
            return results
        return tuple(
            [
                self._split(a, c) if type(a) is Variable and c is not None else c
                for a, c in zip(args, results, strict=True)
            ]
        )

    def _join(self, v: Variable, part: Any) -> None:
        self._parts[v] = self._parts[v] + part if v in self._parts else part

    def _split(self, v: Variable, c: Any) -> Any:
        """Return the finite part, and start a pole part where there are infinities."""
        if is_finite(c) is True:
            return c
        infinite, zero = np.logical_not(np.isfinite(c)), c.dtype.type(0)
        self._join(v, np.where(infinite, self._random.integers(1, 2048, c.shape).astype(c.dtype), zero))
        return np.where(infinite, zero, c)


class OpaqueError(Exception):
    """A pole part met a call that is not looked into."""


@functools.lru_cache(maxsize=256)
def _nowhere(shape: tuple[int, ...]) -> np.ndarray:
    """Return the mask of what no path leads to."""
    return np.broadcast_to(np.False_, shape)


def _marks(live: Any, aval: Aval) -> Any:
    """Return numbers that are zero where nothing is live, and elsewhere unlikely to cancel each other."""
    marks = (1.5 + np.sin(np.arange(aval.size))).reshape(aval.shape).astype(aval.dtype)
    return marks if live is None else np.where(live, match_library(marks, live), aval.dtype.type(0))


class BodyLiveness(Liveness):
    """The liveness of cotangents in a program that an operator runs, as the operator was told.

    ``live`` has a mask for each of its outputs, ``None`` where all is live; ``hot`` says which of their cotangents may
    be infinite. A cotangent that is ``None`` has no path to it.
    """

    def __init__(self, program: Program, cotangents: list, live: Sequence, hot: Sequence[bool]) -> None:
        super().__init__(program, [None] * len(live))
        # What stands behind the inputs is not known, so all masks are kept.
        self._poles.update(program.inputs, *[step.outs for step in program.steps])
        for v, ct, mask, may_be_infinite in zip(program.outputs, cotangents, live, hot, strict=True):
            if type(v) is Variable and ct is not None:
                self._add(v, mask)
                if may_be_infinite:
                    self._hot.add(v)

    def of(self, v: Variable) -> tuple[Any, bool]:
        """Return the mask of an input, and whether its cotangent may be infinite."""
        self.gather(v)
        return self._live.get(v, _nowhere(v.aval.shape)), v in self._hot


def _may_be_a_pole(op, args: Sequence) -> bool:
    """Whether an equation may multiply by an infinity (or divide by zero), as far as is known."""
    if op.kind == "custom" or op.marked_transpose is not None:
        return not op.effect
    factors = [a for a in args if type(a) is not Variable] if op.strong_transpose is not None else []
    return any([is_finite(a) is not True or not _all(a) for a in factors])
