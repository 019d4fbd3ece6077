"""Values by products in internal variables: what a program does to entries that it has taken from its inputs.

A function that is made of many small ones, such as a sum over lines of a grid, springs or observations, takes entries
of x apart, does the same to all, and adds up:

    J = S B G + C

S, G and C are matrices of constants. B is the Jacobian in between, in the *internal variables* G x (Griewank,
Toint, *On the unconstrained optimization of partially separable functions*, 1982). It takes as many products as one of
the small functions has variables, however many of them share an entry of x. The entries of J are sums of those of B
with constant weights.

For: ``Internal``, a plan for programs of one form, where it is known which arrays are the same at every point: while a
function is compiled. Not for: products in the entries of x themselves (``coloured.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..ops.indexing import ARRAY, index, index_add
from ..program.ir import Program, live_steps, stays
from ..program.variable import Step, Variable
from .direct import NoValues, Plan
from .greedy import color_columns
from .needs import scipy_sparse
from .walk import TooDense, follow

__all__ = ["Internal"]

#: operators that may stand on either side of a border, if fewer variables cross it then
_EITHER = frozenset({"add", "multiply", "negative", "subtract"})
#: what it costs to read, weigh and add an entry, in numbers of an intermediate result
_MOVE = 12.0
#: up to this many rows, each has an entry of its own, be it zero
_DENSE = 0.3


class Internal:
    """How entries of a matrix, given by their rows and columns, are found for linear programs of one form.

    Entries that are not among these are zero, or not wanted. ``limit`` is how many may be held.
    """

    def __init__(self, program: Program, rows: np.ndarray, columns: np.ndarray, limit: int) -> None:
        parts = _Cut(program)
        made = [v for s in program.steps for v in s.outs]
        if not parts.ends or any([v.aval.dtype != np.float64 for v in (*program.inputs, *made)]):
            raise NoValues
        if any([stays(s.op, s.params) for s in program.steps]):
            raise NoValues  # every product would repeat it
        ends, sizes = [v.aval.size for v in parts.ends], [v.aval.size for v in parts.cut]
        out, inner = sum(ends), sum(sizes)
        S, G = _matrix(parts.tail, limit), _matrix(parts.head, limit)
        pattern = follow(parts.core, sizes, True, limit)[0]
        colors = color_columns(pattern)
        #: of each product, what goes in: ones, zeros (``None``) or both
        self._seeds = [_seeds(colors == c, parts.cut) for c in range(int(colors.max(initial=-1)) + 1)]
        wanted = rows.astype(np.int64) * G.shape[1] + columns
        T = _weights(S[:, :out], G[:inner], pattern, colors, wanted, limit)
        if not T.nnz:
            raise NoValues  # nothing changes
        fixed = (S[:, out:] @ G[inner:]).tocoo()
        at, known = _found(fixed.row.astype(np.int64) * G.shape[1] + fixed.col, wanted)
        #: the same at every point
        self._constant = _frozen(np.bincount(at, fixed.data[known], len(wanted)) if len(at) else None)
        self._size = len(wanted)
        starts = np.cumsum([0, *ends * len(self._seeds)])
        holds = np.unique(np.searchsorted(starts, T.indices, "right") - 1)
        #: the results that entries are read from: of which product, and the number among the ends
        self._blocks = [divmod(int(b), len(ends)) for b in holds]
        begins = np.zeros(len(starts), np.int64)
        begins[holds] = np.cumsum([0, *[ends[k] for _, k in self._blocks]])[:-1]
        block = np.searchsorted(starts, T.indices, "right") - 1
        T.indices = T.indices - starts[block] + begins[block]
        #: the sums that entries are; behind the results there is a zero
        self._layers = _layers(T, sum([ends[k] for _, k in self._blocks]))
        total = max(sum([v.aval.size for v in made]), 1)
        #: what it costs, in products
        self.cost = (sum([_reached(parts.core, s) for s in self._seeds]) + _MOVE * T.nnz) / total

    def explain(self) -> str:
        """Say how many products there are, and what they cost."""
        return f"{len(self._seeds)} products in internal variables, at the cost of {self.cost:.3g}"

    def values(self, program: Program) -> Any:
        """Return the entries for a program of this form."""
        core = _Cut(program).core
        found = [_pushed(core, seeds) for seeds in self._seeds]
        parts = [np.reshape(found[c][k], -1) for c, k in self._blocks]
        whole = np.concatenate([*parts, np.zeros(1)])
        data: Any = self._constant
        for into, at, weights in self._layers:
            picked = index(whole, at, template=(ARRAY,))
            part = picked if weights is None else picked * weights
            if into is not None:
                part = bind(index_add, (part, into), {"template": (ARRAY,), "shape": (self._size,)})
            data = part if data is None else data + part
        return data


def _matrix(program: Program, limit: int) -> Any:
    """Return the matrix of a linear program of constants, without its zeros."""
    plan = Plan(program, [v.aval for v in program.inputs], limit)
    m = plan.matrix
    out = scipy_sparse().csr_array((plan.values(program), m.indices, m.indptr), shape=m.shape)
    out.eliminate_zeros()
    return out


def _weights(S: Any, G: Any, pattern: Any, colors: np.ndarray, wanted: np.ndarray, limit: int) -> Any:
    """Return the matrix that makes entries of S B G of the products with B, one product after the other.

    ``wanted`` are the numbers of the entries in the flat result.
    """
    out, n, m = pattern.shape[0], G.shape[1], int(colors.max(initial=-1)) + 1
    row = np.repeat(np.arange(out, dtype=np.int64), np.diff(pattern.indptr))
    places = colors[pattern.indices] * np.int64(out) + row
    if len(np.unique(places)) != len(places):
        raise AssertionError("two columns of one colour meet in a row, which greedy colouring excludes")
    left, right = S.tocsc()[:, row].tocsc(), G[pattern.indices]
    high, wide = np.diff(left.indptr).astype(np.int64), np.diff(right.indptr).astype(np.int64)
    each = high * wide
    if (total := int(each.sum())) > limit:
        raise TooDense(None)
    entry = np.repeat(np.arange(len(places)), each)
    k = np.arange(total) - np.repeat(np.cumsum(each) - each, each)
    a, b = left.indptr[entry] + k // wide[entry], right.indptr[entry] + k % wide[entry]
    at, known = _found(left.indices[a] * np.int64(n) + right.indices[b], wanted)
    weights = (left.data[a] * right.data[b])[known]
    T = scipy_sparse().coo_array((weights, (at, places[entry[known]])), shape=(len(wanted), m * out)).tocsr()
    T.eliminate_zeros()
    return T


def _found(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where among the wanted, which are sorted, keys are found, and which of the keys are."""
    at = np.searchsorted(wanted, keys)
    known = np.append(wanted, -1)[at] == keys
    return at[known], known


