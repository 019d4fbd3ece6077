"""Machine code under AddressSanitizer: its runtime is asked about the memory of each load and store.

    LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 python -m tests.adversaries numpy_calls

llvmlite's pass builder has no pass of AddressSanitizer's. What that pass writes for a module with many accesses is a
call before each of them (``-asan-instrumentation-with-call-threshold=0``), and calls are text. Where the runtime is
preloaded, the adversaries' workers write them, after the bounds of every access have been proven: a proof that is
wrong meets the zones around NumPy's arrays. For: loads, stores and ``memset`` of what LLVM gets. Not for: memory on
the stack, and reads of what was never written.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable

from dualad.compile.native.engine import Engine, engine

__all__ = ["asked", "install", "is_preloaded"]

_CALLS = ("__asan_loadN", "__asan_storeN")
_BYTES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
_VECTOR = r"<(?P<n>\d+) x (?P<part>\w+)>"
_LOAD = re.compile(rf"^ *%\S+ = load (?P<type>{_VECTOR}|\w+), ptr (?P<at>[%@][\w.]+)")
_STORE = re.compile(rf"^ *store (?P<type>{_VECTOR}|\w+) .*, ptr (?P<at>[%@][\w.]+)(, align \d+)?$")
_SET = re.compile(r"^ *call void @llvm\.memset\.p0\.i64\(ptr (?P<at>[%@][\w.]+), i8 \S+, i64 (?P<size>\S+), ")


def is_preloaded() -> bool:
    """Return whether AddressSanitizer's runtime is in this process."""
    return all([hasattr(ctypes.CDLL(None), name) for name in _CALLS])


def _size(found: re.Match) -> int:
    count, kind = (int(found["n"]), found["part"]) if found["n"] else (1, found["type"])
    return -(-count // 8) if kind == "i1" else count * _BYTES[kind]


def asked(text: str) -> str:
    """Return a module that asks before each access.

    Examples
    --------
    >>> print(asked("  %1 = load <4 x double>, ptr %x, align 8"))
      call void @__asan_loadN(ptr %x, i64 32)
      %1 = load <4 x double>, ptr %x, align 8
    declare void @__asan_loadN(ptr, i64)
    declare void @__asan_storeN(ptr, i64)
    """
    lines = []
    for line in text.splitlines():
        if found := _LOAD.match(line):
            lines.append(f"  call void @__asan_loadN(ptr {found['at']}, i64 {_size(found)})")
        elif found := _STORE.match(line):
            lines.append(f"  call void @__asan_storeN(ptr {found['at']}, i64 {_size(found)})")
        elif found := _SET.match(line):
            lines.append(f"  call void @__asan_storeN(ptr {found['at']}, i64 {found['size']})")
        elif re.match(r" *(%\S+ = load|store|call void @llvm\.mem)\b", line):
            raise ValueError(f"an access that is not known here: {line}")
        lines.append(line)
    return "\n".join([*lines, *[f"declare void @{name}(ptr, i64)" for name in _CALLS]])


def install() -> None:
    """Let all machine code of this process ask; none is read from the disk or written to it."""
    found, made, library = engine(), Engine._made, ctypes.CDLL(None)
    if found is None:
        return
    os.environ["DUALAD_CACHE"] = "0"
    found._known |= {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _CALLS}
    changed: dict[str, Callable] = {
        "_made": lambda self, text, level: made(self, asked(text), level),
        "_made_apart": lambda self, name, text, level: None,
    }
    for name, method in changed.items():
        setattr(Engine, name, method)
