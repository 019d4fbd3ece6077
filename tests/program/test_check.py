"""The checker finds programs that are malformed, and functions that are not linear."""

import numpy as np
import pytest

import dualad as da
from dualad.core.aval import Aval
from dualad.core.tables import OPS
from dualad.errors import NotLinearError, ProgramError
from dualad.program.check import check, check_linear
from dualad.program.ir import Program
from dualad.program.variable import Variable

F8 = np.dtype(float)


def variable(*shape):
    return Variable(Aval(shape, F8))


def test_a_variable_must_be_assigned_before_it_is_read():
    a, b, c = variable(3), variable(3), variable(3)
    with pytest.raises(ProgramError, match="nothing before it assigns"):
        check(Program([a], [(OPS["sin"], (b,), {}, (c,))], [c]))


def test_a_variable_is_assigned_once():
    a, b = variable(3), variable(3)
    step = (OPS["sin"], (a,), {}, (b,))
    with pytest.raises(ProgramError, match="second time"):
        check(Program([a], [step, step], [b]))


def test_declared_avals_must_be_the_shape_rules():
    a, b = variable(3), variable(4)
    with pytest.raises(ProgramError, match="should give"):
        check(Program([a], [(OPS["sin"], (a,), {}, (b,))], [b]))


def test_a_returned_variable_must_exist():
    with pytest.raises(ProgramError, match="returns a variable"):
        check(Program([variable(3)], [], [variable(3)]))


def test_inputs_are_distinct():
    a = variable(3)
    with pytest.raises(ProgramError, match="twice among its inputs"):
        check(Program([a, a], [], [a]))


@pytest.mark.parametrize(
    "f",
    [
        np.sin,
        lambda v: v * v,
        lambda v: v + 1,
        lambda v: v - np.ones(3),
        lambda v: 1 / (v + 2),
        lambda v: np.concatenate([v, np.ones(3)]),
        lambda v: np.where(np.arange(3) > 1, v, 5.0),
        lambda v: np.ones(3),
        lambda v: v @ v,
        lambda v: np.maximum(v, 0.0),
        lambda v: np.where(v > 0, v, 0.0),
        lambda v: v.astype(int),
    ],
)
def test_functions_that_are_not_linear_are_refused(f):
    with pytest.raises(NotLinearError):
        da.linear_transpose(f, np.ones(3))


@pytest.mark.parametrize(
    "f",
    [
        lambda v: 3 * v - v / np.array([1.0, 2.0, 3.0]),
        lambda v: np.concatenate([v, np.zeros(3)]),
        lambda v: np.where(np.arange(3) > 1, v, 0.0) + np.cumsum(v),
        lambda v: v[::-1] @ np.arange(3.0),
        lambda v: np.zeros(3) + v,
        lambda v: np.zeros(2),
    ],
)
def test_linear_functions_are_accepted_and_transposed_rightly(f):
    rng = np.random.default_rng(0)
    v = rng.normal(size=3)
    c = rng.normal(size=np.shape(f(v)))
    (pulled,) = da.linear_transpose(f, v)(c if c.shape else float(c))
    assert np.vdot(c, f(v)) == pytest.approx(np.vdot(pulled, v))


def test_dead_nonlinear_code_does_not_matter():
    def f(v):
        np.sin(v)  # never used
        return 2 * v

    np.testing.assert_array_equal(da.linear_transpose(f, np.ones(3))(np.ones(3))[0], 2 * np.ones(3))


def test_every_linearized_program_is_well_formed_and_linear():
    def f(x):
        y = np.tanh(x @ x.T)
        return np.linalg.slogdet(y + 3 * np.eye(2))[1] + np.max(x) + np.prod(x[0])

    program = da.linearize(f, np.arange(6.0).reshape(2, 3) + 1)[1].program
    check(program)
    check_linear(program)
