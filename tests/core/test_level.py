"""Levels: ordered by the moment they were opened, closed on exit."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import pytest

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
