"""Programs are compared by the names of what they compute: what is exact is accepted, every planted fault is found.

The faults are planted in the passes, or in what they return; no number is computed by either program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest

import dualad as da
from dualad.compile import repeats, trust
from dualad.compile import reroll as rerolling
from dualad.compile import simplify as simplifying
from dualad.compile.call import CallProgram, call
from dualad.compile.native.gather import Place, gather
from dualad.compile.native.groups import Group
from dualad.compile.native.products import as_sum
from dualad.compile.regrouped import check_groups
from dualad.compile.reroll import reroll, rolled_loops
from dualad.compile.simplify import is_elementwise, simplify
from dualad.compile.trust import proven
from dualad.compile.validate import DifferentProgram, check_same
from dualad.core.tables import OPS
from dualad.program.ir import Program
from dualad.program.variable import Step, Variable

X, Y = np.linspace(0.1, 0.7, 4), np.linspace(-0.5, 0.9, 4)
TABLE = np.random.default_rng(0).normal(size=(40, 4))


@pytest.fixture(autouse=True)
def _short(monkeypatch) -> None:
    """Let shorter programs count as long, which is quicker to test."""
    monkeypatch.setattr(rerolling, "_LONG", 60)


def traced(f: Callable, *args) -> Program:
    program = da.trace(f, *args)
    return Program(program.inputs, program.steps, program.outputs, program.name)


# ── what is exact ────────────────────────────────────────────────────────────────────────────────────────────────


def takes_two(x, y):
    return x * 1.0 + y / 1 + 1 * x, x**2 + y**3 - x**4, np.negative(-x) * y


EXACT: dict[str, Callable] = {
    "ones, powers, signs": takes_two,
    "equal equations": lambda x, y: np.sin(x) * np.sin(x) + np.sin(x + 0.0),
    "dead equations": lambda x, y: (np.cos(x), x + y)[1],
    "constants": lambda x, y: x * np.sin(np.arange(4.0)) + np.cumsum(np.ones(4)),
    "moves of moves": lambda x, y: x.reshape(2, 2).T.T.reshape(4, 1).reshape(4)[:][::-1][::-1] + y.copy(),
    "broadcasts": lambda x, y: np.broadcast_to(x, (3, 4)) * np.broadcast_to(y[:, None], (4, 4))[:3] + 2.0,
    "entries of stacks": lambda x, y: np.stack([x, y])[1] * np.stack([x[0], 1.0, y[2]])[2],
    "unit matrices": lambda x, y: np.eye(4) @ np.outer(x, y) @ np.eye(4),
    "no casts": lambda x, y: x.astype(float) + np.real(y) + np.conj(x),
    "a buffer, no entries": lambda x, y: np.concatenate([x[:0], da.numpy.zeros_like(x) + y]) + np.sum(x[1:1] * y[4:]),
    "a call": lambda x, y: da.jit(lambda a, b: (a * b, np.sin(a)))(x, y)[1] + x,
    "a loop with a body": lambda x, y: da.scan(lambda c, r: (c * 1.0 + r, np.sin(np.cos(c) + 0 * r)), x, TABLE)[0],
}


@pytest.mark.parametrize("name", EXACT)
def test_what_simplification_does_is_proven(name):
    program = traced(EXACT[name], X, Y)
    check_same(program, simplify(program))


@pytest.mark.parametrize(
    "f", [lambda x: +x, np.cumsum, lambda x: x[...], lambda x: x.T * 2, np.sort, lambda x: np.sum(+x, 0)]
)
@pytest.mark.parametrize("x", [np.zeros(0), np.zeros((0, 3)), np.arange(3), np.arange(3.0)])
def test_arrays_without_entries_and_of_integers(f, x):
    for g in [f, da.jacrev(f)] if x.dtype.kind == "f" else [f]:
        program = traced(g, x)
        check_same(program, simplify(program))


@pytest.mark.parametrize("transform", [da.grad, da.hessian, da.jacfwd, da.jacrev])
def test_derivatives_are_proven(transform):
    program = traced(transform(lambda x: np.sum(takes_two(x, Y)[1] * np.sqrt(x))), X)
    check_same(program, simplify(program))


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────────


def two_values(x, y):
    for row in TABLE:
        x, y = x + 0.1 * y * row, y - np.sin(x)
    return x, y


def trajectory(x, y):
    out, v = [], y
    for k in range(40):
        x, v = x + 0.1 * np.cos(v) * k, v * x + TABLE[(7 * k) % 40]
        out.append(x)
    return np.stack(out), v, out[17]


def in_place(x, y):
    z = np.concatenate([x] * 10)
    for k in range(1, 40):
        z[k] += np.sin(z[k - 1]) * y[k % 4]
    return z


LOOPS = {"two values": two_values, "trajectory": trajectory, "in place": in_place}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_are_found_again_are_proven(name):
    program = traced(LOOPS[name], X, Y)
    found = reroll(simplify(program))
    assert rolled_loops(found)
    check_same(program, found)


def _with_scan(change: Callable[[tuple], tuple]) -> Callable[[Program], Program]:
    """Return a pass that finds loops and writes the first one wrong."""

    def wrong(program: Program) -> Program:
        program, done = reroll(program), False
        steps = []
        for op, args, params, outs in program.steps:
            if op.name == "scan" and not done:
                op, args, params, outs = change((op, list(args), dict(params), outs))
                done = True
            steps.append((op, args, params, outs))
        assert done
        return Program(program.inputs, steps, program.outputs, program.name)

    return wrong


def _in_body(change: Callable[[Program], Program]) -> Callable[[tuple], tuple]:
    return lambda s: (s[0], s[1], {**s[2], "body": change(s[2]["body"])}, s[3])


def _swapped(items, i: int, j: int) -> list:
    items = list(items)
    items[i], items[j] = items[j], items[i]
    return items


def _swapped_starts(step):
    op, args, params, outs = step
    first = params["counts"][0]
    return op, _swapped(args, first, first + 1), params, outs


def _other_rows(step):
    op, args, params, outs = step
    arrays = [k for k, a in enumerate(args) if isinstance(a, np.ndarray) and len(a) == params["length"]]
    args[arrays[0]] = np.roll(args[arrays[0]], 1, 0)
    return op, args, params, outs


def _without_a_step(body: Program) -> Program:
    (_, args, _, outs), *rest = body.steps[::-1]
    rename = lambda a: next(b for b in args if type(b) is Variable) if type(a) is Variable and a is outs[0] else a
    return Program(body.inputs, rest[::-1], [rename(o) for o in body.outputs], body.name)


def _other_operator(body: Program) -> Program:
    to = {"sin": "cos", "cos": "sin", "add": "subtract", "multiply": "add"}
    k = next(k for k, s in enumerate(body.steps) if s[0].name in to)
    op, *rest = body.steps[k]
    return Program(
        body.inputs, [*body.steps[:k], (OPS[to[op.name]], *rest), *body.steps[k + 1 :]], body.outputs, body.name
    )


def _other_constant(body: Program) -> Program:
    change = lambda a: a * 1.5 if type(a) in (float, np.float64) else a
    steps = [(op, [change(a) for a in args], params, outs) for op, args, params, outs in body.steps]
    return Program(body.inputs, steps, body.outputs, body.name)


def _turned_arguments(body: Program) -> Program:
    k = next(k for k, s in enumerate(body.steps) if s[0].name == "subtract")
    op, args, *rest = body.steps[k]
    return Program(
        body.inputs, [*body.steps[:k], (op, args[::-1], *rest), *body.steps[k + 1 :]], body.outputs, body.name
    )


WRONG_LOOPS: dict[str, tuple[str, Callable]] = {
    "carries change places": ("two values", _in_body(
        lambda b: Program(b.inputs, b.steps, [*_swapped(b.outputs, 0, 1)], b.name))),
    "one carry for two": ("two values", _in_body(
        lambda b: Program(b.inputs, b.steps, [b.outputs[0], b.outputs[0], *b.outputs[2:]], b.name))),
    "first values change places": ("two values", _swapped_starts),
    "the other direction": ("two values", lambda s: (s[0], s[1], {**s[2], "reverse": True}, s[3])),
    "one iteration less": ("two values", lambda s: (s[0], s[1], {**s[2], "length": 39}, s[3])),
    "the next row": ("two values", _other_rows),
    "a step is left out": ("two values", _in_body(_without_a_step)),
    "another operator": ("two values", _in_body(_other_operator)),
    "another constant": ("two values", _in_body(_other_constant)),
    "arguments change places": ("two values", _in_body(_turned_arguments)),
    "another row of a table": ("trajectory", _other_rows),
    "results change places": ("trajectory", lambda s: (*s[:3], tuple(_swapped(s[3], 0, 1)))),
    "another place": ("in place", _other_rows),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_LOOPS)
def test_a_loop_that_is_written_wrong_is_found(name):
    loop, change = WRONG_LOOPS[name]
    program = simplify(traced(LOOPS[loop], X, Y))
    with pytest.raises((DifferentProgram, IndexError)):
        check_same(program, _with_scan(change)(program))


# ── faults in simplification ─────────────────────────────────────────────────────────────────────────────────────


def _after(owner: object, name: str, change: Callable) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what makes ``change(result, *args)`` of each result of a function or method."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        before = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args: change(before(*args), *args))

    return plant


def _instead(owner: object, name: str, other: object) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, other)


@da.custom_jvp
def first_effect(x):
    return np.sin(x)


@da.custom_jvp
def second_effect(x):
    return np.cos(x)


first_effect.defjvp(lambda p, t: (np.sin(p[0]), t[0]))
second_effect.defjvp(lambda p, t: (np.cos(p[0]), t[0]))


def called(f: Callable, known: int = 0) -> Program:
    """Return a program that calls a function's, the last of whose arguments are known."""
    inner = CallProgram(traced(f, X, Y))
    inputs, outs = inner.inputs[: 2 - known], [Variable(v.aval) for v in inner.outputs]
    step = (call, [*inputs, *[X, Y][2 - known :]], {"program": inner, "linear": 0}, tuple(outs))
    return Program(inputs, [step], outs, "called")


