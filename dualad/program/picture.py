"""A program as a graph: in the DOT language, and as an SVG picture, so that a notebook needs nothing else.

A program is an acyclic graph that is sorted already, so the classical layered drawing (Sugiyama, Tagawa and Toda 1981)
is short: layers by the longest path, an order within each that follows its neighbours, positions by least squares.
Not for: programs of thousands of equations, which Graphviz lays out from ``to_dot``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from ..errors import ArgumentError
from .show import Names, describe_constant, named_equations, show
from .variable import Variable

__all__ = ["graphs", "to_dot", "to_html", "to_svg"]


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


_FILL = {"input": "#dbe9fb", "constant": "#f1f2f4", "equation": "#ffffff", "output": "#dcf0df", "bend": ""}
#: equations that a notebook draws, and whose text it does not fold or leave out
_MOST_DRAWN, _MOST_UNFOLDED, _MOST_PRINTED = 40, 30, 1000
_LETTER, _LINE, _HIGH, _GAP, _BETWEEN, _MARGIN = 6.7, 14.0, 38.0, 18.0, 30.0, 12.0


class _Box:
    """Something that takes a place in a layer: a node, or the bend of an arrow that passes through."""

    __slots__ = ("down", "layer", "node", "sources", "up", "wide", "x")

    def __init__(self, node: Node | None, layer: int) -> None:
        self.node, self.layer = node, layer
        self.wide = 4.0 if node is None else 18.0 + _LETTER * max(map(len, node.text))
        self.sources = [] if node is None else node.sources
        self.up: list[_Box] = []
        self.down: list[_Box] = []
        self.x = 0.0


def to_svg(program, limit: int = 300) -> str:
    """Return the picture of a program, those of the programs inside it below it."""
    drawn = graphs(program)
    count = sum(len(g.nodes) for g in drawn)
    if count > limit:
        raise ArgumentError(
            f"to_svg was asked for a picture of {count:,} boxes.",
            "nobody reads it, and laying it out takes long",
            f"pass limit={count} if you mean it, or lay out program.to_dot() with Graphviz: dot -Tsvg",
        )
    parts, top, wide = [], 0.0, 0.0
    for number, graph in enumerate(drawn):
        text, across, high = _drawing(graph)
        if number:
            parts.append(f'<text x="{_MARGIN}" y="{top + 16:.0f}" font-weight="bold">{escape(graph.name)}</text>')
            top += 20
        parts.append(f'<g transform="translate(0 {top:.1f})">{text}</g>')
        top, wide = top + high, max(wide, across)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{top:.0f}" viewBox="0 0 {wide:.0f}'
        f' {top:.0f}" style="max-width:100%;height:auto" font-family="ui-monospace, Menlo, Consolas, monospace"'
        f' font-size="11" fill="#1d2330" role="img"><title>program {escape(drawn[0].name)}</title>'
        '<defs><marker id="dualad-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6"'
        ' orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="#667085"/></marker></defs>'
        f'<rect width="100%" height="100%" rx="6" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def to_html(program, heading: str = "") -> str:
    """Return a notebook's HTML: the picture while it is small, and the text, folded when it is long."""
    count = len(program.recorded)
    text = escape(show(program, limit=_MOST_PRINTED))
    pre = f'<pre style="overflow-x:auto;line-height:1.35;font-size:0.85em">{text}</pre>'
    said = f"<p>{escape(heading or repr(program))}</p>"
    if count > _MOST_UNFOLDED:
        pre = f"<details><summary>{count:,} equations</summary>{pre}</details>"
    drawing = f'<div style="overflow-x:auto">{to_svg(program, limit=10**6)}</div>' if count <= _MOST_DRAWN else ""
    return f'<div class="dualad-program">{said}{drawing}{pre}</div>'


# ── layout ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _layers(graph: Graph) -> tuple[list[list[_Box]], list[tuple[list[_Box], bool]]]:
    """Give every box a layer below those that feed it, and every arrow a bend in each layer that it passes."""
    depth: list[int] = []
    for node in graph.nodes:
        depth.append(1 + max((depth[j] for j in node.sources), default=-1 if node.kind != "equation" else 0))
    # A constant belongs just above what reads it first.
    for i in range(len(graph.nodes) - 1, -1, -1):
        for j in graph.nodes[i].sources:
            if graph.nodes[j].kind == "constant":
                depth[j] = depth[i] - 1 if depth[j] == 0 else min(depth[j], depth[i] - 1)
    boxes = [_Box(node, d) for node, d in zip(graph.nodes, depth, strict=True)]
    layers: list[list[_Box]] = [[] for _ in range(1 + max(depth, default=0))]
    for box in boxes:
        layers[box.layer].append(box)
    arrows = []
    for box in boxes:
        for j in box.sources:
            path = [boxes[j]]
            for layer in range(boxes[j].layer + 1, box.layer):
                path.append(_Box(None, layer))
                layers[layer].append(path[-1])
            path.append(box)
            for above, below in pairwise(path):
                above.down.append(below)
                below.up.append(above)
            arrows.append((path, graph.nodes[j].kind == "constant"))
    return layers, arrows


