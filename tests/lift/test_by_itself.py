"""Functions that are refused what lifted code may have: they run again, lifted, and are right, or raise what they did.

Random programs are held against plain NumPy, its central differences and the function lifted by hand. Not for: what
lifted code can do (test_lift.py), nor how often functions run (boundary/test_rerun.py).
"""

from __future__ import annotations

import colorsys
import gc
import logging
import math
import random
import statistics
import threading
import types
import warnings
import weakref
from functools import partial

import numpy as np
import pytest

import dualad as da
from dualad.boundary.swallowed import RefusalSwallowedWarning
from dualad.errors import ConversionError, DualadError, PlainBufferError, UnsupportedError
from tests.oracles import differences

X = np.array([0.7, 1.3, 0.4])

# ── random programs ──────────────────────────────────────────────────────────────────────────────────────────────

_LINES = (
    "b = np.zeros(3); b[{i}] = {e}; s = s + np.sum(b * v)",
    "b = np.empty(3)\n    for k in range(3):\n        b[k] = v[k] * {e}\n    v = b",
    "m = np.array([[{e}, v[{i}]], [1.0, {e}]]); s = s + np.linalg.det(m @ m)",
    "m = np.array([{e}, 2.0, v[{j}]]); v = np.convolve(m, v, 'same')",
    "v = np.asarray(v, dtype=float) * {e}",
    "s = s + float({e})",
    "s = s * math.sin({e}) + math.exp(-{e})",
    "s = s + v[{i}].item() * {e}",
    "s = s + np.asarray(v).tolist()[{j}]",
    "s = s + abs(complex({e}, 2.0))",
    "v = np.array(v, float); v[{i}] += {e}",
    "s = s + np.float64({e})",
    "if not isinstance(v[{i}], float): raise TypeError('no number')",
    "if not isinstance(v, np.ndarray): raise ValueError('no array')",
    "if v.dtype.kind != 'f' or not np.issubdtype(type(v[{j}]), np.floating): raise TypeError('no floats')",
    "v = np.linspace(0.5, {e}, 3) + v",
    "v = v * np.cos(v) + 1.0",
    "w = v[1:]; v[{i}] = {e}; s = s + w[0]",
)
_ENTRIES = ("v[{i}]", "v[{i}] * v[{j}]", "s", "np.tanh(s)", "(1.0 + 0.1 * v[{j}])", "np.sum(v)")


