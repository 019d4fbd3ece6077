"""The comparison: no wrong entry may hide behind a right one, an infinite one or an unsettled one."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.testing import Estimate, compare

RIGHT = np.array([[1e10, 1.0], [1e-10, 0.0]])


def outcome(result, reference=RIGHT, **how):
    keywords = {"rtol": 1e-7, "atol": 0.0} | {k: how.pop(k) for k in ("rtol", "atol", "groups", "floor") if k in how}
    return compare(np.asarray(result, float), Estimate(np.asarray(reference, float), **how), **keywords)


def test_equal_numbers_agree():
    found = outcome(RIGHT)
    assert found.worst is None and found.max_error == 0.0 and found.judged.all()


@pytest.mark.parametrize("k", range(4))
def test_each_entry_is_seen_when_arrays_are_rounded_separately(k):
    wrong = RIGHT.copy()
    wrong.ravel()[k] = RIGHT.ravel()[k] * 1.001 or 1e-3
    found = outcome(wrong, groups=np.array([[0, 1], [2, 3]]))
    assert found.worst == k and found.wrong.sum() == 1


def test_rounding_is_relative_to_the_largest_of_a_group():
    assert outcome([1e10, 1e-7], [1e10, 0.0]).worst is None
    assert outcome([1e10, 1e-7], [1e10, 0.0], groups=np.array([0, 1])).worst == 1


@pytest.mark.parametrize(
    ("got", "expected", "agree"),
    [
        (np.nan, 1.0, False),
        (np.inf, 1.0, False),
        (np.inf, np.inf, True),
        (-np.inf, np.inf, False),
        (1.0, np.inf, False),
        (np.nan, np.inf, False),
    ],
)
def test_numbers_that_are_not_finite(got, expected, agree):
    found = outcome([got, 1.0], [expected, 1.0])
    assert (found.worst is None) is agree and found.judged.all()


def test_nan_in_the_reference_is_not_judged():
    found = outcome([1.0, 2.0], [np.nan, 2.0])
    assert found.worst is None and found.judged.tolist() == [False, True]


def test_unsettled_entries_are_not_judged():
    found = outcome([5.0, 2.0], [1.0, 2.0], settled=np.array([False, True]))
    assert found.worst is None and found.judged.tolist() == [False, True]


def test_the_oracles_error_widens_the_tolerance_of_its_entry_only():
    error = np.array([0.1, 0.0])
    assert outcome([1.2, 1.0], [1.0, 1.0], error=error).worst is None
    assert outcome([1.0, 1.2], [1.0, 1.0], error=error).worst == 1


@pytest.mark.parametrize(
    ("got", "agree"), [(-1.0, True), (0.3, True), (1.0, True), (1.1, False), (-2.0, False), (np.nan, False)]
)
def test_at_a_kink_anything_between_the_slopes_is_right(got, agree):
    found = outcome([got], [0.0], low=np.array([-1.0]), high=np.array([1.0]))
    assert (found.worst is None) is agree


def test_a_projection_is_compared_after_projecting():
    matrix = np.arange(6.0).reshape(2, 3)
    directions = np.array([[1.0], [2.0], [3.0]])
    right = outcome(matrix, matrix @ directions, project=lambda m: m @ directions)
    wrong = outcome(matrix + np.eye(2, 3), matrix @ directions, project=lambda m: m @ directions)
    assert right.worst is None and wrong.worst is not None


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shape"):
        outcome([1.0, 2.0], [1.0])


def test_empty_arrays_agree():
    assert outcome(np.zeros(0), np.zeros(0)).worst is None


def test_noise_around_an_exact_zero_is_no_large_relative_error():
    found = outcome([0.0, 0.0], [1e-13, -2e-13], error=np.array([5e-13, 5e-13]))
    assert found.worst is None and found.max_error < 1e-7
    assert outcome([2.0], [1.0], error=np.array([1e-12])).max_error == pytest.approx(1.0)
