"""Custom rules, checkpoints, control flow, solvers, hooks and collectives under every word of length ≤ 3.

Each function with a construct must give the number of the plain one (`constructs.py`), itself compared with JAX in
`test_closure.py`. Not for: errors of the constructs, or how often they call what (their own test files).
"""

from __future__ import annotations

import functools

import pytest

from dualad.errors import RuleMissingError

from .constructs import CONSTRUCTS
from .words import WORDS, found


@functools.cache
def plain_number(name: str, word: str) -> float:
    return found(name, CONSTRUCTS[name].plain, word)


def words_of(name: str) -> list[str]:
    """Every word, save those that reverse a loop of unknown length inside a program (refused, below)."""
    words = [word for length in WORDS for word in WORDS[length]]
    return [w for w in words if not (CONSTRUCTS[name].unbounded and _reverses_in_a_program(w))]


def _reverses_in_a_program(word: str) -> bool:
    return "V" in word and "T" in word[word.index("V") :]


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_every_word_is_the_plain_function_s(name: str) -> None:
    failures = []
    for word in words_of(name):
        want = plain_number(name, word.replace("T", ""))
        try:
            got = found(name, CONSTRUCTS[name].function, word)
            if not abs(got - want) <= 1e-8 * (1 + abs(want)):
                failures.append(f"{word} of {name}: {got!r}, plain {want!r}")
        except Exception as error:
            failures.append(f"{word} of {name}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} words:\n" + "\n".join(failures[:6])


@pytest.mark.parametrize("word", ["VT", "VTJ", "JVT", "VMT", "TVT"])
def test_a_loop_of_unknown_length_is_not_reversed_in_a_program(word: str) -> None:
    with pytest.raises(RuleMissingError, match="fori_loop"):
        found("with_while_loop", CONSTRUCTS["with_while_loop"].function, word)


def test_numbers_tell_functions_apart() -> None:
    """The comparison notices a construct that changes something: these words are of different functions."""
    names = [n for n in CONSTRUCTS if n in ("with_custom_jvp", "with_fori_loop", "with_scan")]
    for name in names:
        numbers = [plain_number(name, w) for w in ("J", "JV", "JVM")]
        assert len(set(numbers)) == 3 and all(abs(n) > 1e-6 for n in numbers), numbers