def _layers(T: Any, zero: int) -> list[tuple]:
    """Return sums of entries in layers: the rows that have another entry, which it is, and what it is weighed by.

    As long as many rows have one, it is one for each, a ``zero`` for those that have none; then all that are left.
    """
    (m, _), out = T.shape, []
    first, left = T.indptr[:-1].astype(np.int64), np.diff(T.indptr)
    rank = np.arange(T.nnz) - np.repeat(first, left)
    for k in range(int(left.max(initial=0))):
        has = left > k
        if k and has.sum() < _DENSE * m:
            late = rank >= k
            out.append((np.repeat(np.arange(m), left)[late], T.indices[late], T.data[late]))
            break
        here = np.where(has, first + k, T.nnz)
        out.append((None, np.append(T.indices, zero)[here], np.append(T.data, 1.0)[here]))
    return [(_frozen(into), _frozen(at), None if (w == 1).all() else _frozen(w)) for into, at, w in out]


def _frozen(x: Any) -> Any:
    """Return an array that nobody can write to, so that it is a constant of compiled programs."""
    if x is not None:
        x.setflags(write=False)
    return x


def _seeds(mine: np.ndarray, variables: Sequence[Variable]) -> list[np.ndarray | None]:
    """Return ones where a product is to have ones, as arrays like the variables; ``None`` for one of zeros."""
    out: list[np.ndarray | None] = []
    for v, part in zip(variables, np.split(mine, np.cumsum([v.aval.size for v in variables])[:-1]), strict=True):
        out.append(_frozen(part.reshape(v.aval.shape).astype(v.aval.dtype) if part.any() else None))
    return out


def _reached(core: Program, seeds: list) -> int:
    """Return how many numbers a product makes that are not zero."""
    reached = {v for v, seed in zip(core.inputs, seeds, strict=True) if seed is not None}
    for step in core.steps:
        if not reached.isdisjoint(_read(step)):
            reached.update(step.outs)
    return sum([v.aval.size for s in core.steps for v in s.outs if v in reached])


