"""Who asks for a plain number: questions by name are answered lane by lane, writes into plain memory are refused.

Not for: the words of the refusals (tests/surface/test_leaks.py).
"""

from __future__ import annotations

import array
import cmath
import math
import operator
import types
from math import sin

import numpy as np
import pytest

import dualad as da
from dualad.base import asking
from dualad.errors import ConversionError, PlainBufferError

XS = np.array([0.5, 2.5])


class Real(float):
    """A class of numbers."""


tools = types.ModuleType("tools")
tools.math, tools.sine = math, math.sin
several = [math.sin, float]
OFFSET = 1.0

# fmt: off
QUESTIONS = {
    "float": lambda x: float(x),
    "int": lambda x: int(x),
    "complex": lambda x: complex(x),
    "a class of floats": lambda x: Real(x),
    "math": lambda x: math.sin(x),
    "cmath": lambda x: cmath.exp(x),
    "a name of math's": lambda x: sin(x),
    "a module in a module": lambda x: tools.math.sin(x),
    "of a module that has it": lambda x: tools.sine(x),
    "inside another": lambda x: math.exp(math.sin(x) + float(x)),
    "in an expression": lambda x: OFFSET + 2.0 * math.cos(x) * OFFSET,
    "with another argument": lambda x: math.hypot(x, OFFSET) - math.pow(OFFSET, x),
    "over lines": lambda x: math.hypot(
        x,
        OFFSET,
    ),
    "by a local name": lambda x: (lambda ask: ask(x))(math.sin),
    "text": lambda x: len("%g is long" % x),  # noqa: UP031
}

MEMORY = {
    "an entry of an array": lambda x: operator.setitem(np.zeros(2), 0, x),
    "all entries": lambda x: np.zeros(2).fill(x),
    "NumPy's scalar": lambda x: np.float32(x),
    "Python's array": lambda x: array.array("d", [x]),
    "a function in a list": lambda x: several[0](x),
    "what a function returns": lambda x: operator.itemgetter(0)(several)(x),
    "another operator": lambda x: [1, 2][x],
}
# fmt: on


@pytest.mark.filterwarnings("ignore:vmap")
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_are_answered_by_groups_of_lanes(name: str) -> None:
    asking._known.clear()
    f = QUESTIONS[name]
    for _ in range(2):  # found out, and known
        np.testing.assert_array_equal(da.vmap(lambda x: np.zeros_like(x) + f(x))(XS), [0.0 * x + f(x) for x in XS])


@pytest.mark.plain
@pytest.mark.parametrize("name", MEMORY)
def test_memory_of_others_is_not_filled(name: str) -> None:
    asking._known.clear()
    for _ in range(2):
        with pytest.raises((ConversionError, PlainBufferError)):
            da.vmap(lambda x: (MEMORY[name](x), x)[1])(XS)


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_text_is_made_of_a_dual_and_nothing_else_is() -> None:
    def f(x):
        assert "%g" % x == "2"  # noqa: UP031
        text = "%.2f"
        text %= x
        assert text == "2.00"
        for ask in (lambda: float(x), lambda: 5 % float(x), lambda: math.fmod(5, x)):
            with pytest.raises(ConversionError):
                ask()
        return x

    da.jvp(f, (2.0,), (1.0,))


def test_what_was_found_out_is_forgotten_in_time() -> None:
    asking._known.clear()
    asking._known.update({(None, i): None for i in range(1001)})
    da.jvp(lambda x: ("%g" % x, x)[1], (2.0,), (1.0,))  # noqa: UP031
    assert len(asking._known) == 1
    asking._known.update({(None, i): None for i in range(900)})
    da.jvp(lambda x: ("%g" % x, x)[1], (2.0,), (1.0,))  # noqa: UP031
    assert len(asking._known) > 900