def programs(count: int):
    """Yield random programs, each as a new function in globals of its own."""
    choose = random.Random(7)
    for _ in range(count):
        lines = []
        for _ in range(choose.randint(1, 4)):
            at = {"i": choose.randrange(3), "j": choose.randrange(3)}
            lines.append(
                choose.choice(_LINES).format(e="{e}", **at).replace("{e}", choose.choice(_ENTRIES).format(**at))
            )
        text = "def f(x):\n    v, s = 1.0 * x, np.tanh(x[0])\n    " + "\n    ".join(lines)
        text += "\n    return s + np.sum(np.tanh(v))\n"
        names = {"np": np, "math": math}
        exec(text, names)
        yield text, names["f"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")  # of lanes that float() splits
def test_random_programs_are_right_under_every_transform() -> None:
    lifted_by_itself = 0
    for k, (text, f) in enumerate(programs(400)):
        expected = f(X.copy())
        if not np.isfinite(expected) or abs(expected) > 1e6:
            continue
        direction = np.cos(np.arange(3.0) + k)
        numeric, _ = differences.along(lambda x: f(x.copy()), (X,), (0.01 * direction,))
        try:
            da.jvp(da.plain(f), (X,), (direction,))
        except (DualadError, TypeError, ValueError):
            lifted_by_itself += 1
        value, tangent = da.jvp(f, (X,), (0.01 * direction,))
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12, err_msg=text)
        np.testing.assert_allclose(tangent, numeric, rtol=1e-6, atol=1e-9 * (1 + abs(expected)), err_msg=text)
        by_hand = da.lift(f)
        slope = da.grad(by_hand)(X)
        np.testing.assert_allclose(da.grad(f)(X), slope, rtol=1e-12, atol=1e-12, err_msg=text)
        rows = np.stack([X, 0.9 * X])
        np.testing.assert_allclose(da.vmap(f)(rows), [expected, f(0.9 * X)], rtol=1e-12, atol=1e-12, err_msg=text)
        if k % 4 == 0:
            second = da.jvp(da.grad(by_hand), (X,), (direction,))[1]
            np.testing.assert_allclose(da.jvp(da.grad(f), (X,), (direction,))[1], second, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(da.vmap(da.grad(f))(rows)[0], slope, rtol=1e-10, atol=1e-10, err_msg=text)
        if k % 10 == 0:
            fresh = types.FunctionType(f.__code__.replace(), f.__globals__)
            np.testing.assert_allclose(da.jit(fresh)(X), expected, rtol=1e-12, atol=1e-12, err_msg=text)
            np.testing.assert_allclose(da.jit(da.grad(fresh))(X), slope, rtol=1e-10, atol=1e-10, err_msg=text)
    assert lifted_by_itself > 200


# ── what is called, and by what ──────────────────────────────────────────────────────────────────────────────────


def powers(x):
    out = np.zeros(3)
    for k in range(3):
        out[k] = x**k
    return out


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def energy(self, x):
        return self.scale * math.exp(x)

    def __call__(self, x):
        return self.scale * float(x) ** 2


def scaled(scale, x):
    return math.sin(scale * x)


def closure(scale):
    return lambda x: math.sin(scale * x)


def generated(x):
    def entries():
        for k in range(3):
            yield float(x) ** k

    return sum(entries())


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (powers, [0.0, 1.0, 1.0]),
        (Model(2.0).energy, 2.0 * math.exp(0.5)),
        (Model(2.0), 2.0),
        (partial(scaled, 3.0), 3.0 * math.cos(1.5)),
        (closure(3.0), 3.0 * math.cos(1.5)),
        (generated, 2.0),
    ],
    ids=["function", "method", "object", "partial", "closure", "generator"],
)
def test_whatever_is_called_is_lifted(f, slope) -> None:
    for _ in range(2):  # found out, and known
        np.testing.assert_allclose(da.jacfwd(f)(0.5), slope, rtol=1e-12)
        np.testing.assert_allclose(da.jacrev(f)(0.5), slope, rtol=1e-12)
        np.testing.assert_allclose(da.jit(da.jacfwd(f))(0.5), slope, rtol=1e-12)


def path(x):
    return np.sum(powers(x))


@pytest.mark.parametrize(
    "use",
    [
        lambda f: da.jvp(f, (0.5,), (1.0,))[1],
        lambda f: da.grad(f)(0.5),
        lambda f: da.vjp(f, 0.5)[1](1.0)[0],
        lambda f: da.linearize(f, 0.5)[1](1.0),
        lambda f: da.jacfwd(da.grad(f))(0.5),
        lambda f: da.hessian(f)(0.5),
        lambda f: da.vmap(da.grad(f))(np.array([0.5, 0.5]))[1],
        lambda f: da.grad(lambda x: np.sum(da.vmap(f)(np.array([1.0, 0.0]) * x)))(0.5),
        lambda f: da.jit(da.grad(f))(0.5),
        lambda f: da.grad(da.jit(f))(0.5),
        lambda f: da.grad(da.checkpoint(f))(0.5),
        lambda f: da.grad(lambda x: da.scan(lambda c, k: (f(c) * 0.5, c), x, np.arange(2.0))[0])(0.5),
        lambda f: da.grad(lambda x: da.cond(True, f, f, x))(0.5),
        lambda f: da.sparse_jacobian(lambda x: np.array([f(x[0])]))(np.array([0.5])).toarray()[0, 0],
        lambda f: da.taylor(f, 0.5, order=2)[1],
        lambda f: da.trace(f, 0.5).equations and da.jvp(f, (0.5,), (1.0,))[1],
    ],
)  # fmt: skip
def test_every_transform_lifts(use) -> None:
    fresh = types.FunctionType(path.__code__.replace(), globals())  # of which nothing is known
    np.testing.assert_allclose(use(fresh), use(da.plain(da.lift(path))), rtol=1e-12)


