"""Verdicts: every operator has one, and it is what the source says."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import groups, passes, stacks
from dualad.compile.native.table import LOWERINGS, Source
from dualad.compile.verdicts import machine_code, verdict
from dualad.core.tables import OPS
from dualad.errors import DualadError
from dualad.ops.scans import recurrence
from dualad.transforms.trace import trace
from tests.oracles.op_values import subjects


def test_every_operator_has_a_verdict() -> None:
    kinds = {op.name: verdict(op) for op in OPS.values()}
    assert all(v.kind in ("ufunc", "library", "inlined", "callback") and v.reason for v in kinds.values())
    assert kinds["sin"].kind == "ufunc" and kinds["where"].kind == "ufunc" and kinds["matmul"].kind == "library"
    assert kinds["scan"].kind == "inlined" and kinds["custom_jvp_call"].kind == "callback"
    for name, v in kinds.items():
        if v.kind == "callback":
            assert OPS[name].kind in ("custom", "implicit", "collective") or OPS[name].effect


@pytest.mark.parametrize(
    ("name", "f", "text"),
    [
        ("sin", np.sin, "v1 = sin(x0)"),
        ("cbrt", np.cbrt, "cbrt(x0)"),
        ("scan", lambda x: da.fori_loop(0, 3, lambda i, c: c * 2, x), "for "),
        ("while_loop", lambda x: da.while_loop(lambda c: c < 9.0, lambda c: c * 2, x), "while True:"),
        ("switch", lambda x: da.cond(x > 1, np.sin, np.cos, x), "if "),
    ],
)
def test_the_source_does_what_the_verdict_says(name: str, f, text: str, numpy_backend) -> None:
    low = da.jit(f).lower(0.5)
    assert text in low.source and name in {e.op.name for e in low.program.equations}


def _cases():
    for op in OPS.values():
        if op.kind not in ("control", "implicit", "custom"):
            marks = [] if zlib.crc32(op.name.encode()) % 12 == 3 else [pytest.mark.full]
            yield pytest.param(op, marks=marks, id=op.name)


#: who says which equations become machine code
WRITERS = {"registers": groups.is_known, "loops": passes.is_known, "stacks": stacks.is_known}
X, LONG, TRUTHS = np.linspace(0.1, 0.9, 8), np.linspace(0.1, 0.9, 4096), np.arange(4096).reshape(512, 8) % 3 == 0
#: calls that the samples of operators have none of: truth values, long axes, sums of many products
MORE = {
    "all": (lambda x: np.all(x, axis=0), TRUTHS),
    "any": (lambda x: np.any(x, axis=0), TRUTHS),
    "argmax": (np.argmax, LONG),
    "argmin": (np.argmin, LONG),
    "convolve": (lambda x, y: np.convolve(x, y, "same"), LONG, X),
    "cumprod": (np.cumprod, LONG),
    "cumsum": (np.cumsum, LONG),
    "matmul": (np.matmul, LONG.reshape(64, 64), LONG.reshape(64, 64)),
    **{name: (getattr(np, name), TRUTHS, ~TRUTHS) for name in (
        "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor")},
    **{name: (getattr(np, name), TRUTHS) for name in ("invert", "logical_not")},
    "recurrence": (lambda a, b: recurrence(a, b, axis=0), LONG, LONG),
    "remainder": (np.remainder, LONG.astype(int), np.full(LONG.shape, 3)),
}  # fmt: skip


def _calls(op):
    """Yield calls of an operator on its samples, and on many lanes of them."""
    for s in subjects(op):
        yield s.call, s.args
        yield da.vmap(s.call), [np.broadcast_to(a, (512, *np.shape(a))).copy() for a in s.args]
    if op.name in MORE:
        f, *args = MORE[op.name]
        yield f, args
        yield f, [a[0] for a in args]


@pytest.mark.parametrize("op", list(_cases()))
def test_machine_code_is_what_the_verdict_says(op, native_backend, monkeypatch) -> None:
    """Each way that its row names is known for some call; and it is among the equations of machine code, or never."""
    monkeypatch.setattr(passes, "_WORTH", 0)
    said, known, found = machine_code(op), set(), False
    for f, args in _calls(op):
        try:
            compiled = da.jit(f)._specialised(tuple(args), {}).program.compiled
        except (DualadError, np.linalg.LinAlgError):
            continue
        # Simplification may have taken it away.
        for step in [step for step in compiled.program.steps if step[0] is op]:
            known |= {word for word, is_known in WRITERS.items() if is_known(step)}
        found |= any([step[0] is op for g in compiled.groups for step in g.steps])
    assert found or not known, f"{op.name} is known to machine code, and not found there"
    assert known <= set(said), f"{op.name} is machine code in {known}, and its verdict says {said}"


@pytest.mark.parametrize("name", sorted(LOWERINGS.keys() & {op.name for op in OPS.values()}))
def test_every_way_of_a_row_is_taken(name: str) -> None:
    known: set[str] = set()
    for f, args in _calls(OPS[name]):
        try:
            steps = [step for step in trace(f, *args).steps if step[0] is OPS[name]]
        except (DualadError, TypeError, np.exceptions.AxisError):
            continue
        known |= {word for word, is_known in WRITERS.items() if any(map(is_known, steps))}
    assert known == set(machine_code(OPS[name]))


@pytest.mark.parametrize("name", sorted(LOWERINGS.keys() & {op.name for op in OPS.values()}))
def test_memory_is_whose_the_row_says(name: str) -> None:
    op, source = OPS[name], LOWERINGS[name].source
    calls = [(s.args, s.params) for s in subjects(op)]
    if source in (Source.NEW, Source.VIEW):  # and where there is nothing to do
        calls += [(args, {**p, "axis": ()}) for args, p in calls if type(p.get("axis")) is tuple]
    for args, params in calls:
        with np.errstate(all="ignore"):
            made = op.impl(*args, **params)
        if op.multiple_results or not np.ndim(made):
            continue
        shared = any([np.shares_memory(made, a) for a in args if isinstance(a, np.ndarray)])
        assert not (shared and source is Source.NEW), f"{name}{params} returns memory of an argument"
        assert not (shared and source is Source.PRODUCT and len(args) > 1), f"{name}{params} does, of two"


def test_what_machine_code_is_known_for() -> None:
    assert machine_code(OPS["sin"]) == ("registers", "loops", "stacks")
    assert machine_code(OPS["solve"]) == ("registers", "stacks") and "registers" in machine_code(OPS["scan"])
    assert all(["registers" in machine_code(OPS[name]) for name in ("index", "index_add", "index_set")])
    assert machine_code(OPS["custom_jvp_call"]) == machine_code(OPS["fft"]) == ()
