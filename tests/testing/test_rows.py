"""check_function: right functions pass, and every kind of wrong derivative is caught, in every row, by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dualad.core.primitive import Primitive
from dualad.core.tables import OPS
from dualad.errors import ArgumentError, CheckError, UsageError
from dualad.lift.loading import load_module
from dualad.testing import ORACLES, QUANTITIES, check_function
from dualad.testing.engine import Engine

functions = load_module(Path(__file__).parent / "functions.py")
X = np.array([0.6, 1.1, 1.9])
WITHOUT_JAX = ("differences", "complex-step", "dot", "loop")


def rows(report):
    return {row.quantity: row for row in report.rows}


def outcomes(report, quantity):
    return {outcome.oracle: outcome for outcome in rows(report)[quantity].outcomes}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("smooth", (X, X[::-1].copy())),
        ("scalar", (X,)),
        ("special", (X,)),
        ("rosenbrock", (X,)),
        ("with_absolute_value", (X - 1.0,)),
        ("with_own_buffer", (X,)),
        ("changes_its_argument", (X,)),
        ("smooth", (np.float32(0.5), 2.0)),
    ],
)
def test_right_functions_pass(name, args):
    report = check_function(getattr(functions, name), args, oracles=WITHOUT_JAX)
    assert report.ok, "\n".join(report.failures)
    assert [row.quantity for row in report.rows] == list(QUANTITIES)
    assert {row.status for row in report.rows} == {"ok"}
    report.raise_on_failure()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("tree", ({"w": X, "b": X, "k": np.array([1])}, 3, "plain")),
        ("in_complex_plane", (X + 0.5j,)),
        ("differentiates_inside", (X,)),
        ("with_own_buffer", (X,)),
    ],
)
def test_right_functions_pass_with_jax_too(name, args):
    report = check_function(getattr(functions, name), args)
    assert report.ok, "\n".join(report.failures)


def test_all_oracles_run_on_a_smooth_function():
    pytest.importorskip("jax")
    report = check_function(functions.smooth, (X, X))
    for quantity in ("jvp", "vjp", "jacfwd", "jacrev", "hvp"):
        found = outcomes(report, quantity)
        expected = set(ORACLES) - {"loop"} - ({"dot"} if quantity in {"jvp", "jacfwd"} else set())
        assert set(found) == expected
        assert {o.status for o in found.values()} == {"ok"}, quantity
    for quantity in ("vmap-jvp", "vmap-vjp", "vmap-value"):
        assert {"loop", "jax"} <= set(outcomes(report, quantity))


# ── wrong numbers in each row ────────────────────────────────────────────────────────────────────────────────────

METHODS = dict(
    zip(
        QUANTITIES,
        ("values", "jvp", "vjp", "jacfwd", "jacrev", "hvp", "vmap_jvp", "vmap_vjp", "vmap_value"),
        strict=True,
    )
)


def _scaled(result):
    return result * 1.0001


def _one_entry(result):
    wrong = np.array(result, order="C")
    wrong.ravel()[-1] += 1e-3
    return wrong


def _nan(result):
    wrong = np.array(result, order="C")
    wrong.ravel()[0] = np.nan
    return wrong


def _zero(result):
    return np.zeros_like(result)


@pytest.mark.parametrize("spoil", [_scaled, _one_entry, _nan, _zero])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_wrong_number_is_caught_in_its_row(monkeypatch, quantity, spoil):
    method = METHODS[quantity]
    right = getattr(Engine, method)
    monkeypatch.setattr(Engine, method, lambda self, *args: spoil(right(self, *args)))
    report = check_function(functions.smooth, (X, X), oracles=WITHOUT_JAX)
    row = rows(report)[quantity]
    assert row.status == "mismatch"
    bad = [o for o in row.outcomes if o.status == "mismatch"]
    assert bad and all(o.mismatch.entry and o.mismatch.tolerance > 0 for o in bad)
    assert any(f"{quantity} disagrees with" in text for text in report.failures)
    with pytest.raises(CheckError, match=quantity):
        report.raise_on_failure()


@pytest.mark.parametrize("oracle", ["jax", "differences", "complex-step"])
@pytest.mark.parametrize("quantity", ["jvp", "vjp", "jacfwd", "jacrev", "hvp", "vmap-jvp", "vmap-vjp"])
def test_each_oracle_convicts_alone(monkeypatch, quantity, oracle):
    if oracle == "jax":
        pytest.importorskip("jax")
    method = METHODS[quantity]
    right = getattr(Engine, method)
    monkeypatch.setattr(Engine, method, lambda self, *args: _one_entry(right(self, *args)))
    report = check_function(functions.smooth, (X, X), oracles=[oracle])
    assert outcomes(report, quantity)[oracle].status == "mismatch"


@pytest.mark.parametrize("quantity", ["vjp", "jacrev", "hvp"])
def test_the_dot_product_test_convicts_alone(monkeypatch, quantity):
    method = METHODS[quantity]
    right = getattr(Engine, method)
    spoil = _scaled if quantity != "hvp" else _one_entry
    calls = []

    def wrong(self, *args):  # the other side of the dot test must stay right
        calls.append(1)
        return spoil(right(self, *args)) if len(calls) == 1 else right(self, *args)

    monkeypatch.setattr(Engine, method, wrong)
    report = check_function(
        functions.smooth, (X, X), oracles=["dot"], skip=dict.fromkeys({"vjp", "jvp"} - {quantity}, "")
    )
    assert outcomes(report, quantity)["dot"].status == "mismatch"


def test_the_worst_entry_is_named(monkeypatch):
    right = Engine.jacfwd

    def wrong(self):
        matrix = right(self)
        matrix[1, 4] += 0.5
        matrix[0, 0] *= 1 + 1e-5
        return matrix

    monkeypatch.setattr(Engine, "jacfwd", wrong)
    report = check_function(functions.smooth, (X, X), oracles=["differences"], target="here:smooth")
    bad = outcomes(report, "jacfwd")["differences"].mismatch
    assert bad.entry == "d out[1] / d y[1]" and bad.count == 2
    assert bad.got - bad.expected == pytest.approx(0.5, rel=1e-6)
    assert any(
        t.startswith("here:smooth at point 1: jacfwd disagrees with differences: d out[1] / d y[1]")
        for t in report.failures
    )


# ── a wrong operator ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def planted():
    """Declare operators with planted errors; they leave the registry afterwards."""
    before = set(OPS)

    def declare(name, **how):
        fields = {"impl": np.sin, "abstract_eval": lambda x: x, "jvp": None, "samples": ()} | how
        return Primitive(name, **fields)

    yield declare
    for name in set(OPS) - before:
        del OPS[name]


@pytest.mark.parametrize("name", ["wrong_jvp", "wrong_vjp"])
def test_a_wrong_custom_rule_is_caught_by_every_oracle(name):
    pytest.importorskip("jax")
    report = check_function(getattr(functions, name), (X,))
    for quantity in ("jvp", "vjp", "jacfwd", "jacrev", "hvp", "vmap-jvp", "vmap-vjp"):
        for oracle in ("jax", "differences", "complex-step"):
            assert outcomes(report, quantity)[oracle].status == "mismatch", (quantity, oracle)
    assert rows(report)["vmap-value"].status == "ok"


def test_a_wrong_jvp_rule_is_caught(planted):
    def jvp(primals, tangents):
        return np.sin(primals[0]), None if tangents[0] is None else 1.001 * np.cos(primals[0]) * tangents[0]

    wrong = planted("planted_sin", jvp=jvp)
    report = check_function(lambda x: wrong(x) * x, (X,))
    assert not report.ok
    for quantity in ("jvp", "vjp", "jacfwd", "jacrev", "hvp"):
        assert outcomes(report, quantity)["differences"].status == "mismatch"
        assert outcomes(report, quantity)["jax"].status == "unavailable"


def test_a_derivative_that_is_declared_away_is_caught(planted):
    constant = planted("planted_constant", jvp=None)
    report = check_function(lambda x: constant(x) + x, (X,), oracles=WITHOUT_JAX)
    assert rows(report)["jvp"].status == "mismatch"


def test_a_wrong_transpose_is_caught_in_reverse_mode_only(planted):
    double = planted(
        "planted_double",
        impl=lambda x: 2.0 * x,
        jvp=lambda primals, tangents: (double(*primals), None if tangents[0] is None else double(tangents[0])),
        linear_in=(0,),
        transpose=lambda ct, x: (2.1 * ct,),
    )
    report = check_function(lambda x: double(x) * np.sin(x), (X,), oracles=WITHOUT_JAX)
    status = {quantity: row.status for quantity, row in rows(report).items()}
    assert status["jvp"] == status["jacfwd"] == "ok"
    assert status["vjp"] == status["jacrev"] == "mismatch"
    assert {o.oracle for o in rows(report)["vjp"].outcomes if o.status == "mismatch"} >= {"differences", "dot"}


def test_a_wrong_batch_rule_is_caught_in_the_batched_rows_only(planted):
    wrong = planted(
        "planted_batch",
        jvp=lambda primals, tangents: (
            np.sin(primals[0]),
            None if tangents[0] is None else np.cos(primals[0]) * tangents[0],
        ),
        batch=lambda size, values, mapped: np.sin(values[0]) * 1.01,
    )
    report = check_function(lambda x: wrong(x) * x, (X,), oracles=WITHOUT_JAX)
    status = {quantity: row.status for quantity, row in rows(report).items()}
    assert status["jvp"] == status["vjp"] == "ok"
    assert status["vmap-value"] == "mismatch"
    assert outcomes(report, "vmap-value")["loop"].status == "mismatch"


def test_stopped_gradients_disagree_with_differences():
    report = check_function(functions.stops, (X,))
    assert outcomes(report, "jvp")["differences"].status == "mismatch"


# ── nothing hides behind "could not run" ─────────────────────────────────────────────────────────────────────────


def test_the_complex_step_does_not_convict_code_that_is_not_analytic():
    report = check_function(functions.with_absolute_value, (X - 1.0,), oracles=WITHOUT_JAX)
    found = outcomes(report, "jvp")["complex-step"]
    assert found.status == "unavailable" and "not complex-analytic" in found.reason
    assert report.ok


def test_a_row_that_no_oracle_can_judge_fails():
    # JAX has no item assignment, and no other oracle is asked.
    report = check_function(functions.with_own_buffer, (X,), oracles=["jax"])
    assert {row.quantity for row in report.rows if row.status == "unchecked"} == set(QUANTITIES) - {"value"}
    assert not report.ok and any(
        "no oracle could judge" in text and "item assignment" in text for text in report.failures
    )


def test_the_dot_product_alone_does_not_acquit():
    report = check_function(functions.with_own_buffer, (X,), oracles=["jax", "dot"])
    assert outcomes(report, "vjp")["dot"].status == "ok" and rows(report)["vjp"].status == "unchecked"


def test_dot_alone_is_enough_when_nothing_else_is_asked_for():
    report = check_function(functions.smooth, (X, X), oracles=["dot"])
    assert rows(report)["vjp"].status == "ok" and rows(report)["jvp"].status == "unchecked"


def test_noise_that_hides_the_slope_is_not_taken_for_agreement():
    def noisy(x):  # the same each time, and too rough for differences
        return np.sin(x) + 1e-4 * np.floor(1e7 * x) % 2.0

    report = check_function(noisy, (X,), oracles=("differences", "dot"))
    assert not report.ok


@pytest.mark.parametrize("name", ["raises", "counts", "random"])
def test_a_function_that_is_broken_fails_with_its_error(name):
    report = check_function(getattr(functions, name), (X,))
    assert not report.ok
    (row,) = report.rows
    assert row.status == "error" and row.message


@pytest.mark.plain
def test_a_function_that_dualad_refuses_fails_with_the_error_shown():
    def converts(x):
        return np.sum(np.asarray(x, dtype=float)) if type(x) is np.ndarray else float(x[0]) * 1.0

    report = check_function(converts, (X,))
    assert rows(report)["jvp"].status == "error"
    assert "test_rows.py" in rows(report)["jvp"].message, "the user's line is shown"


def test_at_a_kink_any_slope_between_the_one_sided_ones_is_right():
    report = check_function(functions.with_absolute_value, (np.array([0.0, 1.0]),), skip={"hvp": "kink"})
    assert report.ok, "\n".join(report.failures)


def test_at_a_kink_there_is_no_second_derivative_and_elsewhere_there_is(monkeypatch):
    point = (np.array([0.0, 1.5]),)
    assert check_function(functions.kinked, point).ok
    report = check_function(functions.kinked, point, oracles=WITHOUT_JAX)
    assert report.ok, "\n".join(report.failures)
    assert rows(report)["hvp"].status == "ok" and "kink" in rows(report)["hvp"].message
    alone = check_function(functions.kinked, (np.zeros(2),), oracles=WITHOUT_JAX)
    assert rows(alone)["hvp"].status == "skipped" and "2 of 2" in rows(alone)["hvp"].message
    right = Engine.hvp
    monkeypatch.setattr(Engine, "hvp", lambda self, w, v: _one_entry(right(self, w, v)))
    report = check_function(functions.kinked, point, oracles=WITHOUT_JAX)
    assert outcomes(report, "hvp")["differences"].status == "mismatch"


def test_a_step_has_derivative_zero_and_that_is_right():
    report = check_function(functions.steps, (X,))
    assert report.ok, "\n".join(report.failures)


# ── sizes, options ───────────────────────────────────────────────────────────────────────────────────────────────


def test_large_inputs_are_checked_by_random_products(monkeypatch):
    x = np.linspace(0.1, 2.0, 150)
    report = check_function(functions.scalar, (x,), oracles=WITHOUT_JAX)
    assert report.ok, "\n".join(report.failures)
    assert "random products" in outcomes(report, "vjp")["differences"].reason
    right = Engine.vjp
    monkeypatch.setattr(Engine, "vjp", lambda self, w: _one_entry(right(self, w)))
    assert (
        outcomes(check_function(functions.scalar, (x,), oracles=WITHOUT_JAX), "vjp")["differences"].status == "mismatch"
    )


def test_jacobians_over_the_limit_are_skipped_and_said():
    report = check_function(functions.smooth, (X, X), jacobian_limit=10, oracles=WITHOUT_JAX)
    assert rows(report)["jacfwd"].status == rows(report)["jacrev"].status == "skipped"
    assert "3 x 6" in rows(report)["jacfwd"].message and report.ok and report.jacobian is None


def test_skipped_quantities_say_why():
    report = check_function(functions.scalar, (X,), skip={"hvp": "not smooth"}, oracles=WITHOUT_JAX)
    assert rows(report)["hvp"].status == "skipped" and rows(report)["hvp"].message == "not smooth"


def test_the_seed_decides():
    errors = [
        [
            o.max_error
            for row in check_function(functions.scalar, (X,), seed=seed, oracles=WITHOUT_JAX).rows
            for o in row.outcomes
        ]
        for seed in (0, 0, 1)
    ]
    assert errors[0] == errors[1] != errors[2]


def test_unknown_names_are_refused():
    with pytest.raises(ArgumentError, match="no_such_oracle"):
        check_function(functions.scalar, (X,), oracles=["no_such_oracle"])
    with pytest.raises(ArgumentError, match="no_such_quantity"):
        check_function(functions.scalar, (X,), skip={"no_such_quantity": ""})


def test_a_point_without_floats_is_bad_usage():
    with pytest.raises(UsageError, match="floating-point"):
        check_function(functions.scalar, (np.array([1, 2]),))


def test_the_function_for_jax_may_be_given_and_its_place_need_not_be():
    jax = pytest.importorskip("jax")
    x, options = (np.array([0.4, 1.3]),), {"oracles": ["jax"]}
    with_buffer, smooth = (
        functions.with_own_buffer,
        lambda x: jax.numpy.concatenate([jax.numpy.sin(x[:1]), x[1:] * x[:-1]]),
    )
    assert not check_function(with_buffer, x, **options).ok  # JAX can't write into it
    assert check_function(with_buffer, x, source=smooth, **options).ok
    assert check_function(functions.smooth, (*x, *x), source=(functions, "smooth"), **options).ok