def test_code_of_a_notebook() -> None:
    names = {"np": np, "__name__": "__main__"}
    exec("def f(x):\n    b = np.zeros(2)\n    b[0] = x\n    return b.sum() * x\n", names)
    assert da.grad(names["f"])(3.0) == 6.0 and names["np"] is np


# ── what is left as it is ────────────────────────────────────────────────────────────────────────────────────────


def test_plain_functions_and_blocks_are_refused() -> None:
    assert da.grad(path)(0.5) == 2.0
    with pytest.raises(ConversionError):
        da.grad(da.plain(path))(0.5)
    with pytest.raises(ConversionError):
        da.grad(lambda x: 2.0 * da.plain(path)(x))(0.5)
    with da.plain():
        with pytest.raises(ConversionError):
            da.grad(path)(0.5)
        assert da.grad(da.lift(path))(0.5) == 2.0
    assert da.grad(path)(0.5) == 2.0
    assert da.plain(path)(0.5) == path(0.5)


def test_the_first_error_is_raised_where_nothing_helps() -> None:
    seen = []

    def f(x):
        seen.append(1)
        return np.sum(np.union1d(x, x))

    with pytest.raises(UnsupportedError, match="union1d") as raised:
        da.grad(f)(X)
    with da.plain(), pytest.raises(UnsupportedError) as alone:
        da.grad(f)(X)
    assert str(raised.value) == str(alone.value) and len(seen) == 3


def test_a_function_that_nothing_replaces_is_named() -> None:
    interpolate, stats = pytest.importorskip("scipy.interpolate"), pytest.importorskip("scipy.stats")
    points = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.raises(UnsupportedError, match="RBFInterpolator was called"):
        da.grad(lambda y: interpolate.RBFInterpolator(points, y)(points[:1])[0])(np.arange(8.0))
    with pytest.raises(UnsupportedError, match=r"levy_stable\.pdf was called"):
        da.grad(lambda a: stats.levy_stable.pdf(0.3, a, 0.5))(1.7)
    with pytest.raises(da.errors.RuleMissingError, match="was differentiated in `k`"):
        da.grad(lambda k: stats.studentized_range.cdf(0.3, k, 10.0))(3.0)


