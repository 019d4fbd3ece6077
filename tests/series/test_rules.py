"""The series of every operator against nested jvp, native recurrences against derived ones, poles and kinks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import dualad as da

# What needs SciPy is not declared by importing dualad.
import dualad.ops.banded
import dualad.ops.cosine_transform
import dualad.ops.filtering
import dualad.ops.matrix_functions
import dualad.ops.sparse_product
import dualad.ops.special
import dualad.ops.triangular
import dualad.scipy.linalg
from dualad.core.tables import OPS
from dualad.series import native
from dualad.series.native import NATIVE
from dualad.series.rules import series_kind
from tests.oracles import op_series, op_values
from tests.oracles.arrays import describe

DIFFERENTIABLE = [op for op in OPS.values() if op.jvp is not None]


def series_agrees(op, samples) -> int:
    checked = 0
    for s in samples:
        with np.errstate(all="ignore"):
            try:
                op_series.check_series(s)
            except AssertionError as error:
                pytest.fail(f"{op.name}, sample {s.index} {describe(s.args, s.params)}: {error}", pytrace=False)
        checked += bool(s.moving())
    return checked


@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_third_order_series_is_nested_jvp(op) -> None:
    samples = op_values.subjects(op)
    series_agrees(op, samples[len(samples) // 2 :][:1])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_third_order_series_is_nested_jvp_at_every_sample(op) -> None:
    series_agrees(op, op_values.subjects(op))


NATIVE_CALLS = {
    "divide": (lambda x: np.cos(x) / (1 + x * x), 0.3),
    "reciprocal": (lambda x: np.reciprocal(1 + x * x), 0.3),
    "sqrt": (lambda x: np.sqrt(np.sin(x)), 0.7),
    "log": (lambda x: np.log(np.sin(x)), 0.7),
    "power": (lambda x: np.sin(x) ** 2.5 + np.sin(x) ** -3 + np.sin(x) ** np.cos(x), 0.7),
    "exp": (lambda x: np.exp(np.sin(x)) + np.exp(2 * x), 0.7),
    "expm1": (lambda x: np.expm1(np.sin(x)) * np.expm1(0.5 * x), 0.7),
    "tan": (lambda x: np.tan(np.sin(x)) + np.tan(x), 0.7),
    "tanh": (lambda x: np.tanh(np.sin(x)) + np.tanh(3 * x), 0.7),
    "sin": (lambda x: np.sin(np.exp(x)) + np.sin(3 * x), 0.7),
    "cos": (lambda x: np.cos(np.exp(x)) + np.cos(3 * x), 0.7),
    "sinh": (lambda x: np.sinh(np.cos(x)) + np.sinh(x), 0.7),
    "cosh": (lambda x: np.cosh(np.cos(x)) + np.cosh(x), 0.7),
    "expit": (lambda x: scipy.special.expit(np.sin(x)), 0.7),
    "logistic": (lambda x: np.logaddexp(np.sin(x), 0.2), 0.7),
    "solve": (lambda x: np.linalg.solve(_matrix(x), np.sin(x) * np.ones(2)), 0.3),
    "det": (lambda x: np.linalg.det(_matrix(x)), 0.3),
    "expm": (lambda x: dualad.scipy.linalg.expm(_matrix(x)), 0.3),
    "logm": (lambda x: dualad.scipy.linalg.logm(_matrix(x)), 0.3),
    "sqrtm": (lambda x: dualad.scipy.linalg.sqrtm(_matrix(x)), 0.3),
}


def _matrix(x):
    return np.stack([np.stack([3 + np.sin(x), x]), np.stack([x * x, 2 + np.cos(x)])])


@pytest.mark.parametrize("name", sorted(NATIVE))
@pytest.mark.parametrize("layer", ["plain", "below a jvp"])
def test_a_native_recurrence_gives_the_derived_series(name: str, layer: str, monkeypatch) -> None:
    f, x = NATIVE_CALLS[name]
    expand = lambda x: da.taylor(f, x, order=5)
    if layer != "plain":
        expand = lambda x, inner=expand: da.jvp(inner, (x,), (1.0,))[1]
    with monkeypatch.context() as patch:
        patch.delitem(NATIVE, name)
        expected = expand(x)
    found = expand(x)
    assert np.abs(found - expected).max() <= 1e-11 * (1 + np.abs(expected).max())


@pytest.mark.parametrize("name", sorted(native._QUADRATIC | native._PAIRS))
def test_the_second_derivatives_that_are_written_down_are_those_of_the_rules(name: str) -> None:
    op, x = OPS[name], np.linspace(-0.9, 1.3, 7)
    first = lambda x: da.jvp(op, (x,), (np.ones(7),))[1]
    slope, bend = native.slope_and_bend(name, x, op(x))
    np.testing.assert_allclose(slope, first(x), rtol=1e-13)
    np.testing.assert_allclose(2 * bend, da.jvp(first, (x,), (np.ones(7),))[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", sorted(native._QUADRATIC | native._PAIRS))
def test_recurrences_of_empty_arrays(name: str) -> None:
    op, x = OPS[name], np.zeros((0, 2))
    assert da.taylor(op, x, x, order=3).shape == (4, 0, 2)


def test_zeros_are_strong_beside_poles() -> None:
    with np.errstate(all="ignore"):  # the poles are the function's own
        x, v = np.array([0.0, 1.0]), np.array([0.0, 1.0])
        root = da.taylor(np.sqrt, x, v, order=3)
        np.testing.assert_array_equal(root[:, 0], 0.0)
        np.testing.assert_allclose(root[:, 1], [1, 1 / 2, -1 / 8, 1 / 16])
        chosen = da.taylor(lambda x: np.where(x > 0, np.sqrt(x), 0.0), x, np.ones(2), order=3)
        np.testing.assert_array_equal(chosen[:, 0], 0.0)
        np.testing.assert_array_equal(da.taylor(lambda x: np.linalg.norm(0 * x), x, v, order=2), 0.0)
        np.testing.assert_array_equal(da.taylor(lambda x: x / np.array([0.0, 1.0]), x, v, order=2)[1:, 0], 0.0)
        pole = da.taylor(lambda x: 1 / x, np.array([0.0]), np.array([1.0]), order=1)
        nested = da.jvp(lambda x: 1 / x, (np.array([0.0]),), (np.array([1.0]),))
        np.testing.assert_array_equal(pole, nested)


def test_kinks_follow_the_jvp_rules_at_every_order() -> None:
    along = lambda f, terms: da.jet(f, (0.0,), (terms,))[1]
    assert along(np.abs, [0.0, 1.0]) == [0.0, 0.0]  # as the rule: sign(0) is 0
    with da.kinks("nan"):
        assert math.isnan(along(np.abs, [1.0, 0.0])[0])
    with da.kinks("raise"), pytest.raises(da.errors.KinkError):
        along(np.abs, [1.0, 0.0])


def test_integers_and_booleans_carry_nothing() -> None:
    def f(x, n):
        count = np.floor(x).astype(int) + n
        return x * count, count, x > 0

    value, (products, counts, signs) = da.jet(f, (2.5, 3), ([1.0, 0.5], [None, None]))
    assert value == (12.5, 5, True)
    assert products == [5.0, 2.5]
    assert counts[0].dtype == signs[1].dtype == da.float0


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128, np.longdouble])
def test_dtype_in_dtype_out(dtype) -> None:
    x = np.array([0.5, 0.8], dtype)
    found = da.taylor(lambda x: np.tanh(x) * np.sqrt(x) / (1 + x) + np.log(x) ** 2 + x**2.5, x, x, order=4)
    wide = np.complex128 if np.iscomplexobj(x) else np.float64
    expected = da.taylor(
        lambda x: np.tanh(x) * np.sqrt(x) / (1 + x) + np.log(x) ** 2 + x**2.5, x.astype(wide), x.astype(wide), order=4
    )
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_table_of_operators_says_how_each_series_is_made() -> None:
    kinds = {op.name: series_kind(op) for op in OPS.values()}
    assert set(kinds.values()) == {"none", "native", "linear", "bilinear", "program", "derived"}
    expected = {
        "floor": "none", "divide": "native", "add": "linear", "reshape": "linear", "multiply": "bilinear",
        "einsum": "bilinear", "scan": "program", "call": "program", "tanh": "native",
        "arctan": "derived", "cholesky": "derived",
    }  # fmt: skip
    assert {name: kinds[name] for name in expected} == expected
    assert set(NATIVE) == {name for name, kind in kinds.items() if kind == "native"}
