"""Products of arrays that are sums of as many products as the larger one has entries, written as such.

A matrix times a vector is read once, as fast as memory gives it, and a loop that does so can do more meanwhile: two
vectors, what the product is made of and what is made of it. Not for: products of two matrices, which read their
entries many times; those are BLAS's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.aval import Aval, is_weak
from ...core.tables import OPS
from ...program.variable import Step, Variable, aval_of_atom

__all__ = ["as_sum"]

_MATRICES: dict[tuple[int, ...], str] = {(2, 1): "ij,j->i", (1, 2): "i,ij->j", (1, 1): "i,i->"}


def _subscripts(op: Any, args: Sequence, params: dict) -> str:
    """Return the labels of a product of two arrays; nothing if they are not known here."""
    if op.name == "matmul":
        return _MATRICES.get(tuple([len(aval_of_atom(a).shape) for a in args]), "")
    if op.name in ("einsum", "einsum_strong") and len(args) == 2:
        return params["subscripts"]
    return ""


def as_sum(step: Step, least: int, is_known: Callable[[Step], bool]) -> list[Step]:
    """Return equations that multiply entry by entry and add up, in place of one; or that one.

    Parameters
    ----------
    step : tuple
        The equation.
    least : int
        The number of products for which this is worth it.
    is_known : callable
        Says whether an equation can be part of a loop.
    """
    op, args, params, (out, *_) = step
    subscripts = _subscripts(op, args, params)
    if "->" not in subscripts or "." in subscripts or len(step.outs) != 1:
        return [step]
    given, result = subscripts.split("->")
    labels = given.split(",")
    avals = [aval_of_atom(a) for a in args]
    if any([len(set(x)) != len(x) for x in (*labels, result)]) or any(
        [a.dtype != out.aval.dtype or is_weak(a) for a in avals]
    ):
        return [step]
    # All labels, in the order in which they lie in memory.
    whole = next((x for x in (*labels, result) if set(x) >= set("".join(labels))), "")
    sizes = {c: n for x, a in zip(labels, avals, strict=True) for c, n in zip(x, a.shape, strict=True)}
    plain = all([a.shape == tuple([sizes[c] for c in x]) for x, a in zip(labels, avals, strict=True)])
    if not whole or not plain or math.prod(sizes.values()) < least:
        return [step]
    steps: list[Step] = []

    def write(name: str, given: list, kept: dict, shape: tuple[int, ...]) -> Variable:
        made = Variable(Aval(shape, out.aval.dtype))
        steps.append(Step(OPS[name], given, kept, (made,)))
        return made

    spread = []
    for a, x in zip(args, labels, strict=True):
        order = [x.index(c) for c in whole if c in x]
        if order != list(range(len(x))):
            a = write("transpose", [a], {"axes": tuple(order)}, tuple([sizes[x[k]] for k in order]))
        shape = tuple([sizes[c] if c in x else 1 for c in whole])
        spread.append(write("reshape", [a], {"shape": shape}, shape) if len(x) < len(whole) else a)
    everything = tuple([sizes[c] for c in whole])
    if op.name == "einsum_strong":
        product = write("scale", spread[::-1], {}, everything)
    else:
        product = write("multiply", spread, {}, everything)
    axes = tuple([i for i, c in enumerate(whole) if c not in result])
    if axes:
        left = "".join([c for c in whole if c in result])
        product = write("sum", [product], {"axis": axes, "keepdims": False}, tuple([sizes[c] for c in left]))
        whole = left
    if whole != result:
        product = write("transpose", [product], {"axes": tuple([whole.index(c) for c in result])}, out.aval.shape)
    steps[-1] = steps[-1]._replace(outs=(out,))
    return steps if all([is_known(s) for s in steps if s.op.name not in ("reshape", "transpose")]) else [step]
