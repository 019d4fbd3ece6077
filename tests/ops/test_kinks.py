"""kinks: the three conventions at every corner, under every mode."""

import threading

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, KinkError

CORNERS = {
    "abs": (abs, 0.0, 0.0),
    "fabs through absolute": (lambda x: np.absolute(x), 0.0, 0.0),
    "absolute, complex": (lambda x: np.abs(x + 0j), 0.0, 0.0),
    "maximum": (lambda x: np.maximum(x, 2 * x), 0.0, 1.5),
    "minimum": (lambda x: np.minimum(x, 3.0), 3.0, 0.5),
    "clip": (lambda x: np.clip(x, -1.0, 1.0), 1.0, 1.0),
    "max": (lambda x: np.max(np.stack([x, 2 * x, -1 + x])), 0.0, 1.5),
    "min": (lambda x: np.min(np.stack([x, 3 * x])), 0.0, 2.0),
    "norm": (lambda x: np.linalg.norm(np.stack([x, x])), 0.0, 0.0),
    "hypot": (lambda x: np.hypot(x, x), 0.0, 0.0),
    "arctan2": (lambda x: np.arctan2(x, x), 0.0, 0.0),
}


@pytest.mark.parametrize("name", CORNERS)
def test_conventions(name):
    f, x, subgradient = CORNERS[name]
    forward = lambda: da.jvp(f, (x,), (1.0,))[1]
    for derivative in (forward, lambda: da.grad(f)(x), lambda: da.vmap(da.grad(f))(np.array([x, x + 0.3]))[0]):
        assert derivative() == pytest.approx(subgradient)
        with da.kinks("nan"):
            assert np.isnan(derivative())
        with da.kinks("raise"), pytest.raises(KinkError):
            derivative()
        with da.kinks("nan"), da.kinks("subgradient"):
            assert derivative() == pytest.approx(subgradient)


@pytest.mark.parametrize("name", CORNERS)
@pytest.mark.parametrize("convention", ["nan", "raise"])
def test_nothing_changes_away_from_a_corner(name, convention):
    f, x, _ = CORNERS[name]
    expected = da.grad(f)(x + 0.37)
    with da.kinks(convention):
        assert da.grad(f)(x + 0.37) == expected
        np.testing.assert_allclose(da.hessian(f)(x + 0.37), da.jacrev(da.grad(f))(x + 0.37), atol=1e-12)


def test_a_convention_belongs_to_its_thread_and_ends_with_its_block():
    seen = []
    with da.kinks("nan"):
        thread = threading.Thread(target=lambda: seen.append(da.grad(abs)(0.0)))
        thread.start()
        thread.join()
    assert seen == [0.0]
    with pytest.raises(RuntimeError), da.kinks("nan"):
        raise RuntimeError
    assert da.grad(abs)(0.0) == 0.0


def test_an_unknown_convention_is_refused():
    with pytest.raises(ArgumentError, match="subgradient"), da.kinks("left"):
        pass