def _place(layers: list[list[_Box]]) -> None:
    """Order each layer after the middle of its neighbours, above and below in turn, then put the boxes there."""
    for layer in layers:
        _pack(layer)
    for sweep in range(12):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            wanted = {id(b): _middle(b.up if down else b.down, b.x) for b in layer}
            layer.sort(key=lambda b: wanted[id(b)])
            _pack(layer)
    for sweep in range(16):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _settle(layer, [_middle(b.up + b.down, b.x) for b in layer])


def _middle(boxes: Sequence[_Box], otherwise: float) -> float:
    return sum(b.x for b in boxes) / len(boxes) if boxes else otherwise


def _pack(layer: list[_Box]) -> None:
    offsets = _offsets(layer)
    for box, offset in zip(layer, offsets, strict=True):
        box.x = offset - offsets[-1] / 2


def _offsets(layer: list[_Box]) -> list[float]:
    """Return the places of boxes that stand side by side, the first at 0."""
    places = [0.0]
    for left, right in pairwise(layer):
        places.append(places[-1] + (left.wide + right.wide) / 2 + _GAP)
    return places


def _settle(layer: list[_Box], wanted: list[float]) -> None:
    """Put boxes as near as can be to where they want to be without overlap: an isotonic regression."""
    offsets = _offsets(layer)
    blocks: list[list[float]] = []  # [sum, count]
    for w, offset in zip(wanted, offsets, strict=True):
        blocks.append([w - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    values = [total / count for total, count in blocks for _ in range(int(count))]
    for box, value, offset in zip(layer, values, offsets, strict=True):
        box.x = value + offset


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _drawing(graph: Graph) -> tuple[str, float, float]:
    layers, arrows = _layers(graph)
    _place(layers)
    left = min((b.x - b.wide / 2 for layer in layers for b in layer), default=0.0) - _MARGIN
    right = max((b.x + b.wide / 2 for layer in layers for b in layer), default=0.0) + _MARGIN
    parts = [_arrow(path, left, dashed) for path, dashed in arrows]
    parts += [_box(b, b.node, left) for layer in layers for b in layer if b.node is not None]
    return "".join(parts), right - left, 2 * _MARGIN + len(layers) * (_HIGH + _BETWEEN) - _BETWEEN


def _top(box: _Box) -> float:
    return _MARGIN + box.layer * (_HIGH + _BETWEEN)


def _arrow(path: list[_Box], left: float, dashed: bool) -> str:
    x, y = path[0].x - left, _top(path[0]) + _HIGH
    d = [f"M{x:.1f} {y:.1f}"]
    for box in path[1:]:
        to, at = box.x - left, _top(box)
        middle = (y + at) / 2
        d.append(f"C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {at:.1f}")
        if box.node is None:  # an arrow passes a layer straight
            at += _HIGH
            d.append(f"V{at:.1f}")
        x, y = to, at
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<path d="{"".join(d)}" fill="none" stroke="#667085"{dash} marker-end="url(#dualad-arrow)"/>'


def _box(box: _Box, node: Node, left: float) -> str:
    x, y = box.x - left - box.wide / 2, _top(box)
    round_, dash = (4, "") if node.kind == "equation" else (14, ' stroke-dasharray="4 3"' * (node.kind == "constant"))
    lines = "".join(
        f'<text x="{box.x - left:.1f}" y="{y + 16 + _LINE * i:.1f}" text-anchor="middle"'
        f"{' fill=' + chr(34) + '#667085' + chr(34) if i else ''}>{escape(line)}</text>"
        for i, line in enumerate(node.text)
    )
    hint = f"<title>{escape(node.hint)}</title>" if node.hint else ""
    return (
        f'<g>{hint}<rect x="{x:.1f}" y="{y:.1f}" width="{box.wide:.1f}" height="{_HIGH:.0f}" rx="{round_}"'
        f' fill="{_FILL[node.kind]}" stroke="#98a2b3"{dash}/>{lines}</g>'
    )


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
