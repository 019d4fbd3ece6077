"""What plain arrays do in place, and with rarer indices and orders, done by tensors: ``x.shape = ...`` above all.

Random programs of views, writes, reshapes in place, orders, masks, ``item`` and ``tolist`` are linear functions, so a
derivative of one is the program itself, run by plain NumPy on the tangent. Not for: the operators (``tests/ops``).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError, InPlaceError, UnsupportedError
from tests.edges.containers import Labelled

pytestmark = pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")

SHAPES = [(6,), (2, 3), (3, 2), (1, 6), (6, 1), (3, 1, 2), (-1,), (2, -1), (12,), (4, 3)]
ORDERS = [None, "C", "F", "c", "f"]


def program(seed: int, steps: int = 12):
    """Return a random linear program of an array of six entries; its steps depend on shapes alone."""

    def run(x):
        rng = np.random.default_rng(seed)
        pick = lambda among: among[rng.integers(len(among))]
        held, refused = [x * 1.0], 0
        for _ in range(steps):
            a, b = pick(held), pick(held)
            kind = rng.integers(12)
            if kind in (0, 1, 2):
                shape = pick(SHAPES)
                try:
                    a.shape = shape
                except (AttributeError, ValueError):
                    refused += 1
            elif kind == 3:
                held.append(pick([a.T, a[::-1], a[..., 1:], a[:1], a[...], a.swapaxes(0, -1)]))
            elif kind == 4:
                flat = pick([np.ravel, np.copy, lambda y, order: y.flatten(order)])(a[...], order=pick(ORDERS))
                held.append(flat if flat.shape != a.shape else flat[...])
            elif kind == 5 and a.shape != (a.size, 1):
                held.append(a.reshape((a.size, 1), order=pick(ORDERS)))
            elif kind == 6 and a.size:
                a[(0,) * a.ndim] = 2.0 * b.item(int(rng.integers(b.size))) if b.size else 0.0
            elif kind == 7:
                a *= pick([0.5, -1.0, 2.0])
            elif kind == 8 and len(a):
                mask = [bool(i % 2) for i in range(len(a))]
                held.append(a[pick([mask, Labelled(mask), Labelled(np.flatnonzero(mask)), np.array(mask)])])
            elif kind == 9:
                held.append(np.stack(flat) if (flat := entries(a.tolist())) else a.copy())
            elif kind == 10 and a.size:
                a[-1] = a[0] - a[-1]
            elif kind == 11 and a.size == 1:
                held.append(np.stack([a.item(), 2.0 * a.item(0)]))
        return np.concatenate([np.ravel(h) for h in held] + [np.full(1, float(refused)) * x[0]])

    return run


def entries(lists):
    return [e for row in lists for e in entries(row)] if isinstance(lists, list) else [lists]


@pytest.mark.parametrize("seed", range(60))
def test_a_random_program_is_its_own_derivative(seed):
    check(seed)


@pytest.mark.full
def test_a_thousand_random_programs_are_their_own_derivatives():
    for seed in range(60, 1060):
        check(seed)


def check(seed):
    rng = np.random.default_rng([seed, 1])
    f, x, t = program(seed), rng.normal(size=6), rng.normal(size=6)
    with np.errstate(all="ignore"):
        plain, slope = f(x), f(t)
    value, tangent = da.jvp(f, (x,), (t,))
    np.testing.assert_allclose(value, plain)
    np.testing.assert_allclose(tangent, slope, atol=1e-12)
    weights = rng.normal(size=plain.size)
    np.testing.assert_allclose(da.grad(lambda x: weights @ f(x))(x) @ t, weights @ slope, atol=1e-12)
    np.testing.assert_allclose(da.vmap(da.lift(f), randomness="same")(np.stack([x, t])), np.stack([plain, slope]))
    if seed % 10 == 0:
        np.testing.assert_allclose(da.jit(f)(x), plain)


def test_the_shape_of_a_view_of_all_that_share_its_memory():
    def f(x):
        y = x * x
        y.shape = (2, 2)
        row = y[0]
        y.shape = -1
        y[0] *= 10.0  # seen by the row, which is a view of the same memory
        return row

    np.testing.assert_allclose(da.jacfwd(f)(np.arange(1.0, 5.0)), [[20.0, 0, 0, 0], [0, 4.0, 0, 0]])
    with pytest.raises(ValueError, match="cannot reshape array"):
        da.grad(lambda x: setattr(x, "shape", (3, 3)))(np.ones(4))
    with pytest.raises(AttributeError, match="not writable"):
        da.grad(lambda x: setattr(x[0], "shape", ()))(np.ones(4))
    with pytest.raises(AttributeError, match=r"reshape"):
        da.grad(lambda x: setattr((x * np.ones((2, 2))).T, "shape", 4))(np.ones(2))


def test_one_tensor_in_place_of_two_arrays_keeps_its_shape():
    def f(x):
        y = np.ravel(x)
        y.shape = (2, 2)
        return np.sum(x[0] * y)  # x has one axis, as before

    with pytest.raises(InPlaceError, match=r"np\.ravel.*\n.*itself"):
        da.grad(f)(np.ones(4))
    assert da.grad(lambda x: np.sum(x[0] * np.ravel(x).reshape(2, 2)))(np.ones(4)).tolist() == [5, 1, 1, 1]


# ── subclasses ───────────────────────────────────────────────────────────────────────────────────────────────────


class Named(np.ndarray):
    """A subclass with an attribute that its views take over, and a method."""

    name = "none"

    def __array_finalize__(self, of):
        self.name = getattr(of, "name", "made")

    def doubled(self):
        return 2.0 * self

    @property
    def energy(self):
        return 0.5 * np.sum(self**2)


@pytest.mark.parametrize("around", [lambda f: f, da.lift], ids=["plain", "lift"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(Named),
        lambda x: np.asarray(x).view(Named),
        lambda x: x.view(type=Named),
        lambda x: x.view(x.dtype, Named),
    ],
)
def test_the_methods_of_a_subclass_run_on_the_entries(view, around):
    def f(x):
        y = view(x)
        assert y.name == y[1:].name == "made"
        return y.doubled().energy

    x = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(da.grad(around(f))(x), 4.0 * x)
    np.testing.assert_allclose(da.vmap(around(f))(np.stack([x, 2 * x])), [f(x), f(2 * x)])


def test_a_complex_tensor_as_a_subclass_is_refused_by_its_name():
    with pytest.raises(UnsupportedError, match=r"view\(Named\)"):
        da.jvp(lambda x: x.view(Named), (np.ones(2) * 1j,), (np.ones(2) * 1j,))


# ── Python's numbers ─────────────────────────────────────────────────────────────────────────────────────────────


def test_item_and_tolist_keep_the_derivative():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert da.grad(lambda x: x.sum().item() ** 2)(x).tolist() == [[20.0, 20.0], [20.0, 20.0]]
    assert da.grad(lambda x: x.item(-1) * x.item(1, 0) * x.item((0, 1)))(x).tolist() == [[0, 12], [8, 6]]
    assert da.grad(lambda x: x.tolist()[1][0] ** 3)(x).tolist() == [[0, 0], [27, 0]]
    assert da.jit(lambda x: x.sum().item() + x.tolist()[0][1])(x) == 12.0
    single = x.astype(np.float32)
    assert da.jvp(lambda x: x.item(0), (single,), (single,))[1].dtype == np.float64 == np.asarray(single.item(0)).dtype
    for f in (lambda x: x.item(), lambda x: x.item(0, 0, 0), lambda x: x.item(4)):
        with pytest.raises((ValueError, IndexError)) as plain:
            f(x)
        with pytest.raises(type(plain.value)):
            da.grad(f)(x)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.int64, np.uint64])
def test_item_and_tolist_of_whole_numbers_are_refused_in_programs(dtype):
    """Python's integers have no end, and no dtype of NumPy's computes as they do: uint8 would wrap at 256."""
    x = np.array([1, 0, 1], dtype)
    for f in (lambda x: np.roll(x.tolist(), 1), lambda x: x.item(0) + np.int8(1)):
        with pytest.raises(ConversionError, match=r"item|tolist"):
            da.jit(f)(x)


def test_a_number_that_was_broadcast_has_one_entry_in_memory():
    """``ravel`` of it is a copy, in programs too: what is written there is not seen."""

    def f(y):
        pair = np.broadcast_to(y, (2,))
        pair.ravel()[...] = 5.0
        return np.sum(pair * y)

    for slope in (da.grad(f), da.grad(da.jit(f)), da.jit(da.grad(f)), lambda y: da.vmap(da.grad(f))(np.array([y]))[0]):
        assert slope(0.5) == 2.0
