"""The tables through which a NumPy callable finds its meaning; empty here, filled by higher floors.

For: the tracer, which must look up ``np.sin`` without importing its rule. Not for: any entry.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from ..errors import DeclarationError

__all__ = ["CREATION", "FUNCTIONS", "LIBRARIES", "Library", "OPS", "UFUNCS", "VERDICTS", "Verdict", "register"]


class Verdict(NamedTuple):
    """The support of a NumPy or SciPy name.

    ``kind`` is one of ``op``, ``composite``, ``metadata``, ``unsupported``; ``reason`` and ``instead`` speak to the
    user of an unsupported name.
    """

    kind: str
    reason: str = ""
    instead: str = ""


class Library(NamedTuple):
    """The hooks of a library.

    ``run(op, args, params, how, what)`` writes an operator into the graph of its lazy arrays, ``how`` as
    ``Primitive.blocks``, and ``what`` the operator in words; ``words`` say how a lazy array is computed.
    ``as_array(tensor, frame)`` is what ``np.asarray`` gives of a tensor to its code that runs in a frame; it may raise,
    or return None for what everybody gets.
    """

    run: Callable | None = None
    words: str = ""
    as_array: Callable[[Any, FrameType], Any] | None = None


#: every declared operator, by name
OPS: dict[str, Any] = {}
#: ufunc -> operator, for calls without keywords
UFUNCS: dict[Callable, Any] = {}
#: NumPy array function -> handler with NumPy's own signature
FUNCTIONS: dict[Callable, Callable] = {}
#: NumPy function with the keyword like= -> handler(like, *args, **kwargs) for its calls that have it
CREATION: dict[Callable, Callable] = {}
#: NumPy callable -> its verdict
VERDICTS: dict[Callable, Verdict] = {}
#: name of a package, none of which is imported to be known -> its hooks
LIBRARIES: dict[str, Library] = {}


def register(table: dict[Callable, Any], function: Callable, entry: Any, kind: str) -> None:
    """Give a NumPy callable its meaning and its verdict; a second meaning would be one that import order chooses."""
    for known in (UFUNCS, FUNCTIONS) if table is not CREATION else (CREATION,):
        if function in known:
            raise DeclarationError(
                f"{getattr(function, '__module__', 'the ufunc')}.{function.__name__} has two meanings.",
                f"it means {known[function]!r} and would mean {entry!r} too, whichever is imported last",
                "keep one of them",
            )
    table[function] = entry
    VERDICTS[function] = Verdict(kind)
