"""Perturbation confusion: the classic cases, each with its source; threads, exceptions, generators, escapes.

Not for: the numbers of ordinary nesting (`test_closure.py`).
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dualad as da
from dualad.boundary.swallowed import RefusalSwallowedWarning
from dualad.errors import EscapedTensorError


def d(f):
    """Make the derivative operator of the literature, by forward mode."""
    return lambda x: da.jvp(f, (x,), (1.0,))[1]


def r(f):
    """Make the same operator by reverse mode."""
    return da.grad(f)


BOTH = pytest.mark.parametrize("outer", [d, r], ids=["forward", "reverse"])
INNER = pytest.mark.parametrize("inner", [d, r], ids=["of forward", "of reverse"])


# ── the classic cases ────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
@INNER
def test_siskind_and_pearlmutter_2005(outer, inner) -> None:
    """D(x ↦ x·D(y ↦ x + y)(1))(1) is 1; an implementation with one ε says 2.

    J. M. Siskind, B. A. Pearlmutter, "Perturbation confusion and referential transparency", IFL 2005.
    """
    assert outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0) == 1.0


@BOTH
@INNER
def test_siskind_and_pearlmutter_2008_products(outer, inner) -> None:
    """D(x ↦ x·D(y ↦ x·y)(2))(3) = 2·3; from "Nesting forward-mode AD in a functional framework", HOSC 2008."""
    assert outer(lambda x: x * inner(lambda y: x * y)(2.0))(3.0) == 6.0


@BOTH
@INNER
def test_manzyuk_et_al_curried(outer, inner) -> None:
    """The curried shift of O. Manzyuk et al., "Perturbation confusion in forward automatic differentiation of
    higher-order functions", JFP 2019: s(u)(f)(x) = f(x + u), D̂ = D s 0, D̂(D̂ exp)(1) = e; confusion gives 0.

    The derivative of a function-valued function is taken pointwise, as an uncurried function: a tensor may not
    leave its transform, and says so (see `test_manzyuk_et_al_escaping`).
    """

    def hat(f):
        return lambda x: outer(lambda u: f(x + u))(0.0)

    def hat_inner(f):
        return lambda x: inner(lambda u: f(x + u))(0.0)

    assert np.isclose(hat(hat_inner(np.exp))(1.0), np.e, rtol=1e-15)


@BOTH
def test_manzyuk_et_al_escaping(outer) -> None:
    """Written with a closure as the differentiated result, the tensor escapes: an error, never the 0 of confusion."""
    shift = lambda u: lambda f: lambda x: f(x + u)
    kept = []

    def keep(u):
        kept.append(shift(u))
        return u

    outer(keep)(0.0)
    with pytest.raises(EscapedTensorError):
        kept[0](np.exp)(1.0)


@BOTH
@INNER
def test_pearlmutter_and_siskind_lazy_inner_constant(outer, inner) -> None:
    """The inner derivative does not depend on the inner variable: D(x ↦ D(y ↦ x)(1))(1) = 0."""
    assert outer(lambda x: inner(lambda y: x * 1.0)(1.0))(1.0) == 0.0


@BOTH
@INNER
def test_the_outer_variable_inside_and_outside_the_inner_derivative(outer, inner) -> None:
    """D(x ↦ x·D(y ↦ x²·y³)(x))(2) with d/dx x·3x²·x² = 15x⁴."""
    assert np.isclose(outer(lambda x: x * inner(lambda y: x**2 * y**3)(x))(2.0), 15 * 2.0**4)


def test_three_levels_that_each_see_one_variable() -> None:
    """∂x ∂y ∂z of x·y²·z³ by nested derivatives, in all eight mixtures of modes."""
    for a in (d, r):
        for b in (d, r):
            for c in (d, r):
                got = a(lambda x: b(lambda y: c(lambda z: x * y**2 * z**3)(5.0))(3.0))(2.0)
                assert np.isclose(got, 1 * 2 * 3.0 * 3 * 5.0**2), (a, b, c)


@BOTH
def test_the_same_function_nested_in_itself(outer) -> None:
    """f(x) = x·f′-of-a-lower-order: recursion through the transform, as in Newton's method on a derivative."""

    def iterate(n):
        if n == 0:
            return lambda x: x**4
        return lambda x: x * outer(iterate(n - 1))(x)

    assert np.isclose(iterate(3)(1.5), 4**3 * 1.5**4)


