"""Programs are compared by the names of what they compute: what is exact is accepted, every planted fault is found.

The faults are planted in the passes, or in what they return; no number is computed by either program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest

import dualad as da
from dualad.compile import reroll as rerolling
from dualad.compile import simplify as simplifying
from dualad.compile import trust
from dualad.compile.call import CallProgram
from dualad.compile.reroll import reroll, rolled_loops
from dualad.compile.simplify import simplify
from dualad.compile.validate import DifferentProgram, check_same, proven
from dualad.core.tables import OPS
from dualad.program.ir import Program
from dualad.program.variable import Variable

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
    "a buffer": lambda x, y: da.numpy.zeros_like(x) + y,
    "a call": lambda x, y: da.jit(lambda a, b: (a * b, np.sin(a)))(x, y)[1] + x,
    "a loop with a body": lambda x, y: da.scan(lambda c, r: (c * 1.0 + r, np.sin(np.cos(c) + 0 * r)), x, TABLE)[0],
}


@pytest.mark.parametrize("name", EXACT)
def test_what_simplification_does_is_proven(name):
    program = traced(EXACT[name], X, Y)
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
