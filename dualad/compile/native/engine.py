"""LLVM through llvmlite: whether it can be used here, and the text of functions to their addresses.

For: compiling and linking, and the functions that compiled code calls (mathematics, the platform's library, three of
CPython's), each given by its address; no state of LLVM's that the process shares is touched.
Not for: writing the text (``code.py``), or its meaning.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import importlib
import math
import os
import platform
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.frames import user_level
from ...base.version import __version__
from ...errors import PerformanceNote
from .apart import Apart, LostError
from .bounds import Entry, check
from .code import PYTHON, WIDTH, Code, Lanes
from .foreign import CALLED, address_of
from .lanes import may_misread
from .maths import FAR, FUNCTIONS, arity
from .store import Store, name_of

__all__ = [
    "Engine",
    "Linked",
    "Tally",
    "configured",
    "engine",
    "maths_text",
    "note_once",
    "tally",
    "why_not",
]

#: the attributes that make LLVM halve vectors of 512 bits, and the line that they belong to
_HALVED = '"prefer-vector-width"="256" "min-legal-vector-width"="0"'
_HEAD = re.compile(r"^(define .*) \{$", re.MULTILINE)
#: the end of the name of a mathematical function for modules in which vectors are halved: they are called otherwise
_OF_HALVES = "_halved"
#: lines of a module that LLVM is given in another process: to start that takes as long as LLVM does about these
_LONG = 2_500


class Linked:
    """Compiled functions: addresses by name, good for as long as this object lives."""

    __slots__ = ("_drop", "_number", "addresses")

    def __init__(self, addresses: dict[str, int], number: int, drop: Callable[[int], None]) -> None:
        self.addresses, self._number, self._drop = addresses, number, drop

    def __del__(self) -> None:
        self._drop(self._number)


class Tally(NamedTuple):
    """How many functions a thread has had LLVM compile, how many it has read from the disk, and the seconds of both."""

    compiled: int = 0
    read: int = 0
    seconds: float = 0.0

    def since(self, before: Tally) -> Tally:
        return Tally(self.compiled - before.compiled, self.read - before.read, self.seconds - before.seconds)


_mine = threading.local()

#: held by the one thread that uses LLVM, and by the one that forks: a process does not begin in the middle of a
#: compilation that none of its threads would end
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def tally() -> Tally:
    """Return the counts of this thread's compilations so far."""
    return getattr(_mine, "tally", Tally())


