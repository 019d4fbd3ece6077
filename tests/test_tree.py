"""`da.tree` against JAX's on random trees, and where trees don't fit."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentTypeError, TreeError


class Pair(NamedTuple):
    first: object
    second: object


@da.register_node
@jax.tree_util.register_pytree_node_class
class Weighted:  # noqa: PLW1641
    """A class with JAX's methods."""

    def __init__(self, value, weight):
        self.value, self.weight = value, weight

    def tree_flatten(self):
        return (self.value,), self.weight

    @classmethod
    def tree_unflatten(cls, weight, children):
        return cls(*children, weight)

    def __eq__(self, other):
        return type(other) is Weighted and (self.value, self.weight) == (other.value, other.weight)


def random_tree(rng, depth=3):
    kind = rng.integers(9 if depth else 3)
    inside = lambda: random_tree(rng, depth - 1)
    if kind < 2:
        return float(rng.integers(10))
    if kind == 2:
        return None if rng.integers(2) else True
    n = int(rng.integers(4))
    if kind in (3, 4):
        return [inside() for _ in range(n)]
    if kind == 5:
        return tuple([inside() for _ in range(n)])
    if kind == 6:
        return {str(k): inside() for k in rng.permutation(n)}
    return Pair(inside(), inside()) if kind == 7 else Weighted(inside(), n)


def like(rng, tree):
    """Return the tree with something else, maybe a tree, for every leaf."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [random_tree(rng, 1) for _ in leaves])


IS_LEAF = [None, lambda x: isinstance(x, tuple), lambda x: isinstance(x, (Weighted, dict)), lambda x: x is None]


def check(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    other, is_leaf = like(rng, tree), IS_LEAF[rng.integers(4)]
    both = lambda call: [call(library) for library in (da.tree, jax.tree)]
    for call in (
        lambda t: t.leaves(tree, is_leaf),
        lambda t: t.map(lambda x: [x], tree, is_leaf=is_leaf),
        lambda t: t.map(lambda x, y: (x, y), tree, other),
        lambda t: t.map(lambda x, y, z: (x, y, z), tree, other, tree),
        lambda t: t.reduce(lambda a, b: (a, b), tree, "start", is_leaf),
        lambda t: t.all(tree, is_leaf=is_leaf),
        lambda t: t.unflatten(t.structure(tree), t.leaves(tree)),
        lambda t: t.unflatten(t.flatten(tree, is_leaf)[1], t.flatten(tree, is_leaf)[0]),
        lambda t: t.structure(tree) == t.structure(other),
        lambda t: t.structure(tree).num_leaves,
    ):
        ours, expected = both(call)
        assert ours == expected and repr(type(ours)) == repr(type(expected))
    leaves = da.tree.leaves(tree)
    if leaves:
        inner = random_tree(rng, 2)
        nested = jax.tree.map(lambda x: jax.tree.map(lambda y: f"{x} {y}", inner), tree)
        if jax.tree.leaves(inner):
            for given in (True, False):
                ours, expected = both(
                    lambda t, given=given: t.transpose(t.structure(tree), t.structure(inner) if given else None, nested)
                )
                assert ours == expected


@pytest.mark.parametrize("seed", range(100))
def test_a_random_tree(seed):
    check(seed)


@pytest.mark.full
def test_a_thousand_random_trees():
    for seed in range(100, 1600):
        check(seed)


def test_leaves_are_those_of_transforms():
    @dataclasses.dataclass
    class Point:
        x: object
        y: object

    point = Point(np.ones(2), None)
    assert da.tree.leaves(point)[0] is point.x
    assert da.tree.map(np.negative, Point(1.0, (2.0,))) == Point(-1.0, (-2.0,))
    assert da.tree.leaves([Point(1, 2), 3], is_leaf=lambda x: isinstance(x, Point)) == [Point(1, 2), 3]
    step = lambda p: da.tree.map(lambda x, g: x - 0.5 * g, p, da.grad(lambda p: p.x**2 * p.y)(p))
    assert step(Point(1.0, 3.0)) == Point(-2.0, 2.5)
    assert da.grad(lambda p: da.tree.reduce(lambda a, b: a * b, p))(Point(2.0, 3.0)) == Point(3.0, 2.0)
    norm = lambda p: sum(da.tree.leaves(da.tree.map(lambda x: np.sum(x**2), p)))
    assert da.jit(norm)({"a": np.ones(3), "b": [2.0]}) == 7.0


def test_what_does_not_fit_is_refused_in_words():
    with pytest.raises(TreeError, match=r"tree 1 of the rest"):
        da.tree.map(lambda x, y: x, [1.0, 2.0], [1.0])
    with pytest.raises(TreeError, match="tree 2"):
        da.tree.map(lambda x, y, z: x, {"a": 1.0}, {"a": 1.0}, {"b": 1.0})
    with pytest.raises(TreeError, match="3 leaves"):
        da.tree.unflatten(da.tree.structure([0, 0]), [1, 2, 3])
    with pytest.raises(TreeError, match=r"tree\.transpose"):
        da.tree.transpose(da.tree.structure([0, 0]), None, [[1], [1, 2]])
    with pytest.raises(ArgumentTypeError, match="flatten_instance"):
        da.register_node(type("Bare", (), {}))
