"""Arrays of lanes reuse the memory of those before them once they are asked to; importing dualad changes nothing."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other ways")

SCRIPT = """
import resource
import numpy as np
import dualad as da

def f(x):
    for _ in range(100):
        x = np.sin(x) * x + x
    return x

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    da.jacfwd(f)(np.full(200, 0.1))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults())
da.keep_freed_memory()
faults()
print(faults())
"""

#: what a library may change for everybody, and the bytes of an array of 24 MB that the kernel is asked for
STATE = """
import ctypes, gc, os, resource, signal, sys, threading, warnings
import numpy as np

def from_the_kernel():
    names = "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    record = type("mallinfo2", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_size_t) for name in names]})
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = record
    before = ask().hblkhd
    array = np.empty(3 << 20)
    return ask().hblkhd - before

def state():
    return {
        "errors": (np.geterr(), np.geterrcall()), "printing": np.get_printoptions(),
        "warnings": (list(warnings.filters), warnings.showwarning), "hook": sys.excepthook,
        "tracing": (sys.gettrace(), sys.getprofile()), "threads": threading.active_count(),
        "gc": (gc.isenabled(), gc.get_threshold(), list(gc.callbacks)), "recursion": sys.getrecursionlimit(),
        "environment": dict(os.environ), "path": list(sys.path), "finders": list(sys.meta_path),
        "signal": signal.getsignal(signal.SIGINT), "seed": np.random.get_state()[1].tobytes(),
        "switch": sys.getswitchinterval(),
    }

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

first, size = state(), resident()
import dualad
second = state()
print([name for name in first if first[name] != second[name]], (resident() - size) / 1e6)
print(from_the_kernel())
dualad.keep_freed_memory()
print(from_the_kernel())
"""  # fmt: skip


def _printed(script: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    run = [sys.executable, "-c", script]
    return subprocess.run(run, capture_output=True, text=True, check=True, timeout=100).stdout.split()


def test_lanes_take_no_pages_from_the_kernel_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = map(int, _printed(SCRIPT, monkeypatch))
    assert after < 1000 < before  # some 20,000 where each array is asked of the kernel


@pytest.mark.skipif(
    tuple(map(int, (platform.libc_ver()[1] or "0.0").split(".")[:2])) < (2, 33), reason="glibc has no mallinfo2"
)
def test_importing_changes_nothing_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    changed, megabytes, before, after = _printed(STATE, monkeypatch)
    assert changed == "[]"
    assert float(megabytes) < 25, "the code of the package, and no array"
    assert int(before) >= 24 << 20, "the allocator asks the kernel for large arrays, as before"
    assert int(after) == 0, "and no longer after the call"