def test_an_error_of_the_users_own_is_raised_after_one_run() -> None:
    runs = []

    def f(x):
        runs.append(1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        da.grad(f)(X)
    assert len(runs) == 1


def test_what_is_known_of_code_does_not_hold_for_all_arguments() -> None:
    def f(x, data):
        if data is not None:
            data[0] = 5.0
        return np.sum(powers(x) if data is None else np.sin(x) * data)

    assert da.grad(f)(0.5, None) == 2.0
    data = np.ones(2)
    np.testing.assert_allclose(da.grad(f)(0.5, data), 6.0 * math.cos(0.5))
    assert data.tolist() == [5.0, 1.0]


def test_it_is_forgotten_with_the_code() -> None:
    names = {"np": np}
    exec("def f(x, k=np.zeros(1)):\n    b = np.zeros(2)\n    b[0] = x\n    return b.sum()\n", names)

    def use():
        f = closure(2.0)
        assert da.grad(f)(0.1) == 2.0 * math.cos(0.2) and da.grad(names["f"])(0.1) == 1.0
        return weakref.ref(f)

    gone = use()
    gc.collect()
    assert gone() is None


def test_it_is_logged_once(caplog) -> None:
    f = types.FunctionType(path.__code__.replace(), globals())
    with caplog.at_level(logging.INFO, "dualad"):
        da.grad(f)(0.5)
        da.grad(f)(0.6)
    assert [r.code for r in caplog.records] == ["DAL010"] and "path" in caplog.text


# ── what an abandoned run has done ───────────────────────────────────────────────────────────────────────────────


def test_writes_to_arguments_are_undone() -> None:
    def f(x, scale, large, tree):
        x[0] *= 2.0
        x[1:] += 1.0
        scale += 1.0
        tree.pop("unused")
        tree["more"] = 1.0
        return np.sum(np.asarray(x, float) * scale) + np.sum(large)

    def arguments():
        return X.copy(), np.ones(3), np.ones(20_000), {"unused": 1.0}

    expected, given = f(*arguments()), arguments()
    fresh = types.FunctionType(f.__code__.replace(), globals())
    value, slope = da.value_and_grad(fresh)(*given)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert slope.tolist() == [4.0, 2.0, 2.0]
    assert given[0].tolist() == X.tolist() and given[1].tolist() == [1.0, 1.0, 1.0]


def test_a_large_plain_argument_that_is_written_to_is_refused_and_not_written_twice() -> None:
    def f(x, large):
        large += 1.0
        return float(x) * np.sum(large)

    with pytest.raises(DualadError):
        da.grad(f)(1.0, np.zeros(20_000))


def test_writes_through_views_and_deferred_ones_are_undone() -> None:
    def f(x):
        tail = x[1:]
        tail[0] = x[0] * 3.0
        x[2] = 2.0 * x[2]
        x[0] = x[0] + 1.0
        return np.asarray([np.sin(x[0]), x[1], x[2]], float) @ np.array([1.0, 2.0, 3.0])

    def fresh():
        return types.FunctionType(f.__code__.replace(), globals())

    expected, rows = f(X.copy()), np.stack([X, 2.0 * X])
    x = X.copy()
    np.testing.assert_allclose(da.jit(fresh())(x), expected, rtol=1e-12)
    np.testing.assert_allclose(x, [X[0] + 1.0, 3.0 * X[0], 2.0 * X[2]])  # once, and what was written is returned
    np.testing.assert_allclose(da.vmap(fresh())(rows), [f(row.copy()) for row in rows], rtol=1e-12)
    np.testing.assert_allclose(da.jacfwd(fresh())(X), [math.cos(1.0 + X[0]) + 6.0, 0.0, 6.0], rtol=1e-12)
    np.testing.assert_allclose(da.jacrev(fresh())(X), [math.cos(1.0 + X[0]) + 6.0, 0.0, 6.0], rtol=1e-12)


def test_what_is_outside_is_done_in_each_run() -> None:
    log, captured = [], np.zeros(1)

    def f(x):
        log.append(len(log))
        captured[0] += 1.0
        return float(x) * 2.0

    assert da.grad(f)(1.0) == 2.0 and log == [0, 1] and captured[0] == 2.0
    assert da.grad(f)(1.0) == 2.0 and log == [0, 1, 2]  # known: once


def test_draws_are_those_of_the_last_run() -> None:
    generator, expected = np.random.default_rng(3), np.random.default_rng(3)
    slope = da.grad(lambda x: generator.normal() * float(x))(1.0)
    expected.normal()
    assert slope == expected.normal()


def test_a_refusal_that_the_function_catches_is_cured() -> None:
    def f(x):
        try:
            return np.sum(np.asarray(x, float) ** 2)
        except TypeError:
            return 0.0 * np.sum(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert da.grad(f)(X).tolist() == (2.0 * X).tolist()
        assert da.grad(lambda x: da.grad(f)(x)[0])(X).tolist() == [2.0, 0.0, 0.0]


def test_a_refusal_that_is_caught_and_not_cured_is_told_and_not_tried_again() -> None:
    runs = []

    def f(x):
        runs.append(1)
        try:
            return np.sum(np.union1d(x, x))
        except NotImplementedError:
            return np.sum(x)

    for _ in range(2):
        with pytest.warns(RefusalSwallowedWarning):
            assert da.grad(f)(X).tolist() == [1.0, 1.0, 1.0]
    assert len(runs) == 3


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ten_threads_see_the_same_numbers() -> None:
    expected, wrong = path(0.5), []

    def compute() -> None:
        for _ in range(200):
            if path(0.5) != expected:
                wrong.append(path(0.5))

    def differentiate() -> None:
        for _ in range(50):
            f = types.FunctionType(path.__code__.replace(), globals())
            if da.grad(f)(0.5) != 2.0:
                wrong.append(f)

    workers = [threading.Thread(target=t) for t in [compute] * 5 + [differentiate] * 5]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and type(np.zeros(1)) is np.ndarray


def test_the_refusal_without_lifting_is_what_it_was() -> None:
    with da.plain(), pytest.raises(PlainBufferError):
        da.grad(lambda x: np.sum(np.asarray(x, float)))(X)


def test_errors_in_words_of_code_in_c_are_cured() -> None:
    """MINPACK says nothing of the tensors among the objects of which NumPy made an array for it."""
    optimize = pytest.importorskip("scipy.optimize")

    def f(v):
        z = optimize.root(lambda z: np.array([z[0] ** 2 + v[0] * z[1] - 3, z[1] * v[1] - z[0] - 1]), [1.0, 1.0]).x
        return z[0] * z[1]

    x = np.array([0.5, 2.0])
    np.testing.assert_allclose(da.grad(f)(x), [(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(2)], rtol=1e-6)


def test_the_lifted_run_says_what_is_missing() -> None:
    """A draw of a generator under ``vmap`` is refused, and not the conversion in NumPy's code that led to lifting."""

    def f(v):
        return np.random.default_rng().normal(v, 1.0)

    with pytest.raises(UnsupportedError, match="drew a random number inside vmap"):
        da.vmap(f)(np.ones((2, 3)))
    np.testing.assert_array_equal(da.jacfwd(f)(np.ones(3)), np.eye(3))


_OF_ITERABLES = {
    "sum of a generator": lambda v: math.fsum(t * t for t in v),
    "sum of a dict's values": lambda v: math.fsum({"a": v[0] * v[1], "b": v[2]}.values()),
    "product of a map": lambda v: math.prod(map(np.square, v), start=2.0),
    "array of a generator": lambda v: np.sum(np.fromiter((t * t for t in v), float, 2) ** 2),
    "distance": lambda v: math.dist(iter([v[0], v[1]]), (v[2], 1.0)),
    "plain numbers": lambda v: v[0] * math.fsum(iter([1.0, 2.0])) * math.prod([2, 3]),
    "mean": lambda v: statistics.fmean([v[0], v[1] * v[2]]),
    "geometric mean": lambda v: statistics.geometric_mean([*v]),
    "regression": lambda v: statistics.linear_regression([1.0, 2.0, 3.0], [*v]).slope,
    "distribution": lambda v: statistics.NormalDist(v[0], v[1]).cdf(v[2]),
    "saturation": lambda v: colorsys.rgb_to_hsv(*(v / 2))[1],
}


@pytest.mark.parametrize("f", _OF_ITERABLES.values(), ids=_OF_ITERABLES)
def test_iterators_and_the_standard_librarys_own_loops(f) -> None:
    expected = [(f(X + e) - f(X - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(da.grad(f)(X), expected, rtol=1e-6, atol=1e-8)
    compiled = da.jit(da.grad(f), specialise=True)  # two of them branch on values
    np.testing.assert_allclose(compiled(X), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(da.vmap(da.grad(f))(np.stack([X, X]))[1], expected, rtol=1e-6, atol=1e-8)


class Pair:
    """Two numbers that make an array of themselves, and compute with ``math``."""

    def __init__(self, *entries):
        self.entries = entries

    def __abs__(self):
        return math.sqrt(math.fsum(x * x for x in self.entries))

    def __array__(self, dtype=None, copy=None):
        return np.array(self.entries, dtype)


def test_objects_that_make_arrays_of_themselves() -> None:
    def f(v):
        pair = Pair(v[0], v[1] * v[2])
        return (
            abs(pair) + np.sum(np.asarray(pair) ** 3) + np.array(pair)[1] + np.dot(np.asarray(pair, float), [1.0, 2.0])
        )

    expected = [(f(X + e) - f(X - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(da.grad(f)(X), expected, rtol=1e-6)
    np.testing.assert_allclose(da.jit(da.grad(f))(X), expected, rtol=1e-6)
    np.testing.assert_allclose(da.vmap(da.grad(f))(np.stack([X, X]))[0], expected, rtol=1e-6)


def test_a_checkpoint_in_a_lifted_function() -> None:
    """What it reads is compared after the lifted run, which has found other things under the names."""

    def f(x):
        total = 0.0
        for v in x:
            total = total + float(v) * math.sin(v)
        return total

    expected = da.grad(f)(np.array([0.5, 0.3]))
    checkpointed = lambda x: da.checkpoint(lambda y: f(y))(x)
    for _ in range(2):
        np.testing.assert_allclose(da.grad(checkpointed)(np.array([0.5, 0.3])), expected, rtol=1e-14)


def test_flags_are_written_to_plain_arrays_and_out_may_be_given_by_position() -> None:
    def f(x):
        large = np.full_like(x, False, dtype=bool)
        np.greater_equal(np.abs(x), 0.5, where=~np.isnan(x), out=large)
        y = 3.0 * x
        np.clip(y, 0.5, 1.5, y)
        return np.where(large, y, 0.0)

    x = np.array([0.3, 0.7, 0.1])
    expected = [(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(da.jacfwd(f)(x).T, expected, atol=1e-8)
    np.testing.assert_allclose(da.jacrev(f)(x).T, expected, atol=1e-8)
    np.testing.assert_allclose(da.vmap(f)(np.stack([x, -x])), [f(x), f(-x)])


@pytest.mark.filterwarnings("ignore:vmap:dualad.errors.PerformanceNote")  # a mask of one entry is a branch
def test_where_of_scalars_is_an_array_in_lifted_code() -> None:
    def f(x):
        b = np.zeros(1)
        b[0] = x
        y = np.where(x > 0.5, b[0], -x)
        y[np.asarray(y > 0.1)] += 1
        return y * x

    np.testing.assert_allclose([da.grad(f)(0.7), *da.vmap(f)(np.array([0.7, 0.2]))], [2.4, f(0.7), f(0.2)])


@pytest.mark.filterwarnings("ignore:vmap:dualad.errors.PerformanceNote")
def test_what_numba_has_compiled_runs_as_it_was_written() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def steps(x, n):
        out = np.zeros(n)
        for i in range(n):
            out[i] = x**i if x > 0.0 else 0.0
        return out

    def f(x):
        return steps(x, 4).sum() * steps(2.0, 2).sum()

    assert da.grad(f)(0.5) == 3.0 * (1.0 + 2 * 0.5 + 3 * 0.25)
    np.testing.assert_allclose(da.vmap(da.grad(f))(np.array([0.5, -1.0])), [8.25, 0.0])
    np.testing.assert_allclose(da.jacfwd(lambda x: da.jacrev(steps)(x, 4))(0.5), [0.0, 0.0, 2.0, 3.0])
    np.testing.assert_allclose(da.jit(numba.njit(lambda x: np.sum(x**2)))(np.ones(3)), 3.0)
    power = numba.vectorize(lambda x, n: x**n if n > 1 else 1.0)
    np.testing.assert_allclose(da.jacfwd(lambda x: power(x, np.array([1.0, 2.0, 3.0])))(0.5), [0.0, 1.0, 0.75])
