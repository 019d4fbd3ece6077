"""Questions of type that choose the way code goes: answered of an entry as they are without a transform."""

from __future__ import annotations

import copy
import numbers

import numpy as np
import pytest

import dualad as da

X = np.array([1.0, 2.0, 3.0])
QUESTIONS = {
    "Number": lambda x: isinstance(x, numbers.Number),
    "Complex": lambda x: isinstance(x, numbers.Complex),
    "Real": lambda x: isinstance(x, numbers.Real),
    "Integral": lambda x: isinstance(x, numbers.Integral),
    "float or Number": lambda x: isinstance(x, (list, numbers.Number)),
    "isscalar": np.isscalar,
    "len": lambda x: hasattr(x, "__len__"),
    "iterable": np.iterable,
    "ndim": lambda x: np.ndim(x) == 0,
    "str": lambda x: isinstance(x, (str, bytes, list, tuple, dict)),
    "has shape": lambda x: hasattr(x, "shape"),
    "complex": np.iscomplexobj,
    "real": np.isrealobj,
}
POINTS = {"real": X, "complex": X + 1j, "integer": np.array([1, 2, 3])}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("point", POINTS)
def test_entries_and_arrays_answer_as_numpys_do(question, point):
    ask, x = QUESTIONS[question], POINTS[point]
    expected = ask(x[0]), ask(x), ask(np.sum(x))
    answers = []

    def f(x):
        answers.append((ask(x[0]), ask(x), ask(np.sum(x))))
        return x * 2

    da.jvp(f, (x,), (None,))
    da.vjp(f, x)
    da.vmap(f)(np.stack([x, x]))
    da.vmap(lambda x: da.jvp(f, (x,), (None,)))(np.stack([x, x]))
    da.trace(f, x)
    da.explain(lambda t: f(x) + t, 1.0)
    assert set(answers) == {expected}


def test_a_python_number_stays_a_number():
    def f(x):
        return np.sin(x) if isinstance(x, numbers.Real) else np.cos(x)

    assert da.grad(f)(0.5) == np.cos(0.5)
    assert da.jvp(f, (0.5,), (1.0,)) == (np.sin(0.5), np.cos(0.5))


def test_its_type_is_what_it_was():
    def f(x):
        s = x[0]
        assert isinstance(s, da.Dual) and type(s) is np.float64 and type(x) is np.ndarray
        with pytest.raises(TypeError, match="unsized"):
            len(s)
        with pytest.raises(TypeError, match="0-d"):
            iter(s)
        assert type(copy.copy(s)) is type(s)
        assert type(copy.deepcopy(s)) is type(s)
        y = np.zeros_like(x)
        y[0] = s
        s += 1.0
        return np.sum(y) + s

    assert da.jvp(f, (X,), (np.ones(3),)) == (3.0, 2.0)


@pytest.mark.parametrize("under", [lambda f, x: da.jvp(f, (x,), (x,)), lambda f, x: da.vmap(f)(x[None]), da.trace])
def test_equality_with_what_is_no_number(under):
    said = []
    x = np.ones((2, 3))
    under(lambda x: (said.append([x == None, x != None, None == x, x == "a", "a" != x, x[0, 0] == None]), x)[1], x)  # noqa: E711
    expected = [x == None, x != None, None == x, x == "a", "a" != x, x[0, 0] == None]  # noqa: E711
    for got, want in zip(said[0], expected, strict=True):
        assert np.shape(got) == np.shape(want) and np.all(got == want)
