"""Levels: ordered by the moment they were opened, closed on exit."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dualad as da
from dualad.core import level as level_module
from dualad.core.level import Level, escaped
from dualad.core.watch import Watch
from dualad.errors import EscapedTensorError


def test_numbers_grow_and_exit_closes() -> None:
    with Level("jvp") as a:
        with Level("vmap") as b:
            assert a.number < b.number and a.open and b.open
        assert a.open and not b.open
    assert not a.open and "closed" in repr(a) and "jvp" in repr(a)


def test_an_exception_closes_the_level() -> None:
    with pytest.raises(ZeroDivisionError), Level("jvp") as level:
        raise ZeroDivisionError
    assert not level.open


def test_numbers_are_unique_across_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: [Level("x").number for _ in range(200)], range(8)))
    flat = [n for part in numbers for n in part]
    assert len(set(flat)) == len(flat)
    assert all(part == sorted(part) for part in numbers)


def test_the_error_names_transform_and_remedy() -> None:
    error = escaped(Level("vmap"), "`sin`")
    assert isinstance(error, EscapedTensorError)
    assert (
        "`vmap`" in str(error) and "`sin`" in str(error) and "has_aux" in str(error) and "stop_gradient" in str(error)
    )


def test_the_first_number_is_above_that_of_no_level() -> None:
    """Dispatch starts at 0, which stands for plain NumPy: a level 0 would never be asked."""
    spec = importlib.util.spec_from_file_location("dualad.core.level_of_its_own", level_module.__file__)
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    assert fresh.Level("jvp").number > 0


def test_a_watch_of_all_threads_is_told_of_begin_and_end() -> None:
    class Seen(Watch):
        def __init__(self) -> None:
            self.log: list = []

        def opened(self, level):
            self.log.append(("opened", level.transform))

        def closed(self, level, failed):
            self.log.append(("closed", level.transform, failed))

    watch = Seen()
    watch.on_everywhere()
    try:
        with Level("jvp"):
            pass
        with pytest.raises(ZeroDivisionError), Level("vmap"):
            raise ZeroDivisionError
    finally:
        watch.off_everywhere()
    with Level("unseen"):
        pass
    assert watch.log == [("opened", "jvp"), ("closed", "jvp", False), ("opened", "vmap"), ("closed", "vmap", True)]


def kept_by(transform, f, *args, **kwargs):
    """Return what is said when a tensor that left its transform is used."""
    kept = []
    transform(lambda *a, **k: f(kept, *a, **k))(*args, **kwargs)
    with pytest.raises(EscapedTensorError) as caught:
        kept[0] + 1.0
    return str(caught.value)


def test_the_error_says_which_tensor() -> None:
    with Level("vmap") as level:
        pass
    assert "met a tensor of a `vmap` call" in str(escaped(level, "`sin`"))
    said = kept_by(da.grad, lambda kept, x: kept.append(x) or np.sum(x), np.ones(3))
    assert "a Dual tensor of shape (3,) and dtype float64" in said


@pytest.mark.parametrize("transform", [da.vmap, lambda f: da.vmap(da.grad(f, (0, 1, 2, 3)))])
@pytest.mark.parametrize(
    ("place", "word"), [(0, "argument `x`"), (1, "argument `y`"), (2, "argument 2"), (3, "argument 3")]
)
def test_the_error_names_the_argument(transform, place: int, word: str) -> None:
    kept = []

    def f(x, y, *rest):
        kept.append((x, y, *rest)[place])
        return x * y * sum(rest)

    transform(f)(*(np.ones(2),) * 4)
    with pytest.raises(EscapedTensorError, match=word):
        kept[0] + 1.0


def test_the_error_names_the_argument_that_was_given_by_name() -> None:
    kept = []

    def by_name(x, *, scale):
        kept.append(scale["a"])
        return x * scale["a"]

    da.vmap(by_name)(np.ones(2), scale={"a": np.ones(2)})
    with pytest.raises(EscapedTensorError) as caught:
        kept[0] + 1.0
    assert "argument `scale['a']`" in str(caught.value)


def test_the_argument_is_named_in_a_second_run_too() -> None:
    """A function that writes into a plain argument runs again, with other tensors in place of those it was given."""
    kept = []

    def f(x, base):
        base[0] = x
        kept.append(x)
        return base * 1.0

    da.vmap(f, (0, None))(np.ones(2), np.zeros(3))
    with pytest.raises(EscapedTensorError, match="argument `x`"):
        kept[-1] + 1.0
