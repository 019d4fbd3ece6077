"""The walk back through a linear program: how reverse mode runs.

For: ``backward``, one transposed pass, and ``pull_back``, which repeats it with strong zeros where 0·∞ came out NaN.
Not for: what is transposed (``vjp_via_transpose.py``) or any operator's transpose (``ops/``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .batched import Batched
from .core.aval import Aval
from .core.contexts import active, process_wide
from .core.tracer import Tracer
from .core.watch import logged_walk
from .dual import Dual
from .errors import RuleMissingError
from .lazy import Lazy
from .ops.indexing import ARRAY, index_add
from .ops.joining import stack
from .program.ir import Program, evaluate
from .program.packed import unpacked
from .program.variable import Variable
from .staged import Staged

__all__ = ["backward", "pull_back"]


def backward(
    program: Program, cotangents: list, strong: bool = False, either: bool = False, walk: Callable | None = None
) -> list:
    """Transpose a linear program: cotangents of its outputs in, cotangents of its inputs out (``None`` is zero).

    If y = A x is a chain of linear equations, Aᵀ c is the chain of their transposes in reverse order, and a variable
    used several times receives the sum: one loop over a flat list. ``strong`` uses the operators' strong transposes,
    in which an exactly zero cotangent stays zero beside an infinite constant, and with ``either`` an exactly zero
    constant beside an infinite cotangent. ``walk(steps, pending)`` yields the steps last to first, and may look at the
    cotangents between two of them.
    """
    pending: dict[Variable, Any] = {}
    reads: dict[Variable, list] = {}
    for out, ct in zip(program.outputs, cotangents, strict=True):
        if type(out) is Variable and ct is not None:
            known = pending.get(out)
            pending[out] = ct if known is None else known + ct
    steps = reversed(program.steps) if walk is None else walk(program.steps, pending)
    observer = process_wide()
    for op, args, params, outs in steps if observer is None else observer.walk(program, steps, "transpose"):
        if op.multiple_results:
            ct = [pending.pop(v, None) for v in outs]
            if reads:
                ct = [_gathered(c, reads.pop(v), v.aval) if v in reads else c for c, v in zip(ct, outs, strict=True)]
            if all([c is None for c in ct]):
                continue
            if not op.sparse_transpose:
                ct = [np.zeros(v.aval.shape, v.aval.dtype) if c is None else c for c, v in zip(ct, outs, strict=True)]
        else:
            ct = pending.pop(outs[0], None)
            if reads and outs[0] in reads:
                ct = _gathered(ct, reads.pop(outs[0]), outs[0].aval)
            if ct is None:
                continue
        if op.place_read is not None and type(args[0]) is Variable and op.place_read(params):
            reads.setdefault(args[0], []).append((params["template"], ct))
            continue
        rule = op.transpose
        if strong and op.strong_transpose is not None:
            rule = functools.partial(op.strong_transpose, either=either)
        if rule is None:
            raise RuleMissingError(
                f"the operator `{op.name}` has no transpose.",
                "reverse mode walks the linear program backwards, operator by operator",
                "use forward mode (jvp, jacfwd) through this operator",
            )
        if observer is not None:
            rule = observer.transposing(op, rule)
        if len(args) == 2:  # spelled out, as in the tensors' process: this is the loop reverse mode spends its time in
            x, y = args
            left, right = type(x) is Variable, type(y) is Variable
            c, d = rule(ct, x.aval if left else x, y.aval if right else y, **params)
            if left and c is not None:
                known = pending.get(x)
                pending[x] = c if known is None else known + c
            if right and d is not None:
                known = pending.get(y)
                pending[y] = d if known is None else known + d
            continue
        results = rule(ct, *[a.aval if type(a) is Variable else a for a in args], **params)
        for a, c in zip(args, results, strict=True):
            if c is not None and type(a) is Variable:
                known = pending.get(a)
                pending[a] = c if known is None else known + c
    return [_gathered(pending.get(v), reads[v], v.aval) if v in reads else pending.get(v) for v in program.inputs]


def _gathered(ct, reads: list, aval: Aval):
    """Add the cotangents of entries (or rows) that were read one by one, all in one scatter: O(n) for n reads."""
    by_length: dict[int, list] = {}
    for read in reads:
        by_length.setdefault(len(read[0]), []).append(read)
    for length, group in by_length.items():
        if len(group) == 1:
            template, value = group[0]
            c = index_add(value, template=template, shape=aval.shape)
        else:
            positions = np.array([template for template, _ in group], np.intp)
            values = stack(*[value for _, value in group], axis=0)
            c = index_add(values, *positions.T, template=(ARRAY,) * length, shape=aval.shape)
        ct = c if ct is None else ct + c
    return ct


def pull_back(program: Program, cotangents: list) -> list:
    """Walk back plainly, and again with strong zeros if anything came out NaN: 0·∞ beside a pole costs only then."""
    program = unpacked(program)
    if (watch := active()) is not None:
        return watch.pulled(
            lambda walk: _walked_back(program, cotangents, walk),
            lambda walk: backward(program, cotangents, strong=True, walk=walk),
        )
    return _walked_back(program, cotangents)


def _walked_back(program: Program, cotangents: list, walk: Callable | None = None) -> list:
    # A hook is called once per pull: where there is one, strong zeros come first and there is no second walk.
    strong = any([step[0].effect for step in program.steps])
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        results = backward(program, cotangents, strong=strong, walk=logged_walk(walk))
        if not strong and any([_may_be_nan(r) for r in results]):
            results = backward(program, cotangents, strong=True, walk=walk)
            if not all([_is_known(r) for r in results]):
                _note_unsure(results)
            elif any([_may_be_nan(r) for r in results]):
                results = _as_forwards(program, cotangents, results)
    return results


def _note_unsure(results: list) -> None:
    """Note on programs being written that their numbers, if NaN, are not what a pass over known values would give."""
    for r in results:
        if isinstance(bottom := _bottom(r), Staged):
            bottom.level.unsure = True


# Forwards, a factor that is exactly zero makes the tangent exactly zero, and no pole after it brings it back: √(x·x)
# at 0 has the derivative ∞·(0·t) = 0. Backwards the pole comes first, and 0·(∞·c) is NaN. A third walk, in which zero
# constants are strong too, finds the zero; but it would also find one where the pole comes first forwards, as in
# (√x)³ at 0, and the limit may be anything. So forward mode is asked: J t for one direction t along the entries in
# question has to satisfy c·(J t) = (Jᵀ c)·t, or NaN it remains.


def _as_forwards(program: Program, cotangents: list, results: list) -> list:
    """Replace NaN by what zero factors beside infinite cotangents leave, where forward mode says the same."""
    others = backward(program, cotangents, strong=True, either=True)
    open_ = [
        None if r is None else np.logical_and(np.isnan(r), np.isfinite(other))
        for r, other in zip(results, others, strict=True)
    ]
    if not any([isinstance(mask, Tracer) or np.any(mask) for mask in open_ if mask is not None]):
        return results
    along, expected, size = [], 0.0, 0.0
    for variable, other, mask in zip(program.inputs, others, open_, strict=True):
        direction = np.cos(1.0 + np.arange(variable.aval.size)).reshape(variable.aval.shape).astype(variable.aval.dtype)
        zero = np.zeros((), variable.aval.dtype)
        along.append(np.zeros_like(direction) if mask is None else np.where(mask, direction, zero))
        if mask is not None:
            terms = np.where(mask, other, zero) * along[-1]
            expected, size = expected + np.sum(terms), size + np.sum(np.abs(terms))
    images = evaluate(program, along)
    found = sum([np.sum(c * y) for c, y in zip(cotangents, images, strict=True) if c is not None], 0.0)
    agrees = np.abs(found - expected) <= _AGREEMENT * size
    return [
        r if mask is None else np.where(np.logical_and(mask, agrees), other, r)
        for r, other, mask in zip(results, others, open_, strict=True)
    ]


#: of the dot products of the two modes, also in single precision
_AGREEMENT = 1e-3


def _is_known(x) -> bool:
    """Say whether there are numbers beneath our own tensors: not a program's variables, nor another's tensors."""
    return not isinstance(_bottom(x), (Tracer, Lazy))


def _bottom(x):
    while isinstance(x, (Dual, Batched)):
        x = x._primal if isinstance(x, Dual) else x._value
    return x


def _may_be_nan(x) -> bool:
    if x is None or isinstance(x, Staged):
        return x is not None
    if isinstance(x, Dual):
        return _may_be_nan(x._primal) or (not isinstance(x._tangent, Staged) and _may_be_nan(x._tangent))
    if isinstance(x, Batched):
        return _may_be_nan(x._value)
    if isinstance(x, Lazy):
        return _may_be_nan(x.value())
    if isinstance(x, (np.ndarray, np.generic)):
        flat = x.ravel()
        total = flat.dot(flat)
        return bool(total != total)
    if isinstance(x, Tracer):
        return True  # of somebody else's level, whose values are not ours to ask
    return bool(np.isnan(x).any())
