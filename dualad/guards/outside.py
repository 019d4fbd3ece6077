"""What no guard can watch: files, clocks, other processes and machines, which code asks for by name.

For: ``asked_outside``, of the names in some code. Not for: iterators and generators of random
numbers, whose states can be compared (``places.py``).
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from .names import Named
from .places import MISSING

__all__ = ["asked_outside"]

#: modules of which everything asks for something, and functions of others
_MODULES = frozenset({"glob", "requests", "secrets", "shelve", "socket", "sqlite3", "subprocess", "urllib"})
_FUNCTIONS = frozenset({
    "_io.open", "builtins.input", "datetime.date.today", "datetime.datetime.now", "datetime.datetime.today",
    "datetime.datetime.utcnow", "genericpath.exists", "genericpath.getmtime", "genericpath.getsize",
    "genericpath.isdir", "genericpath.isfile", "io.open", "numpy.fromfile", "numpy.genfromtxt", "numpy.load",
    "numpy.loadtxt", "numpy.memmap", "posix.getcwd", "posix.getpid", "posix.listdir", "posix.scandir", "posix.stat",
    "posix.urandom", "time.localtime", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
    "time.perf_counter_ns", "time.process_time", "time.process_time_ns", "time.time", "time.time_ns", "uuid.uuid1",
    "uuid.uuid4",
})  # fmt: skip
#: methods of paths
_METHODS = ("read_bytes", "read_text", "iterdir")


def asked_outside(code: Named, namespace: dict, builtins: dict) -> Iterator[tuple[str, str]]:
    """Yield the names in some code that ask for something outside of the process, and their lines."""
    for chain, line in code.chains:
        first, *rest = chain.split(".")
        thing: Any = namespace.get(first, builtins.get(first, MISSING))
        if rest and rest[-1] in _METHODS:
            yield chain, line
            continue
        for name in rest:  # of modules and their classes only: others may answer anything
            asked = isinstance(thing, types.ModuleType) or (isinstance(thing, type) and thing.__module__ == "datetime")
            thing = getattr(thing, name, MISSING) if asked else MISSING
        module = getattr(thing, "__module__", None) if isinstance(thing, _CALLABLE) else None
        if module is None and isinstance(getattr(thing, "__self__", None), type):
            module = thing.__self__.__module__
        full = "posix" if module == "nt" else str(module)
        if full.partition(".")[0] in _MODULES or f"{full}.{getattr(thing, '__qualname__', '')}" in _FUNCTIONS:
            yield chain, line


_CALLABLE = (types.FunctionType, types.BuiltinFunctionType, type)
