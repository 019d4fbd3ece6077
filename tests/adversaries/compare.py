"""Compiled code against eager code: one function given as text, in value and derivatives, alone and inside one another.

For: the ways in which a function is transformed, and when two results are the same. Not for: making programs.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.compile import repeats, reroll
from dualad.errors import DualadError

from .cases import Case, Difference, Void

__all__ = ["TOLERANCE", "WAYS", "check_source", "compare", "is_taught", "named", "same", "settings", "source_case"]

#: what is asked of a function, by name: transforms of ``f``, and of the sum ``s`` of what it returns
WAYS = ("value", "grad", "jacfwd", "jacrev", "hessian", "vmap", "vmap of grad", "jvp")

#: words of what a program refuses and a call need not: steps that it does not know, branches and steps that the call
#: does not take but a program holds, and counters that it has as tensors
_REFUSED = (
    "met a while_loop in a traced program", "a write into a plain array", "a plain array was indexed",
    "of shape () and dtype int64 was given to np.array",
    "the branches return", "a carry has one dtype for all steps",
)  # fmt: skip

#: relative to the largest number of a result; a wrong transformation is off by far more than rounding
TOLERANCE = {"d": 1e-8, "D": 1e-8, "f": 2e-3, "F": 2e-3, "e": 2e-1}


@contextmanager
def settings(native: bool = True, least: int | None = None) -> Iterator[None]:
    """Run with machine code or without, and with short loops found again in programs longer than ``least``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_NATIVE", "1" if native else "0")
        if least is not None:
            patch.setattr(reroll, "_LONG", least)
            patch.setattr(repeats, "_LEAST", 4)
            patch.setattr(repeats, "_SAVED", 8)
        yield


def same(found: Any, expected: Any, what: str, tolerance: float | None = None, anything_for_nan: bool = False) -> None:
    """Raise ``Difference`` unless two results agree: structure, shapes, dtypes, NaN for NaN, numbers up to rounding.

    With ``anything_for_nan`` entries that are expected to be NaN may be anything.
    """
    a, tree = da.tree.flatten(found)
    b, other = da.tree.flatten(expected)
    if tree != other:
        raise Difference(f"{what}: a result of structure {tree}, not {other}")
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        place = what if len(a) == 1 else f"{what}, result {i}"
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape or x.dtype != y.dtype:
            raise Difference(f"{place}: {x.dtype}{x.shape}, not {y.dtype}{y.shape}")
        if y.dtype.kind not in "fc":
            if not np.array_equal(x, y):
                raise Difference(f"{place}: {x.ravel()[:5]}, not {y.ravel()[:5]}")
            continue
        bound = TOLERANCE.get(y.dtype.char, 1e-8) if tolerance is None else tolerance
        finite = np.isfinite(y)
        with np.errstate(all="ignore"):
            size = np.max(np.abs(y[finite]), initial=0.0)
            alike = (x == y) | (np.isnan(y) & (np.isnan(x) | anything_for_nan))
            wrong = np.where(finite, ~(np.abs(x - y) <= bound * (size + 1e-3)), ~alike)
        if np.any(wrong):
            k = int(np.argmax(wrong.ravel()))
            raise Difference(
                f"{place}: {np.count_nonzero(wrong)} of {wrong.size} entries, the first at "
                f"{tuple(map(int, np.unravel_index(k, y.shape)))}: {x.ravel()[k]!r}, not {y.ravel()[k]!r}"
            )


def is_taught(refusal: Exception) -> bool:
    """Return whether an error is a refusal in our words, or of a write into a number (NumPy: into a copy of it)."""
    return isinstance(refusal, DualadError) or "is a scalar, as in NumPy" in str(refusal)


def _total(f: Callable) -> Callable:
    """Return the function whose value is a sum of all that ``f`` returns, each entry with a weight of its own."""

    def total(*args: Any) -> Any:
        out = 0.0
        for leaf in da.tree.flatten(f(*args))[0]:
            if np.asarray(leaf).dtype.kind in "fc" if not hasattr(leaf, "dtype") else leaf.dtype.kind in "fc":
                weights = np.cos(np.arange(float(np.size(leaf)))).reshape(np.shape(leaf)) + 1.5
                out = out + np.sum(leaf * weights)
        return out

    return total


