"""Power series through loops, branches and compiled calls: their programs, run on all coefficients of what moves.

Not for: the operators themselves (``control/``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..control.control_ops import switch, while_with, without_index
from ..control.scan import carry_slice, operand_groups, scan
from ..control.subprograms import (
    Derived,
    carry_fixpoint,
    gather_orders,
    runner,
    spread_orders,
    strong_aval,
    unify_branches,
)
from ..core.dispatch import bind
from ..core.tables import OPS
from ..program.ir import Program
from ..tensors.staged import StagedLevel
from .rules import declare
from .stream import Stream
from .tracer import Series, SeriesLevel

__all__ = ["series_program"]


def series_program(
    program: Program, moving: Sequence[bool], forced: Sequence[bool] | None = None, *, order: int
) -> Derived:
    """Return the program of power series up to an order: of what moves there are all coefficients, one by one."""
    forced = forced or [False] * len(program.outputs)
    with StagedLevel("control flow", owning=True) as level, SeriesLevel("control flow", order) as series:
        values = []
        for v, m in zip(program.inputs, moving, strict=True):
            first = level.new_input(strong_aval(v.aval) if m else v.aval)
            if m:
                stream = Stream(first, None, order)
                stream.coefs += [level.new_input(strong_aval(v.aval)) for _ in range(order)]
                first = Series(stream, series)
            values.append(first)
        out = [
            x.variable.through(order) if type(x) is Series and x.level is series else x
            for x in runner(program)(*values)
        ]
        own = [type(x) is list or f for x, f in zip(out, forced, strict=True)]
        return Derived(level.finish(spread_orders(out, own, order), program.name), own)


@declare("switch")
def _switch_series(order, values, params):
    """Choose among the branches' programs of series."""
    index, others = without_index(values, params["linear"])
    moving = [type(v) is list for v in others]
    parts, out = unify_branches(functools.partial(series_program, order=order), params["branches"], moving)
    now = {"branches": tuple([p.program for p in parts]), "linear": 0}
    if (results := params.get("results")) is not None:
        now["results"] = sum([order + 1 if m else 1 for m in out[:results]])
    return gather_orders(bind(switch, (index, *spread_orders(others, moving, order)), now), out, order)


@declare("while_loop")
def _while_series(order, values, params):
    """Loop with all coefficients of the carry."""
    return while_with(functools.partial(series_program, order=order), values, order, **params)


@declare("scan")
def _scan_series(order, values, params):
    """Scan with all coefficients of the carry as the carry."""
    make, counts = functools.partial(series_program, order=order), params["counts"]
    series, moving = carry_fixpoint(make, params["body"], [type(v) is list for v in values], carry_slice(counts))
    counts = tuple([sum([order + 1 if f else 1 for f in group]) for group in operand_groups(moving, counts)[:4]])
    params = {**params, "body": series.program, "counts": counts, "linear": False}
    return gather_orders(bind(scan, spread_orders(values, moving, order), params), series.moving, order)


@declare("call")
def _call_series(order, values, params):
    """Run the compiled program's program of series, which is compiled too."""
    program = params["program"]
    moving = tuple([type(v) is list for v in values])
    make = lambda: series_program(program, moving, order=order)
    series = program.derived(make, "series", moving, order)
    results = bind(OPS["call"], spread_orders(values, moving, order), {"program": series.program, "linear": 0})
    return gather_orders(results, series.moving, order)