def twice(f: Callable) -> Program:
    """Return a program that has each equation of a function's twice, and returns the sum of both results."""
    once = traced(f, X, Y)
    again = {v: Variable(v.aval) for step in once.steps for v in step[3]}
    other = [(op, args, params, tuple([again[v] for v in outs])) for op, args, params, outs in once.steps]
    (out,) = once.outputs
    total = Variable(out.aval)
    steps = [*once.steps, *other, (OPS["add"], [out, again[out]], {}, (total,))]
    return Program(once.inputs, steps, [total], "twice")


def _in_float32(found, *args):
    return found.astype(np.float32) if isinstance(found, np.ndarray) else found


def _other_transpose(found, self, op, args, params, outs):
    op, args, params = found
    return (
        op,
        args,
        {"axes": params["axes"][::-1]} if op.name == "transpose" and params["axes"] != (2, 1, 0) else params,
    )


def _first_of_a_stack(found, self, op, args, params, outs):
    made = self.maker.get(args[0]) if args and type(args[0]) is Variable else None
    return made[1][0] if found is not None and op.name == "index" and made and made[0].name == "stack" else found


def _turned_effects(found, self):
    places = [k for k, s in enumerate(found.steps) if s[0].kind == "custom"]
    return Program(found.inputs, _swapped(found.steps, places[0], places[1]), found.outputs, found.name)


