"""NaN in the backward pass, where it comes from, warnings in rules, the log.

Not for: the profiler (`test_profiler.py`).
"""

from __future__ import annotations

import logging
import traceback
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import NonFiniteError

X = np.ones((2, 3))


def two_outputs(bad: int):
    """The product of torch's test: its backward rule returns NaN in one of its two outputs."""

    @da.custom_vjp
    def multiplied(x, y):
        return x * y

    def bwd(residuals, ct):
        cts = [ct * residuals[1], ct * residuals[0]]
        cts[bad] = cts[bad] * np.nan
        return tuple(cts)

    multiplied.defvjp(lambda x, y: (multiplied(x, y), (x, y)), bwd)
    return multiplied


# ── what became non-finite ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bad", [0, 1])
def test_debug_nans_names_the_function_and_the_output(bad) -> None:
    f = two_outputs(bad)
    run = lambda: da.grad(lambda x, y: np.sum(f(x, y) * 2.0), (0, 1))(X, X)
    assert np.isnan(run()[bad]).all()  # off by default: NaN passes
    with da.debug_nans(), pytest.raises(FloatingPointError) as caught:
        run()
    origin = caught.value.origin
    assert (origin.operation, origin.custom, origin.phase, origin.output) == ("multiplied", True, "transpose", bad)
    assert origin.index == (0, 0)
    text = str(caught.value)
    assert "the cotangent that `multiplied`, a custom rule, sends back became non-finite (nan), first at (0, 0)" in text
    assert f"(phase transpose, output {bad}, under `grad`" in text
    assert isinstance(caught.value, NonFiniteError)


def test_the_innermost_context_of_debug_nans_wins() -> None:
    f = two_outputs(0)
    run = lambda: da.grad(lambda x: np.sum(f(x, X)))(X)
    with da.debug_nans():
        with da.debug_nans(False):
            assert np.isnan(run()).all()
            with da.debug_nans(), pytest.raises(NonFiniteError):
                run()
            with da.debug(branches=True):  # says nothing about NaN, so that stays off
                assert np.isnan(run()).all()
        with pytest.raises(NonFiniteError):
            run()
        with da.debug(branches=True), pytest.raises(NonFiniteError):
            run()
    assert np.isnan(run()).all()


def test_debug_nans_names_primal_tangent_and_transpose() -> None:
    bad = da.custom_jvp(lambda x: x * 1.0)
    bad.defjvp(lambda primals, tangents: (primals[0] * 1.0, tangents[0] * np.nan))
    with da.debug_nans():
        with pytest.raises(NonFiniteError, match=r"tangent of `<lambda>`, a custom rule.*phase tangent, output 0"):
            da.jvp(bad, (X,), (X,))
        with np.errstate(invalid="ignore"), pytest.raises(NonFiniteError, match=r"value of `log`.*phase primal"):
            da.jvp(np.log, (-X,), (X,))
        with pytest.raises(NonFiniteError, match=r"cotangent that `<lambda>`.*phase transpose"):
            da.grad(lambda x: np.sum(bad(x)))(X)


# ── where it comes from ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_forward_line_is_named_also_where_derivatives_are_nested() -> None:
    f = two_outputs(0)

    def inner(x):
        return np.sum(f(x, X))  # the line that applied the rule

    line = f"{__file__}:{inner.__code__.co_firstlineno + 1}"
    for run in (da.grad(inner), da.grad(lambda x: np.sum(da.grad(inner)(x) ** 2)), da.hessian(inner)):
        with da.debug_nans(), pytest.raises(NonFiniteError) as caught:
            run(X)
        assert f"At: {line}" in str(caught.value)
    pull = da.vjp(inner, X)[1]
    with da.debug_nans(), pytest.raises(NonFiniteError, match="no forward information"):
        pull(1.0)


def test_errors_in_bwd_keep_their_traceback() -> None:
    @da.custom_vjp
    def f(x):
        return x * 1.0

    def bwd(residuals, ct):
        raise RuntimeError("from the rule itself")

    f.defvjp(lambda x: (f(x), None), bwd)
    for context in (da.debug(), da.debug_nans()):
        with context, pytest.raises(RuntimeError, match="from the rule itself") as caught:
            da.grad(f)(1.0)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert (frames[-1].name, frames[-1].lineno) == ("bwd", bwd.__code__.co_firstlineno + 1)


# ── warnings in rules ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_warning_in_a_rule_reaches_the_caller() -> None:
    @da.custom_vjp
    def f(x):
        return x * 1.0

    def bwd(residuals, ct):
        warnings.warn("from bwd", UserWarning, stacklevel=1)
        return (ct,)

    f.defvjp(lambda x: (f(x), None), bwd)
    g = da.custom_jvp(lambda x: x * 1.0)

    @g.defjvp
    def rule(primals, tangents):
        warnings.warn("from jvp", UserWarning, stacklevel=1)
        return primals[0] * 1.0, tangents[0]

    with pytest.warns(UserWarning, match="from bwd"):
        da.grad(f)(1.0)
    with pytest.warns(UserWarning, match="from jvp"):
        da.grad(g)(1.0)
    with pytest.warns(UserWarning, match="from bwd"), da.debug_nans():
        da.jacrev(f)(np.ones(2))


# ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_equations_are_logged_in_the_order_of_execution(caplog) -> None:
    f = lambda x: np.sum(np.reshape(np.swapaxes(x, 0, 1), (6,)) / 2.0 + x[0, 0])
    run = da.grad(f)
    with caplog.at_level(logging.DEBUG, "dualad"):
        run(X)
    assert [r.op for r in caplog.records] == ["sum", "add", "index", "divide", "reshape", "transpose"]
    assert all(r.name == "dualad" and r.levelno == logging.DEBUG for r in caplog.records)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "dualad"), da.debug():
        run(X)
    assert len(caplog.records) == 6
    assert {r.line for r in caplog.records} == {f"{__file__}:{f.__code__.co_firstlineno}"}
    assert caplog.records[0].getMessage().startswith("[DAL008] transpose sum of f64[] at ")
    caplog.clear()
    with caplog.at_level(logging.INFO, "dualad"):
        run(X)
    assert not caplog.records


def test_custom_rules_are_logged_by_name(caplog) -> None:
    f = two_outputs(0)
    with caplog.at_level(logging.DEBUG, "dualad"):
        da.grad(lambda x: np.sum(f(x, X)))(X)
    assert [r.getMessage() for r in caplog.records] == [
        "[DAL008] transpose sum of f64[]", "[DAL008] transpose linear_call of `multiplied` of f64[2,3]"
    ]  # fmt: skip
