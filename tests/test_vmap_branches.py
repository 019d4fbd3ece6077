"""Python branches, loops, counts and masks under vmap: lanes that disagree run in groups."""

import cmath
import math
import operator
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, BranchError, ConversionError, OutputError, PerformanceNote, PlainBufferError

pytestmark = pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
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
    np.testing.assert_allclose(da.vmap(lambda i: values[i] * 2)(n), values[n] * 2)
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


# ── a plain number is asked for ──────────────────────────────────────────────────────────────────────────────────

ASKED = {
    "float": lambda x: float(x) * 2,
    "complex": lambda x: complex(x, 1.0),
    "int": lambda x: int(x),
    "item": lambda x: x.item(),
    "math": lambda x: math.exp(x) + math.hypot(*[x, 1.0]),
    "a name of math's": lambda x: exponential(x),
    "cmath": lambda x: cmath.exp(x),
    "keywords": lambda x: math.isclose(x, 0.5, rel_tol=0.1),
    "%": lambda x: len("%.3g" % x),  # noqa: UP031
    "f-string": lambda x: len(f"{x:.3f}"),
    "format": lambda x: "{:.1f}".format(x).count("-"),  # noqa: UP032
    "round": lambda x: round(x) + round(x, 1),
    "floor and ceil": lambda x: math.floor(x) * math.ceil(x),
    "int of round": lambda x: sum(range(abs(int(round(x))))),  # noqa: RUF046
    "several lines": lambda x: math.exp(
        x
    ),
}  # fmt: skip
exponential = math.exp


@pytest.mark.parametrize("f", ASKED.values(), ids=ASKED)
def test_a_plain_number_splits_the_lanes(f):
    lanes = np.array([1.5, -2.0, 1.5, 0.5])
    plain = np.stack([f(x) for x in lanes])
    np.testing.assert_array_equal(da.vmap(f)(lanes), plain)
    np.testing.assert_array_equal(da.vmap(da.vmap(f))(lanes.reshape(2, 2)), plain.reshape(2, 2))


def test_every_group_of_a_number_is_one_value():
    x = np.array([0.0, -0.0, np.nan, -1.0, np.nan, 0.0])
    seen = []
    da.vmap(lambda v: seen.append(float(v)) or v)(x)
    assert len(seen) == 4
    np.testing.assert_array_equal(da.vmap(lambda v: math.copysign(1.0, v))(x), np.copysign(1.0, x))
    with pytest.raises(BranchError, match=r"np\.sin in place of math\.sin"):
        da.vmap(lambda v: float(v), max_splits=3)(x)


def test_int_groups_by_the_integer_and_has_no_derivative_to_lose():
    runs = []
    f = lambda x: runs.append(1) or int(x) * x
    x = np.array([2.25, 2.75, 3.5])
    np.testing.assert_array_equal(da.vmap(f)(x), [4.5, 5.5, 10.5])
    assert len(runs) == 3  # all lanes, then two groups
    np.testing.assert_array_equal(da.vmap(da.grad(f))(x), [2.0, 2.0, 3.0])
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(da.vmap(f)(x)))(x), [2.0, 2.0, 3.0])


@pytest.mark.plain
@pytest.mark.parametrize("asked", ["float", "math"])
def test_a_number_without_its_tangent_is_refused(asked):
    f = ASKED[asked]
    for under in (
        lambda x: da.vmap(da.grad(lambda v: f(v) * v))(x),
        lambda x: da.jvp(da.vmap(f), (x,), (x,)),
        lambda x: da.grad(lambda x: np.sum(da.vmap(f)(x)))(x),
    ):
        with pytest.raises(ConversionError):
            under(X)
    np.testing.assert_array_equal(da.vmap(da.grad(lambda v: float(da.stop_gradient(v)) * v))(X), X)


@pytest.mark.parametrize("asked", ["%", "f-string", "format"])
def test_text_of_a_number_carries_no_derivative(asked):
    f = lambda x: ASKED[asked](x) * x
    lengths = [ASKED[asked](x) for x in X]
    np.testing.assert_array_equal(da.vmap(da.grad(f))(X), lengths)
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(da.vmap(f)(x)))(X), lengths)


@pytest.mark.plain
def test_compiled_code_and_numpy_are_not_answered():
    for f in (
        lambda x: np.float64(x),
        lambda x: np.array([x, 1.0], float)[0],
        lambda x: np.array([x, x]).astype(float)[0],
        lambda x: np.fromiter([x], float)[0],
        lambda x: next(map(float, [x])),
        lambda x: [float][0](x),
    ):
        with pytest.raises((ConversionError, PlainBufferError)):
            da.vmap(f)(np.ones(3))
    with pytest.raises(ConversionError, match=r"int\(round\(x\)\)"):
        da.vmap(lambda x: range(round(x)))(X)


def item(a, x):
    a[0] = x


def flat(a, x):
    a.flat[0] = x


def over_all(a, x):
    a[:] = np.array([x, x])


class Holder:
    """Something whose attribute is a method of an array."""


def held(a, x):
    holder = Holder()
    holder.float = a.fill
    holder.float(x)


def renamed(a, x):
    float = a.fill
    float(x)


WRITES = [
    item, flat, over_all, held, renamed,
    lambda a, x: a.fill(x),
    lambda a, x: a.fill(*[x]),
    lambda a, x: getattr(a, "fill")(x),  # noqa: B009
    lambda a, x: [a.fill][0](x),
    lambda a, x: a.__setitem__(0, x),
    lambda a, x: operator.setitem(a, 0, x),
    lambda a, x: list(map(a.fill, [x])),
    lambda a, x: a.put(0, x),
]  # fmt: skip


@pytest.mark.parametrize("lanes", [X, np.ones(3), np.array([1, 1])], ids=["different", "equal", "integers"])
@pytest.mark.parametrize("dtype", [float, int, complex])
def test_a_plain_array_never_swallows_a_batched_number(dtype, lanes):
    for write in WRITES:
        captured = np.zeros(2, dtype)
        for _ in range(3):  # Python's interpreter specializes what it repeats
            with pytest.raises((ConversionError, PlainBufferError)):
                da.vmap(lambda x: write(captured, x) or x)(lanes)
            assert not captured.any()
