"""What no guard can watch is named with its line, when a function is compiled."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import pathlib
import re
import time
import weakref
from time import monotonic

import numpy as np
import pytest

import dualad as da
from dualad.compile.tracing import EffectWarning
from dualad.errors import NotRepeatableError

X = np.array([1.0, 2.0, 3.0])
PATH = pathlib.Path(__file__)
HELD: list = []


@pytest.mark.parametrize(
    ("what", "f"),
    [
        ("time.time", lambda x: x * (time.time() > 1.0)),
        ("monotonic", lambda x: x * (monotonic() > -1.0)),
        ("open", lambda x: x * (0 * open(HELD[0]).close() if HELD else 1.0)),
        ("np.load", lambda x: x * (np.load(HELD[0]) if HELD else 1.0)),
        ("os.path.exists", lambda x: x * os.path.exists(__file__)),
        ("PATH.read_text", lambda x: x * len(PATH.read_text())),
        ("dt.datetime.now", lambda x: x * (dt.datetime.now().year > 2000)),
    ],
)
def test_what_is_asked_of_files_and_clocks(what: str, f) -> None:
    line = re.escape(f"asks for `{what}` at {__file__}:{f.__code__.co_firstlineno}")
    with pytest.warns(EffectWarning, match=line):
        np.testing.assert_array_equal(da.jit(f)(X), f(X))


def test_iterators_and_generators() -> None:
    ones = iter([1.0] * 99)
    with pytest.warns(EffectWarning, match="changes a list_iterator"):
        da.jit(lambda x: x * next(ones))(X)
    growing = (1.0 + i // 1000 for i in itertools.count())
    with pytest.warns(EffectWarning, match="changes a generator"):
        da.jit(lambda x: x * next(growing))(X)
    turns = itertools.cycle([1.0, 2.0])
    with pytest.raises(NotRepeatableError):
        da.jit(lambda x: x * next(turns))(X)


def test_random_numbers_that_happen_to_be_the_same() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(NotRepeatableError, match="random number generator"):
        da.jit(lambda x: x * (rng.random() < 2.0))(X)


def test_an_open_file() -> None:
    with PATH.open() as file, pytest.warns(EffectWarning, match="an open file"):
        da.jit(lambda x: x * (1.0 if file.closed else 2.0))(X)


def test_what_answers_no_question() -> None:
    class Mute:
        def __getattribute__(self, name):
            raise RuntimeError(name)

    def dead():
        return weakref.proxy(type("Gone", (), {})())

    for thing in (Mute(), dead()):
        held = [thing]
        with pytest.warns(EffectWarning, match=type(thing).__name__):
            np.testing.assert_array_equal(da.jit(lambda x, held=held: x * len(held))(X), X)


def test_a_masked_array_that_python_reads() -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    fast = da.jit(lambda x: x * float(masked.data[0]) * (1.0 if masked.mask[1] else 3.0))
    np.testing.assert_array_equal(fast(X), X)
    masked.data[0] = 4.0
    np.testing.assert_array_equal(fast(X), 4 * X)
    masked.mask = [False, False]
    np.testing.assert_array_equal(fast(X), 12 * X)
