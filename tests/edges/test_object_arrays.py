"""``np.asarray(x)`` and ``np.array([[c, -s], [s, c]])``: what is slow says so, what is refused says the way out.

Not for: what such arrays compute (``tests/surface/test_arguments_objects.py``).
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.core.tracer import Tracer
from dualad.errors import ConversionError, DualadError, PerformanceNote, PlainBufferError, UnsupportedError
from dualad.program import variable

X = np.array([0.7, 0.4, 1.2, 0.9])


def rows(x):
    return np.array([[x[0], x[1]], [x[2], x[3]]])


REFUSED = {
    "mean": lambda x: np.mean(np.asarray(x)),
    ".mean()": lambda x: np.asarray(x).mean(),
    "std": lambda x: np.std(np.asarray(x)),
    "nanmean": lambda x: np.nanmean(np.asarray(x)),
    "median": lambda x: np.median(np.asarray(x)),
    "percentile": lambda x: np.percentile(np.asarray(x), 30),
    "cov": lambda x: np.cov(np.asarray(x)),
    "corrcoef": lambda x: np.corrcoef(np.asarray(x), X**2)[0, 1],
    "gradient": lambda x: np.gradient(np.asarray(x)).sum(),
    "inv": lambda x: np.linalg.inv(rows(x)).sum(),
    "det": lambda x: np.linalg.det(rows(x)),
    "solve": lambda x: np.linalg.solve(rows(x), np.ones(2)).sum(),
    "eigvalsh": lambda x: np.linalg.eigvalsh(rows(x)).sum(),
    "svd": lambda x: np.linalg.svd(rows(x), compute_uv=False).sum(),
    "qr": lambda x: np.linalg.qr(rows(x))[1].sum(),
    "lstsq": lambda x: np.linalg.lstsq(rows(x), np.ones(2))[0].sum(),
    "fft": lambda x: np.abs(np.fft.fft(np.asarray(x))).sum(),
    "rfft": lambda x: np.abs(np.fft.rfft(np.asarray(x))).sum(),
    "interp": lambda x: np.interp(0.5, np.arange(4.0), np.asarray(x)),
    "interp of it": lambda x: np.interp(np.asarray(x), np.arange(4.0), np.arange(4.0) ** 2).sum(),
    "polyfit": lambda x: np.polyfit(np.arange(4.0), np.asarray(x), 1).sum(),
    "isfinite": lambda x: np.isfinite(np.asarray(x)).all() * x[0],
    "logaddexp": lambda x: np.logaddexp(np.asarray(x), 1.0).sum(),
}

WORKS = {
    "rotation": lambda x: (
        np.array([[np.cos(x[0]), -np.sin(x[0])], [np.sin(x[0]), np.cos(x[0])]]) @ np.array([1.0, 2.0])
    ).sum(),
    "matmul": lambda x: (rows(x) @ x[:2]).sum(),
    "dot": lambda x: np.dot(rows(x), rows(x)).sum(),
    "norm": lambda x: np.linalg.norm(np.asarray(x)),
    "matrix_power": lambda x: np.linalg.matrix_power(rows(x), 3).sum(),
    "sum": lambda x: np.asarray(x).sum(),
    "max": lambda x: np.asarray(x).max(),
    "cumsum": lambda x: np.cumsum(np.asarray(x))[-1],
    "prod": lambda x: np.prod(np.asarray(x)),
    "convolve": lambda x: np.convolve(np.asarray(x), np.ones(2)).sum(),
    "polyval": lambda x: np.polyval(np.asarray(x), 2.0),
    "trapezoid": lambda x: np.trapezoid(np.asarray(x)) if hasattr(np, "trapezoid") else np.sum(x),
    "kron": lambda x: np.kron(rows(x), rows(x)).sum(),
    "trace": lambda x: np.trace(rows(x)),
    "average": lambda x: np.average(np.asarray(x), weights=np.ones(4)),
}


@pytest.fixture
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceNote)
        yield


@pytest.mark.plain
@pytest.mark.usefixtures("quietly")
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("transform", ["jacfwd", "jacrev", "vmap"])
def test_what_numpy_cannot_compute_says_the_way_out_first(name, transform):
    f = REFUSED[name]
    x = np.stack([X, X]) if transform == "vmap" else X
    with pytest.raises(DualadError) as caught:
        getattr(da, transform)(f)(x)
    error = caught.value
    assert isinstance(error, (ConversionError, PlainBufferError))
    assert error.instead.startswith("write `import dualad.numpy as np`") and "dualad.plain" in error.instead
    assert "test_object_arrays.py" in error.what


@pytest.mark.usefixtures("quietly")
@pytest.mark.parametrize("name", [*REFUSED, *WORKS])
def test_the_way_out_works(name):
    f = {**REFUSED, **WORKS}[name]
    lifted = da.lift(f)
    h = 1e-6
    expected = [(f(X + h * e) - f(X - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(da.jacrev(lifted)(X), expected, rtol=1e-6, atol=1e-8)
    if name in WORKS:
        np.testing.assert_allclose(da.jacrev(f)(X), expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(da.vmap(f)(np.stack([X, 2 * X])), [f(X), f(2 * X)], rtol=1e-13)


# ── the note ─────────────────────────────────────────────────────────────────────────────────────────────────────


def notes(f, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        f(*args)
    return [(w.filename.rpartition("/")[2], w.lineno, str(w.message)) for w in caught]


def line_of(f, offset):
    return f.__code__.co_firstlineno + offset


@pytest.mark.plain
def test_many_objects_print_one_note_with_the_line():
    def converts(x):
        y = np.asarray(x)
        return np.sum(y * y) + np.sum(x * y)

    (note,) = notes(da.grad(converts), np.ones(100))
    assert note[:2] == ("test_object_arrays.py", line_of(converts, 1))
    assert "dualad.plain" in note[2] and "import dualad.numpy as np" in note[2]

    def builds(x):
        parts = [x[i] * i for i in range(70)]
        y = np.array(parts)
        return np.sum(y * y) + np.sum(x[:70] * y)

    (note,) = notes(da.grad(builds), np.ones(100))
    assert note[:2] == ("test_object_arrays.py", line_of(builds, 2))
    assert not notes(da.grad(da.lift(builds)), np.ones(100)) and not notes(da.grad(da.lift(converts)), np.ones(100))


@pytest.mark.plain
def test_few_objects_that_compute_print_none():
    assert not notes(da.grad(lambda x: np.sum(np.asarray(x) ** 2)), np.ones(64))


def rhs(y):
    return np.array([y[1], -y[0]])


def solver(f, y):
    for _ in range(2):
        y = y + 0.1 * f(y)
    return y[0]


@pytest.mark.plain
def test_a_note_names_the_line_that_made_the_array_wherever_it_is_joined():
    (note,) = notes(da.grad(lambda k: solver(rhs, np.stack([k, 0 * k]))), 1.0)
    assert note[1] == line_of(rhs, 1) and "import dualad.numpy as np" in note[2]


@pytest.mark.usefixtures("quietly")
def test_code_that_makes_objects_is_lifted_from_its_second_call_on():
    lifted = []

    def f(x):
        y = np.array([[np.cos(x), -np.sin(x)], [np.sin(x), 1.0]])
        lifted.append(isinstance(y, Tracer))
        return (x * y).sum() + np.sum(np.asarray(y))

    slopes = []
    assert not notes(lambda: slopes.extend([da.grad(f)(0.3), da.grad(f)(0.3)]))
    assert lifted == [False, True] and slopes[0] == slopes[1]

    lifted.clear()

    def better_as_it_is(x):
        y = np.array([x, 2.0 * x])
        lifted.append(isinstance(y, Tracer))
        if lifted[-1]:
            raise KeyError("on purpose")
        return np.sum(x * y)

    for _ in range(3):
        assert da.grad(better_as_it_is)(3.0) == 18.0
    assert lifted == [False, True, False, False]

    def by_kind(x, kind):  # of one kind objects are made, another one is refused
        if kind == "objects":
            return np.sum(x * np.array([x, 2.0 * x]))
        values = [float(x), math.sin(x)]
        if kind == "fails" and isinstance(np.array(values), Tracer):
            raise KeyError("on purpose")
        return values[0] * values[1]

    assert da.grad(by_kind)(3.0, "objects") == 18.0
    with pytest.raises(DualadError):
        da.grad(by_kind)(3.0, "fails")
    for _ in range(2):
        assert da.grad(by_kind)(3.0, "refused") == pytest.approx(math.sin(3.0) + 3.0 * math.cos(3.0))


def test_programs_of_entries_one_by_one_are_bounded(monkeypatch):
    monkeypatch.setattr(variable, "MOST", 50)
    x = np.ones(8)
    sums = lambda x: sum(np.sin(np.asarray(x)).tolist())
    products = lambda x: np.multiply.outer(np.asarray(x), np.asarray(x)).sum()
    assert da.trace(lambda x: sum(x.tolist()), x)(x) == 8.0 and da.trace(sums, x)(x) == pytest.approx(8 * np.sin(1.0))
    entries, compiled = lambda x: sum(x.tolist()), lambda f, x: da.jit(da.grad(f))(x)
    for ask, f, many in ((da.trace, products, x), (da.trace, entries, np.ones(60)), (compiled, entries, np.ones(60))):
        with pytest.raises(UnsupportedError, match="taken apart into their entries"):
            ask(f, many)
    assert compiled(products, x).tolist() == [16.0] * 8  # compiled with its names lifted
