"""Pickling, attributes, hashes and containers of tensors.

Not for: what NumPy's methods compute (`tests/surface/`).
"""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple

import numpy as np
import pytest

import dualad as da

Pair = namedtuple("Pair", "a b")


@da.custom_jvp
def by_jvp(x):
    return np.sin(x)


@by_jvp.defjvp
def by_jvp_rule(primals, tangents):
    return np.sin(primals[0]), tangents[0] * 3.0


@da.custom_vjp
def by_vjp(x):
    return np.sin(x)


by_vjp.defvjp(lambda x: (np.sin(x), None), lambda residuals, ct: (ct * 5.0,))


def tensors():
    """Run a check on a tensor of every kind."""

    def on(check):
        da.jvp(lambda x: check(x) or x, (np.arange(6.0).reshape(2, 3),), (np.ones((2, 3)),))
        da.vjp(lambda x: check(x) or x, np.arange(6.0).reshape(2, 3))
        da.vmap(lambda x: check(x) or x)(np.arange(12.0).reshape(2, 2, 3))
        da.trace(lambda x: check(x) or x, np.arange(6.0).reshape(2, 3))

    return on


# ── pickling and copies ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_functions_with_rules_are_pickled_by_name(protocol: int) -> None:
    for f, slope in ((by_jvp, 3.0), (by_vjp, 5.0)):
        again = pickle.loads(pickle.dumps(f, protocol))
        assert again is f and da.grad(again)(0.2) == slope


def test_functions_without_an_importable_name_refuse_to_be_pickled() -> None:
    local = da.custom_jvp(lambda x: x)
    with pytest.raises(TypeError, match="defined inside a function"):
        pickle.dumps(local)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_results_are_plain_and_survive_pickling(protocol: int) -> None:
    """Values, gradients and Jacobians of trees are arrays in the user's own containers."""
    f = lambda p: {"out": p.a * np.sum(p.b), "n": 3}
    point = Pair(2.0, np.array([1.0, 2.0]))
    loss = lambda p: f(p)["out"]
    results = [
        da.jvp(f, (point,), (point,)), da.vjp(f, point)[0], da.grad(loss)(point), da.jacrev(loss)(point),
        da.vmap(lambda b: f(Pair(2.0, b)))(np.ones((2, 2))),
    ]  # fmt: skip
    for result in results:
        again = pickle.loads(pickle.dumps(result, protocol))
        assert type(again) is type(result)
        flat = [np.asarray(x) for x in da.tree.flatten(result)[0]]
        for x, y in zip(flat, da.tree.flatten(again)[0], strict=True):
            np.testing.assert_array_equal(x, y)
            assert x.dtype == np.asarray(y).dtype


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_a_live_tensor_refuses_to_be_pickled_and_copies_stay_in_their_level() -> None:
    def check(x):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="pickle"):
                pickle.dumps(x, protocol)
        for y in (copy.copy(x), copy.deepcopy(x), copy.deepcopy([x])[0]):
            assert type(y) is type(x) and y.level is x.level and y.shape == x.shape

    tensors()(check)
    slope = da.grad(lambda x: np.sum(copy.deepcopy({"x": x})["x"] ** 2))(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(slope, [2.0, 4.0])


def test_a_copy_is_a_box_of_its_own() -> None:
    def f(x):
        y = copy.deepcopy(x)
        y[0] = 0.0
        return np.sum(x * y)

    np.testing.assert_array_equal(da.grad(f)(np.array([3.0, 4.0])), [0.0, 8.0])


# ── attributes ───────────────────────────────────────────────────────────────────────────────────────────────────

SAME = ["shape", "ndim", "size", "dtype", "itemsize", "nbytes"]
READ_ONLY = [*(a for a in SAME if a != "shape"), "T", "mT", "primal", "tangent", "aval"]


def test_attributes_of_a_tensor_are_those_of_the_array() -> None:
    x = np.arange(6.0).reshape(2, 3)

    def check(t):
        for name in SAME:
            assert getattr(t, name) == getattr(x, name), name
            assert name in dir(t)
        assert t.T.shape == t.mT.shape == (3, 2) and t.real.shape == t.imag.shape == (2, 3)
        assert t.real.dtype == t.imag.dtype == float
        for name in ("T", "mT", "real", "imag", "sum", "reshape", "astype"):
            assert name in dir(t)
        for name in ("ctypes", "data", "strides", "no_such_thing"):
            with pytest.raises(AttributeError, match=name):
                getattr(t, name)

    tensors()(check)
    value, tangent = da.jvp(lambda z: z.imag + z.real * 2, (np.array([1 + 2j]),), (np.array([3 + 4j]),))
    assert value.tolist() == [4.0] and tangent.tolist() == [10.0]


@pytest.mark.parametrize("name", READ_ONLY)
def test_core_attributes_are_neither_assigned_nor_deleted(name: str) -> None:
    def check(t):
        if not hasattr(type(t), name):
            return
        with pytest.raises(AttributeError):
            setattr(t, name, 1)
        with pytest.raises(AttributeError):
            delattr(t, name)

    tensors()(check)


def test_shape_is_not_deleted_nor_are_others_made() -> None:
    def check(t):
        with pytest.raises(AttributeError):
            del t.shape
        with pytest.raises(AttributeError):
            t.note = "mine"

    tensors()(check)


def test_len_iteration_and_in_follow_the_primal() -> None:
    x = np.arange(6.0).reshape(2, 3)

    def f(t):
        assert len(t) == 2 and [len(row) for row in t] == [3, 3]
        assert 3.0 in t and 7.0 not in t
        with pytest.raises(TypeError, match="unsized"):
            len(t[0, 0])
        return sum(row[0] * k for k, row in enumerate(t, 1))

    value, tangent = da.jvp(f, (x,), (np.ones((2, 3)),))
    assert (value, tangent) == (6.0, 3.0)


# ── hashes and containers ────────────────────────────────────────────────────────────────────────────────────────


def test_tensors_have_no_hash_and_are_equal_entry_by_entry() -> None:
    def check(t):
        with pytest.raises(TypeError, match="unhashable"):
            hash(t)
        with pytest.raises(TypeError, match="unhashable"):
            dict.fromkeys([t])
        assert (t == t).shape == (2, 3) and (t != t + 1).shape == (2, 3)

    tensors()(check)
    np.testing.assert_array_equal(
        da.jvp(lambda x: x == 2.0, (np.array([1.0, 2.0]),), (np.ones(2),))[0], [False, True]
    )  # fmt: skip


def test_containers_find_tensors_by_identity() -> None:
    """A list finds the very tensor by identity; equal numbers of another tensor are compared as numbers."""

    def f(x):
        rows = [x[0], x[1]]
        assert rows.index(rows[1]) == 1 and rows[0] in rows
        return rows[0] * 2 + rows[1]

    np.testing.assert_array_equal(da.grad(f)(np.array([1.0, 5.0])), [2.0, 1.0])
