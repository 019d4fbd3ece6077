"""Arrays that a loop changes at a few places at each turn: in memory, at the cost of the entries that change.

A turn adds entries to such a *carry*, or puts others in their place. What it makes of the carry is a tree of these
changes (``Changed``), which is asked for entries one by one; all are read before the first is written, at the end of
the turn. So what it reads is what NumPy would, where an index is read, then written, then read again. Not for: loops
themselves (``loops.py``), or carries that are in registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.aval import Aval, is_weak
from ...ops.indexing import INDEXED
from ...program.ir import Program
from ...program.variable import Step, Variable
from .code import Code, Lanes
from .indices import each_entry, entries_of, place_of
from .operators import BOOL, LONG, TYPES, Refused
from .positions import Places, is_computed, places_of
from .values import Values, at, join_entries, load_lanes, store_lanes, take

__all__ = ["Changed", "change", "read_changed", "written_in_place"]

#: entries of a carry in memory that one change is about
_CHANGED = 256
#: the tree that is the carry as it was at the beginning of the turn
_CARRY = ("carry",)


class _Spots(NamedTuple):
    """Places of an array: of each the offset; and what they have in common with others that may mean the same ones."""

    key: tuple
    offsets: list[str]


def _key(where: Places, template: tuple, arrays: Sequence[Any]) -> tuple:
    """A key that two indices share if entry k of the one can alias only the k-th of the other."""
    left = list(arrays)
    found: list[Any] = [where.shape, where.out]
    taken = len([e for e in template if e is not None])
    for e in (*template, *[(0, n, 1) for n in where.shape[taken:]]):
        a = left.pop(0) if type(e) is str else None
        if e is None or type(e) is tuple:
            found.append(e)
        elif isinstance(a, np.ndarray) and a.size > 1:
            found.append((a.shape, a.dtype.str, a.tobytes()))
        else:
            found.append("one")
    return tuple(found)


def _spots(code: Code, arrays: Sequence[Values], where: Places, key: tuple) -> _Spots:
    static, which, moves = entries_of(code, where, arrays)
    return _Spots(key, [place_of(code, moves[which[k]], int(static[k])) for k in range(len(static))])


class Changed(Values):
    """A carry in memory after some changes: the tree of them."""

    __slots__ = ("code", "tree")

    @property
    def is_changed(self) -> bool:
        return self.tree is not _CARRY

    def __init__(self, code: Code, aval: Aval, pointer: str, tree: tuple = _CARRY) -> None:
        super().__init__(aval, pointer=pointer)
        self.code, self.tree = code, tree

    def entry(self, spots: _Spots, k: int) -> str:
        """Return the entry at the k-th of some places."""
        return self._entry(self.tree, spots, k)

    def _entry(self, tree: tuple, spots: _Spots, k: int) -> str:
        b = Lanes(self.code, self.aval.dtype, 1)
        kind = tree[0]
        if kind == "carry":
            return load_lanes(b, at(self.code, self.pointer, self.aval.dtype, spots.offsets[k]))
        if kind == "sum":
            return b.add(self._entry(tree[1], spots, k), self._entry(tree[2], spots, k))
        _, others, value, below = tree
        if others.key != spots.key:
            raise Refused("places that may be those of other entries")
        x = take(self.code, value, np.array([k]), 1)
        here, there = spots.offsets[k], others.offsets[k]
        same = "true" if here == there else Lanes(self.code, LONG, 1).compare("eq", here, there)
        if below is None:
            return b.select(same, b.add(x, 0), 0)
        return b.select(same, x, self._entry(below, spots, k))

    def spots(self) -> list[_Spots]:
        """Return all places where it may have changed."""
        found: list[_Spots] = []
        pending: list[Any] = [self.tree]
        while pending:
            tree = pending.pop()
            if tree and tree[0] == "sum":
                pending += tree[1:]
            elif tree and tree[0] == "spots":
                found.append(tree[1])
                pending.append(tree[3])
        return found

    def write(self, turn: str) -> None:
        """Write the changes to memory; nothing of the old contents is read after this."""
        code, b, done = self.code, Lanes(self.code, self.aval.dtype, 1), []
        for spots in self.spots():
            done += [(p, self.entry(spots, k)) for k, p in enumerate(spots.offsets)]
        if self.tree[0] == "sum" and b.dtype.kind == "f":  # a sum with zeros makes 0.0 of each -0.0, and none of others
            with code.when(code.new(f"icmp eq i64 {turn}, 0")):
                entry = lambda w, i: w.add(load_lanes(w, at(code, self.pointer, w.dtype, i)), 0.0)
                each_entry(code, self.aval, entry, self.pointer)
        for p, x in done:
            store_lanes(b, x, at(code, self.pointer, self.aval.dtype, p))


def read_changed(lowering: Any, step: Step, args: Sequence[Values]) -> Values:
    """Read entries of a carry in memory after some changes."""
    code, x, params, out = lowering.code, args[0], step.params, step.out.aval
    where = Places(params["template"], x.aval.shape, [a.aval.shape for a in args[1:]])
    spots = _spots(code, args[1:], where, _key(where, params["template"], step.args[1:]))
    return join_entries(code, out, [x.entry(spots, k) for k in range(out.size)])  # type: ignore[attr-defined]


def change(lowering: Any, step: Step, args: Sequence[Values]) -> Values:
    """Return a carry in memory, or the sum added to one, after one change more."""
    op, atoms, params, (v,) = step
    code, pointer = lowering.code, next((a.pointer for a in args if isinstance(a, Changed) and a.pointer), "")
    if op.name == "add":
        left, right = args
        return Changed(code, v.aval, pointer, ("sum", left.tree, right.tree))  # type: ignore[attr-defined]
    first = INDEXED[op.name]
    where = Places(params["template"], v.aval.shape, [a.aval.shape for a in args[first:]])
    spots = _spots(code, args[first:], where, _key(where, params["template"], atoms[first:]))
    below = args[0].tree if op.name == "index_set" else None  # type: ignore[attr-defined]
    return Changed(code, v.aval, pointer, ("spots", spots, args[first - 1], below))


def written_in_place(
    body: Program, inputs: Sequence[Variable], results: Sequence[Any], small: int
) -> dict[int, set[Variable]]:
    """Return the carries of a loop's body that can be in memory: by number, the variables that are trees of changes.

    ``inputs`` and ``results`` are the carries at the beginning of a turn and at its end; an array of up to ``small``
    entries may be in registers.
    """
    maker = {v: step for step in body.steps for v in step.outs}
    found = {}
    for i, (start, end) in enumerate(zip(inputs, results, strict=True)):
        nodes: set[Variable] = set()
        if start.aval.dtype in TYPES and start.aval.shape and not is_weak(start.aval) and end is not start:
            try:
                keys: set[tuple] = set()
                kept = _chain(end, start, maker, nodes, keys)
                large = start.aval.size > small or any([is_computed(maker[v]) for v in nodes])
                if kept and large and len(keys) == 1 and _is_kept_apart(body, start, nodes, keys):
                    found[i] = nodes
            except (Refused, KeyError):
                continue
    return found


def _step_key(step: Step) -> tuple:
    op, args, params, _ = step
    where = places_of(op.name, args, params)
    if math.prod(where.out) > _CHANGED or not where.is_apart(args[INDEXED[op.name] :]):
        raise Refused("places that may be the same")
    return _key(where, params["template"], args[INDEXED[op.name] :])


def _chain(v: Any, start: Variable, maker: dict, nodes: set, keys: set) -> bool:
    """Return whether a carry can be followed from the end of an iteration to its beginning."""
    if v is start:
        return True
    if type(v) is not Variable or v.aval != start.aval or is_weak(v.aval):
        raise Refused("no change of a carry")
    step = maker[v]
    op, args = step[:2]
    nodes.add(v)
    if op.name == "index_add":
        keys.add(_step_key(step))
        return False
    if op.name == "index_set":
        keys.add(_step_key(step))
        return _only(
            _chain(args[0], start, maker, nodes, keys)
            and not (start.aval.dtype.kind == "f" and _adds(args[0], start, maker))
        )
    if op.name == "add" and v.aval.dtype != BOOL:
        both = [_chain(a, start, maker, nodes, keys) for a in args]
        if all(both):
            raise Refused("a carry that is doubled")
        return any(both)
    raise Refused("no change of a carry")


def _only(kept: bool) -> bool:
    # A value put in the place of a sum might be -0.0, of which the next sum makes 0.0: also where nothing is added.
    if not kept:
        raise Refused("entries in the place of a sum")
    return True


def _adds(v: Any, start: Variable, maker: dict) -> bool:
    return v is not start and (maker[v][0].name == "add" or _adds(maker[v][1][0], start, maker))


def _is_kept_apart(body: Program, start: Variable, nodes: set, keys: set) -> bool:
    """Whether a carry and its changes are used for nothing else than changes, and reading by indices."""
    own = {start, *nodes}
    if sum([o in own for o in body.outputs if type(o) is Variable]) != 1:
        return False
    for step in body.steps:
        op, args, params, outs = step
        used = [a for a in args if type(a) is Variable and a in own]
        if not used or (outs[0] in nodes and op.name == "add"):
            continue
        if used != [args[0]] or (op.name != "index" and not (op.name == "index_set" and outs[0] in nodes)):
            return False
        if op.name == "index_set":
            continue
        where = places_of("index", args, params)
        # After a change, only entries of which it is known whether they have changed.
        if args[0] in nodes and keys != {_key(where, params["template"], args[1:])}:
            return False
    return True
