"""Levels: ordered by the moment they were opened, closed on exit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from dualad.core.level import Level, escaped
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
