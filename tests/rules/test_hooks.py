"""What hooks take and leave alone.

Not for: what they see in every transform (tests/capabilities/test_hooks_and_modes.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentTypeError, DualadError, OutputError

X = np.array([0.3, -1.2, 0.8])


def test_only_what_has_a_derivative_is_hooked() -> None:
    seen = []
    tree = {"n": 3, "f": 2.0, "s": "text", "i": np.array([1, 2])}
    out = da.grad_hook(tree, seen.append)
    assert all(out[k] is tree[k] for k in tree)

    def f(x, n):
        given = da.grad_hook({**tree, "x": x, "traced": n}, seen.append)
        assert given["traced"] is n
        assert given["f"] == 2.0
        return np.sum(given["x"] * given["f"] * given["traced"])

    np.testing.assert_array_equal(da.vmap(da.grad(f), (None, 0))(X, np.array([1, 2])), [[2.0] * 3, [4.0] * 3])
    assert len(seen) == 1
    assert seen[0].shape == (3,)


def test_a_hook_is_linear_in_what_it_lets_pass() -> None:
    seen = []
    f = lambda x: 2.0 * da.grad_hook(x, seen.append)
    np.testing.assert_array_equal(*da.linear_transpose(f, X)(X), 2.0 * X)
    np.testing.assert_array_equal(seen, [2.0 * X])
    np.testing.assert_array_equal(da.linearize(f, X)[1](X), 2.0 * X)


@pytest.mark.parametrize(("pack", "unpack", "name"), [(None, abs, "pack"), (abs, 3, "unpack")])
def test_packing_is_done_by_functions(pack, unpack, name: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"residual_hooks: {name} is"):
        da.residual_hooks(pack, unpack)


def test_what_takes_the_place_of_a_cotangent_is_like_it() -> None:
    single = np.float32(3.0)
    f = lambda hook: da.grad(lambda x: x * da.grad_hook(x, hook))(single)
    assert f(lambda ct: 2.0) == 5.0  # a Python number takes any dtype
    assert f(lambda ct: 2.0).dtype == np.float32
    for wrong in (lambda ct: np.float64(2.0), lambda ct: np.ones(2, np.float32), lambda ct: "text"):
        with pytest.raises(OutputError, match="takes the cotangent's place"):
            f(wrong)


def test_residuals_that_nothing_needs_stay_packed():
    opened = []

    def f(x):
        np.sin(x) * np.exp(x)
        return np.sum(x * x)

    with da.residual_hooks(lambda a: a, lambda a: opened.append(a) or a):
        np.testing.assert_array_equal(da.grad(f)(np.array([0.5, 1.0])), [1.0, 2.0])
    assert len(opened) == 1


@pytest.mark.parametrize("x", [3.0, np.float64(3.0), np.array(3.0), np.array([3.0]), np.float32(3.0), 3.0 + 1.0j])
@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda a: a * a, lambda a: 2 * a),
        (lambda a: a * a * a, lambda a: 3 * a * a),
        (lambda a: (a + 1.0) * a, lambda a: 2 * a + 1),
        (lambda a: np.sin(a) * a, lambda a: np.sin(a) + a * np.cos(a)),
        (lambda a: np.exp(a), lambda a: np.exp(a)),
    ],
)
def test_every_residual_is_seen_also_of_python_numbers(f, slope, x):
    one = np.ones_like(x)[()]
    plain = da.vjp(f, x)[1](one)[0]
    np.testing.assert_allclose(plain, slope(x), rtol=1e-6)
    with da.residual_hooks(lambda r: 2 * r, lambda r: r):
        doubled = da.vjp(f, x)[1](one)[0]
    with da.residual_hooks(lambda r: r.tobytes(), lambda r: None):
        _, pull = da.vjp(f, x)
    with pytest.raises(DualadError):
        pull(one)  # nothing that was packed is known otherwise
    assert np.abs(doubled) > 1.5 * np.abs(plain)
    np.testing.assert_array_equal(np.asarray(doubled).dtype, np.asarray(plain).dtype)
    with da.residual_hooks(
        lambda r: (r.dtype, r.shape, r.tobytes()), lambda p: np.frombuffer(p[2], p[0]).reshape(p[1])
    ):
        np.testing.assert_array_equal(da.vjp(f, x)[1](one)[0], plain)
