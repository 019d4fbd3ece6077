"""Verdicts: every operator has one, and it is what the source says."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import dualad as da
from dualad.compile import verdicts
from dualad.compile.native import passes
from dualad.compile.verdicts import machine_code, verdict
from dualad.core.tables import OPS
from dualad.errors import DualadError
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


@pytest.mark.parametrize("op", list(_cases()))
def test_machine_code_is_what_the_verdict_says(op, native_backend, monkeypatch) -> None:
    """Compiled, with everything taken that is known, it is among the equations of machine code, or never."""
    monkeypatch.setattr(passes, "_WORTH", 0)
    said, wanted, found = machine_code(op), False, False
    for s in subjects(op):
        many = [np.broadcast_to(a, (512, *np.shape(a))).copy() for a in s.args]
        for f, args in ((s.call, s.args), (da.vmap(s.call), many)):
            try:
                compiled = da.jit(f)._specialised(tuple(args), {}).program.compiled
            except (DualadError, np.linalg.LinAlgError):
                continue
            own = [step for step in compiled.program.steps if step[0] is op]  # simplification may have taken it away
            wanted |= any([is_known(step) for step in own for is_known, _ in verdicts._WRITERS.values()])
            found |= any([step[0] is op for g in compiled.groups for step in g.steps])
    assert found or not wanted, f"{op.name} is known to machine code, and not found there"
    assert said or not found, f"{op.name} is machine code, and its verdict does not say so"


def test_what_machine_code_is_known_for() -> None:
    assert machine_code(OPS["sin"]) == ("registers", "loops", "stacks")
    assert machine_code(OPS["solve"]) == ("stacks",) and "registers" in machine_code(OPS["scan"])
    assert all(["registers" in machine_code(OPS[name]) for name in ("index", "index_add", "index_set")])
    assert machine_code(OPS["custom_jvp_call"]) == machine_code(OPS["fft"]) == ()