class Engine:
    """The compiler for the processor that this process runs on."""

    def __init__(self) -> None:
        self._llvm: Any = importlib.import_module("llvmlite.binding")
        llvm = self._llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._cpu, self._features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        #: its name, for reports
        self.processor = self._cpu
        self._machines: dict[int, Any] = {}
        #: what compiled code depends on besides its text
        self._about = (
            __version__, np.__version__, importlib.import_module("llvmlite").__version__, str(llvm.llvm_version_info),
            sys.version, str(sys.implementation.cache_tag), llvm.get_default_triple(), self._cpu, self._features,
        )  # fmt: skip
        self._jit = llvm.create_lljit_compiler(self._machine(1))
        self.store, self._apart = Store(), Apart()
        #: names of modules that LLVM has died of
        self._lost: set[str] = set()
        self._count = 0
        #: what LLVM has of each piece of code. Only here: the garbage collector, which any thread may run at any time,
        #: would free what it finds in a cycle with what refers to the code, without the lock
        self._trackers: dict[int, Any] = {}
        self._dropped: list[int] = []
        self._maths: list[Linked] = []
        self._library = _platform_library()
        self._known = {name: _address(getattr(ctypes.pythonapi, name)) for name in PYTHON}

    def _probe(self) -> int:
        """Compile and run a function that returns 42."""
        linked = self.compile("define i32 @probe() {\nstart:\n  ret i32 42\n}", ["probe"], {}, 1)
        return ctypes.CFUNCTYPE(ctypes.c_int)(linked.addresses["probe"])()

    def _machine(self, level: int) -> Any:
        machine = self._machines.get(level)
        if machine is None:
            target = self._llvm.Target.from_default_triple()
            machine = self._machines[level] = target.create_target_machine(
                cpu=self._cpu, features=self._features, opt=level, jit=True
            )
        return machine

    def compile(
        self,
        text: str,
        exports: list[str],
        objects: dict[str, int],
        level: int,
        entries: Sequence[Entry] = (),
        apart: bool = False,
    ) -> Linked:
        """Compile a module of LLVM's assembly language, and return the addresses of its ``exports``.

        It refers to the Python ``objects`` at these addresses. ``level`` is how much LLVM does about the code: 1 to 3,
        which others use every day, for all that depends on programs. ``entries`` are what functions are called with, if
        they compute: each access is proven to be in bounds before LLVM gets the text. Code is named by the text and
        this, so that what has been kept has been proven. ``apart`` lets LLVM work in another process, as it does for
        long modules.
        """
        start, before = time.perf_counter(), tally()
        text = configured(text, self._features)
        text = f"; {list(entries)}\n{text}" if entries else text
        name = name_of(*self._about, str(level), text)
        with _LOCK:
            linked = self._read(name, exports, objects)
        read = linked is not None
        if linked is None:
            apart = apart or text.count("\n") > _LONG
            if apart and name not in self._lost:
                self._apart.begin()  # which takes as long as the proof
            if entries:
                check(text, entries)
            made = self._made_apart(name, text, level) if apart else None
            with _LOCK:
                linked = self._link_new(name, made or self._made(text, level), exports, objects)
        mathematics = tally().since(before)  # which is compiled when it is first asked for
        seconds = before.seconds + time.perf_counter() - start
        _mine.tally = Tally(
            before.compiled + mathematics.compiled + (not read), before.read + mathematics.read + read, seconds
        )
        return linked

    def _made(self, text: str, level: int) -> tuple[list[str], bytes]:
        """Return the names that a module refers to, and its object code."""
        module = self._llvm.parse_assembly(text)
        module.verify()
        needed = [v.name for v in (*module.functions, *module.global_variables) if v.is_declaration]
        return needed, self._machine(level).emit_object(module)

    def _made_apart(self, name: str, text: str, level: int) -> tuple[list[str], bytes] | None:
        """Return the same from another process; None where there can be none."""
        if name in self._lost:
            raise LostError("LLVM has not survived this before")
        try:
            return self._apart.emit(self._cpu, self._features, text, level)
        except LostError as error:
            self._lost.add(name)
            message = (
                f"jit: LLVM could not compile a function of {text.count(chr(10))} lines ({error}); what it computes is"
                " left to Python and NumPy. It was a process of its own: nothing else is lost. Please report it"
            )
            warnings.warn(message, PerformanceNote, stacklevel=user_level())
            raise

    def _link_new(
        self, name: str, made: tuple[list[str], bytes], exports: list[str], objects: dict[str, int]
    ) -> Linked:
        needed, image = made
        imports = self._find([n for n in needed if not n.startswith("llvm.")], objects)
        linked = self._link(image, exports, imports)
        self.store.write(name, list(imports), image)
        return linked

    def _read(self, name: str, exports: list[str], objects: dict[str, int]) -> Linked | None:
        """Return code that another process has compiled, linked at the addresses of this one."""
        found = self.store.read(name)
        if found is None:
            return None
        try:
            return self._link(found[1], exports, self._find(found[0], objects))
        except RuntimeError:
            return None

    def _link(self, image: bytes, exports: list[str], imports: dict[str, int]) -> Linked:
        builder = self._llvm.JITLibraryBuilder().add_object_img(image)
        # What LLVM itself may make calls of.
        for name in ("memcpy", "memset", "memmove"):
            builder.import_symbol(name, _address(getattr(self._library, name)))
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        self._count += 1
        tracker = builder.link(self._jit, f"dualad{self._count}")
        linked = Linked({name: tracker[name] for name in exports}, self._count, self._drop)
        self._trackers[self._count] = tracker
        return linked

    def _drop(self, number: int) -> None:
        """Free code, now or with the next that is freed: LLVM is used by one thread, and by none during a fork."""
        self._dropped.append(number)
        if _LOCK.acquire(blocking=False):
            try:
                while self._dropped:
                    del self._trackers[self._dropped.pop()]
            finally:
                _LOCK.release()

    def _find(self, names: Sequence[str], objects: dict[str, int]) -> dict[str, int]:
        """Return the addresses of what code refers to."""
        missing = [n for n in names if n.startswith("m_") and n not in self._known]
        for halved in (False, True):
            self._mathematics([n for n in missing if n.endswith(_OF_HALVES) == halved])
        for name in names:
            if name in CALLED and (address := address_of(name)):
                self._known[name] = address
            if name.startswith("lib_") and name not in self._known:
                self._known[name] = _address(getattr(self._library, name[4:]))
        found = {n: objects.get(n) or self._known.get(n) for n in names}
        if None in found.values():
            raise RuntimeError(f"compiled code refers to {[n for n in names if found[n] is None]}, which is not known")
        return found  # type: ignore[return-value]

    def _mathematics(self, names: list[str]) -> None:
        """Compile mathematical functions in one module, which costs LLVM little more than one function does."""
        lines: dict[str, list[str]] = {}
        for name in names:
            plain = name.removesuffix(_OF_HALVES)
            kernel, _, width = plain[2:].rpartition("_")
            lines[name] = maths_text(kernel, int(width)).replace(f"@{plain}(", f"@{name}(").split("\n")
        declared = dict.fromkeys([x for text in lines.values() for x in text if x.startswith("declare ")])
        text = "\n".join([*declared, *[x for text in lines.values() for x in text if x not in declared]])
        if len(names) > 1 and any([f"@{n}(" not in configured(text, self._features) for n in names]):
            for name in names:
                self._mathematics([name])
        elif names:
            linked = self.compile(text, names, {}, 2)
            self._maths += [linked]
            self._known |= linked.addresses


