"""A lane's exception is a branch: lanes that raise and lanes that do not go their own ways, as in a loop."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import BranchError, ConvergenceError, PerformanceNote

pytestmark = pytest.mark.filterwarnings("ignore:vmap:dualad.errors.PerformanceNote")

GOOD, BAD = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
MISSING = np.array([[1.0, np.nan], [np.nan, 1.0]])
STACKS = {
    "one in the middle": np.stack([GOOD, BAD, 2 * GOOD, GOOD]),
    "all good": np.stack([GOOD, 2 * GOOD]),
    "all bad": np.stack([BAD, BAD]),
    "one lane": BAD[None],
}


def as_loop(f, *stacks):
    lanes = [f(*lane) for lane in zip(*stacks, strict=True)]
    return np.stack(lanes)


def jittered(K):
    """What Gaussian processes do."""
    try:
        L = np.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        L = np.linalg.cholesky(K + 5.0 * np.eye(len(K)))
    return np.sum(L**3)


@pytest.mark.parametrize("stack", STACKS)
def test_cholesky_with_a_fallback(stack):
    K = STACKS[stack]
    np.testing.assert_allclose(da.vmap(jittered)(K), as_loop(jittered, K))
    slope = da.grad(jittered)
    np.testing.assert_allclose(da.vmap(slope)(K), as_loop(slope, K))
    whole = da.grad(lambda k: np.sum(da.vmap(jittered)(k)))
    np.testing.assert_allclose(whole(K), as_loop(slope, K))
    _, forward = da.jvp(da.vmap(jittered), (K,), (K,))
    np.testing.assert_allclose(forward, [np.sum(slope(k) * k) for k in K])
    np.testing.assert_allclose(da.jacfwd(da.vmap(jittered))(K).sum(1), as_loop(slope, K))
    np.testing.assert_allclose(da.vmap(da.hessian(jittered))(K), as_loop(da.hessian(jittered), K), atol=1e-9)


def other_on(kind, call):
    def f(a):
        try:
            return np.sum(call(a))
        except kind:
            return np.sum(a[0]) * 100.0

    return f


B = np.array([1.0, 2.0])
CAUGHT = {
    "solve": (np.linalg.LinAlgError, lambda a: np.linalg.solve(a, B)),
    "inv": (np.linalg.LinAlgError, np.linalg.inv),
    "matrix_power": (np.linalg.LinAlgError, lambda a: np.linalg.matrix_power(a, -2)),
    "tensorinv": (np.linalg.LinAlgError, lambda a: np.linalg.tensorinv(a, ind=1)),
    "ValueError, of which it is one": (ValueError, np.linalg.inv),
    "Exception": (Exception, np.linalg.inv),
    "no class": (BaseException, np.linalg.inv),
}
MATRICES = np.stack([GOOD, SINGULAR, BAD, SINGULAR])


@pytest.mark.parametrize("name", CAUGHT)
def test_linear_algebra(name):
    f = other_on(*CAUGHT[name])
    np.testing.assert_allclose(da.vmap(f)(MATRICES), as_loop(f, MATRICES))
    np.testing.assert_allclose(da.vmap(da.grad(f))(MATRICES), as_loop(da.grad(f), MATRICES))


@pytest.mark.parametrize("call", [lambda a: np.linalg.eigh(a)[0], np.linalg.eigvals, lambda a: np.linalg.svd(a)[1]])
def test_missing_values(call):
    f = other_on(np.linalg.LinAlgError, call)
    stack = np.stack([GOOD, MISSING, BAD])
    np.testing.assert_allclose(da.vmap(f)(stack), as_loop(f, stack))


def test_floating_point_errors():
    def f(x):
        with np.errstate(all="raise"):
            try:
                return np.log(x) / x
            except FloatingPointError:
                return x - 7.0

    x = np.array([1.0, 0.0, 2.0, -1.0, 1e-320])
    np.testing.assert_allclose(da.vmap(f)(x), [f(v) for v in x])
    safe = x[[0, 2]]
    np.testing.assert_allclose(da.vmap(da.grad(f))(safe), (1 - np.log(safe)) / safe**2)


def test_warnings_turned_into_errors():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return np.sqrt(x) + np.exp(100 * x)
            except RuntimeWarning:
                return 10 * x

    x = np.array([4.0, -1.0, 1.0, 50.0])
    np.testing.assert_allclose(da.vmap(f)(x), [f(v) for v in x])


def test_indices_out_of_range():
    table = np.array([10.0, 20.0, 30.0])

    def f(i, t):
        try:
            return t[i] * 2.0
        except IndexError:
            return np.sum(t)

    i = np.array([0, 5, 2, -7])
    np.testing.assert_allclose(da.vmap(f, in_axes=(0, None))(i, da.numpy.array(table)), [f(k, table) for k in i])


def test_exceptions_of_the_users_own():
    def f(x):
        try:
            if x < 0:
                raise ValueError("negative")
            return np.sqrt(x)
        except ValueError:
            return -x

    np.testing.assert_allclose(da.vmap(f)(np.array([4.0, -3.0, 9.0])), [2.0, 3.0, 3.0])

    def ratio(x):
        try:
            return 1 / int(x) + x
        except ZeroDivisionError:
            return 100.0 * x

    np.testing.assert_allclose(da.vmap(ratio)(np.array([2.0, 0.5, 4.0])), [2.5, 50.0, 4.25])


def test_a_function_with_a_rule_or_without_one():
    @da.custom_jvp
    def root(x):
        if np.isnan(x) or np.min(np.linalg.eigvalsh(np.diag(np.stack([x, 1.0 + 0 * x])))) < 0:
            raise ValueError(f"no root of {x!r}")
        return np.sqrt(x)

    root.defjvp(lambda p, t: (root(*p), t[0] / (2 * root(*p))))

    def opaque(v):
        if v < 0:
            raise ArithmeticError("negative")
        return np.sqrt(v)

    wrapped = da.wrap(opaque, jac=lambda v: 0.5 / np.sqrt(v))
    x = np.array([4.0, -1.0, 9.0])
    for call in (root, wrapped):

        def f(v, call=call):
            try:
                return call(v) * 2
            except (ValueError, ArithmeticError):
                return 3 * v

        np.testing.assert_allclose(da.vmap(f)(x), [4.0, -3.0, 6.0])
        np.testing.assert_allclose(da.vmap(da.grad(f))(x), [0.5, 3.0, 1 / 3])


def test_solvers_that_do_not_converge():
    def f(a):
        try:
            return da.fixed_point(lambda x, a: a * np.cos(x), 0.5, args=(a,), max_steps=60)
        except ConvergenceError:
            return 10 * a

    a = np.array([0.5, 3.0, 0.2])
    np.testing.assert_allclose(da.vmap(f)(a), [f(v) for v in a])


def test_lanes_within_lanes():
    stack = np.stack([np.stack([GOOD, BAD, GOOD]), np.stack([BAD, GOOD, GOOD]), np.stack([GOOD, GOOD, GOOD])])
    expected = [[jittered(k) for k in row] for row in stack]
    np.testing.assert_allclose(da.vmap(da.vmap(jittered))(stack), expected)
    np.testing.assert_allclose(da.vmap(da.vmap(jittered), in_axes=1)(stack), np.transpose(expected))
    slopes = [[da.grad(jittered)(k) for k in row] for row in stack]
    np.testing.assert_allclose(da.vmap(da.vmap(da.grad(jittered)))(stack), slopes)

    def outer(row):
        try:
            return da.vmap(lambda k: np.sum(np.linalg.cholesky(k)))(row)
        except np.linalg.LinAlgError:
            return np.zeros(3) + row[0, 0, 0]

    np.testing.assert_allclose(da.vmap(outer)(stack), [outer(row) for row in stack])


def test_chunks_of_lanes():
    K = np.stack([GOOD, BAD, GOOD, BAD, GOOD])
    np.testing.assert_allclose(da.vmap(jittered, chunk_size=2)(K), as_loop(jittered, K))


def test_a_branch_that_a_lane_does_not_take():
    def f(flag, k):
        take = lambda k: np.sum(np.linalg.inv(k))
        return da.cond(flag, take, lambda k: np.sum(k), k)

    flags = np.array([True, False, True])
    stack = np.stack([GOOD, SINGULAR, BAD])
    expected = [np.sum(np.linalg.inv(GOOD)), np.sum(SINGULAR), np.sum(np.linalg.inv(BAD))]
    np.testing.assert_allclose(da.vmap(f)(flags, stack), expected)
    slopes = da.vmap(da.grad(f, argnums=1))(flags, stack)
    np.testing.assert_allclose(slopes[1], np.ones((2, 2)))


def notes_of(error):
    return " ".join(getattr(error, "__notes__", []))


def test_what_no_lane_catches_names_the_lane():
    K = np.stack([GOOD, BAD, GOOD, BAD])
    with pytest.raises(np.linalg.LinAlgError) as caught:
        da.vmap(np.linalg.cholesky)(K)
    assert "lanes 1, 3 of 4" in notes_of(caught.value)
    with pytest.raises(np.linalg.LinAlgError) as caught:
        da.vmap(np.linalg.cholesky, chunk_size=1)(K)
    assert "lane 1 of 4" in notes_of(caught.value)
    with pytest.raises(np.linalg.LinAlgError) as caught:
        da.vmap(da.vmap(np.linalg.cholesky))(np.stack([K[[0, 2]], K[:2]]))
    assert "lane 1 of 2" in notes_of(caught.value)

    def strict(x):
        if x < 0:
            raise RuntimeError("below zero")
        return x

    with pytest.raises(RuntimeError, match="below zero") as caught:
        da.vmap(strict)(np.array([1.0, 2.0, -3.0]))
    assert "lane 2 of 3" in notes_of(caught.value)


def test_what_all_lanes_raise_is_raised_as_it_is():
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        da.vmap(np.linalg.inv)(np.stack([SINGULAR, SINGULAR]))
    runs = []

    def wrong(x):
        runs.append(1)
        return x @ np.ones(5)

    with pytest.raises(ValueError):
        da.vmap(wrong)(np.ones((1000, 3)))
    assert len(runs) == 1


def test_groups_may_be_forbidden():
    K = np.stack([GOOD, BAD])
    with pytest.raises(BranchError, match="LinAlgError") as caught:
        da.vmap(jittered, branches="error")(K)
    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
    with pytest.raises(BranchError, match="LinAlgError"):
        da.vmap(lambda k: da.psum(jittered(k), "i"), axis_name="i")(K)


def test_a_note_says_that_the_function_ran_in_groups():
    with pytest.warns(PerformanceNote, match="an exception \\(LinAlgError"):
        da.vmap(jittered)(np.stack([GOOD, BAD]))


def _random_function(rng):
    """Make a function that fails in some way for some matrices, and answers otherwise in another way."""
    calls = [
        (np.linalg.cholesky, np.linalg.LinAlgError),
        (np.linalg.inv, np.linalg.LinAlgError),
        (lambda a: np.linalg.solve(a, B), ValueError),
        (lambda a: np.log(a), FloatingPointError),
        (lambda a: np.sqrt(a), FloatingPointError),
        (lambda a: 1 / (a - 2.0), FloatingPointError),
    ]
    chosen = [calls[i] for i in rng.choice(len(calls), rng.integers(1, 4), replace=False)]
    finally_counts = bool(rng.integers(2))

    def f(a):
        total = np.sum(a) * 0.5
        for k, (call, kind) in enumerate(chosen):
            extra = 0.0
            with np.errstate(invalid="raise", divide="raise"):
                try:
                    extra = np.sum(call(a) * (k + 1.0))
                except kind:
                    extra = np.sum(a * a) * 10.0**k
                finally:
                    if finally_counts:
                        total = total + 1.0
            total = total + extra
        return total

    return f


def _agrees(seed):
    rng = np.random.default_rng(seed)
    f = _random_function(rng)
    pool = np.stack([GOOD, BAD, SINGULAR, 3 * GOOD, GOOD - 1.0, np.abs(BAD) + 2.0, np.full((2, 2), 2.0)])
    stack = pool[rng.integers(0, len(pool), rng.integers(1, 7))]
    np.testing.assert_allclose(da.vmap(f)(stack), as_loop(f, stack), err_msg=str(seed))
    chunk = int(rng.integers(1, 4))
    np.testing.assert_allclose(da.vmap(f, chunk_size=chunk)(stack), as_loop(f, stack), err_msg=str(seed))


def test_compiled_functions_name_the_lane():
    stack = np.stack([GOOD, BAD])
    for f in (np.linalg.cholesky, da.jit(np.linalg.cholesky), da.jit(lambda a: 2 * np.linalg.cholesky(a))):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            da.vmap(f)(stack)
        assert "lane 1 of 2" in caught.value.__notes__[0]


@pytest.mark.parametrize("seed", range(40))
def test_random_functions_agree_with_a_loop(seed):
    _agrees(seed)


@pytest.mark.full
def test_many_random_functions_agree_with_a_loop():
    for seed in range(40, 5000):
        _agrees(seed)
