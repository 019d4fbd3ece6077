"""The second trace: what it takes over from the first, and what it still finds to be different.

Not for: what is said about a function that is not repeatable (test_jit.py), or effects (test_captures.py).
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest

import dualad as da
from dualad.compile import repeated, tracing
from dualad.errors import NotRepeatableError
from dualad.transforms import backward

POINT = np.array([0.3, -1.2, 2.0])


def loss(x: np.ndarray) -> np.ndarray:
    y = x
    for _ in range(5):
        y = np.tanh(y) * x + 0.1
    return np.sum(y * y)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list:
    """What the second traces find."""
    found, write_down = [], tracing.write_down

    def noted(*args: object, **kwargs: object) -> tracing.Traced:
        written = write_down(*args, **kwargs)
        if len(args) > 3 and args[3] is not None:
            found.append(written.is_same)
        return written

    monkeypatch.setattr(tracing, "write_down", noted)
    return found


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list:
    """A list with an entry for each walk back."""
    seen, walk = [], backward._walk_back
    monkeypatch.setattr(backward, "_walk_back", lambda *args: (seen.append(1), walk(*args))[1])
    return seen


TABLE = np.array([1.5, -0.5, 2.0])
#: counts where no guard can see it
HIDDEN = io.BytesIO(bytes(range(1, 201)))


def hidden() -> int:
    return HIDDEN.read(1)[0]


def with_table(x: np.ndarray) -> np.ndarray:
    return np.sum(np.sin(x * TABLE) * TABLE[::-1])


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (da.grad(loss), 1),
        (da.value_and_grad(lambda x: loss(x) + loss(2.0 * x)), 1),
        (da.grad(with_table), 1),
        (lambda x: da.grad(loss)(x) + da.grad(with_table)(da.grad(loss)(x)), 3),
        (da.vmap(da.grad(lambda a: np.sin(a) * a)), 2),  # its results are lanes: they are walked for again
    ],
)
def test_a_walk_back_is_taken_from_the_first_trace(f: Callable, count: int, traces: list, walks: list) -> None:
    expected = da.tree.flatten(f(POINT))[0]
    walks.clear()
    found = da.tree.flatten(da.jit(f)(POINT))[0]
    assert traces == [True] and len(walks) == count
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_a_python_number_promotes_as_one_behind_a_walk_that_was_taken(traces: list) -> None:
    f = lambda a, x: da.grad(lambda a: a * a * 3)(a) * x
    x = POINT.astype(np.float32)
    assert da.jit(f)(2.0, x).dtype == f(2.0, x).dtype
    assert traces == [True]


def test_under_a_watch_programs_are_compared() -> None:
    def f(x):
        hidden()
        return da.grad(loss)(x)

    before = HIDDEN.tell()
    with da.debug(), pytest.warns(tracing.EffectWarning, match="open file"):
        da.jit(f).lower(POINT)
    assert HIDDEN.tell() - before == 2


def test_an_array_is_not_copied_again(traces: list, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    monkeypatch.setattr(repeated, "snapshot", lambda a: (copied.append(a.size), a.copy())[1])
    large = np.arange(9.0) * 2.0

    def f(x):
        made = np.arange(9.0) + 1.0
        return np.outer(x, np.arange(9.0) - 1.0) * large + made

    np.testing.assert_array_equal(da.jit(f)(POINT), f(POINT))
    assert traces == [True] and not copied


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sin(x) * hidden(),
        lambda x: da.grad(lambda y: np.sum(y * hidden()))(x),
        lambda x: da.grad(loss)(x * hidden()),
        lambda x: da.grad(lambda y: np.sum(np.sin(y) if hidden() % 2 else np.cos(y)))(x),
        lambda x: da.grad(loss)(x)[: 1 + hidden() % 2],
        lambda x: [da.grad(loss)(x)] * (1 + hidden() % 2),
        lambda x: x * np.arange(3.0) ** hidden(),
    ],
)
def test_a_difference_is_found(f: Callable, traces: list) -> None:
    with pytest.raises(NotRepeatableError):
        da.jit(f)(POINT)
    assert traces == [False]


def test_a_difference_in_a_users_rule_is_found() -> None:
    @da.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (ct * np.cos(x) * hidden(),))
    with pytest.raises(NotRepeatableError):
        da.jit(da.grad(lambda x: np.sum(f(x))))(POINT)