def configured(text: str, features: str) -> str:
    """Return a module as LLVM is to compile it for a processor with these features.

    With AVX-512 a module of which LLVM may get lanes wrong (``lanes.py``) says what C compilers write for most
    functions: vectors are at most 256 bits long, and longer ones are halved.
    """
    if "+avx512f" not in features:
        return text
    if f"{_OF_HALVES}(" not in text and not any([may_misread(function) for function in text.split("\ndefine ")]):
        return text
    return _HEAD.sub(rf"\1 {_HALVED} {{", re.sub(rf"@(m_\w+_{WIDTH})\(", rf"@\1{_OF_HALVES}(", text))


def maths_text(kernel: str, width: int) -> str:
    """Return a module with one mathematical function of vectors."""
    code = Code()
    b = Lanes(code, np.dtype(float), width)
    function = FUNCTIONS[kernel]
    arguments = [f"%x{i}" for i in range(arity(kernel))]
    if callable(function):
        result = function(b, *arguments)
        if kernel in ("sin", "cos"):
            result = _with_far(code, b, kernel, arguments[0], result)
    else:
        result = by_lanes(b, function[0], arguments)
        if kernel == "gammaln":  # SciPy's is -inf there, and C's is inf
            result = b.select(b.compare("oeq", arguments[0], -math.inf), -math.inf, result)
    given = ", ".join([f"{b.type} {a}" for a in arguments])
    return code.function(f"{b.type} @m_{kernel}_{width}({given})", f"{b.type} {result}")


def by_lanes(b: Lanes, name: str, args: list[str]) -> str:
    """Call a function of the platform's library for each lane."""
    code = b.code
    code.declare(f"@lib_{name}", f"declare double @lib_{name}({', '.join(['double'] * len(args))})")
    out = []
    for i in range(b.width):
        given = ", ".join([f"double {b.at(a, i)}" for a in args])
        out.append(code.new(f"call double @lib_{name}({given})"))
    return b.joined(out)


def _with_far(code: Code, b: Lanes, kernel: str, x: str, near: str) -> str:
    """Ask the platform's library for the lanes that are too far from zero."""
    far = b.compare("ogt", b.call("fabs", x), FAR)
    before, some = code.block, b.any(far)
    with code.when(some):
        slow, asked = code.block, b.select(far, by_lanes(b, kernel, [x]), near)
    return code.new(f"phi {b.type} [{near}, %{before}], [{asked}, %{slow}]")


def _platform_library() -> ctypes.CDLL:
    """Return the library with C's mathematics; glibc's by name, for a search takes a process of its own."""
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            return ctypes.CDLL("libm.so.6")
    return ctypes.CDLL(ctypes.util.find_library("m" if os.name != "nt" else "ucrtbase"))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


# ── whether it is there ──────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def _made() -> tuple[Engine | None, str]:
    if sys.implementation.name != "cpython":
        return None, "this is not CPython"
    try:
        with _LOCK:
            found = Engine()
            answer = found._probe()
        if answer != 42:
            return None, "a function that LLVM compiled does not do what it should"
    except ImportError:
        return None, "llvmlite is not installed: pip install 'dualad[jit]'"
    except Exception as error:  # LLVM or a table that is not as expected: Python and NumPy do it all
        return None, f"llvmlite does not work here ({type(error).__name__}: {error})"
    if "+fma" not in found._features and platform.machine().lower() in ("x86_64", "amd64"):
        return None, "this processor has no fused multiply-add"
    return found, ""


def engine() -> Engine | None:
    """Return the engine, or None where there is none or ``DUALAD_NATIVE=0`` says that none is wanted."""
    return None if os.environ.get("DUALAD_NATIVE") == "0" else _made()[0]


def note_once() -> None:
    """Tell once why there is no machine code, unless that was asked for."""
    reason = "" if os.environ.get("DUALAD_NATIVE") == "0" else _made()[1]
    if reason and not _told:
        _told.append(reason)
        warnings.warn(
            f"jit: compiled functions are Python and NumPy source here: {reason}",
            PerformanceNote,
            stacklevel=user_level(),
        )


_told: list[str] = []


def why_not() -> str:
    """Say why there is no engine; nothing if there is one."""
    return "DUALAD_NATIVE=0 is set" if os.environ.get("DUALAD_NATIVE") == "0" else _made()[1]