def _transform(way: str, args: Sequence) -> tuple[Callable, Callable]:
    """Return what a way does to a function, and which function of ``f`` it does it to."""
    places = tuple([i for i, a in enumerate(args) if np.asarray(a).dtype.kind == "f"])
    lanes = tuple([0 if i in places else None for i in range(len(args))])
    itself = lambda f: f
    if way == "value":
        return itself, itself
    if way == "jvp":
        push = lambda f: lambda *xs: da.jvp(f, xs, tuple([_tangent(x) for x in xs]))
        return push, itself
    if way == "vmap":
        return lambda f: da.vmap(f, in_axes=lanes), itself
    if way == "vmap of grad":
        return lambda s: da.vmap(da.grad(s, argnums=places), in_axes=lanes), _total
    if way in ("grad", "hessian"):
        return lambda s: getattr(da, way)(s, argnums=places), _total
    return lambda f: getattr(da, way)(f, argnums=places), itself


def _tangent(x: Any) -> Any:
    return np.cos(np.arange(float(np.size(x)))).reshape(np.shape(x)).astype(x.dtype) if x.dtype.kind == "f" else None


def _fresh(args: Sequence, way: str, again: bool) -> tuple:
    """Return arguments of a call: the next call's numbers are a little different, lanes are three of them."""
    change = lambda a, k: a + a.dtype.type(2.0**-7 * k) * np.abs(a) if a.dtype.kind == "f" and k else a.copy()
    if "vmap" in way:
        return tuple([np.stack([change(a, k + again) for k in range(3)]) if a.dtype.kind == "f" else a for a in args])
    return tuple([change(a, int(again)) for a in args])


def compare(f: Callable, args: Sequence, ways: Sequence[str] = WAYS, tolerance: float | None = None) -> None:
    """Raise ``Difference`` where a compiled function is not the eager one in some way: outside and inside, twice."""
    args = tuple([np.asarray(a) for a in args])
    for way in ways:
        transform, of = _transform(way, args)
        plain = transform(of(f))
        fast = [(f"jit of {way}" if way != "value" else "jit", da.jit(plain))]
        if way != "value":
            fast.append((f"{way} of jit", transform(of(da.jit(f)))))
        for again in (False, True):
            given = _fresh(args, way, again)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    expected = plain(*given)
                except Exception as error:
                    if way == "value":
                        raise Void from error
                    if isinstance(error, DualadError):
                        break  # refused in words, before anything is compiled
                    raise
            after = given
            for name, compiled in fast:
                given = _fresh(args, way, again)
                what = f"{name}, again" if again else name
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        found = compiled(*given)
                    except DualadError as error:
                        if any([words in str(error) for words in _REFUSED]):
                            continue
                        raise
                # Where the eager derivative is NaN it is no oracle: what is known to be zero in a program may be a
                # zero like any other on the way.
                same(found, expected, what, tolerance, anything_for_nan=way != "value")
                same(given, after, f"{what}: its arguments afterwards", tolerance)


def named(text: str, **names: Any) -> dict[str, Any]:
    """Return the names that a text defines; its functions have a source that ``inspect`` finds."""
    file = f"<adversary {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"np": np, "da": da, "__name__": file, **names}
    exec(compile(text, file, "exec"), space)
    return space


def check_source(
    text: str, ways: Sequence[str], native: bool = True, least: int | None = None, tolerance: float | None = None
) -> None:
    """Raise where the ``f`` of a text, called with its ``args``, is not the same compiled."""
    space = named(text)
    with settings(native, least):
        compare(space["f"], space["args"], ways, tolerance)


def source_case(name: str, text: str, ways: Sequence[str], **options: Any) -> Case:
    """Return the case of a text that defines ``f`` and ``args``; it shrinks to one way, then line by line."""

    def smaller() -> Iterator[Case]:
        if len(ways) > 1:
            for way in ways:
                yield source_case(name, text, (way,), **options)
        for shorter in _shorter(text):
            yield source_case(name, shorter, ways, **options)

    note = "".join([f", {k}={v}" for k, v in options.items() if v is not None])
    shown = f"{text.rstrip()}\n# {' | '.join(ways)}{note}\n"
    return Case(name, shown, lambda: check_source(text, ways, **options), smaller)


def _shorter(text: str) -> Iterator[str]:
    """Yield the texts with a line less (and what stands inside it); those that aren't Python or fail eagerly aren't."""
    lines = text.splitlines()
    inside = [len(line) - len(line.lstrip()) for line in lines]
    blocks = []
    for i, line in enumerate(lines):
        if not inside[i] or line.lstrip().startswith("return"):
            continue
        stop = i + 1
        while stop < len(lines) and inside[stop] > inside[i]:
            stop += 1
        blocks.append((i, stop))
    for i, stop in sorted(blocks, key=lambda b: b[0] - b[1]):
        shorter = "\n".join([*lines[:i], *lines[stop:]]) + "\n"
        try:
            space = named(shorter)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                space["f"](*[np.asarray(a).copy() for a in space["args"]])
        except Exception:
            continue
        yield shorter