def _inline_turned(self, program, args, outs):
    _Inline(self, program, args, outs[::-1])


_Inline = simplifying._Simplifier.inline
_Simplifier = simplifying._Simplifier
CUBE = np.linspace(0.1, 2.0, 8).reshape(2, 2, 2)

FAULTS: dict[str, tuple[Callable, Callable | Program]] = {
    "two is one": (_instead(simplifying, "_is_one", lambda x: type(x) is float and x == 2), lambda x, y: x * 2.0 + y),
    "constants are equal": (_instead(simplifying, "hashable", lambda x: ()), lambda x, y: (x * 2.0, x * 3.0)),
    "parameters are equal": (
        _after(simplifying, "hashable", lambda found, x: () if isinstance(x, dict) else found),
        lambda x, y: (np.sum(np.outer(x, y), axis=0), np.sum(np.outer(x, y), axis=1))),
    "transposes in the other order": (
        _after(_Simplifier, "rewritten", _other_transpose),
        lambda x, y: (x.sum() * CUBE).transpose(1, 2, 0).transpose(1, 0, 2)),
    "a constant is computed wrong": (
        _after(simplifying, "_fold", lambda found, *_: None if found is None else found + 1),
        called(lambda x, y: x * np.sin(y), 1)),
    "a constant of another dtype": (
        _after(simplifying, "_fold", _in_float32), called(lambda x, y: x * np.sin(y), 1)),
    "a square for a cube": (
        _after(_Simplifier, "small_power", lambda found, self, args, out: found and (OPS["square"], [args[0]])),
        lambda x, y: x**3),
    "the first of a stack": (_after(_Simplifier, "alias", _first_of_a_stack), lambda x, y: np.stack([x, y])[1] * 2.0),
    "all matrices are unit matrices": (
        _instead(simplifying, "_is_identity", lambda x: type(x) is np.ndarray and x.ndim == 2),
        lambda x, y: np.diag([1.0, 2.0, 3.0, 4.0]) @ np.outer(x, y)),
    "zeros are never strong": (
        _after(_Simplifier, "rewritten",
               lambda found, self, op, *_: (OPS["multiply"], *found[1:]) if op.name == "scale" else found),
        lambda x, y: OPS["scale"](x, y) * y),
    "all entries are the first": (
        _after(_Simplifier, "before_broadcast", lambda found, self, a: a[0] if type(a) is np.ndarray else found),
        lambda x, y: y * np.array([1.0, 2.0, 3.0, 4.0])),
    "casts are not needed": (
        _instead(simplifying, "_same", lambda x, out: True), lambda x, y: x.astype(np.float32) * np.float32(3.0)),
    "results of a call change places": (
        _instead(_Simplifier, "inline", _inline_turned), called(lambda x, y: (x * 2, y * 3))),
    "effects change places": (
        _after(_Simplifier, "result", _turned_effects), lambda x, y: first_effect(x) + second_effect(x)),
    "equal effects are one": (
        _instead(simplifying, "is_pure", lambda op, params: True), twice(lambda x, y: first_effect(x))),
    "a result is left out": (
        _after(_Simplifier, "result", lambda p, self: Program(p.inputs, p.steps, p.outputs[:1], p.name)), takes_two),
    "results change places": (
        _after(_Simplifier, "result", lambda p, self: Program(p.inputs, p.steps, _swapped(p.outputs, 0, 1), p.name)),
        takes_two),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_simplification_is_found(name, monkeypatch):
    plant, f = FAULTS[name]
    program = f if type(f) is Program else traced(f, X, Y)
    check_same(program, simplify(program))
    plant(monkeypatch)
    with pytest.raises(DifferentProgram):
        check_same(program, simplify(program))


# ── faults in finding and writing loops ──────────────────────────────────────────────────────────────────────────


def _repeats(change: Callable[[repeats.Repeat], repeats.Repeat]) -> Callable[[pytest.MonkeyPatch], None]:
    return _after(rerolling, "find_repeats", lambda found, code: [change(r) for r in found])


def _same_constants(r: repeats.Repeat) -> repeats.Repeat:
    refs = r.refs.copy()
    for column in np.flatnonzero(refs[0] < 0):
        refs[:, column] = refs[0, column]
    return r._replace(refs=refs)


def _next_places(r: repeats.Repeat) -> repeats.Repeat:
    turned = lambda moving: {where: [*x[1:], x[0]] for where, x in moving.items()}
    return r._replace(places={j: turned(moving) for j, moving in r.places.items()})


def _any_first(a, behind, refs, base, relative, ages, elsewhere):
    return _with_first(a, behind, refs, base, relative, ages, np.zeros_like(elsewhere))


def _old_scatter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerolling, "index_add", None)


