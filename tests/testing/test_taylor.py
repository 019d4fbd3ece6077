"""The Taylor remainder test: rates of right and wrong expansions, rounding, small entries beside large ones."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.testing.taylor import expansion_test

X, V = np.array([0.5]), np.array([1.0])


def test_rates_are_those_of_the_power_left_out() -> None:
    table = expansion_test(np.sin, X, V, [np.sin(X), np.cos(X), -np.sin(X)])
    assert table.ok and table.order == 2
    for order in range(3):
        seen = table.rates(order)
        assert np.nanmedian(seen) == pytest.approx(order + 1, abs=0.1)
    text = str(table)
    assert text.count("\n") == len(table.steps) + 1 and "to order 2" in text


@pytest.mark.parametrize("size", [1.1, 1.001, 0.0])
@pytest.mark.parametrize("order", [1, 2])
def test_a_wrong_derivative_shows(order: int, size: float) -> None:
    right = [np.sin(X), np.cos(X), -np.sin(X)][: order + 1]
    right[order] = right[order] * size
    assert not expansion_test(np.sin, X, V, right).ok


def test_exact_expansions_are_rounding() -> None:
    assert expansion_test(lambda x: 3 * x, X, V, [3 * X, np.array([3.0])]).ok
    assert expansion_test(lambda x: 0 * x, X, V, [0 * X, np.zeros(1)]).ok


def test_a_small_entry_is_not_hidden_by_a_large_one() -> None:
    f = lambda x: np.concatenate([1e8 * np.sin(x), 1e-8 * np.exp(x)])
    right = np.concatenate([1e8 * np.cos(X), 1e-8 * np.exp(X)])
    assert expansion_test(f, X, V, [f(X), right]).ok
    assert not expansion_test(f, X, V, [f(X), right * [1.0, 1.1]]).ok


def test_a_domain_that_ends_nearby_is_approached_with_smaller_steps() -> None:
    def f(x):
        if x[0] > 0.51:
            raise ValueError("outside")
        return np.sin(x)

    table = expansion_test(f, X, V, [np.sin(X), np.cos(X)])
    assert table.ok and table.steps[0] < 0.0437
    assert not expansion_test(lambda x: 1 / 0, X, V, [np.sin(X), np.cos(X)]).ok
