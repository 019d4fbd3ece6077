"""`explain`: each verdict at its line, refusals with what to write instead, and functions that fail half way.

Not for: the command (`cli/test_explain.py`) or how the text is laid out beyond what a reader needs.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentTypeError

X = np.array([0.5, 1.5, 2.5])


def uses(f, *args, line: int = 1) -> dict:
    """Return the uses on a line of ``f``, counted from its ``def``, by name."""
    report = da.explain(f, *args)
    found = [x for x in report.lines if x.number == f.__code__.co_firstlineno + line and x.file == __file__]
    return {use.name: use for x in found for use in x.uses}


def test_operations_with_rules_and_what_composites_are_made_of() -> None:
    def f(x):
        return np.mean(np.sin(x) @ np.ones((3, 2))) * 2

    report = da.explain(f, X)
    assert report.ok
    assert report.failure is None
    found = uses(f, X)
    assert {found[n].status for n in found} == {"rules"}
    assert set(found) == {"sin", "matmul", "np.mean", "multiply"}
    assert found["np.mean"].operators == ("sum", "divide")
    assert (found["sin"].forward, found["sin"].reverse, found["sin"].batched) == ("yes", "yes", "yes")


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: np.floor(x), "floor"),
        (lambda x: np.argmax(x), "argmax"),
        (lambda x: x > 1, "greater"),
        (lambda x: da.stop_gradient(x), "stop_gradient"),
        (lambda x: np.round(x, 1), "round"),
        (lambda x: int(x[0]), "int()"),
    ],
)
def test_what_drops_the_tangent(f, name) -> None:
    use = uses(f, X, line=0)[name]
    assert (use.status, use.forward) == ("drops", "zero")
    assert da.explain(f, X).ok
    assert da.explain(f, X).count("drops") == 1


def test_what_is_computed_of_a_dropped_tangent_is_constant() -> None:
    def f(x):
        k = np.floor(x)
        return np.sin(k) * 2

    assert {use.status for use in uses(f, X, line=2).values()} == {"constant"}


def test_branches_say_which_way_they_went() -> None:
    def f(x):
        for i in range(3):
            if x[i] > 1:
                x = x * 2
        return x[x > 1]

    report = [use for use in da.explain(f, X).uses if use.name == "if"]
    assert sorted((use.count, "taken: True" in use.note) for use in report) == [(1, False), (2, True)]
    assert uses(f, X, line=4)["mask or count"].status == "branch"


def written(x):
    out = np.zeros(3)
    out[0] = x[0]
    return out


@pytest.mark.plain
@pytest.mark.parametrize(
    ("f", "name", "line", "instead"),
    [
        (lambda x: float(x[0]), "float()", 0, "NumPy functions such as np.sin"),
        (lambda x: math.sin(x[0]), "float()", 0, "NumPy functions such as np.sin"),
        (written, "plain array", 2, "np.zeros_like(x)"),
        (lambda x: np.asarray(x, float), "plain array", 0, "x.astype(dtype)"),
        (lambda x: np.nextafter(x, 1.0), "nextafter", 0, "stop_gradient"),
        (lambda x: np.union1d(x, x), "np.union1d", 0, "stop_gradient"),
        (lambda x: da.wrap(math.gamma)(x[0]), "gamma", 0, "jac="),
    ],
)
def test_what_is_refused_is_refused_by_a_derivative_and_has_a_rewrite(f, name, line, instead) -> None:
    report = da.explain(f, X)
    assert not report.ok
    assert report.failure is None  # it went on
    use = uses(f, X, line=line)[name]
    assert use.status == "refused"
    assert instead in use.instead
    with pytest.raises(da.errors.DualadError):
        da.jvp(f, (X,), (X,))


def test_opaque_custom_and_nested_transforms() -> None:
    mine = da.custom_vjp(lambda x: x * 2)
    mine.defvjp(lambda x: (mine(x), None), lambda r, ct: (2 * ct,))
    gamma = da.wrap(math.gamma, jac="fd")

    def f(x):
        a = mine(x)
        b = gamma(x[0])
        c = da.grad(lambda u: np.sum(np.exp(u) * u))(x)
        d = da.vmap(lambda u: np.cos(u))(x)
        e = da.checkpoint(lambda u: np.arctan(u))(x)
        with da.no_tangents():
            g = np.tanh(x)
        return a, b, c, d, e, g

    assert uses(f, X)["<lambda>"].status == "custom"
    assert uses(f, X, line=2)["gamma"].status == "opaque"
    assert "first derivatives only" in uses(f, X, line=2)["gamma"].note
    assert set(uses(f, X, line=3)) == {"exp", "multiply", "sum"}
    assert set(uses(f, X, line=4)) == {"cos"}
    assert "arctan" in uses(f, X, line=5)
    assert uses(f, X, line=7)["tanh"].status == "drops"


def test_bodies_of_loops_are_listed_at_their_lines() -> None:
    def f(x):
        step = lambda c, a: (np.sin(c) * a, c)
        return da.while_loop(lambda c: c < 10.0, lambda c: np.exp(c), x[0]), da.scan(step, 0.5, x)[0]

    assert "sin" in {u.name.rpartition(" ")[2] for u in uses(f, X, line=1).values()}
    assert "exp" in {u.name.rpartition(" ")[2] for u in uses(f, X, line=2).values()}


def test_writes_are_noted_where_they_stand_and_leave_the_argument_alone() -> None:
    def f(x):
        x[0] = 3.0
        y = np.zeros_like(x)
        y[1] = x[2]
        return x + y

    x = X.copy()
    assert set(uses(f, x)) == {"index_set"}
    assert "index_set" in uses(f, x, line=3)
    np.testing.assert_array_equal(x, X)


def test_a_function_that_fails_half_way() -> None:
    def f(x):
        y = np.sin(x)
        return np.reshape(y, (2, 2))

    report = da.explain(f, X)
    assert not report.ok
    assert (report.failure.file, report.failure.number) == (__file__, f.__code__.co_firstlineno + 2)
    assert (report.failure.error, report.failure.source) == ("ValueError", "return np.reshape(y, (2, 2))")
    assert set(uses(f, X)) == {"sin"}
    assert "stopped at" in str(report)


@pytest.mark.plain
def test_shown_as_text_html_and_data() -> None:
    def f(x):
        return np.sum(np.where(x > 1, x, 0.0)) + float(x[0])

    report = da.explain(f, X)
    text = str(report)
    assert text.splitlines()[0] == "explain: f"
    assert "✗ float():" in text
    assert "0 greater:" in text
    assert "Not every derivative can be taken." in text
    assert max(map(len, report.to_text(width=80).splitlines()[:-1])) <= 80
    data = json.loads(json.dumps(report.to_dict()))
    assert data["ok"] is False
    assert data["summary"]["refused"] == 1
    assert data["lines"][0]["source"].startswith("return np.sum(")
    page = report._repr_html_()
    assert "<table>" in page
    assert "x &gt; 1" in page
    assert "explanation of f" in repr(report)


def test_nothing_to_follow_is_an_error() -> None:
    with pytest.raises(ArgumentTypeError, match="floating-point"):
        da.explain(np.sin, 3)
    with pytest.raises(ArgumentTypeError, match="runs a function"):
        da.explain(3.0)


def test_plain_calls_and_other_contexts_are_as_before() -> None:
    with da.debug(nan=True):
        assert da.explain(np.sin, X).ok
        with pytest.raises(FloatingPointError):
            da.grad(np.sqrt)(0.0)
    assert da.grad(np.sin)(0.0) == 1.0