def triangle(x, y):
    a, s = np.outer(np.concatenate([x] * 8), np.concatenate([y] * 8)), 0.0
    for i in range(len(a)):
        for j in range(i + 1):
            s += np.sin(a[i, j])
    return s


def turns(x, y):
    for k in range(40):
        x = x * (0.1 * k + 0.05) + np.sin(y)
    return x


def cotangents(x, y):
    def f(x):
        z = np.outer(x, np.linspace(0.1, 0.9, 40))
        for k in range(1, 40):
            z[:, k] = z[:, k] + np.sin(z[:, k - 1] * z[:, k])
        return np.sum(z * z)

    return da.grad(f)(x) * y


_with_first = repeats._extend_start
LOOP_FAULTS: dict[str, tuple[Callable, Callable]] = {
    "places are forgotten": (
        _after(repeats, "_places", lambda found, code, start, period, count: ({}, np.zeros(count, bool))), in_place),
    "the next place": (_repeats(_next_places), in_place),
    "iterations that index elsewhere": (_instead(repeats, "_extend_start", _any_first), triangle),
    "the constants of the first iteration": (_repeats(_same_constants), turns),
    "constants in the other order": (_after(rerolling, "_stack_constants", lambda found, values: found[::-1]), turns),
    "the row before": (
        _after(rerolling._Roller, "rows", lambda found, self, refs: self.write(OPS["flip"], [found], {"axes": (0,)})),
        trajectory),
    "0.0 for -0.0": (_old_scatter, cotangents),
    "rows of a loop that runs backwards": (_instead(rerolling._Body, "_ordered", lambda self, rows: rows), cotangents),
    "what is carried is made again": (
        _after(rerolling._Body, "_carries", lambda found, self: (found[0], found[1], found[2][::-1])), two_values),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOP_FAULTS)
