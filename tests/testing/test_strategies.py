"""The strategies draw what they promise, and say which extra is missing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import dualad as da
from dualad.errors import ArgumentError
from dualad.testing import strategies


@settings(max_examples=30)
@given(st.data())
def test_arrays_are_away_from_kinks(data) -> None:
    kinks = [-0.5, 0.0, 0.08, 0.25, 3.0]
    dtype = data.draw(strategies.dtypes())
    x = data.draw(strategies.arrays(strategies.shapes(1, 2), dtype, away_from=kinks, margin=0.05))
    assert x.dtype == dtype and x.ndim in (1, 2)
    assert all(np.all(np.abs(x.real - k) >= 0.0499) for k in kinks)
    assert np.all(np.abs(x.real) <= 2.0)


def test_a_range_that_is_all_kinks_is_refused() -> None:
    with pytest.raises(ArgumentError, match="away from"):
        find(strategies.arrays(low=-0.1, high=0.1, away_from=[0.0], margin=0.2), lambda x: True)


@settings(max_examples=10)
@given(st.data())
def test_tangents_and_cotangents_fit(data) -> None:
    leaf = st.one_of(strategies.arrays((2,), strategies.dtypes()), st.just(3), st.just("name"))
    args = (data.draw(strategies.trees(leaf)), np.ones(2))

    def f(tree, x):
        return {"x": 2 * x, "n": 1, "tree": [y * 2 for y in [x]]}

    _, t = da.jvp(f, args, data.draw(strategies.tangents(args)))
    _, pull = da.vjp(f, *args)
    assert pull(data.draw(strategies.cotangents(f, *args)))[1].shape == t["x"].shape


@settings(max_examples=10)
@given(strategies.functions(), strategies.arrays(strategies.shapes(1, 2, min_side=1)))
def test_functions_keep_shapes(f, x) -> None:
    assert f(x).shape == x.shape and np.isfinite(f(x)).all() and f.__name__


def test_the_extra_is_named() -> None:
    code = "import sys; sys.modules['hypothesis'] = None\nimport dualad.testing\nimport dualad.testing.strategies"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install 'dualad[testing]'" in done.stderr and "[DAD020]" in done.stderr
