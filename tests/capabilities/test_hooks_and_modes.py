"""Hooks on gradients, `no_tangents`, hooks on residuals, and the pickling of tensors.

Not for: checkpoints (`test_checkpoint.py`).
"""

from __future__ import annotations

import asyncio
import copy
import pickle

import numpy as np
import pytest

import dualad as da
from dualad.core import contexts
from dualad.errors import ArgumentTypeError, ConversionError, DtypeError, InPlaceError, OutputError, ShapeError

X = np.array([0.5, -1.5, 2.0])
HALF, TWO = np.array([0.5, 0.5]), np.array([2.0, 2.0])


def square(ct):
    return ct * ct


# ── hooks on gradients ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_hook_is_called_once_per_pull_with_the_whole_cotangent() -> None:
    seen = []

    def f(x):
        y = da.grad_hook(x, seen.append)
        return np.sum(y * 2 + y * 3 + np.sin(y) * 0)

    _, pull = da.vjp(f, X)
    assert not seen
    pull(1.0)
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], np.full(3, 5.0))
    pull(2.0)
    assert len(seen) == 2
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(da.grad_hook(x, lambda c: 2 * c)))(X), np.full(3, 2.0))
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(da.grad_hook(x, lambda c: None)))(X), np.ones(3))


def test_a_hook_is_called_once_also_beside_a_pole() -> None:
    """0·∞ behind the hook is settled in the one walk that calls it."""
    seen = []

    def f(x):
        y = da.grad_hook(x, seen.append)
        return np.sum(np.where(y > 0, np.sqrt(np.abs(y)), 2.0 * y))

    got = da.grad(f)(np.array([0.0, 4.0]))
    assert len(seen) == 1
    np.testing.assert_array_equal(got, [2.0, 0.25])
    np.testing.assert_array_equal(seen[0], [2.0, 0.25])


def test_a_hook_is_not_called_forwards() -> None:
    never = lambda ct: pytest.fail("the hook ran")
    np.testing.assert_array_equal(da.jvp(lambda x: da.grad_hook(x, never) * 2, (X,), (X,))[1], 2 * X)
    assert da.grad_hook(X, never) is X
    np.testing.assert_array_equal(da.vmap(lambda x: da.grad_hook(x, never))(X), X)


def test_a_hook_may_be_differentiated() -> None:
    """The gradient is (2x)² = 4x², so the second derivative is 8x."""
    f = lambda x: da.grad_hook(x, square) ** 2
    assert float(da.grad(f)(3.0)) == 36.0
    assert float(da.jvp(da.grad(f), (3.0,), (1.0,))[1]) == 24.0
    # A gradient of the gradient passes the hook on its own way back too: (8x)².
    assert float(da.grad(da.grad(f))(3.0)) == 24.0**2


def test_hooks_are_called_outermost_first() -> None:
    log = []

    def hook(name, k):
        return lambda ct: (log.append(name), k * ct)[1]

    f = lambda x: da.grad_hook(da.grad_hook(da.grad_hook(x, hook("first", 2)), hook("second", 2)), hook("third", 2))
    assert float(da.grad(lambda x: 2.0 * f(x))(1.0)) == 16.0
    assert log == ["third", "second", "first"]


def test_five_steps_of_adam_equal_those_without_hooks() -> None:
    target = np.array([1.0, 2.0, 3.0])
    loss = lambda x: np.sum((x - target) ** 4)
    by_hand = lambda x: 4 * (x - target) ** 3
    results = []
    for gradient in (da.grad(loss), by_hand):
        x, m, v = np.zeros(3), np.zeros(3), np.zeros(3)
        for k in range(1, 6):
            g = gradient(x)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            x = x - 0.1 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        results.append(x)
    np.testing.assert_allclose(*results, rtol=1e-12)


def test_a_joint_hook_is_a_custom_rule() -> None:
    seen = []
    both = da.custom_vjp(lambda a, b: (a, b))
    both.defvjp(lambda a, b: ((a, b), None), lambda r, c: (seen.append(c), c)[1])
    da.grad(lambda a: np.sum(both(a, X)[0] * 3))(X)
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0][0], np.full(3, 3.0))
    np.testing.assert_array_equal(seen[0][1], np.zeros(3))


