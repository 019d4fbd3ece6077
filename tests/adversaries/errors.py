"""Random functions that catch errors: of matrices, places, divisions, logarithms, floating-point states, generators.

A program is called with numbers that raise and numbers that don't, in any order: what it returns or raises, what it
wrote into its arguments and what it drew are those of the eager call. For: ``except``, ``else``, ``finally``, retries.
Not for: functions without errors (``objects.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import dualad as da
from dualad.errors import BranchError, ConversionError

from .cases import Case, Difference, Void
from .compare import named, same, settings

__all__ = ["case"]

_HEAD = "import contextlib, warnings\n"
_VECTORS = ("x", "y")

#: a path by a value that is not known yet, which another one may not have taken
_REFUSED = (BranchError, ConversionError)
#: what may raise: of a vector a, a number s, a matrix A, a place i, numbers z (Python's) and k (a constant)
_RISKS = (
    "{a} = np.linalg.solve(A, {b})", "{a} = np.linalg.inv(A) @ {b}", "{a} = np.linalg.cholesky(A) @ {b}",
    "s = s + np.linalg.cholesky(A + {k} * eye)[0, 0]", "s = {a}[i] * 0.5", "{a}[i] = s", "{a}[i] += {b}[0]",
    "{a} = {a} + A[i]", "s = s + 6 // i", "s = s + 1.0 / z", "s = s * z ** -1", "s = s + i % i",
    "{a} = np.take({b}, [i])[0] + {a}", "s = s + rng.normal()|{a} = np.linalg.solve(A, {b} * s)",
    "{a}[0] *= 0.5|{a} = np.linalg.cholesky(A) @ {a}", "A[0] *= 2.0|s = s + np.linalg.cholesky(A)[-1, -1]",
    "with np.errstate(all='raise'):|    s = s + np.log(z + 0.0 * {a}[0])",
    "with np.errstate(divide='raise', invalid='raise'):|    {a} = {b} / ({a} * z)",
    "with np.errstate(all='warn'), warnings.catch_warnings():|    warnings.simplefilter('error')|    s = np.log(s * z)",
    "{a} = risky({b}, A)", "s = s + inner(A)[0, 0]", "{a}[0] = rng.normal()|s = s + {b}[i]",
)  # fmt: skip
#: what surely runs
_PLAIN = (
    "{a} = {a} + np.sin({b})", "{a} *= 0.9", "s = s * 0.5 + {a}[0]", "{a} = {b}.copy()", "s = s + rng.normal()",
    "A = A * 1.5", "{a}[-1] = s", "s = s + z", "pass",
)  # fmt: skip
#: R is something that may raise, P and Q aren't, ERR names errors; lines stand in a row, ">" stands for a block
_FORMS = (
    "try:|>R|except ERR:|>P",
    "try:|>R|except ERR:|>P|else:|>Q",
    "try:|>R|finally:|>P",
    "try:|>P|>R|except ERR as error:|    s = s + len(type(error).__name__)",
    "try:|>R|except ERR:|>P|except Exception:|>Q|finally:|    s = s + 0.125",
    "try:|    try:|    >R|    except ERR:|    >P|except Exception:|>Q",
    "with contextlib.suppress(ERR):|>R|>P",
    "for k in (0, 4):|    try:|        y = np.linalg.inv(A + k * eye)[0]|        break|    except ERR:|        pass",
    "for i in (i, 0):|    try:|    >R|    except ERR:|        continue|>P",
    "def g(u):|    try:|        return u * u[i]|    except ERR:|        return u|    finally:|        u *= 2|y = g(x)",
    "try:|>R|except ERR:|>P|    raise",
    "try:|>R|except ERR as error:|    raise ValueError('other') from error",
    "try:|>R|except ERR:|    return {a} * 0.25",
    ">R",
)
_CAUGHT = (
    "np.linalg.LinAlgError", "IndexError", "(LookupError, ArithmeticError)", "ZeroDivisionError", "ValueError",
    "Exception", "Exception", "(FloatingPointError, RuntimeWarning)", "(ValueError, ArithmeticError)", "KeyError",
)  # fmt: skip
_ENDS = ("x", "y", "s", "x, y", "y, s", "np.sum(x) + s", "A @ x", "y * s")


def _lines(rng: np.random.Generator) -> list[str]:
    """Return the lines of a function's body."""
    choice = lambda items: items[int(rng.integers(len(items)))]

    def block(steps: tuple[str, ...], indent: str) -> list[str]:
        names = {"a": choice(_VECTORS), "b": choice(_VECTORS), "k": choice((0.5, 2.0, 8.0))}
        return [indent + line for line in choice(steps).format(**names).split("|")]

    made: list[str] = []
    for _ in range(int(rng.integers(1, 4))):
        form = choice(_FORMS).replace("{a}", choice(_VECTORS))
        for line in form.replace("ERR", choice(_CAUGHT)).split("|"):
            indent = line[: len(line) - len(line.lstrip())]
            if line.lstrip().startswith(">"):
                inside = "" if line == ">R" and form == ">R" else "    "
                made += block(_RISKS if line.endswith("R") else _PLAIN, indent + inside)
            else:
                made.append(line)
        made += block(_PLAIN, "") if rng.random() < 0.4 else []
    return made


