"""The value that a transform computed beside the value of a plain call, and why they differ where they do.

Whatever makes a function take another way under a transform than without (a type test, a caught refusal, random
numbers) shows in its value, unless by chance. ``difference`` compares; where it finds something it runs both ways once
more, traced, and names the line at which they part and which of the known reasons it looks like. ``value_check`` asks
it of what stands in the tensors that a transform gives its function. Not for: other askers (``explain``, ``testing/``).
"""

from __future__ import annotations

import linecache
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree

from ..base.frames import is_users
from ..base.tree import NAMESPACE, flatten, is_array, tree_map
from ..batched import Batched
from ..boundary.swallowed import RefusalSwallowedWarning
from ..core.contexts import watching
from ..core.tracer import Tracer
from ..dual import Dual
from ..errors import DifferentValueError
from ..memory.memory import flush_writes
from ..surface.arguments import operand

__all__ = ["Difference", "both_ways", "copied", "difference", "pack_leaf", "value_check"]

_MOST_STEPS = 1_000_000


class Difference(NamedTuple):
    """Two values of one function: ``what`` differs, the ``reason`` it looks like, at which ``line``, what to write."""

    what: str
    reason: str
    line: str
    instead: str

    def __str__(self) -> str:
        return f"{self.what}\n  Looks like: {self.reason}{f', at {self.line}' if self.line else ''}"

    def error(self, where: str) -> DifferentValueError:
        """Make the error for it."""
        return DifferentValueError(f"{where}: {self}", "a derivative of other code is no derivative", self.instead)


def copied(tree: Any) -> Any:
    """Return a tree with arrays of its own, for a function that may write to its arguments."""
    leaves, treedef = flatten(tree)
    return treedef.unflatten([np.array(x, subok=True) if isinstance(x, np.ndarray) else x for x in leaves])


def pack_leaf(x: Any) -> Any:
    """Return a leaf of a function's result as one array or tensor, to which all has been written."""
    return flush_writes(operand(x) if isinstance(x, np.ndarray) and x.dtype == object else x)


def difference(plain: Callable[[], Any], value: Any, again: Callable[[], Any]) -> Difference | None:
    """Compare a function's plain value with the one a transform computed; ``None`` where they agree, up to rounding.

    ``plain`` calls the function on plain arrays, on fresh copies each time; ``again`` runs it once more as the
    transform does, so that the two ways can be followed.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = plain()
        what = _unlike(expected, value)
        if not what:
            return None
        if _unlike(expected, plain()):
            return Difference(
                what, "random numbers, or a state that each call changes", "",
                "draw the random numbers outside and pass them as an argument, or make the generator from a seed inside"
                " the function; under vmap say randomness=",
            )  # fmt: skip
        told = _refusal(again)
        if told is not None:
            return told._replace(what=what)
        place = _divergence(_path(plain), _path(again))
    if place is None:
        return Difference(
            what, "an operation that computes something else on tensors: the same lines ran", "",
            "look at rules of your own (dualad.testing.check_rule), at objects of other libraries and at np.asarray;"
            " with none of these, please report it",
        )  # fmt: skip
    file, line = place
    source = linecache.getline(file, line).strip()
    reason, instead = next(((r, i) for pattern, r, i in _KNOWN if pattern.search(source)), _OTHER)
    return Difference(what, reason, f"{file}:{line}: {source}", instead)


_LIFT = "dualad.lift(f, modules=[...]), in which code that f reaches by no name is answered as without a transform"
_KNOWN = [
    (re.compile(r"isinstance|issubclass|\btype\s*\("), "a type test that a tensor does not pass", _LIFT),
    (
        re.compile(r"isscalar|hasattr|iterable|Iterable|Sequence|Number|callable|__len__|\blen\s*\("),
        "a question about what kind of object it is",
        f"np.ndim(x) == 0 in place of np.isscalar(x), or {_LIFT}",
    ),
    (
        re.compile(r"dtype|\.kind|issubdtype|isrealobj|iscomplexobj|\.flags|\.base\b|\.strides|shares_memory"),
        "a question about the dtype or the memory of np.asarray(x)",
        f"x.dtype of the tensor itself, or {_LIFT}",
    ),
    (re.compile(r"\b(asarray|array|float|int|complex)\s*\("), "a conversion", _LIFT),
]
_OTHER = (
    "a branch that went another way",
    "what a tensor can't answer as an array does, dualad.lift(f, modules=[...]) may",
)


def _unlike(expected: Any, value: Any) -> str:
    """Say how two values differ, by more than rounding; nothing if they don't."""
    a, b = [[x for x in flatten(tree)[0] if is_array(x)] for tree in (expected, value)]
    if len(a) != len(b):
        return f"the function returns {len(a)} arrays, and {len(b)} under the transform."
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        name = "the value" if len(a) == 1 else f"result {i}"
        if x.shape != y.shape:
            return f"{name} has shape {x.shape}, and {y.shape} under the transform."
        if x.dtype.kind not in "biufc" or y.dtype.kind not in "biufc":
            continue
        kinds = [d for d in (x.dtype, y.dtype) if d.kind in "fc"]
        rounding = max([float(np.finfo(d).eps) ** 0.5 for d in kinds], default=0.0)
        size = float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))
        wrong = ~np.isclose(y, x, rtol=rounding, atol=rounding * size, equal_nan=True)
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            entry = f"{name}{list(at) if at else ''}"
            return f"{entry} is {x[at]:.6g}, and {y[at]:.6g} under the transform."
    return ""


