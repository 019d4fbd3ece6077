"""Machine code asks AddressSanitizer's runtime about each access, and an access behind an array ends the process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adversaries.sanitized import asked

_ROOT = Path(__file__).parents[2]

_WRITES = """
import ctypes, sys
import numpy as np
from dualad.compile.native.engine import engine
from tests.adversaries import sanitized

assert sanitized.is_preloaded()
sanitized.install()
text = '''define void @write(ptr %p, i64 %i) {
start:
  %q = getelementptr double, ptr %p, i64 %i
  store <2 x double> splat (double 1.0), ptr %q, align 8
  ret void
}'''
linked = engine().compile(text, ["write"], {}, 1)
array = np.zeros(4)
ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(linked.addresses["write"])(array.ctypes.data, int(sys.argv[1]))
print(array)
"""


def _runtime() -> str:
    """Return the path of the runtime, or nothing."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        return ""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return found.stdout.strip() if os.path.isabs(found.stdout.strip()) else ""


@pytest.mark.parametrize(("place", "inside"), [(2, True), (3, False)])
def test_a_write_behind_an_array_ends_the_process(place: int, inside: bool) -> None:
    pytest.importorskip("llvmlite")
    if not (runtime := _runtime()):
        pytest.skip("there is no runtime of AddressSanitizer")
    environment = {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, "-c", _WRITES, str(place)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    if inside:
        assert ended.returncode == 0 and ended.stdout == "[0. 0. 1. 1.]\n", ended.stderr
    else:
        assert ended.returncode and "heap-buffer-overflow" in ended.stderr and "WRITE of size 16" in ended.stderr


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("%1 = load double, ptr %x", "loadN(ptr %x, i64 8)"),
        ("%a.b = load <8 x float>, ptr @t, align 4", "loadN(ptr @t, i64 32)"),
        ("%m = load <8 x i1>, ptr %x, align 1", "loadN(ptr %x, i64 1)"),
        ("store ptr null, ptr %t", "storeN(ptr %t, i64 8)"),
        ("store <4 x i32> <i32 1, i32 2, i32 3, i32 4>, ptr %y, align 4", "storeN(ptr %y, i64 16)"),
        ("call void @llvm.memset.p0.i64(ptr %y, i8 0, i64 %n, i1 false)", "storeN(ptr %y, i64 %n)"),
    ],
)
def test_each_access_is_asked_about(line: str, call: str) -> None:
    assert asked(f"  {line}").splitlines()[:2] == [f"  call void @__asan_{call}", f"  {line}"]


def test_an_access_of_another_form_is_no_silence() -> None:
    with pytest.raises(ValueError, match="not known"):
        asked("  %1 = load atomic i64, ptr %x seq_cst, align 8")
