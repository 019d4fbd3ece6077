"""A zoo of functions closed under jvp, vjp, vmap and trace at depth three, all spellings agreeing with JAX.

Not for: single operators (`tests/ops/test_every_op.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import BranchError
from tests import gaps

from .words import WORDS, Instance, expected, found
from .zoo import ZOO


def cases() -> list:
    return [
        pytest.param(name, length, id=f"{name}-{length}", marks=gaps.marks(gaps.COMPOSITION_GAPS, (name, length)))
        for name in ZOO
        for length in WORDS
    ]


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")  # lanes that disagree are split
@pytest.mark.parametrize(("name", "length"), cases())
def test_every_word_is_jax_s_number(name: str, length: int) -> None:
    animal = ZOO[name]
    failures = []
    for word in WORDS[length]:
        if animal.branches and "T" in word:
            continue  # a program has no value to branch on: refused, below
        try:
            ours, theirs = found(name, animal, word), expected(name, animal, word)
            if not abs(ours - theirs) <= 1e-8 * (1 + abs(theirs)):
                failures.append(f"{word} of {name}: {ours!r}, JAX {theirs!r}")
        except Exception as error:
            failures.append(f"{word} of {name}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} words:\n" + "\n".join(failures[:6])


@pytest.mark.parametrize("name", [n for n, a in ZOO.items() if a.branches])
@pytest.mark.parametrize("word", ["T", "VT", "TJ", "MT", "TM", "JTV"])
def test_a_branch_on_values_is_refused_not_guessed(name: str, word: str) -> None:
    """Under trace there is no value to branch on."""
    with pytest.raises(BranchError, match=r"np\.where"):
        found(name, ZOO[name], word)


def test_the_reference_is_sensitive() -> None:
    """A wrong tangent, cotangent or lane changes the number that words are compared by."""
    animal = ZOO["products"]
    base = expected("products", animal, "JMV")
    instance = Instance("products", animal, "JMV")
    assert len(instance.vectors) == 3 and instance.depth == 1
    assert abs(base) > 1e-3
    assert abs(base - expected("products", animal, "MJV")) > 1e-3
    assert abs(found("products", animal, "JMV") - base) < 1e-9
    assert not np.isnan(base)


def test_zoo_is_plain_numpy() -> None:
    """Called with plain arrays, no function of the zoo returns anything of dualad's."""
    rng = np.random.default_rng(0)
    for animal in ZOO.values():
        for leaf in da.tree.flatten(animal.function(np, *animal.make(rng)))[0]:
            assert isinstance(leaf, (np.ndarray, np.generic, float))
