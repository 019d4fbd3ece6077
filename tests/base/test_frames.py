"""Tracebacks that leave transforms hold the user's frames and none of the package's; and what else an exception keeps.

Not for: the words of errors (`test_errors.py`).
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import pdb  # noqa: T100  (its view of a traceback is asked for)
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
import scipy
import scipy.optimize

import dualad as da
from dualad.base.frames import is_users, users_line_of
from dualad.errors import PerformanceNote

PACKAGE = str(Path(da.__file__).parent)
X = np.array([1.0, 2.0])


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch):
    monkeypatch.delenv("DUALAD_FULL_TRACEBACK", raising=False)


def frames(error: BaseException) -> list[str]:
    """Return the names of an exception's frames below the test, which must hold none of the package's."""
    summary = traceback.extract_tb(error.__traceback__)
    assert not [f for f in summary if f.filename.startswith(PACKAGE)], summary
    return [f.name for f in summary][1:]


def divides(x):
    return x * (1 // 0)


def caught(call) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: lambda: da.jvp(f, (X,), (X,)),
        lambda f: lambda: da.vjp(f, X),
        lambda f: lambda: da.linearize(f, X),
        lambda f: lambda: da.linear_transpose(f, X),
        lambda f: lambda: da.trace(f, X),
        lambda f: lambda: da.vmap(f)(X),
        lambda f: lambda: da.grad(lambda x: np.sum(f(x)))(X),
        lambda f: lambda: da.jacobian(f)(X),
        lambda f: lambda: da.hessian(f)(X),
        lambda f: lambda: da.hvp(f, X, X),
        lambda f: lambda: da.laplacian(lambda x: np.sum(f(x)))(X),
        lambda f: lambda: da.grad(lambda x: np.sum(da.vmap(da.checkpoint(f))(x)))(X),
        lambda f: lambda: da.grad(lambda x: da.scan(lambda c, r: (f(c), None), x, X)[0])(2.0),
        lambda f: lambda: da.vmap(lambda x: da.cond(x > 1, f, np.sin, x))(X),
        lambda f: lambda: da.grad(lambda x: da.wrap(f, jac="fd")(x))(1.0),
        lambda f: lambda: da.custom_root(f, 1.0, lambda g, x: g(x)),
    ],
)
def test_only_the_users_frames_are_left(transformed) -> None:
    error = caught(transformed(divides))
    names = frames(error)
    assert type(error) is ZeroDivisionError and names[-1] == "divides", names
    assert set(names) <= {"divides", "<lambda>"}


def three_deep(x):
    return da.vmap(da.grad(lambda v: da.jvp(divides, (v,), (1.0,))[1]))(x)


def test_three_transforms_deep() -> None:
    error = caught(lambda: three_deep(X))
    assert frames(error) == ["<lambda>", "three_deep", "<lambda>", "divides"]
    assert str(error) == "integer division or modulo by zero"


@pytest.mark.parametrize("value", ["1", "yes"])
def test_all_frames_on_request(monkeypatch, value: str) -> None:
    monkeypatch.setenv("DUALAD_FULL_TRACEBACK", value)
    files = [f.filename for f in traceback.extract_tb(caught(lambda: three_deep(X)).__traceback__)]
    assert sum(f.startswith(PACKAGE) for f in files) > 5
    monkeypatch.setenv("DUALAD_FULL_TRACEBACK", "0")
    frames(caught(lambda: three_deep(X)))


def test_a_rule_that_raises() -> None:
    def backward(residuals, ct):
        raise KeyError("in the rule")

    f = da.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (f(x), None), backward)
    for call in (lambda: da.grad(f)(1.0), lambda: da.jvp(f, (1.0,), (1.0,)), lambda: da.vmap(da.grad(f))(X)):
        error = caught(call)
        assert type(error) is KeyError and frames(error)[-1] == "backward"


@pytest.mark.plain
def test_errors_of_ours_end_at_the_users_line() -> None:
    error = caught(lambda: da.jvp(np.sin, (X,), (np.ones(3),)))
    assert isinstance(error, da.errors.ShapeError) and frames(error) == ["<lambda>"]

    def plain(x):
        return np.asarray(x, float)

    error = caught(lambda: da.grad(lambda x: np.sum(plain(x)))(X))
    assert frames(error) == ["<lambda>", "<lambda>", "plain"]
    pull = da.vjp(np.sin, X)[1]
    assert frames(caught(lambda: pull(np.ones(3)))) == ["<lambda>"]
    program = da.trace(np.sin, X)
    assert frames(caught(lambda: program(np.ones(3)))) == ["<lambda>"]


def test_chains_notes_and_groups_are_kept() -> None:
    def inner(x):
        raise ValueError("first")

    def outer(x):
        try:
            da.grad(inner)(x)
        except ValueError as error:
            second = RuntimeError("second")
            second.add_note("a note")
            raise second from error

    error = caught(lambda: da.vmap(outer)(X))
    assert (str(error), error.__notes__, str(error.__cause__)) == ("second", ["a note"], "first")
    assert frames(error)[-1] == "outer"
    assert [f.name for f in traceback.extract_tb(error.__cause__.__traceback__)] == ["outer", "inner"]

    def group(x):
        raise ExceptionGroup("several", [caught(lambda: da.grad(inner)(x))])

    error = caught(lambda: da.grad(group)(1.0))
    assert frames(error)[-1] == "group" and frames(error.exceptions[0])[-1] == "inner"


def test_post_mortem_sees_the_users_variables() -> None:
    def local(x):
        here = 42
        return divides(here)

    error = caught(lambda: da.vmap(da.grad(local))(X))
    debugger = pdb.Pdb(stdin=None, stdout=None, nosigint=True)
    stack, _ = debugger.get_stack(None, error.__traceback__)
    assert stack[-1][0].f_code.co_name == "divides"
    assert stack[-2][0].f_locals["here"] == 42


def test_generators_and_tasks() -> None:
    def values(x):
        yield x
        yield divides(x)

    assert frames(caught(lambda: da.grad(lambda x: sum(values(x)))(1.0)))[-2:] == ["values", "divides"]

    async def task():
        return da.grad(divides)(1.0)

    assert frames(caught(lambda: asyncio.run(task())))[-2:] == ["task", "divides"]


def test_what_a_shell_shows(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport dualad as da\ndef f(x):\n    return x / [][0]\nda.vmap(da.grad(f))(np.ones(2))\n"
    )
    paths = {**os.environ, "PYTHONPATH": str(Path(PACKAGE).parent)}
    told = subprocess.run([sys.executable, script], capture_output=True, text=True, env=paths, check=False).stderr
    assert told.count("File") == 2 and told.endswith("IndexError: list index out of range\n"), told


def test_warnings_name_the_users_line() -> None:
    with pytest.warns(PerformanceNote) as notes:
        da.vmap(lambda x: x if x > 1 else -x)(np.array([0.0, 2.0]))
    assert notes[0].filename == __file__


def test_the_line_that_the_user_reads() -> None:
    """The innermost line of the user's own; where there is none, the innermost of another library's."""

    def inner(x):
        raise ValueError("here")

    def outer(x):
        return inner(x) + 1

    def through_the_library(x):
        return json.dumps({"a": object()})

    for f, line in ((outer, 'raise ValueError("here")'), (through_the_library, "return json.dumps")):
        try:
            da.jvp(f, (1.0,), (1.0,))
        except (TypeError, ValueError) as error:
            assert users_line_of(error).line.startswith(line)  # noqa: PT017
        else:
            raise AssertionError
    try:
        json.loads("{")
    except json.JSONDecodeError as error:
        error.__traceback__ = error.__traceback__.tb_next  # as if no line of the user's were on the way
        assert "decoder.py" in users_line_of(error).filename  # noqa: PT017


def test_the_line_where_a_library_calls_us() -> None:
    try:
        json.loads("1.0", parse_float=da.grad)
    except da.errors.DualadError as error:
        error.__traceback__ = error.__traceback__.tb_next  # as if no line of the user's were on the way
        assert users_line_of(error).filename.endswith(("decoder.py", "scanner.py"))  # noqa: PT017


def test_frames_of_a_cause_are_hidden_where_there_is_no_context() -> None:
    kept = []

    def f(x):
        try:
            np.asarray(x, float)
        except TypeError as error:
            kept.append(error)
        raise KeyError("k") from kept[0]

    try:
        da.jvp(f, (1.0,), (1.0,))
    except KeyError as error:
        assert error.__context__ is None  # noqa: PT017
        frames(error.__cause__)


def test_whose_files_they_are() -> None:
    assert is_users(__file__)
    assert is_users(json.__file__)
    for module in (da, np, scipy, scipy.optimize, functools):
        assert not is_users(module.__file__)


def test_frames_are_hidden_in_all_that_is_chained() -> None:
    def made(f):
        try:
            da.jvp(f, (1.0,), (1.0,))
        except Exception as error:
            return error

    def plain(x):
        raise ValueError

    def both(x):
        error = KeyError("k")
        error.__context__, error.__cause__ = made(divides), None
        raise error from made(plain)

    def group(x):
        raise ExceptionGroup("several", [made(divides), made(plain), made(both)])

    def walk(error):
        if error is not None:
            yield error
            for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
                yield from walk(other)

    found = list(walk(made(group)))
    assert len(found) >= 6
    for error in found:
        frames(error)