def test_a_fault_in_finding_loops_is_found(name, monkeypatch):
    plant, f = LOOP_FAULTS[name]
    program = simplify(traced(f, X, Y))
    found = reroll(program)
    assert rolled_loops(found)
    check_same(program, found)
    plant(monkeypatch)
    with pytest.raises((DifferentProgram, ValueError, IndexError, KeyError)):
        check_same(program, reroll(program))


# ── faults in groups ─────────────────────────────────────────────────────────────────────────────────────────────

LONG = np.linspace(0.1, 0.9, 300)
MATRIX = np.linspace(-1.0, 1.0, 60 * 60).reshape(60, 60)


def in_groups(x):
    a = np.sin(x) * 2.0 + x
    b = np.cumsum(a)
    c = first_effect(b) * a
    d = second_effect(c) + b
    return np.exp(d) * c + a, np.sqrt(a * a + 1.0)


def grouped(program: Program) -> list[tuple]:
    """Return a program's equations with groups of elementwise ones as one each."""

    def join(steps, writes):
        group = Group(steps, writes)
        return [(group, group.reads, {}, tuple(writes))] if len(steps) > 1 else steps

    return gather(program, lambda step, *_: Place.HERE if is_elementwise(step[0]) else Place.NOWHERE, join)


def _group(steps: list[tuple]) -> tuple[int, tuple]:
    return next((k, s) for k, s in enumerate(steps) if isinstance(s[0], Group))


def _without_an_equation(steps):
    k, (group, *_) = _group(steps)
    other = Group(group.steps[1:], group.writes)
    return [*steps[:k], (other, other.reads, {}, tuple(other.writes)), *steps[k + 1 :]]


def _other_equation(steps):
    k, (group, *_) = _group(steps)
    other = Group([group.steps[0]._replace(op=OPS["cos"]), *group.steps[1:]], group.writes)
    return [*steps[:k], (other, other.reads, {}, tuple(other.writes)), *steps[k + 1 :]]


def _too_few_results(steps):
    k, (group, *_) = next((k, s) for k, s in enumerate(steps) if isinstance(s[0], Group) and len(s[3]) > 1)
    other = Group(group.steps, group.writes[:1])
    return [*steps[:k], (other, other.reads, {}, tuple(other.writes)), *steps[k + 1 :]]


def _other_arguments(steps):
    k, (group, reads, params, outs) = _group(steps)
    return [*steps[:k], (group, [*reads[1:], reads[0]] if len(reads) > 1 else [], params, outs), *steps[k + 1 :]]


def _other_results(steps):
    k, (group, reads, params, outs) = next((k, s) for k, s in enumerate(steps) if len(s[3]) > 1)
    return [*steps[:k], (group, reads, params, outs[::-1]), *steps[k + 1 :]]


def _other_effects(steps):
    a, b = [k for k, s in enumerate(steps) if s[0].kind == "custom"][:2]
    return _swapped(steps, a, b)


GROUP_FAULTS: dict[str, Callable[[list[tuple]], list[tuple]]] = {
    "an equation is left out": _without_an_equation,
    "another equation": _other_equation,
    "a result stays inside": _too_few_results,
    "other arguments": _other_arguments,
    "other results": _other_results,
    "a group before what it reads": lambda steps: steps[::-1],
    "an equation twice": lambda steps: [*steps, steps[-1]],
    "equations at the end are left out": lambda steps: steps[:-1],
    "effects change places": _other_effects,
}


