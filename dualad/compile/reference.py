"""A program as it was before any pass, run equation by equation: what compiled code is compared with.

It is run plainly, or with noise: then each result that compiled code may compute otherwise (mathematics, sums in
another order) is moved by as many units in the last place as are promised, so that the outcome says how much a right
program may be off. Also: how much work that is, counted in entries and never by a clock. Not for: the comparison
(``first_call.py``), or the answer to a difference (``first_call.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..control.control_ops import as_declared
from ..control.subprograms import runner
from ..core.dispatch import bind
from ..program.ir import Program, map_programs, programs_in
from ..program.variable import Step, Variable, aval_of_atom

__all__ = ["EACH", "Reference", "TooLong", "interpreted", "work_of"]

#: entries that each turn of a loop counts for each of its equations: what it costs to call an operator from Python
EACH = 500
#: multiplications of a product of matrices that count as an entry
_PRODUCTS = 16
#: units in the last place that are promised of mathematics, and that each term of a sum is moved by
_UNITS = 4.0
#: random numbers at most for an array (a prime, to miss its rows): to draw takes longer than all else that moves it
_DRAWN = 16381

#: kinds and names of operators whose results compiled code has to give bit for bit
_EXACT_KINDS = frozenset({"barrier", "constant", "join", "predicate", "sort"})
_EXACT = frozenset({
    "absolute", "add", "astype", "at_least", "at_most", "broadcast_to", "checkpoint_name", "conjugate", "copy",
    "copysign", "cummax", "cummin", "divide", "fabs", "flip", "fmax", "fmin", "fmod", "frexp", "heaviside", "imag",
    "index", "index_set", "ldexp", "max", "maximum", "min", "minimum", "modf", "multiply", "nanmax", "nanmin",
    "negative", "nextafter", "permute", "positive", "real", "reciprocal", "remainder", "reshape", "scale", "shift",
    "sign", "spacing", "split", "sqrt", "square", "subtract", "transpose", "unstack", "where",
})  # fmt: skip
#: those of which that is so for real numbers alone
_REAL = frozenset({"absolute", "divide", "multiply", "reciprocal", "scale", "sqrt", "square"})
_PRODUCT = frozenset({"convolve", "einsum", "einsum_strong", "matmul"})
#: kinds of operators that do more for an entry than to read or compute it
_WEIGHED = frozenset({"control", "op"})


class TooLong(Exception):
    """A loop goes on for longer than the reference is to be run."""


class _Standin:
    """The stand-in in a program for an operator that is to be run in another way."""

    across, blocks, effect, kept, kind = None, "", False, False, "op"

    def __init__(self, op: Any, impl: Callable) -> None:
        self.name, self.multiple_results, self.impl = op.name, op.multiple_results, impl


def _is_exact(step: Step) -> bool:
    """Whether compiled code has to give the bits that an operator's ``impl`` gives."""
    op, args, params, outs = step
    if op.kind == "control":
        return all([_is_exact(s) for part in programs_in(params) for s in part.steps])
    kinds = {aval_of_atom(a).dtype.kind for a in (*args, *outs)}
    if kinds.isdisjoint("fc"):
        return True
    if "c" in kinds and op.name in _REAL:
        return False
    return op.kind in _EXACT_KINDS or op.name in _EXACT


def work_of(program: Program, each: int = 0) -> int:
    """Return about how many entries a plain run reads and computes; a ``while_loop`` counts as one turn.

    An equation outside of loops, which takes far longer to compile than to run once, counts ``each`` entries besides.
    """
    sizes: dict[tuple[int, ...], int] = {(): 1}
    of_products: dict[tuple, int] = {}
    total = each * len(program.steps)
    for step in program.steps:
        op, args, _, outs = step
        shapes = [a.aval.shape if type(a) is Variable else getattr(a, "shape", ()) for a in (*args, *outs)]
        if op.name in _PRODUCT:
            key = op.name, *shapes
            if key not in of_products:
                of_products[key] = _work(step, each)
            total += of_products[key]
        elif op.kind in _WEIGHED:
            total += _work(step, each)
        else:
            for shape in shapes:
                size = sizes.get(shape)
                total += sizes.setdefault(shape, math.prod(shape)) if size is None else size
    return total


