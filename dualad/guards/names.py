"""Names in code: the globals that it loads, the attributes that it may read, and those that it may find missing.

For: ``named``, of one code object and those inside of it, and ``asked_outside``: which of the names ask for what no
guard can watch, files, clocks, other processes and machines. Not for: what the names stand for (``reach.py``).
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from .places import MISSING

__all__ = ["MAKING", "NOTHING_NAMED", "Named", "asked_outside", "named"]


class Named(NamedTuple):
    """The names in some code.

    ``attributes`` are all that may be read of an object; those in ``maybe`` may be missing where they are asked for,
    without an error. ``chains`` are names with dots that begin with a global, and their lines. ``every`` says that any
    attribute may be read, by a name that the code makes; ``converts`` that numbers of NumPy's may become Python's, or
    be branched on: a program does not show what they become. ``catches`` that exceptions may be caught, so
    that any name may be missing. ``delegates`` that a ``__getattr__`` asks for what it was asked for: names in the code
    where Python calls it, any name where other code does.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    maybe: frozenset[str]
    modules: frozenset[str]
    chains: frozenset[tuple[str, str]]
    every: bool
    converts: bool
    catches: bool
    delegates: bool

    def __or__(self, other: Named) -> Named:
        return Named(*[a | b for a, b in zip(self, other, strict=True)])  # type: ignore[operator]


NOTHING_NAMED = Named(frozenset(), frozenset(), frozenset(), frozenset(), frozenset(), False, False, False, False)

#: methods that make an object
MAKING = frozenset({"__init__", "__new__", "__post_init__"})
_LOADS, _PARTS = ("LOAD_GLOBAL", "LOAD_NAME"), ("LOAD_ATTR", "LOAD_METHOD")
#: what takes the name of an attribute, and is precise if that is a constant
_BY_NAME = frozenset({"getattr", "hasattr", "setattr", "delattr"})
#: what looks at all attributes of an object
_ALL = frozenset({
    "__dict__", "__getattribute__", "__getstate__", "__reduce__", "__reduce_ex__", "asdict", "astuple", "attrgetter",
    "deepcopy", "dir", "eval", "exec", "getmembers", "methodcaller", "vars",
})  # fmt: skip
#: what takes entries of arrays one by one, or decides by them
_CONVERTING = ("BINARY_S", "COMPARE", "CONTAINS", "FORMAT", "GET_ITER", "MATCH", "POP_JUMP", "UNARY_NOT", "UNPACK")
_CONVERSIONS = frozenset({"__array__", "flat", "item", "tobytes", "tolist"})


@functools.lru_cache(maxsize=4000)
def named(code: types.CodeType) -> Named:
    """Return the names in a function's code and in the functions inside it."""
    loaded, stored, modules, every = set(), set(), set(), not _ALL.isdisjoint(code.co_names)
    chains, chain, line, delegates = set(), "", 0, False
    made = {"setattr", "delattr"} if code.co_name in MAKING else set()  # of an object that nobody has yet
    instructions = list(dis.get_instructions(code))
    converts = not _CONVERSIONS.isdisjoint(code.co_names) or any(
        [i.opname.startswith(_CONVERTING) or "JUMP_IF" in i.opname for i in instructions]
    )
    for k, i in enumerate(instructions):
        line = i.starts_line if type(i.starts_line) is int else getattr(i, "line_number", None) or line
        chain = i.argval if i.opname in _LOADS else f"{chain}.{i.argval}" if chain and i.opname in _PARTS else ""
        if chain:
            chains.add((chain, f"{code.co_filename}:{line}"))
        if i.opname in _LOADS:
            loaded.add(i.argval)
            if i.argval in _BY_NAME - made and not _has_known_name(instructions[k + 1 :], None):
                asked = _name_parameter(code, instructions)
                delegates = delegates or asked is not None
                every = every or asked is None or not _has_known_name(instructions[k + 1 :], asked)
        elif i.opname == "STORE_ATTR":
            stored.add(i.argval)
        elif i.opname == "IMPORT_NAME":
            modules.add(i.argval)
        elif i.opname == "MATCH_CLASS":
            every = True
    texts = {part for text in _texts(code.co_consts) for part in text.split(".") if part.isidentifier()}
    own = Named(
        frozenset(loaded), frozenset({*code.co_names, *texts}), frozenset({*texts, *stored}),
        frozenset(modules), frozenset(chains), every, converts, bool(code.co_exceptiontable),
        delegates,
    )  # fmt: skip
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            own |= named(constant)
    return own


def _texts(constants: object) -> Iterator[str]:
    for x in constants if isinstance(constants, (tuple, frozenset)) else ():
        if isinstance(x, str):
            yield x
        else:
            yield from _texts(x)


def _name_parameter(code: types.CodeType, instructions: list[dis.Instruction]) -> str | None:
    """Return the parameter of ``__getattr__`` that is the name which was asked for, if it stays that."""
    if code.co_name != "__getattr__" or code.co_argcount != 2:
        return None
    name = code.co_varnames[1]
    return None if any([i.opname != "LOAD_FAST" and i.argval == name for i in instructions]) else name


def _has_known_name(rest: list[dis.Instruction], asked: str | None) -> bool:
    """Whether instructions behind the load of ``getattr`` go on as ``(o, "name", ...)``, or ask for the parameter."""
    depth, known = 0, False
    for i in rest:
        if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
            return False
        if i.opname in ("PRECALL", "CALL") and depth == i.arg:
            return known
        if i.opname == "PUSH_NULL" and not depth:
            continue
        before, depth = depth, depth + dis.stack_effect(i.opcode, i.arg, jump=False)
        if depth == 2:  # the name is there, for now
            wanted = i.opname == "LOAD_CONST" if asked is None else i.opname == "LOAD_FAST" and i.argval == asked
            known = before == 1 and wanted
        elif depth < 2:
            known = False
    return False


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