def test_vmap_levels_are_not_confused_either() -> None:
    """The outer product by two vmaps, in which each level maps a variable the other one closes over."""
    x, y = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])
    np.testing.assert_allclose(da.vmap(lambda a: da.vmap(lambda b: a * b)(y))(x), np.outer(x, y))
    np.testing.assert_allclose(da.vmap(lambda a: da.vmap(lambda b: a - b)(x))(x), x[:, None] - x[None, :])


def test_derivative_of_a_vmap_over_a_closed_over_variable() -> None:
    x = np.array([1.0, 2.0, 3.0])
    got = da.grad(lambda s: np.sum(da.vmap(lambda a: s * a + d(lambda b: s * b * a)(1.0))(x)))(2.0)
    assert got == 2 * x.sum()


def test_a_residual_of_the_inner_pullback_carries_the_outer_tangent() -> None:
    """The inner pullback is made inside and applied outside the inner function, while the outer level is open."""

    def f(x):
        _, pull = da.vjp(lambda y: y * y * x, 3.0)
        return pull(1.0)[0] * x  # 6x · x

    assert d(f)(2.0) == 24.0 and r(f)(2.0) == 24.0


def test_a_pullback_of_one_level_inside_another_of_the_same_point() -> None:
    def f(x):
        _, pull = da.vjp(np.sin, x)
        _, pull_again = da.vjp(lambda c: pull(c)[0], 1.0)
        return pull_again(x)[0]  # x cos x

    assert np.isclose(r(f)(0.7), np.cos(0.7) - 0.7 * np.sin(0.7))


# ── threads and tasks ────────────────────────────────────────────────────────────────────────────────────────────


def test_transforms_in_threads_do_not_see_each_other() -> None:
    """Each thread nests three levels while the others do, and all of them start at once."""
    barrier = threading.Barrier(6)

    def work(k):
        barrier.wait()
        out = []
        for i in range(20):
            x = 1.0 + k + i / 10
            out.append(
                d(lambda a: a * r(lambda b: a * d(lambda c: b * c**2)(b))(a))(x)
            )  # d/dx x·d/db(a·2b²)=x·4x² → 12x²
        return out

    with ThreadPoolExecutor(6) as pool:
        for k, out in enumerate(pool.map(work, range(6))):
            np.testing.assert_allclose(out, [12 * (1.0 + k + i / 10) ** 2 for i in range(20)])


def test_a_tensor_used_in_another_thread_while_its_level_is_open() -> None:
    """A function may compute in worker threads: the level belongs to the tensor, not to the thread."""

    def f(x):
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(lambda k: np.sin(x * k), (1.0, 2.0)))
        return parts[0] * parts[1]

    expected = np.cos(0.3) * np.sin(0.6) + 2 * np.sin(0.3) * np.cos(0.6)
    assert np.isclose(d(f)(0.3), expected) and np.isclose(r(f)(0.3), expected)


def test_dual_levels_of_asynchronous_tasks_are_their_own() -> None:
    """Levels opened by hand interleave between tasks without seeing each other."""

    async def task(t):
        with da.dual_level() as level:
            await asyncio.sleep(0)
            x = da.make_dual(2.0, t)
            await asyncio.sleep(0)
            return level.index, da.unpack_dual(x * x).tangent

    async def main():
        return await asyncio.gather(*[task(float(t)) for t in range(4)])

    assert asyncio.run(main()) == [(0, 4.0 * t) for t in range(4)]


# ── exceptions ───────────────────────────────────────────────────────────────────────────────────────────────────


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    "transform",
    [
        d,
        r,
        lambda f: lambda x: da.vmap(f)(np.array([x])),
        lambda f: lambda x: da.trace(f, x),
        lambda f: lambda x: da.linearize(f, x),
    ],
    ids=["jvp", "grad", "vmap", "trace", "linearize"],
)
def test_an_exception_leaves_nothing_open(transform) -> None:
    """It passes through three levels unchanged; their tensors are closed, and the next transform starts clean."""
    kept = []

    def bad(x):
        kept.append(x)
        raise Stop("from inside")

    with pytest.raises(Stop, match="from inside"):
        d(lambda a: r(lambda b: transform(lambda c: bad(a * b * c))(1.0))(1.0))(1.0)
    assert all(not t.level.open for t in kept)
    with pytest.raises(EscapedTensorError):
        kept[0] + 1.0
    assert d(lambda x: x * d(lambda y: x + y)(1.0))(1.0) == 1.0