def _work(step: Step, each: int) -> int:
    op, args, params, outs = step
    if op.name == "scan":
        return params["length"] * (EACH + work_of(params["body"], EACH))
    if op.name == "switch":
        return max([work_of(b, each) for b in params["branches"]])
    if op.name == "while_loop":
        return work_of(params["test"], each) + work_of(params["body"], each)
    if op.name == "call":
        return work_of(params["program"], each)
    avals = [aval_of_atom(a) for a in args]
    entries = sum([a.size for a in (*avals, *[v.aval for v in outs])])
    if op.name in _PRODUCT:
        entries += outs[0].aval.size * _contraction_length(op.name, avals, outs[0].aval.size) // _PRODUCTS
    elif op.kind == "op":  # of matrices: a factorization
        entries *= _longest(avals)
    return entries


def _longest(avals: Sequence) -> int:
    return max([1, *[n for a in avals for n in a.shape[-2:]]])


def _contraction_length(name: str, avals: Sequence, size: int) -> int:
    """Return how many products are added up for an entry of a product of arrays."""
    if name in ("matmul", "convolve"):
        return min([a.shape[-1] if a.shape else 1 for a in avals]) if name == "convolve" else avals[0].shape[-1]
    return max(1, round(math.sqrt(math.prod([max(1, a.size) for a in avals]) / max(1, size))))


class Reference:
    """A program without calls of compiled ones in it, to be run plainly and with noise.

    ``most`` entries are what its loops may take together.
    """

    def __init__(self, program: Program, most: float) -> None:
        self.program, self.most, self.left = program, most, most

    def exact(self) -> list[bool]:
        """Say of each result whether its bits are promised: whether all that it depends on is exact."""
        inexact: set[Variable] = set()
        for step in self.program.steps:
            if any([type(a) is Variable and a in inexact for a in step.args]) or not _is_exact(step):
                inexact.update(step.outs)
        return [type(o) is not Variable or o not in inexact for o in self.program.outputs]

    def run(self, args: Sequence, noise: _Noise | None = None) -> list:
        """Return the program's results; raise ``TooLong`` where loops take more than ``most``."""
        self.left, program = self.most, self.program
        env: dict[Variable, Any] = dict(zip(program.inputs, args, strict=True))
        with np.errstate(all="ignore"):
            for step in program.steps:  # once, so that no plan is worth making
                op, given, params, outs = self._standing_in(step, noise)
                values = [env[a] if type(a) is Variable else a for a in given]
                made = op.impl(*values, **params) if op.across is None else bind(op, values, params)
                env.update(zip(outs, made if op.multiple_results else (made,), strict=True))
        return _as_results([env[o] if type(o) is Variable else o for o in program.outputs])

    def noisy(self, args: Sequence, seed: int) -> list:
        """Return the same with noise."""
        return self.run(args, _Noise(seed))

    def standing(self, program: Program, noise: _Noise | None = None) -> Program:
        """Return a program each of whose equations is run as it is run here."""
        steps = [self._standing_in(step, noise) for step in program.steps]
        return Program(program.inputs, steps, program.outputs, program.name)

    def _standing_in(self, step: Step, noise: _Noise | None) -> Step:
        op, args, params, outs = step
        impl: Any = _call
        if op.name == "call":
            params = {"program": self.standing(params["program"], noise), "linear": params["linear"]}
        elif op.kind == "control":
            params = map_programs(params, lambda p: self.standing(p, noise))
            impl = self._while if op.name == "while_loop" else op.impl
        elif op.name == "matmul" and any([_is_identity(a) for a in args]):
            # The zeros of a basis are selected, and strong: they make no NaN of an infinity.
            impl = lambda a, b: b if _is_identity(a) else a
        elif noise is not None and not _is_exact(step):
            impl = noise.around(step)
        else:
            return step
        return Step(_Standin(op, impl), args, params, outs)

    def _while(self, *args: Any, test: Program, body: Program, constants: tuple[int, int]) -> tuple:
        a, b = constants
        turn, carry = EACH + work_of(test, EACH) + work_of(body, EACH), args[a + b :]
        ask, step = runner(test, plain=True), runner(body, plain=True)
        while ask(*args[:a], *carry)[0]:
            carry = step(*args[a : a + b], *carry)
            self.left -= turn
            if self.left < 0:
                raise TooLong
        return tuple(as_declared(carry, body.outputs))


