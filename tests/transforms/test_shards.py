"""Map and reduce: value and gradient over shards are those of the whole, and to the bit those of the serial run."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, ArgumentTypeError, ShapeError
from dualad.transforms.shards import tree_sum

pytest.importorskip("cloudpickle", reason="sends local functions: pip install dualad[scale]")

from tests.scale.doubles import Inline, Shuffled
from tests.scale.test_driver import bits

RNG = np.random.default_rng(3)
DATA, Y = RNG.normal(size=(23, 4)), RNG.normal(size=23)
PARAMS = {"w": RNG.normal(size=4), "b": 0.5, "name": "model"}


def total(p, X, y, penalty=0.0):
    return np.sum((np.tanh(X @ p["w"]) + p["b"] - y) ** 2) + penalty * 0.0


def average(p, X, y, penalty=0.0):
    return total(p, X, y, penalty) / len(y)


AXES = (None, 0, 0)


@pytest.mark.parametrize("argnums", [0, 1, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize(("loss", "reduce"), [(total, "sum"), (average, "mean")])
@pytest.mark.parametrize("chunk_size", [1, 5, 23, 100])
def test_shards_add_up_to_the_whole(loss, reduce, argnums, chunk_size) -> None:
    whole = da.value_and_grad(loss, argnums)(PARAMS, DATA, Y, penalty=1.0)
    options = {"in_axes": AXES, "reduce": reduce, "chunk_size": chunk_size}
    serial = da.value_and_grad(loss, argnums, **options)(PARAMS, DATA, Y, penalty=1.0)
    for x, y in zip(da.tree.flatten(whole)[0], da.tree.flatten(serial)[0], strict=True):
        assert x == y if isinstance(x, str) else np.allclose(x, y, rtol=1e-12, atol=1e-14)
    numbers = lambda result: [b for b in bits(result) if b[0].kind != "U"]
    out = da.value_and_grad(loss, argnums, executor=Inline(), **options)(PARAMS, DATA, Y, penalty=1.0)
    assert numbers(out) == numbers(serial)


def test_the_order_of_completion_changes_nothing() -> None:
    options = {"in_axes": AXES, "chunk_size": 2}
    serial = da.value_and_grad(total, **options)(PARAMS, DATA, Y)
    for seed in range(3):
        with Shuffled(seed) as pool:
            out = da.value_and_grad(total, executor=pool, **options)(PARAMS, DATA, Y)
        assert out[0] == serial[0] and np.array_equal(out[1]["w"], serial[1]["w"])


def test_without_a_reduction_there_is_one_of_each_for_every_shard() -> None:
    value, (by_params, by_data) = da.value_and_grad(
        total, (0, 1), in_axes=AXES, reduce=None, chunk_size=10, executor=Inline()
    )(PARAMS, DATA, Y)
    assert value.shape == (3,) and by_params["w"].shape == (3, 4) and by_data.shape == DATA.shape
    first = da.value_and_grad(total)(PARAMS, DATA[:10], Y[:10])
    assert value[0] == first[0] and np.array_equal(by_params["w"][0], first[1]["w"])


def test_auxiliary_output_is_a_list() -> None:
    both = da.value_and_grad(
        lambda w, x: (np.sum(x * w), {"n": len(x)}), in_axes=(None, 0), chunk_size=2, has_aux=True, executor=Inline()
    )
    (value, aux), gradient = both(2.0, np.arange(5.0))
    assert (value, gradient, aux) == (20.0, 10.0, [{"n": 2}, {"n": 2}, {"n": 1}])


def test_dtypes_stay_and_integers_have_no_tangent() -> None:
    both = da.value_and_grad(
        lambda w, n, x: np.sum(x) * w * n, (0, 1), in_axes=(None, None, 1), reduce="mean", chunk_size=2, allow_int=True
    )
    value, (by_w, by_n) = both(np.float32(2.0), 3, np.ones((2, 3), np.float32))
    assert value.dtype == by_w.dtype == np.float32 and by_n.dtype == da.float0


def test_second_order_goes_around_shards() -> None:
    both = da.value_and_grad(lambda w, x: np.sum(np.sin(w * x)), in_axes=(None, 0), chunk_size=3)
    x = np.arange(7.0)
    second = da.grad(lambda w: both(w, x)[1])(0.3)
    assert np.isclose(second, -np.sum(x**2 * np.sin(0.3 * x)))


@pytest.mark.parametrize(
    ("count", "tree"),
    [(1, "0"), (2, "(0+1)"), (3, "((0+1)+2)"), (5, "(((0+1)+(2+3))+4)"), (6, "(((0+1)+(2+3))+(4+5))"),
     (7, "(((0+1)+(2+3))+((4+5)+6))")],
)  # fmt: skip
def test_a_sum_is_one_tree_over_neighbours(count, tree) -> None:
    assert tree_sum([Term(str(i)) for i in range(count)]).text == tree


class Term:
    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: Term) -> Term:
        return Term(f"({self.text}+{other.text})")


@pytest.mark.parametrize(
    ("options", "args", "error", "words"),
    [
        ({"reduce": "max"}, (), ArgumentError, "'sum', 'mean' or None"),
        ({"executor": Inline()}, (), ArgumentError, "without in_axes"),
        ({"chunk_size": 3}, (), ArgumentError, "without in_axes"),
        ({"in_axes": (None, 0)}, (PARAMS, DATA, Y), ArgumentError, "2 entries"),
        ({"in_axes": (None, None, None)}, (PARAMS, DATA, Y), ArgumentError, "cuts no argument"),
        ({"in_axes": (None, 0, 1)}, (PARAMS, DATA, Y), ArgumentError, "no such axis"),
        ({"in_axes": (None, 0, "x")}, (PARAMS, DATA, Y), ArgumentTypeError, "an axis is an integer"),
        ({"in_axes": (None, 1, 0)}, (PARAMS, DATA, Y), ShapeError, "different lengths"),
        ({"in_axes": AXES, "chunk_size": 0}, (), ArgumentError, "chunk_size=0"),
    ],
)
def test_what_does_not_fit_is_refused(options, args, error, words) -> None:
    with pytest.raises(error, match=words):
        da.value_and_grad(total, **options)(*args)


def test_shards_of_different_widths_are_refused_with_both_shapes() -> None:
    both = da.value_and_grad(lambda w, x: np.sum(w) * np.sum(x), 1, in_axes=(None, 0), chunk_size=2)
    assert both(np.ones(2), np.ones((4, 3)))[1].shape == (4, 3)
    from dualad.transforms.shards import _reduced, _Shard

    shards = [_Shard(1, 0.0, [np.zeros(n)], da.tree.flatten(0.0)[1]) for n in (3, 4)]
    with pytest.raises(ShapeError, match=r"\(3,\) and \(4,\)"):
        _reduced(shards, "sum", 2, [-1], False)


def test_nothing_to_cut_is_one_empty_shard() -> None:
    value, gradient = da.value_and_grad(total, in_axes=AXES, executor=Inline())(PARAMS, DATA[:0], Y[:0])
    assert value == 0.0 and np.array_equal(gradient["w"], np.zeros(4))
