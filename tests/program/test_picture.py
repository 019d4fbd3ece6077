"""Pictures of programs: every box and arrow is there, nothing overlaps, names are those of the text."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError
from dualad.program.ir import Program
from dualad.program.picture import graphs

X, W = np.array([1.0, 2.0, 3.0]), np.arange(12.0).reshape(4, 3) / 10


def f(x, w):
    h = np.tanh(w @ x)
    return np.sum(h**2) + np.hypot(x[0], h[1])


PROGRAMS = {
    "linear": da.linearize(f, X, W)[1].program,
    "nonlinear": da.trace(da.grad(f, (0, 1)), X, W),
    "loop": da.trace(lambda x: da.fori_loop(0, 3, lambda i, c: np.sin(c) * x[0], x), X),
    "identity": da.trace(lambda x: (x, 2.0 * np.ones(2)), X),
    "several": da.trace(lambda a: np.linalg.svd(a, full_matrices=False)[1], W),
}


def boxes(svg: str) -> list[tuple[float, ...]]:
    root = ET.fromstring(svg)
    found = []
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        if group.get("transform"):
            top = float(re.findall(r"[-\d.]+", group.get("transform"))[1])
            for rect in group.iter("{http://www.w3.org/2000/svg}rect"):
                x, y, wide, high = [float(rect.get(k)) for k in ("x", "y", "width", "height")]
                found.append((x, y + top, x + wide, y + top + high))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_box_is_drawn_and_none_overlaps(name: str) -> None:
    program = PROGRAMS[name]
    svg = program.to_svg()
    drawn = boxes(svg)
    assert len(drawn) == sum(len(g.nodes) for g in graphs(program))
    assert svg.count("marker-end") == sum(len(n.sources) for g in graphs(program) for n in g.nodes)
    wide, high = [float(v) for v in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()]
    for i, (left, top, right, bottom) in enumerate(drawn):
        assert 0 <= left < right <= wide + 1 and 0 <= top < bottom <= high + 1
        for other in drawn[:i]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_graph_has_the_arrows_of_the_text(name: str) -> None:
    """Of each equation in the text, every name among its arguments is the box that an arrow comes from."""
    program = PROGRAMS[name]
    graph = graphs(program)[0]
    text = str(program).split("\nprogram")[0]
    lines = re.findall(r"^    (\w+): .* = \w+\((.*)\)$", text, re.MULTILINE)
    by_result = {n.text[0].partition(" = ")[0].partition(",")[0]: n for n in graph.nodes if n.kind == "equation"}
    assert len(lines) == len(by_result)
    for result, arguments in lines:
        names = {a.strip() for a in arguments.split("=")[0].split(",")} & set(re.findall(r"\b[a-z]\d*\b", arguments))
        given = {graph.nodes[i].text[0].partition(" = ")[0] for i in by_result[result].sources}
        assert {n for s in given for n in s.split(", ")} >= names


@pytest.mark.parametrize("name", PROGRAMS)
def test_dot_declares_every_box_it_joins(name: str) -> None:
    dot = PROGRAMS[name].to_dot()
    declared = set(re.findall(r"^\s*(\w+) \[label", dot, re.MULTILINE))
    arrows = re.findall(r"^\s*(\w+) -> (\w+);", dot, re.MULTILINE)
    assert arrows and {end for arrow in arrows for end in arrow} <= declared
    assert dot.count("{") == dot.count("}")
    assert ("subgraph cluster_1" in dot) == (name == "loop")


def test_text_is_quoted() -> None:
    program = Program(PROGRAMS["linear"].inputs, PROGRAMS["linear"].steps, PROGRAMS["linear"].outputs, 'a"<b>&\\')
    ET.fromstring(program.to_svg())
    assert "<b>" not in program._repr_html_().replace("<br>", "")
    assert program.to_dot().startswith('digraph "')


def test_long_programs_print_their_ends_and_are_not_drawn() -> None:
    def long(x):
        for _ in range(600):
            x = np.sin(x)
        return x

    program = da.trace(lambda x: long(long(x)), 0.5)
    text = str(program)
    assert "    ... 200 more equations" in text.splitlines() and len(text.splitlines()) == 1003
    whole = program.to_text()
    assert whole.count(" = sin(") == 1200 and whole.splitlines()[:751] == text.splitlines()[:751]
    assert whole.splitlines()[-251:] == text.splitlines()[-251:] and "..." not in whole
    assert len(program.to_text(limit=10).splitlines()) == 13
    with pytest.raises(ArgumentError, match="to_dot"):
        program.to_svg()
    html = program._repr_html_()
    assert "<svg" not in html and "<details>" in html


def test_maps_say_what_they_are() -> None:
    _, lin = da.linearize(f, X, W)
    _, pull = da.vjp(f, X, W)
    assert repr(lin) == f"<linear map (f64[3], f64[4,3]) -> (f64[]) of {len(lin.program.steps)} equations>"
    assert repr(pull).startswith("<pullback (f64[]) -> (f64[3], f64[4,3]) through")
    transposed = da.linear_transpose(lambda v: W @ v, X)
    assert repr(transposed) == "<transpose (f64[4]) -> (f64[3]) through 1 equations>"
    for shown in (lin, pull, transposed, lin.program):
        assert "<svg" in shown._repr_html_()