def _check_groups(program, steps):
    check_groups(program, [s if isinstance(s, Step) else Step(*s) for s in steps])


@pytest.mark.parametrize("name", GROUP_FAULTS)
def test_a_fault_in_a_group_is_found(name):
    program = simplify(traced(in_groups, LONG))
    steps = grouped(program)
    _check_groups(program, steps)
    with pytest.raises(DifferentProgram):
        _check_groups(program, GROUP_FAULTS[name](list(steps)))


def _along_another_axis(steps):
    at = next(k for k, s in enumerate(steps) if s[0].name == "sum")
    op, args, params, outs = steps[at]
    return [*steps[:at], (op, args, {**params, "axis": tuple([1 - i for i in params["axis"]])}, outs), *steps[at + 1 :]]


def _other_product(steps):
    at = next(k for k, s in enumerate(steps) if s[0].name == "multiply")
    return [*steps[:at], (OPS["scale"], *steps[at][1:]), *steps[at + 1 :]]


def _not_turned(steps):
    at = next(k for k, s in enumerate(steps) if s[0].name == "reshape")
    op, args, params, outs = steps[at]
    turned = Variable(outs[0].aval)
    return [
        *steps[:at],
        (op, args, params, (turned,)),
        (OPS["transpose"], [turned], {"axes": (1, 0)}, outs),
        *steps[at + 1 :],
    ]


@pytest.mark.parametrize("change", [None, _along_another_axis, _other_product, _not_turned])
@pytest.mark.parametrize("f", [lambda x: MATRIX @ x, lambda x: x @ MATRIX, lambda x: np.einsum("ij,j->i", MATRIX, x)])
def test_a_product_that_is_written_as_a_sum(f, change):
    program = simplify(traced(f, np.ones(60)))
    steps = [s for step in program.steps for s in as_sum(step, 0, lambda s: True)]
    assert len(steps) > len(program.steps)
    if change is None:
        _check_groups(program, steps)
    else:
        with pytest.raises(DifferentProgram):
            _check_groups(program, change(steps))


@pytest.mark.parametrize("shift", [0, 1])
def test_an_array_that_is_split_by_indices(shift):
    program = traced(lambda x: tuple(np.split(x * 2.0, [3, 40])), LONG)
    at = next(k for k, s in enumerate(program.steps) if s[0].name == "split")
    _, (x, *_), _, outs = program.steps[at]
    ends = [0, 3 + shift, 40 + shift, len(LONG)]
    parts = [
        (OPS["index"], [x], {"template": ((a, b, 1),)}, (v,)) for a, b, v in zip(ends, ends[1:], outs, strict=False)
    ]
    steps = [*program.steps[:at], *parts, *program.steps[at + 1 :]]
    if shift:
        with pytest.raises(DifferentProgram):
            _check_groups(program, steps)
    else:
        _check_groups(program, steps)


# ── what becomes of a pass that is wrong ─────────────────────────────────────────────────────────────────────────


def test_a_wrong_pass_is_left_out_and_logged(monkeypatch, caplog):
    monkeypatch.setattr(trust, "STRICT", False)
    wrong = _with_scan(_in_body(_other_operator))
    program = traced(two_values, X, Y)
    kept = proven(program, {"simplification": simplify, "finding loops": wrong})
    check_same(program, kept)
    assert not rolled_loops(kept) and len(kept.steps) == len(simplify(program).steps)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "finding loops (of the program `two_values`)" in record.message


def test_the_compiler_proves_what_it_runs(monkeypatch):
    monkeypatch.setattr(simplifying, "_is_one", lambda x: type(x) is float and x == 0.1)
    with pytest.raises(DifferentProgram):
        _ = CallProgram(traced(two_values, X, Y)).compiled
    monkeypatch.setattr(trust, "STRICT", False)
    monkeypatch.setenv("DUALAD_NATIVE", "0")
    fast = CallProgram(traced(two_values, X, Y)).compiled.run(X, Y)
    for a, b in zip(fast, two_values(X, Y), strict=True):
        assert np.array_equal(a, b)
