"""A program as a graph: what feeds what, with the names that the printed text has.

For: the pictures (``dot.py``, ``picture.py``). Not for: how they look.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .show import Names, describe_constant, named_equations
from .variable import Variable

__all__ = ["Graph", "Node", "graphs"]


@dataclass
class Node:
    """One box: ``kind`` is ``input``, ``constant``, ``equation`` or ``output``; ``text`` has a line or two."""

    kind: str
    text: tuple[str, ...]
    hint: str = ""
    sources: list[int] = field(default_factory=list)


@dataclass
class Graph:
    """The boxes of one program, each after those that feed it."""

    name: str
    nodes: list[Node] = field(default_factory=list)


def graphs(program) -> list[Graph]:
    """Return the graph of a program, then those of the programs that are parameters of its equations."""
    names = Names()
    names.of_program(program)
    return [_graph(p, name, names) for p, name in names.programs]  # grows while it is gone through


def _graph(program, name: str, names: Names) -> Graph:
    graph = Graph(name)
    made: dict[Variable, int] = {}
    constants: dict[str, int] = {}

    def add(node: Node) -> int:
        graph.nodes.append(node)
        return len(graph.nodes) - 1

    def source(x, label: str) -> int | None:
        """Return the box that gives an argument; a number stands in the box that reads it."""
        if type(x) is Variable:
            return made[x]
        if type(x) in (bool, int, float, complex):
            return None
        if label not in constants:
            constants[label] = add(
                Node("constant", (label, describe_constant(x).partition(" = ")[0]), describe_constant(x))
            )
        return constants[label]

    equations = list(named_equations(program, names))
    for v in program.inputs:
        made[v] = add(Node("input", (names.of(v), repr(v.aval))))
    for e, step in zip(equations, program.steps, strict=True):
        feeds = [source(a, label) for a, label in zip(step.args, e.args, strict=True)]
        numbers = [label for label, i in zip(e.args, feeds, strict=True) if i is None]
        inside = [p for p in e.params if len(p) <= 24 and not p.endswith(("=False", "=None"))]
        extra = ", ".join((*numbers, *inside, *["..."] * any(len(p) > 24 for p in e.params)))
        first = f"{', '.join(e.outs)} = {e.op}" + (f" ({extra})" if extra else "")
        second = ", ".join(repr(v.aval) for v in step.outs)
        hint = f"{', '.join(e.outs)} = {e.op}({', '.join((*e.args, *e.params))})"
        box = add(Node("equation", (first, second), hint, sorted({i for i in feeds if i is not None})))
        made.update(dict.fromkeys(step.outs, box))
    for o in program.outputs:
        feed = source(o, names.of(o))
        text = ("return", names.of(o))
        add(Node("output", text, "", [] if feed is None else [feed]))
    return graph
