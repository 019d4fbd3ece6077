"""The interval example: bounds that hold, roots that are all there, and transforms above and below the level.

Not for: the level protocol in general (`tests/test_third_party_level.py`).
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

import dualad as da
from dualad.core.level import Level
from dualad.errors import EscapedTensorError

_spec = importlib.util.spec_from_file_location(
    "example_interval_arithmetic", Path(__file__).parents[2] / "examples" / "interval_arithmetic.py"
)
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)

FUNCTIONS = [
    example.f,
    lambda x: x * x - 2.0 * x,
    lambda x: np.exp(-x * x) * np.cos(5 * x),
    lambda x: (x - 3.0) / (2.0 + np.sin(x)),
]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("transformed", ["f", "jvp", "grad", "second"])
def test_bounds_hold_for_values_and_derivatives(f, transformed) -> None:
    """Every value of f, f′ and f″ inside a box is inside the bounds, which are not much wider for a narrow box."""
    g = {
        "f": f,
        "jvp": lambda x: da.jvp(f, (x,), (1.0,))[1],
        "grad": da.grad(f),
        "second": lambda x: da.jvp(da.grad(f), (x,), (1.0,))[1],
    }[transformed]
    rng = np.random.default_rng(3)
    for width in (2.0, 0.1, 1e-4):
        for low in rng.uniform(-2, 5, 10):
            with Level("intervals") as level:
                bounds = g(example.Interval(low, low + width, level))
                below, above = bounds._value if isinstance(bounds, example.Interval) else (bounds, bounds)
            values = np.array([g(x) for x in np.linspace(low, low + width, 50)])
            assert below <= values.min() and values.max() <= above
            assert width > 1e-3 or above - below < 0.2


def test_the_roots_are_those_that_a_search_finds(capsys) -> None:
    roots = example.main()
    assert "exactly 5 roots" in capsys.readouterr().out
    grid = np.linspace(-1.0, 6.0, 100_001) + 1e-9
    values = example.f(grid)
    signs = np.flatnonzero(values[:-1] * values[1:] < 0)
    found = [brentq(example.f, grid[i], grid[i + 1], xtol=1e-15) for i in signs]
    assert len(roots) == len(found)
    for (low, high), x in zip(roots, found, strict=True):
        assert low - 1e-13 <= x <= high + 1e-13 and high - low < 1e-12


def test_what_is_not_bounded_is_refused_and_nothing_escapes() -> None:
    with Level("intervals") as level:
        x = example.Interval(0.0, 1.0, level)
        with pytest.raises(NotImplementedError, match="`tan`"):
            np.tan(x)
    with pytest.raises(EscapedTensorError, match="intervals"):
        x + 1.0
