"""Errors of libraries that know plain numbers only; here the library is a file of a few lines in such a place.

Not for: the libraries themselves (tests/edges/test_messages.py).
"""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError, PlainBufferError

pytestmark = pytest.mark.plain

SOURCE = """
def computes(v):
    raise ValueError("no symbols\\nand more")

def converts(v):
    return float(v)

def hides(get):
    try:
        get()
    except TypeError as error:
        raise ValueError("hidden") from error

def hides_without_a_word(get):
    try:
        get()
    except TypeError:
        raise ValueError("hidden") from None

def calls(f):
    return f()
"""


def library(name: str) -> dict:
    """Return the functions of a package that lies where packages are installed."""
    functions: dict = {}
    file = os.path.join(os.sep, "somewhere", "site-packages", name, "core.py")
    exec(compile(SOURCE, file, "exec"), functions)
    return functions


SYMPY, OTHER = library("sympy"), library("unknown")
X = np.array([1.0, 2.0])


def said_by(f) -> ConversionError:
    with pytest.raises(ConversionError) as caught:
        da.trace(f, X)
    return caught.value


def test_the_library_is_named_with_the_first_line_of_its_error() -> None:
    error = said_by(lambda x: SYMPY["computes"](x))
    assert error.what.splitlines()[0] == "a tensor was given to sympy: ValueError: no symbols"
    assert "more" not in error.what
    assert "lambdify" in error.instead
    assert error.what.splitlines()[1].startswith("  At: ")
    assert "test_libraries.py" in error.what.splitlines()[1]


def test_a_refusal_of_ours_is_told_with_its_own_words() -> None:
    error = said_by(lambda x: SYMPY["converts"](x[0]))
    assert error.what.startswith("a tensor was given to sympy: float() ")
    for name in ("hides", "hides_without_a_word"):
        error = said_by(lambda x, name=name: SYMPY[name](lambda: np.asarray(x, float)))
        assert error.what.startswith("a tensor was given to sympy: ValueError: hidden")


def test_other_errors_stay_what_they_are() -> None:
    mine = ValueError("mine")

    def fails(x):
        raise mine

    for f in (
        lambda x: SYMPY["computes"](1.0),  # holds no tensor
        lambda x: OTHER["computes"](x),  # of a library that nothing is known of
        lambda x: SYMPY["calls"](lambda: fails(x)),  # of the user's, called back
        fails,
    ):
        with pytest.raises(ValueError, match=r"no symbols|mine") as caught:
            da.trace(f, X)
        assert type(caught.value) is ValueError
    with pytest.raises(PlainBufferError):
        da.trace(lambda x: OTHER["calls"](lambda: np.asarray(x, float)), X)


def test_a_cache_says_what_to_call() -> None:
    cached = functools.lru_cache(lambda x: x)
    with pytest.raises(ConversionError, match="looked up by its hash") as caught:
        da.trace(lambda x: cached(x), X)
    assert "f.__wrapped__(x)" in caught.value.instead
    for wrong in ([], {}):
        with pytest.raises(TypeError, match=r"unhashable type: '(list|dict)'"):
            da.trace(lambda x, wrong=wrong: cached(wrong), X)


def test_a_cache_says_it_of_every_kind_of_tensor() -> None:
    for transform in (da.nth_derivative, da.vmap, da.grad):
        f = transform(lambda x: {x: x}[x], *([1] if transform is da.nth_derivative else []))
        with pytest.raises(ConversionError, match="looked up by its hash"):
            f(X if transform is da.vmap else 1.0)


def test_what_is_about_the_bytes_of_an_array_says_so() -> None:
    for name in ("tobytes", "flags", "strides", "data", "tofile"):
        error = said_by(lambda x, name=name: getattr(x, name))
        assert error.what.startswith(f".{name} was asked of a Staged tensor")
        da.trace(lambda x, name=name: getattr(x, name, 0.0) + x, X)  # to ask whether it is there is no error
    for wrong in (lambda x: x.no_such_name, lambda x: [].flags):
        with pytest.raises(AttributeError, match="has no attribute"):
            da.trace(wrong, X)
