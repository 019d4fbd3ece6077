"""The walk back through a linear program: how reverse mode runs.

For: ``backward``, one transposed pass, and ``pull_back``, which repeats it with strong zeros where 0·∞ came out NaN.
Not for: the linear program (``vjp_via_transpose.py``) or any operator's transpose (``ops/``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..base.log import is_logged, log
from ..batched import Batched
from ..core.constants import zeros_matching_library
from ..core.contexts import active, everywhere, in_use, note, process_wide, walking_back
from ..core.tracer import PLAIN, Tracer, beneath
from ..dual import Dual
from ..errors import RuleMissingError
from ..ops.joining import scatter_cotangents
from ..ops.kinds import is_finite, known_value
from ..program.ir import Program, programs_in
from ..program.packed import PackedProgram, unpack_constants
from ..program.variable import Variable
from ..tensors.lazy import Lazy, zero_question
from ..tensors.staged import Staged
from .liveness import Liveness, OpaqueError, PoleParts

__all__ = ["backward", "in_dtype", "pull_back"]


def backward(program: Program, cotangents: list, zeros: Liveness | None = None, walk: Callable | None = None) -> list:
    """Transpose a linear program: cotangents of its outputs in, cotangents of its inputs out (``None`` is zero).

    If y = A x is a chain of linear equations, Aᵀ c is the chain of their transposes in reverse order, and a variable
    used several times receives the sum: one loop over a flat list. ``zeros`` decides which zeros are strong beside an
    infinity; without it 0·∞ is NaN. ``walk(steps, pending)`` yields the steps last to first, and may look at the
    cotangents between two of them.
    """
    pending: dict[Variable, Any] = {}
    reads: dict[Variable, list] = {}
    for out, ct in zip(program.outputs, cotangents, strict=True):
        if type(out) is Variable and ct is not None:
            pending[out] = pending[out] + ct if out in pending else ct
    take = pending.pop
    observer = process_wide() if everywhere else None
    if walk is not None:
        steps = walk(program.steps, pending)
    else:
        steps = reversed(program.recorded if observer is None else program.steps)
    if observer is not None:
        steps = observer.walk(program, steps, "transpose")
    unasked = zeros is None and observer is None
    for op, args, params, outs in steps:
        rule = op.transpose
        if unasked and op.alone and not reads:  # nearly every step
            ct = take(outs[0], None)
            if ct is None:
                continue
        else:
            ct = _gather(op, outs, take, reads, zeros)
            if ct is None:
                continue
            if op.place_read is not None and type(args[0]) is Variable and op.place_read(params):
                reads.setdefault(args[0], []).append((params["template"], ct))
                if zeros is not None:
                    zeros.read(args[0], params["template"], outs[0])
                continue
            if rule is not None and zeros is not None:
                rule = zeros.rule(op, args, outs)
            if rule is not None and observer is not None:
                rule = observer.transposing(op, rule)
        if rule is None:
            raise RuleMissingError(
                f"the operator `{op.name}` has no transpose.",
                "reverse mode walks the linear program backwards, operator by operator",
                "use forward mode (jvp, jacfwd) through this operator",
            )
        if len(args) == 2:  # spelled out, as in the tensors' process: this is the loop reverse mode spends its time in
            x, y = args
            left, right = type(x) is Variable, type(y) is Variable
            a, b = x.aval if left else x, y.aval if right else y
            c, d = rule(ct, a, b, **params) if params else rule(ct, a, b)
            if left and c is not None:
                pending[x] = pending[x] + c if x in pending else c
            if right and d is not None:
                pending[y] = pending[y] + d if y in pending else d
            continue
        results = rule(ct, *[a.aval if type(a) is Variable else a for a in args], **params)
        for a, c in zip(args, results, strict=True):
            if c is not None and type(a) is Variable:
                pending[a] = pending[a] + c if a in pending else c
    if not reads:
        return list(map(pending.get, program.inputs))
    return [
        scatter_cotangents(pending.get(v), reads[v], v.aval) if v in reads else pending.get(v) for v in program.inputs
    ]


def _gather(op, outs: Sequence[Variable], take: Callable, reads: dict[Variable, list], zeros: Liveness | None) -> Any:
    """Return the cotangents that have arrived at a step: a list for several results; ``None`` if there are none."""
    if zeros is not None and reads:
        for v in outs:
            zeros.gather(v)
    ct = [scatter_cotangents(take(v, None), reads.pop(v), v.aval) if v in reads else take(v, None) for v in outs]
    if not op.multiple_results:
        return ct[0]
    if all([c is None for c in ct]):
        return None
    if op.kind == "control":  # its body is a program for one dtype, whatever a wider factor has made of a cotangent
        ct = [None if c is None else in_dtype(c, v.aval.dtype) for c, v in zip(ct, outs, strict=True)]
    if not op.sparse_transpose:
        ct = [
            zeros_matching_library(v.aval.shape, v.aval.dtype, *ct) if c is None else c
            for c, v in zip(ct, outs, strict=True)
        ]
    return ct


def in_dtype(ct: Any, dtype: np.dtype) -> Any:
    """Return a tangent or cotangent in the dtype of what it belongs to, as it is if it has it."""
    if ct.dtype == dtype:
        return ct
    return (np.real(ct) if ct.dtype.kind == "c" and dtype.kind != "c" else ct).astype(dtype)


def pull_back(program: Program, cotangents: list, seeds: str = "dead", others: list | None = None) -> list:
    """Walk back plainly, and again with an eye on zeros if something came out infinite or NaN: a pole costs only then.

    ``seeds`` says what zeros among the cotangents are (``Liveness``). Arrays of other libraries (``others``) are not
    asked for NaN: there is one walk, with an eye on zeros.
    """
    if type(program) is PackedProgram:
        program = unpack_constants(program)
    if in_use and (watch := active()) is not None:
        return watch.pulled(
            lambda walk: _walk_back(program, cotangents, walk, seeds, others is not None),
            lambda walk: backward(program, cotangents, Liveness(program, cotangents, seeds=seeds), walk),
        )
    once, walk = others is not None, walking_back.get()
    if walk is not None:
        return walk(program, cotangents, seeds, lambda: _walk_back(program, cotangents, None, seeds, once))
    return _walk_back(program, cotangents, None, seeds, once)


def _walk_back(program: Program, cotangents: list, walk: Callable | None, seeds: str, once: bool) -> list:
    # A hook is called once per pull: where there is one, there is no second walk.
    plain = program.plain
    for c in cotangents:
        plain = plain and (type(c) in PLAIN or c is None)
    once = once or (not plain and _has_effect(program))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if not once and (plain or not _being_written(program, cotangents)):
            results = backward(program, cotangents, walk=_logged(walk))
            if not any([_has_nan(r) for r in results]):
                return results
        zeros = Liveness(program, cotangents, seeds=seeds)
        results = backward(program, cotangents, zeros, _logged(walk) if once else walk)
        if not all([r is None or known_value(r) is not None for r in results]):
            note("numbers")
        elif not once and any([_has_nan(r) for r in results]):
            results = _without_collisions(program, cotangents, results, seeds)
    return results


def _logged(walk: Callable | None) -> Callable | None:
    """Return a walk that logs each transposed equation, if ``logging.getLogger("dualad")`` is at DEBUG."""
    if not is_logged("DAL008"):
        return walk
    return lambda steps, pending: _logging(reversed(steps) if walk is None else walk(steps, pending), pending)


def _logging(steps: Iterable[tuple], pending: dict) -> Iterator[tuple]:
    for step in steps:
        op, _, params, outs = step
        if any([v in pending for v in outs]):
            name, line = getattr(params.get("call"), "name", None), getattr(step, "line", "")
            log(
                "DAL008", "transpose %s%s of %s%s", op.name, f" of `{name}`" if name else "",
                ", ".join([repr(v.aval) for v in outs]), f" at {line}" if line else "",
                op=op.name, line=line,
            )  # fmt: skip
        yield step


def _has_effect(program: Program) -> bool:
    """Whether there is a hook in a program or in a body, which is written down anew for each walk."""
    for op, _, params, _ in program.recorded:
        if op.alone:
            continue
        if op.effect or (
            op.marked_transpose is not None and "program" not in params and any(map(_has_effect, programs_in(params)))
        ):
            return True
    return False


#: the last equations of a program, which a walk meets first
_FIRST_MET = 8


def _being_written(program: Program, cotangents: list) -> bool:
    """Whether the walk is certain to end in variables of a program, which no plain walk can tell from NaN."""
    atoms = [*cotangents, *[a for _, args, _, _ in program.recorded[-_FIRST_MET:] for a in args]]
    return any([isinstance(a, Tracer) and type(beneath(a)) is Staged for a in atoms])


def _without_collisions(program: Program, cotangents: list, results: list, seeds: str) -> list:
    """Replace NaN that is ∞ − ∞ of one and the same pole, where forward mode does not reach it."""
    parts = PoleParts(program, cotangents, seeds=seeds)
    try:
        with zero_question():
            finite = backward(program, parts.cotangents, parts)
    except OpaqueError:
        return results
    return [parts.settle(v, r, f) for v, r, f in zip(program.inputs, results, finite, strict=True)]


def _has_nan(x) -> bool:
    """Whether a result holds NaN, or may, as one that is a program's, another level's or another library's."""
    if isinstance(x, Dual):
        return _has_nan(x._primal) or (not isinstance(x._tangent, Staged) and _has_nan(x._tangent))
    if type(x) is np.ndarray or isinstance(x, np.number):
        return not is_finite(x) and bool(np.isnan(x).any())
    if x is None:
        return False
    if isinstance(x, Batched):
        return _has_nan(x._value)
    if isinstance(x, Lazy):
        return _has_nan(x.value())
    return isinstance(x, Tracer) or known_value(x) is None or not (is_finite(x) or not np.isnan(x).any())