def _refusal(again: Callable[[], Any]) -> Difference | None:
    """Return the difference that a refusal made which the function caught, if there was one."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            again()
        except Exception:  # what it raises is not the question here
            return None
    for warning in seen:
        if issubclass(warning.category, RefusalSwallowedWarning):
            said = dict(line.strip().partition(": ")[::2] for line in str(warning.message).splitlines()[1:])
            return Difference("", "a refusal that the function caught", said.get("At", ""), said.get("Instead", ""))
    return None


# ── the two ways ─────────────────────────────────────────────────────────────────────────────────────────────────


def _path(run: Callable[[], Any]) -> list[tuple[Any, int, int]]:
    """Run a function and return the instructions of the user's code that it went through: code, offset, line."""
    steps: list[tuple[Any, int, int]] = []

    def within(frame, event, arg):
        if event == "opcode" and len(steps) < _MOST_STEPS:
            steps.append((frame.f_code, frame.f_lasti, frame.f_lineno))
        return within

    def entering(frame, event, arg):
        if not is_users(frame.f_code.co_filename) or len(steps) >= _MOST_STEPS:
            return None
        frame.f_trace_opcodes = True
        return within

    before = sys.gettrace()  # a debugger's, or one that measures coverage
    sys.settrace(entering)
    try:
        run()
    except Exception:  # where it stopped is part of the way
        pass
    finally:
        sys.settrace(before)
    return steps


def _divergence(one: list, other: list) -> tuple[str, int] | None:
    """Return file and line of the last instruction that two ways have in common, if they part."""
    # Code that ran on one of them only was called by what parts them, or by nobody here: a rule, a callback of gc.
    both = {code for code, _, _ in one} & {code for code, _, _ in other}
    one, other = [[step for step in steps if step[0] in both] for steps in (one, other)]
    last = None
    for a, b in zip(one, other, strict=False):
        if a[:2] != b[:2]:
            break
        last = a
    else:
        if len(one) == len(other):
            return None
    return None if last is None else (last[0].co_filename, last[2])


# ── debug(values=True) ───────────────────────────────────────────────────────────────────────────────────────────


def value_check(f: Callable, args: tuple, kwargs: dict) -> Callable[[Any], None] | None:
    """Return a function that compares the result of a call with a plain one; ``None`` where values are not known."""
    leaves, treedef = flatten((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, Tracer)]
    if not tensors:
        return None
    level = tensors[0].level
    plain = [_plain(x) for x in leaves]
    if any([isinstance(x, Tracer) for x in plain]) or any([x.level is not level for x in tensors]):
        return None  # variables of a program, or tensors of several transforms
    lanes = level.size if any([type(x) is Batched for x in tensors]) else None
    mapped = [type(x) is Batched for x in leaves]

    def once(values: list) -> Any:
        call_args, call_kwargs = copied(treedef.unflatten(values))
        return f(*call_args, **call_kwargs)

    def without() -> Any:
        if lanes is None:
            return once(plain)
        results = [once([x[i] if m else x for x, m in zip(plain, mapped, strict=True)]) for i in range(lanes)]
        return optree.tree_map(lambda *parts: np.stack(parts), *results, namespace=NAMESPACE)

    def shown(out: Any) -> Any:
        values, tree = flatten(tree_map(pack_leaf, out))
        if lanes is not None:
            values = [_plain(x) if type(x) is Batched else np.broadcast_to(x, (lanes, *np.shape(x))) for x in values]
        return tree.unflatten([_plain(x) for x in values])

    given: Any = treedef.unflatten([np.copy(x) if isinstance(x, Tracer) else x for x in leaves])

    def again() -> Any:
        return f(*given[0], **given[1])

    def look(out: Any) -> None:
        if lanes == 0:
            return
        token = watching.set(None)
        try:
            apart = difference(without, shown(out), again)
        finally:
            watching.reset(token)
        if apart is not None:
            raise apart.error(f"{level.transform}({getattr(f, '__name__', type(f).__name__)})")

    return look


def both_ways(compiled: Callable, f: Callable, args: tuple, kwargs: dict) -> tuple[Any, Any, str]:
    """Return a compiled function's results, unwatched, the function's own, and how they differ."""
    leaves, tree = flatten((args, kwargs))
    given: Any = tree.unflatten([np.copy(x) if isinstance(x, (np.ndarray, Tracer)) else x for x in leaves])
    plain = f(*args, **kwargs)
    token = watching.set(None)
    try:
        out = compiled(*given[0], **given[1])
    finally:
        watching.reset(token)
    shown = [dict(_numbers(flatten(tree_map(pack_leaf, x))[0])) for x in (plain, out)]
    both = sorted(shown[0].keys() & shown[1].keys())
    expected, found = [[numbers[k] for k in both if shown[0][k].shape == shown[1][k].shape] for numbers in shown]
    return out, plain, _unlike(expected, found).replace("under the transform", "compiled")


def _numbers(leaves: Sequence, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays that leaves hold, values and tangents in all lanes, each with a name."""
    for i, x in enumerate(leaves):
        if type(x) is Dual:
            yield from _numbers([x._primal], f"{path}{i} value ")
            yield from _numbers([x._tangent], f"{path}{i} tangent ")
        elif type(x) is Batched:
            yield from _numbers([x._value], f"{path}{i} lanes ")
        elif is_array(x) and not isinstance(x, Tracer):
            yield f"{path}{i}", np.asarray(x)


def _plain(x: Any) -> Any:
    if type(x) is Dual:
        return x._primal
    return x._value if type(x) is Batched else x
