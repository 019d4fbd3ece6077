"""The batching transform: axes, trees, randomness, branches, and batches against a loop.

Not for: batching rules (`tests/ops/test_every_op.py`) or splitting lanes at branches (`test_vmap_branches.py`).
"""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualad as da
from dualad.boundary.randomness import RandomnessWarning
from dualad.errors import ArgumentError, ArgumentTypeError
from tests.oracles.arrays import close, leaves
from tests.oracles.loops import axes_choices, looped, stack_members
from tests.strategies import shapes

# ── equals the loop; axis specifications ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("axes", axes_choices(2, (0, 1, -1, None)), ids=str)
@pytest.mark.parametrize("out_axis", [0, 1, -1, -2])
def test_every_choice_of_axes_equals_the_loop(axes, out_axis: int, rng) -> None:
    """Distinct members; axes 0, 1, −1, None per argument; the batch axis anywhere in the result."""
    f = lambda a, b: np.tanh(a @ b) + a[0]
    members = [(rng.normal(size=(2, 3)), rng.normal(size=(3, 3))) for _ in range(4)]
    args = [stack_members([m[i] for m in members], a) for i, a in enumerate(axes)]
    close(leaves(da.vmap(f, axes, out_axis)(*args)), looped(f, args, axes, 4, out_axis), "vmap")


@pytest.mark.parametrize("entries", [[1.0, 2.5, 3.0], [1, 2, 3], [1.0, 2j, 3]], ids=str)
def test_numbers_in_an_object_array_are_numbers(entries) -> None:
    x = np.array(entries, dtype=object)
    found, wanted = da.vmap(lambda a: a * 2)(x), np.array(entries) * 2
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    grid = da.vmap(lambda a, b: a @ b, (1, None))(np.array([entries] * 2, dtype=object), np.ones(2))
    np.testing.assert_array_equal(grid, wanted)


@given(data=st.data())
def test_any_shape_axis_and_batch_size_equals_numpy(data) -> None:
    """Any shapes, any axes, any batch size, any place for the result."""
    shape, size = data.draw(shapes()), data.draw(st.integers(0, 3))
    axis, out = data.draw(st.integers(-len(shape) - 1, len(shape))), data.draw(st.integers(-len(shape) - 1, len(shape)))
    full = list(shape)
    full.insert(axis % (len(shape) + 1), size)
    x = np.arange(float(np.prod(full))).reshape(full)
    got = da.vmap(lambda v: np.sin(v) * v, axis, out)(x)
    np.testing.assert_allclose(got, np.moveaxis(np.sin(x) * x, axis, out), rtol=1e-14)
    assert got.dtype == np.float64


