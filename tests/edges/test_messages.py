"""Messages about what stands around NumPy: caches, plots, estimators, and text made of traced numbers.

Not for: NumPy's own refusals (``test_object_arrays.py``).
"""

from __future__ import annotations

import functools
import json
import statistics

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError


@functools.lru_cache
def cached(x):
    return x * 2


@pytest.mark.plain
def test_a_cache_says_what_to_call():
    with pytest.raises(ConversionError, match="hash") as caught:
        da.grad(lambda x: cached(x))(2.0)
    assert "__wrapped__" in caught.value.instead and "test_messages.py" in caught.value.what
    assert da.grad(lambda x: cached.__wrapped__(x))(2.0) == 2.0 == da.grad(da.lift(lambda x: cached(x)))(2.0)
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        da.grad(lambda x: x * len({(): 1, **dict.fromkeys([[]], 1)}))(2.0)


def test_libraries_of_plain_numbers_are_named():
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    with pytest.raises(ConversionError, match="given to sklearn") as caught:
        da.grad(lambda x: preprocessing.scale(x).sum())(np.ones(3))
    assert "fit outside" in caught.value.instead and "test_messages.py" in caught.value.what
    with pytest.raises(ValueError, match="Expected 2D array"):  # an error about something else stays what it is
        da.grad(lambda x: x * preprocessing.StandardScaler().fit(np.ones(3)).n_features_in_)(1.0)


def test_plots_are_drawn_of_plain_numbers():
    plt = pytest.importorskip("matplotlib.pyplot")
    with pytest.raises(ConversionError, match="given to matplotlib") as caught:
        da.grad(lambda x: (plt.plot(x), np.sum(x))[1])(np.ones(3))
    assert "stop_gradient" in caught.value.instead
    plt.close("all")


def test_compiled_and_symbolic_functions_are_named():
    numba = pytest.importorskip("numba")
    f = numba.njit(lambda x: x * 2.0)
    with pytest.raises(ConversionError, match="given to numba") as caught, da.plain():
        da.grad(lambda x: f(x))(1.0)
    assert "py_func" in caught.value.instead and da.grad(f.py_func)(1.0) == 2.0 and da.grad(lambda x: f(x))(1.0) == 2.0


def test_symbols_are_no_arrays():
    sympy = pytest.importorskip("sympy")
    with pytest.raises(ConversionError, match="given to sympy") as caught:
        da.grad(lambda x: sympy.sin(x))(1.0)
    assert "lambdify" in caught.value.instead
    x = sympy.Symbol("x")
    assert da.grad(sympy.lambdify(x, sympy.sin(x), "numpy"))(0.5) == np.cos(0.5)


def test_exact_arithmetic_names_what_to_write():
    with pytest.raises(ConversionError, match="exact arithmetic") as caught:
        da.grad(lambda x: statistics.mean(x))(np.ones(3))
    assert "np.mean" in caught.value.instead and "test_messages.py" in caught.value.what
    for iterated in (lambda x: x.flat, np.nditer):
        assert da.grad(lambda x, it=iterated: sum(float(v) ** 2 for v in it(x)))(np.ones(3)).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.plain
def test_what_is_named_is_what_was_written():
    with pytest.raises(TypeError, match="traced number is not JSON serializable"):
        da.grad(lambda x: (json.dumps({"loss": x}), x)[1])(1.0)
    square = np.vectorize(lambda v: v**2, otypes=[float])
    with pytest.raises(ConversionError, match=r"np\.vectorize was given"):
        da.grad(lambda x: np.sum(square(x)))(np.ones(3))
    lifted = da.lift(lambda x: np.sum(np.vectorize(lambda v: v**2, otypes=[float])(x)))
    assert da.grad(lifted)(np.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_pandas_takes_no_tensors():
    pd = pytest.importorskip("pandas")
    for put in (
        lambda x: pd.Series(x).mean(), lambda x: pd.DataFrame({"x": x}).describe().to_numpy().sum(),
        lambda x: pd.to_numeric(pd.Series(x)).sum(), lambda x: pd.Series(np.ones(3)).where(x > 0).sum() + x.sum(),
        lambda x: pd.Series(x).rolling(2).mean().to_numpy()[1:].sum(),
    ):  # fmt: skip
        with pytest.raises(ConversionError, match="put into an object of pandas"):
            da.vmap(da.grad(put))(np.ones((2, 3)))


TEXTS = {"%": lambda x: "%.2f" % x, "f-string": lambda x: f"{x:.2f}", "format": lambda x: format(x, ".2f")}  # noqa: UP031


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_is_alike_in_every_transform(text):
    said: list[str] = []
    f = lambda x: (said.append(text(x)), x * 2.0)[1]
    assert da.grad(f)(0.5) == 2.0 and da.jvp(f, (0.5,), (1.0,))[1] == 2.0 and da.jacfwd(da.grad(f))(0.5) == 0.0
    assert da.linearize(f, 0.5)[0] == 1.0 and set(said) == {"0.50"}
    said.clear()
    assert da.vmap(da.grad(f))(np.array([0.5, 0.7])).tolist() == [2.0, 2.0] and set(said) == {"0.50", "0.70"}
    with pytest.raises(ConversionError, match=r"float\(\)|format\(\)"):
        da.trace(f, 0.5)


@pytest.mark.plain
def test_float_itself_still_refuses():
    with pytest.raises(ConversionError):
        da.grad(lambda x: float(x) * 2)(0.5)


def test_tensors_under_vmap_show_their_numbers():
    said: list[str] = []
    da.vmap(lambda x: (said.append(repr(x)), x)[1])(np.array([0.5, 0.7]))
    da.vmap(lambda x: (said.append(str(x)), x)[1])(np.ones((3, 1000)))
    assert "[0.5, 0.7]" in said[0] and "lanes=2" in said[0] and len(said[1]) < 200
