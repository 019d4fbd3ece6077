"""check: one verb for order, modes and oracles; its report says what is wrong, and by which oracle.

Not for each row of the report (`test_rows.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, CheckError, UsageError
from dualad.testing import QUANTITIES, check
from tests.testing.faults import ARGS, COMPLEX, FAULTS, faulty


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_right_rules_pass(kind: str) -> None:
    report = check(faulty(kind, "none"), *ARGS, order=3)
    names = [row.quantity for row in report.rows]
    assert report.ok and names == [*QUANTITIES, "hvp over forward", "hvp over reverse"]
    assert check(faulty(kind, "none"), *COMPLEX).ok


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_planted_faults_are_caught(kind: str, fault: str) -> None:
    with pytest.raises(CheckError):
        check(faulty(kind, fault), *(COMPLEX if fault == "conjugated" else ARGS))


def test_the_message_has_the_entry_both_numbers_and_the_tolerance() -> None:
    with pytest.raises(CheckError, match=r"jvp disagrees with differences: the tangent of out\[1\] is .* \(tolerance "):
        check(faulty("custom_jvp", "scaled"), *ARGS, order=1, modes="forward", oracles="differences")
    report = check(faulty("custom_jvp", "scaled"), *ARGS, name="area", raise_exception=False)
    assert not report.ok and str(report).startswith("derivatives of area at point 1: ")
    assert ", differences has " in str(report) and ", complex-step too (tolerance " in str(report)


@da.custom_jvp
def square(x):
    return x * x


@square.defjvp
def _(primals, tangents):
    return primals[0] ** 2, 2.0 * da.stop_gradient(primals[0]) * tangents[0]


@da.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def _(primals, tangents):
    return primals[0] ** 3, 3.0 * square(primals[0]) * tangents[0]


@da.custom_jvp
def fourth(x):
    return x**4


@fourth.defjvp
def _(primals, tangents):
    return primals[0] ** 4, 4.0 * cube(primals[0]) * tangents[0]


def test_order_is_how_far_the_check_goes() -> None:
    x = np.array([0.5, 1.5])
    for f, wrong in ((cube, 3), (fourth, 4)):
        for modes in (("forward", "reverse"), "forward", "reverse"):
            assert check(f, x, order=wrong - 1, modes=modes).ok
            with pytest.raises(CheckError, match=r"over (forward|reverse)"):
                check(f, x, order=wrong, modes=modes)
    assert check(square, x, order=1).ok
    with pytest.raises(CheckError, match="hvp"):
        check(square, x)


def test_modes_and_batches_that_are_not_asked_for_are_skipped() -> None:
    f = faulty("custom_jvp", "in lanes")
    with pytest.raises(CheckError, match="vmap-jvp disagrees with loop"):
        check(f, *ARGS, modes="forward", oracles="differences")
    report = check(f, *ARGS, modes="fwd", oracles="differences", batched=False, skip={"jacfwd": "by vmap"})
    assert {row.quantity: row.status for row in report.rows if row.status != "skipped"} == {"jvp": "ok"}


def test_what_cannot_be_checked_is_refused() -> None:
    for bad in ({"oracles": "crystal-ball"}, {"modes": "sideways"}, {"order": 0}, {"skip": {"gradient": "no"}}):
        with pytest.raises(ArgumentError):
            check(np.sin, 0.5, **bad)
    with pytest.raises(UsageError, match="floating-point"):
        check(np.sin, 1)
    with pytest.raises(CheckError, match="no oracle could judge"):
        check(np.sqrt, 0.0, oracles="differences")


def test_jax_is_asked_when_it_is_named() -> None:
    pytest.importorskip("jax")
    report = check(lambda x: np.sin(x) * x, np.array([0.3, 0.7]), oracles=["jax", "dot"], order=3, batched=False)
    assert {o.oracle for row in report.rows for o in row.outcomes} == {"numpy", "jax", "dot", "differences"}
