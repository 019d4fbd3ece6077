"""Arrays of lanes reuse the memory of those before them: no page faults, in a process that has done nothing else."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource
import numpy as np
import dualad as da

def f(x):
    for _ in range(100):
        x = np.sin(x) * x + x
    return x

faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
da.jacfwd(f)(np.full(200, 0.1))
before = faults()
da.jacfwd(f)(np.full(200, 0.1))
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other ways")
def test_lanes_take_no_pages_from_the_kernel(monkeypatch) -> None:
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=100)
    assert int(ran.stdout) < 1000  # some 20,000 where each array is asked of the kernel
