"""A bar on a terminal, tqdm's if it is installed, and silence in a pipe: of lanes, columns, rows and solvers."""

from __future__ import annotations

import importlib.util
import io
import sys

import numpy as np
import pytest

import dualad as da
from dualad.scipy import integrate as si
from dualad.scipy import optimize as so


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def no_tqdm(monkeypatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "tqdm" else find(name, *rest))


@pytest.mark.parametrize(
    "run", [lambda x: da.vmap(np.sin, progress=True)(x), lambda x: da.map(np.sin, x, progress=True)]
)
def test_a_bar_on_a_terminal_and_nothing_in_a_pipe(run, monkeypatch, no_tqdm) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    for file, drawn in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", file)
        assert np.array_equal(run(np.arange(300.0)), np.sin(np.arange(300.0)))
        text = file.getvalue()
        assert bool(text) == drawn
        if drawn:
            assert text.endswith(" s\n") and "█" * 24 + " 300/300 " in text and "(sin)" in text


@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "jacobian", "hessian", "value_and_jacfwd", "value_and_hessian"])
def test_derivatives_have_a_bar(name, monkeypatch, no_tqdm) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", Terminal())
    f = (lambda x: np.sum(np.sin(x) * x[0])) if "hessian" in name else (lambda x: np.sin(x) * x[0])
    x = np.linspace(0.1, 1.0, 12)
    found, alone = getattr(da, name)(f, progress=True)(x), getattr(da, name)(f)(x)
    assert np.array_equal(found, alone) if isinstance(found, np.ndarray) else np.array_equal(found[1], alone[1])
    assert " 12/12 " in sys.stderr.getvalue()


def test_a_bar_and_collectives_exclude_each_other() -> None:
    with pytest.raises(da.errors.ArgumentError, match="progress"):
        da.vmap(lambda x: x - da.pmean(x, "i"), axis_name="i", progress=True)


def test_it_counts_what_comes_from_an_executor(monkeypatch, no_tqdm) -> None:
    pytest.importorskip("cloudpickle", reason="sends local functions: pip install dualad[scale]")
    from .doubles import Inline

    monkeypatch.setattr(sys, "stderr", Terminal())
    da.vmap(np.sin, executor=Inline(), chunk_size=2, progress=True)(np.arange(9.0))
    assert " 9/9 lanes" in sys.stderr.getvalue()


def test_tqdm_draws_where_it_is_installed(monkeypatch) -> None:
    class Bar:
        def __init__(self, total, **options) -> None:
            self.total, self.done, bars[:] = total, 0, [self]

        def update(self, n) -> None:
            self.done += n

        def close(self) -> None:
            self.closed = True

    bars: list = []
    module = type(sys)("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: object())
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert np.array_equal(da.map(np.sin, np.arange(5.0), progress=True, chunk_size=2), np.sin(np.arange(5.0)))
    assert (bars[0].done, bars[0].total, bars[0].closed) == (5, 5, True)
    assert sys.stderr.getvalue() == ""


def test_a_traced_map_has_no_bar() -> None:
    assert np.array_equal(da.jacfwd(lambda x: da.map(np.sin, x, progress=True))(np.zeros(2)), np.eye(2))


def _minimize(c, **more):
    return so.minimize(lambda x: np.sum((x - c) ** 4) + np.sum(x**2), np.zeros(2), **more).x[0]


def _root(c, **more):
    return so.root(lambda x: x + np.sin(x) - c, np.zeros(2), **more).x[0]


def _bracketed(c, **more):
    return so.brentq(lambda x: x**3 - c, 0.0, 10.0, **more)


def _decay(c, **more):
    return si.solve_ivp(lambda t, y: -c * y, (0.0, 2.0), [1.0], **more).y[0, -1]


def _fixed(c, **more):
    return da.fixed_point(lambda x: np.cos(c * x), 1.0, **more)


@pytest.mark.parametrize("transform", [lambda f: f, da.grad, lambda f: lambda c: da.jvp(f, (c,), (1.0,))[1]])
@pytest.mark.parametrize(
    ("solve", "said"),
    [
        (_minimize, "calls of functions by minimize"),
        (_root, "calls of functions by root"),
        (_bracketed, "calls of functions by brentq"),
        (_decay, " 100/100 percent of solve_ivp"),
        (_fixed, "iterations of fixed_point"),
    ],
)
def test_solvers_count_on_a_terminal(solve, said, transform, monkeypatch, no_tqdm) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    alone = transform(solve)(0.8)
    for file, drawn in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", file)
        assert transform(lambda c: solve(c, progress=True))(0.8) == alone
        last = file.getvalue().rpartition("\r\033[K")[2]
        assert (said in last) == drawn
        assert not last.startswith("0 ")
