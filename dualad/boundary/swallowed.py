"""Refusals that somebody caught: a transform whose function goes on after one may differentiate another function.

``try: x = np.asarray(x, float)`` with an ``except TypeError`` that returns something else takes the other way under
every transform, and there only. So each refusal that is made while a function of the user's runs is noted, and when the
function returns all the same, the line that caught it is found and told. Code that catches our errors by their names
knows what it does and is left in peace. Not for: errors that leave the function (``boundary.py``).
"""

from __future__ import annotations

import importlib
import linecache
import sys
import warnings
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..base.frames import PACKAGE, is_users, user_level
from ..core.contexts import active
from ..errors import DualadError, noted

if TYPE_CHECKING:
    import ast

__all__ = ["RefusalSwallowedWarning", "Refusals"]

#: what compiled code calls on a tensor; it may drop what they raise, or raise something of its own in its place
_ASKED_BY_COMPILED_CODE = frozenset({"__array__", "__bool__", "__complex__", "__float__", "__index__", "__int__"})
_ITS_OWN = (TypeError, ValueError, IndexError, SystemError)
#: `with` blocks that are there to see the error
_EXPECTING = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_MOST_FRAMES = 30

#: file -> its syntax tree, for the few files in which something was caught
_trees: dict[str, Any] = {}


class RefusalSwallowedWarning(UserWarning):
    """A function caught a refusal and returned all the same: it may have computed another function than without.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import dualad as da
    >>> from dualad.boundary.swallowed import RefusalSwallowedWarning
    >>> def energy(x):
    ...     try:
    ...         return np.sum(np.asarray(x, float) ** 2)
    ...     except TypeError:
    ...         return 0.0 * np.sum(x)
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     slope = da.grad(energy)(np.ones(3))
    >>> [w.category is RefusalSwallowedWarning for w in seen]
    [True]
    """


class Refusals(list):
    """The refusals made while one function of the user's runs, each with the frames and lines it was made in."""

    __slots__ = ()

    def append(self, error: DualadError) -> None:
        """Note an error that is being made."""
        places, frame = [], sys._getframe(2)
        while frame is not None and len(places) < _MOST_FRAMES:
            if not frame.f_code.co_filename.startswith(PACKAGE):
                places.append((frame, frame.f_lineno))
            elif frame.f_code.co_name == "run" and places:
                break
            frame = frame.f_back
        super().append((error, places))

    def settle(self, returned: bool) -> None:
        """Tell of those that were caught, if the function has returned; if not, hand them to the one around it."""
        made = list(self)
        self.clear()  # an error's traceback may hold whoever holds this list
        if not returned:
            outer = noted.get()
            if outer is not None:
                outer.extend(made)
            return
        for error, places in made:
            caught = _caught_by(error, places)
            if caught is None:
                continue
            frame, line = next((p for p in places if is_users(p[0].f_code.co_filename)), places[0])
            message = (
                f"the function went on after a refusal, and what was computed may be another function than without the"
                f" transform.\n  Refused: {error.what.partition(chr(10))[0]}\n  At: {_shown(frame, line)}\n"
                f"  Caught: {caught}\n  Instead: {error.instead or error.why}"
            )
            if (watch := active()) is not None:
                watch.swallowed(message, error)
            warnings.warn(message, RefusalSwallowedWarning, stacklevel=user_level())
            return  # one is enough: what comes after the first is a consequence of it


def _shown(frame: FrameType, line: int) -> str:
    file = frame.f_code.co_filename
    return f"{file}:{line}: {linecache.getline(file, line).strip()}"


def _caught_by(error: DualadError, places: list[tuple[FrameType, int]]) -> str | None:
    """Say which line caught an error, or return ``None`` if nobody did who does not know our errors by name."""
    trace = error.__traceback__
    if trace is None or not places:
        return None  # made, and not raised
    frame = trace.tb_frame
    if not frame.f_code.co_filename.startswith(PACKAGE):
        line, by_name = _handler(frame, trace.tb_lineno, (type(error),)) or (trace.tb_lineno, False)
        return None if by_name else _shown(frame, line)
    if frame.f_code.co_name not in _ASKED_BY_COMPILED_CODE:
        return None  # caught by ourselves
    for frame, line in places:  # compiled code has dropped it; what it raised instead was caught somewhere above
        found = _handler(frame, line, _ITS_OWN)
        if found is not None:
            return None if found[1] else _shown(frame, found[0])
    return "by compiled code, which dropped it"


def _handler(frame: FrameType, line: int, kinds: tuple[type, ...]) -> tuple[int, bool] | None:
    """Return the line of the handler of errors raised at a line, and whether it knows that it handles ours."""
    ast = importlib.import_module("ast")  # only where something was caught: `import dualad` does without
    around = [
        node
        for node in ast.walk(_tree(ast, frame.f_code.co_filename))
        if isinstance(node, (ast.Try, ast.TryStar, ast.With))
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
    ]
    for node in sorted(around, key=lambda n: n.body[0].lineno, reverse=True):
        if isinstance(node, ast.With):
            inside = [n for item in node.items for n in ast.walk(item.context_expr)]
            named = [_value(ast, n, frame) for n in inside]
            if any(isinstance(kind, type) and issubclass(kind, BaseException) for kind in named):
                expected = not _EXPECTING.isdisjoint(getattr(n, "attr", getattr(n, "id", None)) for n in inside)
                return node.lineno, expected or any(_is_ours(kind) for kind in named)
            continue
        for handler in node.handlers:
            caught = _value(ast, handler.type, frame) if handler.type is not None else BaseException
            caught = caught if isinstance(caught, tuple) else (caught,)
            if any(not isinstance(c, type) or issubclass(kind, c) for c in caught for kind in kinds):
                return handler.lineno, any(_is_ours(kind) for kind in caught)
    return None


def _is_ours(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, DualadError)


def _tree(ast: Any, file: str) -> ast.AST:
    if file not in _trees:
        if len(_trees) > 50:
            _trees.clear()
        try:
            _trees[file] = ast.parse("".join(linecache.getlines(file)))
        except SyntaxError:  # a notebook's cell with magic words
            _trees[file] = ast.Module([], [])
    return _trees[file]


def _value(ast: Any, node: ast.AST, frame: FrameType) -> Any:
    """Return what names and tuples of names stand for in a frame; ``None`` where that can't be told."""
    if isinstance(node, ast.Tuple):
        return tuple([_value(ast, n, frame) for n in node.elts])
    if isinstance(node, ast.Attribute):
        return getattr(_value(ast, node.value, frame), node.attr, None)
    if isinstance(node, ast.Name):
        for scope in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if node.id in scope:
                return scope[node.id]
    return None