def interpreted(program: Program) -> Callable:
    """Return a function of flat arguments that runs a program plainly, and returns a tuple of new arrays."""
    run = runner(Reference(program, math.inf).standing(program), plain=True)

    def interpret(*args: Any) -> tuple:
        with np.errstate(all="ignore"):
            # An operator may return an argument, or a part of one.
            return tuple([x.copy() if np.ndim(x) else x for x in _as_results(run(*args))])

    return interpret


def _as_results(found: Sequence) -> list:
    return [x[()] if type(x) is np.ndarray and not x.ndim else x for x in found]


def _is_identity(x: Any) -> bool:
    if type(x) is not np.ndarray or x.ndim != 2 or x.shape[0] != x.shape[1]:
        return False
    return len(x) > 1 and np.array_equal(x, np.eye(len(x)))


def _call(*args: Any, program: Program, linear: int) -> tuple:
    return tuple(as_declared(runner(program, plain=True)(*args), program.outputs))


class _Noise:
    """Moves numbers, by half as much as is allowed in one direction for an equation, and by chance as much again."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def around(self, step: Step) -> Callable:
        """Return the ``impl`` of an equation's operator with noise on its results, and on the terms of sums."""
        op, args, _, outs = step
        sides = self._random.choice([-1.0, 1.0], 2)
        gathers, of_matrices, terms = _gathers(op, [aval_of_atom(a) for a in args], outs)

        def impl(*given: Any, **params: Any) -> Any:
            if gathers:
                given = tuple([self.moved(x, _UNITS * terms, sides[0], of_matrices) for x in given])
            out = op.impl(*given, **params)
            if op.multiple_results:
                return tuple([self.moved(x, _UNITS, sides[1]) for x in out])
            return self.moved(out, _UNITS, sides[1])

        return impl

    def moved(self, x: Any, units: float, side: float, by_largest: bool = False) -> Any:
        """Return numbers that were moved, zeros (unless ``by_largest``), infinities and NaN where they are."""
        if np.asarray(x).dtype.kind not in "fc" or not np.size(x):
            return x
        x = np.asarray(x)
        about = np.finfo(x.dtype)
        size = np.abs(x)
        if by_largest and x.ndim > 1:
            size = np.max(size, axis=(-2, -1), keepdims=True)
        size = np.maximum(size, about.smallest_subnormal / about.eps)
        shift = self._by_chance(x.shape)
        shift += 0.5 * side - 0.5
        shift *= units * about.eps
        if x.dtype.kind == "c":
            shift = shift + 1j * units * about.eps * (self._by_chance(x.shape) - 0.5)
        shift *= size
        shift += x
        moved = np.asarray(shift).astype(x.dtype, copy=False)
        if not by_largest:
            np.copyto(moved, x, where=x == 0)
        if not np.all(np.isfinite(moved)):
            np.copyto(moved, x, where=~(np.isfinite(x) & np.isfinite(size)))
        return moved[()]

    def _by_chance(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return numbers between 0 and 1, which come again and again in a large array."""
        if math.prod(shape) <= _DRAWN:
            return self._random.random(shape)
        return np.resize(self._random.random(_DRAWN), shape)


def _gathers(op: Any, avals: Sequence, outs: Sequence) -> tuple[bool, bool, float]:
    """Whether an operator adds up, whether as matrices are factorized, and by how much more its terms move."""
    if type(op.impl) is np.ufunc and op.impl.signature is None:
        return False, False, 1.0
    if op.kind == "op" and op.name not in _PRODUCT:
        return True, True, float(_longest(avals))
    size = max([1, *[v.aval.size for v in outs]])
    terms = max([1, *[a.size / size for a in avals]])
    if op.name in _PRODUCT:
        terms = _contraction_length(op.name, avals, size)
    elif op.kind in ("scan", "recurrence"):
        terms = max([1, *[n for a in avals for n in a.shape]])
    return True, False, math.sqrt(terms)