def test_a_hook_changes_the_cotangent_and_is_an_equation_of_its_own() -> None:
    product = da.vjp(lambda x, y: da.grad_hook(x, square) * y, HALF, HALF)[1](TWO)
    total = da.vjp(lambda x, y: da.grad_hook(x, square) + y, HALF, HALF)[1](TWO)
    np.testing.assert_array_equal(product, [[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(total, [[4.0, 4.0], [2.0, 2.0]])
    lin = da.linearize(lambda x: da.grad_hook(x, square) * 2, HALF)[1]
    assert [e.op.name for e in lin.program.equations] == ["grad_hook", "multiply"]
    assert "f64[2] = grad_hook(" in str(lin.program)
    assert [e.op.name for e in da.trace(lambda x: da.grad_hook(x, square), HALF).equations] == ["grad_hook"]
    # A traced gradient runs the hook's own code each time.
    program = da.trace(lambda x, ct: da.vjp(lambda x: da.grad_hook(x, square) ** 2, x)[1](ct)[0], HALF, TWO)
    np.testing.assert_array_equal(program(HALF, TWO), [4.0, 4.0])


@pytest.mark.parametrize("transform", [
    lambda f: da.vmap(da.grad(f))(np.stack([X, 2 * X])),
    lambda f: da.grad(lambda xs: np.sum(da.vmap(f)(xs)))(np.stack([X, 2 * X])),
])  # fmt: skip
def test_hooks_see_whole_batches_under_vmap(transform) -> None:
    f = lambda x: np.sum(da.grad_hook(x, square) ** 2)
    np.testing.assert_array_equal(transform(f), 4 * np.stack([X, 2 * X]) ** 2)


def test_a_hook_is_not_called_where_no_gradient_passes() -> None:
    never = lambda ct: pytest.fail("the hook ran")
    f = lambda x, y: np.sum(x) + 0 * np.sum(da.stop_gradient(da.grad_hook(y, never)))
    np.testing.assert_array_equal(da.grad(f, (0, 1))(X, X)[1], np.zeros(3))
    np.testing.assert_array_equal(da.grad(lambda x, y: np.sum(x * da.grad_hook(y, never)))(X, X), X)


def test_a_hook_that_returns_something_else_is_refused_by_name() -> None:
    def shortened(ct):
        return ct[:1]

    with pytest.raises(OutputError, match=r"`shortened`.*f64\[1\].*f64\[3\]"):
        da.grad(lambda x: np.sum(da.grad_hook(x, shortened)))(X)
    with pytest.raises(OutputError, match="str"):
        da.grad(lambda x: da.grad_hook(x, lambda ct: "no"))(1.0)
    with pytest.raises(ArgumentTypeError):
        da.grad_hook(X, 3)


def test_the_rules_of_custom_functions_may_differentiate() -> None:
    f = da.custom_vjp(lambda x: np.sum(x**3))
    f.defvjp(lambda x: (np.sum(x**3), x), lambda x, c: (c * da.vmap(da.grad(lambda t: t**3))(x),))
    np.testing.assert_allclose(da.grad(f)(X), 3 * X**2)
    np.testing.assert_allclose(da.jacrev(da.grad(f))(X), np.diag(6 * X))

    def failing(x, c):
        return (da.grad(lambda t: 1 / 0)(1.0),)

    f.defvjp(lambda x: (np.sum(x**3), x), failing)
    with da.dual_level() as level:
        with pytest.raises(ZeroDivisionError):
            da.grad(f)(X)
        assert da.unpack_dual(da.make_dual(1.0, 2.0)).tangent == 2.0
        assert level.open


# ── no_tangents ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_results_inside_no_tangents_are_plain() -> None:
    def f(x):
        with da.no_tangents():
            y = x * x
            assert not isinstance(y, da.Dual)
            with da.no_tangents(False):
                z = x * x
            again = x * x
        assert not isinstance(again, da.Dual)
        return y + 10 * z

    value, tangent = da.jvp(f, (3.0,), (1.0,))
    assert (float(value), float(tangent)) == (99.0, 60.0)
    assert float(da.grad(f)(3.0)) == 60.0
    assert float(da.grad(da.grad(f))(3.0)) == 20.0


def test_tangents_return_when_the_body_raises() -> None:
    def f(x):
        with pytest.raises(ZeroDivisionError), da.no_tangents():
            1 / 0  # noqa: B018
        return x * x

    assert float(da.grad(f)(3.0)) == 6.0
    assert not contexts.in_use and contexts.boundary.get() == 0


def test_transforms_inside_no_tangents_agree_with_stop_gradient() -> None:
    with da.no_tangents():
        assert float(da.grad(np.sin)(0.0)) == 1.0
    f = lambda x: x * _quietly(np.exp, x)
    g = lambda x: x * np.exp(da.stop_gradient(x))
    for op in (da.grad, da.hessian, lambda f: da.vmap(da.grad(f)), lambda f: da.jacfwd(da.vmap(f))):
        x = X if op not in (da.grad, da.hessian) else 0.7
        np.testing.assert_array_equal(op(f)(x), op(g)(x))


def _quietly(f, x):
    with da.no_tangents():
        return f(x)


def test_no_tangents_decorates_functions() -> None:
    @da.no_tangents()
    def frozen(x):
        return x * x

    assert float(da.grad(lambda x: x * frozen(x))(3.0)) == 9.0
    with pytest.raises(ArgumentTypeError, match="class"):
        da.no_tangents()(int)
    with pytest.raises(ArgumentTypeError, match="no_tangents"):
        da.no_tangents(frozen)


def test_writing_into_a_tensor_inside_no_tangents_is_refused() -> None:
    def f(x):
        y = x * 1.0
        with da.no_tangents():
            y[:2] = 0.0
        return np.sum(y)

    with pytest.raises(InPlaceError, match="no_tangents"):
        da.jvp(f, (X,), (X,))


def test_a_decorated_generator_holds_the_mode_only_while_it_runs() -> None:
    log = []

    @da.no_tangents()
    def steps(x):
        try:
            sent = yield isinstance(x * x, da.Dual)
            try:
                yield isinstance(x * (1 if sent is None else sent), da.Dual)
            except ValueError:
                yield isinstance(x + x, da.Dual)
            yield isinstance(x, da.Dual)
        finally:
            log.append(isinstance(x * x, da.Dual))
        return None

    def f(x):
        g = steps(x)
        assert not next(g)
        assert isinstance(x * x, da.Dual)
        assert not g.send(x)
        assert not g.throw(ValueError())
        assert isinstance(x * x, da.Dual)
        assert next(g)
        g.close()
        assert not next(iter(steps(x)))
        return x * x

    assert float(da.grad(f)(3.0)) == 6.0
    assert log == [False, False]


def test_a_decorated_coroutine_holds_the_mode_only_while_it_runs() -> None:
    @da.no_tangents()
    async def inner(x):
        y = x * x
        await asyncio.sleep(0)
        return y, x * x

    async def outer(x):
        task = asyncio.ensure_future(inner(x))
        await asyncio.sleep(0)
        between = x * x
        a, b = await task
        assert not isinstance(a, da.Dual) and not isinstance(b, da.Dual) and isinstance(between, da.Dual)
        return between

    assert float(da.grad(lambda x: asyncio.run(outer(x)))(3.0)) == 6.0


def test_a_generator_resumed_late_leaks_nothing() -> None:
    kept = []

    def values(x):
        while True:
            x = x * 2
            yield x

    def f(x):
        g = values(x)
        kept.append(g)
        return next(g) + next(g)

    assert float(da.jvp(f, (1.0,), (1.0,))[1]) == 6.0
    with pytest.raises(da.errors.EscapedTensorError):
        next(kept[0])
    assert float(da.jvp(f, (1.0,), (1.0,))[1]) == 6.0

    def recurse(x, depth):
        with da.no_tangents(depth % 2 == 0):
            if depth:
                recurse(x, depth - 1)
            assert isinstance(x * x, da.Dual) == (depth % 2 == 1)

    da.jvp(lambda x: (recurse(x, 10), x * x)[1], (1.0,), (1.0,))
    assert not contexts.in_use


@pytest.mark.parametrize("dtype", ["int8", "int64", "bool", "float16", "float32", "longdouble", "complex64"])
def test_which_dtypes_have_gradients(dtype: str) -> None:
    x = np.ones(2, dtype)
    f = lambda x: np.sum(np.real(x * x))
    if x.dtype.kind in "bi":
        with pytest.raises(DtypeError):
            da.grad(f)(x)
    else:
        g = da.grad(f)(x)
        assert g.dtype == x.dtype
        np.testing.assert_array_equal(g, 2 * x)


# ── residual hooks ───────────────────────────────────────────────────────────────────────────────────────────────


def doubled(a):
    return a * 2


def same(a):
    return a


def test_packing_and_unpacking_scale_the_gradient() -> None:
    a = np.array([1.0, 2.0, 3.0])
    plain = da.grad(lambda a: np.sum(a * a))(a)
    for pair, factor in (((same, same), 1), ((doubled, lambda a: a * 0.5), 1), ((doubled, same), 2)):
        with da.residual_hooks(*pair):
            np.testing.assert_array_equal(da.grad(lambda a: np.sum(a * a))(a), factor * plain)


def test_the_innermost_pair_of_residual_hooks_holds() -> None:
    a = np.array([1.0, 2.0])
    with da.residual_hooks(lambda a: a * 3, same), da.residual_hooks(lambda a: a * 5, same):
        inner = da.grad(lambda a: np.sum(a * a))(a)
    np.testing.assert_array_equal(inner, 10 * a)
    with da.residual_hooks(lambda a: a * 3, same):
        with da.residual_hooks(lambda a: a * 5, same):
            pass
        np.testing.assert_array_equal(da.grad(lambda a: np.sum(a * a))(a), 6 * a)


def test_residuals_are_packed_once_and_unpacked_at_every_use() -> None:
    log = []
    with da.residual_hooks(lambda a: (log.append("pack"), a)[1], lambda a: (log.append("unpack"), a)[1]):
        value, pull = da.vjp(np.sin, X)
        assert log == ["pack"]
    pull(np.ones(3))
    pull(np.ones(3))
    assert log == ["pack", "unpack", "unpack"]
    np.testing.assert_array_equal(pull(np.ones(3))[0], np.cos(X))
    np.testing.assert_array_equal(value, np.sin(X))


def test_residuals_may_live_on_disk_or_in_half_precision(tmp_path) -> None:
    def to_disk(a):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.npy"
        np.save(path, a)
        return path

    with da.residual_hooks(to_disk, np.load):
        _, lin = da.linearize(lambda x: np.sin(x) * np.exp(x), X)
    assert list(tmp_path.iterdir())
    np.testing.assert_allclose(lin(np.ones(3)), (np.cos(X) + np.sin(X)) * np.exp(X))
    with da.residual_hooks(lambda a: a.astype(np.float16), lambda a: a.astype(float)):
        g = da.grad(lambda x: np.sum(np.exp(x)))(X)
    assert 0 < np.max(np.abs(g - np.exp(X))) < 1e-2
    with da.residual_hooks(doubled, lambda a: a / 2):
        np.testing.assert_allclose(da.hessian(lambda x: np.sum(x**3))(X), np.diag(6 * X))


def test_errors_of_residual_hooks_pass_through_and_the_context_is_left() -> None:
    def fail(a):
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"), da.residual_hooks(fail, same):
        da.grad(lambda x: np.sum(np.sin(x)))(X)
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(np.sin(x)))(X), np.cos(X))
    with pytest.raises(ShapeError, match="unpack"), da.residual_hooks(same, lambda a: a[:1]):
        da.grad(lambda x: np.sum(np.sin(x)))(X)
    with pytest.raises(ValueError, match="read-only"), da.residual_hooks(lambda a: a.fill(0), same):
        da.grad(lambda x: np.sum(np.sin(x)))(X)


# ── pickling ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("transform", [
    lambda f: da.jvp(f, (X,), (X,)), lambda f: da.vmap(f)(X), lambda f: da.trace(f, X), lambda f: da.grad(f)(X),
])  # fmt: skip
def test_tensors_refuse_to_be_pickled(transform) -> None:
    def f(x):
        pickle.dumps({"x": x})

    with pytest.raises(ConversionError, match="pickle"):
        transform(f)


def test_copies_of_a_tensor_keep_the_tangent() -> None:
    assert float(da.grad(lambda x: copy.deepcopy(x) * copy.copy(x))(3.0)) == 6.0
