"""The operators behind `dualad.scipy.integrate`, from the registry's samples and by the registry's checks.

A run of a solver is a hundred times dearer than NumPy's operators, so most checks run with `--full` only.
"""

from __future__ import annotations

import pytest

import dualad.scipy.integrate  # noqa: F401
from dualad.core.tables import OPS
from dualad.scipy.integrate import functions
from tests.oracles import op_batching, op_derivatives, op_values

OURS = ["integral", "ivp", "ivp_tangent", "ivp_adjoint", "ivp_found", "ivp_crossings", "ivp_start"]
QUICK = {
    "shape_rule": op_values.check_shape_rule,
    "vjp": op_derivatives.check_vjp,
}
FULL = {
    "value": op_values.check_value,  # to the bit: see below
    "layouts": op_values.check_layouts,
    "first": op_derivatives.check_first,
    "second": op_derivatives.check_second,
    "third": op_derivatives.check_third,
    "linear": op_derivatives.check_linear,
    "transpose": op_derivatives.check_transpose,
    "double_transpose": op_derivatives.check_double_transpose,
    "batched_value": op_batching.check_batched_value,
    "batched_sizes": op_batching.check_batched_sizes,
    "batched_jvp": op_batching.check_batched_jvp,
    "batched_vjp": op_batching.check_batched_vjp,
    "program": op_values.check_program,
}


def run(name: str, check) -> None:
    for sample in op_values.subjects(OPS[name]):
        check(sample)


#: what only differentiable, and only linear, operators have
LINEAR = ("linear", "transpose", "double_transpose")
MOVING = (*LINEAR, "vjp", "first", "second", "third", "batched_jvp", "batched_vjp")


def applies(name: str, check: str) -> bool:
    op = OPS[name]
    return (check not in LINEAR or bool(op.linear_in)) and (check not in MOVING or op.jvp is not None)


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize("name", OURS)
def test_operator(name: str, check: str) -> None:
    if applies(name, check):
        run(name, QUICK[check])


@pytest.mark.full
@pytest.mark.parametrize("check", FULL)
@pytest.mark.parametrize("name", OURS)
def test_operator_in_full(name: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if check == "value":  # what is compiled at its sixtieth call, in one of two runs, has other last bits then
        monkeypatch.setattr(functions, "_COMPILED", 0)
    if applies(name, check):
        run(name, FULL[check])
