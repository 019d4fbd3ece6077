"""Rules of operators that run programs: ``call``, ``scan``, ``switch``, ``while_loop``.

One step of a scan is followed once, from its own inputs to its own outputs; that pattern is then multiplied along the
steps. A switch may take any branch. A while loop may take any number of steps: its carry is what no further step adds
anything to. Not for: loops on known values, which a program holds step by step.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from ..program.variable import Step, Variable
from . import rows
from .maps import RULES, dense_rule, shape_of

__all__ = ["scan_rule"]

#: a longer scan whose steps depend on each other is taken as dense
_STEPS = 2000
#: a while loop whose carry spreads for longer is taken as dense
_ROUNDS = 50


def scan_rule(walk: Any, step: Step) -> list:
    """Follow a linear scan."""
    _, args, params, outs = step
    body, length = params["body"], params["length"]
    a, b, c = accumulate(params["counts"][:3])
    if not params["linear"] or set(walk.followed(args)) - set(range(c)):
        return dense_rule(walk, step)
    vectors = [_rows_of(walk, x) for x in args[:c]]
    constants, carry, xs = vectors[:a], vectors[a:b], vectors[b:]
    sizes = [v.aval.size for v in body.inputs[:c]]
    own = type(walk)(sum(sizes), walk.fixed, walk.limit)
    one = own.stacked(body, [*rows.identities(sizes), *[None] * (len(body.inputs) - c)])
    walk.dense += own.dense
    n_carry = sum([p.shape[0] for p in carry])
    if one[:n_carry, sum(sizes[:a]) : sum(sizes[:b])].nnz and length > _STEPS:
        return dense_rule(walk, step)
    state = rows.join(carry, walk.n)
    made: list = [None] * length
    for i in reversed(range(length)) if params["reverse"] else range(length):
        now = [rows.gather(p, np.arange(i * n, (i + 1) * n)) for p, n in zip(xs, sizes[b:], strict=True)]
        after = walk.multiply(rows.join([*constants, state, *now]), one, None, None)
        walk.work += after.nnz
        if after.nnz > walk.limit:
            return dense_rule(walk, step)
        state, made[i] = after[:n_carry], after[n_carry:]
    ends = accumulate(sizes[a:b])
    results = [rows.gather(state, np.arange(end - n, end)) for n, end in zip(sizes[a:b], ends, strict=True)]
    start = 0
    stacked = rows.join(made, walk.n)
    each = one.shape[0] - n_carry
    for v in outs[len(carry) :]:
        size = v.aval.size // length if length else 0
        at = each * np.arange(length)[:, None] + np.arange(start, start + size)
        results.append(rows.gather(stacked, at.reshape(-1)))
        start += size
    return results


def _rows_of(walk: Any, a: Any) -> Any:
    if type(a) is Variable and a in walk.rows:
        return walk.rows[a]
    return rows.empty_rows(int(np.prod(shape_of(a))), walk.n)


def _call(walk, step) -> list:
    _, args, params, _ = step
    return walk.run(params["program"], [walk.rows.get(a) if type(a) is Variable else None for a in args])


def _switch(walk, step) -> list:
    _, args, params, _ = step
    k = params["linear"]
    if set(walk.followed(args)) - set(range(k)):
        return dense_rule(walk, step)
    seeds = [walk.rows.get(a) if type(a) is Variable else None for a in [*args[:k], *args[k + 1 :]]]
    ways = [walk.run(branch, seeds) for branch in params["branches"]]
    united = []
    for parts in zip(*ways, strict=True):
        moving = [p for p in parts if p is not None]
        united.append(walk.merge(moving) if moving else None)
    return united


def _while(walk, step) -> list:
    _, args, params, _ = step
    body, (a, b) = params["body"], params["constants"]
    given = [walk.rows.get(v) if type(v) is Variable else None for v in args]
    constants, carry = given[a : a + b], given[a + b :]
    for _ in range(_ROUNDS):
        after = walk.run(body, [*constants, *carry])
        grown = [p if q is None else q if p is None else walk.merge([p, q]) for p, q in zip(carry, after, strict=True)]
        if all(
            [p is q or (p is not None and rows.same(p, q)) for p, q in zip(grown, carry, strict=True) if q is not None]
        ) and [p is None for p in grown] == [p is None for p in carry]:
            return grown
        carry = grown
    return dense_rule(walk, step)


RULES.update({"call": _call, "scan": scan_rule, "switch": _switch, "while_loop": _while})
