"""The walk: what functions read is found where Python keeps it, once, to a depth; data is not walked through."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from dualad.base.reach import DEEP, MANY, parts, reachable

TARGET = object()


class Holder:
    def __init__(self, held) -> None:
        self.held = held

    def method(self):
        return self.held

    @property
    def asked(self):
        return TARGET


def reads_global():
    return TARGET


def in_closure(held=TARGET):
    return lambda: held


def decorated(f):
    @functools.wraps(f)
    def wrapper():
        return None

    return wrapper


WAYS = {
    "global": reads_global,
    "closure variable": in_closure(),
    "default value": lambda x=TARGET: x,
    "named default value": lambda *, x=TARGET: x,
    "argument": functools.partial(print, TARGET),
    "named argument": functools.partial(print, end=TARGET),
    "function of a partial": functools.partial(reads_global),
    "object of a method": Holder(TARGET).method,
    "attribute": Holder(TARGET),
    "entries": [{"a": (TARGET,)}],
    "decorated function": decorated(reads_global),
    "static method": staticmethod(reads_global),
    "property": Holder.__dict__["asked"],
    "function in a closure": in_closure(in_closure()),
}


@pytest.mark.parametrize("way", WAYS)
def test_everything_that_is_read_is_found(way):
    assert any(value is TARGET for *_, value in reachable(WAYS[way]))


def test_a_part_says_where_it_is():
    f = in_closure()
    ((kind, holder, key, value),) = parts(f)
    assert (kind, key) == ("closure variable", "held") and holder is f.__closure__[0] and value is TARGET
    d = {"a": 1}
    assert parts(d) == [("entry", d, "a", 1)]
    assert ("global", globals(), "TARGET", TARGET) in parts(reads_global)


def test_circles_end_and_a_thing_is_gone_through_once():
    circle: list = [TARGET]
    circle.append(circle)
    assert sum(value is TARGET for *_, value in reachable([circle, circle])) == 1


def test_there_is_an_end_to_depth_and_to_data():
    def nested(n):
        return [TARGET] if n == 0 else [nested(n - 1)]

    found = lambda x, **options: any(value is TARGET for *_, value in reachable(x, **options))
    assert found(nested(DEEP)) and not found(nested(DEEP + 1)) and not found(nested(3), deep=2)
    assert found([TARGET] * MANY) and not found([TARGET] * (MANY + 1))
    assert parts(np.arange(3.0)) == [] and not found([np.array([TARGET])])


def test_a_cell_that_is_not_filled_yet_is_left_out():
    def outer():
        f = lambda: later
        assert parts(f) == []
        later = 1
        return f

    assert [value for *_, value in parts(outer())] == [1]
