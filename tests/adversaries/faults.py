"""The table of planted faults: what was broken on purpose, in which pass, and what caught it.

    python -m tests.adversaries faults

runs every test that plants faults and prints the table. ``PASSES`` are planted here, in what simplification and the
search for loops are made of, the faults that users found among them; the others stand beside what catches them. For:
showing that a pass may be wrong. Not for: what is right (it stays right: the other tests of these files).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import dualad as da
from dualad.compile import repeats, reroll, simplify
from dualad.core.tables import OPS

__all__ = ["PASSES", "TABLE", "Planted", "table"]

ROOT = Path(__file__).resolve().parents[2]
_PROVEN, _BOUNDS, _CALLED = "translation validation", "bounds of every access", "the first call"
_COMPARED = "comparison with NumPy"
_VALIDATE = "tests/compile/test_validate.py"
_NATIVE, _FIRST = "tests/compile/native/test_bounds.py", "tests/compile/test_first_call.py"
#: a test whose cases are faults: what they are planted in (if their names don't begin with it), what catches them
TABLE = {
    "tests/adversaries/test_faults.py::test_a_fault_in_a_pass_is_found": ("", _PROVEN),
    "tests/adversaries/test_faults.py::test_a_fault_in_no_pass_is_a_difference": ("", _COMPARED),
    f"{_VALIDATE}::test_a_fault_in_simplification_is_found": ("simplification", _PROVEN),
    f"{_VALIDATE}::test_a_fault_in_finding_loops_is_found": ("loops", _PROVEN),
    f"{_VALIDATE}::test_a_loop_that_is_written_wrong_is_found": ("loops, as written", _PROVEN),
    f"{_VALIDATE}::test_a_fault_in_a_group_is_found": ("groups of equations", _PROVEN),
    f"{_NATIVE}::test_a_fault_in_a_text_is_refused": ("machine code, its text", _BOUNDS),
    f"{_NATIVE}::test_a_fault_in_a_writer_is_refused": ("machine code, its writers", _BOUNDS),
    f"{_FIRST}::test_planted_faults_of_machine_code_are_caught": ("machine code, as it runs", _CALLED),
    f"{_FIRST}::test_planted_faults_of_source_are_caught": ("source, as it runs", _CALLED),
}

_M = np.arange(1.0, 5.0).reshape(2, 2)


class Planted(NamedTuple):
    """A fault: (place, name, what makes the wrong one of the right one) each, and the function that meets it."""

    changes: tuple[tuple[Any, str, Callable], ...]
    f: Callable
    args: tuple


def _alias(*names: str, to: Callable = lambda self, args, params: args[0]) -> tuple:
    """Plant a rewrite that takes the result of an operator for another value that is there already."""

    def make(real):
        def alias(self, op, args, params, outs):
            known = real(self, op, args, params, outs)
            return to(self, args, params) if known is None and op.name in names else known

        return alias

    return ((simplify._Simplifier, "alias", make), (simplify, "_ALIASED", lambda real: real | set(names)))


def _step(change: Callable) -> tuple:
    """Plant another equation in the place of one: ``change(op, args, params)``."""

    def make(real):
        def step(self, given):
            op, args, params, outs = given
            return real(self, given.rewritten(*change(op, list(args), params), outs))

        return step

    return ((simplify._Simplifier, "step", make),)


def _always(value: Any) -> Callable:
    return lambda real: lambda *args: value


def _arguments(change: Callable) -> Callable:
    """Return what makes a method that gets other arguments."""
    return lambda real: lambda self, *args: real(self, *change(*args))


def _coarse(*types: type) -> Callable:
    """Return what makes a key that does not look into values of these types."""
    return lambda real: lambda x: "same" if (isinstance(x, types) and np.ndim(x) != 0) or type(x) is dict else real(x)


def _in_place(x, y):
    z = np.concatenate([x] * 10)
    for k in range(40):
        z = np.cos(z)
        z[(7 * k) % 19] += np.sin(z[(3 * k) % 19]) * y[0]
    return z


def _in_turn(x, y):
    out = []
    for k in range(40):
        x, y = x + 0.1 * np.cos(y), y * x - (k + 1.0)
        out.append(x)
    for k in range(40):
        y = np.sin(y) * out[k] + np.cos(out[k])
    return np.stack(out[3:30]), y, out[17]


def _rows(x, y):
    """Read at one place, but for two of the first iterations."""
    for k in range(48):
        y = np.sin(y) + np.cos(y[1 if k in (1, 2) else 0]) * x * (k + 1.0)
    return y


def _differ(x, y):
    for k in range(40):
        x = np.sin(x) * y + np.float64(0.1 * (k % 3))
    return x


def _two(x, y):
    for k in range(40):
        x, y = x + 0.1 * np.cos(y), y * 0.5 - 0.1 * np.sin(x) * (k + 1.0)
    return x, y


def _read_in_turn(x, y):
    table, s = np.cumsum(np.ones((50, 2)), axis=0) * x, y
    for k in range(40):
        s = np.sin(s) + table[(7 * k) % 50]
    return s


_X, _Y = np.array([0.3, 0.8]), np.array([0.7, -0.4])
_XY, _MM = (_X, _Y), (_M, _M * 0.3)
_ROLLER, _BODY = reroll._Roller, reroll._Body

#: pass: fault -> what is planted
PASSES: dict[str, Planted] = {
    "simplification: axes are no part of what a sum is": Planted(
        ((simplify, "hashable", _coarse()),), lambda x, y: np.sum(x * y, 0) + np.sum(x * y, 1), _MM
    ),
    "simplification: constants of one shape are one": Planted(
        ((simplify, "hashable", _coarse(np.ndarray)),),
        lambda x, y: x * np.array([1.0, 2.0]) + x * np.array([3.0, 4.0]),
        _XY,
    ),
    "simplification: every square constant is the unit matrix": Planted(
        ((simplify, "_is_identity", lambda real: lambda x: type(x) is np.ndarray and x.shape == (2, 2)),),
        lambda x, y: x @ np.array([[2.0, 0.0], [1.0, 2.0]]),
        _MM,
    ),
    "simplification: nearly one is one": Planted(
        ((simplify, "_is_one", lambda real: lambda x: type(x) is float and abs(x - 1) < 0.1),),
        lambda x, y: x * 1.05,
        _XY,
    ),
    "simplification: shapes are not compared": Planted(
        ((simplify, "_same", lambda real: lambda x, out: True),), lambda x, y: np.reshape(x, (2, 1)) * y, _XY
    ),
    "simplification: dtypes are not compared": Planted(
        ((simplify, "_same", lambda real: lambda x, out: x.aval.shape == out.shape),),
        lambda x, y: x.astype(np.float32) * 3,
        _XY,
    ),
    "simplification: a flip is left out": Planted(_alias("flip"), lambda x, y: np.flip(x) * y, _XY),
    "simplification: a transpose of a square is left out": Planted(_alias("transpose"), lambda x, y: x.T - y, _MM),
    "simplification: a reversed slice is left out": Planted(_alias("index"), lambda x, y: x[::-1] * y, _XY),
    "simplification: a negation is left out": Planted(_alias("negative"), lambda x, y: -x * y, _XY),
    "simplification: a sort is left out": Planted(_alias("sort"), lambda x, y: np.sort(x) * y, _XY),
    "simplification: a running sum is left out": Planted(_alias("cumsum"), lambda x, y: np.cumsum(x) * y, _XY),
    "simplification: an absolute value is left out": Planted(
        _alias("abs", "absolute"), lambda x, y: np.abs(x) * y, _XY
    ),
    "simplification: a minimum is its first argument": Planted(_alias("minimum"), lambda x, y: np.minimum(x, y), _XY),
    "simplification: a choice takes its first branch": Planted(
        _alias("where", to=lambda self, args, params: args[1]), lambda x, y: np.where(x > 0.5, x, y), _XY
    ),
    "simplification: arguments of a difference change places": Planted(
        _step(lambda op, args, params: (op, args[::-1] if op.name == "subtract" else args, params)),
        lambda x, y: x - y,
        _XY,
    ),
    "simplification: sums become differences": Planted(
        _step(lambda op, args, params: (OPS["subtract"] if op.name == "add" else op, args, params)),
        lambda x, y: x + y,
        _XY,
    ),
    "simplification: an axis is another": Planted(
        _step(lambda op, args, params: (op, args, {**params, "axis": (0,)} if params.get("axis") == (1,) else params)),
        lambda x, y: np.sum(x * y, 1),
        _MM,
    ),
    "simplification: an index is one further": Planted(
        _step(lambda op, args, params: (op, args, {**params, "template": (1,)} if op.name == "index" else params)),
        lambda x, y: x[0] * y,
        _XY,
    ),
    "simplification: cubes are squares": Planted(
        ((simplify._Simplifier, "small_power", lambda real: lambda self, args, out: (OPS["square"], args[:1])),),
        lambda x, y: x**3,
        _XY,
    ),
    "simplification: transposes compose the other way round": Planted(
        (
            (
                simplify._Simplifier,
                "rewritten",
                lambda real: (
                    lambda self, op, args, params, outs: (
                        (op, args, {"axes": params["axes"][::-1]})
                        if op.name == "transpose"
                        else real(self, op, args, params, outs)
                    )
                ),
            ),
        ),
        lambda x: np.transpose(x, (2, 0, 1)) * 2.0,
        (np.ones((2, 2, 2)),),
    ),
    "simplification: broadcasting is taken off everywhere": Planted(
        (
            (
                simplify._Simplifier,
                "before_broadcast",
                lambda real: lambda self, a: a[..., :1] if type(a) is np.ndarray and a.ndim else real(self, a),
            ),
        ),
        lambda x, y: x * np.array([1.0, 2.0]),
        _XY,
    ),
    "simplification: a zero is not strong any more": Planted(
        _step(lambda op, args, params: (OPS["multiply"] if op.name == "scale" else op, args, params)),
        lambda x, y: da.jacfwd(lambda v: np.log(v) * np.sqrt(v))(x),
        _XY,
    ),
    "loops: first iterations that index elsewhere are taken in": Planted(
        ((repeats, "_extend_start", lambda real: lambda *args: real(*args[:-1], np.zeros_like(args[-1]))),), _rows, _XY
    ),
    "loops: iterations that index elsewhere are taken in": Planted(
        ((repeats, "_places", lambda real: lambda *args: (real(*args)[0], np.zeros(args[-1], bool))),), _rows, _XY
    ),
    "loops: constants of one shape are one": Planted(
        ((repeats, "hashable", lambda real: lambda x: "same" if isinstance(x, np.float64) else real(x)),), _differ, _XY
    ),
    "loops: rows are read in the other order": Planted(
        ((_ROLLER, "rows", _arguments(lambda refs: (refs[::-1],))),), _in_turn, _XY
    ),
    "loops: rows begin one later": Planted(
        ((_ROLLER, "slice", _arguments(lambda array, numbers, before=0: (array, [k - 1 for k in numbers], before))),),
        _in_turn,
        _XY,
    ),
    "loops: places of a table are read in the other order": Planted(
        (
            (
                _ROLLER,
                "gathered",
                _arguments(lambda source, template, where, numbers: (source, template, where, numbers[::-1])),
            ),
        ),
        _read_in_turn,
        _XY,
    ),
    "loops: places are one further": Planted(
        ((_BODY, "_numbers", _arguments(lambda numbers: ([k + 1 for k in numbers],))),), _in_place, _XY
    ),
    "loops: constants of the iterations are sorted": Planted(
        ((reroll, "_stack_constants", lambda real: lambda values: np.sort(real(values))[::-1]),), _two, _XY
    ),
    "loops: what is carried begins with the other values": Planted(
        (
            (
                _BODY,
                "_carries",
                lambda real: lambda self: (lambda carries, starts, new: (carries, starts[::-1], new))(*real(self)),
            ),
        ),
        _two,
        _XY,
    ),
    "loops: what is carried goes on in another place": Planted(
        (
            (
                _BODY,
                "_carries",
                lambda real: lambda self: (lambda carries, starts, new: (carries, starts, new[::-1]))(*real(self)),
            ),
        ),
        _two,
        _XY,
    ),
    "loops: a value read outside is that of the iteration before": Planted(
        (
            (
                _ROLLER,
                "_owner",
                lambda real: (
                    lambda self, ref: (lambda o: o if o is None or o[2] == 0 else (o[0], o[1], o[2] - 1))(
                        real(self, ref)
                    )
                ),
            ),
        ),
        _in_turn,
        _XY,
    ),
    "loops: what an iteration reads of the one before is its own start": Planted(
        (
            (
                _BODY,
                "_argument",
                lambda real: (
                    lambda self, column: (
                        self.made[min(self.made)]
                        if self.made and int(self.loop.repeat.ages[column]) == 1
                        else real(self, column)
                    )
                ),
            ),
        ),
        _two,
        _XY,
    ),
}


def table() -> str:
    """Return the table in Markdown, from the tests' own outcomes; a fault that nothing caught stands in capitals."""
    rows: list[tuple[str, str, str]] = []

    class Outcomes:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            report = (yield).get_result()
            spec = getattr(item, "callspec", None)
            if report.when != "call" or spec is None or report.skipped:
                return
            where, catcher = next(v for k, v in TABLE.items() if item.nodeid.startswith(k))
            fault = next(p for p in spec.params.values() if isinstance(p, str))
            if not where:
                where, _, fault = fault.partition(": ")
            rows.append((fault, where, catcher if report.passed else "NOTHING"))

    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *[str(ROOT / t) for t in TABLE]], plugins=[Outcomes()])
    rows = list(dict.fromkeys(rows))
    caught = sum([r[2] != "NOTHING" for r in rows])
    lines = ["| fault | planted in | caught by |", "|---|---|---|", *[f"| {' | '.join(r)} |" for r in rows]]
    return "\n".join([*lines, "", f"{caught} of {len(rows)} faults are caught."])
