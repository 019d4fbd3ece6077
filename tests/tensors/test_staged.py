"""Staged tensors: a variable of a program that is being written.

Not for: the programs (`tests/program/`) or the transforms that write them.
"""

from __future__ import annotations

import numpy as np
import pytest

from dualad.core.aval import Aval
from dualad.errors import BranchError, EscapedTensorError
from dualad.program.variable import Variable
from dualad.tensors.staged import Staged, StagedLevel


@pytest.fixture
def level():
    with StagedLevel("trace") as level:
        yield level


def test_a_staged_tensor_knows_its_aval_and_nothing_else(level) -> None:
    x = level.new_input(Aval((2, 3), np.dtype(np.float32)))
    assert (
        x.shape == (2, 3) and x.dtype == np.float32 and x.ndim == 2 and len(x) == 2 and x.aval == Aval((2, 3), x.dtype)
    )
    assert "f32[2,3]" in repr(x)
    for question in (bool, float, int):
        with pytest.raises(TypeError):
            question(x)
    with pytest.raises(BranchError):
        assert x > 0


def test_calls_are_recorded_not_run(level) -> None:
    x = level.new_input(Aval((3,), np.dtype(float)))
    constant = np.arange(3.0)
    y = np.sin(x) * constant
    z = y.sum()
    assert isinstance(z, Staged) and z.shape == () and level.steps
    program = level.finish([z], "f")
    assert [e.op.name for e in program.equations] == ["sin", "multiply", "sum"]
    assert program.constants == [constant] or program.constants[0] is constant
    assert all(type(v) is Variable for e in program.equations for v in e.outs)
    assert program(np.array([0.1, 0.2, 0.3])) == [pytest.approx(np.sum(np.sin([0.1, 0.2, 0.3]) * constant))]


def test_dead_steps_are_left_out_and_outputs_may_be_constants(level) -> None:
    x = level.new_input(Aval((), np.dtype(float)))
    np.exp(x)
    y = x * 2.0
    program = level.finish([y, 5.0, x], "f")
    assert [e.op.name for e in program.equations] == ["multiply"]
    assert program(3.0) == [6.0, 5.0, 3.0]


def test_shape_rules_refuse_while_recording(level) -> None:
    a, b = (level.new_input(Aval(s, np.dtype(float))) for s in ((2,), (3,)))
    with pytest.raises(ValueError, match=r"broadcast|shape"):
        a + b
    with pytest.raises(ValueError):
        np.matmul(a, b)


def test_python_scalars_stay_weak(level) -> None:
    x = level.new_input(Aval((2,), np.dtype(np.float32)))
    assert (x * 2.0).dtype == np.float32
    assert (x * np.float64(2.0)).dtype == np.float64
    assert (2 + x).dtype == np.float32


def test_a_staged_tensor_of_a_finished_level_is_refused() -> None:
    with StagedLevel("linearize") as level:
        x = level.new_input(Aval((), np.dtype(float)))
    with pytest.raises(EscapedTensorError, match="linearize"):
        x + 1.0
