"""``autograd.tracer``: a graph of nodes of one's own making for what a function computes; ``getval`` and ``isbox``.

Not for: looking at programs otherwise: ``dualad.trace(f, x)`` prints, runs and draws them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dualad.base.tree import flatten
from dualad.core.dispatch import bind
from dualad.core.tracer import Tracer
from dualad.jvp import stop_gradient
from dualad.program.variable import Variable
from dualad.transforms.trace import trace as program_of

__all__ = ["Node", "getval", "isbox", "trace"]

getval = stop_gradient


def isbox(x: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(x, Tracer)


class Node:
    """The base of nodes: one is made for each operation, with its value and the nodes of its arguments."""

    def __init__(self, value: Any, fun: Callable, args: tuple, kwargs: dict, parent_argnums: tuple, parents: tuple):
        raise NotImplementedError(f"{type(self).__name__} has no __init__")

    def initialize_root(self, *args, **kwargs) -> None:
        """Make this the node of the function's argument."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize_root")

    @classmethod
    def new_root(cls, *args, **kwargs) -> Node:
        """Return the node of the function's argument."""
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root


def trace(start_node: Node, fun: Callable, x: Any) -> tuple[Any, Node | None]:
    """Return a function's value at an array, and its node: None where it does not depend on the argument."""
    program = program_of(fun, x)
    known = dict(zip(program.inputs, [(leaf, start_node) for leaf in flatten(x)[0]], strict=True))

    def atom(a: Any) -> tuple[Any, Node | None]:
        return known[a] if isinstance(a, Variable) else (a, None)

    for op, atoms, params, outs in program.recorded:
        args, nodes = zip(*map(atom, atoms), strict=True) if atoms else ((), ())
        results = bind(op, args, params)
        run = functools.partial(lambda *values, op, params: bind(op, values, params), op=op, params=params)
        run.__name__ = op.name  # type: ignore[attr-defined]
        argnums = tuple([i for i, node in enumerate(nodes) if node is not None])
        parents = tuple([node for node in nodes if node is not None])
        for out, value in zip(outs, results if op.multiple_results else [results], strict=True):
            node = type(start_node)(value, run, args, params, argnums, parents) if parents else None
            known[out] = (value, node)
    value, node = atom(program.outputs[0])
    return value, node
