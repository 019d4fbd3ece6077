"""Proofs that equations which were put into groups are still the equations of the program.

Groups do not rename variables. So each equation is there as it was, once, after what it reads, those with effects in
their order, and no group hides what others read; rewritten equations (an index in parts, a product as a sum) are
compared one by one. Not for: what simplification and loops do (``validate.py``), or the code of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..program.ir import Program
from ..program.variable import Step, Variable, aval_of_atom
from .native.equations import Equations
from .validate import DifferentProgram, are_one, check_same, has_effect

__all__ = ["check_groups", "regroup"]

#: an axis of one entry, or none: there is nothing to tell them apart by
_ONE = -1
_PRODUCTS = {(2, 1): "ij,j->i", (1, 2): "i,ij->j", (1, 1): "i,i->"}


def regroup(find: Callable[[Program], Sequence[Step]], program: Program) -> Sequence[Step]:
    """Return the equations that ``find`` makes of a program's; raise if they are not shown to be the same."""
    steps = find(program)
    if steps is not program.steps:
        check_groups(program, steps)
    return steps


def check_groups(program: Program, steps: Sequence[Step]) -> None:
    """Raise ``DifferentProgram`` unless equations, some of them in groups, are shown to be those of a program."""
    made: dict[Variable, Step] = {}
    #: variable -> the group that keeps it for itself
    kept: dict[Variable, Any] = {}
    there = set(program.inputs)

    def read(name: str, atoms: Sequence, group: Any) -> None:
        for a in atoms:
            if type(a) is Variable and (a not in there or kept.get(a, group) is not group):
                raise DifferentProgram(f"{name} reads a {a.aval!r} that is not there")

    effects = []
    for step, group in _one_by_one(steps):
        op, args, params, outs = step
        read(f"`{op.name}`", args, group)
        if any([v in there for v in outs]):
            raise DifferentProgram(f"what `{op.name}` makes is made twice")
        there.update(outs)
        made.update(dict.fromkeys(outs, step))
        if group is not None:
            kept.update(dict.fromkeys([v for v in outs if v not in group.writes], group))
        if has_effect(op, params):
            effects.append(step)
    read("the result", program.outputs, None)
    before = [step for step, _ in _one_by_one(program.steps)]
    for step in before:
        if any([v not in made for v in step.outs]):
            raise DifferentProgram(f"`{step.op.name}` is left out")
        if not all([are_one(made[v], step) for v in step.outs]):
            _check_rewritten(step, made)
    order = [step for step in before if has_effect(step.op, step.params)]
    if len(order) != len(effects) or not all([are_one(a, b) for a, b in zip(effects, order, strict=True)]):
        raise DifferentProgram("effects have changed places")


def _one_by_one(steps: Sequence[Step]) -> Iterator[tuple[Step, Any]]:
    """Yield equations, those of groups with their group."""
    for step in steps:
        group = step.op
        if not isinstance(group, Equations):
            yield step, None
            continue
        if [id(a) for a in step.args] != [id(a) for a in group.reads] or list(step.outs) != list(group.writes):
            raise DifferentProgram("a group is given something else than what it reads, or returns something else")
        inside = {v for s in group.steps for v in s.outs}
        given = {a for a in group.reads if type(a) is Variable}
        for s in group.steps:
            for a in s.args:
                if type(a) is Variable and a not in inside and a not in given:
                    raise DifferentProgram(f"a group is not given a {a.aval!r} that it reads")
            yield s, group


def _check_rewritten(step: Step, made: dict[Variable, Step]) -> None:
    """Raise unless the equations that now make the results of an equation are shown to be the same."""
    op, args, params, outs = step
    given = list(dict.fromkeys([a for a in args if type(a) is Variable]))
    steps: list[Step] = []
    left, taken = list(outs), set(given)
    while left:
        v = left.pop()
        if v in taken or v not in made:
            continue
        taken.add(v)
        steps.append(made[v])
        taken.update(made[v].outs)
        left += [a for a in made[v].args if type(a) is Variable]
    order = {id(s): i for i, s in enumerate(made.values())}
    steps.sort(key=lambda s: order[id(s)])
    if any([has_effect(s.op, s.params) for s in steps]):
        raise DifferentProgram(f"`{op.name}` was written with an effect")
    if len(outs) == 1 and (subscripts := _subscripts(op, args, params)):
        if _as_sum(steps, args, outs[0]) != _sum_of(subscripts, args, op.name == "einsum_strong"):
            raise DifferentProgram(f"`{op.name}` was written as another sum of products")
        return
    check_same(Program(given, [step], outs), Program(given, steps, outs))


