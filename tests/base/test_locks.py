"""A process that is forked while another thread holds a lock of the package's is not held up by it.

Not for: LLVM's lock, which a fork waits for (compile/native/test_store.py).
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

#: in place of WAIT stands what a thread does that comes to a halt in it; TRY says what the forked process does
SCRIPT = """
import os, signal, threading, warnings
import numpy as np, dualad as da
from dualad.base.locks import new_lock
warnings.simplefilter("ignore")
inside, main = threading.Event(), threading.current_thread()

def halt():
    if threading.current_thread() is not main:
        inside.set()
        threading.Event().wait()

WAIT
threading.Thread(target=wait, daemon=True).start()
assert inside.wait(60)
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(0 if attempt() else 1)
print(os.waitpid(child, 0)[1])
os._exit(0)
"""

COMPILED = """
def f(x):
    halt()
    return np.sum(x * x)

fast, x = da.jit(f), np.arange(3.0)
wait = lambda: fast(x)
attempt = lambda: fast(x) == 5.0 and da.grad(fast)(x)[1] == 2.0
"""
DERIVED = """
from dualad.compile.call import CallProgram

program = CallProgram(da.trace(np.sin, 0.5))
wait = lambda: program.derived(halt, "key")
attempt = lambda: program.derived(lambda: True, "key")
"""
MEASURED = """
def f(x):
    halt()
    return np.sum(np.outer(x, x))

many = da.vmap(f, max_memory=100_000)
wait = lambda: many(np.ones((40, 3)))
attempt = lambda: many(np.ones((40, 3))).shape == (40,)
"""
HELD_BY_WHO_FORKS = """
def wait():
    inside.set()

mine = new_lock()
mine.acquire()

def attempt():
    open_to_others = []
    other = threading.Thread(target=lambda: open_to_others.append(mine.acquire(blocking=False)))
    other.start()
    other.join()
    mine.release()
    return open_to_others == [False]
"""


@pytest.mark.parametrize("what", [COMPILED, DERIVED, MEASURED, HELD_BY_WHO_FORKS])
def test_a_forked_process_is_not_held_up(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("WAIT", what)], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stdout.split() == ["0"], done.stderr