def _arguments(seed: int, call: int, n: int) -> tuple:
    """Return what a call is given: matrices that have factors and don't, places in and out of bounds, zeros."""
    rng = np.random.default_rng([43, seed, call])
    choice = lambda items: items[int(rng.integers(len(items)))]
    root = rng.normal(size=(n, n))
    good = root @ root.T + np.eye(n)
    A = choice([good, good, good * 0.5, np.zeros((n, n)), -good, np.ones((n, n))])
    z = float(choice([0.5, 1.5, 2.0, 0.0, -1.0]))
    return rng.uniform(0.3, 1.2, n), A.copy(), int(choice([1, 1, 0, n - 1, n + 3, -n - 2])), z, np.random.default_rng(7)


def _outcome(f: Callable, args: tuple) -> tuple:
    """Return what a call returned, or the family of what it raised, and what it left behind."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out: Any = f(*args)
        except Exception as error:
            out = error
    return out, (args[:2], args[4].bit_generator.state["state"]["state"] % 2**62)


#: what is asked of a function; the sum of what it returns has the derivatives
_WAYS: dict[str, Callable] = {
    "value": lambda f: f,
    "grad": lambda f: da.grad(_total(f)),
    "jvp": lambda f: lambda x, *more: da.jvp(lambda u: f(u, *more), (x,), (np.cos(x),)),
    "vmap": lambda f: lambda x, *more: da.vmap(lambda u: f(u, *more))(np.stack([x, x * 0.5])),
}


def _total(f: Callable) -> Callable:
    return lambda *args: sum([np.sum(leaf) for leaf in da.tree.flatten(f(*args))[0]])


def _check(text: str, way: str, native: bool, seed: int, n: int) -> None:
    spaces = [named(text), named(text)]
    plain = _WAYS[way](spaces[0]["f"])
    inside = seed % 4 == 1
    fast = _WAYS[way](da.jit(spaces[1]["f"])) if inside else da.jit(_WAYS[way](spaces[1]["f"]))
    returned = 0
    with settings(native):
        for call in range(6):
            expected, left = _outcome(plain, _arguments(seed, call, n))
            found, after = _outcome(fast, _arguments(seed, call, n))
            if isinstance(expected, (SyntaxError, NameError)):
                raise Void from expected
            if isinstance(expected, Exception):
                continue  # what nobody reads is not computed, and raises nothing to those who don't catch it
            if isinstance(found, _REFUSED) or "is a scalar, as in NumPy" in str(found):
                return
            if isinstance(found, Exception):
                raise Difference(f"call {call}: {found!r}, not {expected!r}")
            same(found, expected, f"call {call}", anything_for_nan=way != "value")
            same(after, left, f"call {call}: arguments and draws afterwards")
            returned += 1
    if not returned:
        raise Void


def _case(lines: list[str], end: str, way: str, native: bool, seed: int, n: int) -> Case:
    body = "".join([f"    {line}\n" for line in lines])
    text = (
        f"{_HEAD}N, eye = {n}, np.eye({n})\n"
        "inner = da.jit(np.linalg.cholesky)\n"
        "def risky(u, A):\n    try:\n        return np.linalg.cholesky(A) @ u\n"
        "    except np.linalg.LinAlgError:\n        return u[7] * u\n"
        f"def f(x, A, i, z, rng):\n    y, s = x * 0.5, 0.3\n{body}    return {end}\n"
    )

    def smaller() -> Iterator[Case]:
        for i in range(len(lines)):
            yield _case([*lines[:i], *lines[i + 1 :]], end, way, native, seed, n)

    shown = f"{text}# {way}, native={native}, n={n}, arguments of seed {seed}\n"
    return Case(f"errors {seed}", shown, lambda: _check(text, way, native, seed, n), smaller)


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng([41, seed])
    lines, end = _lines(rng), _ENDS[int(rng.integers(len(_ENDS)))]
    way = [*_WAYS][seed % 5 % 4]
    if way == "vmap":  # lanes would share a draw: refused, which these clauses would catch
        lines = [line.replace("rng.normal()", "0.2") for line in lines]
    return _case(lines, end, way, bool(seed % 3), seed, int(rng.integers(2, 4)))