# ── sums of products ─────────────────────────────────────────────────────────────────────────────────────────────
#
# The summand is a product of two arrays, along axes. Each is a pair: which axis of the first array it is, and
# which of the second. A sum is known by the order of its factors, the axes that are left, and those that are not.


def _subscripts(op: Any, args: Sequence, params: dict) -> str:
    """Return the labels of a product of two arrays."""
    if op.name == "matmul":
        return _PRODUCTS.get(tuple([len(aval_of_atom(a).shape) for a in args]), "")  # type: ignore[arg-type]
    return params["subscripts"] if op.name in ("einsum", "einsum_strong") and len(args) == 2 else ""


def _sum_of(subscripts: str, args: Sequence, strong: bool) -> tuple | None:
    """Return the sum that labels stand for; ``strong`` says that the zeros of the second array win."""
    given, result = subscripts.split("->")
    first, second = given.split(",")
    if any([len(set(labels)) != len(labels) for labels in (first, second, result)]):
        return None
    sides = [
        {c: axis for c, axis in zip(labels, _axes(a), strict=True) if axis != _ONE}
        for labels, a in zip((first, second), args, strict=True)
    ]
    pairs = {c: (sides[0].get(c, _ONE), sides[1].get(c, _ONE)) for c in (*sides[0], *sides[1])}
    kept = [pairs[c] for c in result if c in pairs]
    return strong, kept, {pair for pair in pairs.values() if pair not in kept}


def _axes(a: Any) -> list[int]:
    return [i if n != 1 else _ONE for i, n in enumerate(aval_of_atom(a).shape)]


def _as_sum(steps: Sequence[Step], args: Sequence, out: Variable) -> tuple | None:
    """Return the sum that equations compute, which move arrays, multiply them once and add up; ``None`` for others."""
    #: atom -> which array it is and which axes of that; or, of a product, pairs of axes
    moved: dict[int, tuple[Any, list]] = {id(a): (a, _axes(a)) for a in args}
    strong, summed = None, None
    for op, given, params, (v, *_) in steps:
        if any([id(a) not in moved or aval_of_atom(a).dtype != v.aval.dtype for a in given]):
            return None
        source, axes = moved[id(given[0])]
        if op.name == "transpose":
            axes = [axes[i] for i in params["axes"]]
        elif op.name == "reshape" and strong is None:
            old, new = aval_of_atom(given[0]).shape, v.aval.shape
            if [n for n in old if n != 1] != [n for n in new if n != 1]:
                return None
            left = iter([axis for axis in axes if axis != _ONE])
            axes = [next(left) if n != 1 else _ONE for n in new]
        elif op.name in ("multiply", "scale") and strong is None:
            strong, pair = op.name == "scale", [moved[id(a)] for a in given]
            pair = pair[::-1] if strong else pair
            if [id(x) for x, _ in pair] != [id(a) for a in args]:
                return None
            n = len(v.aval.shape)
            source, axes = v, list(zip(*[[_ONE] * (n - len(x)) + x for _, x in pair], strict=True))
        elif op.name == "sum" and strong is not None and summed is None and not params["keepdims"]:
            summed = {x for i, x in enumerate(axes) if i in params["axis"]}
            axes = [x for i, x in enumerate(axes) if i not in params["axis"]]
        else:
            return None
        moved[id(v)] = source, axes
    if strong is None:
        return None
    none = (_ONE, _ONE)
    return strong, [x for x in moved[id(out)][1] if x != none], {x for x in summed or () if x != none}