def test_in_axes_are_prefixes_of_trees_and_static_arguments_are_not_mapped() -> None:
    """Nested containers follow the argument tree; what is no array is never mapped."""
    f = lambda p, how, x: {"a": p["w"] * x if how == "times" else x, "b": (p["b"][0] + p["b"][1],)}
    p = {"w": np.arange(3.0), "b": (np.arange(6.0).reshape(2, 3), 10.0)}
    got = da.vmap(f, ({"w": 0, "b": (1, None)}, None, None), {"a": 0, "b": (1,)})(p, "times", 2.0)
    np.testing.assert_array_equal(got["a"], [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(got["b"][0], np.arange(6.0).reshape(2, 3) + 10)
    got = da.vmap(f, ({"w": 0, "b": None}, 0, None))(p, "times", 2.0)
    np.testing.assert_array_equal(got["a"], [0.0, 2.0, 4.0])
    assert got["b"][0].shape == (3, 2, 3)
    np.testing.assert_array_equal(da.vmap(lambda x, g: g(x), (0, None))(np.arange(3.0), np.sin), np.sin(np.arange(3.0)))


def test_keyword_arguments_are_mapped_on_axis_0() -> None:
    got = da.vmap(lambda x, *, y: x + y, in_axes=1)(np.zeros((2, 3)), y=np.arange(3.0))
    np.testing.assert_array_equal(got, np.arange(3.0)[:, None] + np.zeros(2))


def test_out_axes_none_returns_what_is_the_same_in_all_lanes() -> None:
    a, b = da.vmap(lambda x: (x, 7.0), out_axes=(0, None))(np.arange(3.0))
    assert b == 7.0 and a.tolist() == [0.0, 1.0, 2.0]
    assert da.vmap(lambda x: 7.0)(np.arange(3.0)).tolist() == [7.0, 7.0, 7.0]
    constant = da.vmap(lambda x: np.ones(2))(np.arange(3.0))
    constant[0, 0] = 5.0  # an array of its own, not a broadcast view
    assert constant[1, 0] == 1.0


def test_axis_size() -> None:
    assert da.vmap(lambda: 3.0, axis_size=2)().tolist() == [3.0, 3.0]
    assert da.vmap(lambda x: x, None, axis_size=3)(1.0).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ArgumentError, match="axis_size has 3"):
        da.vmap(lambda x: x, axis_size=3)(np.ones(2))


# ── lanes of size one, bad axes ──────────────────────────────────────────────────────────────────────────────────


def test_an_inner_vmap_may_map_only_a_dummy() -> None:
    """No operand of the inner level is batched; the result gains an axis of size one."""
    x = np.arange(6.0).reshape(2, 3)
    got = da.vmap(lambda d, v: da.vmap(lambda _, w: np.sum(np.sin(w) * w), (0, None))(d, v))(np.zeros((2, 1)), x)
    np.testing.assert_allclose(got, np.sum(np.sin(x) * x, axis=1)[:, None], rtol=1e-15)


BAD_AXES = {
    "inconsistent sizes": (lambda: da.vmap(np.add)(np.ones(2), np.ones(3)), ArgumentError, "2.*3"),
    "inconsistent sizes in a tree": (
        lambda: da.vmap(lambda p: p["a"])({"a": np.ones(2), "b": np.ones(4)}),
        ArgumentError,
        r"\['b'\] has 4",
    ),
    "all None": (lambda: da.vmap(np.sin, None)(np.ones(2)), ArgumentError, "axis_size"),
    "out of range": (lambda: da.vmap(np.sin, 2)(np.ones((2, 3))), ArgumentError, "2 dimensions"),
    "out of range, negative": (lambda: da.vmap(np.sin, -3)(np.ones((2, 3))), ArgumentError, r"\(2, 3\)"),
    "a scalar": (lambda: da.vmap(np.sin)(3.0), ArgumentError, "0 dimensions"),
    "wrong length": (lambda: da.vmap(np.add, (0,))(np.ones(2), np.ones(2)), ArgumentError, "1 entries.*2 positional"),
    "a float": (lambda: da.vmap(np.sin, 0.0), ArgumentTypeError, "float"),
    "a bool": (lambda: da.vmap(np.sin, True), ArgumentTypeError, "bool"),
    "a string": (lambda: da.vmap(np.sin, "0"), ArgumentTypeError, "str"),
    "out_axes of a batched result": (lambda: da.vmap(np.sin, 0, None)(np.ones(2)), ArgumentError, "out_axes is None"),
    "out_axes out of range": (lambda: da.vmap(np.sin, 0, 2)(np.ones(2)), ArgumentError, "out_axes"),
    "out_axes a float": (lambda: da.vmap(np.sin, 0, 1.5), ArgumentTypeError, "out_axes"),
    "no arguments": (lambda: da.vmap(lambda: 1.0)(), ArgumentError, "nothing is mapped"),
    "a tree that does not fit": (
        lambda: da.vmap(lambda p: p["a"], ({"b": 0},))({"a": np.ones(2)}),
        TypeError,
        "in_axes",
    ),
    "out_axes that do not fit": (lambda: da.vmap(lambda x: (x, x), 0, (0,))(np.ones(2)), TypeError, "out_axes"),
}


@pytest.mark.parametrize("name", BAD_AXES)
def test_bad_axes_are_refused(name: str) -> None:
    """The right class, the numbers, and what to write."""
    call, error, said = BAD_AXES[name]
    with pytest.raises(error, match=said) as raised:
        call()
    assert raised.value.what and raised.value.why and raised.value.instead
    if error is ArgumentError:
        assert isinstance(raised.value, ValueError)


# ── no silent slow path ──────────────────────────────────────────────────────────────────────────────────────────


def _lines_run(call) -> int:
    count = 0

    def tracer(frame, event, arg):
        nonlocal count
        count += event == "line"
        return tracer

    before = sys.gettrace()
    gc.disable()  # finalizers of what earlier tests left behind are lines too
    sys.settrace(tracer)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


FUNCTIONS = {
    "network": lambda x: np.tanh(np.ones((4, 3)) @ x + 1.0).sum(),
    "softmax": lambda x: np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))),
    "gradient": lambda x: da.grad(lambda v: np.sum(np.sin(v) * v[0]))(x),
    "hessian": lambda x: da.hessian(lambda v: np.sum(v**3) * v[1])(x),
    "indexing": lambda x: x[::-1][1:] * x[np.array([0, 2])],
    "joins": lambda x: np.stack([np.concatenate([x, x]), np.concatenate([x[::-1], x])]),
    "linalg": lambda x: np.linalg.solve(np.eye(3) * 3 + np.outer(x, x), x),
    "selection": lambda x: np.where(x > 0, np.maximum(x, 0.5), np.clip(x, -1, 1)),
    "scans and sorts": lambda x: np.cumsum(np.sort(x)) + np.cumprod(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_lines_of_python_do_not_grow_with_the_batch(name: str, rng) -> None:
    """No lane is run on its own: exactly as many lines for 32 lanes as for 64.

    From 2 lanes to 64 a handful of lines may come in, where a residual is large enough to be copied only once; a
    loop over lanes would add at least one for each.
    """
    f = da.vmap(FUNCTIONS[name])
    for n in (2, 32, 64):
        f(np.ones((n, 3)))  # caches of shape rules and indices are filled
    two, some, many = (_lines_run(lambda n=n: f(rng.normal(size=(n, 3)))) for n in (2, 32, 64))
    assert some == many
    assert abs(many - two) < 62


# ── randomness, statistics, branches, empty batches ──────────────────────────────────────────────────────────────


def test_a_draw_is_shared_by_all_lanes_unless_a_parameter_is_batched() -> None:
    """A draw with a batched parameter raises; a draw without arguments is shared by all lanes, and told."""
    rng = np.random.default_rng(0)
    with pytest.raises(da.errors.UnsupportedError, match="drew a random number inside vmap"):
        da.vmap(lambda x: rng.normal(x, 1.0))(np.ones(3))
    with pytest.raises(TypeError):
        da.jvp(da.plain(lambda x: rng.normal(x, 1.0)), (1.0,), (1.0,))
    assert da.jvp(lambda x: rng.normal(x, 1.0), (1.0,), (1.0,))[1] == 1.0
    with pytest.warns(RandomnessWarning):
        got = da.vmap(lambda x: x * 0 + rng.normal())(np.ones(3))
    assert got[0] == got[1] == got[2]


@pytest.mark.parametrize("axes", axes_choices(3, (0, None)), ids=str)
def test_running_statistics_of_batch_normalization_equal_the_loop(axes, rng) -> None:
    """Functional batch normalization, every combination of mapped input, mean and variance."""

    def norm(x, mean, var):
        new_mean = 0.9 * mean + 0.1 * np.mean(x, axis=0)
        new_var = 0.9 * var + 0.1 * np.var(x, axis=0)
        return (x - new_mean) / np.sqrt(new_var + 1e-5), new_mean, new_var

    members = [(rng.normal(size=(5, 2)), rng.normal(size=2), rng.uniform(1, 2, size=2)) for _ in range(3)]
    args = [stack_members([m[i] for m in members], a) for i, a in enumerate(axes)]
    close(leaves(da.vmap(norm, axes)(*args)), looped(norm, args, axes, 3), "batch norm")
    loss = lambda *a: np.sum(norm(*a)[0] ** 2)
    got = da.vmap(da.grad(loss, (0, 1, 2)), axes)(*args)
    close(leaves(got), looped(da.grad(loss, (0, 1, 2)), args, axes, 3), "its gradient")


def test_branches_on_values_are_fine_under_jvp_and_grad() -> None:
    f = lambda x: x**2 if x > 0 else -x
    assert da.grad(f)(3.0) == 6.0 and da.grad(f)(-3.0) == -1.0
    assert da.jvp(f, (-3.0,), (1.0,)) == (3.0, -1.0)


def test_empty_and_unit_batches_keep_shape_and_dtype() -> None:
    """(0, …) with the right dtype; a batch of one equals the call without it."""
    f = lambda x: (np.sum(x), x[:2] > 0, np.argmax(x), np.outer(x, x).astype(np.float32))
    got = da.vmap(f)(np.ones((0, 3)))
    assert [g.shape for g in got] == [(0,), (0, 2), (0,), (0, 3, 3)]
    assert [g.dtype for g in got] == [np.float64, bool, np.int64, np.float32]
    x = np.array([3.0, -1.0, 2.0])
    for one, plain in zip(da.vmap(f)(x[None]), f(x), strict=True):
        np.testing.assert_array_equal(one[0], plain)
    assert da.vmap(da.grad(lambda v: np.sum(v**2)))(np.ones((0, 3))).shape == (0, 3)
    assert da.vmap(da.hessian(lambda v: np.sum(v**2)))(np.ones((0, 3))).shape == (0, 3, 3)


def test_collectives_reduce_over_a_named_axis() -> None:
    """Normalizing by a sum over the mapped axis."""
    got = da.vmap(lambda x: x / da.psum(x, "lanes"), axis_name="lanes")(np.array([1.0, 3.0]))
    np.testing.assert_allclose(got, [0.25, 0.75])


# ── nesting and dtypes ───────────────────────────────────────────────────────────────────────────────────────────


def test_nested_levels_on_different_axes() -> None:
    """vmap of vmap over axes (None, −1, None, −1) at both levels of the jvp of solve: the functorch case."""
    rng = np.random.default_rng(1)
    A, k = np.eye(4) * 4 + rng.normal(size=(4, 4)), rng.normal(size=(4, 5, 3, 2))
    tA, tk = rng.normal(size=(4, 4)), rng.normal(size=(4, 5, 3, 2))
    f = lambda a, b, s, t: da.jvp(np.linalg.solve, (a, b), (s, t))
    axes = (None, -1, None, -1)
    value, tangent = da.vmap(da.vmap(f, axes), axes)(A, k, tA, tk)
    assert value.shape == tangent.shape == (2, 3, 4, 5)
    for i in range(2):
        for j in range(3):
            v, t = f(A, k[..., j, i], tA, tk[..., j, i])
            np.testing.assert_allclose(value[i, j], v, rtol=1e-10)
            np.testing.assert_allclose(tangent[i, j], t, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, bool, np.complex64])
def test_dtypes_are_kept(dtype) -> None:
    x = np.array([[1, 0], [1, 1]]).astype(dtype)
    assert da.vmap(lambda v: v)(x).dtype == dtype
    assert da.vmap(lambda v: np.sum(v))(x).dtype == np.sum(x, axis=1).dtype
    assert da.vmap(lambda v: v + v)(x).dtype == (x + x).dtype


def test_names_and_docstrings() -> None:
    def f(x):
        """Say something."""
        return x

    assert "f" in da.vmap(f).__name__ and da.vmap(f).__doc__ == "Say something." and da.vmap(f).__wrapped__ is f
    assert "f" in da.grad(f).__name__ and da.grad(f).__doc__ == "Say something."
