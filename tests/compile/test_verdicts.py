"""Verdicts: every operator has one, and it is what the source says."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile.verdicts import verdict
from dualad.core.tables import OPS


def test_every_operator_has_a_verdict() -> None:
    kinds = {op.name: verdict(op) for op in OPS.values()}
    assert all(v.kind in ("expression", "ufunc", "library", "inlined", "callback") and v.reason for v in kinds.values())
    assert kinds["sin"].kind == "expression" and kinds["cbrt"].kind == "ufunc" and kinds["matmul"].kind == "library"
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
