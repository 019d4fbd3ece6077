"""Words over jvp (J), vjp (V), vmap (M) and trace (T), and the one number that every spelling of a derivative is.

A word is read from the function outwards: ``"JMV"`` is V(M(J(f))). Each J has a fixed tangent t, each V a fixed
cotangent c, and the result is paired with a last vector d. Because ⟨d, D g[t]⟩ = D⟨d, g⟩[t] and ⟨d, (D g)ᵀ c⟩ =
D⟨c, g⟩[d], every word reduces to

    Σ over lanes of ⟨c, Dᵏ f(x)[v₁, …, v_k]⟩

whose vectors are found by walking the word from outside in. That number is computed with JAX's nested jvp alone. A
trace changes nothing: words that differ in T alone share their vectors and their number, which is computed once.
Not for: the functions (`zoo.py`) or the tests.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

import dualad as da
from tests.oracles.arrays import generator, pairing, random_like
from tests.oracles.jax_side import jax, jnp

__all__ = ["LANES", "WORDS", "expected", "found"]

LANES = 2
WORDS = {n: ["".join(w) for w in itertools.product("JVMT", repeat=n)] for n in (1, 2, 3)}


def tree_map(f, *trees):
    """Apply f to corresponding leaves of nested tuples, lists and dicts."""
    first = trees[0]
    if isinstance(first, (tuple, list)):
        return type(first)(tree_map(f, *items) for items in zip(*trees, strict=True))
    if isinstance(first, dict):
        return {k: tree_map(f, *(t[k] for t in trees)) for k in first}
    return f(*trees)


def _batch(depth: int, tree):
    """Give every leaf `depth` leading axes."""
    return tree_map(lambda x: np.broadcast_to(x, (LANES,) * depth + np.shape(x)), tree)


class Instance:
    """An animal with its arguments in every lane, and the vectors of one word."""

    def __init__(self, name: str, animal, word: str) -> None:
        self.animal, self.word = animal, word
        rng = generator(name, word.replace("T", ""))
        self.depth = word.count("M")
        members = [animal.make(rng) for _ in range(LANES**self.depth)]
        stacked = tree_map(lambda *xs: np.stack([np.asarray(x) for x in xs]), *members)
        shape = (LANES,) * self.depth
        self.args = tree_map(lambda x: x.reshape(shape + x.shape[1:])[()], stacked)
        self.inputs = members[0]
        self.outputs = animal.function(np, *members[0])
        # One vector per J and V, in the space its transform works in, which has the batch axes of the M inside it.
        self.vectors: list = []
        space, depth = "outputs", 0
        for letter in word:
            vector = None
            if letter == "M":
                depth += 1
            elif letter == "J":
                vector = self._random(rng, "inputs", depth)
            elif letter == "V":
                vector = self._random(rng, space, depth)
                space = "inputs"
            self.vectors.append(vector)
        self.last = self._random(rng, space, depth)

    def _random(self, rng, space: str, depth: int):
        like = _batch(depth, getattr(self, space))
        return tree_map(lambda x: random_like(rng, np.asarray(x)), like)


def found(name: str, animal, word: str) -> float:
    """Compute a word with dualad, its result paired with the last vector."""
    instance = Instance(name, animal, word)
    g = functools.partial(animal.function, np)
    for letter, vector in zip(word, instance.vectors, strict=True):
        g = _apply(letter, g, vector)
    with np.errstate(
        all="ignore"
    ):  # a traced derivative beside a pole warns when it is run: tests/transforms/test_trace.py
        return pairing(instance.last, g(*instance.args))


def _apply(letter: str, g, vector):
    if letter == "J":
        return lambda *xs: da.jvp(g, xs, vector)[1]
    if letter == "V":
        return lambda *xs: da.vjp(g, *xs)[1](vector)
    if letter == "M":
        return da.vmap(g)
    return lambda *xs: da.trace(g, *xs)(*xs)


def expected(name: str, animal, word: str) -> float:
    """Compute the same number with JAX: nested jvp, one lane at a time."""
    return _expected(name, animal, word.replace("T", ""))


@functools.cache
def _expected(name: str, animal, word: str) -> float:
    instance = Instance(name, animal, word)
    pair, directions = instance.last, []
    for letter, vector in reversed(list(zip(word, instance.vectors, strict=True))):
        if letter == "J":
            directions.append(vector)
        elif letter == "V":
            directions.append(pair)
            pair = vector
    lanes = [_batch_like(x, like, instance.depth) for x, like in
             [(pair, instance.outputs), *[(v, instance.inputs) for v in directions]]]  # fmt: skip
    total = 0.0
    derivative = _derivative(name, animal.branches, len(directions))
    for index in np.ndindex((LANES,) * instance.depth):
        at = lambda tree: tree_map(lambda x: x[index], tree)
        total += float(derivative(at(instance.args), at(lanes[0]), [at(v) for v in lanes[1:]]))
    return total


def _batch_like(tree, like, depth: int):
    return tree_map(lambda x, y: np.broadcast_to(x, (LANES,) * depth + np.shape(y)), tree, like)


@functools.cache
def _derivative(name: str, branches: bool, order: int):
    """Make (x, c, [v₁, …]) ↦ ⟨c, Dᵏ f(x)[v₁, …]⟩ in JAX, compiled unless the function branches on values."""
    from .zoo import ZOO

    def number(x, c, directions):
        g = functools.partial(ZOO[name].function, jnp)
        for v in directions:
            g = functools.partial(lambda h, v, *xs: jax.jvp(h, xs, tuple(v))[1], g, v)
        cs, ts = jax.tree.leaves(c), jax.tree.leaves(g(*x))
        return sum(jnp.sum(jnp.real(a * b)) for a, b in zip(cs, ts, strict=True))

    return number if branches else jax.jit(number)
