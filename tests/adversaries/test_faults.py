"""Each fault that is planted in a pass is found by translation validation, which computes no number; others by numbers.

Not for: faults planted elsewhere (the tests that ``faults.TABLE`` names).
"""

from __future__ import annotations

import pytest

import dualad as da
from dualad.compile import reroll
from dualad.compile.native.engine import engine
from dualad.compile.simplify import simplify
from dualad.compile.validate import DifferentProgram, check_same
from dualad.program.ir import Program
from tests.adversaries import Difference
from tests.adversaries.faults import PASSES
from tests.adversaries.faults_compared import COMPARED


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reroll, "_LONG", 60)


def passes(f, args) -> tuple[Program, Program]:
    """Return a program, and what simplification and finding loops make of it."""
    program = da.trace(f, *args)
    return program, reroll.reroll(simplify(program))


@pytest.mark.parametrize("name", PASSES)
def test_a_fault_in_a_pass_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PASSES[name]
    program, right = passes(planted.f, planted.args)
    check_same(program, right)
    for place, attribute, make in planted.changes:
        monkeypatch.setattr(place, attribute, make(getattr(place, attribute)))
    with pytest.raises(DifferentProgram):
        check_same(*passes(planted.f, planted.args))


@pytest.mark.parametrize("name", COMPARED)
def test_a_fault_in_no_pass_is_a_difference(name: str) -> None:
    if COMPARED[name].native and engine() is None:
        pytest.skip("no machine code here")
    COMPARED[name].run(planted=False)
    with pytest.raises(Difference):
        COMPARED[name].run(planted=True)
