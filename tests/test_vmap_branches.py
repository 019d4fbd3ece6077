"""Python branches, loops, counts and masks under vmap: lanes that disagree run in groups (rows F8, W13)."""

import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, BranchError, ConversionError, OutputError
from dualad.surface.arguments import PerformanceNote

pytestmark = pytest.mark.filterwarnings("ignore::dualad.surface.arguments.PerformanceNote")
X = np.array([1.5, -2.0, 0.5, -4.0, 3.0])


def branch(x):
    if x > 1:
        return x * x
    elif x > -3 and not x > 0:
        return np.sin(x)
    return -x


def doubling(x):
    count = 0
    while x < 10:
        x, count = x * 2, count + 1
    return x * count


def power_sum(n, x):
    total = 0.0
    for i in range(n):
        total = total + x**i
    return total


def looped(f, *columns):
    return np.stack([f(*row) for row in zip(*columns, strict=True)])


@pytest.mark.parametrize("f", [branch, lambda x: doubling(abs(x))])
def test_values_and_derivatives_are_the_loops(f):
    np.testing.assert_allclose(da.vmap(f)(X), looped(f, X))
    np.testing.assert_allclose(da.vmap(da.grad(f))(X), looped(da.grad(f), X))
    np.testing.assert_allclose(da.vmap(da.hessian(f))(X), looped(da.hessian(f), X))
    np.testing.assert_allclose(da.grad(lambda x: np.sum(da.vmap(f)(x)))(X), looped(da.grad(f), X))
    np.testing.assert_allclose(da.jacfwd(da.vmap(f))(X), np.diag(looped(da.grad(f), X)))
    np.testing.assert_allclose(da.jacrev(da.vmap(f))(X), np.diag(looped(da.grad(f), X)))


def test_both_levels_of_a_nested_vmap_split():
    table = np.stack([X, -X, X + 2, X])
    np.testing.assert_allclose(da.vmap(da.vmap(branch))(table), [[branch(x) for x in row] for row in table])
    np.testing.assert_allclose(
        da.vmap(lambda row: da.vmap(da.grad(branch))(row), in_axes=1, out_axes=1)(table),
        [[da.grad(branch)(x) for x in row] for row in table],
    )


def test_counts_and_indices_that_differ():
    n = np.array([0, 3, 1, 3, 2])
    np.testing.assert_allclose(da.vmap(power_sum)(n, X), looped(power_sum, n, X))
    values = np.arange(5.0)
    np.testing.assert_allclose(da.vmap(lambda i: np.asarray(values, like=i)[i] * 2)(n), values[n] * 2)
    with pytest.raises(ConversionError, match="like=x"):
        da.vmap(lambda i: values[i] * 2)(n)
    np.testing.assert_allclose(da.vmap(lambda i: float(int(i)))(n), n)


def test_masks_of_different_lengths():
    table = np.stack([X, -X, X + 2])
    f = lambda x: np.sum(x[x > 0] ** 2)
    np.testing.assert_allclose(da.vmap(f)(table), [f(x) for x in table])
    np.testing.assert_allclose(da.vmap(da.grad(f))(table), [da.grad(f)(x) for x in table])
    g = lambda x: np.max(x[np.nonzero(x > 0)]) + np.flatnonzero(x < 0).size
    np.testing.assert_allclose(da.vmap(g)(table), [g(x) for x in table])


def test_assert_and_or_split_too():
    def f(x):
        assert x > -10
        return x if x < -1 or x > 1 else 0 * x

    np.testing.assert_allclose(da.vmap(f)(X), [f(x) for x in X])
    with pytest.raises(AssertionError):
        da.vmap(f)(np.array([1.0, -11.0]))


def test_a_users_except_clause_does_not_swallow_the_split():
    def f(x):
        try:
            return x if x > 0 else -x
        except Exception:  # the widest clause a user should write
            return np.nan * x

    np.testing.assert_allclose(da.vmap(f)(X), abs(X))


def test_the_function_runs_once_per_group_and_says_so():
    runs = []

    def f(x):
        runs.append(x.shape)
        return x if x > 0 else -x

    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        da.vmap(f)(X)
    assert len(runs) == 3  # once for all lanes, until they disagreed, then once per group
    assert [n.category for n in notes] == [PerformanceNote]
    assert "2 groups" in str(notes[0].message)


def test_lanes_that_agree_are_not_split():
    runs = []

    def f(x):
        runs.append(1)
        return x if x > -10 else -x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.vmap(f)(X)
    assert runs == [1]


def test_results_that_are_the_same_in_a_group():
    np.testing.assert_array_equal(da.vmap(lambda x: 1.0 if x > 0 else x * 2)(X), np.where(X > 0, 1.0, X * 2))


def test_out_axes_and_in_axes():
    table = np.stack([X, -X], axis=1)
    f = lambda row: row[::-1] if row[0] > 0 else row
    np.testing.assert_array_equal(da.vmap(f, in_axes=0, out_axes=1)(table), np.stack([f(r) for r in table], axis=1))


def test_branches_error():
    with pytest.raises(BranchError, match=r"np\.where"):
        da.vmap(branch, branches="error")(X)


def test_max_splits():
    with pytest.raises(BranchError, match="max_splits=3"):
        da.vmap(lambda n: n * sum(range(n)), max_splits=3)(np.arange(5))
    with pytest.raises(ArgumentError):
        da.vmap(branch, branches="maybe")


def test_lanes_of_different_shapes_are_refused():
    with pytest.raises(OutputError, match="different shapes"):
        da.vmap(lambda x: x[x > 0])(np.stack([X, -X]))
    with pytest.raises(OutputError, match="different structures"):
        da.vmap(lambda x: (x, x) if x > 0 else x)(X)


def test_a_truth_value_with_axes_is_refused_as_numpy_does():
    with pytest.raises(BranchError):
        da.vmap(lambda x: 1.0 if x > 0 else 2.0)(np.stack([X, X]))


def test_an_unknown_value_is_refused():
    with pytest.raises(BranchError):
        da.trace(da.vmap(branch), X)


def test_an_empty_batch_takes_some_branch():
    assert da.vmap(branch)(np.zeros(0)).shape == (0,)
