"""A program in the DOT language, for Graphviz and whatever else reads it. Not for: drawing (``picture.py``)."""

from __future__ import annotations

from .graph import Graph, graphs

__all__ = ["to_dot"]

_STYLES = {
    "input": 'shape=box, style="rounded,filled", fillcolor="#dbe9fb"',
    "constant": 'shape=box, style="rounded,filled,dashed", fillcolor="#f1f2f4"',
    "equation": 'shape=box, style=filled, fillcolor="white"',
    "output": 'shape=box, style="rounded,filled", fillcolor="#dcf0df"',
}


def to_dot(program) -> str:
    """Return the text: a digraph; programs inside of a program are clusters of their own."""
    first, *inner = graphs(program)
    lines = [f"digraph {_quote(first.name)} {{", '  node [fontname="monospace", fontsize=10];']
    lines += _lines(first, "n", "  ")
    for number, graph in enumerate(inner, 1):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quote(graph.name)};"]
        lines += _lines(graph, f"p{number}_", "    ")
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _lines(graph: Graph, prefix: str, indent: str) -> list[str]:
    boxes = []
    for i, node in enumerate(graph.nodes):
        hint = f", tooltip={_quote(node.hint)}" if node.hint else ""
        label = _quote("\n".join(node.text))
        boxes.append(f"{indent}{prefix}{i} [label={label}, {_STYLES[node.kind]}{hint}];")
    arrows = [f"{indent}{prefix}{j} -> {prefix}{i};" for i, node in enumerate(graph.nodes) for j in node.sources]
    return boxes + arrows


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