def test_a_caught_exception_inside_a_transform_changes_no_number() -> None:
    """... and is told, because the function may have gone another way than without the transform."""

    def f(x):
        try:
            d(lambda y: float(y))(x)
        except TypeError:
            return x * x
        raise AssertionError("float() of a tensor succeeded")

    with pytest.warns(RefusalSwallowedWarning, match="went on after a refusal"):
        assert d(f)(3.0) == 6.0
    with pytest.warns(RefusalSwallowedWarning, match="went on after a refusal"):
        assert r(f)(3.0) == 6.0


# ── escapes ──────────────────────────────────────────────────────────────────────────────────────────────────────

TRANSFORMS = {
    "jvp": lambda f: da.jvp(f, (1.5,), (1.0,)),
    "vjp": lambda f: da.vjp(f, 1.5),
    "grad": lambda f: da.grad(f)(1.5),
    "vmap": lambda f: da.vmap(f)(np.array([1.5, 2.5])),
    "linearize": lambda f: da.linearize(f, 1.5),
    "trace": lambda f: da.trace(f, 1.5),
    "linear_transpose": lambda f: da.linear_transpose(f, 1.5),
}
USES = {
    "operator": lambda x: x * 2.0,
    "reflected operator": lambda x: 2.0 - x,
    "ufunc": np.sin,
    "array function": lambda x: np.reshape(x, (1,)),
    "with an array": lambda x: np.ones(2) + x,
    "inside another transform": lambda x: da.jvp(lambda y: y * x, (1.0,), (1.0,)),
    "inside vmap": lambda x: da.vmap(lambda y: y * x)(np.ones(2)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_an_escaped_tensor_is_an_error_that_names_the_transform(name: str, use: str) -> None:
    kept = []

    def f(x):
        kept.append(x)
        return x * 2.0

    TRANSFORMS[name](f)
    with pytest.raises(EscapedTensorError) as error:
        USES[use](kept[0])
    said = "vjp|grad|value_and_grad" if name == "grad" else name
    assert any(f"`{s}`" in str(error.value) for s in said.split("|")), error.value
    assert error.value.why and "stop_gradient" in error.value.instead


def test_an_escaped_tensor_as_an_argument_or_result_of_another_transform() -> None:
    kept = []
    d(lambda x: kept.append(x) or x)(1.0)
    for use in (lambda x: d(np.sin)(x), lambda x: r(np.sin)(x), lambda x: da.vmap(np.sin, None, axis_size=2)(x)):
        with pytest.raises(EscapedTensorError):
            use(kept[0])
    with pytest.raises(EscapedTensorError):
        d(lambda y: kept[0])(1.0) + 1.0


def test_a_generator_resumed_after_its_transform_is_an_escape() -> None:
    def lazily(x):
        yield x * x
        yield x * x * x

    kept = []

    def f(x):
        generator = lazily(x)
        kept.append(generator)
        return next(generator)

    assert d(f)(3.0) == 6.0
    with pytest.raises(EscapedTensorError):
        next(kept[0])


def test_a_stored_value_of_stop_gradient_is_usable_afterwards() -> None:
    """What the message advises: the number alone, as a plain array."""
    kept = []

    def f(x):
        kept.append(da.stop_gradient(x * 2.0))
        return x * x

    d(f)(3.0)
    r(f)(3.0)
    assert [float(k) for k in kept] == [6.0, 6.0] and all(isinstance(k, (float, np.generic)) for k in kept)


def test_aux_outputs_hold_no_tensor() -> None:
    """Extra results through has_aux are plain."""
    for got in (
        da.jvp(lambda x: (x * x, {"x": x, "y": [x * 2]}), (3.0,), (1.0,), has_aux=True)[2],
        da.vjp(lambda x: (x * x, {"x": x, "y": [x * 2]}), 3.0, has_aux=True)[2],
        da.grad(lambda x: (x * x, {"x": x, "y": [x * 2]}), has_aux=True)(3.0)[1],
    ):
        assert got == {"x": 3.0, "y": [6.0]}
        assert all(isinstance(v, (float, np.generic, np.ndarray)) for v in (got["x"], got["y"][0]))