def _pushed(core: Program, seeds: list) -> list:
    """Apply a linear program to seeds; ``None`` is zero, in results too, and takes no part in sums."""
    env = dict(zip(core.inputs, seeds, strict=True))
    for op, args, params, outs in core.recorded:
        read = [type(a) is Variable for a in args]
        given = [env[a] if is_variable else a for a, is_variable in zip(args, read, strict=True)]
        if all([x is None for x, is_variable in zip(given, read, strict=True) if is_variable]):
            env.update(dict.fromkeys(outs))
            continue
        shape = outs[0].aval.shape
        if op.name in ("add", "subtract") and any([x is None for x in given]):
            other = given[0] if given[1] is None else given[1] if op.name == "add" else -given[1]
            env[outs[0]] = other if np.shape(other) == shape else np.broadcast_to(other, shape)
            continue
        given = [np.zeros(a.aval.shape) if x is None else x for x, a in zip(given, args, strict=True)]
        out = bind(op, given, params)
        env.update(zip(outs, out if op.multiple_results else (out,), strict=True))
    return [env[v] for v in core.outputs]


class _Cut:
    """A linear program in three parts: constant before, what changes, constant behind.

    ``cut`` are the variables that go into the middle, ``ends`` those that come out of it.
    """

    def __init__(self, program: Program) -> None:
        before, head, rest = set(program.inputs), [], []
        for step in program.steps:
            if _is_constant(step) and before.issuperset(_read(step)):
                head.append(step)
                before.update(step.outs)
            else:
                rest.append(step)
        core, tail = list[Step](), list[Step]()
        inner = set[Variable]()
        for step in reversed(rest):
            if _is_constant(step) and inner.isdisjoint(step.outs):
                tail.append(step)
            else:
                core.append(step)
                inner.update(_read(step))
        core, tail = _with_sums(core[::-1], tail[::-1], program.outputs)
        core = _with_multiples(head, core)
        made = {v for s in core for v in s.outs}
        behind = _distinct([*[v for s in tail for v in _read(s)], *[v for v in program.outputs if type(v) is Variable]])
        self.cut = _distinct([v for s in core for v in _read(s) if v not in made])
        self.ends = [v for v in behind if v in made and v not in before]
        past = [v for v in behind if v in before]
        self.head = Program(program.inputs, live_steps(head, [*self.cut, *past]), [*self.cut, *past])
        self.core = Program(self.cut, core, self.ends)
        self.tail = Program([*self.ends, *past], tail, program.outputs)


def _read(step: Step) -> list[Variable]:
    return [a for a in step.args if type(a) is Variable]


def _distinct(variables: Iterable[Variable]) -> list[Variable]:
    return list(dict.fromkeys(variables))


def _is_constant(step: Step) -> bool:
    """Whether a step is the same linear map at every point."""
    return step.op.kind != "control" and not any([isinstance(a, Tracer) for a in step.args])


def _may_cross(step: Step) -> bool:
    """Whether a step makes one number of one of each argument, simply."""
    return step.op.name in _EITHER and all([v.aval.shape == step.out.aval.shape for v in _read(step)])


def _with_sums(core: list[Step], tail: list[Step], outputs: Sequence) -> tuple[list[Step], list[Step]]:
    """Move sums of what comes out of the core into it, where that makes no more variables come out."""
    made = {v for s in core for v in s.outs}
    readers = Counter([v for s in tail for v in _read(s)] + [v for v in outputs if type(v) is Variable])
    left = []
    for step in tail:
        read = _read(step)
        if _may_cross(step) and made.issuperset(read) and any([readers[v] == read.count(v) for v in read]):
            core.append(step)
            made.add(step.out)
            readers.subtract(read)
        else:
            left.append(step)
    return core, left


def _with_multiples(head: list[Step], core: list[Step]) -> list[Step]:
    """Return the core with multiples, and sums of what goes in anyway: no more variables go in then."""
    inner = {v for s in core for v in _read(s)}
    moved = []
    for step in reversed(head):
        read = set(_read(step))
        if step.outs[0] in inner and _may_cross(step) and len(read - inner) <= (len(read) == 1):
            moved.append(step)
            inner |= read
    return [*moved[::-1], *core]
